/*
 * At least once, seen from the receiver: what is repeated is the same message, and where nothing
 * may be repeated unasked, nothing is. The receiver is scripted down to the socket.
 */
#include "http_fixture.h"
#include "http_verify.h"

#include "base/alloc.h"
#include "sinks/sink_contract.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <pthread.h>
#include <sys/socket.h>
#include <unistd.h>

#define SECRET "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"

enum { MAX_HEARD = 8, REQUEST_SIZE = 8192 };

/* Keeps connections alive; hangs up with a reset on one request that it has read whole. */
struct fickle_server {
        int listener;
        uint16_t port;
        unsigned resets_on; /* the number of that request, from 1 */
        pthread_t thread;
        char heard[MAX_HEARD][REQUEST_SIZE];
        unsigned n_heard;
};

/* One whole request; false at the end of the connection. */
static bool hear(int client, char request[REQUEST_SIZE])
{
        size_t length = 0;
        const char *body;
        const char *announced;
        ssize_t n;

        memset(request, 0, REQUEST_SIZE);
        while ((body = strstr(request, "\r\n\r\n")) == NULL) {
                n = read(client, request + length, REQUEST_SIZE - 1 - length);
                if (n <= 0)
                        return false;
                length += (size_t)n;
        }
        announced = strstr(request, "Content-Length: ");
        while (announced != NULL &&
               strlen(body + 4) < strtoul(announced + strlen("Content-Length: "), NULL, 10)) {
                n = read(client, request + length, REQUEST_SIZE - 1 - length);
                if (n <= 0)
                        return false;
                length += (size_t)n;
        }
        return true;
}

static void serve_connection(struct fickle_server *server, int client)
{
        static const char answer[] = "HTTP/1.1 204 No Content\r\n\r\n";
        const struct linger no_lingering = {.l_onoff = 1, .l_linger = 0};

        while (server->n_heard < MAX_HEARD && hear(client, server->heard[server->n_heard])) {
                server->n_heard++;
                if (server->n_heard == server->resets_on) {
                        setsockopt(
                            client, SOL_SOCKET, SO_LINGER, &no_lingering, sizeof no_lingering);
                        return;
                }
                send(client, answer, strlen(answer), MSG_NOSIGNAL);
        }
}

static void *serve(void *context)
{
        struct fickle_server *server = context;
        int client;

        while ((client = accept(server->listener, NULL, NULL)) >= 0) {
                serve_connection(server, client);
                close(client);
        }
        return NULL;
}

static void fickle_server_start(struct fickle_server *server, unsigned resets_on)
{
        struct sockaddr_in address = {
            .sin_family = AF_INET, .sin_addr = {.s_addr = htonl(INADDR_LOOPBACK)}};
        socklen_t length = sizeof address;

        *server = (struct fickle_server){.resets_on = resets_on};
        server->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (bind(server->listener, (struct sockaddr *)&address, length) != 0 ||
            listen(server->listener, 16) != 0 ||
            getsockname(server->listener, (struct sockaddr *)&address, &length) != 0)
                test_abort("cannot listen");
        server->port = ntohs(address.sin_port);
        pthread_create(&server->thread, NULL, serve, server);
}

/* After the sink has closed its connections. */
static void fickle_server_stop(struct fickle_server *server)
{
        shutdown(server->listener, SHUT_RDWR);
        pthread_join(server->thread, NULL);
        close(server->listener);
}

/* A request as it would be, but for what depends on the time. */
static char *without_time(const char *request)
{
        char *text = xstrdup(request);
        char *at;

        for (at = strstr(text, "webhook-timestamp: "); at != NULL && *at != '\r'; at++)
                *at = '.';
        return text;
}

static void open_towards(struct http_fixture *fixture, const struct fickle_server *server)
{
        snprintf(fixture->url, sizeof fixture->url, "http://127.0.0.1:%u/", server->port);
        http_fixture_open(fixture);
}

HTTP_TEST(http_repeats, may_deliver_twice_in_one_attempt_on_a_kept_connection)
{
        struct http_fixture fixture;
        struct fickle_server server;
        const struct event first = sample_event(1, "1");
        const struct event second = sample_event(2, "2");
        char *heard;
        char *again;

        fickle_server_start(&server, 2);
        http_fixture_init(&fixture);
        open_towards(&fixture, &server);
        expect_outcome(sink_driver_deliver(&fixture.driver, &first), OUTCOME_DELIVERED);
        expect_outcome(sink_driver_deliver(&fixture.driver, &second), OUTCOME_DELIVERED);
        http_fixture_end(&fixture);
        fickle_server_stop(&server);

        cr_assert_eq(server.n_heard, 3);
        heard = without_time(server.heard[1]);
        again = without_time(server.heard[2]);
        cr_expect_str_eq(heard, again);
        free(heard);
        free(again);
}

HTTP_TEST(http_repeats, never_repeats_within_an_attempt_on_fresh_connections)
{
        struct http_fixture fixture;
        struct fickle_server server;
        const struct event first = sample_event(1, "1");
        const struct event second = sample_event(2, "2");
        struct outcome outcome;

        fickle_server_start(&server, 2);
        http_fixture_init(&fixture);
        fixture.config.fresh_connections = true;
        open_towards(&fixture, &server);
        expect_outcome(sink_driver_deliver(&fixture.driver, &first), OUTCOME_DELIVERED);
        outcome = sink_driver_deliver(&fixture.driver, &second);
        expect_outcome(outcome, OUTCOME_RETRY);
        cr_expect(outcome.is_unanswered);
        cr_expect_eq(server.n_heard, 2);
        expect_outcome(sink_driver_deliver(&fixture.driver, &first), OUTCOME_DELIVERED);
        http_fixture_end(&fixture);
        fickle_server_stop(&server);

        cr_expect_eq(server.n_heard, 3);
}

HTTP_TEST(http_repeats, sends_the_same_message_again_with_a_new_time_and_signature)
{
        struct http_fixture fixture;
        char secret[] = SECRET;
        const struct event event = sample_event(1, "{\"n\": 1.0}");

        http_fixture_init(&fixture);
        fixture.config.secret = secret;
        http_fixture_open(&fixture);
        http_receiver_answer_next(fixture.receiver, &(struct http_answer){.manner = ANSWER_NONE});
        expect_outcome(sink_driver_deliver(&fixture.driver, &event), OUTCOME_RETRY);
        http_await_next_second();
        expect_outcome(sink_driver_deliver(&fixture.driver, &event), OUTCOME_DELIVERED);

        const struct http_request *first = http_receiver_request(fixture.receiver, 0);
        const struct http_request *second = http_receiver_request(fixture.receiver, 1);
        char *times[] = {http_request_header(first, "webhook-timestamp"),
            http_request_header(second, "webhook-timestamp")};

        cr_expect_str_eq(first->body, second->body);
        expect_header(first, "webhook-id", event.event_id);
        expect_header(second, "webhook-id", event.event_id);
        cr_expect_lt(atoll(times[0]), atoll(times[1]));
        expect_signature_verified(first, "standard", SECRET);
        expect_signature_verified(second, "standard", SECRET);
        free(times[0]);
        free(times[1]);
        http_fixture_end(&fixture);
}
