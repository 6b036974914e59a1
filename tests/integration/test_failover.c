/*
 * PostgreSQL fails over under a relay whose dsn names both servers: to a standby that is
 * synchronous, to one that lags; and the old primary comes back and accepts writes.
 */
#include "base/alloc.h"
#include "support/postgres_replica.h"
#include "support/program_expect.h"
#include "support/relay_fixture.h"

#include <criterion/criterion.h>
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#define DEADLINE_MS 60000
#define WINDOW      50
#define N_LATE      200

struct stage {
        struct relay_fixture fixture; /* its dsns name both; its session is with the primary */
        struct postgres *primary;
        struct postgres *standby;
        char *database;
};

static void begin(struct stage *stage, bool is_synchronous)
{
        struct relay_fixture *fixture = &stage->fixture;

        *stage = (struct stage){.primary = postgres_start_replicated()};
        relay_fixture_begin(fixture, stage->primary);
        stage->database = xstrdup(PQdb(fixture->admin));
        stage->standby = postgres_start_standby(stage->primary);
        if (is_synchronous)
                postgres_wait_for_standby(stage->primary);
        free(fixture->app);
        free(fixture->relay);
        fixture->app = postgres_dsn_of_two(stage->primary, stage->standby, stage->database, "app");
        fixture->relay =
            postgres_dsn_of_two(stage->primary, stage->standby, stage->database, "relay");
}

static PGconn *connect_to(const struct stage *stage, const struct postgres *postgres)
{
        char *dsn = postgres_dsn(postgres, stage->database, "postgres");
        PGconn *connection = database_connect(dsn);

        free(dsn);
        return connection;
}

/* The standby is the primary from now on. */
static void change_roles(struct stage *stage)
{
        struct postgres *old = stage->primary;

        stage->primary = stage->standby;
        stage->standby = old;
        PQfinish(stage->fixture.admin);
        stage->fixture.admin = connect_to(stage, stage->primary);
}

static void fail_over(struct stage *stage)
{
        postgres_kill(stage->primary);
        postgres_promote(stage->standby);
        change_roles(stage);
}

static void end(struct stage *stage, struct relay_process *relay)
{
        relay_destroy(relay);
        relay_fixture_end(&stage->fixture);
        free(stage->database);
}

static struct relay_process *start_relay(const struct stage *stage, const char *redis_settings)
{
        return relay_start("postgres: {dsn: \"%s\"}\n"
                           "relay: {standby: 50ms, sweep: 1h}\n"
                           "sinks:\n"
                           "  - name: bus\n"
                           "    topics: [\"**\"]\n"
                           "    start: beginning\n"
                           "    max_in_flight: %d\n"
                           "    redis: {url: \"unix://%s\", stream: events%s}\n",
            stage->fixture.relay, WINDOW, stage->fixture.redis.socket_path, redis_settings);
}

/* ---- which of the writers' events
 * ----------------------------------------------------------------------------- */

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

/* ---- a synchronous standby
 * ------------------------------------------------------------------------------- */

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

        begin(&stage, true);
        database_exec(stage.fixture.admin, sql);
        relay = start_relay(&stage, "");
        relay_fixture_write(&stage.fixture, 31);
        relay_fixture_await_more(&stage.fixture, 300);
        fail_over(&stage);
        relay_fixture_await_more(&stage.fixture, 300);
        postgres_rewind(stage.standby, stage.primary);
        postgres_wait_for_standby(stage.primary);
        relay_fixture_await_more(&stage.fixture, 300);
        fail_over(&stage);
        relay_fixture_await_more(&stage.fixture, 300);
        relay_fixture_check(&stage.fixture, relay);
        expect_all_in_log(&stage);
        end(&stage, relay);
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

        begin(&stage, true);
        relay = start_relay(&stage, "");
        relay_fixture_write(fixture, 32);
        relay_fixture_await_more(fixture, 300);
        process_signal(&relay->process, SIGSTOP);
        fail_over(&stage);
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
        end(&stage, relay);
}

Test(failover, repeats_nothing_of_a_sink_that_delivers_exactly_once)
{
        struct stage stage;
        struct relay_process *relay;
        struct filter_result verdict;

        begin(&stage, true);
        relay = start_relay(&stage, ", exactly_once: true");
        relay_fixture_write(&stage.fixture, 33);
        relay_fixture_await_more(&stage.fixture, 300);
        fail_over(&stage);
        relay_fixture_await_more(&stage.fixture, 300);
        verdict = relay_fixture_check(&stage.fixture, relay);

        cr_expect_eq(verdict.n_repeated, 0, "%zu events came twice", verdict.n_repeated);
        end(&stage, relay);
}

/* ---- a standby that lags
 * --------------------------------------------------------------------------------- */

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

        begin(&stage, false);
        relay = start_relay(&stage, redis_settings);
        relay_fixture_write(fixture, 34);
        relay_fixture_await_more(fixture, 200);
        postgres_stop_receiving(stage.standby);
        await_passed_from_now_on(&stage);
        former_events = database_value(
            fixture->admin, "SELECT json_object_agg(id, event_id) FROM courier.outbox");
        fail_over(&stage);
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
        end(&stage, relay);
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

/* ---- an old primary that comes back
 * ------------------------------------------------------------------------ */

#define SESSIONS_OF_RELAY                                                                          \
        "FROM pg_stat_activity WHERE usename = 'relay' AND datname = current_database()"

static unsigned count_arrivals(struct relay_fixture *fixture, const char *text)
{
        redisReply *entries = redis_server_run(&fixture->redis, "XRANGE events - +");
        char *payload = xasprintf("\"%s\"", text);
        unsigned count = 0;

        for (size_t i = 0; i < entries->elements; i++) {
                const redisReply *fields = entries->element[i]->element[1];
                for (size_t f = 0; f < fields->elements; f++)
                        count += strcmp(fields->element[f]->str, payload) == 0;
        }
        free(payload);
        freeReplyObject(entries);
        return count;
}

/* The relay stays where it is as long as its session lasts. What the old primary accepts then is in
 * no log that anybody goes on with. */
Test(failover, stays_with_the_new_primary_when_the_old_one_accepts_writes_again)
{
        struct stage stage;
        struct relay_fixture *fixture = &stage.fixture;
        struct relay_process *relay;
        PGconn *old;

        begin(&stage, false);
        relay = start_relay(&stage, "");
        publish(fixture->admin, "t", "k", "first");
        relay_fixture_await(fixture, "events", 1);
        fail_over(&stage);
        publish(fixture->admin, "t", "k", "second");
        relay_fixture_await(fixture, "events", 2);

        postgres_start_again(stage.standby);
        old = connect_to(&stage, stage.standby);
        publish(old, "t", "k", "on the old primary");
        for (int n = 3; n <= 10; n++) {
                publish(fixture->admin, "t", "k", "on the new primary");
                relay_fixture_await(fixture, "events", n);
        }
        cr_expect_eq(database_integer(old, "SELECT count(*) " SESSIONS_OF_RELAY), 0);
        PQfinish(old);

        postgres_rewind(stage.standby, stage.primary);
        old = connect_to(&stage, stage.standby);
        cr_expect_eq(
            database_integer(
                old, "SELECT count(*) FROM courier.outbox WHERE payload #>> '{}' ~ 'old primary'"),
            0);
        PQfinish(old);
        fail_over(&stage);
        publish(fixture->admin, "t", "k", "last");
        relay_fixture_await(fixture, "events", 11);
        cr_expect_eq(count_arrivals(fixture, "on the old primary"), 0);
        relay_stop(relay);
        end(&stage, relay);
}

/* The doorbell's connection is lost, and the old primary is the first host that accepts writes:
 * there its lock would make nobody ring. */
Test(failover, takes_the_doorbell_where_it_reads)
{
        struct stage stage;
        struct relay_fixture *fixture = &stage.fixture;
        struct relay_process *relay;

        begin(&stage, false);
        relay = start_relay(&stage, "");
        relay_wait_for_log(relay, "event=lane_owned ", 30000);
        fail_over(&stage);
        await_in_database(fixture->admin,
            "SELECT EXISTS (SELECT FROM courier.relay_lock WHERE lock_id = 0 AND is_exclusive)",
            "the relay sleeps");
        postgres_start_again(stage.standby);
        database_exec(fixture->admin,
            "SELECT pg_terminate_backend(pid, 30000) FROM courier.relay_lock WHERE lock_id = 0");
        relay_wait_for_log(
            relay, "it reached another server than the connection that reads events", 30000);
        for (int n = 1; n <= 3; n++) {
                publish(fixture->admin, "t", "k", "rung for, or looked for");
                relay_fixture_await(fixture, "events", n);
        }
        relay_stop(relay);
        end(&stage, relay);
}

/* The only event, as this server knows. */
static void await_settled(PGconn *connection)
{
        await_in_database(connection,
            "SELECT EXISTS (SELECT FROM courier.outbox AS event, courier.cursor AS lane"
            " WHERE courier.has_passed(lane.from_snapshot, lane.until_snapshot, lane.last_id,"
            " event.id, event.txid))",
            "the settle is there");
}

/* Two servers accept writes, and the relay is with the old one: it delivers what it finds there,
 * and comes to the new primary when that session ends. */
Test(failover, goes_on_where_the_new_primarys_cursor_is_when_it_leaves_the_old_one)
{
        struct stage stage;
        struct relay_fixture *fixture = &stage.fixture;
        struct relay_process *relay;
        PGconn *new;

        begin(&stage, false);
        relay = start_relay(&stage, "");
        publish(fixture->admin, "t", "k", "on both");
        relay_fixture_await(fixture, "events", 1);
        new = connect_to(&stage, stage.standby);
        await_settled(new);
        postgres_promote(stage.standby);
        for (int n = 1; n <= 50; n++) {
                publish(fixture->admin, "t", "k", "on the old primary");
                publish(new, "t", "k", "on the new primary");
        }
        relay_fixture_await(fixture, "events", 51);
        cr_expect_eq(count_arrivals(fixture, "on the new primary"), 0);

        postgres_stop(stage.primary);
        relay_fixture_await(fixture, "events", 101);
        relay_stop(relay);
        cr_expect_eq(count_arrivals(fixture, "on both"), 1);
        cr_expect_eq(count_arrivals(fixture, "on the old primary"), 50);
        cr_expect_eq(count_arrivals(fixture, "on the new primary"), 50);
        PQfinish(new);
        end(&stage, relay);
}

static void lose_session(struct relay_fixture *fixture, int epoch)
{
        char *is_owned_again =
            xasprintf("SELECT epoch = %d FROM courier.cursor WHERE sink = 'bus'", epoch);

        database_exec(fixture->admin,
            "SELECT pg_terminate_backend(pid, 30000) FROM courier.relay_lock WHERE lock_id > 0");
        await_in_database(fixture->admin, is_owned_again, "the relay owns its lane again");
        free(is_owned_again);
}

/* Redis remembers a later owner than the new primary does, and cannot know who that was. */
Test(failover, asks_a_person_when_redis_remembers_an_owner_that_the_new_primary_does_not)
{
        struct stage stage;
        struct relay_fixture *fixture = &stage.fixture;
        struct relay_process *relay;
        PGconn *standby;

        begin(&stage, false);
        relay = start_relay(&stage, ", exactly_once: true");
        publish(fixture->admin, "t", "k", "first");
        relay_fixture_await(fixture, "events", 1);
        standby = connect_to(&stage, stage.standby);
        await_settled(standby);
        PQfinish(standby);
        postgres_stop_receiving(stage.standby);
        lose_session(fixture, 2);
        lose_session(fixture, 3);
        publish(fixture->admin, "t", "k", "never on the new primary");
        relay_fixture_await(fixture, "events", 2);
        fail_over(&stage);
        publish(fixture->admin, "t", "k", "second");
        relay_wait_for_log(relay, "a later owner of this lane writes to the stream", 30000);
        cr_expect_eq(redis_server_count(&fixture->redis, "XLEN events"), 2);

        redis_server_do(&fixture->redis, "DEL {events}:owner:bus");
        await_in_database(fixture->admin, "SELECT count(*) = 1 FROM courier.pause", "a pause");
        database_exec(fixture->admin, "DELETE FROM courier.pause");
        relay_fixture_await(fixture, "events", 3);
        relay_stop(relay);
        end(&stage, relay);
}

/* ---- a server that accepts no writes
 * --------------------------------------------------------------------- */

static void wait_at_a_standby(const char *option, const char *wakeup)
{
        struct stage stage;
        struct relay_process *relay;
        char *dsn;

        begin(&stage, true);
        publish(stage.fixture.admin, "t", "k", "before");
        dsn = postgres_dsn(stage.standby, stage.database, "relay");
        relay = relay_start("postgres: {dsn: \"%s%s\"}\n"
                            "relay: {wakeup: %s}\n"
                            "sinks:\n"
                            "  - {name: bus, topics: [\"**\"], start: beginning,\n"
                            "     redis: {url: \"unix://%s\", stream: events}}\n",
            dsn, option, wakeup, stage.fixture.redis.socket_path);
        relay_wait_for_log(relay,
            "session is read-only. A server that accepts writes is needed: this one is a standby",
            30000);
        fail_over(&stage);
        cr_expect_eq(relay_count_in_log(relay, "cannot execute"), 0);
        relay_fixture_await(&stage.fixture, "events", 1);
        cr_expect_eq(relay_count_in_log(relay, "event=outbox_connected"), 1);
        relay_stop(relay);
        free(dsn);
        end(&stage, relay);
}

Test(failover, waits_at_a_standby_until_it_is_promoted)
{
        wait_at_a_standby("", "notify");
}

/* It would claim the lane, fail, and connect again at once. */
Test(failover, waits_at_a_standby_even_if_the_dsn_takes_any_server)
{
        wait_at_a_standby(" target_session_attrs=any", "poll");
}

Test(failover, lets_commands_find_the_server_that_accepts_writes)
{
        struct stage stage;
        char *dsn;

        begin(&stage, false);
        dsn = xasprintf("host=%s,%s port=%u,%u dbname=%s user=relay", stage.standby->folder,
            stage.primary->folder, stage.standby->port, stage.primary->port, stage.database);
        expect_output(
            program_run(NULL, "pause", "bus", "--force", "--dsn", dsn, NULL), "bus is paused\n");
        free(dsn);
        end(&stage, NULL);
}
