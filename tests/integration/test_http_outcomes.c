/*
 * The http sink: every answer in the table of the sinks' manual, given by a real server. What
 * concerns connections and nonsense is in test_http_sink_faults.c, TLS in test_http_sink_tls.c.
 */
#include "http_fixture.h"

#include "base/alloc.h"

#include <stdlib.h>

enum { PAUSED = 1, FEW_TRIES = 2, UNANSWERED = 4 };

static int marks_of(const struct outcome *outcome)
{
        return (outcome->needs_operator ? PAUSED : 0) |
               (outcome->max_attempts == 5 ? FEW_TRIES : 0) |
               (outcome->is_unanswered ? UNANSWERED : 0);
}

static const struct {
        unsigned status;
        enum outcome_kind kind;
        int marks;
} rows[] = {
    {200, OUTCOME_DELIVERED, 0},
    {201, OUTCOME_DELIVERED, 0},
    {202, OUTCOME_DELIVERED, 0},
    {204, OUTCOME_DELIVERED, 0},
    {299, OUTCOME_DELIVERED, 0},

    {408, OUTCOME_RETRY, 0},
    {425, OUTCOME_RETRY, 0},
    {500, OUTCOME_RETRY, 0},
    {505, OUTCOME_RETRY, 0},
    {599, OUTCOME_RETRY, 0},

    {429, OUTCOME_SINK_DOWN, 0},
    {502, OUTCOME_SINK_DOWN, 0},
    {503, OUTCOME_SINK_DOWN, 0},
    {504, OUTCOME_SINK_DOWN, 0},

    {300, OUTCOME_SINK_DOWN, PAUSED},
    {301, OUTCOME_SINK_DOWN, PAUSED},
    {302, OUTCOME_SINK_DOWN, PAUSED},
    {303, OUTCOME_SINK_DOWN, PAUSED},
    {304, OUTCOME_SINK_DOWN, PAUSED},
    {307, OUTCOME_SINK_DOWN, PAUSED},
    {308, OUTCOME_SINK_DOWN, PAUSED},
    {399, OUTCOME_SINK_DOWN, PAUSED},
    {401, OUTCOME_SINK_DOWN, PAUSED},
    {403, OUTCOME_SINK_DOWN, PAUSED},
    {404, OUTCOME_SINK_DOWN, PAUSED},
    {407, OUTCOME_SINK_DOWN, PAUSED},
    {410, OUTCOME_SINK_DOWN, PAUSED},

    {400, OUTCOME_RETRY, FEW_TRIES},
    {405, OUTCOME_RETRY, FEW_TRIES},
    {406, OUTCOME_RETRY, FEW_TRIES},
    {409, OUTCOME_RETRY, FEW_TRIES},
    {411, OUTCOME_RETRY, FEW_TRIES},
    {413, OUTCOME_RETRY, FEW_TRIES},
    {414, OUTCOME_RETRY, FEW_TRIES},
    {415, OUTCOME_RETRY, FEW_TRIES},
    {418, OUTCOME_RETRY, FEW_TRIES},
    {422, OUTCOME_RETRY, FEW_TRIES},
    {431, OUTCOME_RETRY, FEW_TRIES},
    {451, OUTCOME_RETRY, FEW_TRIES},
    {501, OUTCOME_RETRY, FEW_TRIES},
};

HTTP_TEST(http_outcomes, judges_each_status_and_observes_its_retry_after)
{
        struct http_fixture fixture;

        http_fixture_begin(&fixture);
        for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
                const struct http_answer answer = {
                    .status = rows[i].status, .headers = {"Retry-After: 20"}};
                struct outcome outcome = outcome_of_answer(&fixture, &answer);

                expect_outcome(outcome, rows[i].kind);
                cr_expect_eq(marks_of(&outcome), rows[i].marks, "%s", outcome.reason);
                cr_expect_eq(outcome.delay_ms,
                    rows[i].kind == OUTCOME_DELIVERED ? OUTCOME_NO_DELAY : 20000, "%u",
                    rows[i].status);
        }
        http_fixture_end(&fixture);
}

static struct outcome outcome_of(struct http_fixture *fixture, unsigned status, const char *header)
{
        return outcome_of_answer(
            fixture, &(struct http_answer){.status = status, .headers = {header}});
}

HTTP_TEST(http_outcomes, lets_a_receiver_refuse_the_event_or_the_whole_sink)
{
        struct http_fixture fixture;
        struct outcome outcome;

        http_fixture_begin(&fixture);
        outcome = outcome_of(&fixture, 500, "Webhook-Delivery: disable");
        expect_outcome(outcome, OUTCOME_SINK_DOWN);
        expect_reason(outcome, "webhook-delivery: disable");
        cr_expect(outcome.needs_operator);

        outcome = outcome_of(&fixture, 503, "webhook-delivery: Abort-Message");
        expect_outcome(outcome, OUTCOME_REJECTED);
        expect_reason(outcome, "webhook-delivery: abort-message");

        expect_outcome(outcome_of(&fixture, 500, "webhook-delivery: whatever"), OUTCOME_RETRY);
        expect_outcome(outcome_of(&fixture, 200, "webhook-delivery: disable"), OUTCOME_DELIVERED);
        expect_outcome(
            outcome_of(&fixture, 200, "webhook-delivery: abort-message"), OUTCOME_DELIVERED);
        http_fixture_end(&fixture);
}

HTTP_TEST(http_outcomes, takes_the_longest_retry_after_that_can_be_read)
{
        struct http_fixture fixture;

        http_fixture_begin(&fixture);
        cr_expect_eq(outcome_of_answer(&fixture,
                         &(struct http_answer){.status = 429,
                             .headers = {"Retry-After: 5", "Retry-After: 90", "Retry-After: soon"}})
                         .delay_ms,
            90000);
        cr_expect_eq(
            outcome_of(&fixture, 503, "Retry-After: Sun, 06 Nov 1994 08:49:37 GMT").delay_ms, 0);
        cr_expect_eq(
            outcome_of(&fixture, 503, "Retry-After: Fri, 06 Nov 2099 08:49:37 GMT").delay_ms,
            86400000);
        cr_expect_eq(outcome_of(&fixture, 503, "Retry-After: 1e9").delay_ms, OUTCOME_NO_DELAY);
        http_fixture_end(&fixture);
}

HTTP_TEST(http_outcomes, knows_that_a_silent_receiver_may_have_the_event)
{
        struct http_fixture fixture;
        struct outcome outcome;

        http_fixture_init(&fixture);
        fixture.config.timeout_ms = 300;
        http_fixture_open(&fixture);

        outcome = outcome_of_answer(&fixture, &(struct http_answer){.manner = ANSWER_NONE});
        expect_outcome(outcome, OUTCOME_RETRY);
        cr_expect_eq(marks_of(&outcome), UNANSWERED);
        http_receiver_close_by_reset(fixture.receiver);
        outcome = outcome_of_answer(&fixture, &(struct http_answer){.manner = ANSWER_NONE});
        expect_outcome(outcome, OUTCOME_RETRY);
        cr_expect_eq(marks_of(&outcome), UNANSWERED);
        outcome = outcome_of_answer(&fixture, &(struct http_answer){.is_held = true});
        expect_outcome(outcome, OUTCOME_RETRY);
        cr_expect_eq(marks_of(&outcome), UNANSWERED);
        http_fixture_end(&fixture);
}

/* Too long for libcurl to send at all: no outage, and no try that could ever succeed. */
HTTP_TEST(http_outcomes, rejects_headers_longer_than_any_server_takes)
{
        enum { LENGTH = 2 * 1024 * 1024 };
        struct http_fixture fixture;
        struct event event = json_event("{}");
        char *key = xcalloc(LENGTH + 1, 1);
        struct outcome outcome;

        memset(key, 'k', LENGTH);
        event.key = key;
        http_fixture_begin(&fixture);
        outcome = sink_driver_deliver(&fixture.driver, &event);

        expect_outcome(outcome, OUTCOME_REJECTED);
        expect_reason(outcome, "at most 262144");
        key[1000] = '\0';
        expect_outcome(sink_driver_deliver(&fixture.driver, &event), OUTCOME_DELIVERED);
        http_fixture_end(&fixture);
        free(key);
}

HTTP_TEST(http_outcomes, marks_redriven_events)
{
        struct http_fixture fixture;
        struct event event = json_event("{}");
        char *mark;

        http_fixture_begin(&fixture);
        sink_driver_deliver(&fixture.driver, &event);
        event.is_redriven = true;
        sink_driver_deliver(&fixture.driver, &event);

        cr_expect_null(
            http_request_header(http_receiver_request(fixture.receiver, 0), "x-event-redriven"));
        mark = http_request_header(http_receiver_request(fixture.receiver, 1), "x-event-redriven");
        cr_expect_str_eq(mark, "true");
        free(mark);
        http_fixture_end(&fixture);
}

HTTP_TEST(http_outcomes, names_its_target_without_what_may_be_secret)
{
        struct http_fixture fixture;
        const struct event event = json_event("{}");
        char target[64];

        http_fixture_init(&fixture);
        snprintf(fixture.url, sizeof fixture.url,
            "http://me:s3cret@127.0.0.1:%u/hook?token=s3cret#x",
            http_receiver_port(fixture.receiver));
        http_fixture_open(&fixture);
        http_sink_ops.describe_target(fixture.driver.sink, &event, NULL, target, sizeof target);

        cr_expect(strstr(target, "s3cret") == NULL, "%s", target);
        cr_expect(strncmp(target, "http://127.0.0.1:", 17) == 0, "%s", target);
        cr_expect(strcmp(strrchr(target, '/'), "/hook") == 0, "%s", target);
        http_sink_ops.describe_target(fixture.driver.sink, &event, NULL, target, 5);
        cr_expect_str_eq(target, "http");
        http_fixture_end(&fixture);
}
