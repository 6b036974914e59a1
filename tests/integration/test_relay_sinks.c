/* All kinds of sink in one relay: what each is given, and what becomes of it while all are down. */
#include "base/alloc.h"
#include "support/dns_server.h"
#include "support/http_receiver.h"
#include "support/relay_fixture.h"
#include "support/smtp_receiver.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void expect_header(
    const struct http_request *request, const char *name, const char *expected)
{
        char *value = http_request_header(request, name);

        cr_expect(value != NULL && strcmp(value, expected) == 0, "%s: %s, not %s", name,
            value != NULL ? value : "missing", expected);
        free(value);
}

enum { N_MAILS = 5 };

#define EVENT_ID "00000000-0000-4000-8000-00000000000%d"
#define MAIL     "{\"to\": \"b@example.org\", \"subject\": \"n%d\", \"text\": \"x\"}"

static void publish_mail(PGconn *connection, int n)
{
        char *sql =
            xasprintf("SELECT courier.publish('mail.sent', '" MAIL "', key => 'k', type => 'Sent', "
                      "headers => '{\"traceparent\": \"00-%d\"}', event_id => '" EVENT_ID "')",
                n, n, n);

        database_exec(connection, sql);
        free(sql);
}

/* Every odd one is rolled back. */
static void publish_mails(PGconn *connection)
{
        for (int n = 0; n < 2 * N_MAILS; n++) {
                database_exec(connection, "BEGIN");
                publish_mail(connection, n);
                database_exec(connection, n % 2 == 0 ? "COMMIT" : "ROLLBACK");
        }
}

static void expect_in_redis(struct relay_fixture *fixture, int n)
{
        char *id = xasprintf(EVENT_ID, n);
        char *payload = xasprintf(MAIL, n);
        char *trace = xasprintf("00-%d", n);
        size_t index = (size_t)n / 2;

        relay_fixture_expect_field(fixture, "events:mail.sent", index, "id", id);
        relay_fixture_expect_field(fixture, "events:mail.sent", index, "topic", "mail.sent");
        relay_fixture_expect_field(fixture, "events:mail.sent", index, "key", "k");
        relay_fixture_expect_field(fixture, "events:mail.sent", index, "type", "Sent");
        relay_fixture_expect_field(fixture, "events:mail.sent", index, "payload", payload);
        relay_fixture_expect_field(fixture, "events:mail.sent", index, "header:traceparent", trace);
        free(id);
        free(payload);
        free(trace);
}

static void expect_posted(struct http_receiver *http, int n)
{
        const struct http_request *request = http_receiver_request(http, (unsigned)n / 2);
        char *id = xasprintf(EVENT_ID, n);
        char *payload = xasprintf(MAIL, n);
        char *trace = xasprintf("00-%d", n);

        expect_header(request, "webhook-id", id);
        expect_header(request, "x-event-topic", "mail.sent");
        expect_header(request, "x-event-key", "k");
        expect_header(request, "x-event-type", "Sent");
        expect_header(request, "traceparent", trace);
        expect_header(request, "content-type", "application/json");
        cr_expect_str_eq(request->body, payload);
        free(id);
        free(payload);
        free(trace);
}

static void expect_mailed(const json_t *mails, int n)
{
        const json_t *mail = json_array_get(mails, (size_t)n / 2);
        const char *event_id = json_string_value(json_object_get(mail, "event_id"));
        const char *data = json_string_value(json_object_get(mail, "data"));
        char *id = xasprintf(EVENT_ID, n);
        char *subject = xasprintf("Subject: n%d\r\n", n);

        cr_expect_str_eq(event_id, id);
        cr_expect_not_null(strstr(data, subject), "no %s in %s", subject, data);
        free(id);
        free(subject);
}

static void expect_printed(struct relay_process *relay, int n)
{
        char *line =
            xasprintf("{\"id\": \"" EVENT_ID "\", \"topic\": \"mail.sent\", \"key\": \"k\", "
                      "\"type\": \"Sent\"",
                n);
        char *rest =
            xasprintf("\"headers\": {\"traceparent\": \"00-%d\"}, \"payload\": " MAIL "}", n, n);

        relay_wait_for_log(relay, line, 30000);
        cr_expect_eq(relay_count_in_log(relay, line), 1);
        cr_expect_eq(relay_count_in_log(relay, rest), 1);
        free(line);
        free(rest);
}

Test(relay_sinks, carries_each_event_once_to_all_kinds_of_sink)
{
        struct relay_fixture fixture;
        struct relay_process *relay;
        struct http_receiver *http = http_receiver_start(NULL, NULL);
        struct smtp_receiver smtp;
        json_t *mails;

        relay_fixture_begin(&fixture, postgres_shared());
        smtp_receiver_init(&smtp);
        smtp_receiver_start(&smtp, NULL);
        relay = relay_start("postgres: {dsn: \"%s\"}\n"
                            "sinks:\n"
                            "  - {name: bus, topics: [\"mail.*\"], start: beginning,\n"
                            "     redis: {url: \"unix://%s\"}}\n"
                            "  - {name: hook, topics: [\"mail.*\"], start: beginning,\n"
                            "     http: {url: \"http://127.0.0.1:%u/\", headers: [traceparent]}}\n"
                            "  - {name: mail, topics: [\"mail.*\"], start: beginning,\n"
                            "     email: {url: \"smtp://127.0.0.1:%u\", from: a@example.org}}\n"
                            "  - {name: print, topics: [\"mail.*\"], start: beginning,\n"
                            "     stdout: {}}\n",
            fixture.relay, fixture.redis.socket_path, http_receiver_port(http), smtp.port);
        publish_mails(fixture.admin);
        relay_fixture_await(&fixture, "events:mail.sent", N_MAILS);
        http_receiver_wait(http, N_MAILS, 30000);
        mails = smtp_receiver_wait_for(&smtp, N_MAILS);
        for (int n = 0; n < 2 * N_MAILS; n += 2) {
                expect_in_redis(&fixture, n);
                expect_posted(http, n);
                expect_mailed(mails, n);
                expect_printed(relay, n);
        }
        json_decref(mails);
        relay_stop(relay);

        mails = smtp_receiver_mails(&smtp);
        cr_expect_eq(json_array_size(mails), N_MAILS);
        cr_expect_eq(redis_server_count(&fixture.redis, "XLEN events:mail.sent"), N_MAILS);
        cr_expect_eq(http_receiver_n_requests(http), N_MAILS);
        cr_expect_eq(relay_count_in_log(relay, "{\"id\": "), N_MAILS);
        json_decref(mails);
        relay_destroy(relay);
        smtp_receiver_deinit(&smtp);
        http_receiver_destroy(http);
        relay_fixture_end(&fixture);
}

/* ---- all down ------------------------------------------------------------------------------- */

static const char *const sinks[] = {"bus", "hook", "mail"};

static void await_outage(struct relay_process *relay)
{
        char line[64];

        for (int i = 0; i < 3; i++) {
                snprintf(line, sizeof line, "event=sink_down sink=%s reason=", sinks[i]);
                relay_wait_for_log(relay, line, 30000);
                /* Probed in vain at least once more. */
                snprintf(line, sizeof line, "level=debug event=sink_still_down sink=%s", sinks[i]);
                relay_wait_for_log(relay, line, 30000);
        }
}

static void expect_one_outage(struct relay_process *relay)
{
        char line[64];

        for (int i = 0; i < 3; i++) {
                snprintf(line, sizeof line, "event=sink_up sink=%s", sinks[i]);
                relay_wait_for_log(relay, line, 30000);
                snprintf(line, sizeof line, "event=sink_down sink=%s", sinks[i]);
                cr_expect_eq(relay_count_in_log(relay, line), 1, "%s: told more than once", line);
        }
        cr_expect_eq(relay_count_in_log(relay, "event=delivery_failed"), 0, "it cost an attempt");
}

Test(relay_sinks, waits_for_destinations_that_are_down_when_it_starts)
{
        struct relay_fixture fixture;
        struct relay_process *relay;
        struct http_receiver *http = http_receiver_start(NULL, NULL);
        struct smtp_receiver smtp;

        relay_fixture_begin(&fixture, postgres_shared());
        smtp_receiver_init(&smtp);
        http_receiver_stop(http);
        redis_server_stop(&fixture.redis);
        relay = relay_start("postgres: {dsn: \"%s\"}\n"
                            "log: {level: debug}\n"
                            "sinks:\n"
                            "  - {name: bus, topics: [\"**\"], start: beginning,\n"
                            "     redis: {url: \"redis://127.0.0.1:%u\", stream: events}}\n"
                            "  - {name: hook, topics: [\"**\"], start: beginning,\n"
                            "     http: {url: \"http://127.0.0.1:%u/\"}}\n"
                            "  - {name: mail, topics: [\"**\"], start: beginning,\n"
                            "     email: {url: \"smtp://127.0.0.1:%u\", from: a@example.org}}\n",
            fixture.relay, fixture.redis.port, http_receiver_port(http), smtp.port);
        database_exec(fixture.admin,
            "SELECT count(courier.publish('mail.sent', json_build_object('to', 'b@example.org', "
            "'subject', 'n' || n, 'text', 'x'), key => (n % 4)::text)) "
            "FROM generate_series(1, 20) AS n");
        await_outage(relay);
        cr_expect_eq(database_integer(fixture.admin, "SELECT count(*) FROM courier.cursor "
                                                     "WHERE from_floor > 0 OR last_id > 0"),
            0, "a cursor moved");
        redis_server_restart(&fixture.redis);
        http_receiver_restart(http);
        smtp_receiver_start(&smtp, NULL);

        relay_fixture_await(&fixture, "events", 20);
        http_receiver_wait(http, 20, 30000);
        json_decref(smtp_receiver_wait_for(&smtp, 20));
        expect_one_outage(relay);
        relay_stop(relay);
        cr_expect_eq(http_receiver_n_requests(http), 20);
        relay_destroy(relay);
        smtp_receiver_deinit(&smtp);
        http_receiver_destroy(http);
        relay_fixture_end(&fixture);
}

/* ---- one that hangs ------------------------------------------------------------------------- */

static bool is_asked(void *names)
{
        return dns_server_n_asked(names) > 0;
}

/* The name server says nothing, and is given five minutes for it. */
Test(relay_sinks, lets_no_sink_wait_for_the_name_of_another)
{
        struct relay_fixture fixture;
        struct relay_process *relay;
        struct dns_server *names = dns_server_start();

        relay_fixture_begin(&fixture, postgres_shared());
        dns_server_mute(names);
        relay = relay_start("postgres: {dsn: \"%s\"}\n"
                            "relay: {dns_servers: [\"%s\"], drain: 100ms}\n"
                            "sinks:\n"
                            "  - {name: hook, topics: [\"**\"], start: beginning,\n"
                            "     http: {url: \"http://mute.test/\", connect_timeout: 5m,\n"
                            "            timeout: 10m}}\n"
                            "  - {name: bus, topics: [\"**\"], start: beginning,\n"
                            "     redis: {url: \"unix://%s\", stream: events}}\n",
            fixture.relay, dns_server_address(names), fixture.redis.socket_path);
        publish(fixture.admin, "t", "k", "before");
        wait_until(is_asked, names, 30000, "the name to be asked for");
        for (int i = 0; i < 20; i++)
                publish(fixture.admin, "t", "k", "meanwhile");
        relay_fixture_await(&fixture, "events", 21);
        cr_expect_eq(
            relay_count_in_log(relay, "event=sink_down"), 0, "it still waits for the name");
        relay_stop(relay);
        relay_destroy(relay);
        dns_server_destroy(names);
        relay_fixture_end(&fixture);
}

/* ---- where they begin ----------------------------------------------------------------------- */

Test(relay_sinks, starts_with_what_is_published_from_now_on)
{
        struct relay_fixture fixture;
        struct relay_process *relay;

        relay_fixture_begin(&fixture, postgres_shared());
        publish(fixture.admin, "t", "k", "before");
        relay = relay_start("postgres: {dsn: \"%s\"}\n"
                            "sinks: [{name: bus, topics: [\"**\"], stdout: {}}]\n",
            fixture.relay);
        await_in_database(
            fixture.admin, "SELECT EXISTS (SELECT FROM courier.cursor)", "the sink has no cursor");
        publish(fixture.admin, "t", "k", "after");
        relay_wait_for_log(relay, "\"payload\": \"after\"", 30000);
        cr_expect_eq(relay_count_in_log(relay, "\"payload\": \"before\""), 0);
        relay_stop(relay);
        relay_destroy(relay);
        relay_fixture_end(&fixture);
}
