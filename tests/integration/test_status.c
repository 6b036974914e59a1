/* `pgcourier status`: how every sink is, while a relay runs and while none does. */
#include "base/alloc.h"
#include "failures_rig.h"
#include "support/http_receiver.h"
#include "support/process.h"
#include "support/relay_process.h"
#include "support/terminal.h"

#include <stdlib.h>
#include <unistd.h>

static struct failures_rig rig;
static struct http_receiver *receiver; /* in place of a relay's admin endpoint */
static char *config_path;

/* Two sinks, and an admin block where the test wants one. */
static void write_config(const char *admin)
{
        char *text =
            xasprintf("postgres: {dsn: \"%s\"}\n"
                      "sinks:\n"
                      "  - {name: log, topics: ['app.*'], start: beginning, stdout: {}}\n"
                      "  - {name: rest, topics: ['rest.*'], start: beginning, stdout: {}}\n"
                      "%s",
                rig.dsn, admin);

        free(config_path);
        config_path = program_file("pgcourier.yaml", text, strlen(text));
        free(text);
}

static void start(void)
{
        failures_rig_start(&rig);
        config_path = NULL;
        receiver = NULL;
        write_config("");
}

static void stop(void)
{
        free(config_path);
        if (receiver != NULL)
                http_receiver_destroy(receiver);
        failures_rig_stop(&rig);
}

TestSuite(status, .init = start, .fini = stop);

#define STATUS(...) program_run(NULL, "status", "-c", config_path, __VA_ARGS__ __VA_OPT__(, ) NULL)

static json_t *status_json(void)
{
        struct program_run run = STATUS("--json");
        json_t *status = json_loads(run.out, 0, NULL);

        cr_assert_eq(run.code, 0, "%s", run.err);
        cr_assert_not_null(status, "no JSON: %s", run.out);
        program_run_free(&run);
        return status;
}

static const json_t *sink_of(const json_t *status, size_t i)
{
        return json_array_get(json_object_get(status, "sinks"), i);
}

static const char *state_of(const json_t *status, size_t i)
{
        return json_string_value(json_object_get(sink_of(status, i), "state"));
}

static json_int_t backlog_of(const json_t *status, size_t i)
{
        return json_integer_value(
            json_object_get(json_object_get(sink_of(status, i), "backlog"), "events"));
}

/* A text on standard output, and that exit code. */
static void expect_said(struct program_run run, int code, const char *text)
{
        cr_expect_eq(run.code, code, "exit code %d: %s", run.code, run.err);
        cr_expect_not_null(strstr(run.out, text), "no \"%s\" in:\n%s", text, run.out);
        program_run_free(&run);
}

static void expect_state(size_t i, const char *state, json_int_t backlog)
{
        json_t *status = status_json();

        cr_expect_str_eq(state_of(status, i), state);
        cr_expect_eq(backlog_of(status, i), backlog);
        json_decref(status);
}

static struct relay_process *start_relay(void)
{
        char *config = read_file(config_path);
        struct relay_process *relay = relay_start("%s", config);

        relay_wait_for_log(relay, "event=lane_owned sink=log", 30000);
        relay_wait_for_log(relay, "event=lane_owned sink=rest", 30000);
        free(config);
        return relay;
}

static void publish_three(void)
{
        database_exec(rig.owner, "INSERT INTO courier.outbox (topic, payload)"
                                 " SELECT 'app.x', '{}' FROM generate_series(1, 3)");
}

static bool is_delivered(void *context)
{
        json_t *status = status_json();
        bool is_zero = backlog_of(status, 0) == 0;

        (void)context;
        json_decref(status);
        return is_zero;
}

Test(status, follows_a_relay_through_its_life)
{
        struct relay_process *relay;
        json_t *status;

        expect_state(0, "unowned", 0); /* no relay has ever run it */
        relay = start_relay();
        publish_three();
        wait_until(is_delivered, NULL, 30000, "the status says that all is delivered");
        status = status_json();
        cr_expect_str_eq(state_of(status, 0), "running");
        cr_expect(
            json_is_integer(json_object_get(json_object_get(sink_of(status, 0), "owner"), "pid")));
        json_decref(status);
        expect_said(STATUS("--check"), 0, "nothing needs attention");

        database_exec(rig.owner,
            "INSERT INTO courier.pause (sink, by, reason) VALUES ('log', 'operator', 'tea')");
        relay_wait_for_log(relay, "event=sink_paused", 30000);
        publish_three();
        expect_state(0, "paused", 3);
        expect_said(STATUS("log"), 0, "help: pgcourier resume log -c ");

        relay_stop(relay);
        expect_state(0, "unowned", 3);
        expect_said(STATUS("--check"), 1, "No relay delivers log\n         3 events wait");
        relay_destroy(relay);
}

/* One event by itself that fails is no standstill, and neither is a receiver that is known to
 * fail. */
Test(status, calls_stalled_only_what_nothing_explains)
{
        struct relay_process *relay = start_relay();
        PGconn *owner = database_connect(rig.dsn);

        relay_stop(relay); /* its cursors are there */
        database_exec(owner, "SELECT pg_advisory_lock(1668248946, lock_id) FROM courier.cursor"
                             " WHERE sink = 'log'");
        insert_parked(&rig,
            "sink = 'log', due_at = now() + interval '1 hour', created_at = now() - "
            "interval '2 hours'");
        database_exec(
            rig.owner, "UPDATE courier.cursor SET settled_at = now() - interval '1 hour'");
        expect_state(0, "running", 0);
        database_exec(rig.owner, "UPDATE courier.parked SET due_at = now() - interval '1 hour'");
        expect_state(0, "stalled", 0);
        PQfinish(owner);
        relay_destroy(relay);
}

Test(status, tells_of_the_sinks_that_were_named)
{
        struct program_run run = STATUS("rest");

        cr_expect_not_null(strstr(run.out, "rest unowned"), "%s", run.out);
        cr_expect_null(strstr(run.out, "log"), "%s", run.out);
        program_run_free(&run);
}

Test(status, says_what_was_given_up_and_what_waits)
{
        insert_parked(&rig, "sink = 'log', key = 'k1', last_error = 'no such \x1b box'");
        insert_parked(&rig, "sink = 'log', key = 'k1', state = 'blocked'");
        insert_dead_letter(&rig, "sink = 'rest'");
        expect_said(STATUS("rest"), 0, "help: pgcourier dead list --sink rest -c ");
        expect_said(STATUS("log"), 0, "warning  Key k1 of log is blocked");
        expect_said(STATUS("log"), 0, "no such \\x1b box"); /* a peer's words move no cursor */
        expect_said(STATUS("log"), 0, "help: pgcourier parked retry --sink log 1 -c ");
}

Test(status, is_json_of_one_shape)
{
        static const char *const members[] = {"version", "instance", "can_change", "started_at",
            "now", "is_live", "ready", "not_ready", "config", "source", "sinks", "blocked_keys",
            "recent", "orphans", "relays", "attention"};
        static const char *const of_sinks[] = {"name", "kind", "target", "topics", "state",
            "state_reason", "state_since", "owner", "backlog", "in_flight", "window", "retrying",
            "blocked", "delayed", "dead", "next_retry_at", "next_retry_id", "next_retry_error",
            "receivers", "counters", "rate", "latency", "stages", "series", "last_error",
            "last_delivery_at"};
        static const char *const of_source[] = {"up", "error", "reconnects", "database", "server",
            "server_version", "schema", "notify_queue_usage", "sequence", "oldest_xmin",
            "outbox_bytes", "outbox_dead_tuples", "outbox_partitions", "retention", "owner_pid"};
        json_t *status = status_json();

        for (size_t i = 0; i < sizeof members / sizeof *members; i++)
                cr_expect_not_null(json_object_get(status, members[i]), "%s", members[i]);
        for (size_t i = 0; i < sizeof of_sinks / sizeof *of_sinks; i++)
                cr_expect_not_null(
                    json_object_get(sink_of(status, 1), of_sinks[i]), "%s", of_sinks[i]);
        for (size_t i = 0; i < sizeof of_source / sizeof *of_source; i++)
                cr_expect_not_null(json_object_get(json_object_get(status, "source"), of_source[i]),
                    "%s", of_source[i]);
        cr_expect(json_is_false(json_object_get(status, "is_live")));
        cr_expect_str_eq(json_string_value(json_object_get(sink_of(status, 1), "kind")), "stdout");
        cr_expect_eq(json_array_size(json_object_get(sink_of(status, 1), "topics")), 1);
        json_decref(status);
}

static const char answer[] =
    "{\"version\":\"9.9\",\"instance\":\"host/7\",\"is_live\":true,\"ready\":true,\"sinks\":["
    "{\"name\":\"log\",\"state\":\"down\",\"state_reason\":\"refused\",\"rate\":12.5,"
    "\"latency\":{\"p50\":0.0012,\"p99\":1.5},\"backlog\":{\"events\":5,\"is_exact\":true,"
    "\"oldest_age\":7},\"retrying\":1,\"dead\":0}]}";

static void start_receiver(void)
{
        char *admin;

        receiver = http_receiver_start(NULL, NULL);
        http_receiver_answer(receiver, &(struct http_answer){.status = 200, .body = answer});
        admin =
            xasprintf("admin: {listen: '127.0.0.1:%u', token: 0123456789abcdef0123456789abcdef}\n",
                http_receiver_port(receiver));
        write_config(admin);
        free(admin);
}

Test(status, asks_the_relay_that_runs)
{
        struct program_run run;
        char *token;

        start_receiver();
        run = STATUS("--color", "never");
        cr_expect_eq(run.code, 0, "%s", run.err);
        cr_expect_not_null(strstr(run.out, "pgcourier 9.9, host/7"), "%s", run.out);
        cr_expect_not_null(
            strstr(run.out, "log  down        5  7.0 s 12.5/s 1.2 ms 1.5 s        1    0\n"), "%s",
            run.out);
        cr_expect_not_null(
            strstr(run.out, "error    log is down\n         refused. 5 events and 1 parked"), "%s",
            run.out);
        program_run_free(&run);
        cr_expect_str_eq(http_receiver_request(receiver, 0)->target, "/api/status");
        token = http_request_header(http_receiver_request(receiver, 0), "Authorization");
        cr_expect_str_eq(token, "Bearer 0123456789abcdef0123456789abcdef");
        free(token);
}

Test(status, shows_what_is_not_marked)
{
        start_receiver();
        http_receiver_answer(
            receiver, &(struct http_answer){.status = 200,
                          .body = "{\"sinks\": [], \"marks\": {\"waiting\": 10000,"
                                  " \"counts_are_exact\": false, \"oldest_age\": 61.2},"
                                  " \"taps\": {\"states\": {\"ok\": 205}, \"first\": [{\"name\":"
                                  " \"o\", \"state\": \"ok\", \"table\": \"shop.o\", \"layout\":"
                                  " null, \"kind\": \"capture\", \"done\": \"delete\", "
                                  "\"unmarked\": {\"events\": 10000,"
                                  " \"is_exact\": false, \"oldest_age\": 61.2}}]}}"});
        expect_said(STATUS(), 0,
            "TAP STATE TABLE  LAYOUT  DONE   UNMARKED    OLDEST\n"
            "o   ok    shop.o capture delete   10000+ 1 min 1 s\n"
            "... and 204 more\n"
            "marks: 10000+ events wait; the oldest that is not marked is 1 min 1 s old\n\n");
}

/* The state of the second sink is this one. */
static bool is_in_state(void *context)
{
        json_t *status = status_json();
        bool is_so = strcmp(state_of(status, 1), context) == 0;

        json_decref(status);
        return is_so;
}

static struct relay_process *start_with_receiver(const char *name)
{
        char *folder = temp_folder();
        char *text = xasprintf("postgres: {dsn: \"%s\"}\n"
                               "admin: {listen: 'unix:%s/%s'}\n"
                               "sinks:\n"
                               "  - {name: log, topics: ['app.*'], stdout: {}}\n"
                               "  - {name: web, topics: ['app.*'], start: beginning,"
                               " http: {url: 'http://127.0.0.1:%u/', signing: none}}\n",
            rig.dsn, folder, name, free_port());
        struct relay_process *relay = relay_start("%s", text);

        free(config_path);
        config_path = program_file("pgcourier.yaml", text, strlen(text));
        relay_wait_for_log(relay, "sink=web", 30000); /* owned, here or elsewhere */
        free(text);
        free(folder);
        return relay;
}

Test(status, knows_from_the_relay_what_the_database_cannot)
{
        struct relay_process *owner = start_with_receiver("one"), *standby;

        publish_three();
        wait_until(is_in_state, (char[]){"down"}, 30000, "the status calls the sink down");
        expect_said(STATUS("--check"), 1, "error    web is down");
        standby = start_with_receiver("two");
        wait_until(is_in_state, (char[]){"standby"}, 30000, "the other relay stands by");
        relay_stop(standby);
        relay_stop(owner);
        relay_destroy(standby);
        relay_destroy(owner);
}

Test(status, asks_the_database_if_the_relay_does_not_answer)
{
        start_receiver();
        http_receiver_answer(receiver,
            &(struct http_answer){.status = 401, .body = "{\"error\":\"a token is needed\"}"});
        expect_said(STATUS(), 0, "answered 401: a token is needed");
        http_receiver_answer(receiver, &(struct http_answer){.status = 200, .body = "hello"});
        expect_said(STATUS(), 0, "is no status");
        http_receiver_stop(receiver);
        expect_said(STATUS(), 0, "is the relay running");
        expect_said(STATUS(), 0, "log  unowned");
}

Test(status, refuses_what_it_cannot_do)
{
        expect_refusal(STATUS("lug"), 2, "there is no sink \"lug\"; did you mean \"log\"?");
        expect_refusal(STATUS("--watch"), 2, "needs a terminal");
        expect_refusal(STATUS("--color", "red"), 2, "\"red\" is not auto, always or never");
        expect_refusal(program_run(NULL, "status", "--dsn", "host=/nowhere", NULL), 4, "/nowhere");
}

Test(status, colours_states_only_where_it_may)
{
        struct program_run run = STATUS("--color", "always");

        cr_expect_not_null(strstr(run.out, "\x1b[31m"), "%s", run.out);
        program_run_free(&run);
        run = STATUS();
        cr_expect_null(strstr(run.out, "\x1b"), "%s", run.out);
        program_run_free(&run);
        setenv("NO_COLOR", "1", 1);
        run = terminal_run(NULL, NULL, "status", "-c", config_path, NULL);
        cr_expect_null(strstr(run.out, "\x1b"), "%s", run.out);
        program_run_free(&run);
}

Test(status, watches_until_it_is_interrupted)
{
        struct program_run run =
            terminal_run("rest", "\x03", "status", "-c", config_path, "--watch", NULL);

        cr_expect_eq(run.code, 0, "exit code %d", run.code);
        cr_expect_not_null(strstr(run.out, "unowned"), "%s", run.out);
        program_run_free(&run);
}

Test(status, shows_taps_in_a_table_of_their_own)
{
        struct program_run run;

        run = STATUS();
        cr_expect_null(strstr(run.out, "\nTAP "), "%s", run.out);
        program_run_free(&run);
        database_exec(rig.owner,
            "CREATE TABLE public.m (id integer PRIMARY KEY, topic text, key text, type text,"
            " payload jsonb, headers jsonb, done timestamptz);"
            "CREATE TABLE public.n (LIKE m INCLUDING ALL);"
            "SELECT courier.attach('public.m', name => 'messages');"
            "SELECT courier.attach('public.n', done_set => 'done = now()', done_when => 'taken')");
        expect_said(STATUS(), 0,
            "\n\nTAP      STATE TABLE    LAYOUT  DONE        UNMARKED OLDEST\n"
            "messages ok    public.m message keep ");
        expect_said(STATUS(), 0, "\nn        ok    public.n message mark, taken ");
        database_exec(rig.owner, "ALTER TABLE m DISABLE TRIGGER USER");
        expect_said(STATUS("--check"), 1, "\nmessages disabled public.m ");
        expect_said(STATUS(), 0, "\nerror    Tap messages is disabled\n");

        /* Who asks for a sink is not told of taps. */
        run = STATUS("log");
        cr_expect_null(strstr(run.out, "messages"), "%s", run.out);
        program_run_free(&run);
}

/* Sessions of the test stand for relays. */
static PGconn *join(const char *name, const char *lanes)
{
        PGconn *session = database_connect(rig.dsn);
        char *sql = xasprintf(
            "SELECT courier.join_relays('%s', 'box', '0.2.0', 1, '{\"bus\": 4}');"
            "UPDATE courier.member SET joined_at = '2026-01-02 03:04:05+00' WHERE name = '%s';"
            "SELECT pg_advisory_lock(1668248946, lock_id) FROM courier.cursor"
            " WHERE sink = 'bus' AND lane IN (%s)",
            name, name, lanes);

        database_exec(session, sql);
        free(sql);
        return session;
}

Test(status, shows_several_relays_in_a_table_of_their_own)
{
        struct program_run run;
        PGconn *web1, *web2;

        database_exec(rig.owner, "SELECT courier.agree_shards('bus', 4, false, true, 'web1')");
        web1 = join("web1", "-1, -2, -3");
        run = STATUS();
        cr_expect_null(strstr(run.out, "RELAY"), "%s", run.out);
        program_run_free(&run);

        web2 = join("web2", "-4");
        database_exec(rig.owner, "UPDATE courier.member SET is_drained = true WHERE name = 'web2'");
        expect_said(STATUS(), 0,
            "\n\nRELAY STATE    HOST VERSION SINCE                    SHARDS\n"
            "web1  active   box  0.2.0   2026-01-02T03:04:05.000Z bus 3/4\n"
            "web2  draining box  0.2.0   2026-01-02T03:04:05.000Z bus 1/4\n\n");
        expect_said(STATUS(), 0, "\nnote     Relay web2 is drained\n");
        database_exec(web2, "SELECT pg_advisory_unlock_all()");
        PQfinish(web1);
        PQfinish(web2);

        /* Who asks for a sink is not told of relays. */
        run = STATUS("log");
        cr_expect_null(strstr(run.out, "RELAY"), "%s", run.out);
        program_run_free(&run);
}
