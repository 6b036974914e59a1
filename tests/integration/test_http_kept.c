/*
 * One handle of libcurl's and one connection serve request after request. What
 * they were told for one of them, and what was answered, stays out of the next;
 * connections are no more than needed, and cost nothing while they are idle.
 */
#include "http_fixture.h"
#include "http_verify.h"

#include "base/alloc.h"
#include "base/error.h"
#include "sinks/sink_contract.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#define SECRET "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
#define OTHER  "whsec_MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIz"

static void expect_no_headers(
    const struct http_request *request, const char *const *names, size_t n_names)
{
        for (size_t i = 0; i < n_names; i++)
                expect_header(request, names[i], NULL);
}

HTTP_TEST(http_kept, carries_nothing_from_one_event_to_the_next)
{
        static const char *const of_the_first[] = {"x-event-key", "x-event-type", "X-Tenant",
            "traceparent", "x-event-redriven", "Expect", "Content-Encoding"};
        struct http_fixture fixture;
        char tenant[] = "X-Tenant";
        char *passed[] = {tenant};
        char secret[] = SECRET;
        const struct event_header headers[] = {{"x-tenant", "red"},
            {"traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}};
        const struct event bare = {.event_id = "0190e7c4-5d1f-7cc3-98c4-000000000002",
            .topic = "b",
            .payload = "",
            .payload_bytes = 0};
        struct event full = json_event("{\"n\": 1}");
        const struct http_request *request;

        full.key = "42";
        full.type = "placed";
        full.is_redriven = true;
        full.headers = headers;
        full.n_headers = 2;
        http_fixture_init(&fixture);
        fixture.config.headers = passed;
        fixture.config.n_headers = 1;
        fixture.config.secret = secret;
        fixture.config.signing = HTTP_SIGNING_STANDARD;
        http_fixture_open(&fixture);
        expect_outcome(sink_driver_deliver(&fixture.driver, &full), OUTCOME_DELIVERED);
        expect_outcome(sink_driver_deliver(&fixture.driver, &bare), OUTCOME_DELIVERED);
        expect_outcome(sink_driver_deliver(&fixture.driver, &full), OUTCOME_DELIVERED);

        request = http_receiver_request(fixture.receiver, 1);
        cr_expect_str_eq(request->method, "POST");
        cr_expect_eq(request->body_bytes, 0);
        expect_header(request, "Content-Length", "0");
        expect_header(request, "Content-Type", "application/octet-stream");
        expect_header(request, "x-event-topic", "b");
        expect_header(request, "webhook-id", bare.event_id);
        expect_no_headers(request, of_the_first, sizeof of_the_first / sizeof of_the_first[0]);
        expect_signature_verified(request, "standard", SECRET);
        request = http_receiver_request(fixture.receiver, 2);
        cr_expect_str_eq(request->body, "{\"n\": 1}");
        expect_header(request, "Content-Length", "8");
        expect_header(request, "x-event-key", "42");
        expect_header(request, "x-tenant", "red");
        expect_header(request, "webhook-id", full.event_id);
        expect_signature_verified(request, "standard", SECRET);
        cr_expect_eq(http_receiver_n_connections(fixture.receiver), 1);
        http_fixture_end(&fixture);
}

static void begin_table(struct http_fixture *fixture)
{
        static char loopback[] = "127.0.0.0/8";
        static char *networks[] = {loopback};
        static char port[8];
        static char *ports[] = {port};

        http_fixture_init(fixture);
        snprintf(port, sizeof port, "%u", http_receiver_port(fixture->receiver));
        fixture->config.allow_networks = networks;
        fixture->config.n_allow_networks = 1;
        fixture->config.allow_ports = ports;
        fixture->config.n_allow_ports = 1;
        fixture->config.url = NULL;
        fixture->config.receivers = HTTP_RECEIVERS_TABLE;
        http_fixture_open(fixture);
}

static void *open_target(struct http_fixture *fixture, const char *path, const char *secret,
    const struct event_header *header)
{
        struct error error = {.kind = ERROR_NONE};
        char *url = xasprintf("http://127.0.0.1:%u%s", http_receiver_port(fixture->receiver), path);
        const struct target_settings settings = {.name = path,
            .url = url,
            .secrets = &secret,
            .n_secrets = secret != NULL,
            .headers = header,
            .n_headers = header != NULL};
        void *target = http_sink_ops.open_target(fixture->driver.sink, &settings, &error);

        free(url);
        cr_assert_not_null(target, "%s", error.text);
        return target;
}

static const struct http_request *request_to(struct http_fixture *fixture, void *target)
{
        unsigned number = http_receiver_n_requests(fixture->receiver);
        const struct event event = json_event("{}");

        fixture->driver.target = target;
        expect_outcome(sink_driver_deliver(&fixture->driver, &event), OUTCOME_DELIVERED);
        return http_receiver_request(fixture->receiver, number);
}

static void expect_first(const struct http_request *request)
{
        cr_expect_str_eq(request->target, "/first?token=1");
        expect_header(request, "authorization", "Bearer first");
        expect_signature_verified(request, "standard", SECRET);
        cr_expect_not(is_signature_verified(request, "standard", OTHER));
}

HTTP_TEST(http_kept, carries_nothing_from_one_receiver_to_the_next)
{
        static const struct event_header own = {"Authorization", "Bearer first"};
        struct http_fixture fixture;
        const struct http_request *request;
        void *first;
        void *second;
        void *third;

        begin_table(&fixture);
        first = open_target(&fixture, "/first?token=1", SECRET, &own);
        second = open_target(&fixture, "/second", OTHER, NULL);
        expect_first(request_to(&fixture, first));
        request = request_to(&fixture, second);
        cr_expect_str_eq(request->target, "/second");
        expect_header(request, "authorization", NULL);
        expect_signature_verified(request, "standard", OTHER);
        cr_expect_not(is_signature_verified(request, "standard", SECRET));
        expect_first(request_to(&fixture, first));

        /* Also if it is where the first one was in memory. */
        http_sink_ops.close_target(fixture.driver.sink, first);
        third = open_target(&fixture, "/third", NULL, NULL);
        request = request_to(&fixture, third);
        cr_expect_str_eq(request->target, "/third");
        expect_header(request, "authorization", NULL);
        expect_header(request, "webhook-signature", NULL);

        /* All of it by one handle on one connection, or this test shows nothing. */
        cr_expect_eq(http_receiver_n_connections(fixture.receiver), 1);
        http_sink_ops.close_target(fixture.driver.sink, second);
        http_sink_ops.close_target(fixture.driver.sink, third);
        http_fixture_end(&fixture);
}

HTTP_TEST(http_kept, carries_nothing_from_one_answer_to_the_next)
{
        const struct http_answer taken = {.status = 200,
            .headers = {"Retry-After: 17", "webhook-delivery: abort-message", "Location: /taken"},
            .body = "the words of the first"};
        struct http_fixture fixture;
        struct outcome outcome;

        http_fixture_begin(&fixture);
        expect_outcome(outcome_of_answer(&fixture, &taken), OUTCOME_DELIVERED);
        outcome = outcome_of_answer(&fixture, &(struct http_answer){.status = 500});
        expect_outcome(outcome, OUTCOME_RETRY);
        cr_expect_str_eq(outcome.reason, "500 Internal Server Error");
        cr_expect_eq(outcome.delay_ms, OUTCOME_NO_DELAY);
        expect_outcome(outcome_of_answer(&fixture, &taken), OUTCOME_DELIVERED);
        outcome = outcome_of_answer(&fixture, &(struct http_answer){.manner = ANSWER_NONE});
        expect_outcome(outcome, OUTCOME_RETRY);
        cr_expect(outcome.is_unanswered, "%s", outcome.reason);
        cr_expect_eq(outcome.delay_ms, OUTCOME_NO_DELAY);
        expect_outcome(outcome_of_answer(&fixture, &taken), OUTCOME_DELIVERED);
        http_fixture_end(&fixture);
}

HTTP_TEST(http_kept, posts_before_and_after_a_probe)
{
        struct http_fixture fixture;
        const struct event event = json_event("{\"n\": 1}");

        http_fixture_begin(&fixture);
        for (unsigned i = 0; i < 3; i++) {
                expect_outcome(sink_driver_deliver(&fixture.driver, &event), OUTCOME_DELIVERED);
                expect_outcome(sink_driver_probe(&fixture.driver), OUTCOME_DELIVERED);
        }

        cr_expect_eq(http_receiver_n_requests(fixture.receiver), 3);
        for (unsigned i = 0; i < 3; i++) {
                const struct http_request *request = http_receiver_request(fixture.receiver, i);
                cr_expect_str_eq(request->method, "POST");
                cr_expect_str_eq(request->body, "{\"n\": 1}");
        }
        http_fixture_end(&fixture);
}

enum { MANY = 150 }; /* more than one driver's share */

HTTP_TEST(http_kept, opens_no_more_connections_than_it_has_requests_at_a_time)
{
        struct http_fixture fixture;
        const struct event event = json_event("{}");

        http_fixture_init(&fixture);
        fixture.concurrency = MANY;
        http_fixture_open(&fixture);
        for (unsigned round = 0; round < 3; round++) {
                http_receiver_answer(fixture.receiver, &(struct http_answer){.is_held = true});
                for (unsigned i = 0; i < MANY; i++)
                        sink_driver_start(&fixture.driver, &event);
                http_fixture_await(&fixture, fixture.driver.n_started);
                http_receiver_release(fixture.receiver);
                sink_driver_finish(&fixture.driver);
        }

        cr_expect_eq(http_receiver_n_requests(fixture.receiver), 3 * MANY);
        cr_expect_eq(http_receiver_n_connections(fixture.receiver), MANY);
        for (unsigned i = 0; i < 3 * MANY; i++)
                expect_outcome(fixture.driver.attempts[i].outcome, OUTCOME_DELIVERED);
        http_fixture_end(&fixture);
}

static void on_pulse(uv_timer_t *pulse)
{
        ++*(unsigned *)pulse->data;
}

/* libcurl is not listening then, and the socket stays readable. */
HTTP_TEST(http_kept, lets_the_loop_sleep_when_a_resting_connection_is_closed)
{
        struct http_fixture fixture;
        const struct event event = json_event("{}");
        unsigned n_turns = 0;
        unsigned n_pulses = 0;
        uv_timer_t pulse;

        http_fixture_begin(&fixture);
        expect_outcome(sink_driver_deliver(&fixture.driver, &event), OUTCOME_DELIVERED);
        http_receiver_stop(fixture.receiver);
        uv_timer_init(&fixture.driver.loop, &pulse);
        pulse.data = &n_pulses;
        uv_timer_start(&pulse, on_pulse, 2, 2);
        for (; n_pulses < 20; n_turns++)
                uv_run(&fixture.driver.loop, UV_RUN_ONCE);
        uv_close((uv_handle_t *)&pulse, NULL);

        cr_expect_lt(n_turns, 100);
        http_receiver_restart(fixture.receiver);
        expect_outcome(sink_driver_deliver(&fixture.driver, &event), OUTCOME_DELIVERED);
        http_fixture_end(&fixture);
}

enum { N_FILLING = 4 };

/* A process listens there, accepts nothing and its queue is full: to connect lasts for ever. */
static int listen_without_room(int *fillers, uint16_t *out_port)
{
        struct sockaddr_in address = {
            .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
        socklen_t size = sizeof address;
        int listener = socket(AF_INET, SOCK_STREAM, 0);

        cr_assert_eq(bind(listener, (struct sockaddr *)&address, sizeof address), 0);
        cr_assert_eq(listen(listener, 0), 0);
        cr_assert_eq(getsockname(listener, (struct sockaddr *)&address, &size), 0);
        for (int i = 0; i < N_FILLING; i++) {
                fillers[i] = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
                (void)!connect(fillers[i], (struct sockaddr *)&address, sizeof address);
        }
        *out_port = ntohs(address.sin_port);
        return listener;
}

/* libcurl closes such a socket by itself, without a word to the driver before. */
HTTP_TEST(http_kept, watches_no_socket_whose_connection_was_given_up)
{
        struct http_fixture fixture;
        const struct event event = json_event("{}");
        int fillers[N_FILLING];
        uint16_t port;
        int listener = listen_without_room(fillers, &port);

        http_fixture_init(&fixture);
        snprintf(fixture.url, sizeof fixture.url, "http://127.0.0.1:%u/", port);
        fixture.config.connect_timeout_ms = 50;
        http_fixture_open(&fixture);
        for (int i = 0; i < 3; i++)
                expect_outcome(sink_driver_deliver(&fixture.driver, &event), OUTCOME_SINK_DOWN);

        http_fixture_end(&fixture);
        for (int i = 0; i < N_FILLING; i++)
                close(fillers[i]);
        close(listener);
}
