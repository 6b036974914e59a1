/*
 * PostgreSQL fails over under a relay whose dsn names both servers: to a standby that is
 * synchronous, and to one that lags.
 */
#include "base/alloc.h"
#include "failover_rig.h"
#include "support/http_receiver.h"
#include "support/program.h"

#include <criterion/criterion.h>
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#define DEADLINE_MS 60000
#define N_LATE      200

/* ---- which of the writers' events ------------------------------------------------------------ */

/* A flag for each event of each writer; the writers have stopped. */
struct flags {
        bool **of_writer;
        unsigned n_writers;
};

static struct flags flags_make(const struct writers *writers)
{
        struct flags flags = {.n_writers = writers_count(writers)};

        flags.of_writer = xcalloc(flags.n_writers, sizeof *flags.of_writer);
        for (unsigned w = 0; w < flags.n_writers; w++)
                flags.of_writer[w] = xcalloc(writers_n_events(writers, w) + 1, sizeof(bool));
        return flags;
}

static void flags_free(struct flags *flags)
{
        for (unsigned w = 0; w < flags->n_writers; w++)
                free(flags->of_writer[w]);
        free(flags->of_writer);
}

/* Those whose payload the statement returns. */
static struct flags flags_of_rows(const struct writers *writers, PGconn *admin, const char *sql)
{
        struct flags flags = flags_make(writers);
        PGresult *rows = PQexec(admin, sql);
        unsigned w, n;

        cr_assert_eq(PQresultStatus(rows), PGRES_TUPLES_OK, "%s", PQerrorMessage(admin));
        for (int i = 0; i < PQntuples(rows); i++) {
                cr_assert_eq(sscanf(PQgetvalue(rows, i, 0), "[%u, %u]", &w, &n), 2);
                flags.of_writer[w][n] = true;
        }
        PQclear(rows);
        return flags;
}

static struct flags flags_of_arrivals(const struct writers *writers, const struct history *history)
{
        struct flags flags = flags_make(writers);

        for (size_t i = 0; i < history->n_arrivals; i++)
                flags.of_writer[history->arrivals[i].writer][history->arrivals[i].number] = true;
        return flags;
}

/* How many are in the first and not in the second. */
static unsigned count_only_in(
    const struct writers *writers, const struct flags *first, const struct flags *second)
{
        unsigned count = 0;

        for (unsigned w = 0; w < first->n_writers; w++)
                for (unsigned n = 0; n < writers_n_events(writers, w); n++)
                        count += first->of_writer[w][n] && !second->of_writer[w][n];
        return count;
}

/* ---- a synchronous standby ------------------------------------------------------------------- */

/* Others see a transaction only when the standby has it. */
static void expect_all_in_log(struct stage *stage)
{
        const struct writers *writers = stage->fixture.writers;
        struct flags arrived = flags_of_arrivals(writers, &stage->fixture.history);
        struct flags in_log = flags_of_rows(
            writers, stage->fixture.admin, "SELECT payload::text FROM courier.outbox");

        cr_expect_eq(count_only_in(writers, &arrived, &in_log), 0,
            "events were delivered that the new primary never had");
        flags_free(&in_log);
        flags_free(&arrived);
}

static void fail_over_twice(const char *synchronous_commit)
{
        struct stage stage;
        struct relay_process *relay;
        char *sql = xasprintf("ALTER ROLE app SET synchronous_commit = %s", synchronous_commit);

        stage_begin(&stage, true);
        database_exec(stage.fixture.admin, sql);
        relay = stage_start_relay(&stage, "");
        relay_fixture_write(&stage.fixture, 31);
        relay_fixture_await_more(&stage.fixture, 300);
        stage_fail_over(&stage);
        relay_fixture_await_more(&stage.fixture, 300);
        postgres_rewind(stage.standby, stage.primary);
        postgres_wait_for_standby(stage.primary);
        relay_fixture_await_more(&stage.fixture, 300);
        stage_fail_over(&stage);
        relay_fixture_await_more(&stage.fixture, 300);
        relay_fixture_check(&stage.fixture, relay);
        expect_all_in_log(&stage);
        stage_end(&stage, relay);
        free(sql);
}

Test(failover, loses_nothing_with_a_synchronous_standby)
{
        fail_over_twice("on");
}

Test(failover, loses_nothing_with_a_standby_that_applies_before_it_answers)
{
        fail_over_twice("remote_apply");
}

/* The relay stands still meanwhile, so that the cursor can be seen before it moves on. */
Test(failover, repeats_what_the_cursor_of_the_new_primary_has_not_passed)
{
        struct stage stage;
        struct relay_fixture *fixture = &stage.fixture;
        struct relay_process *relay;
        struct flags not_passed, seen;

        stage_begin(&stage, true);
        relay = stage_start_relay(&stage, "");
        relay_fixture_write(fixture, 32);
        relay_fixture_await_more(fixture, 300);
        process_signal(&relay->process, SIGSTOP);
        stage_fail_over(&stage);
        database_exec(fixture->admin,
            "CREATE TABLE not_passed AS SELECT payload::text FROM courier.outbox AS event,"
            " courier.cursor AS lane WHERE NOT courier.has_passed(lane.from_snapshot,"
            " lane.until_snapshot, lane.last_id, event.id, event.txid)");
        process_signal(&relay->process, SIGCONT);
        relay_fixture_await_more(fixture, 300);
        relay_fixture_check(fixture, relay);

        not_passed =
            flags_of_rows(fixture->writers, fixture->admin, "SELECT payload FROM not_passed");
        seen = flags_make(fixture->writers);
        for (size_t i = 0; i < fixture->history.n_arrivals; i++) {
                struct arrival event = fixture->history.arrivals[i];
                cr_expect(!seen.of_writer[event.writer][event.number] ||
                              not_passed.of_writer[event.writer][event.number],
                    "event %u of writer %u was passed and came again", event.number, event.writer);
                seen.of_writer[event.writer][event.number] = true;
        }
        flags_free(&seen);
        flags_free(&not_passed);
        stage_end(&stage, relay);
}

Test(failover, repeats_nothing_of_a_sink_that_delivers_exactly_once)
{
        struct stage stage;
        struct relay_process *relay;
        struct filter_result verdict;

        stage_begin(&stage, true);
        relay = stage_start_relay(&stage, ", exactly_once: true");
        relay_fixture_write(&stage.fixture, 33);
        relay_fixture_await_more(&stage.fixture, 300);
        stage_fail_over(&stage);
        relay_fixture_await_more(&stage.fixture, 300);
        verdict = relay_fixture_check(&stage.fixture, relay);

        cr_expect_eq(verdict.n_repeated, 0, "%zu events came twice", verdict.n_repeated);
        stage_end(&stage, relay);
}

/* Or else its marks would be removed for a settle that the new primary does not know. */
Test(failover, makes_a_sink_that_delivers_exactly_once_wait_for_the_standby)
{
        struct stage stage;
        struct relay_fixture *fixture = &stage.fixture;
        struct relay_process *relay;

        stage_begin(&stage, true);
        relay = stage_start_relay(&stage, ", exactly_once: true");
        relay_wait_for_log(relay, "event=lane_owned ", 30000);
        process_signal(&relay->process, SIGSTOP);
        publish(fixture->admin, "t", "k", "one");
        postgres_stop_receiving(stage.standby);
        process_signal(&relay->process, SIGCONT);
        relay_fixture_await(fixture, "events", 1);
        await_in_database(fixture->admin,
            "SELECT EXISTS (SELECT FROM pg_stat_activity"
            " WHERE usename = 'relay' AND wait_event = 'SyncRep')",
            "the settle waits");
        stage_fail_over(&stage);
        publish(fixture->admin, "t", "k", "two");
        relay_fixture_await(fixture, "events", 2);
        relay_fixture_expect_field(fixture, "events", 1, "payload", "\"two\"");
        relay_stop(relay);
        stage_end(&stage, relay);
}

/* A commit that waits keeps its locks, and to make a partition takes one that keeps readers out. */
Test(failover, reads_on_while_the_standby_does_not_answer)
{
        struct stage stage;
        struct relay_process *relay;

        stage_begin(&stage, true);
        postgres_stop_receiving(stage.standby);
        database_exec(stage.fixture.admin, "SET synchronous_commit = local");
        publish(stage.fixture.admin, "t", "k", "one");
        relay = stage_start_relay(&stage, "");
        relay_wait_for_log(relay, "event=partition_made", 30000);
        publish(stage.fixture.admin, "t", "k", "two");
        relay_fixture_await(&stage.fixture, "events", 2);
        relay_stop(relay);
        stage_end(&stage, relay);
}

Test(failover, maintains_partitions_while_the_standby_does_not_answer)
{
        struct stage stage;
        struct program_run run;

        stage_begin(&stage, true);
        postgres_stop_receiving(stage.standby);
        database_exec(stage.fixture.admin, "SET synchronous_commit = local");
        publish(stage.fixture.admin, "t", "k", "one");
        run = program_run(NULL, "maintain", "--dsn", stage.fixture.dsn, NULL);

        cr_expect_eq(run.code, 0, "%s", run.err);
        cr_expect_eq(strncmp(run.out, "made ", 5), 0, "%s", run.out);
        program_run_free(&run);
        stage_end(&stage, NULL);
}

static void cancel_wait(struct stage *stage)
{
        database_exec(stage->fixture.admin,
            "SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE wait_event = 'SyncRep'");
}

static void restart_primary(struct stage *stage)
{
        postgres_stop_immediate(stage->primary);
        postgres_start_again(stage->primary);
}

/* Others see a transaction when its wait ends, however it ends. */
static void end_wait_for_standby(void (*end_wait)(struct stage *stage))
{
        struct stage stage;
        struct relay_fixture *fixture = &stage.fixture;
        struct relay_process *relay;
        PGconn *publisher;

        stage_begin(&stage, true);
        relay = stage_start_relay(&stage, "");
        relay_wait_for_log(relay, "event=lane_owned ", 30000);
        postgres_stop_receiving(stage.standby);
        publisher = stage_connect(&stage, stage.primary);
        cr_assert_eq(PQsendQuery(publisher, "SELECT courier.publish('t', '1')"), 1);
        await_in_database(fixture->admin,
            "SELECT EXISTS (SELECT FROM pg_stat_activity WHERE wait_event = 'SyncRep')",
            "the commit waits");
        cr_expect_eq(redis_server_count(&fixture->redis, "XLEN events"), 0);
        end_wait(&stage);
        relay_fixture_await(fixture, "events", 1);
        stage_fail_over(&stage);
        cr_expect_eq(database_integer(fixture->admin, "SELECT count(*) FROM courier.outbox"), 0);
        relay_stop(relay);
        PQfinish(publisher);
        stage_end(&stage, relay);
}

Test(failover, delivers_what_the_standby_has_not_if_the_wait_for_it_is_cancelled)
{
        end_wait_for_standby(cancel_wait);
}

Test(failover, delivers_what_the_standby_has_not_if_the_primary_restarts)
{
        end_wait_for_standby(restart_primary);
}

/* ---- a standby that lags --------------------------------------------------------------------- */

static bool has_all_of_the_log(void *stage_)
{
        struct stage *stage = stage_;
        struct relay_fixture *fixture = &stage->fixture;
        struct flags arrived, in_log;
        unsigned n_missing;

        history_read_stream(&fixture->history, &fixture->redis, "events");
        arrived = flags_of_arrivals(fixture->writers, &fixture->history);
        in_log = flags_of_rows(
            fixture->writers, fixture->admin, "SELECT payload::text FROM courier.outbox");
        n_missing = count_only_in(fixture->writers, &in_log, &arrived);
        flags_free(&in_log);
        flags_free(&arrived);
        return n_missing == 0;
}

/* Their ids are given to other events on the new primary. */
static void expect_ids_again(struct stage *stage, const char *former_events)
{
        char *sql = xasprintf("SELECT count(*) FROM json_each_text('%s') AS former"
                              " JOIN courier.outbox AS event ON event.id = former.key::bigint"
                              " WHERE event.event_id <> former.value::uuid",
            former_events);

        cr_expect_gt(database_integer(stage->fixture.admin, sql), 0);
        free(sql);
}

/* Until so many events are delivered, and settled, that were published after this. */
static void await_passed_from_now_on(struct stage *stage)
{
        PGconn *admin = stage->fixture.admin;
        int64_t last_id = database_integer(admin, "SELECT max(id) FROM courier.outbox");
        char *sql = xasprintf("SELECT count(*) >= %d FROM courier.outbox AS event,"
                              " courier.cursor AS lane WHERE id > %" PRId64
                              " AND courier.has_passed(lane.from_snapshot,"
                              " lane.until_snapshot, lane.last_id, event.id, event.txid)",
            N_LATE, last_id);

        await_in_database(admin, sql, "late events are settled");
        free(sql);
}

static void fail_over_to_the_past(const char *redis_settings)
{
        struct stage stage;
        struct relay_fixture *fixture = &stage.fixture;
        struct relay_process *relay;
        struct filter_result verdict;
        struct flags arrived, in_log;
        char *former_events;

        stage_begin(&stage, false);
        relay = stage_start_relay(&stage, redis_settings);
        relay_fixture_write(fixture, 34);
        relay_fixture_await_more(fixture, 200);
        postgres_stop_receiving(stage.standby);
        await_passed_from_now_on(&stage);
        former_events = database_value(
            fixture->admin, "SELECT json_object_agg(id, event_id) FROM courier.outbox");
        stage_fail_over(&stage);
        relay_fixture_await_more(fixture, 600);
        writers_stop(fixture->writers);
        wait_until(has_all_of_the_log, &stage, DEADLINE_MS, "all that is in the log arrives");
        relay_stop(relay);

        expect_ids_again(&stage, former_events);
        history_read_stream(&fixture->history, &fixture->redis, "events");
        verdict = history_judge(&fixture->history, fixture->writers);
        cr_expect_eq(verdict.n_misordered, 0, "%s", verdict.first_fault);
        cr_expect_eq(verdict.n_uncommitted, 0, "%s", verdict.first_fault);
        arrived = flags_of_arrivals(fixture->writers, &fixture->history);
        in_log = flags_of_rows(
            fixture->writers, fixture->admin, "SELECT payload::text FROM courier.outbox");
        cr_expect_geq(count_only_in(fixture->writers, &arrived, &in_log), N_LATE,
            "events were delivered that the new primary never had");
        flags_free(&in_log);
        flags_free(&arrived);
        free(former_events);
        stage_end(&stage, relay);
}

Test(failover, delivers_all_that_a_lagging_standby_has)
{
        fail_over_to_the_past("");
}

/* Marks of events whose ids came again mean these events, and not the new ones. */
Test(failover, delivers_all_that_a_lagging_standby_has_exactly_once)
{
        fail_over_to_the_past(", exactly_once: true");
}

static void publish_numbers(PGconn *connection, int from, int to)
{
        char *sql = xasprintf("SELECT courier.publish('t', to_json(n), key => 'k')"
                              " FROM generate_series(%d, %d) AS n ORDER BY n",
            from, to);

        database_exec(connection, sql);
        free(sql);
}

/* Of the former primary the relay knew which ids its transactions had drawn by then. Here the same
 * transaction ids draw lower ones. */
Test(failover, finds_late_commits_below_the_ids_that_the_former_primary_had_reached)
{
        struct stage stage;
        struct relay_fixture *fixture = &stage.fixture;
        struct relay_process *relay;
        PGconn *standby, *slow;

        stage_begin(&stage, false);
        relay = stage_start_relay(&stage, "");
        relay_wait_for_log(relay, "event=lane_owned ", 30000);
        process_signal(&relay->process, SIGSTOP); /* so that it sees no frame in between */
        publish_numbers(fixture->admin, 1, 1500);
        standby = stage_connect(&stage, stage.standby);
        await_in_database(
            standby, "SELECT count(*) = 1500 FROM courier.outbox", "the standby has them");
        PQfinish(standby);
        postgres_stop_receiving(stage.standby);
        publish_numbers(fixture->admin, 1501, 3500);
        process_signal(&relay->process, SIGCONT);
        relay_fixture_await(fixture, "events", 3500);
        publish(fixture->admin, "t", "k", "behind all these");
        relay_fixture_await(fixture, "events", 3501);
        stage_fail_over(&stage);
        relay_fixture_await(fixture, "events", 3501 + 1500);

        database_exec(fixture->admin,
            "DO $$ BEGIN FOR i IN 1..200 LOOP PERFORM pg_current_xact_id(); COMMIT; END LOOP; "
            "END $$");
        slow = stage_connect(&stage, stage.primary);
        database_exec(slow, "BEGIN");
        publish(slow, "t", "slow", "late");
        for (int i = 1; i <= 3; i++) {
                publish(fixture->admin, "t", "k", "early");
                relay_fixture_await(fixture, "events", 3501 + 1500 + i);
        }
        database_exec(slow, "COMMIT");
        relay_fixture_await(fixture, "events", 3501 + 1500 + 4);
        relay_stop(relay);
        PQfinish(slow);
        stage_end(&stage, relay);
}

static struct relay_process *start_hooks(struct stage *stage, const struct http_receiver *http)
{
        unsigned port = http_receiver_port(http);
        char *sql = xasprintf("INSERT INTO courier.receiver (sink, name, url)"
                              " SELECT 'hooks', name, 'http://127.0.0.1:%u/' || name"
                              " FROM unnest('{one,two}'::text[]) AS name",
            port);

        database_exec(stage->fixture.admin, sql);
        free(sql);
        return relay_start("postgres: {dsn: \"%s\"}\n"
                           "relay: {standby: 50ms, sweep: 1h}\n"
                           "sinks:\n"
                           "  - name: hooks\n"
                           "    topics: [\"**\"]\n"
                           "    http: {receivers: table, allow_networks: [127.0.0.1],"
                           " allow_ports: [%u]}\n",
            stage->fixture.relay, port);
}

static void expect_numbers(struct http_receiver *http, const char *target, int from, int to)
{
        int expected = from;

        for (unsigned i = 0; i < http_receiver_n_requests(http); i++) {
                const struct http_request *request = http_receiver_request(http, i);
                int number = (int)strtol(request->body, NULL, 10);
                if (strcmp(request->target, target) == 0 && number >= from && number <= to)
                        cr_expect_eq(number, expected++, "%s: %d", target, number);
        }
        cr_expect_eq(expected, to + 1, "%s", target);
}

/* Receivers share pages, and the end of the log, as it was last seen. */
Test(failover, delivers_all_that_a_lagging_standby_has_to_each_receiver)
{
        struct stage stage;
        struct http_receiver *http = http_receiver_start(NULL, NULL);
        struct relay_process *relay;
        PGconn *standby;

        stage_begin(&stage, false);
        relay = start_hooks(&stage, http);
        publish_numbers(stage.fixture.admin, 1, 20);
        http_receiver_wait(http, 40, DEADLINE_MS);
        standby = stage_connect(&stage, stage.standby);
        stage_await_settled(standby, 40);
        PQfinish(standby);
        postgres_stop_receiving(stage.standby);
        publish_numbers(stage.fixture.admin, 101, 160);
        http_receiver_wait(http, 160, DEADLINE_MS);
        stage_fail_over(&stage);
        publish_numbers(stage.fixture.admin, 201, 220);
        http_receiver_wait(http, 200, DEADLINE_MS);
        relay_stop(relay);
        for (int i = 0; i < 2; i++) {
                const char *target = i == 0 ? "/one" : "/two";
                expect_numbers(http, target, 1, 20);
                expect_numbers(http, target, 101, 160);
                expect_numbers(http, target, 201, 220);
        }
        http_receiver_destroy(http);
        stage_end(&stage, relay);
}
