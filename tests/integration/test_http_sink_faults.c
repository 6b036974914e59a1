/* Receivers that are down, mute, half dead, endless, or not who they say. */
#include "http_fixture.h"

#include "base/alloc.h"
#include "sinks/sink_contract.h"
#include "support/process.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

HTTP_TEST(http_sink_faults, answers_sink_down_while_nothing_listens)
{
        struct http_fixture fixture;
        const struct event event = json_event("{}");
        struct outcome outcome;

        http_fixture_begin(&fixture);
        http_receiver_stop(fixture.receiver);

        for (int i = 0; i < 3; i++) {
                outcome = sink_driver_deliver(&fixture.driver, &event);
                expect_outcome(outcome, OUTCOME_SINK_DOWN);
                expect_reason(outcome, "127.0.0.1");
                cr_expect_not(outcome.needs_operator);
        }

        http_receiver_restart(fixture.receiver);
        expect_outcome(sink_driver_deliver(&fixture.driver, &event), OUTCOME_DELIVERED);
        http_fixture_end(&fixture);
}

HTTP_TEST(http_sink_faults, gives_up_on_a_silent_receiver_with_nothing_else_in_flight)
{
        struct http_fixture fixture;
        struct outcome outcome;

        http_fixture_init(&fixture);
        fixture.config.timeout_ms = 300;
        http_fixture_open(&fixture);

        outcome = outcome_of_answer(&fixture, &(struct http_answer){.is_held = true});

        expect_outcome(outcome, OUTCOME_RETRY);
        expect_reason(outcome, "unknown whether the event arrived");
        http_fixture_end(&fixture);
}

HTTP_TEST(http_sink_faults, does_not_know_whether_an_unanswered_request_arrived)
{
        struct http_fixture fixture;
        struct outcome outcome;
        char *first;
        char *second;

        http_fixture_begin(&fixture);
        outcome = outcome_of_answer(&fixture, &(struct http_answer){.manner = ANSWER_NONE});
        expect_outcome(outcome, OUTCOME_RETRY);
        expect_reason(outcome, "unknown whether the event arrived");
        cr_expect_eq(http_receiver_n_requests(fixture.receiver), 1);

        expect_outcome(
            outcome_of_answer(&fixture, &(struct http_answer){.status = 200}), OUTCOME_DELIVERED);
        first = http_request_header(http_receiver_request(fixture.receiver, 0), "webhook-id");
        second = http_request_header(http_receiver_request(fixture.receiver, 1), "webhook-id");
        cr_expect_str_eq(first, second);
        free(first);
        free(second);
        http_fixture_end(&fixture);
}

/* It is known at once, and not when the time is up. */
HTTP_TEST(http_sink_faults, hears_of_a_reset)
{
        struct http_fixture fixture;
        struct outcome outcome;

        http_fixture_begin(&fixture);
        http_receiver_close_by_reset(fixture.receiver);
        outcome = outcome_of_answer(&fixture, &(struct http_answer){.manner = ANSWER_NONE});
        expect_outcome(outcome, OUTCOME_RETRY);
        cr_expect_eq(outcome.fault, OUTCOME_FAULT_LOST, "%s", outcome.reason);
        http_fixture_end(&fixture);
}

HTTP_TEST(http_sink_faults, lets_a_2xx_stand_when_its_body_is_cut)
{
        struct http_fixture fixture;

        http_fixture_begin(&fixture);
        expect_outcome(
            outcome_of_answer(&fixture,
                &(struct http_answer){.status = 200, .body = "half", .manner = ANSWER_HALF_BODY}),
            OUTCOME_DELIVERED);
        expect_outcome(
            outcome_of_answer(&fixture,
                &(struct http_answer){.status = 500, .body = "half", .manner = ANSWER_HALF_BODY}),
            OUTCOME_RETRY);
        http_fixture_end(&fixture);
}

/* The timeout is longer than the test's patience: only the sink's own limits can end these. */
HTTP_TEST(http_sink_faults, stops_reading_bodies_without_end)
{
        struct http_fixture fixture;
        struct outcome outcome;

        http_fixture_init(&fixture);
        fixture.config.timeout_ms = 600000;
        http_fixture_open(&fixture);

        expect_outcome(outcome_of_answer(&fixture,
                           &(struct http_answer){.status = 200, .manner = ANSWER_DRIPPING}),
            OUTCOME_DELIVERED);
        expect_outcome(outcome_of_answer(&fixture,
                           &(struct http_answer){.status = 200, .manner = ANSWER_FLOODING}),
            OUTCOME_DELIVERED);
        /* What the kernel buffers between the two, at most; a second's flood is far more. */
        cr_expect_lt(http_receiver_n_flooded(fixture.receiver), 32u << 20);
        outcome = outcome_of_answer(
            &fixture, &(struct http_answer){.status = 500, .manner = ANSWER_DRIPPING});
        expect_outcome(outcome, OUTCOME_RETRY);
        expect_reason(outcome, "500 Internal Server Error: ...");
        expect_outcome(
            outcome_of_answer(&fixture, &(struct http_answer){.status = 200}), OUTCOME_DELIVERED);
        http_fixture_end(&fixture);
}

static bool has_dripped(void *receiver)
{
        return http_receiver_n_dripped(receiver) >= 3;
}

HTTP_TEST(http_sink_faults, gives_the_answer_it_already_has_when_cancelled)
{
        struct http_fixture fixture;
        const struct event event = json_event("{}");

        http_fixture_begin(&fixture);
        http_receiver_answer(
            fixture.receiver, &(struct http_answer){.status = 200, .manner = ANSWER_DRIPPING});
        sink_driver_start(&fixture.driver, &event);
        sink_driver_run_until(&fixture.driver, has_dripped, fixture.receiver, "the body to begin");
        uv_run(&fixture.driver.loop, UV_RUN_NOWAIT);
        cr_assert_not(fixture.driver.attempts[0].is_finished);

        sink_cancel(fixture.driver.sink);
        sink_driver_finish(&fixture.driver);

        expect_outcome(fixture.driver.attempts[0].outcome, OUTCOME_DELIVERED);
        http_fixture_end(&fixture);
}

/* Bursts on connections that the receiver has reset meanwhile: libcurl or else the sink must see
 * that they are dead. */
HTTP_TEST(http_sink_faults, charges_no_attempt_for_connections_that_died_while_idle)
{
        enum { N_PARALLEL = 20, N_ROUNDS = 10 };
        struct http_fixture fixture;
        const struct event event = json_event("{}");

        http_fixture_begin(&fixture);
        http_receiver_close_by_reset(fixture.receiver);
        for (int round = 0; round < N_ROUNDS; round++) {
                for (int i = 0; i < N_PARALLEL; i++)
                        sink_driver_start(&fixture.driver, &event);
                sink_driver_finish(&fixture.driver);
                http_receiver_stop(fixture.receiver);
                http_receiver_restart(fixture.receiver);
        }
        for (int i = 0; i < N_PARALLEL * N_ROUNDS; i++)
                expect_outcome(fixture.driver.attempts[i].outcome, OUTCOME_DELIVERED);
        cr_expect_eq(http_receiver_n_requests(fixture.receiver), N_PARALLEL * N_ROUNDS);
        http_fixture_end(&fixture);
}

/* libcurl tries six pooled connections in all before it gives up, we try one. */
HTTP_TEST(http_sink_faults, tries_a_new_connection_when_only_pooled_ones_were_tried)
{
        unsigned n_tries = is_by_libcurl ? 6 : 1;
        struct http_fixture fixture;
        const struct event event = json_event("{}");

        http_fixture_begin(&fixture);
        http_receiver_answer(fixture.receiver, &(struct http_answer){.is_held = true});
        for (int i = 0; i < 10; i++)
                sink_driver_start(&fixture.driver, &event);
        http_fixture_await(&fixture, 10);
        http_receiver_release(fixture.receiver);
        sink_driver_finish(&fixture.driver);

        http_receiver_answer(fixture.receiver, &(struct http_answer){.status = 204});
        for (unsigned i = 0; i < n_tries; i++)
                http_receiver_answer_next(
                    fixture.receiver, &(struct http_answer){.manner = ANSWER_NONE});
        expect_outcome(sink_driver_deliver(&fixture.driver, &event), OUTCOME_DELIVERED);

        cr_expect_eq(http_receiver_n_requests(fixture.receiver), 10 + n_tries + 1);
        cr_expect_eq(http_receiver_n_connections(fixture.receiver), 10 + 1);
        http_fixture_end(&fixture);
}

HTTP_TEST(http_sink_faults, answers_sink_down_when_the_host_has_no_address)
{
        struct http_fixture fixture;
        const struct event event = json_event("{}");
        struct outcome outcome;

        http_fixture_init(&fixture);
        strcpy(fixture.url, "http://nowhere.invalid/");
        fixture.config.connect_timeout_ms = 2000;
        http_fixture_open(&fixture);

        outcome = sink_driver_deliver(&fixture.driver, &event);
        expect_outcome(outcome, OUTCOME_SINK_DOWN);
        expect_reason(outcome, "no address");
        expect_outcome(sink_driver_probe(&fixture.driver), OUTCOME_SINK_DOWN);
        http_fixture_end(&fixture);
}

HTTP_TEST(http_sink_faults, takes_no_proxy_from_the_environment)
{
        struct http_fixture fixture;
        const struct event event = json_event("{}");

        setenv("http_proxy", "http://127.0.0.1:1", 1);
        setenv("https_proxy", "http://127.0.0.1:1", 1);
        setenv("all_proxy", "http://127.0.0.1:1", 1);
        unsetenv("no_proxy");
        unsetenv("NO_PROXY");
        http_fixture_begin(&fixture);

        expect_outcome(sink_driver_deliver(&fixture.driver, &event), OUTCOME_DELIVERED);
        http_fixture_end(&fixture);
}

/* A server that writes given bytes after the first bytes of each request, for answers that no
 * proper server gives. */
struct raw_server {
        int listener;
        const char *bytes;
        size_t n_bytes;
        pthread_t thread;
};

static void *serve_raw(void *context)
{
        const struct raw_server *server = context;
        char request[65536];
        int client;

        while ((client = accept(server->listener, NULL, NULL)) >= 0) {
                if (read(client, request, sizeof request) > 0)
                        send(client, server->bytes, server->n_bytes, MSG_NOSIGNAL);
                shutdown(client, SHUT_WR);
                while (read(client, request, sizeof request) > 0)
                        ;
                close(client);
        }
        return NULL;
}

static int listen_on(uint16_t port)
{
        int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        const int reuse = 1;
        struct sockaddr_in address = {.sin_family = AF_INET,
            .sin_port = htons(port),
            .sin_addr = {.s_addr = htonl(INADDR_LOOPBACK)}};

        setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &reuse, sizeof reuse);
        if (bind(listener, (struct sockaddr *)&address, sizeof address) != 0 ||
            listen(listener, 16) != 0)
                test_abort("cannot listen on port %u", port);
        return listener;
}

static struct outcome outcome_of_bytes(const char *bytes, size_t n_bytes)
{
        struct http_fixture fixture;
        const struct event event = json_event("{}");
        struct raw_server server = {.bytes = bytes, .n_bytes = n_bytes};
        struct outcome outcome;

        http_fixture_init(&fixture);
        http_receiver_stop(fixture.receiver);
        server.listener = listen_on(http_receiver_port(fixture.receiver));
        pthread_create(&server.thread, NULL, serve_raw, &server);
        http_fixture_open(&fixture);

        outcome = sink_driver_deliver(&fixture.driver, &event);

        http_fixture_end(&fixture);
        shutdown(server.listener, SHUT_RDWR);
        pthread_join(server.thread, NULL);
        close(server.listener);
        return outcome;
}

static void expect_of_bytes(const char *bytes, enum outcome_kind kind)
{
        expect_outcome(outcome_of_bytes(bytes, strlen(bytes)), kind);
}

HTTP_TEST(http_sink_faults, waits_for_the_final_response_and_all_its_headers)
{
        expect_of_bytes("HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n"
                        "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
            OUTCOME_DELIVERED);
        expect_of_bytes(
            "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 404 No\r\n\r\nbad", OUTCOME_SINK_DOWN);
        expect_of_bytes("HTTP/1.1 103 Early Hints\r\n\r\n", OUTCOME_RETRY);
        expect_of_bytes("HTTP/1.1 200 OK\r\nContent-Le", OUTCOME_RETRY);
        expect_of_bytes("HTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.1 200 OK\r\nCon", OUTCOME_RETRY);
        expect_of_bytes("HTTP/1.1 200 OK\r\n", OUTCOME_RETRY);
        expect_of_bytes("SSH-2.0-OpenSSH_9.2\r\n", OUTCOME_RETRY);
        expect_of_bytes("", OUTCOME_RETRY);
        cr_expect(outcome_of_bytes("", 0).is_unanswered);
        cr_expect_not(outcome_of_bytes("SSH-2.0-OpenSSH_9.2\r\n", 21).is_unanswered);
}

static void expect_too_many_headers(const char *bytes, size_t n_bytes)
{
        const struct outcome outcome = outcome_of_bytes(bytes, n_bytes);

        expect_outcome(outcome, OUTCOME_RETRY);
        cr_expect_not(outcome.is_unanswered);
        cr_expect_str_eq(outcome.reason, "the answer has more than 64 KiB of headers, so it is "
                                         "unknown whether the event arrived");
}

/* For which libcurl has a limit of its own, and words that lead nowhere. */
HTTP_TEST(http_sink_faults, bounds_the_line_it_reads)
{
        enum { LINE_BYTES = 200000 };
        char *line = xasprintf("HTTP/1.1 200 OK\r\nx-filler: %0*d\r\n\r\n", LINE_BYTES, 7);

        expect_too_many_headers(line, strlen(line));
        free(line);
}

HTTP_TEST(http_sink_faults, bounds_the_headers_it_reads)
{
        struct bytes_of_headers {
                char text[200000];
                size_t length;
        } *headers = xcalloc(1, sizeof *headers);

        headers->length = (size_t)sprintf(headers->text, "HTTP/1.1 200 OK\r\n");
        while (headers->length < 150000)
                headers->length +=
                    (size_t)sprintf(headers->text + headers->length, "x-filler: %0100d\r\n", 7);
        headers->length += (size_t)sprintf(headers->text + headers->length, "\r\n");

        expect_too_many_headers(headers->text, headers->length);
        free(headers);
}

HTTP_TEST(http_sink_faults, answers_sink_down_when_a_handshake_is_never_answered)
{
        struct http_fixture fixture;
        const struct event event = json_event("{}");
        int listener;
        struct outcome outcome;

        http_fixture_init(&fixture);
        http_receiver_stop(fixture.receiver);
        listener = listen_on(http_receiver_port(fixture.receiver));
        snprintf(fixture.url, sizeof fixture.url, "https://127.0.0.1:%u/",
            http_receiver_port(fixture.receiver));
        fixture.config.connect_timeout_ms = 300;
        http_fixture_open(&fixture);

        outcome = sink_driver_deliver(&fixture.driver, &event);
        expect_outcome(outcome, OUTCOME_SINK_DOWN);
        expect_outcome(sink_driver_probe(&fixture.driver), OUTCOME_SINK_DOWN);
        http_fixture_end(&fixture);
        close(listener);
}
