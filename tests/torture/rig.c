#include "torture/rig.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "torture/arrivals.h"
#include "torture/sweep.h"

#include <criterion/criterion.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define N_EVENTS    TORTURE_N_FATES /* a round */
#define DEADLINE_MS 30000
#define SHORTLY_MS  1000
#define JUDGE_EVERY 25
#define N_SAMPLES   6
#define OPERATE_MS  60 /* how often an operator does something */

static void write_config(const struct torture_rig *rig)
{
        FILE *file = fopen(rig->config_path, "w");

        if (file == NULL)
                test_abort("cannot write %s", rig->config_path);
        fprintf(file,
            "postgres: { dsn: \"%s\", connect_timeout: 2s, query_timeout: 2s }\n"
            "relay: { standby: 20ms, sweep: 200ms, drain: 2s }\n"
            "sinks:\n"
            "  - name: bus\n"
            "    topics: [\"**\"]\n"
            "    start: beginning\n"
            "    retry: { first: 1ms, max: 10ms }\n"
            "    redis: { url: \"unix://%s\", stream: \"s.{{topic}}\", connect_timeout: 2s, "
            "timeout: "
            "2s }\n"
            "  - name: hook\n"
            "    topics: [\"**\"]\n"
            "    start: beginning\n"
            "    retry: { first: 1ms, max: 10ms, attempts: %d }\n"
            "    max_event_bytes: 500\n"
            "    http:\n"
            "      url: \"http://127.0.0.1:%u/\"\n"
            "      headers: [trace]\n"
            "      secret: whsec_MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE=\n"
            "      connect_timeout: 2s\n"
            "      timeout: 2s\n"
            "  - name: out\n"
            "    topics: [\"**\"]\n"
            "    start: beginning\n"
            "    retry: { first: 1ms, max: 10ms }\n"
            "    stdout: {}\n",
            rig->fixture.relay, rig->fixture.redis.socket_path, TORTURE_N_TRIES,
            http_receiver_port(rig->http));
        fclose(file);
}

void torture_rig_begin(struct torture_rig *rig)
{
        *rig = (struct torture_rig){0};
        relay_fixture_begin(&rig->fixture, postgres_shared());
        rig->http = http_receiver_start(NULL, NULL);
        rig->folder = temp_folder();
        rig->config_path = xasprintf("%s/pgcourier.yaml", rig->folder);
        rig->output_path = xasprintf("%s/output", rig->folder);
        rig->list_path = xasprintf("%s/calls", rig->folder);
        rig->arrivals = torture_arrivals_create(
            &rig->fixture.redis, rig->http, rig->output_path, rig->fixture.admin);
        /* A stream that takes no entries. */
        freeReplyObject(redis_server_run(&rig->fixture.redis, "SET s.torture.broken x"));
        write_config(rig);
}

static void publish_round(struct torture_rig *rig)
{
        char *sql = xasprintf(
            "SELECT courier.publish(CASE fate WHEN %d THEN 'torture.broken' ELSE 'torture' END,"
            " to_json('e' || n || CASE fate WHEN %d THEN repeat(' ', 500) ELSE '' END),"
            " key => CASE WHEN fate NOT IN (%d, %d) THEN 'k' || n %% %d END,"
            " headers => jsonb_build_object('trace', 'h' || n, 'n', n),"
            " deliver_at => clock_timestamp()"
            "  + CASE fate WHEN %d THEN '30ms'::interval WHEN %d THEN '1h'::interval END)"
            " FROM generate_series(%u, %u) n, LATERAL (SELECT n %% %d AS fate) f",
            FATE_BROKEN, FATE_TOO_LARGE, FATE_DELAYED, FATE_LATER, TORTURE_N_KEYS, FATE_DELAYED,
            FATE_LATER, rig->n_rounds * N_EVENTS, rig->n_rounds * N_EVENTS + N_EVENTS - 1,
            TORTURE_N_FATES);

        database_exec(rig->fixture.admin, sql);
        free(sql);
        rig->n_rounds++;
}

/* Before a round, so that each begins with something parked, and with a sink that stands still. */
static void prepare_by_hand(const struct torture_rig *rig, enum torture_manner manner)
{
        const char *const redrive[] = {getenv("PGCOURIER"), "dead", "redrive", "--yes", "--sink",
            "hook", "--reason", "attempts", "--dsn", rig->fixture.relay, NULL};

        if (rig->n_rounds > 0 && process_run(redrive, NULL, false) != 0)
                test_abort("nothing could be redriven");
        if (manner != RUN_ONCE)
                database_exec(rig->fixture.admin,
                    "INSERT INTO courier.pause (sink, by) VALUES ('out', 'operator')"
                    " ON CONFLICT DO NOTHING");
}

/* While it runs: resumes the sink, and does not wait an hour for what is due then. */
static void operate(const struct torture_rig *rig)
{
        database_exec(rig->fixture.admin,
            "DELETE FROM courier.pause;"
            "UPDATE courier.parked SET skip = true, due_at = clock_timestamp()"
            " WHERE NOT skip AND due_at > clock_timestamp() + '10 min';"
            "NOTIFY courier_control");
}

static void start(struct torture_rig *rig, struct process *process, enum torture_manner manner,
    const char *setting)
{
        char *limit = xasprintf("--nofile=%u:%u", rig->n_files, rig->n_files);
        const char *argv[] = {"prlimit", limit, getenv("PGCOURIER"), "run", "-c", rig->config_path,
            manner == RUN_ONCE ? "--once" : NULL, NULL};

        unlink(rig->list_path);
        torture_start(
            process, rig->n_files > 0 ? argv : argv + 2, rig->output_path, rig->list_path, setting);
        free(limit);
}

static long output_length(const struct torture_rig *rig)
{
        char *text = read_file(rig->output_path);
        long length = (long)strlen(text);

        free(text);
        return length;
}

/* SIGTERM is handled from here on. */
static bool has_begun(const struct torture_rig *rig, long from)
{
        char *text = read_file(rig->output_path);
        bool is_there = strlen(text) > (size_t)from && strstr(text + from, " event=starting ");

        free(text);
        return is_there;
}

/* Returns false if the deadline was missed. `from`: where the output of this run begins. */
static bool await(
    struct torture_rig *rig, struct process *process, enum torture_manner manner, long from)
{
        int64_t deadline_us = clock_monotonic_us() + DEADLINE_MS * 1000;
        int64_t operate_us = clock_monotonic_us() + OPERATE_MS * 1000;
        bool is_counted = false;
        unsigned example;

        while (clock_monotonic_us() < deadline_us) {
                if (manner != RUN_ONCE && clock_monotonic_us() >= operate_us) {
                        operate(rig);
                        operate_us = clock_monotonic_us() + OPERATE_MS * 1000;
                }
                if (!process_is_running(process))
                        return true;
                if (manner != RUN_ONCE &&
                    torture_arrivals_read(rig->arrivals, rig->n_rounds * N_EVENTS, &example) == 0)
                        return true;
                if (manner == RUN_SHORTLY && !is_counted && has_begun(rig, from)) {
                        is_counted = true;
                        deadline_us = clock_monotonic_us() + SHORTLY_MS * 1000;
                }
                usleep(5000);
        }
        return is_counted;
}

static void complain(struct torture_rig *rig, const char *setting, long from, const char *what)
{
        rig->n_faults++;
        torture_complain(rig->list_path, rig->output_path, from, setting, what);
}

int torture_rig_round(struct torture_rig *rig, enum torture_manner manner, const char *setting)
{
        long from = output_length(rig);
        struct process process;
        char what[64];
        char fault[256];
        unsigned example;
        int code;

        prepare_by_hand(rig, manner);
        publish_round(rig);
        start(rig, &process, manner, setting);
        if (!await(rig, &process, manner, from)) {
                complain(rig, setting, from, "neither arrived nor ended in time");
                process_signal(&process, SIGABRT);
                process_wait(&process, DEADLINE_MS);
                return -1;
        }
        process_signal(&process, SIGTERM);
        code = process_wait(&process, DEADLINE_MS);
        snprintf(what, sizeof what, "ended with %d", code);
        if (!torture_is_allowed(code))
                complain(rig, setting, from, what);
        torture_arrivals_read(rig->arrivals, rig->n_rounds * N_EVENTS, &example);
        if (torture_arrivals_take_fault(rig->arrivals, fault, sizeof fault))
                complain(rig, setting, from, fault);
        return code;
}

void torture_rig_judge(struct torture_rig *rig)
{
        unsigned n_events = rig->n_rounds * N_EVENTS;
        unsigned example = 0;
        unsigned n_missing = 0;
        char what[160];

        for (int i = 0; i < 5; i++) {
                int code = torture_rig_round(rig, RUN_UNTIL_THERE, NULL);
                n_events = rig->n_rounds * N_EVENTS;
                n_missing = torture_arrivals_read(rig->arrivals, n_events, &example);
                if (n_missing == 0 && code == 0)
                        break;
        }
        if (n_missing > 0) {
                snprintf(what, sizeof what, "%u events are missing, one is e%u of round %u",
                    n_missing, example, example / N_EVENTS);
                complain(rig, NULL, 0, what);
        }
        torture_arrivals_bury(rig->arrivals);
}

struct run {
        struct torture_rig *rig;
        enum torture_manner manner;
};

static void on_run(void *owner, const char *setting)
{
        const struct run *run = owner;

        torture_rig_round(run->rig, run->manner, setting);
        if (run->rig->n_rounds % JUDGE_EVERY == 0)
                torture_rig_judge(run->rig);
}

void torture_rig_run(
    struct torture_rig *rig, enum torture_manner manner, const char *kind, const char *suffix)
{
        struct run run = {rig, manner};
        const struct torture_sweep sweep = {.kind = kind,
            .suffix = suffix,
            .list_path = rig->list_path,
            .n_samples = N_SAMPLES,
            .run = on_run,
            .owner = &run};
        const char *untried;

        torture_rig_round(rig, manner, NULL); /* owns its lanes for the first time */
        torture_sweep(&sweep);
        torture_rig_judge(rig);
        untried = torture_arrivals_untried(rig->arrivals);
        cr_expect_null(untried, "no event was %s", untried);
}

void torture_rig_end(struct torture_rig *rig)
{
        http_receiver_destroy(rig->http); /* whose threads take notes */
        torture_arrivals_destroy(rig->arrivals);
        relay_fixture_end(&rig->fixture);
        free(rig->config_path);
        free(rig->output_path);
        free(rig->list_path);
        free(rig->folder);
        cr_expect_eq(rig->n_faults, 0, "%u faults", rig->n_faults);
}
