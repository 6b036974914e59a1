#include "admin/attention.h"

#include "base/bytes.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#define OLD_S         300    /* an event that waits for so long is late */
#define HELD_S        300    /* a snapshot that is held for so long holds back vacuum */
#define HELD_XIDS     100000 /* or one with so many transactions since, where no time is known */
#define FULL_ENOUGH   0.05   /* of the notification queue, which has 8 GB */
#define MAX_KEYS_TOLD 5

enum level { LEVEL_OF_ERROR, LEVEL_OF_WARNING, LEVEL_OF_NOTE, N_LEVELS };

struct findings {
        json_t *list;
        const char *file; /* of the configuration, for commands */
};

static const char *const level_names[N_LEVELS] = {"error", "warning", "note"};

static const json_t *get(const json_t *object, const char *name)
{
        return json_object_get(object, name);
}

/* "" where there is none. */
static const char *text_of(const json_t *object, const char *name)
{
        const char *text = json_string_value(get(object, name));

        return text != NULL ? text : "";
}

static double number_of(const json_t *object, const char *name)
{
        return json_number_value(get(object, name));
}

static void add(struct findings *findings, enum level level, const char *sink,
    const struct bytes *command, const char *format, ...) __attribute__((format(printf, 5, 6)));

static void add(struct findings *findings, enum level level, const char *sink,
    const struct bytes *command, const char *format, ...)
{
        va_list arguments;
        json_t *words;

        va_start(arguments, format);
        words = json_vsprintf(format, arguments);
        va_end(arguments);
        json_array_append_new(findings->list,
            json_pack("{s:s s:s? s:o s:s?}", "level", level_names[level], "sink", sink, "words",
                words, "command", command != NULL ? command->data : NULL));
}

/* How many bytes of it are at most `max`, and end with a whole character: for %.*s. */
static int up_to(const char *text, int max)
{
        int length = (int)strnlen(text, (size_t)max + 1);

        if (length <= max)
                return length;
        while (max > 0 && ((unsigned char)text[max] & 0xc0) == 0x80)
                max--;
        return max;
}

/* ": " and the words, if there are any. */
static const char *colon(const char *words)
{
        return *words != '\0' ? ": " : "";
}

void attention_duration(char *text, size_t size, double seconds)
{
        long long whole = (long long)(seconds + 0.5);

        if (seconds < 10)
                snprintf(text, size, "%.1f s", seconds);
        else if (whole < 60)
                snprintf(text, size, "%lld s", whole);
        else if (whole < 3600)
                snprintf(text, size, "%lld min %lld s", whole / 60, whole % 60);
        else if (whole < 86400)
                snprintf(text, size, "%lld h %lld min", whole / 3600, whole / 60 % 60);
        else
                snprintf(text, size, "%lld d %lld h", whole / 86400, whole / 3600 % 24);
}

/* "3 events and 1 parked delivery wait, the oldest for 12 s". */
static const char *waiting(char *text, size_t size, const json_t *sink)
{
        const json_t *backlog = get(sink, "backlog");
        long long n = (long long)number_of(backlog, "events");
        long long n_parked = (long long)(number_of(sink, "retrying") + number_of(sink, "blocked"));
        char events[48] = "", parked[48] = "", age[48];

        if (!json_is_object(backlog)) {
                snprintf(text, size, "its events wait");
                return text;
        }
        attention_duration(age, sizeof age, number_of(backlog, "oldest_age"));
        if (n > 0)
                snprintf(events, sizeof events, "%s%lld event%s",
                    json_is_true(get(backlog, "is_exact")) ? "" : "about ", n, n == 1 ? "" : "s");
        if (n_parked > 0)
                snprintf(parked, sizeof parked, "%lld parked deliver%s", n_parked,
                    n_parked == 1 ? "y" : "ies");
        if (n + n_parked == 0)
                snprintf(text, size, "nothing waits");
        else
                snprintf(text, size, "%s%s%s wait%s, the oldest for %s", events,
                    n > 0 && n_parked > 0 ? " and " : "", parked, n + n_parked == 1 ? "s" : "",
                    age);
        return text;
}

static const json_t *find_pause(const json_t *sink, const char *by)
{
        const json_t *pause;
        size_t i;

        json_array_foreach(get(sink, "pauses"), i, pause)
        {
                if (strcmp(text_of(pause, "by"), by) == 0)
                        return pause;
        }
        return NULL;
}

static void add_state(struct findings *findings, const json_t *sink)
{
        const char *name = text_of(sink, "name");
        const char *state = text_of(sink, "state");
        const char *reason = text_of(sink, "state_reason");
        const char *said = text_of(get(sink, "last_error"), "words");
        const json_t *operators = find_pause(sink, "operator");
        const json_t *relays = find_pause(sink, "relay");
        struct bytes command = {0};
        char wait[160];

        waiting(wait, sizeof wait, sink);
        if (strcmp(state, "unowned") == 0) {
                bytes_printf(&command, "pgcourier run -c %s", findings->file);
                add(findings, LEVEL_OF_ERROR, name, &command, "no relay runs it: %s", wait);
                bytes_clear(&command);
        }
        if (strcmp(state, "paused") == 0 || operators != NULL) {
                const char *why = operators != NULL ? text_of(operators, "reason") : reason;
                const char *since =
                    operators != NULL ? text_of(operators, "since") : text_of(sink, "state_since");

                bytes_printf(&command, "pgcourier resume %s", name);
                add(findings, LEVEL_OF_WARNING, name, &command, "paused by an operator%s%s%s%s; %s",
                    *since != '\0' ? " since " : "", since, colon(why), why, wait);
        } else if (strcmp(state, "refused") == 0 || relays != NULL) {
                const char *why = relays != NULL ? text_of(relays, "reason") : reason;

                bytes_printf(&command, "pgcourier resume %s", name);
                add(findings, LEVEL_OF_ERROR, name, &command,
                    "its destination refuses us until somebody changes its settings or ours%s%s; "
                    "%s",
                    colon(why), why, wait);
        } else if (strcmp(state, "down") == 0) {
                const char *why = *reason != '\0' ? reason : said;

                bytes_printf(&command, "pgcourier check -c %s --connect", findings->file);
                add(findings, LEVEL_OF_ERROR, name, &command,
                    "its destination is down%s%s; %s; it goes on by itself when the destination is "
                    "back",
                    colon(why), why, wait);
        } else if (strcmp(state, "stalled") == 0) {
                const char *why = *said != '\0' ? said : reason;

                bytes_printf(&command, "pgcourier check -c %s --connect", findings->file);
                add(findings, LEVEL_OF_ERROR, name, &command,
                    "nothing gets delivered although nobody paused it: %s%s%s", wait, colon(why),
                    why);
        } else if (strcmp(state, "running") == 0 && number_of(get(sink, "backlog"), "events") > 0 &&
                   number_of(get(sink, "backlog"), "oldest_age") >= OLD_S) {
                add(findings, LEVEL_OF_WARNING, name, NULL, "it is behind: %s", wait);
        }
        bytes_deinit(&command);
}

static void add_endpoints(struct findings *findings, const json_t *sink)
{
        const json_t *endpoints = get(sink, "endpoints");
        long long n_failing = (long long)number_of(endpoints, "failing");
        long long n_disabled = (long long)number_of(endpoints, "disabled");
        struct bytes command = {0};

        if (n_failing + n_disabled == 0)
                return;
        bytes_printf(&command, "pgcourier endpoint list --sink %s", text_of(sink, "name"));
        add(findings, LEVEL_OF_WARNING, text_of(sink, "name"), &command,
            "of its %lld endpoints %lld fail and %lld are disabled",
            (long long)number_of(endpoints, "total"), n_failing, n_disabled);
        bytes_deinit(&command);
}

/* "5", or "more than 5" where the count stopped. */
static void add_counts(struct findings *findings, const json_t *sink)
{
        const char *name = text_of(sink, "name");
        const char *next = text_of(sink, "next_retry_at");
        const char *more = json_is_false(get(sink, "counts_are_exact")) ? "at least " : "";
        long long n_dead = (long long)number_of(sink, "dead");
        long long n_retrying = (long long)number_of(sink, "retrying");
        struct bytes command = {0};

        if (n_dead > 0) {
                bytes_printf(&command, "pgcourier dead list --sink %s", name);
                add(findings, LEVEL_OF_WARNING, name, &command,
                    "%s%lld dead letter%s: given up, kept until somebody "
                    "redrives or drops them",
                    more, n_dead, n_dead == 1 ? "" : "s");
                bytes_clear(&command);
        }
        if (n_retrying > 0) {
                bytes_printf(&command, "pgcourier parked list --sink %s", name);
                add(findings, LEVEL_OF_NOTE, name, &command,
                    "%s%lld deliver%s failed and will be tried again%s%s", more, n_retrying,
                    n_retrying == 1 ? "y" : "ies", *next != '\0' ? ", next at " : "", next);
        }
        bytes_deinit(&command);
}

static void add_keys(struct findings *findings, const json_t *keys)
{
        const json_t *key;
        size_t i;

        json_array_foreach(keys, i, key)
        {
                const char *sink = text_of(key, "sink");
                const char *name = text_of(key, "key");
                const char *since = text_of(key, "since");
                const char *next = text_of(key, "next_retry_at");
                const char *said = text_of(key, "error");
                long long n = (long long)number_of(key, "waiting");
                struct bytes command = {0};

                if (i == MAX_KEYS_TOLD)
                        break;
                if (json_is_null(get(key, "behind_id"))) /* its first is under way now */
                        continue;
                bytes_printf(&command, "pgcourier parked skip --sink %s %lld", sink,
                    (long long)number_of(key, "behind_id"));
                add(findings, LEVEL_OF_WARNING, sink, &command,
                    "key \"%.*s\": %lld event%s behind %lld, which fails%s%s%s%.*s; tried "
                    "again%s%s, "
                    "and given up by this command",
                    up_to(name, 64), name, n, n == 1 ? " waits" : "s wait",
                    (long long)number_of(key, "behind_id"), *since != '\0' ? " since " : "", since,
                    colon(said), up_to(said, 200), said, *next != '\0' ? " at " : "", next);
                bytes_deinit(&command);
        }
}

static void add_holder(struct findings *findings, const json_t *holder)
{
        bool has_age = json_is_number(get(holder, "age"));
        const char *what = text_of(holder, "what");
        long long pid = (long long)number_of(holder, "pid");
        struct bytes command = {0}, who = {0};
        char age[48];

        if (has_age ? number_of(holder, "age") < HELD_S : number_of(holder, "age_xids") < HELD_XIDS)
                return;
        attention_duration(age, sizeof age, number_of(holder, "age"));
        if (pid > 0) {
                bytes_printf(&command, "psql -c 'SELECT pg_terminate_backend(%lld)'", pid);
                bytes_printf(&who, "pid %lld, ", pid);
        }
        bytes_append_text(&who, what);
        add(findings, LEVEL_OF_WARNING, NULL, pid > 0 ? &command : NULL,
            "a snapshot has been held for %s%s%lld transactions by %s: until it ends vacuum "
            "removes no dead rows, and everything here gets slower",
            has_age ? age : "", has_age ? " and " : "", (long long)number_of(holder, "age_xids"),
            who.data);
        bytes_deinit(&who);
        bytes_deinit(&command);
}

static void add_source(struct findings *findings, const json_t *source)
{
        const char *said = text_of(source, "error");
        double usage = number_of(source, "notify_queue_usage");
        struct bytes doctor = {0};

        bytes_printf(&doctor, "pgcourier doctor -c %s", findings->file);
        if (json_is_false(get(source, "up")))
                add(findings, LEVEL_OF_ERROR, NULL, &doctor,
                    "PostgreSQL is not reachable%s%s; events wait in the outbox", colon(said),
                    said);
        if (usage >= FULL_ENOUGH)
                add(findings, LEVEL_OF_ERROR, NULL, &doctor,
                    "the server's notification queue is %.0f %% full, because a session listens "
                    "and does not end its transaction; when it is full, publishing fails",
                    usage * 100);
        add_holder(findings, get(source, "oldest_xmin"));
        bytes_deinit(&doctor);
}

static bool is_orphan(const json_t *orphans, const char *sink)
{
        const json_t *orphan;
        size_t i;

        json_array_foreach(orphans, i, orphan)
        {
                if (strcmp(text_of(orphan, "sink"), sink) == 0)
                        return true;
        }
        return false;
}

static void add_retention(struct findings *findings, const json_t *retention, const json_t *orphans)
{
        const json_t *holders = get(retention, "held_by"), *holder;
        long long n_held = (long long)number_of(retention, "held_partitions");
        long long n_more = (long long)number_of(retention, "holders");
        long long n_lost = (long long)number_of(retention, "lost_events");
        struct bytes command = {0}, who = {0};
        char time[48];
        size_t i;

        bytes_printf(&command, "pgcourier doctor -c %s", findings->file);
        json_array_foreach(holders, i, holder)
        {
                const char *name = json_string_value(holder);
                bytes_printf(&who, "%s%s", i > 0 ? ", " : "", name);
                n_more--;
                if (is_orphan(orphans, name)) {
                        bytes_clear(&command);
                        bytes_printf(&command, "pgcourier cursor drop %s", name);
                }
        }
        if (n_more > 0)
                bytes_printf(&who, " and %lld more", n_more);
        attention_duration(time, sizeof time, number_of(retention, "held_for"));
        if (n_held > 0 && number_of(retention, "held_for") >= OLD_S)
                add(findings, LEVEL_OF_WARNING, NULL, &command,
                    "%lld partition%s of the outbox, %.1f MB, should have gone %s ago, but %s "
                    "still "
                    "needed by %s: the outbox grows meanwhile",
                    n_held, n_held == 1 ? "" : "s", number_of(retention, "held_bytes") / 1e6, time,
                    n_held == 1 ? "is" : "are", who.data);
        bytes_clear(&command);
        bytes_printf(&command, "psql -c 'SELECT * FROM courier.outbox_loss ORDER BY lost_at'");
        if (n_lost > 0)
                add(findings, LEVEL_OF_ERROR, NULL, &command,
                    "outbox.retention_max dropped %lld event%s in the last day before a sink had "
                    "%s",
                    n_lost, n_lost == 1 ? "" : "s", n_lost == 1 ? "it" : "them");
        bytes_clear(&command);
        bytes_printf(&command, "pgcourier maintain -c %s", findings->file);
        if (number_of(retention, "default_bytes") > 0)
                add(findings, LEVEL_OF_WARNING, NULL, &command,
                    "events are in the default partition of the outbox, because no other was made "
                    "in time: publishers will have to wait while that is put right");
        bytes_deinit(&who);
        bytes_deinit(&command);
}

static void add_orphans(struct findings *findings, const json_t *orphans)
{
        const json_t *orphan;
        size_t i;

        json_array_foreach(orphans, i, orphan)
        {
                const char *sink = text_of(orphan, "sink");
                const char *since = text_of(orphan, "settled_at");
                struct bytes command = {0};

                bytes_printf(&command, "pgcourier cursor drop %s", sink);
                add(findings, LEVEL_OF_WARNING, sink, &command,
                    "no relay's configuration has this sink, but its cursor is here, %lld ids "
                    "behind%s%s: the outbox keeps all events for it",
                    (long long)number_of(orphan, "behind"),
                    *since != '\0' ? ", unmoved since " : "", since);
                bytes_deinit(&command);
        }
}

static void add_config(struct findings *findings, const json_t *config)
{
        const char *said = text_of(config, "last_reload_error");
        struct bytes check = {0};

        bytes_printf(&check, "pgcourier check -c %s", findings->file);
        if (json_is_false(get(config, "last_reload_ok")))
                add(findings, LEVEL_OF_WARNING, NULL, &check,
                    "the last reload failed, the configuration before it stays in force%s%s",
                    colon(said), said);
        bytes_deinit(&check);
}

static json_t *sorted(json_t *findings)
{
        json_t *result = json_array();
        json_t *finding;
        size_t i;

        for (int level = 0; level < N_LEVELS; level++)
                json_array_foreach(findings, i, finding)
                {
                        if (strcmp(text_of(finding, "level"), level_names[level]) == 0)
                                json_array_append(result, finding);
                }
        json_decref(findings);
        return result;
}

json_t *attention_find(const json_t *status)
{
        const char *file = text_of(get(status, "config"), "file");
        struct findings all = {.list = json_array(), .file = *file != '\0' ? file : "FILE"};
        struct findings *findings = &all;
        const json_t *sink;
        size_t i;

        add_source(findings, get(status, "source"));
        add_retention(findings, get(get(status, "source"), "retention"), get(status, "orphans"));
        add_config(findings, get(status, "config"));
        json_array_foreach(get(status, "sinks"), i, sink)
        {
                add_state(findings, sink);
                add_endpoints(findings, sink);
                add_counts(findings, sink);
        }
        add_keys(findings, get(status, "blocked_keys"));
        add_orphans(findings, get(status, "orphans"));
        return sorted(findings->list);
}

unsigned attention_count(const json_t *findings)
{
        const json_t *finding;
        unsigned n = 0;
        size_t i;

        json_array_foreach(findings, i, finding) n +=
            strcmp(text_of(finding, "level"), level_names[LEVEL_OF_NOTE]) != 0;
        return n;
}
