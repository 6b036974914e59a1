/* What the tests of the http sink share: a receiver, a config that points at it, and events. */
#pragma once

#include "config/config.h"
#include "pgcourier/event.h"
#include "support/http_receiver.h"
#include "support/sink_driver.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

extern const struct sink_ops http_sink_ops;

struct http_fixture {
        struct sink_driver driver;
        struct http_receiver *receiver;
        struct http_config config;
        unsigned concurrency;
        char url[128];
};

/* Which of the two carries the requests of this test. */
static bool is_by_libcurl;

/* A test of what holds with both of them. */
#define HTTP_TEST(suite, name)                                                                     \
        static void suite##_##name(void);                                                          \
        Test(suite, name)                                                                          \
        {                                                                                          \
                suite##_##name();                                                                  \
        }                                                                                          \
        Test(suite, name##_by_libcurl)                                                             \
        {                                                                                          \
                is_by_libcurl = true;                                                              \
                suite##_##name();                                                                  \
        }                                                                                          \
        static void suite##_##name(void)

/* The config may be changed until http_fixture_open(). */
static inline void http_fixture_init(struct http_fixture *fixture)
{
        *fixture = (struct http_fixture){.config = {.connect_timeout_ms = 5000,
                                             .timeout_ms = 15000,
                                             .by_libcurl = is_by_libcurl},
            .concurrency = 20};
        fixture->receiver = http_receiver_start(NULL, NULL);
        snprintf(fixture->url, sizeof fixture->url, "http://127.0.0.1:%u/hook?a=b",
            http_receiver_port(fixture->receiver));
        fixture->config.url = fixture->url;
}

static inline void http_fixture_open(struct http_fixture *fixture)
{
        sink_driver_init_for(
            &fixture->driver, &http_sink_ops, &fixture->config, fixture->concurrency);
}

struct http_awaited {
        struct http_receiver *receiver;
        size_t n_requests;
};

static inline bool http_has_arrived(void *awaited_)
{
        const struct http_awaited *awaited = awaited_;

        return http_receiver_n_requests(awaited->receiver) >= awaited->n_requests;
}

/* Until the receiver has had so many requests in all. */
static inline void http_fixture_await(struct http_fixture *fixture, size_t n_requests)
{
        struct http_awaited awaited = {fixture->receiver, n_requests};

        sink_driver_run_until(&fixture->driver, http_has_arrived, &awaited, "requests to arrive");
}

static inline void http_fixture_begin(struct http_fixture *fixture)
{
        http_fixture_init(fixture);
        http_fixture_open(fixture);
}

static inline void http_fixture_end(struct http_fixture *fixture)
{
        sink_driver_deinit(&fixture->driver);
        http_receiver_destroy(fixture->receiver);
}

static inline struct event json_event(const char *payload)
{
        return (struct event){.id = 1,
            .event_id = "0190e7c4-5d1f-7cc3-98c4-dc0c0c07398f",
            .topic = "orders.placed",
            .payload = payload,
            .payload_bytes = strlen(payload),
            .is_json = true};
}

/* One event answered by `answer`; the receiver answers so from now on. */
static inline struct outcome outcome_of_answer(
    struct http_fixture *fixture, const struct http_answer *answer)
{
        const struct event event = json_event("{}");

        http_receiver_answer(fixture->receiver, answer);
        return sink_driver_deliver(&fixture->driver, &event);
}

#define expect_outcome(outcome, expected)                                                          \
        cr_expect_eq(                                                                              \
            (outcome).kind, (expected), "%s: %s", outcome_name((outcome).kind), (outcome).reason)
#define expect_reason(outcome, words)                                                              \
        cr_expect(strstr((outcome).reason, (words)) != NULL, "reason: %s", (outcome).reason)
