/*
 * The portal of a real relay, as customers see it, and as those try it who want more than theirs.
 * Two receivers share a sink; whatever the link of one asks for, nothing of the other may appear.
 */
#include "admin/portal/portal_routes.h"
#include "base/alloc.h"
#include "support/http_client.h"
#include "support/http_receiver.h"
#include "support/postgres.h"
#include "support/postgres_expect.h"
#include "support/program_expect.h"
#include "support/relay_fixture.h"
#include "support/relay_process.h"

#include <criterion/criterion.h>
#include <jansson.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define PATIENCE_MS 20000
#define JSON_TYPE   "Content-Type: application/json\r\n"

static struct fixture {
        char *dsn;
        PGconn *owner;
        struct http_receiver *http;
        struct relay_process *relay;
        char *address; /* of the portal */
        char *admin;
        char *show;   /* a header, with the token of a link of acme's that shows only */
        char *manage; /* and of one that manages */
        char *token;  /* of the latter */
} fixture;

static struct http_answer decide(void *context, const struct http_request *request)
{
        (void)context;
        if (strstr(request->body, "poison") == NULL)
                return (struct http_answer){.status = 200, .body = "thanks"};
        return strncmp(request->target, "/acme", 5) == 0
                   ? (struct http_answer){.status = 422, .body = "no such article"}
                   : (struct http_answer){.status = 422, .body = "RIVAL words"};
}

static char *line_of(const char *text)
{
        return xstrndup(text, strcspn(text, "\n"));
}

/* The token of a new link; free it. */
static char *link_to(const char *name, const char *option)
{
        struct program_run run = program_run(
            NULL, "receiver", "link", name, "-c", fixture.relay->config_path, option, NULL);
        char *line = line_of(run.out);
        char *token;

        cr_assert_eq(run.code, 0, "%s", run.err);
        cr_assert_not_null(strchr(line, '#'), "%s", line);
        token = xstrdup(strchr(line, '#') + 1);
        cr_assert_eq(strlen(token), PORTAL_TOKEN_LENGTH, "%s", token);
        free(line);
        program_run_free(&run);
        return token;
}

static char *bearer(const char *token)
{
        return xasprintf("Authorization: Bearer %s\r\n", token);
}

/* What the relay's configuration says; `portal` is that block, or "". Free it. */
static char *configure(const char *portal)
{
        char *dsn = dsn_as_user(fixture.dsn, "relay");
        char *text = xasprintf("postgres: {dsn: \"%s\"}\n"
                               "relay: {sweep: 200ms}\n"
                               "admin: {listen: \"%s\"}\n"
                               "%s\n"
                               "sinks:\n"
                               "  - {name: backstage, topics: [\"**\"], attempts: all,\n"
                               "     retry: {attempts: 1},\n"
                               "     http: {receivers: table, allow_networks: [127.0.0.1],"
                               " allow_ports: [%u]}}\n",
            dsn, fixture.admin, portal, http_receiver_port(fixture.http));

        free(dsn);
        return text;
}

/* The block itself, with more keys, each with a comma before it. Free it. */
static char *portal_block(const char *settings)
{
        return xasprintf("portal: {listen: \"%s\", base_url: \"http://%s/\"%s}", fixture.address,
            fixture.address, settings);
}

static bool answers(void *unused)
{
        struct http_reply reply =
            http_ask(fixture.address, "GET", "/api/receiver", fixture.show, NULL);
        bool is_there = reply.status != 503;

        (void)unused;
        http_reply_free(&reply);
        return is_there;
}

/* It listens before it has a session in the database. */
static void await_session(void)
{
        wait_until(answers, NULL, PATIENCE_MS, "the portal has a session");
}

static void start(const char *settings)
{
        unsigned port = free_port(), admin_port = free_port();
        char *block, *text;

        fixture = (struct fixture){0};
        fixture.dsn = postgres_new_database(postgres_shared());
        fixture.owner = database_connect(fixture.dsn);
        fixture.http = http_receiver_start(NULL, NULL);
        http_receiver_decide(fixture.http, decide, NULL);
        fixture.address = xasprintf("127.0.0.1:%u", port);
        fixture.admin = xasprintf("127.0.0.1:%u", admin_port);
        block = portal_block(settings);
        text = configure(block);
        fixture.relay = relay_start("%s", text);
        free(text);
        free(block);
        relay_wait_for_log(fixture.relay, "event=receivers_read", PATIENCE_MS);
        for (int i = 0; i < 2; i++) {
                const char *name = i == 0 ? "acme" : "rival";
                char *sql = xasprintf(
                    "INSERT INTO courier.receiver (sink, name, url, topics, description)"
                    " VALUES ('backstage', '%s', 'http://127.0.0.1:%u/%s?token=hidden', '{%s.**}',"
                    " 'a note of the operator''s')",
                    name, http_receiver_port(fixture.http), name, name);
                database_exec(fixture.owner, sql);
                free(sql);
        }
        char *token = link_to("acme", NULL);
        fixture.show = bearer(token);
        free(token);
        fixture.token = link_to("acme", "--manage");
        fixture.manage = bearer(fixture.token);
        await_session();
}

static void start_plainly(void)
{
        start("");
}

static void stop(void)
{
        relay_stop(fixture.relay);
        relay_destroy(fixture.relay);
        http_receiver_destroy(fixture.http);
        PQfinish(fixture.owner);
        free(fixture.dsn);
        free(fixture.address);
        free(fixture.admin);
        free(fixture.show);
        free(fixture.manage);
        free(fixture.token);
}

TestSuite(portal, .init = start_plainly, .fini = stop);
TestSuite(portal_limited, .fini = stop);

/* What no customer of acme's may ever read. */
static void expect_nothing_of_others(const char *what, const char *text)
{
        static const char *const hidden[] = {"rival", "RIVAL", "backstage", "operator's", "lane",
            "courier.", "http.", "hidden", "SELECT", "pg_"};

        for (size_t i = 0; i < sizeof hidden / sizeof hidden[0]; i++)
                cr_expect_null(strstr(text, hidden[i]), "%s tells %s: %s", what, hidden[i], text);
}

/* Once more where the link's own rate is in the way, which most tests are not about. */
static struct http_reply ask_in_time(
    const char *method, const char *path, const char *headers, const char *body)
{
        struct http_reply reply = http_ask(fixture.address, method, path, headers, body);

        while (reply.status == 429) {
                http_reply_free(&reply);
                database_exec(fixture.owner, "SELECT pg_sleep(0.1)");
                reply = http_ask(fixture.address, method, path, headers, body);
        }
        return reply;
}

/* Free it; fails unless the answer has that status. */
static json_t *ask(
    const char *method, const char *path, const char *headers, const char *body, unsigned status)
{
        char *all =
            xasprintf("%s%s", headers != NULL ? headers : "", body != NULL ? JSON_TYPE : "");
        struct http_reply reply = ask_in_time(method, path, all, body);
        json_t *document = json_loads(reply.body, 0, NULL);

        cr_assert_eq(reply.status, status, "%s %s: %s%s", method, path, reply.head, reply.body);
        cr_assert_not_null(document, "%s %s: %s", method, path, reply.body);
        expect_nothing_of_others(path, reply.body);
        cr_expect_null(strstr(reply.body, "+00:00"), "a time without Z: %s", reply.body);
        http_reply_free(&reply);
        free(all);
        return document;
}

static void expect_refused(const char *method, const char *path, const char *headers,
    const char *body, unsigned status, const char *words)
{
        json_t *answer = ask(method, path, headers, body, status);
        const char *said = json_string_value(json_object_get(answer, "error"));

        cr_expect(said != NULL && strstr(said, words) != NULL, "%s %s: %s", method, path, said);
        json_decref(answer);
}

static void expect_text(const json_t *document, const char *name, const char *expected)
{
        const json_t *value = json_object_get(document, name);
        char *text = json_is_string(value) ? xstrdup(json_string_value(value))
                                           : json_dumps(value, JSON_ENCODE_ANY);

        cr_expect(
            text != NULL && strcmp(text, expected) == 0, "%s is %s, not %s", name, text, expected);
        free(text);
}

static void deliver(const char *topic, const char *payload)
{
        char *sql = xasprintf("SELECT courier.publish('%s', '%s')", topic, payload);

        database_exec(fixture.owner, sql);
        free(sql);
        await_in_database(fixture.owner,
            "SELECT count(*) = (SELECT count(*) FROM courier.outbox WHERE topic !~ '^courier')"
            " FROM (SELECT DISTINCT outbox_id FROM courier.attempt) AS a",
            "not all events were attempted");
}

static int64_t event_of(const char *topic)
{
        char *sql = xasprintf("SELECT max(id) FROM courier.outbox WHERE topic = '%s'", topic);
        int64_t id = database_integer(fixture.owner, sql);

        free(sql);
        return id;
}

static void set(const char *sql)
{
        database_exec(fixture.owner, sql);
}

Test(portal, lets_a_link_in_until_it_ends)
{
        char *token = link_to("acme", "--for=2h");
        char *header = bearer(token);
        json_t *answer = ask("GET", "/api/receiver", header, NULL, 200);

        expect_text(answer, "name", "acme");
        expect_text(answer, "state", "active");
        expect_text(answer, "may", "[]");
        expect_text(answer, "signing", "standard");
        expect_text(answer, "attempts_kept", "all");
        json_decref(answer);
        cr_expect_eq(database_integer(fixture.owner,
                         "SELECT count(*) FROM courier.receiver_link AS l"
                         " WHERE expires_at - created_at BETWEEN '119 min' AND '121 min'"),
            1);

        set("UPDATE courier.receiver_link SET expires_at = clock_timestamp()"
            " WHERE expires_at - created_at > '90 min'");
        expect_refused("GET", "/api/receiver", header, NULL, 401, "has expired");
        cr_expect_eq(
            database_integer(fixture.owner, "SELECT count(*) FROM courier.receiver_link"), 3);
        set("SELECT courier.maintain()");
        cr_expect_eq(
            database_integer(fixture.owner, "SELECT count(*) FROM courier.receiver_link"), 2);

        expect_each_text(program_run(NULL, "receiver", "links", "acme", "--dsn", fixture.dsn, NULL),
            0, (const char *const[]){"MANAGE", "yes", "no", NULL});
        expect_output(program_run(NULL, "receiver", "unlink", "acme", "--dsn", fixture.dsn, NULL),
            "2 links of acme withdrawn\n");
        expect_refused("GET", "/api/receiver", fixture.manage, NULL, 401, "was withdrawn");
        expect_refused("POST", "/api/pause", fixture.manage, "{}", 401, "was withdrawn");
        free(header);
        free(token);
}

Test(portal, ends_links_with_their_receiver)
{
        set("DELETE FROM courier.receiver WHERE name = 'acme'");

        expect_refused("GET", "/api/receiver", fixture.show, NULL, 401, "Ask for a new one");
        cr_expect_eq(
            database_integer(fixture.owner, "SELECT count(*) FROM courier.receiver_link"), 0);
}

Test(portal, makes_links_only_where_they_would_work)
{
        const char *config = fixture.relay->config_path;
        static const char text[] =
            "postgres: {dsn: \"host=/tmp\"}\nsinks: [{name: a, topics: ['**'], stdout: {}}]\n";
        char *plain = program_file("plain.yaml", text, sizeof text - 1);

        expect_refusal(program_run(NULL, "receiver", "link", "nobody", "-c", config, NULL), 8,
            "no receiver \"nobody\"");
        expect_refusal(program_run(NULL, "receiver", "link", "acme", "-c", plain, NULL), 3,
            "there is no portal");
        expect_refusal(program_run(NULL, "receiver", "link", "acme", "--dsn", fixture.dsn, NULL), 2,
            "needs -c FILE");
        expect_refusal(
            program_run(NULL, "receiver", "link", "acme", "-c", config, "--for", "31d", NULL), 2,
            "from 1m to 30d");
        expect_refusal(program_run(NULL, "receiver", "unlink", "acme", "--id", "999999", "--dsn",
                           fixture.dsn, NULL),
            8, "no link 999999");
        free(plain);
}

Test(portal, shows_what_became_of_events)
{
        json_t *answer, *first;
        char *path;

        deliver("acme.paid", "{\"order\": 1}");
        deliver("acme.paid", "{\"poison\": 2}");
        deliver("rival.paid", "{\"poison\": 3}");

        answer = ask("GET", "/api/attempts", fixture.show, NULL, 200);
        cr_assert_eq(json_array_size(json_object_get(answer, "attempts")), 2);
        first = json_array_get(json_object_get(answer, "attempts"), 0);
        expect_text(first, "outcome", "dead");
        expect_text(first, "status", "422");
        expect_text(first, "topic", "acme.paid");
        expect_text(first, "answer", "422 Unprocessable Content: no such article");
        expect_text(answer, "next", "null");
        json_decref(answer);
        answer = ask("GET", "/api/attempts?failed=true", fixture.show, NULL, 200);
        cr_expect_eq(json_array_size(json_object_get(answer, "attempts")), 1);
        json_decref(answer);

        answer = ask("GET", "/api/events", fixture.show, NULL, 200);
        cr_assert_eq(json_array_size(json_object_get(answer, "events")), 2);
        expect_text(json_array_get(json_object_get(answer, "events"), 0), "state", "failed");
        expect_text(json_array_get(json_object_get(answer, "events"), 1), "state", "delivered");
        json_decref(answer);

        answer = ask("GET", "/api/open", fixture.show, NULL, 200);
        cr_assert_eq(json_array_size(json_object_get(answer, "events")), 1);
        expect_text(json_array_get(json_object_get(answer, "events"), 0), "state", "failed");
        json_decref(answer);

        path = xasprintf("/api/events/%jd", (intmax_t)event_of("acme.paid"));
        answer = ask("GET", path, fixture.show, NULL, 200);
        expect_text(answer, "payload", "{\"poison\": 2}");
        expect_text(answer, "state", "failed");
        cr_expect_eq(json_array_size(json_object_get(answer, "attempts")), 1);
        free(path);
        path = xasprintf("/api/events/%s", json_string_value(json_object_get(answer, "event_id")));
        json_decref(answer);
        answer = ask("GET", path, fixture.show, NULL, 200);
        expect_text(answer, "topic", "acme.paid");
        json_decref(answer);
        free(path);
}

Test(portal, pages_through_attempts_and_events_without_gaps)
{
        static const char *const routes[] = {"attempts", "events"};

        set("SELECT courier.publish('acme.many', to_json(i)) FROM generate_series(1, 120) AS i");
        set("SELECT courier.publish('rival.many', to_json(i)) FROM generate_series(1, 120) AS i");
        await_in_database(fixture.owner,
            "SELECT count(DISTINCT outbox_id) = 240 FROM courier.attempt",
            "not all were attempted");
        for (size_t i = 0; i < 2; i++) {
                char *path = xasprintf("/api/%s", routes[i]);
                size_t n = 0;
                unsigned n_pages = 0;
                bool has_more = true;
                bool was_seen[1024] = {false};

                while (has_more && n_pages++ < 10) {
                        json_t *answer = ask("GET", path, fixture.show, NULL, 200);
                        json_t *list = json_object_get(answer, routes[i]);
                        json_t *next = json_object_get(answer, "next");
                        char *text = json_is_string(next) ? xstrdup(json_string_value(next))
                                                          : json_dumps(next, JSON_ENCODE_ANY);

                        for (size_t at = 0; at < json_array_size(list); at++) {
                                json_int_t event = json_integer_value(
                                    json_object_get(json_array_get(list, at), "event"));

                                cr_assert(event > 0 && event < 1024);
                                cr_expect_not(was_seen[event], "twice");
                                was_seen[event] = true;
                                n++;
                        }
                        has_more = !json_is_null(next);
                        free(path);
                        path = xasprintf("/api/%s?before=%s", routes[i], text);
                        free(text);
                        json_decref(answer);
                }
                cr_expect_eq(n, 120, "%s: %zu", routes[i], n);
                free(path);
        }
}

/* Every route of the table, with what belongs to the other receiver. */
Test(portal, shows_and_changes_nothing_of_others)
{
        int64_t theirs, later;
        char *id, *body, *before;

        deliver("acme.paid", "{\"order\": 1}");
        deliver("rival.paid", "{\"poison\": \"RIVAL payload\"}");
        set("SELECT courier.publish('rival.later', '\"RIVAL payload\"', deliver_at => now() + '1 "
            "day')");
        await_in_database(
            fixture.owner, "SELECT count(*) = 1 FROM courier.parked", "it is not put off");
        theirs = event_of("rival.paid");
        later = event_of("rival.later");
        id = database_value(
            fixture.owner, "SELECT event_id FROM courier.outbox WHERE topic = 'rival.paid'");
        body = xasprintf("{\"event\": %jd}", (intmax_t)theirs);
        before = database_value(fixture.owner, "SELECT md5(r::text) FROM courier.receiver AS r"
                                               " WHERE name = 'rival'");
        for (const struct portal_route *route = portal_routes; route->path != NULL; route++) {
                bool is_event = strchr(route->path, '*') != NULL;
                bool is_post = strcmp(route->method, "POST") == 0;
                const char *bodies[] = {body,
                    "{\"url\": \"http://127.0.0.1/\", \"name\": \"rival\"}",
                    "{\"receiver\": \"rival\"}", "{\"receiver\": 2}", "[]", "{", ""};

                for (size_t i = 0; is_event && i < 3; i++) {
                        char *path = i == 0 ? xasprintf("/api/events/%s", id)
                                            : xasprintf("/api/events/%jd",
                                                  (intmax_t)(i == 1 ? theirs : later));

                        expect_refused("GET", path, fixture.manage, NULL, 404, "no such event");
                        free(path);
                }
                for (size_t i = 0; is_post && i < sizeof bodies / sizeof bodies[0]; i++)
                        json_decref(ask("POST", route->path, fixture.manage, bodies[i],
                            i == 0 && route->question == PORTAL_RESEND ? 404 : 400));
                for (int i = 0; !is_post && !is_event && i < 2; i++) {
                        char *path = i == 0 ? xasprintf("%s?receiver=rival&sink=backstage&lane=2"
                                                        "&name=rival&before=%jd%s",
                                                  route->path, (intmax_t)theirs + 1,
                                                  route->question == PORTAL_ATTEMPTS ? ".1.1" : "")
                                            : xstrdup(route->path);

                        json_decref(ask("GET", path, fixture.manage, NULL, 200));
                        free(path);
                }
        }
        cr_expect_eq(database_integer(fixture.owner, "SELECT count(*) FROM courier.parked"), 1);
        cr_expect_eq(
            database_integer(fixture.owner, "SELECT count(*) FROM courier.dead_letter"), 1);
        /* What the link may do stays with its own receiver, too. */
        json_decref(ask("POST", "/api/pause", fixture.manage, "{}", 200));
        json_decref(ask("POST", "/api/resume", fixture.manage, "{}", 200));
        json_decref(ask("POST", "/api/secret", fixture.manage, "{}", 200));
        json_decref(
            ask("POST", "/api/url", fixture.manage, "{\"url\": \"https://acme.example/\"}", 200));
        char *after = database_value(fixture.owner, "SELECT md5(r::text) FROM courier.receiver AS r"
                                                    " WHERE name = 'rival'");
        cr_expect_str_eq(before, after);
        free(after);
        free(before);
        free(body);
        free(id);
}

Test(portal, refuses_what_is_no_request_of_its_page)
{
        static const char *const odd[] = {"/api/events/0", "/api/events/-1",
            "/api/events/99999999999999999999", "/api/events/1%20OR%201=1", "/api/events/%27",
            "/api/events/..%2f..%2fetc%2fpasswd"};
        static const char *const nothing[] = {"/api/status", "/api/receivers",
            "/api/receivers/rival", "/metrics", "/livez", "/readyz", "/api/dead", "/api/trace/1",
            "/api/sinks/x/pause", "/page/../portal.html", "/page/%2e%2e", "/page/app.mjs",
            "/page/actions.mjs", "//", "/x", "/api/receiver/", "/api/events/1/2"};
        char *huge = xcalloc(1, 10000);
        char *header;

        for (size_t i = 0; i < sizeof odd / sizeof odd[0]; i++)
                json_decref(ask("GET", odd[i], fixture.manage, NULL, 404));
        for (size_t i = 0; i < sizeof nothing / sizeof nothing[0]; i++)
                json_decref(ask("GET", nothing[i], fixture.manage, NULL, 404));
        for (const struct portal_route *route = portal_routes; route->path != NULL; route++) {
                bool is_post = strcmp(route->method, "POST") == 0;
                const char *path = strchr(route->path, '*') != NULL ? "/api/events/1" : route->path;

                json_decref(ask(is_post ? "GET" : "POST", path, fixture.manage, NULL, 405));
                json_decref(ask("DELETE", path, fixture.manage, NULL, 405));
                json_decref(ask(route->method, path, NULL, is_post ? "{}" : NULL, 401));
                header = xasprintf("%sOrigin: https://evil.example\r\n", fixture.manage);
                json_decref(ask(route->method, path, header, is_post ? "{}" : NULL, 403));
                free(header);
        }
        header = xasprintf("%sOrigin: null\r\n", fixture.manage);
        expect_refused("POST", "/api/pause", header, "{}", 403, "Another site");
        free(header);
        memset(huge, ' ', 9999);
        expect_refused("POST", "/api/pause", fixture.manage, huge, 413, "larger than 8 KiB");
        header = xasprintf("%sContent-Type: text/plain\r\nContent-Length: 2\r\n", fixture.manage);
        struct http_reply reply = http_ask(fixture.address, "POST", "/api/pause", header, NULL);
        cr_expect(
            reply.status == 415 || reply.status == 0 || reply.status == 400, "%u", reply.status);
        http_reply_free(&reply);
        free(header);
        json_decref(ask("GET", "/api/attempts?before=1", fixture.manage, NULL, 400));
        json_decref(ask("GET", "/api/events?before=x", fixture.manage, NULL, 400));
        cr_expect_eq(database_integer(fixture.owner,
                         "SELECT count(*) FROM courier.receiver WHERE state = 'active'"),
            2);
        free(huge);

        reply = http_ask(fixture.admin, "GET", "/api/attempts", fixture.manage, NULL);
        cr_expect_eq(
            reply.status, 404, "a route of the portal on the admin endpoint: %s", reply.head);
        http_reply_free(&reply);
}

Test(portal, serves_its_page_with_a_policy_that_lets_nothing_else_in)
{
        static const char *const lines[] = {
            "Content-Security-Policy: default-src 'none'; script-src 'self'; style-src 'self'; "
            "connect-src 'self'; img-src 'self'; base-uri 'none'; form-action 'none'; "
            "frame-ancestors 'none'\r\n",
            "X-Content-Type-Options: nosniff\r\n", "Referrer-Policy: no-referrer\r\n",
            "Cache-Control: no-store\r\n", "Cross-Origin-Opener-Policy: same-origin\r\n",
            "Cross-Origin-Resource-Policy: same-origin\r\n", "Permissions-Policy: camera=()"};
        static const char *const paths[] = {"/", "/page/portal.mjs", "/api/receiver"};

        for (size_t i = 0; i < sizeof paths / sizeof paths[0]; i++) {
                struct http_reply reply =
                    http_ask(fixture.address, "GET", paths[i], fixture.show, NULL);

                cr_expect_eq(reply.status, 200, "%s", reply.head);
                for (size_t at = 0; at < sizeof lines / sizeof lines[0]; at++)
                        cr_expect_not_null(strstr(reply.head, lines[at]), "%s", reply.head);
                cr_expect_null(strstr(reply.head, "Set-Cookie"));
                cr_expect_null(strstr(reply.head, "Access-Control-"));
                http_reply_free(&reply);
        }
}

Test(portal, changes_nothing_by_a_link_that_only_shows)
{
        char *body;

        deliver("acme.paid", "{\"poison\": 2}");
        body = xasprintf("{\"event\": %jd}", (intmax_t)event_of("acme.paid"));
        for (const struct portal_route *route = portal_routes; route->path != NULL; route++)
                if (strcmp(route->method, "POST") == 0)
                        expect_refused("POST", route->path, fixture.show,
                            route->question == PORTAL_RESEND ? body
                            : route->question == PORTAL_URL  ? "{\"url\": \"https://a.example/\"}"
                                                             : "{}",
                            403, "only show");
        cr_expect_eq(database_integer(fixture.owner,
                         "SELECT count(*) FROM courier.receiver WHERE name = 'acme'"
                         " AND state = 'active' AND url ~ '127' AND old_secrets = '{}'"),
            1);
        cr_expect_eq(
            database_integer(fixture.owner, "SELECT count(*) FROM courier.dead_letter"), 1);
        free(body);

        /* Nor what only shows while the receiver stands still. */
        deliver("acme.paid", "{\"order\": 1}");
        body = xasprintf("{\"event\": %jd}", (intmax_t)event_of("acme.paid"));
        set("UPDATE courier.receiver SET state = 'disabled' WHERE name = 'acme'");
        expect_refused("POST", "/api/resend", fixture.show, body, 403, "only show");
        expect_refused("POST", "/api/resume", fixture.show, "{}", 403, "only show");
        cr_expect_eq(database_integer(fixture.owner,
                         "SELECT count(*) FROM courier.receiver WHERE state = 'disabled'"),
            1);
        cr_expect_eq(database_integer(fixture.owner, "SELECT count(*) FROM courier.parked"), 0);
        cr_expect_eq(relay_count_in_log(fixture.relay, "event=portal_action"), 0);
        free(body);
}

Test(portal, resends_what_was_given_up_and_what_was_delivered)
{
        char *body;
        json_t *answer;

        deliver("acme.paid", "{\"order\": 1}");
        body = xasprintf("{\"event\": %jd}", (intmax_t)event_of("acme.paid"));
        answer = ask("POST", "/api/resend", fixture.manage, body, 200);
        expect_text(answer, "resent", "true");
        json_decref(answer);
        await_in_database(fixture.owner,
            "SELECT count(*) = 2 FROM courier.attempt WHERE outcome = 'delivered'",
            "it was not sent again");
        free(body);

        deliver("acme.paid", "{\"poison\": 2}");
        body = xasprintf("{\"event\": %jd}", (intmax_t)event_of("acme.paid"));
        await_in_database(
            fixture.owner, "SELECT count(*) = 1 FROM courier.dead_letter", "it did not die");
        json_decref(ask("POST", "/api/resend", fixture.manage, body, 200));
        await_in_database(fixture.owner,
            "SELECT count(*) = 2 FROM courier.attempt WHERE outcome = 'dead'",
            "what had died was not sent again");

        /* While it stands still the event stays on its way, and is sent once. */
        json_decref(ask("POST", "/api/pause", fixture.manage, "{}", 200));
        await_in_database(
            fixture.owner, "SELECT count(*) = 1 FROM courier.dead_letter", "it did not die");
        json_decref(ask("POST", "/api/resend", fixture.manage, body, 200));
        expect_refused("POST", "/api/resend", fixture.manage, body, 409, "on its way already");
        cr_expect_eq(database_integer(fixture.owner, "SELECT count(*) FROM courier.parked"), 1);
        relay_wait_for_log(fixture.relay, "event=portal_action action=resend receiver=acme", 5000);
        free(body);
}

Test(portal, pauses_and_resumes_but_not_what_the_operator_paused)
{
        json_t *answer;

        json_decref(ask("POST", "/api/pause", fixture.manage, "{}", 200));
        answer = ask("GET", "/api/receiver", fixture.manage, NULL, 200);
        expect_text(answer, "state", "paused");
        expect_text(answer, "is_paused_by_owner", "true");
        expect_text(answer, "may", "[\"resend\", \"pause\", \"url\", \"secret\"]");
        json_decref(answer);
        json_decref(ask("POST", "/api/resume", fixture.manage, "{}", 200));
        answer = ask("GET", "/api/receiver", fixture.manage, NULL, 200);
        expect_text(answer, "state", "active");
        json_decref(answer);

        set("UPDATE courier.receiver SET state = 'paused', state_reason = 'hidden: owes money'"
            " WHERE name = 'acme'");
        expect_refused("POST", "/api/resume", fixture.manage, "{}", 409, "sender of the events");
        json_decref(ask("POST", "/api/pause", fixture.manage, "{}", 200));
        expect_refused("POST", "/api/resume", fixture.manage, "{}", 409, "sender of the events");
        answer = ask("GET", "/api/receiver", fixture.manage, NULL, 200);
        expect_text(answer, "is_paused_by_owner", "false");
        json_decref(answer);

        set("UPDATE courier.receiver SET state = 'disabled' WHERE name = 'acme'");
        json_decref(ask("POST", "/api/resume", fixture.manage, "{}", 200));
        cr_expect_eq(database_integer(fixture.owner,
                         "SELECT count(*) FROM courier.receiver WHERE name = 'acme'"
                         " AND state = 'active'"),
            1);
}

Test(portal, changes_the_url_by_the_rules_of_the_sink)
{
        static const char *const refused[] = {"http://10.0.0.1/", "http://[::1]/",
            "ftp://a.example/", "https://a.example:22/", "https://user:secret@a.example/",
            "javascript:alert(1)", "", "http://", "https://a.example/ b",
            "https://a.example/\\r\\nX: y", "HTTPS://a.example/", "https://a\\\\b.example/",
            "http://169.254.169.254/latest/", "https://\\u00e4.example/", "http://0x7f000001/",
            "http://2130706433/"};
        char *body = xasprintf(
            "{\"url\": \"http://127.0.0.1:%u/elsewhere\"}", http_receiver_port(fixture.http));

        for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++) {
                char *wrong = xasprintf("{\"url\": \"%s\"}", refused[i]);
                struct http_reply reply;

                char *headers = xasprintf("%s" JSON_TYPE, fixture.manage);
                reply = ask_in_time("POST", "/api/url", headers, wrong);
                /* The odd spellings of 127.0.0.1 are allowed here, as that is. */
                cr_expect(reply.status == 400 || (reply.status == 200 && i >= 14), "%s: %u %s",
                    wrong, reply.status, reply.body);
                expect_nothing_of_others(wrong, reply.body);
                http_reply_free(&reply);
                free(headers);
                free(wrong);
        }
        json_decref(ask("POST", "/api/url", fixture.manage, body, 200));
        deliver("acme.paid", "{\"order\": 1}");
        cr_expect_eq(database_integer(fixture.owner,
                         "SELECT count(*) FROM courier.receiver WHERE url ~ '/elsewhere$'"),
            1);
        free(body);
}

Test(portal, rotates_the_secret_and_keeps_it_out_of_the_log)
{
        json_t *answer = ask("POST", "/api/secret", fixture.manage, "{}", 200);
        const char *secret = json_string_value(json_object_get(answer, "secret"));
        char *stored = database_value(
            fixture.owner, "SELECT secret FROM courier.receiver WHERE name = 'acme'");

        cr_expect_str_eq(secret, stored);
        cr_expect_eq(database_integer(fixture.owner,
                         "SELECT cardinality(old_secrets) FROM courier.receiver"
                         " WHERE name = 'acme' AND old_secrets_until > now() + '23 hours'"),
            1);
        relay_wait_for_log(fixture.relay, "event=portal_action action=secret receiver=acme", 5000);
        cr_expect_eq(relay_count_in_log(fixture.relay, secret), 0);
        cr_expect_eq(relay_count_in_log(fixture.relay, fixture.token), 0);
        free(stored);
        json_decref(answer);
        answer = ask("GET", "/api/receiver", fixture.manage, NULL, 200);
        cr_expect(json_is_string(json_object_get(answer, "old_secret_until")));
        cr_expect_null(json_object_get(answer, "secret"));
        json_decref(answer);
}

Test(portal_limited, allows_no_more_than_is_configured)
{
        json_t *answer;

        start(", manage: [resend]");

        answer = ask("GET", "/api/receiver", fixture.manage, NULL, 200);
        expect_text(answer, "may", "[\"resend\"]");
        json_decref(answer);
        expect_refused("POST", "/api/secret", fixture.manage, "{}", 403, "Ask the sender");
        expect_refused("POST", "/api/url", fixture.manage, "{\"url\": \"https://a.example/\"}", 403,
            "Ask the sender");
        expect_refused("POST", "/api/pause", fixture.manage, "{}", 403, "Ask the sender");
        expect_refused(
            "POST", "/api/resend", fixture.manage, "{\"event\": 1}", 404, "no such event");
}

/* How many of so many requests are answered so; Retry-After comes with 429. */
static unsigned count_answers(const char *header, unsigned n, unsigned status)
{
        unsigned n_such = 0;

        for (unsigned i = 0; i < n; i++) {
                struct http_reply reply =
                    http_ask(fixture.address, "GET", "/api/receiver", header, NULL);

                n_such += reply.status == status;
                if (reply.status == 429)
                        cr_expect_not_null(strstr(reply.head, "Retry-After: "), "%s", reply.head);
                http_reply_free(&reply);
        }
        return n_such;
}

Test(portal, slows_down_who_guesses_and_nobody_else)
{
        char token[PORTAL_TOKEN_LENGTH + 1];
        struct portal_hash hash;
        char *header;

        json_decref(ask("GET", "/api/receiver", fixture.show, NULL, 200));
        portal_token_make(token, &hash);
        header = bearer(token);
        cr_expect_gt(count_answers(header, 60, 429), 20);
        cr_expect_gt(count_answers("Authorization: Bearer short\r\n", 10, 429), 5);
        json_decref(ask("GET", "/api/receiver", fixture.show, NULL, 200));
        relay_wait_for_log(fixture.relay, "event=portal_refused", 5000);
        cr_expect_eq(relay_count_in_log(fixture.relay, token), 0);
        free(header);
}

Test(portal, slows_down_a_link_that_asks_too_often)
{
        json_decref(ask("GET", "/api/receiver", fixture.manage, NULL, 200));
        cr_expect_gt(count_answers(fixture.show, 200, 429), 20);
        json_decref(ask("GET", "/api/receiver", fixture.manage, NULL, 200));
}

Test(portal, goes_on_after_its_connection_was_lost)
{
        json_decref(ask("GET", "/api/receiver", fixture.manage, NULL, 200));
        cr_expect_eq(database_integer(fixture.owner,
                         "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity"
                         " WHERE datname = current_database() AND pid <> pg_backend_pid()"
                         " AND query ~ 'find_link'"),
            1);
        while (count_answers(fixture.manage, 1, 200) == 0)
                database_exec(fixture.owner, "SELECT pg_sleep(0.1)");
}

Test(portal, takes_links_that_an_application_has_made)
{
        set("INSERT INTO courier.receiver_link (receiver, token_hash, can_manage, expires_at)"
            " SELECT id, sha256('I2ti54EiHAQRtC1Y_JRX6EiQoxIhf8CFnctIgVDGimA'), false,"
            " now() + interval '1 hour' FROM courier.receiver WHERE name = 'acme'");
        json_decref(ask("GET", "/api/receiver",
            "Authorization: Bearer I2ti54EiHAQRtC1Y_JRX6EiQoxIhf8CFnctIgVDGimA\r\n", NULL, 200));
        expect_error(fixture.owner,
            "INSERT INTO courier.receiver_link (receiver, token_hash, expires_at)"
            " SELECT id, sha256('x'), now() + interval '31 days' FROM courier.receiver",
            "23514", "within_30_days");
}

/* What is asked of PostgreSQL has its hash alone. */
Test(portal, stores_no_token)
{
        char *sql = xasprintf("SELECT count(*) FROM courier.receiver_link AS l"
                              " WHERE l::text LIKE '%%%s%%'",
            fixture.token);

        cr_expect_eq(database_integer(fixture.owner, sql), 0);
        cr_expect_eq(database_integer(fixture.owner, "SELECT count(*) FROM courier.receiver_link"
                                                     " WHERE octet_length(token_hash) = 32"),
            2);
        free(sql);
}

/* What of our own words gets through, and what of his. */
Test(portal, tells_the_owner_what_his_server_said_and_nothing_of_our_network)
{
        static const struct {
                const char *words, *expected;
        } cases[] = {
            {"422 Unprocessable Content: no such article",
                "422 Unprocessable Content: no such article"},
            {"301 Moved Permanently: points to /x; redirects are not followed, change the sink's "
             "url",
                "301 Moved Permanently: points to /x; redirects are not followed"},
            {"407 Proxy Authentication Required: squid.internal", "it could not be delivered"},
            {"refused: 10.0.0.1 lies in 10.0.0.0/8 (private); http.allow_networks can allow it",
                "the address of the URL is not allowed"},
            {"SSL certificate problem: certificate has expired",
                "the certificate was not accepted: certificate has expired"},
            {"Failed to connect to squid.internal port 3128 after 3 ms: Couldn't connect to server",
                "no connection could be made"},
            {"Could not resolve proxy: squid.internal", "the host of the URL has no address"},
            {"timed out after 15000 ms", "no answer in time"},
            {"no answer, so it is unknown whether the event arrived: the connection was closed",
                "the connection ended without an answer"},
            {"anything of squid.internal", "it could not be delivered"},
        };

        for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
                char *quoted =
                    PQescapeLiteral(fixture.owner, cases[i].words, strlen(cases[i].words));
                char *sql = xasprintf("SELECT courier.words_for_owner(%s)", quoted);
                char *words = database_value(fixture.owner, sql);

                cr_expect_str_eq(words, cases[i].expected);
                free(words);
                free(sql);
                PQfreemem(quoted);
        }
}

Test(portal, tells_that_a_server_is_not_there)
{
        json_t *answer, *first;

        http_receiver_stop(fixture.http);
        set("SELECT courier.publish('acme.paid', '{}')");
        await_in_database(fixture.owner, "SELECT count(*) > 0 FROM courier.attempt", "no attempt");
        answer = ask("GET", "/api/attempts?failed=true", fixture.show, NULL, 200);
        first = json_array_get(json_object_get(answer, "attempts"), 0);
        expect_text(first, "outcome", "sink_down");
        expect_text(first, "status", "null");
        expect_text(first, "answer", "no connection could be made");
        json_decref(answer);
        http_receiver_restart(fixture.http);
}

/* As the relay does: an event that it would not take is none of the receiver's. */
Test(portal, judges_by_patterns_filters_and_time)
{
        set("SELECT courier.publish('acme.early', '{\"n\": 9}', type => 'big.one')");
        set("INSERT INTO courier.receiver (sink, name, url, topics, types, filter)"
            " VALUES ('backstage', 'picky', 'https://a.example/', '{acme.**,!acme.x}', '{big.*}',"
            " '$.n > 5')");
        set("SELECT courier.publish('acme.paid', '{\"n\": 9}', type => 'big.one'),"
            " courier.publish('acme.paid', '{\"n\": 1}', type => 'big.one'),"
            " courier.publish('acme.paid', '{\"n\": 9}', type => 'small.one'),"
            " courier.publish('acme.x', '{\"n\": 9}', type => 'big.one'),"
            " courier.publish('rival.paid', '{\"n\": 9}', type => 'big.one'),"
            " courier.publish('acme.paid', '{\"n\": 9}', type => 'big.one',"
            "  headers => '{\"tenant\": \"x\"}')");
        cr_expect_eq(database_integer(fixture.owner,
                         "SELECT count(*) FROM courier.receiver AS r, courier.events_taken(r.id,"
                         " ARRAY(SELECT id FROM courier.outbox)) WHERE r.name = 'picky'"),
            2);
        set("UPDATE courier.sink SET settings = settings || '{\"match_headers\": [\"tenant=x\"]}'");
        cr_expect_eq(database_integer(fixture.owner,
                         "SELECT count(*) FROM courier.receiver AS r, courier.events_taken(r.id,"
                         " ARRAY(SELECT id FROM courier.outbox)) WHERE r.name = 'picky'"),
            1);
}

static bool has_right(const char *right)
{
        json_t *answer = ask("GET", "/api/receiver", fixture.manage, NULL, 200);
        json_t *may = json_object_get(answer, "may");
        bool has = json_array_size(may) == 1 &&
                   strcmp(json_string_value(json_array_get(may, 0)), right) == 0;

        json_decref(answer);
        return has;
}

static void reload(const char *block, const char *event, unsigned n)
{
        char *text = configure(block);

        relay_reload(fixture.relay, "%s", text);
        while (relay_count_in_log(fixture.relay, event) < n)
                database_exec(fixture.owner, "SELECT pg_sleep(0.05)");
        free(text);
}

static bool listens(void)
{
        struct sockaddr_in to = {.sin_family = AF_INET,
            .sin_port = htons((uint16_t)strtoul(strchr(fixture.address, ':') + 1, NULL, 10)),
            .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
        int file = socket(AF_INET, SOCK_STREAM, 0);
        bool is_there = connect(file, (struct sockaddr *)&to, sizeof to) == 0;

        close(file);
        return is_there;
}

Test(portal, follows_the_configuration)
{
        char *block = portal_block(", manage: [secret]");
        char *plain = portal_block("");

        reload(block, "event=reloaded", 1);
        cr_expect(has_right("secret"));
        reload("", "event=reloaded", 2);
        cr_expect_not(listens(), "it listens still");
        reload(plain, "event=reloaded", 3);
        await_session();
        json_decref(ask("GET", "/api/receiver", fixture.manage, NULL, 200));
        free(plain);
        free(block);
}
