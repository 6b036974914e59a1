#include "chaos/relays.h"

#include "base/alloc.h"
#include "base/clock.h"

#include <glob.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* All points that there are. */
const char *const relay_crash_points[N_CRASH_POINTS] = {"before_send", "after_send",
    "before_settle", "before_verdicts", "after_settle_sent", "after_settled", "after_claim",
    "after_claim_parked", "after_park"};

const char *const relay_roles[N_RELAYS] = {"relay_a", "relay_b", "relay_c", "relay_d"};

/* Beyond the drain limit: the process itself, under a sanitizer, on a busy machine. */
#define STOP_GRACE_MS 7000

/* A lost session with PostgreSQL, say, is back after a while. */
#define RELOAD_AGAIN_US (300 * INT64_C(1000))

void relay_slot_init(
    struct relay_slot *slot, char name, char *folder, const char *config, uint64_t seed)
{
        *slot = (struct relay_slot){.name = name,
            .folder = folder,
            .crash_point = (unsigned)(seed % N_CRASH_POINTS),
            .random = seed};
        slot->config_path = xasprintf("%s/relay-%c.yaml", folder, name);
        slot->log_path = xasprintf("%s/relay-%c.log", folder, name);
        replace_file(slot->config_path, config);
}

void relay_slot_deinit(struct relay_slot *slot)
{
        process_kill(&slot->process);
        free(slot->config_path);
        free(slot->log_path);
        free(slot->crash_at);
}

static void choose_crash_point(struct relay_slot *slot, bool may_crash)
{
        static const unsigned latest[] = {2, 6, 100};
        unsigned at = 1 + chaos_random(&slot->random) % latest[chaos_random(&slot->random) % 3];

        free(slot->crash_at);
        slot->crash_at = NULL;
        if (chaos_random(&slot->random) % 100 >= 60 || !may_crash)
                return;
        slot->crash_point = (slot->crash_point + 1) % N_CRASH_POINTS;
        slot->crash_at = xasprintf("%s:%u", relay_crash_points[slot->crash_point], at);
}

static long log_size(const struct relay_slot *slot)
{
        struct stat log = {0};

        stat(slot->log_path, &log);
        return log.st_size;
}

void relay_slot_start(struct relay_slot *slot, bool may_crash)
{
        char *crash;
        char *asan;
        char *ubsan;

        choose_crash_point(slot, may_crash);
        slot->log_start = log_size(slot);
        slot->wants_reload = false;
        slot->is_reloading = false;
        crash = slot->crash_at != NULL ? xasprintf("PGCOURIER_CRASH_AT=%s", slot->crash_at)
                                       : xstrdup("PGCOURIER_NEVER_CRASH=1");
        /* Reports go to files: a relay that is killed has no exit code to tell of them. A
         * library that aborts without a word leaves at least a stack. */
        asan = xasprintf(
            "ASAN_OPTIONS=detect_stack_use_after_return=1:handle_abort=1:log_path=%s/sanitizer",
            slot->folder);
        ubsan = xasprintf("UBSAN_OPTIONS=log_path=%s/sanitizer:print_stacktrace=1", slot->folder);
        process_start(&slot->process,
            (const char *[]){"env", crash, asan, ubsan, getenv("PGCOURIER"), "run", "-c",
                slot->config_path, NULL},
            slot->log_path, false);
        slot->state = RELAY_RUNS;
        slot->n_starts++;
        free(crash);
        free(asan);
        free(ubsan);
}

static void go_down(struct relay_slot *slot)
{
        slot->state = RELAY_DOWN;
        slot->restart_us =
            clock_monotonic_us() + 1000 * (int64_t)(50 + chaos_random(&slot->random) % 500);
}

bool relay_slot_kill(struct relay_slot *slot)
{
        if (slot->state != RELAY_RUNS || !process_is_running(&slot->process))
                return false;
        process_kill(&slot->process);
        go_down(slot);
        return true;
}

bool relay_slot_stop(struct relay_slot *slot)
{
        if (slot->state != RELAY_RUNS || !process_is_running(&slot->process))
                return false;
        process_signal(&slot->process, SIGTERM);
        slot->state = RELAY_STOPS;
        slot->stop_by_us = clock_monotonic_us() + 1000 * (RELAY_DRAIN_MS + STOP_GRACE_MS);
        return true;
}

bool relay_slot_freeze(struct relay_slot *slot)
{
        if (slot->state != RELAY_RUNS || !process_is_running(&slot->process))
                return false;
        process_signal(&slot->process, SIGSTOP);
        slot->state = RELAY_FROZEN;
        return true;
}

void relay_slot_thaw(struct relay_slot *slot)
{
        if (slot->state != RELAY_FROZEN)
                return;
        process_signal(&slot->process, SIGCONT);
        slot->state = RELAY_RUNS;
}

void relay_slot_configure(struct relay_slot *slot, const char *config)
{
        replace_file(slot->config_path, config);
        slot->wants_reload = true;
}

static void check_sanitizers(const struct relay_slot *slot)
{
        char *pattern = xasprintf("%s/sanitizer.*", slot->folder);
        glob_t reports;

        if (glob(pattern, 0, NULL, &reports) == 0)
                test_abort("relay %c has left a sanitizer's report, %s:\n%.4000s", slot->name,
                    reports.gl_pathv[0], read_file(reports.gl_pathv[0]));
        free(pattern);
}

static bool has_logged(const struct relay_slot *slot, long since, const char *text)
{
        FILE *log = fopen(slot->log_path, "r");
        char *line = NULL;
        size_t capacity = 0;
        bool found = false;

        if (log == NULL)
                return false;
        fseek(log, since, SEEK_SET);
        while (!found && getline(&line, &capacity, log) > 0)
                found = strstr(line, text) != NULL;
        free(line);
        fclose(log);
        return found;
}

/* lane_owned, or lane_owned_elsewhere. */
bool relay_slot_serves(const struct relay_slot *slot)
{
        return slot->state == RELAY_RUNS && has_logged(slot, slot->log_start, "event=lane_owned");
}

/* Before it has said anything SIGHUP might still be its end. */
static void ask_for_reload(struct relay_slot *slot)
{
        if (clock_monotonic_us() < slot->reload_us ||
            !has_logged(slot, slot->log_start, "event=starting"))
                return;
        slot->wants_reload = false;
        slot->is_reloading = true;
        slot->reload_start = log_size(slot);
        process_signal(&slot->process, SIGHUP);
}

static enum relay_news look_at_reload(struct relay_slot *slot)
{
        if (slot->state != RELAY_RUNS)
                return NEWS_NONE;
        if (!slot->is_reloading && slot->wants_reload)
                ask_for_reload(slot);
        if (!slot->is_reloading)
                return NEWS_NONE;
        if (has_logged(slot, slot->reload_start, "event=reload_failed ")) {
                slot->is_reloading = false;
                slot->wants_reload = true;
                slot->reload_us = clock_monotonic_us() + RELOAD_AGAIN_US;
                return NEWS_RELOAD_FAILED;
        }
        if (!has_logged(slot, slot->reload_start, "event=reloaded "))
                return NEWS_NONE;
        slot->is_reloading = false;
        return has_logged(slot, slot->reload_start, "event=drain_limit_reached")
                   ? NEWS_RELOADED_UNFINISHED
                   : NEWS_RELOADED;
}

enum relay_news relay_slot_look(struct relay_slot *slot)
{
        bool was_stopping = slot->state == RELAY_STOPS;
        int code;

        if (slot->state == RELAY_DOWN)
                return NEWS_NONE;
        if (process_is_running(&slot->process)) {
                if (was_stopping && clock_monotonic_us() > slot->stop_by_us)
                        test_abort("relay %c does not stop within %d ms of its drain limit",
                            slot->name, STOP_GRACE_MS);
                return look_at_reload(slot);
        }
        code = process_wait(&slot->process, 1000);
        check_sanitizers(slot);
        go_down(slot);
        if (code == 128 + SIGKILL && slot->crash_at != NULL)
                return NEWS_CRASHED_AS_PLANNED;
        /* So early that the program had not asked to be told of signals yet. */
        if (was_stopping && code == 128 + SIGTERM &&
            !has_logged(slot, slot->log_start, "event=starting"))
                return NEWS_STOPPED;
        if (!was_stopping || code != 0)
                test_abort("relay %c %s with %d; see %s", slot->name,
                    was_stopping ? "answered SIGTERM" : "ended by itself", code, slot->log_path);
        return has_logged(slot, slot->log_start, "event=drain_limit_reached")
                   ? NEWS_STOPPED_UNFINISHED
                   : NEWS_STOPPED;
}
