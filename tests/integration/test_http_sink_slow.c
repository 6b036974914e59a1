/*
 * Receivers that take their time or never come to an end, on bare sockets: no server in its right
 * mind does this. Each case ends in a bounded time with the answer that is known, reads little,
 * and gives its place to the next event.
 */
#include "http_fixture.h"

#include "base/alloc.h"
#include "sinks/sink_contract.h"
#include "support/process.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

enum { MAX_CLIENTS = 64, DRIP_MS = 20 };

/* Reads each request whole, then writes `first` and, for as long as the client stays, `drip`. */
struct slow_server {
        int listener;
        uint16_t port;
        const char *first;
        const char *drip; /* NULL: keeps silent */
        bool reads_body;  /* before it writes anything */
        bool is_flooding; /* writes `drip` without a pause */
        pthread_t thread;
        pthread_t clients[MAX_CLIENTS];
        unsigned n_clients;

        pthread_mutex_t lock;
        unsigned n_answered;
        size_t n_dripped; /* bytes */
        char *request;    /* the last one's headers */
};

struct slow_client {
        struct slow_server *server;
        int socket;
};

static size_t content_length(const char *request)
{
        const char *header = strcasestr(request, "\r\nContent-Length: ");

        return header != NULL ? strtoul(header + strlen("\r\nContent-Length: "), NULL, 10) : 0;
}

/* False if the client went away first. */
static bool read_request(struct slow_server *server, int client)
{
        char *request = xcalloc(1, 65536);
        size_t length = 0;
        char *body;
        size_t n_left;

        while ((body = strstr(request, "\r\n\r\n")) == NULL) {
                ssize_t n = read(client, request + length, 65535 - length);
                if (n <= 0) {
                        free(request);
                        return false;
                }
                length += (size_t)n;
        }
        n_left = content_length(request) - (length - (size_t)(body + 4 - request));
        body[4] = '\0';
        pthread_mutex_lock(&server->lock);
        free(server->request);
        server->request = request;
        pthread_mutex_unlock(&server->lock);
        while (server->reads_body && n_left > 0) {
                char rest[65536];
                ssize_t n = read(client, rest, sizeof rest);
                if (n <= 0)
                        return false;
                n_left -= (size_t)n;
        }
        return true;
}

static bool send_text(int client, const char *text)
{
        return send(client, text, strlen(text), MSG_NOSIGNAL) == (ssize_t)strlen(text);
}

static bool is_gone(int client, int wait_ms)
{
        struct pollfd ready = {.fd = client, .events = POLLRDHUP};

        return poll(&ready, 1, wait_ms) > 0;
}

static bool drip(struct slow_server *server, int client)
{
        if (is_gone(client, server->is_flooding ? 0 : DRIP_MS) || !send_text(client, server->drip))
                return false;
        pthread_mutex_lock(&server->lock);
        server->n_dripped += strlen(server->drip);
        pthread_mutex_unlock(&server->lock);
        return true;
}

static void *serve_client(void *context)
{
        struct slow_client *client = context;
        struct slow_server *server = client->server;

        while (read_request(server, client->socket)) {
                if (!send_text(client->socket, server->first))
                        break;
                pthread_mutex_lock(&server->lock);
                server->n_answered++;
                pthread_mutex_unlock(&server->lock);
                while (server->drip != NULL && drip(server, client->socket))
                        ;
                if (server->drip != NULL)
                        break;
        }
        close(client->socket);
        free(client);
        return NULL;
}

static void *accept_clients(void *context)
{
        struct slow_server *server = context;
        int socket;

        while ((socket = accept4(server->listener, NULL, NULL, SOCK_CLOEXEC)) >= 0) {
                struct slow_client *client = xcalloc(1, sizeof *client);
                cr_assert_lt(server->n_clients, MAX_CLIENTS);
                *client = (struct slow_client){.server = server, .socket = socket};
                pthread_create(&server->clients[server->n_clients++], NULL, serve_client, client);
        }
        return NULL;
}

static void slow_server_start(struct slow_server *server)
{
        struct sockaddr_in address = {
            .sin_family = AF_INET, .sin_addr = {.s_addr = htonl(INADDR_LOOPBACK)}};
        socklen_t address_bytes = sizeof address;

        pthread_mutex_init(&server->lock, NULL);
        server->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (bind(server->listener, (struct sockaddr *)&address, address_bytes) != 0 ||
            listen(server->listener, MAX_CLIENTS) != 0 ||
            getsockname(server->listener, (struct sockaddr *)&address, &address_bytes) != 0)
                test_abort("cannot listen");
        server->port = ntohs(address.sin_port);
        pthread_create(&server->thread, NULL, accept_clients, server);
}

/* After the sink has closed its connections. */
static void slow_server_end(struct slow_server *server)
{
        shutdown(server->listener, SHUT_RDWR);
        pthread_join(server->thread, NULL);
        for (unsigned i = 0; i < server->n_clients; i++)
                pthread_join(server->clients[i], NULL);
        close(server->listener);
        free(server->request);
}

static void begin(struct http_fixture *fixture, struct slow_server *server, int64_t timeout_ms)
{
        slow_server_start(server);
        http_fixture_init(fixture);
        snprintf(fixture->url, sizeof fixture->url, "http://127.0.0.1:%u/", server->port);
        fixture->config.timeout_ms = timeout_ms;
        http_fixture_open(fixture);
}

static void end(struct http_fixture *fixture, struct slow_server *server)
{
        http_fixture_end(fixture);
        slow_server_end(server);
}

static void start_many(struct http_fixture *fixture, const struct event *event)
{
        for (unsigned i = 0; i < fixture->concurrency; i++)
                sink_driver_start(&fixture->driver, event);
        sink_driver_finish(&fixture->driver);
}

static void expect_all(const struct http_fixture *fixture, enum outcome_kind kind)
{
        for (size_t i = 0; i < fixture->driver.n_started; i++)
                expect_outcome(fixture->driver.attempts[i].outcome, kind);
}

/* The timeout is longer than the test's patience. Twice over: all places were freed. */
HTTP_TEST(http_sink_slow, decides_at_the_headers_of_a_body_without_end)
{
        struct slow_server server = {
            .first = "HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n", .drip = "."};
        struct http_fixture fixture;
        const struct event event = json_event("{}");

        begin(&fixture, &server, 600000);
        start_many(&fixture, &event);
        start_many(&fixture, &event);
        expect_all(&fixture, OUTCOME_DELIVERED);
        end(&fixture, &server);
}

/* One byte now and then keeps the connection alive, and must not keep the request alive. */
HTTP_TEST(http_sink_slow, gives_up_on_headers_that_never_end)
{
        struct slow_server server = {.first = "HTTP/1.1 200 OK\r\nx-slow: ", .drip = "."};
        struct http_fixture fixture;
        const struct event event = json_event("{}");

        begin(&fixture, &server, 500);
        start_many(&fixture, &event);
        expect_all(&fixture, OUTCOME_RETRY);
        expect_reason(fixture.driver.attempts[0].outcome, "unknown whether the event arrived");
        end(&fixture, &server);
}

static size_t n_dripped(struct slow_server *server)
{
        size_t n;

        pthread_mutex_lock(&server->lock);
        n = server->n_dripped;
        pthread_mutex_unlock(&server->lock);
        return n;
}

/* As one header that never ends, and as many; until the timeout it would be gigabytes. */
HTTP_TEST(http_sink_slow, reads_no_headers_without_end)
{
        char *filler = xcalloc(1, 100001);
        struct slow_server servers[2] = {
            {.first = "HTTP/1.1 200 OK\r\nx-endless: ", .drip = filler, .is_flooding = true},
            {.first = "HTTP/1.1 200 OK\r\n",
                .drip = "x-one: more\r\nx-and: another\r\n",
                .is_flooding = true},
        };
        const struct event event = json_event("{}");

        memset(filler, 'x', 100000);
        for (int i = 0; i < 2; i++) {
                struct http_fixture fixture;

                begin(&fixture, &servers[i], 600000);
                expect_outcome(sink_driver_deliver(&fixture.driver, &event), OUTCOME_RETRY);
                /* What the kernel buffers between the two, at most. */
                cr_expect_lt(n_dripped(&servers[i]), 32u << 20);
                end(&fixture, &servers[i]);
        }
        free(filler);
}

/* libcurl by itself asks for a 100 Continue before a large body, and waits for it. */
HTTP_TEST(http_sink_slow, expects_no_100_continue)
{
        struct slow_server server = {
            .first = "HTTP/1.1 204 No Content\r\n\r\n", .reads_body = true};
        enum { BODY_BYTES = 3 << 20 };
        char *body = xcalloc(1, BODY_BYTES + 1);
        struct http_fixture fixture;
        struct event event;

        memset(body, '7', BODY_BYTES);
        event = json_event(body);
        begin(&fixture, &server, 15000);
        expect_outcome(sink_driver_deliver(&fixture.driver, &event), OUTCOME_DELIVERED);
        cr_expect(strcasestr(server.request, "expect:") == NULL, "%s", server.request);
        end(&fixture, &server);
        free(body);
}

/* The last transfer of all, with nothing else that could wake the loop but its own timeout. */
HTTP_TEST(http_sink_slow, records_the_timeout_of_a_receiver_that_reads_and_says_nothing)
{
        struct slow_server server = {.first = ""};
        struct http_fixture fixture;
        const struct event event = json_event("{}");
        struct outcome outcome;

        begin(&fixture, &server, 300);
        outcome = sink_driver_deliver(&fixture.driver, &event);
        expect_outcome(outcome, OUTCOME_RETRY);
        cr_expect(outcome.is_unanswered);
        end(&fixture, &server);
}

static bool has_answered(void *context)
{
        struct slow_server *server = context;
        unsigned n;

        pthread_mutex_lock(&server->lock);
        n = server->n_answered;
        pthread_mutex_unlock(&server->lock);
        return n == 1;
}

HTTP_TEST(http_sink_slow, stops_at_once_while_a_receiver_says_nothing)
{
        struct slow_server server = {.first = ""};
        struct http_fixture fixture;
        const struct event event = json_event("{}");

        begin(&fixture, &server, 600000);
        sink_driver_start(&fixture.driver, &event);
        sink_driver_run_until(&fixture.driver, has_answered, &server, "the request to arrive");
        sink_cancel(fixture.driver.sink);
        sink_driver_finish(&fixture.driver);
        expect_outcome(fixture.driver.attempts[0].outcome, OUTCOME_CANCELLED);
        end(&fixture, &server);
}
