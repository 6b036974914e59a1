/* What arrives at the receiver, and how its answers are understood. */
#include "http_fixture.h"
#include "http_verify.h"

#include "base/error.h"
#include "pgcourier/version.h"
#include "sinks/sink_contract.h"
#include "support/process.h"

#include <stdlib.h>
#include <time.h>

#define SECRET "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"

HTTP_TEST(http_sink, posts_the_exact_payload_with_the_headers_of_the_event)
{
        struct http_fixture fixture;
        char traceparent[] = "traceparent";
        char *names[] = {traceparent};
        const struct event_header headers[] = {{"Traceparent", "00-abc"}, {"other", "no"}};
        struct event event = json_event("{\"n\": 1.0,  \"s\":\"\xc3\xa4\"}");
        const struct http_request *request;
        char *timestamp;

        http_fixture_init(&fixture);
        fixture.config.headers = names;
        fixture.config.n_headers = 1;
        event.key = "customer 7";
        event.type = "placed";
        event.headers = headers;
        event.n_headers = 2;
        http_fixture_open(&fixture);

        expect_outcome(sink_driver_deliver(&fixture.driver, &event), OUTCOME_DELIVERED);

        request = http_receiver_request(fixture.receiver, 0);
        cr_expect_str_eq(request->method, "POST");
        cr_expect_str_eq(request->target, "/hook?a=b");
        cr_expect_str_eq(request->body, event.payload);
        expect_header(request, "Content-Type", "application/json");
        expect_header(request, "User-Agent", "pgcourier/" PGCOURIER_VERSION);
        expect_header(request, "webhook-id", event.event_id);
        expect_header(request, "webhook-signature", NULL);
        expect_header(request, "x-event-topic", "orders.placed");
        expect_header(request, "x-event-key", "customer%207");
        expect_header(request, "x-event-type", "placed");
        expect_header(request, "traceparent", "00-abc");
        expect_header(request, "other", NULL);
        expect_header(request, "Expect", NULL);
        timestamp = http_request_header(request, "webhook-timestamp");
        cr_expect(llabs(strtoll(timestamp, NULL, 10) - (long long)time(NULL)) <= 30);
        free(timestamp);
        http_fixture_end(&fixture);
}

HTTP_TEST(http_sink, signs_so_that_others_can_verify)
{
        struct http_fixture fixture;
        char secret[] = SECRET;
        const char binary[] = "\0\1\r\n\xff\0";
        struct event events[3] = {
            json_event("{\"test\": 2432232314}"), json_event(""), json_event("")};

        http_fixture_init(&fixture);
        fixture.config.secret = secret;
        http_fixture_open(&fixture);
        events[1].is_json = false;
        events[1].payload = binary;
        events[1].payload_bytes = sizeof binary;
        events[2].is_json = false;

        for (unsigned i = 0; i < 3; i++) {
                const struct http_request *request;

                expect_outcome(sink_driver_deliver(&fixture.driver, &events[i]), OUTCOME_DELIVERED);
                request = http_receiver_request(fixture.receiver, i);
                cr_expect_eq(request->body_bytes, events[i].payload_bytes);
                cr_expect_eq(memcmp(request->body, events[i].payload, events[i].payload_bytes), 0);
                expect_header(request, "Content-Type",
                    events[i].is_json ? "application/json" : "application/octet-stream");
                expect_signature_verified(request, "standard", SECRET);
        }
        http_fixture_end(&fixture);
}

HTTP_TEST(http_sink, posts_a_large_body_whole)
{
        struct http_fixture fixture;
        const size_t size = 3 * 1000 * 1000;
        char *large = malloc(size + 1);
        struct event event;

        memset(large, 'x', size);
        large[size] = '\0';
        event = json_event(large);
        http_fixture_begin(&fixture);

        expect_outcome(sink_driver_deliver(&fixture.driver, &event), OUTCOME_DELIVERED);

        cr_expect_eq(http_receiver_request(fixture.receiver, 0)->body_bytes, size);
        expect_header(http_receiver_request(fixture.receiver, 0), "Expect", NULL);
        http_fixture_end(&fixture);
        free(large);
}

HTTP_TEST(http_sink, keeps_its_connection_from_one_event_to_the_next)
{
        struct http_fixture fixture;
        const struct event event = json_event("{}");

        http_fixture_begin(&fixture);
        for (int i = 0; i < 10; i++)
                expect_outcome(sink_driver_deliver(&fixture.driver, &event), OUTCOME_DELIVERED);

        cr_expect_eq(http_receiver_n_requests(fixture.receiver), 10);
        cr_expect_eq(http_receiver_n_connections(fixture.receiver), 1);
        http_fixture_end(&fixture);
}

static void start_and_await_arrival(
    struct http_fixture *fixture, unsigned n, const struct event *event)
{
        size_t n_before = http_receiver_n_requests(fixture->receiver);

        for (unsigned i = 0; i < n; i++)
                sink_driver_start(&fixture->driver, event);
        http_fixture_await(fixture, n_before + n);
}

HTTP_TEST(http_sink, works_on_many_events_side_by_side)
{
        struct http_fixture fixture;
        const struct event event = json_event("{}");

        http_fixture_begin(&fixture);
        cr_expect_eq(fixture.driver.sink->max_concurrent, 20);
        http_receiver_answer(fixture.receiver, &(struct http_answer){.is_held = true});

        start_and_await_arrival(&fixture, 20, &event);
        http_receiver_release(fixture.receiver);
        sink_driver_finish(&fixture.driver);

        for (unsigned i = 0; i < 20; i++)
                expect_outcome(fixture.driver.attempts[i].outcome, OUTCOME_DELIVERED);
        http_fixture_end(&fixture);
}

HTTP_TEST(http_sink, repeats_what_the_receiver_said)
{
        struct http_fixture fixture;
        struct outcome outcome;

        http_fixture_begin(&fixture);
        outcome = outcome_of_answer(
            &fixture, &(struct http_answer){.status = 500, .body = "the database\nis full"});

        cr_expect_str_eq(outcome.reason, "500 Internal Server Error: the database is full");
        http_fixture_end(&fixture);
}

HTTP_TEST(http_sink, never_follows_a_redirect)
{
        struct http_fixture fixture;
        struct http_receiver *target = http_receiver_start(NULL, NULL);
        char location[64];
        struct outcome outcome;

        snprintf(location, sizeof location, "Location: http://127.0.0.1:%u/new",
            http_receiver_port(target));
        http_fixture_begin(&fixture);
        outcome = outcome_of_answer(
            &fixture, &(struct http_answer){.status = 301, .headers = {location}});

        expect_outcome(outcome, OUTCOME_SINK_DOWN);
        expect_reason(outcome, location + strlen("Location: "));
        cr_expect_eq(http_receiver_n_requests(target), 0);
        cr_expect_eq(http_receiver_n_connections(target), 0);
        http_fixture_end(&fixture);
        http_receiver_destroy(target);
}

static int64_t delay_after(struct http_fixture *fixture, const char *header)
{
        return outcome_of_answer(fixture, &(struct http_answer){.status = 503, .headers = {header}})
            .delay_ms;
}

HTTP_TEST(http_sink, observes_retry_after)
{
        struct http_fixture fixture;
        time_t soon = time(NULL) + 3600;
        struct tm parts;
        char date[64];
        int64_t delay_ms;

        strftime(
            date, sizeof date, "Retry-After: %a, %d %b %Y %H:%M:%S GMT", gmtime_r(&soon, &parts));
        http_fixture_begin(&fixture);

        cr_expect_eq(delay_after(&fixture, NULL), OUTCOME_NO_DELAY);
        cr_expect_eq(delay_after(&fixture, "Retry-After: 17"), 17000);
        cr_expect_eq(delay_after(&fixture, "retry-after: 0"), 0);
        cr_expect_eq(delay_after(&fixture, "Retry-After: 1000000000"), 86400000);
        cr_expect_eq(delay_after(&fixture, "Retry-After: -1"), OUTCOME_NO_DELAY);
        cr_expect_eq(delay_after(&fixture, "Retry-After: soon"), OUTCOME_NO_DELAY);
        cr_expect_eq(delay_after(&fixture, "Retry-After: Sun, 06 Nov 1994 08:49:37 GMT"), 0);
        delay_ms = delay_after(&fixture, date);
        cr_expect(delay_ms > 3500000 && delay_ms <= 3600000, "%lld", (long long)delay_ms);
        http_fixture_end(&fixture);
}

HTTP_TEST(http_sink, rejects_values_that_no_header_can_carry)
{
        struct http_fixture fixture;
        char name[] = "tenant";
        char *names[] = {name};
        const struct event_header header = {"tenant", "a\r\nwebhook-id: forged"};
        struct event event = json_event("{}");
        struct outcome outcome;

        http_fixture_init(&fixture);
        fixture.config.headers = names;
        fixture.config.n_headers = 1;
        http_fixture_open(&fixture);

        event.key = "a\r\nwebhook-id: forged";
        outcome = sink_driver_deliver(&fixture.driver, &event);
        expect_outcome(outcome, OUTCOME_REJECTED);
        expect_reason(outcome, "x-event-key");

        event.key = NULL;
        event.headers = &header;
        event.n_headers = 1;
        outcome = sink_driver_deliver(&fixture.driver, &event);
        expect_outcome(outcome, OUTCOME_REJECTED);
        expect_reason(outcome, "tenant");

        cr_expect_eq(http_receiver_n_requests(fixture.receiver), 0);
        http_fixture_end(&fixture);
}

HTTP_TEST(http_sink, probes_without_sending_a_request)
{
        struct http_fixture fixture;
        const struct event event = json_event("{}");

        http_fixture_begin(&fixture);

        expect_outcome(sink_driver_probe(&fixture.driver), OUTCOME_DELIVERED);
        cr_expect_eq(http_receiver_n_requests(fixture.receiver), 0);
        expect_outcome(sink_driver_deliver(&fixture.driver, &event), OUTCOME_DELIVERED);

        http_receiver_stop(fixture.receiver);
        expect_outcome(sink_driver_probe(&fixture.driver), OUTCOME_SINK_DOWN);
        expect_reason(fixture.driver.probe_outcome, "connect");
        http_fixture_end(&fixture);
}

HTTP_TEST(http_sink, stays_usable_after_a_cancel)
{
        struct http_fixture fixture;
        const struct event event = json_event("{}");

        http_fixture_begin(&fixture);
        http_receiver_answer(fixture.receiver, &(struct http_answer){.is_held = true});
        start_and_await_arrival(&fixture, 5, &event);

        sink_cancel(fixture.driver.sink);
        sink_driver_finish(&fixture.driver);

        for (unsigned i = 0; i < 5; i++)
                expect_outcome(fixture.driver.attempts[i].outcome, OUTCOME_CANCELLED);
        http_receiver_release(fixture.receiver);
        expect_outcome(sink_driver_deliver(&fixture.driver, &event), OUTCOME_DELIVERED);
        http_fixture_end(&fixture);
}

HTTP_TEST(http_sink, finds_localhost)
{
        struct http_fixture fixture;
        const struct event event = json_event("{}");

        http_fixture_init(&fixture);
        snprintf(fixture.url, sizeof fixture.url, "http://LocalHost:%u/",
            http_receiver_port(fixture.receiver));
        http_fixture_open(&fixture);

        expect_outcome(sink_driver_deliver(&fixture.driver, &event), OUTCOME_DELIVERED);
        http_fixture_end(&fixture);
}

static void expect_refused(const struct http_config *config, const char *words)
{
        uv_loop_t loop;
        struct error error = {.kind = ERROR_NONE};

        uv_loop_init(&loop);
        const struct sink_settings settings = {.name = "hooks", .options = config, .loop = &loop};

        cr_expect_null(http_sink_ops.open(&settings, &error), "opens: %s", config->url);
        cr_expect_eq(error.kind, ERROR_CONFIG);
        cr_expect(strstr(error.text, words) != NULL, "%s", error.text);
        cr_expect(strstr(error.text, "hunter2") == NULL, "%s", error.text);
        uv_run(&loop, UV_RUN_DEFAULT);
        cr_expect_eq(uv_loop_close(&loop), 0);
}

HTTP_TEST(http_sink, refuses_a_config_it_could_never_serve)
{
        char good[] = "https://example.net/";
        char no_scheme[] = "me:hunter2@example.net/hook";
        char bad_scheme[] = "ftp://me:hunter2@example.net/hook";
        char no_host[] = "http:///hook";
        char one_slash[] = "http:/hook";
        char idn[] = "http://me:hunter2@k\xc3\xa4se.example/";
        char broken[] = "http://me:hunter2@example.net/a\r\nb";
        char secret[] = "hunter2";
        char name[] = "content-length";
        char *names[] = {name};

        expect_refused(&(struct http_config){.url = no_scheme}, "not a URL");
        expect_refused(&(struct http_config){.url = bad_scheme}, "ftp://");
        expect_refused(&(struct http_config){.url = no_host}, "not a URL");
        expect_refused(&(struct http_config){.url = one_slash}, "not a URL");
        expect_refused(&(struct http_config){.url = idn}, "xn--");
        expect_refused(&(struct http_config){.url = broken}, "not a URL");
        expect_refused(&(struct http_config){.url = good, .secret = secret}, "whsec_");
        expect_refused(
            &(struct http_config){.url = good, .headers = names, .n_headers = 1}, "content-length");
}
