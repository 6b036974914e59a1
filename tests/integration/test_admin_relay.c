/* What the admin endpoint of a real relay says, and what it does when it is told to. */
#include "admin_rig.h"
#include "base/alloc.h"
#include "support/postgres_expect.h"
#include "support/program_expect.h"

#include <criterion/criterion.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define PATIENCE_MS 20000

static struct admin_rig rig;

static void start(void)
{
        admin_rig_start(&rig, postgres_shared(), "127.0.0.1", ", token: " ADMIN_TOKEN);
        admin_rig_await_ready(&rig, 200);
        admin_rig_await_sink(&rig, "backlog", "{\"events\": 0,"); /* the database was asked */
}

static void stop(void)
{
        admin_rig_stop(&rig);
}

TestSuite(admin_relay, .init = start, .fini = stop);

static void publish(const char *topic, const char *key)
{
        char *sql = xasprintf("SELECT courier.publish('%s', '{}', key => '%s')", topic, key);

        database_exec(rig.owner, sql);
        free(sql);
}

static json_t *post(const char *path, const char *body, unsigned status)
{
        return admin_rig_json(&rig, "POST", path, JSON_TYPE BEARER, body, status);
}

/* One member, written as JSON. */
static void expect_member(json_t *document, const char *name, const char *expected)
{
        char *text = json_dumps(json_object_get(document, name), JSON_ENCODE_ANY);

        cr_expect(
            text != NULL && strcmp(text, expected) == 0, "%s is %s, not %s", name, text, expected);
        free(text);
}

/* The words of one condition of /readyz. Free it. */
static char *words_of(const char *condition)
{
        struct http_reply reply = http_ask(rig.address, "GET", "/readyz", NULL, NULL);
        json_t *document = json_loads(reply.body, 0, NULL);
        char *words = NULL;
        const json_t *one;
        size_t i;

        json_array_foreach(json_object_get(document, "conditions"), i, one)
        {
                if (strcmp(json_string_value(json_object_get(one, "name")), condition) == 0)
                        words = xstrdup(json_string_value(json_object_get(one, "words")));
        }
        json_decref(document);
        http_reply_free(&reply);
        return words;
}

TestSuite(admin_without_postgres, .fini = stop);

Test(admin_without_postgres, lives_but_is_not_ready)
{
        struct postgres *postgres = postgres_start();
        char *words;

        admin_rig_start(&rig, postgres, "127.0.0.1", "");
        admin_rig_await_ready(&rig, 200);
        expect_output(
            program_run(NULL, "health", "--ready", "-c", rig.relay->config_path, NULL), "ready\n");

        postgres_stop(postgres);

        admin_rig_await_ready(&rig, 503);
        json_decref(admin_rig_json(&rig, "GET", "/livez", NULL, NULL, 200));
        words = words_of("postgres");
        cr_expect(words != NULL && *words != '\0' && strcmp(words, "connected") != 0, "%s", words);
        free(words);
        expect_refusal(program_run(NULL, "health", "--ready", "-c", rig.relay->config_path, NULL),
            1, "; postgres: ");
        expect_output(program_run(NULL, "health", "-c", rig.relay->config_path, NULL), "live\n");
        admin_rig_await_sink(&rig, "state", "disconnected");
        postgres_start_again(postgres);
        admin_rig_await_ready(&rig, 200);
        admin_rig_await_sink(&rig, "state", "running");
}

TestSuite(admin_unasked, .fini = stop);

/* By how its text begins: PostgreSQL shows no more than track_activity_query_size of it. */
#define LOOK_BEGAN                                                                                 \
        "(SELECT max(query_start) FROM pg_stat_activity"                                           \
        " WHERE strpos(query, '-- The state of everything, as the database knows') = 1"            \
        " AND pid <> pg_backend_pid() AND datname = current_database())"

static bool has_begun(void *before)
{
        char *sql =
            xasprintf("SELECT (coalesce(" LOOK_BEGAN " > '%s', false))::int", (char *)before);
        bool has = database_integer(rig.owner, sql) == 1;

        free(sql);
        return has;
}

/* After every reload the relay looks at the database, without any request. */
static void await_look(void)
{
        char *before = database_value(rig.owner, "SELECT clock_timestamp()");

        process_signal(&rig.relay->process, SIGHUP);
        wait_until(has_begun, before, PATIENCE_MS, "there is no look");
        free(before);
}

/* The last point of the chart of what waits. */
static bool is_backlog_known(void)
{
        json_t *status = admin_rig_json(&rig, "GET", "/api/status", NULL, NULL, 200);
        json_t *sink = json_array_get(json_object_get(status, "sinks"), 0);
        json_t *series = json_object_get(json_object_get(sink, "series"), "backlog");
        bool is_known = json_is_integer(json_array_get(series, json_array_size(series) - 1));

        json_decref(status);
        return is_known;
}

static bool is_known(void *context)
{
        (void)context;
        return is_backlog_known();
}

static bool is_unknown(void *context)
{
        (void)context;
        return !is_backlog_known();
}

/* When a look begins the one before it is over, and with it the state was taken. */
Test(admin_unasked, shows_since_when_a_sink_is_in_its_state_and_what_is_unknown)
{
        char *began, *sql;
        json_t *status;

        admin_rig_start(&rig, postgres_shared(), "127.0.0.1", "");
        relay_wait_for_log(rig.relay, "event=lane_owned", PATIENCE_MS);
        await_look(); /* may be that the statement is prepared, which looks the same */
        await_look();
        await_look();
        began = database_value(rig.owner, "SELECT " LOOK_BEGAN);
        status = admin_rig_json(&rig, "GET", "/api/status", NULL, NULL, 200);
        expect_member(json_array_get(json_object_get(status, "sinks"), 0), "state", "\"running\"");
        expect_member(status, "attention", "[]");
        sql = xasprintf("SELECT ('%s'::timestamptz <= '%s')::int",
            json_string_value(json_object_get(
                json_array_get(json_object_get(status, "sinks"), 0), "state_since")),
            began);
        cr_expect_eq(database_integer(rig.owner, sql), 1, "%s", sql);
        json_decref(status);
        free(sql);
        free(began);

        wait_until(is_known, NULL, PATIENCE_MS, "the chart has no backlog");
        database_exec(rig.owner, "ALTER TABLE courier.dead_letter RENAME TO hidden");
        wait_until(is_unknown, NULL, PATIENCE_MS, "the chart keeps a backlog that is unknown");
        status = admin_rig_json(&rig, "GET", "/api/status", NULL, NULL, 200);
        expect_member(json_array_get(json_object_get(status, "attention"), 0), "id", "\"look\"");
        json_decref(status);
        database_exec(rig.owner, "ALTER TABLE courier.hidden RENAME TO dead_letter");
}

Test(admin_relay, shows_what_was_delivered)
{
        json_t *status;
        json_t *sink;

        publish("orders.created", "k1");
        relay_wait_for_log(rig.relay, "orders.created", PATIENCE_MS);
        admin_rig_await_sink(&rig, "state", "running");

        status = admin_rig_json(&rig, "GET", "/api/status", NULL, NULL, 200);
        sink = json_array_get(json_object_get(status, "sinks"), 0);
        expect_member(status, "is_live", "true");
        expect_member(status, "ready", "true");
        expect_member(status, "not_ready", "[]");
        expect_member(sink, "name", "\"out\"");
        expect_member(sink, "kind", "\"stdout\"");
        expect_member(json_object_get(sink, "counters"), "delivered", "1");
        expect_member(json_array_get(json_object_get(status, "recent"), 0), "key", "\"k1\"");
        expect_member(
            json_array_get(json_object_get(status, "recent"), 0), "outcome", "\"delivered\"");
        json_decref(status);
}

Test(admin_relay, pauses_and_resumes)
{
        json_t *answer = post("/api/sinks/out/pause", "{\"reason\": \"a deploy\"}", 200);

        expect_member(answer, "paused", "true");
        expect_member(answer, "was_paused", "false");
        json_decref(answer);
        admin_rig_await_sink(&rig, "state", "paused");
        cr_expect_eq(database_integer(rig.owner, "SELECT count(*) FROM courier.pause WHERE sink = "
                                                 "'out' AND reason = 'a deploy'"),
            1);
        publish("held", "k1");
        admin_rig_await_sink(&rig, "backlog", "{\"events\": 1,");

        json_decref(post("/api/sinks/out/resume", "{}", 200));

        relay_wait_for_log(rig.relay, "held", PATIENCE_MS);
        admin_rig_await_sink(&rig, "state", "running");
}

static void insert_dead_letters(int n)
{
        char *sql = xasprintf(
            "INSERT INTO courier.dead_letter (sink, lane, outbox_id, event_id, topic, payload,"
            " created_at, attempts, reason, error)"
            " SELECT 'out', 0, i, gen_random_uuid(), 'died', '{}', now(), 3, 'rejected', 'no'"
            " FROM generate_series(1, %d) AS i",
            n);

        database_exec(rig.owner, sql);
        free(sql);
}

Test(admin_relay, lists_redrives_and_drops_dead_letters)
{
        json_t *answer;
        json_t *list;
        char *body;

        insert_dead_letters(4);
        answer = admin_rig_json(&rig, "GET", "/api/dead?sink=out&limit=3", NULL, NULL, 200);
        list = json_object_get(answer, "dead");
        cr_expect_eq(json_array_size(list), 3);
        expect_member(answer, "more", "true");
        cr_expect_null(json_object_get(json_array_get(list, 0), "payload"));
        body = xasprintf("{\"ids\": [%" JSON_INTEGER_FORMAT "]}",
            json_integer_value(json_object_get(json_array_get(list, 0), "id")));
        json_decref(answer);

        answer = post("/api/dead/drop", body, 200);
        expect_member(answer, "dropped", "1");
        json_decref(answer);
        cr_expect_eq(database_integer(rig.owner, "SELECT count(*) FROM courier.dead_letter"), 3);
        free(body);

        answer = post("/api/dead/redrive", "{\"sink\": \"out\", \"all\": true}", 200);
        expect_member(answer, "redriven", "3");
        json_decref(answer);
        relay_wait_for_log(rig.relay, "died", PATIENCE_MS);
        cr_expect_eq(database_integer(rig.owner, "SELECT count(*) FROM courier.dead_letter"), 0);
}

/* The object that docs/admin.md shows behind these words. */
static json_t *sample_behind(const char *page, const char *words)
{
        const char *begin = strstr(page, words);
        json_error_t error;
        json_t *sample;

        cr_assert_not_null(begin, "docs/admin.md does not have: %s", words);
        begin = strchr(begin + strlen(words), '{');
        cr_assert_not_null(begin);
        sample = json_loads(begin, JSON_DISABLE_EOF_CHECK, &error);
        cr_assert_not_null(sample, "docs/admin.md, %s: %s", words, error.text);
        return sample;
}

/* Both have the same members, and so have the objects within them. */
static void expect_same_members(const char *of, json_t *sample, json_t *real)
{
        const char *name;
        json_t *shown, *value;

        cr_expect_eq(json_is_object(sample), json_is_object(real),
            "docs/admin.md shows another type of %s", of);
        json_object_foreach(real, name, value)
        {
                shown = json_object_get(sample, name);
                cr_expect_not_null(shown, "docs/admin.md shows no \"%s\" of %s", name, of);
                if (shown != NULL)
                        expect_same_members(name, shown, value);
        }
        json_object_foreach(sample, name, shown)
        {
                cr_expect_not_null(json_object_get(real, name),
                    "docs/admin.md shows \"%s\" of %s, which has none", name, of);
        }
}

static void attach_messages(void)
{
        database_exec(rig.owner,
            "CREATE TABLE public.m (id serial PRIMARY KEY, topic text, key text, type text,"
            " payload jsonb, headers jsonb); SELECT courier.attach('public.m')");
}

static bool knows_tap(void *context)
{
        json_t *status = admin_rig_json(&rig, "GET", "/api/status", NULL, NULL, 200);
        json_t *taps = json_object_get(status, "taps");
        bool knows = json_array_size(json_object_get(taps, "first")) == 1;

        (void)context;
        json_decref(status);
        return knows;
}

Test(admin_relay, has_the_members_that_its_page_shows)
{
        const struct {
                const char *behind, *member;
        } samples[] = {
            {"One sink of the document", "sinks"},
            {"A finding:", "attention"},
            {"event: delivery", "recent"},
            {"{\"dead\":[", "dead"},
            {"One tap of the document", "tap"},
        };
        char *page = read_file(PGCOURIER_DOCS_FOLDER "/admin.md");
        json_t *status, *dead;

        attach_messages();
        database_exec(rig.owner, "UPDATE courier.attachment SET done = 'mark'");
        wait_until(knows_tap, NULL, PATIENCE_MS, "the tap is seen");
        database_exec(rig.owner,
            "SELECT courier.publish('large', to_json(repeat('x', 2000000)), key => 'k1')");
        admin_rig_await_sink(&rig, "last_error", "{\"at\": ");
        admin_rig_await_sink(&rig, "dead", "1"); /* the database was asked since */
        json_decref(post("/api/sinks/out/pause", "{\"reason\": \"a deploy\"}", 200));
        admin_rig_await_sink(&rig, "state", "paused");
        status = admin_rig_json(&rig, "GET", "/api/status", NULL, NULL, 200);
        dead = admin_rig_json(&rig, "GET", "/api/dead", NULL, NULL, 200);
        json_object_set(status, "dead", json_object_get(dead, "dead"));
        json_object_set(status, "tap", json_object_get(json_object_get(status, "taps"), "first"));

        for (size_t i = 0; i < sizeof samples / sizeof *samples; i++) {
                json_t *sample = sample_behind(page, samples[i].behind);
                json_t *real = json_array_get(json_object_get(status, samples[i].member), 0);

                cr_assert_not_null(real, "the status has no %s", samples[i].member);
                expect_same_members(samples[i].member, sample, real);
                json_decref(sample);
        }
        json_decref(dead);
        json_decref(status);
        free(page);
}

Test(admin_relay, changes_the_level_of_the_log)
{
        json_decref(post("/api/log", "{\"level\": \"debug\"}", 200));
        publish("loud", "k1");
        relay_wait_for_log(rig.relay, "level=debug event=delivered", PATIENCE_MS);
}

static int follow(const char *path)
{
        int socket = http_connect(rig.address);
        char *request = xasprintf("GET %s HTTP/1.1\r\nHost: localhost\r\n\r\n", path);

        http_send(socket, request);
        free(request);
        return socket;
}

Test(admin_relay, tells_of_deliveries_as_they_happen_and_ends_well)
{
        int socket = follow("/api/events");
        char *text = http_read_until(socket, "event: status\ndata: {\"version\"");

        free(text);
        publish("news", "k1");
        text = http_read_until(socket, "event: delivery\ndata: {");
        free(text);

        relay_stop(rig.relay); /* within its drain, with a client that is still there */

        text = http_read_until(socket, NULL);
        cr_expect_str_eq(text + strlen(text) - 5, "0\r\n\r\n", "the stream was cut off");
        free(text);
        close(socket);
}

/* The text of the next delivery of that topic. Free it. */
static char *next_delivery(int socket, const char *topic)
{
        char *end = xasprintf("\"topic\":\"%s\"", topic);
        char *text = http_read_until(socket, end);

        free(end);
        return text;
}

Test(admin_relay, tells_from_which_table_an_event_came)
{
        int socket = follow("/api/events?only=delivery");
        json_t *status, *recent;
        char *text;

        free(http_read_until(socket, ":\n\n"));
        attach_messages();
        wait_until(knows_tap, NULL, PATIENCE_MS, "the tap is seen");
        publish("native", "k1");
        text = next_delivery(socket, "native");
        cr_expect_not_null(strstr(text, "\"source\":null,"), "%s", text);
        free(text);
        database_exec(rig.owner, "INSERT INTO m (topic, payload) VALUES ('tapped', '{}')");
        text = next_delivery(socket, "tapped");
        cr_expect_not_null(strstr(text, "\"source\":\"public.m\","), "%s", text);
        free(text);
        status = admin_rig_json(&rig, "GET", "/api/status", NULL, NULL, 200);
        recent = json_array_get(json_object_get(status, "recent"), 0);
        cr_expect_str_eq(json_string_value(json_object_get(recent, "source")), "public.m");
        json_decref(status);

        /* One that is parked until it is due. */
        database_exec(rig.owner, "INSERT INTO courier.outbox (topic, payload, source, deliver_at)"
                                 " VALUES ('late', '{}', 1, now() + interval '200 ms')");
        text = next_delivery(socket, "late");
        cr_expect_not_null(strstr(text, "\"source\":\"public.m\","), "%s", text);
        free(text);

        /* A tap that no look has shown yet, or that is gone. */
        database_exec(rig.owner, "INSERT INTO courier.outbox (topic, payload, source)"
                                 " VALUES ('gone', '{}', 77)");
        text = next_delivery(socket, "gone");
        cr_expect_not_null(strstr(text, "\"source\":\"tap 77\","), "%s", text);
        free(text);
        close(socket);
}

/* A parked event keeps it. */
Test(admin_relay, tells_the_table_of_an_event_that_is_tried_again)
{
        json_t *dead;

        attach_messages();
        database_exec(rig.owner, "INSERT INTO m (topic, key, payload)"
                                 " VALUES ('large', 'k', to_jsonb(repeat('x', 2000000)))");
        admin_rig_await_sink(&rig, "dead", "1");
        dead = admin_rig_json(&rig, "GET", "/api/dead", NULL, NULL, 200);
        expect_member(json_array_get(json_object_get(dead, "dead"), 0), "source", "\"public.m\"");
        expect_member(json_array_get(json_object_get(dead, "dead"), 0), "source_key", "\"1\"");
        json_decref(dead);
}

/* Publishes until the follower has seen enough: only the follower can tell when it is connected. */
static bool has_followed(void *context)
{
        if (!process_is_running(context))
                return true;
        publish("tailed", "other");
        publish("tailed", "mine");
        database_exec(
            rig.owner, "INSERT INTO m (topic, key, payload) VALUES ('tapped', 'mine', '{}')");
        return false;
}

static char *tail(const char *option)
{
        char *path = xasprintf("%s/tail.out", rig.relay->folder);
        const char *const argv[] = {getenv("PGCOURIER"), "tail", "-c", rig.relay->config_path,
            "--sink", "out", "--key", "mine", "-n", "4", option, NULL};
        struct process process;
        char *text;

        unlink(path);
        process_start(&process, argv, path, false);
        wait_until(has_followed, &process, PATIENCE_MS, "tail does not end");
        cr_expect_eq(process_wait(&process, PATIENCE_MS), 0);
        text = read_file(path);
        free(path);
        return text;
}

/* What was published in a burst need not all be shown, and standard error says so. */
static const char *first_delivery(const char *text)
{
        while (strncmp(text, "... and ", 8) == 0 && strchr(text, '\n') != NULL)
                text = strchr(text, '\n') + 1;
        return text;
}

Test(admin_relay, prints_deliveries_in_tail)
{
        char *lines, *json;

        attach_messages();
        wait_until(knows_tap, NULL, PATIENCE_MS, "the tap is seen");
        lines = tail(NULL);
        cr_expect_not_null(strstr(lines, "  out       delivered  "), "%s", lines);
        cr_expect_not_null(strstr(lines, "  tailed            mine\n"), "%s", lines);
        cr_expect_not_null(strstr(lines, "  tapped            mine  from public.m\n"), "%s", lines);
        cr_expect_null(strstr(lines, "other"), "%s", lines);
        json = tail("--json");
        cr_expect(strncmp(first_delivery(json), "{\"at\":\"", 7) == 0, "%s", json);
        free(lines);
        free(json);
}

/* 16 clients that want everything and read nothing: each is held to what it is allowed, the others
 * are answered, and events go on being delivered. */
Test(admin_relay, is_not_held_up_by_clients_that_do_not_read)
{
        int sockets[16];
        struct http_reply reply;
        long before_kib;

        for (int i = 0; i < 16; i++) {
                int small = 4096;

                sockets[i] = follow("/api/events");
                setsockopt(sockets[i], SOL_SOCKET, SO_RCVBUF, &small, sizeof small);
                free(http_read_until(sockets[i], "event: status"));
        }
        before_kib = relay_rss_kib(rig.relay);
        reply = http_ask(rig.address, "GET", "/api/events", NULL, NULL);
        cr_expect_eq(reply.status, 503, "%s", reply.head);
        http_reply_free(&reply);

        database_exec(rig.owner,
            "SELECT courier.publish('storm', '{}') FROM generate_series(1, 20000);"
            "SELECT courier.publish('storm.last', '{}')");

        relay_wait_for_log(rig.relay, "storm.last", PATIENCE_MS);
        json_decref(admin_rig_json(&rig, "GET", "/livez", NULL, NULL, 200));
        cr_expect_lt(relay_rss_kib(rig.relay) - before_kib, 128 * 1024);
        for (int i = 0; i < 16; i++)
                close(sockets[i]);
}

static json_t *ask(const char *path, unsigned status)
{
        return admin_rig_json(&rig, "GET", path, BEARER, NULL, status);
}

#define TEXT_OF(object, name) json_string_value(json_object_get(object, name))

Test(admin_relay, tells_of_receivers_types_and_of_one_event)
{
        json_t *answer, *first;

        database_exec(rig.owner,
            "INSERT INTO courier.sink (name, fans_out) VALUES ('hooks', true);"
            "INSERT INTO courier.receiver (sink, name, url, state)"
            " SELECT 'hooks', 'r' || n, 'https://r.example/h?token=t',"
            " CASE n WHEN 7 THEN 'disabled' ELSE 'active' END FROM generate_series(1, 12) AS n;"
            "SELECT courier.publish('orders', '1')");
        answer = ask("/api/receivers?limit=2&search=R", 200);
        cr_expect_eq(json_integer_value(json_object_get(answer, "total")), 12);
        cr_expect_eq(json_array_size(json_object_get(answer, "receivers")), 2);
        first = json_array_get(json_object_get(answer, "receivers"), 0);
        cr_expect_str_eq(TEXT_OF(first, "name"), "r7", "the one in trouble comes first");
        cr_expect_str_eq(TEXT_OF(first, "url"), "https://r.example/h?...");
        cr_expect_eq(json_integer_value(json_object_get(first, "waiting")), 1);
        json_decref(answer);

        answer = ask("/api/receivers/r3", 200);
        cr_expect_str_eq(TEXT_OF(answer, "state"), "active");
        cr_expect(json_is_array(json_object_get(answer, "attempts")));
        cr_expect(json_is_null(json_object_get(answer, "secret")));
        json_decref(answer);
        json_decref(ask("/api/receivers/none", 404));
        json_decref(ask("/api/receivers?limit=x", 400));

        answer = ask("/api/trace/1", 200);
        cr_expect_str_eq(TEXT_OF(json_object_get(answer, "event"), "topic"), "orders");
        cr_expect_eq(json_array_size(json_object_get(answer, "deliveries")), 13);
        json_decref(answer);
        json_decref(ask("/api/trace/x", 404));

        database_exec(rig.owner, "INSERT INTO courier.event_type (name, example, deprecated)"
                                 " VALUES ('order.paid', '1', true), ('order.made', NULL, false)");
        answer = ask("/api/types", 200);
        cr_expect(json_is_false(json_object_get(answer, "strict")));
        cr_expect_eq(json_array_size(json_object_get(answer, "types")), 2);
        first = json_array_get(json_object_get(answer, "types"), 0);
        cr_expect_str_eq(TEXT_OF(first, "name"), "order.made");
        cr_expect(json_is_false(json_object_get(first, "has_example")));
        json_decref(answer);

        json_decref(admin_rig_json(&rig, "POST", "/api/receivers/r3/pause", JSON_TYPE BEARER,
            "{\"reason\": \"fix\"}", 200));
        expect_value(rig.owner,
            "SELECT state || state_reason FROM courier.receiver WHERE name = 'r3'", "pausedfix");
        json_decref(
            admin_rig_json(&rig, "POST", "/api/receivers/r3/resume", JSON_TYPE BEARER, "{}", 200));
        expect_value(rig.owner, "SELECT state FROM courier.receiver WHERE name = 'r3'", "active");
        json_decref(
            admin_rig_json(&rig, "POST", "/api/receivers/none/pause", JSON_TYPE BEARER, "{}", 404));
        json_decref(admin_rig_json(&rig, "POST", "/api/receivers/r3/pause", JSON_TYPE, "{}", 401));
}
