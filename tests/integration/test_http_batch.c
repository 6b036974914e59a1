/* Several events in one request, and what becomes of them when it is refused. */
#include "http_fixture.h"
#include "http_verify.h"

#include "base/alloc.h"
#include "sinks/sink_contract.h"

#include <jansson.h>

#define SECRET "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"

enum { MINUTE_MS = 60000 };

struct batch_fixture {
        struct http_fixture http;
        struct http_batch batch;
};

static void begin_batch(struct batch_fixture *fixture, uint32_t events, int64_t linger_ms)
{
        http_fixture_init(&fixture->http);
        fixture->batch =
            (struct http_batch){.events = events, .bytes = 1 << 20, .linger_ms = linger_ms};
        fixture->http.config.batch = &fixture->batch;
}

static void start_numbered(struct batch_fixture *fixture, int first, int last)
{
        for (int i = first; i <= last; i++) {
                const struct event event = sample_event(i, i == 3 ? "\"poison\"" : "\"good\"");
                sink_driver_start(&fixture->http.driver, &event);
        }
}

/* The numbers of the events in a request, as "1 2 3". */
static char *events_of(const struct http_request *request)
{
        json_t *array = json_loads(request->body, 0, NULL);
        char *text = xstrdup("");
        size_t i;
        json_t *item;

        cr_assert(json_is_array(array), "%s", request->body);
        json_array_foreach(array, i, item)
        {
                const char *id = json_string_value(json_object_get(item, "id"));
                char *longer = xasprintf(
                    "%s%s%lu", text, i > 0 ? " " : "", strtoul(strrchr(id, '-') + 1, NULL, 16));
                free(text);
                text = longer;
        }
        json_decref(array);
        return text;
}

static void expect_events(struct batch_fixture *fixture, unsigned index, const char *wanted)
{
        char *actual = events_of(http_receiver_request(fixture->http.receiver, index));

        cr_expect_str_eq(actual, wanted, "request %u has %s", index, actual);
        free(actual);
}

static void expect_outcomes(struct batch_fixture *fixture, size_t n, enum outcome_kind kind)
{
        for (size_t i = 0; i < n; i++)
                expect_outcome(fixture->http.driver.attempts[i].outcome, kind);
}

HTTP_TEST(http_batch, sends_as_many_as_fit_and_one_signature)
{
        struct batch_fixture fixture;
        char secret[] = SECRET;
        char *id;

        begin_batch(&fixture, 4, MINUTE_MS);
        fixture.http.config.secret = secret;
        http_fixture_open(&fixture.http);
        cr_expect_eq(fixture.http.driver.sink->max_concurrent, 20 * 4);
        start_numbered(&fixture, 1, 8);
        sink_driver_finish(&fixture.http.driver);

        expect_outcomes(&fixture, 8, OUTCOME_DELIVERED);
        cr_expect_eq(http_receiver_n_requests(fixture.http.receiver), 2);
        for (unsigned i = 0; i < 2; i++)
                expect_signature_verified(
                    http_receiver_request(fixture.http.receiver, i), "standard", SECRET);
        id = http_request_header(http_receiver_request(fixture.http.receiver, 0), "webhook-id");
        cr_expect_eq(id[14], '8', "%s", id);
        free(id);
        expect_header(http_receiver_request(fixture.http.receiver, 0), "x-event-topic", NULL);
        http_fixture_end(&fixture.http);
}

HTTP_TEST(http_batch, waits_for_more_only_so_long)
{
        struct batch_fixture fixture;

        begin_batch(&fixture, 1000, 1);
        http_fixture_open(&fixture.http);
        start_numbered(&fixture, 1, 2);
        sink_driver_finish(&fixture.http.driver);

        expect_outcomes(&fixture, 2, OUTCOME_DELIVERED);
        expect_events(&fixture, 0, "1 2");
        http_fixture_end(&fixture.http);
}

HTTP_TEST(http_batch, counts_the_bytes_of_payloads)
{
        struct batch_fixture fixture;

        begin_batch(&fixture, 1000, MINUTE_MS);
        fixture.batch.bytes = 24; /* of "good" in its quotes are 6 */
        http_fixture_open(&fixture.http);
        start_numbered(&fixture, 4, 7);
        sink_driver_finish(&fixture.http.driver);

        cr_expect_eq(http_receiver_n_requests(fixture.http.receiver), 1);
        expect_events(&fixture, 0, "4 5 6 7");
        http_fixture_end(&fixture.http);
}

/* Refuses what holds the poisonous event. */
static struct http_answer refuse_poison(void *context, const struct http_request *request)
{
        unsigned *n_requests = context;
        bool is_bad = strstr(request->body, "poison") != NULL;

        __atomic_add_fetch(n_requests, 1, __ATOMIC_RELAXED);
        return (struct http_answer){.status = is_bad ? 422 : 200, .body = is_bad ? "no" : ""};
}

HTTP_TEST(http_batch, blames_only_the_event_that_is_refused)
{
        struct batch_fixture fixture;
        unsigned n_requests = 0;

        begin_batch(&fixture, 5, MINUTE_MS);
        http_receiver_decide(fixture.http.receiver, refuse_poison, &n_requests);
        http_fixture_open(&fixture.http);
        start_numbered(&fixture, 1, 5);
        sink_driver_finish(&fixture.http.driver);

        for (size_t i = 0; i < 5; i++) {
                const struct outcome *outcome = &fixture.http.driver.attempts[i].outcome;

                cr_expect_eq(outcome->kind, i == 2 ? OUTCOME_RETRY : OUTCOME_DELIVERED, "%zu", i);
                cr_expect_eq(outcome->max_attempts, i == 2 ? 5 : 0);
        }
        cr_expect_eq(n_requests, 1 + 5);
        http_fixture_end(&fixture.http);
}

/* Refuses the batch of two, then holds its first answer. */
static struct http_answer hold_the_second(void *context, const struct http_request *request)
{
        unsigned *n_requests = context;
        unsigned number = __atomic_add_fetch(n_requests, 1, __ATOMIC_SEQ_CST);

        (void)request;
        return (struct http_answer){.status = number == 1 ? 413 : 200, .is_held = number == 2};
}

static bool has_the_second(void *n_requests)
{
        return __atomic_load_n((unsigned *)n_requests, __ATOMIC_SEQ_CST) >= 2;
}

HTTP_TEST(http_batch, sends_new_events_after_a_refused_batch_went_one_by_one)
{
        struct batch_fixture fixture;
        unsigned n_requests = 0;

        begin_batch(&fixture, 2, 1);
        fixture.http.concurrency = 1;
        http_receiver_decide(fixture.http.receiver, hold_the_second, &n_requests);
        http_fixture_open(&fixture.http);
        start_numbered(&fixture, 4, 5);
        sink_driver_run_until(
            &fixture.http.driver, has_the_second, &n_requests, "the second request");
        start_numbered(&fixture, 6, 6);
        http_receiver_release(fixture.http.receiver);
        sink_driver_finish(&fixture.http.driver);

        expect_outcomes(&fixture, 3, OUTCOME_DELIVERED);
        cr_expect_eq(n_requests, 4);
        http_fixture_end(&fixture.http);
}

/* Is it one of them? Two that go alone show that it is none. */
HTTP_TEST(http_batch, asks_two_of_a_batch_alone_in_an_outage)
{
        struct batch_fixture fixture;

        begin_batch(&fixture, 3, MINUTE_MS);
        fixture.http.concurrency = 1;
        http_fixture_open(&fixture.http);
        http_receiver_answer(fixture.http.receiver, &(struct http_answer){.status = 503});
        start_numbered(&fixture, 4, 6);
        sink_driver_finish(&fixture.http.driver);

        expect_outcomes(&fixture, 2, OUTCOME_SINK_DOWN);
        expect_outcome(fixture.http.driver.attempts[2].outcome, OUTCOME_CANCELLED);
        cr_expect_eq(http_receiver_n_requests(fixture.http.receiver), 3);
        http_fixture_end(&fixture.http);
}

/* With one request allowed at a time, what comes meanwhile goes together in the next one. */
HTTP_TEST(http_batch, gathers_while_the_receiver_is_busy)
{
        struct batch_fixture fixture;

        begin_batch(&fixture, 10, 0);
        fixture.http.concurrency = 1;
        http_fixture_open(&fixture.http);
        http_receiver_answer(fixture.http.receiver, &(struct http_answer){.is_held = true});
        start_numbered(&fixture, 1, 2);
        http_fixture_await(&fixture.http, 1);
        start_numbered(&fixture, 4, 6);
        for (int turn = 0; turn < 20; turn++)
                uv_run(&fixture.http.driver.loop, UV_RUN_NOWAIT);
        start_numbered(&fixture, 7, 9);
        http_receiver_release(fixture.http.receiver);
        sink_driver_finish(&fixture.http.driver);

        expect_outcomes(&fixture, 8, OUTCOME_DELIVERED);
        cr_expect_eq(http_receiver_n_requests(fixture.http.receiver), 2);
        expect_events(&fixture, 0, "1 2");
        expect_events(&fixture, 1, "4 5 6 7 8 9");
        http_fixture_end(&fixture.http);
}

HTTP_TEST(http_batch, stays_usable_after_a_cancel)
{
        struct batch_fixture fixture;

        begin_batch(&fixture, 2, MINUTE_MS);
        http_fixture_open(&fixture.http);
        http_receiver_answer(fixture.http.receiver, &(struct http_answer){.is_held = true});
        start_numbered(&fixture, 1, 5); /* two and two on their way, one waits for another */
        http_fixture_await(&fixture.http, 2);
        sink_cancel(fixture.http.driver.sink);
        sink_driver_finish(&fixture.http.driver);

        expect_outcomes(&fixture, 5, OUTCOME_CANCELLED);
        http_receiver_release(fixture.http.receiver);
        start_numbered(&fixture, 6, 7);
        sink_driver_finish(&fixture.http.driver);
        expect_outcome(fixture.http.driver.attempts[6].outcome, OUTCOME_DELIVERED);
        http_fixture_end(&fixture.http);
}

HTTP_TEST(http_batch, is_an_array_of_cloudevents_where_the_body_is_one)
{
        struct batch_fixture fixture;
        char source[] = "/shop";

        begin_batch(&fixture, 2, MINUTE_MS);
        fixture.http.config.body = HTTP_BODY_CLOUDEVENTS_STRUCTURED;
        fixture.http.config.source = source;
        http_fixture_open(&fixture.http);
        start_numbered(&fixture, 1, 2);
        sink_driver_finish(&fixture.http.driver);

        expect_events(&fixture, 0, "1 2");
        expect_header(http_receiver_request(fixture.http.receiver, 0), "Content-Type",
            "application/cloudevents-batch+json");
        http_fixture_end(&fixture.http);
}

HTTP_TEST(http_batch, rejects_one_event_and_sends_the_others)
{
        struct batch_fixture fixture;
        char source[] = "/shop";
        struct event broken = sample_event(1, "1");

        begin_batch(&fixture, 2, MINUTE_MS);
        fixture.http.config.body = HTTP_BODY_CLOUDEVENTS_STRUCTURED;
        fixture.http.config.source = source;
        http_fixture_open(&fixture.http);
        broken.key = "a\nb";
        sink_driver_start(&fixture.http.driver, &broken);
        start_numbered(&fixture, 4, 5);
        sink_driver_finish(&fixture.http.driver);

        expect_outcome(fixture.http.driver.attempts[0].outcome, OUTCOME_REJECTED);
        expect_outcome(fixture.http.driver.attempts[1].outcome, OUTCOME_DELIVERED);
        expect_events(&fixture, 0, "4 5");
        http_fixture_end(&fixture.http);
}
