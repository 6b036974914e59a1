/*
 * The postgres sink and a real server: what functions get, what tables hold, and what each error
 * comes to. Functions that are to take their time wait for a lock of the test's.
 */
#include "base/alloc.h"
#include "config/config.h"
#include "sinks/sink_contract.h"
#include "support/postgres_expect.h"
#include "support/sink_driver.h"

#include <signal.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/un.h>

extern const struct sink_ops postgres_sink_ops;

struct rig {
        char *dsn;
        PGconn *admin;
        struct sink_driver driver;
        struct postgres_sink_config config; /* the test may change it before rig_open() */
        struct event *events;               /* and these until they are handed over */
        char (*payloads)[24];               /* {"n": NUMBER}, unless the test gives another */
};

#include "sink_rig.h"

/* With app.run(), which counts in app.done what it is called for, and does what the topic says. */
static const char functions[] =
    "CREATE SCHEMA app;"
    "CREATE TABLE app.done (event_id uuid, topic text, key text, type text, payload json,"
    "  headers jsonb, created_at timestamptz, data bytea);"
    "CREATE FUNCTION app.run(e courier.event) RETURNS text LANGUAGE plpgsql AS $$"
    " BEGIN"
    "  INSERT INTO app.done SELECT e.id, e.topic, e.key, e.type, e.payload, e.headers,"
    "   e.created_at, e.data;"
    "  IF e.topic = 'raise' THEN"
    "   RAISE EXCEPTION 'as %', e.payload ->> 'code'"
    "    USING ERRCODE = e.payload ->> 'code', DETAIL = coalesce(e.payload ->> 'detail', '');"
    "  ELSIF e.topic = 'wait' THEN PERFORM pg_advisory_xact_lock(1);"
    "  ELSIF e.topic = 'divide' THEN PERFORM 1 / (e.payload ->> 'n')::int; END IF;"
    "  RETURN 'done ' || e.topic;"
    " END $$";

static void fill_event(struct rig *rig, unsigned i)
{
        struct event *event = &rig->events[i];

        snprintf(rig->payloads[i], sizeof rig->payloads[i], "{\"n\": %u}", i);
        *event = (struct event){.id = i,
            .topic = "jobs",
            .payload = rig->payloads[i],
            .payload_bytes = strlen(rig->payloads[i]),
            .is_json = true,
            .created_us = 1706745599000001};
        snprintf(event->event_id, sizeof event->event_id, "00000000-0000-4000-8000-%012u", i);
}

static void rig_init(struct rig *rig, unsigned n_events)
{
        static char call[] = "app.run";
        static char consumer[] = "jobs";

        *rig = (struct rig){.dsn = postgres_new_database(postgres_shared()),
            .config = {.call = call,
                .consumer = consumer,
                .batch = 1000,
                .timeout_ms = 300000,
                .connect_timeout_ms = 20000,
                .idle_ms = 60000}};
        rig->admin = database_connect(rig->dsn);
        database_make_inbox(rig->admin);
        database_exec(rig->admin, functions);
        rig->events = xcalloc(n_events, sizeof *rig->events);
        rig->payloads = xcalloc(n_events, sizeof *rig->payloads);
        for (unsigned i = 0; i < n_events; i++)
                fill_event(rig, i);
}

static void rig_open_for(struct rig *rig, unsigned concurrency)
{
        if (rig->config.server.dsn == NULL)
                rig->config.server.dsn = rig->dsn;
        rig->config.server.connect_timeout_ms = rig->config.connect_timeout_ms;
        rig->config.server.query_timeout_ms = rig->config.connect_timeout_ms;
        sink_driver_init_for(&rig->driver, &postgres_sink_ops, &rig->config, concurrency);
}

static void rig_open(struct rig *rig)
{
        rig_open_for(rig, 0);
}

static void rig_stop(struct rig *rig)
{
        sink_driver_deinit(&rig->driver);
        PQfinish(rig->admin);
        free(rig->dsn);
        free(rig->events);
        free(rig->payloads);
}

static void set_payload(struct event *event, const char *json)
{
        event->payload = json;
        event->payload_bytes = strlen(json);
}

static const struct outcome *outcome_of(const struct rig *rig, size_t number)
{
        return &rig->driver.attempts[number].outcome;
}

/* Calls. */

Test(postgres_sink, calls_the_function_once_for_each_event)
{
        struct rig rig;

        rig_init(&rig, 300);
        rig_open(&rig);
        rig_deliver_all(&rig, 1);
        rig_deliver_all(&rig, 299);

        cr_expect_eq(rig_count(&rig, OUTCOME_DELIVERED), 300);
        expect_outcome(&rig, 0, OUTCOME_DELIVERED, "done jobs");
        expect_value(rig.admin, "SELECT count(*) || ' ' || count(DISTINCT event_id) FROM app.done",
            "300 300");
        rig_stop(&rig);
}

Test(postgres_sink, gives_the_function_all_of_the_event)
{
        static const unsigned char types[] = {
            EVENT_HEADER_STRING, EVENT_HEADER_NUMBER, EVENT_HEADER_NULL, EVENT_HEADER_STRUCTURE};
        const struct event_header headers[] = {
            {"tenant", "Z\xc3\xbc \"rich\""}, {"n", "1.50"}, {"none", ""}, {"list", "[1, \"a\"]"}};
        struct rig rig;

        rig_init(&rig, 1);
        rig.events[0].key = "k'1";
        rig.events[0].type = "order.paid";
        rig.events[0].headers = headers;
        rig.events[0].header_types = types;
        rig.events[0].n_headers = 4;
        set_payload(&rig.events[0], "{\"a\": 1,  \"a\": 2}");
        rig_open(&rig);
        rig_deliver_all(&rig, 1);

        expect_outcome(&rig, 0, OUTCOME_DELIVERED, "");
        expect_value(rig.admin,
            "SELECT concat_ws('|', event_id, topic, key, type, payload, headers, data IS NULL,"
            " created_at AT TIME ZONE 'UTC') FROM app.done",
            "00000000-0000-4000-8000-000000000000|jobs|k'1|order.paid|{\"a\": 1,  \"a\": 2}|"
            "{\"n\": 1.50, \"list\": [1, \"a\"], \"none\": null, \"tenant\": \"Z\xc3\xbc "
            "\\\"rich\\\"\"}|"
            "t|2024-01-31 23:59:59.000001");
        rig_stop(&rig);
}

Test(postgres_sink, gives_the_function_bytes)
{
        static const char bytes[] = {0, '\\', (char)0xff, '\n'};
        struct rig rig;

        rig_init(&rig, 2);
        for (unsigned i = 0; i < 2; i++) {
                rig.events[i].payload = bytes;
                rig.events[i].payload_bytes = i == 0 ? sizeof bytes : 0;
                rig.events[i].is_json = false;
        }
        rig_open_for(&rig, 1);
        rig_deliver_all(&rig, 2);

        expect_value(rig.admin,
            "SELECT string_agg(data::text || coalesce(payload::text, '-') ||"
            " coalesce(key, '-') || coalesce(type, '-') || coalesce(headers::text, '-'), ' '"
            " ORDER BY event_id) FROM app.done",
            "\\x005cff0a---- \\x----");
        rig_stop(&rig);
}

Test(postgres_sink, counts_a_repetition_as_delivered_and_does_nothing)
{
        struct rig rig;

        rig_init(&rig, 2);
        memcpy(rig.events[1].event_id, rig.events[0].event_id, sizeof rig.events[0].event_id);
        rig_open(&rig);
        rig_deliver_all(&rig, 1);
        rig_deliver_all(&rig, 1);

        expect_outcome(&rig, 1, OUTCOME_DELIVERED, "done before");
        expect_value(rig.admin, "SELECT count(*) FROM app.done", "1");
        rig_stop(&rig);
}

Test(postgres_sink, calls_functions_of_any_result)
{
        static char call[] = "app.Odd \xc3\xbc";
        struct rig rig;

        rig_init(&rig, 1);
        database_exec(rig.admin,
            "CREATE FUNCTION app.\"Odd \xc3\xbc\"(e courier_inbox.event, again boolean DEFAULT "
            "false)"
            " RETURNS void LANGUAGE sql AS 'INSERT INTO app.done (event_id) SELECT e.id'");
        rig.config.call = call;
        rig_open(&rig);
        rig_deliver_all(&rig, 1);

        expect_outcome(&rig, 0, OUTCOME_DELIVERED, "");
        expect_value(rig.admin, "SELECT count(*) FROM app.done", "1");
        rig_stop(&rig);
}

Test(postgres_sink, publishes_what_the_function_publishes_with_its_commit)
{
        struct rig rig;

        rig_init(&rig, 2);
        database_exec(rig.admin, "CREATE OR REPLACE FUNCTION app.run(e courier.event) RETURNS text "
                                 "LANGUAGE plpgsql AS $$"
                                 " BEGIN PERFORM courier.publish('next', e.payload);"
                                 " PERFORM 1 / (e.payload ->> 'n')::int; RETURN NULL; END $$");
        rig_open(&rig);
        rig_deliver_all(&rig, 2);

        expect_outcome(&rig, 0, OUTCOME_RETRY, "division by zero (22012); ");
        expect_outcome(&rig, 1, OUTCOME_DELIVERED, "");
        expect_value(
            rig.admin, "SELECT string_agg(payload::text, ',') FROM courier.outbox", "{\"n\": 1}");
        rig_stop(&rig);
}

#define WAITING                                                                                    \
        "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted AND database =" \
        " (SELECT oid FROM pg_database WHERE datname = current_database())"

#define SESSIONS                                                                                   \
        "SELECT count(*) FROM pg_stat_activity WHERE application_name LIKE 'pgcourier %'"          \
        " AND datname = current_database()"

/* Errors. */

static const struct {
        const char *payload;
        enum outcome_kind kind;
        const char *words;
        bool is_postponed;
        bool needs_operator;
        int64_t delay_ms;
} errors[] = {
    {"{\"code\": \"PC001\"}", OUTCOME_REJECTED,
        "as PC001 (PC001); PL/pgSQL function app.run(courier.event) line", false, false, -1},
    {"{\"code\": \"PC002\", \"detail\": \"90s\"}", OUTCOME_RETRY, "as PC002", true, false, 90000},
    {"{\"code\": \"PC002\", \"detail\": \"00:01:30\"}", OUTCOME_RETRY, "", true, false, 90000},
    {"{\"code\": \"PC002\", \"detail\": \"soon\"}", OUTCOME_RETRY, "without a delay", false, false,
        -1},
    {"{\"code\": \"40001\"}", OUTCOME_RETRY, "as 40001", false, false, -1},
    {"{\"code\": \"55P03\"}", OUTCOME_RETRY, "as 55P03", false, false, -1},
    {"{\"code\": \"P0001\"}", OUTCOME_RETRY, "as P0001", false, false, -1},
    {"{\"code\": \"57P03\"}", OUTCOME_SINK_DOWN, "as 57P03", false, false, -1},
    {"{\"code\": \"53200\"}", OUTCOME_SINK_DOWN, "as 53200", false, false, -1},
    {"{\"code\": \"42P01\"}", OUTCOME_SINK_DOWN, "as 42P01", false, true, -1},
};

Test(postgres_sink, judges_what_a_function_raises)
{
        enum { N = sizeof errors / sizeof *errors };
        struct rig rig;

        rig_init(&rig, N);
        rig_open_for(&rig, 1);
        for (unsigned i = 0; i < N; i++) {
                const struct outcome *outcome = outcome_of(&rig, i);
                rig.events[i].topic = "raise";
                set_payload(&rig.events[i], errors[i].payload);
                rig_deliver_all(&rig, 1);
                expect_outcome(&rig, i, errors[i].kind, errors[i].words);
                cr_expect_eq(outcome->is_postponed, errors[i].is_postponed, "%u", i);
                cr_expect_eq(outcome->needs_operator, errors[i].needs_operator, "%u", i);
                cr_expect_eq(outcome->delay_ms, errors[i].delay_ms, "%u", i);
        }
        expect_value(rig.admin, "SELECT count(*) FROM app.done", "0");
        expect_value(rig.admin, "SELECT count(*) FROM courier_inbox.accepted", "0");
        rig_stop(&rig);
}

/* The answer to the statement is there before. */
Test(postgres_sink, is_not_delivered_if_its_commit_fails)
{
        struct outcome outcome;
        struct rig rig;

        rig_init(&rig, 1);
        database_exec(rig.admin,
            "CREATE TABLE app.parent (id int PRIMARY KEY); CREATE TABLE app.child (id int "
            "REFERENCES"
            " app.parent DEFERRABLE INITIALLY DEFERRED);"
            "CREATE OR REPLACE FUNCTION app.run(e courier.event) RETURNS text LANGUAGE sql"
            " AS 'INSERT INTO app.child VALUES (1); SELECT ''well'''");
        rig_open_for(&rig, 1);
        rig_deliver_all(&rig, 1);
        expect_outcome(&rig, 0, OUTCOME_RETRY, "violates foreign key constraint");
        expect_value(rig.admin, "SELECT count(*) FROM courier_inbox.accepted", "0");

        database_exec(rig.admin, "INSERT INTO app.parent VALUES (1)");
        outcome = sink_driver_deliver(&rig.driver, &rig.events[0]);
        expect_outcome_is(&outcome, OUTCOME_DELIVERED, "well");
        rig_stop(&rig);
}

Test(postgres_sink, is_cancelled_by_the_server_after_the_timeout)
{
        struct rig rig;

        rig_init(&rig, 2);
        database_exec(rig.admin, "SELECT pg_advisory_lock(1)");
        rig.config.timeout_ms = 2000; /* also of what prepares the call */
        rig.events[0].topic = "wait";
        rig_open_for(&rig, 1);
        rig_deliver_all(&rig, 1);
        expect_outcome(&rig, 0, OUTCOME_RETRY, "(57014)");
        cr_expect_eq(outcome_of(&rig, 0)->fault, OUTCOME_FAULT_TIMEOUT);
        expect_value(rig.admin, WAITING, "0");
        rig_stop(&rig);
}

struct wish {
        PGconn *admin;
        const char *sql;
        int64_t number;
};

static bool is_so(void *context)
{
        const struct wish *wish = context;

        return database_integer(wish->admin, wish->sql) == wish->number;
}

static void await(struct rig *rig, const char *sql, int64_t number)
{
        struct wish wish = {rig->admin, sql, number};

        sink_driver_run_until(&rig->driver, is_so, &wish, sql);
}

Test(postgres_sink, cancels_a_call_in_the_server_and_calls_again)
{
        struct outcome outcome;
        struct rig rig;

        rig_init(&rig, 3);
        database_exec(rig.admin, "SELECT pg_advisory_lock(1)");
        rig.events[0].topic = "wait";
        rig_open_for(&rig, 1);
        rig_deliver(&rig, 2);
        await(&rig, WAITING, 1);
        sink_cancel(rig.driver.sink);
        sink_driver_finish(&rig.driver);
        expect_outcome(&rig, 0, OUTCOME_CANCELLED, "");
        expect_outcome(&rig, 1, OUTCOME_CANCELLED, "");
        await(&rig, WAITING, 0); /* though the lock is not given up */

        database_exec(rig.admin, "SELECT pg_advisory_unlock(1)");
        outcome = sink_driver_deliver(&rig.driver, &rig.events[0]);
        expect_outcome_is(&outcome, OUTCOME_DELIVERED, "done wait");
        expect_value(rig.admin, "SELECT count(*) FROM app.done", "1");
        rig_stop(&rig);
}

#define END_SINKS                                                                                  \
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name LIKE"       \
        " 'pgcourier %' AND datname = current_database()"

Test(postgres_sink, is_down_if_an_administrator_ends_its_session_and_goes_on)
{
        struct rig rig;

        rig_init(&rig, 2);
        database_exec(rig.admin, "SELECT pg_advisory_lock(1)");
        rig.events[0].topic = "wait";
        rig_open_for(&rig, 1);
        rig_deliver(&rig, 1);
        await(&rig, WAITING, 1);
        database_exec(rig.admin, END_SINKS);
        sink_driver_finish(&rig.driver);
        expect_outcome(&rig, 0, OUTCOME_SINK_DOWN, "(57P01)");

        database_exec(rig.admin, "SELECT pg_advisory_unlock(1)");
        rig_deliver_all(&rig, 1);
        expect_outcome(&rig, 1, OUTCOME_DELIVERED, "");
        rig_stop(&rig);
}

static bool has_ended(void *context)
{
        return kill(*(pid_t *)context, 0) != 0;
}

Test(postgres_sink, goes_on_if_its_session_ends_while_it_rests)
{
        struct rig rig;
        pid_t backend;

        rig_init(&rig, 2);
        rig_open_for(&rig, 1);
        rig_deliver_all(&rig, 1);
        backend = (pid_t)database_integer(rig.admin,
            "SELECT pid FROM pg_stat_activity WHERE application_name LIKE 'pgcourier %'"
            " AND datname = current_database()");
        database_exec(rig.admin, END_SINKS);
        sink_driver_run_until(&rig.driver, has_ended, &backend, "the end of the session");
        for (int i = 0; i < 10; i++)
                uv_run(&rig.driver.loop, UV_RUN_NOWAIT);
        rig_deliver_all(&rig, 1);
        expect_outcome(&rig, 1, OUTCOME_DELIVERED, "");
        rig_stop(&rig);
}

/* Its process is killed: what became of the call is not known, and the call may be the cause. */
Test(postgres_sink, does_not_know_what_became_of_a_call_whose_connection_breaks)
{
        struct rig rig;

        rig_init(&rig, 1);
        database_exec(rig.admin, "SELECT pg_advisory_lock(1)");
        rig.events[0].topic = "wait";
        rig.config.server.dsn =
            xasprintf("%s options='-c client_connection_check_interval=0'", rig.dsn);
        rig_open_for(&rig, 1);
        rig_deliver(&rig, 1);
        await(&rig, WAITING, 1);
        /* The socket, not the server: a killed process would end all sessions of the cluster. */
        for (int fd = 3; fd < 200; fd++) {
                struct sockaddr_un peer;
                socklen_t length = sizeof peer;
                if (fd != PQsocket(rig.admin) &&
                    getpeername(fd, (struct sockaddr *)&peer, &length) == 0 &&
                    strstr(peer.sun_path, "PGSQL") != NULL)
                        shutdown(fd, SHUT_RDWR);
        }
        sink_driver_finish(&rig.driver);
        expect_outcome(&rig, 0, OUTCOME_RETRY, "connection");
        cr_expect(outcome_of(&rig, 0)->is_unanswered);
        cr_expect_eq(outcome_of(&rig, 0)->fault, OUTCOME_FAULT_LOST);
        database_exec(rig.admin, END_SINKS);
        free(rig.config.server.dsn);
        rig_stop(&rig);
}

/* What only people can mend. */

static struct outcome probe(struct rig *rig)
{
        struct outcome outcome;

        rig_open(rig);
        outcome = sink_driver_probe(&rig->driver);
        cr_expect(
            outcome.kind == OUTCOME_DELIVERED || outcome.needs_operator, "%s", outcome.reason);
        return outcome;
}

static void expect_probe_of(
    const char *sql, const char *call, const char *insert, const char *words)
{
        struct rig rig;
        struct outcome outcome;

        rig_init(&rig, 1);
        database_exec(rig.admin, sql);
        rig.config.call = call != NULL ? xstrdup(call) : NULL;
        rig.config.insert = insert != NULL ? xstrdup(insert) : NULL;
        outcome = probe(&rig);
        expect_outcome_is(&outcome, OUTCOME_SINK_DOWN, words);
        rig_deliver_all(&rig, 1);
        expect_outcome(&rig, 0, OUTCOME_SINK_DOWN, words);
        free(rig.config.call);
        free(rig.config.insert);
        rig_stop(&rig);
}

Test(postgres_sink, says_what_is_missing_or_wrong_in_the_database)
{
        expect_probe_of("SELECT 1", "nowhere.run", NULL, "there is no schema nowhere in database");
        expect_probe_of("SELECT 1", "app.nothing", NULL, "there is no function app.nothing in");
        expect_probe_of("DROP SCHEMA courier_inbox CASCADE", "app.run", NULL,
            "has no schema courier_inbox: run pgcourier migrate --inbox there");
        expect_probe_of(
            "CREATE FUNCTION app.two(e courier.event, n int) RETURNS int LANGUAGE sql AS"
            " 'SELECT 1'; CREATE FUNCTION app.two(n int) RETURNS int LANGUAGE sql AS"
            " 'SELECT 1'",
            "app.two", NULL,
            "app.two takes (e courier.event, n integer), (n integer): it must be a function that");
        expect_probe_of("SELECT 1", NULL, "app.nothing", "there is no table app.nothing in");
        expect_probe_of(
            "CREATE TABLE app.other (a int)", NULL, "app.other", "no column of an event");
        expect_probe_of("CREATE TABLE app.other (topic text, a int NOT NULL)", NULL, "app.other",
            "column a of table app.other has no default");
}

Test(postgres_sink, says_which_right_a_role_lacks)
{
        static char role[] = "app";
        struct rig rig;
        struct outcome outcome;

        rig_init(&rig, 1);
        rig.config.role = role;
        outcome = probe(&rig);
        expect_outcome_is(
            &outcome, OUTCOME_SINK_DOWN, "role app may not use the inbox: GRANT courier_consumer");
        database_exec(rig.admin, "GRANT USAGE ON SCHEMA courier_inbox TO app; GRANT EXECUTE ON ALL"
                                 " FUNCTIONS IN SCHEMA courier_inbox TO app");
        outcome = sink_driver_probe(&rig.driver);
        expect_outcome_is(
            &outcome, OUTCOME_SINK_DOWN, "role app may not use schema app: GRANT USAGE");
        database_exec(rig.admin,
            "GRANT USAGE ON SCHEMA app TO app; REVOKE EXECUTE ON FUNCTION app.run FROM PUBLIC");
        outcome = sink_driver_probe(&rig.driver);
        expect_outcome_is(
            &outcome, OUTCOME_SINK_DOWN, "role app may not call app.run: GRANT EXECUTE");
        database_exec(rig.admin, "GRANT EXECUTE ON FUNCTION app.run TO app");
        outcome = sink_driver_probe(&rig.driver);
        expect_outcome_is(&outcome, OUTCOME_DELIVERED, "");

        /* In the function the role has no right to the table: that is not known before. */
        rig_deliver_all(&rig, 1);
        expect_outcome(&rig, 0, OUTCOME_SINK_DOWN, "permission denied for table done");
        rig_stop(&rig);
}

Test(postgres_sink, needs_an_operator_to_log_in)
{
        struct rig rig;
        struct outcome outcome;

        rig_init(&rig, 1);
        rig.config.server.dsn = dsn_as_user(rig.dsn, "nobody_at_all");
        outcome = probe(&rig);
        expect_outcome_is(&outcome, OUTCOME_SINK_DOWN, "\"nobody_at_all\" does not exist");
        cr_expect_eq(outcome.fault, OUTCOME_FAULT_AUTH);
        rig_deliver_all(&rig, 1);
        expect_outcome(&rig, 0, OUTCOME_SINK_DOWN, "does not exist");
        free(rig.config.server.dsn);
        rig_stop(&rig);
}

Test(postgres_sink, sets_up_its_sessions)
{
        static char search_path[] = "app, pg_temp";
        static char role[] = "app";
        static char tenant[] = "app.tenant=7=8";
        static char memory[] = "work_mem=3MB";
        static char *settings[] = {tenant, memory};
        struct rig rig;

        rig_init(&rig, 1);
        database_exec(rig.admin,
            "GRANT ALL ON SCHEMA app, courier_inbox TO app; GRANT EXECUTE ON ALL FUNCTIONS IN "
            "SCHEMA"
            " courier_inbox TO app;"
            "CREATE OR REPLACE FUNCTION app.run(e courier.event) RETURNS text LANGUAGE sql AS $$"
            " SELECT concat_ws('|', current_user, current_setting('search_path'),"
            "  current_setting('app.tenant'), current_setting('work_mem'),"
            "  current_setting('statement_timeout')) $$");
        rig.config.role = role;
        rig.config.search_path = search_path;
        rig.config.settings = settings;
        rig.config.n_settings = 2;
        rig_open(&rig);
        rig_deliver_all(&rig, 1);
        expect_outcome(&rig, 0, OUTCOME_DELIVERED, "app|app, pg_temp|7=8|3MB|5min");
        rig_stop(&rig);
}

Test(postgres_sink, finds_the_function_again_when_it_was_replaced)
{
        struct rig rig;

        rig_init(&rig, 4);
        rig_open_for(&rig, 1);
        rig_deliver_all(&rig, 1);
        database_exec(rig.admin, "DROP FUNCTION app.run");
        rig_deliver_all(&rig, 1);
        expect_outcome(&rig, 1, OUTCOME_SINK_DOWN, "app.run");
        cr_expect(outcome_of(&rig, 1)->needs_operator);
        database_exec(rig.admin,
            "CREATE FUNCTION app.run(e courier.event) RETURNS int LANGUAGE sql AS 'SELECT 42'");
        rig_deliver_all(&rig, 1); /* what the session has prepared has another result */
        expect_outcome(&rig, 2, OUTCOME_SINK_DOWN, "0A000");
        cr_expect(!outcome_of(&rig, 2)->needs_operator);
        rig_deliver_all(&rig, 1);
        expect_outcome(&rig, 3, OUTCOME_DELIVERED, "42");
        rig_stop(&rig);
}

/* Connections. */

Test(postgres_sink, calls_as_many_at_a_time_as_it_may)
{
        struct rig rig;

        rig_init(&rig, 10);
        database_exec(rig.admin, "SELECT pg_advisory_lock(1)");
        for (unsigned i = 0; i < 10; i++)
                rig.events[i].topic = "wait";
        rig_open_for(&rig, 5);
        cr_expect_eq(rig.driver.sink->max_concurrent, 5);
        rig_deliver(&rig, 5);
        await(&rig, WAITING, 5);
        expect_value(rig.admin, SESSIONS, "5");
        database_exec(rig.admin, "SELECT pg_advisory_unlock(1)");
        sink_driver_finish(&rig.driver);
        rig_deliver_all(&rig, 5);
        cr_expect_eq(rig_count(&rig, OUTCOME_DELIVERED), 10);
        expect_value(rig.admin, SESSIONS, "5");
        rig_stop(&rig);
}

Test(postgres_sink, closes_connections_that_rest)
{
        struct rig rig;

        rig_init(&rig, 5);
        rig.config.idle_ms = 100;
        rig_open_for(&rig, 4);
        rig_deliver_all(&rig, 4);
        await(&rig, SESSIONS, 0);
        rig_deliver_all(&rig, 1);
        cr_expect_eq(rig_count(&rig, OUTCOME_DELIVERED), 5);
        rig_stop(&rig);
}

/* The role may have two connections: the others wait for these. */
Test(postgres_sink, makes_do_with_fewer_connections)
{
        struct rig rig;

        rig_init(&rig, 50);
        {
                char *sql = xasprintf(
                    "ALTER DATABASE \"%s\" CONNECTION LIMIT 3; GRANT USAGE ON SCHEMA app,"
                    " courier_inbox TO app; GRANT INSERT ON app.done TO app; GRANT EXECUTE ON ALL"
                    " FUNCTIONS IN SCHEMA courier_inbox TO app",
                    PQdb(rig.admin));
                database_exec(rig.admin, sql);
                free(sql);
        }
        rig.config.server.dsn = dsn_as_user(rig.dsn, "app");
        rig_open_for(&rig, 8);
        rig_deliver_all(&rig, 1);
        for (unsigned i = 0; i < 7; i++)
                rig_deliver_all(&rig, 7);
        cr_expect_eq(rig_count(&rig, OUTCOME_DELIVERED), 50);
        free(rig.config.server.dsn);
        rig_stop(&rig);
}

/* Inserts. */

static void rig_insert_into(struct rig *rig, char *table, const char *sql)
{
        database_exec(rig->admin, sql);
        rig->config.call = NULL;
        rig->config.insert = table;
        rig_open(rig);
}

Test(postgres_sink, inserts_all_of_the_events_in_order)
{
        static char table[] = "app.events";
        const struct event_header headers[] = {{"a", "b"}};
        struct rig rig;

        rig_init(&rig, 2500);
        rig.events[7].key = "k";
        rig.events[7].type = "{\"odd\",NULL}";
        rig.events[7].headers = headers;
        rig.events[7].n_headers = 1;
        set_payload(&rig.events[8], "\"\\\"quo\\\\te, {}\"");
        rig.events[9].is_json = false;
        rig_insert_into(&rig, table,
            "CREATE TABLE app.events (n serial, event_id uuid, id int GENERATED ALWAYS AS IDENTITY,"
            " topic varchar(9), key text, type text, payload jsonb, data bytea, headers jsonb,"
            " created_at timestamptz, more int)");
        rig_deliver_all(&rig, 1);
        rig_deliver_all(&rig, 2499);
        cr_expect_eq(rig_count(&rig, OUTCOME_DELIVERED), 2500);
        expect_value(rig.admin,
            "SELECT count(*) || ' ' || count(DISTINCT event_id) || ' ' || count(payload)"
            " FROM app.events",
            "2500 2500 2499");
        expect_value(rig.admin,
            "SELECT string_agg(concat_ws('|', key, type, payload, data, headers, topic,"
            " created_at AT TIME ZONE 'UTC'), ' ' ORDER BY event_id) FROM app.events WHERE "
            "event_id IN"
            " ('00000000-0000-4000-8000-000000000007', '00000000-0000-4000-8000-000000000008',"
            " '00000000-0000-4000-8000-000000000009')",
            "k|{\"odd\",NULL}|{\"n\": 7}|{\"a\": \"b\"}|jobs|2024-01-31 23:59:59.000001 "
            "\"\\\"quo\\\\te, {}\"|jobs|2024-01-31 23:59:59.000001 "
            "\\x7b226e223a20397d|jobs|2024-01-31 23:59:59.000001");
        rig_stop(&rig);
}

Test(postgres_sink, inserts_each_event_once_whatever_comes_again)
{
        static char table[] = "app.events";
        struct rig rig;

        rig_init(&rig, 30);
        for (unsigned i = 10; i < 30; i++)
                memcpy(rig.events[i].event_id, rig.events[i % 10].event_id,
                    sizeof rig.events[i].event_id);
        rig_insert_into(&rig, table, "CREATE TABLE app.events (id uuid, topic text)");
        rig_deliver_all(&rig, 20); /* twice within one statement, or two at a time */
        rig_deliver_all(&rig, 10);
        cr_expect_eq(rig_count(&rig, OUTCOME_DELIVERED), 30);
        expect_value(
            rig.admin, "SELECT count(*) || ' ' || count(DISTINCT id) FROM app.events", "10 10");
        rig_stop(&rig);
}

Test(postgres_sink, inserts_the_others_if_one_event_is_refused)
{
        static char table[] = "app.events";
        struct rig rig;

        rig_init(&rig, 500);
        set_payload(&rig.events[77], "{\"n\": -1}");
        set_payload(&rig.events[300], "{\"n\": -2}");
        rig_insert_into(&rig, table,
            "CREATE TABLE app.events (event_id uuid, payload jsonb,"
            " CONSTRAINT n_is_positive CHECK ((payload ->> 'n')::int >= 0))");
        rig_deliver_all(&rig, 500);
        cr_expect_eq(rig_count(&rig, OUTCOME_DELIVERED), 498);
        expect_outcome(&rig, 77, OUTCOME_RETRY, "n_is_positive");
        expect_outcome(&rig, 300, OUTCOME_RETRY, "n_is_positive");
        expect_value(rig.admin, "SELECT count(*) FROM app.events", "498");
        rig_stop(&rig);
}

/* From service to service: their outbox rings for what comes. */
Test(postgres_sink, inserts_into_the_outbox_of_another_database)
{
        static char table[] = "courier.outbox";
        struct rig rig;

        rig_init(&rig, 3);
        rig.events[1].key = "k";
        rig_insert_into(&rig, table, "LISTEN pgcourier");
        rig_deliver_all(&rig, 3);
        cr_expect_eq(rig_count(&rig, OUTCOME_DELIVERED), 3);
        expect_value(rig.admin,
            "SELECT string_agg(event_id || coalesce(key, '-') || payload, ' ' ORDER BY id)"
            " FROM courier.outbox",
            "00000000-0000-4000-8000-000000000000-{\"n\": 0} "
            "00000000-0000-4000-8000-000000000001k{\"n\": 1} "
            "00000000-0000-4000-8000-000000000002-{\"n\": 2}");
        rig_stop(&rig);
}
