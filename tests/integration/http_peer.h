/*
 * A peer of the http sink that says what the test says, byte for byte, and when: in the test's own
 * thread, on connections numbered in the order in which they came. With TLS if it has a context.
 */
#pragma once

#include "base/bytes.h"
#include "http_fixture.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <openssl/ssl.h>
#include <sys/socket.h>
#include <unistd.h>

#define PEER_MAX_SOCKETS 8

struct http_peer {
        int listener;
        uint16_t port;
        SSL_CTX *tls;         /* borrowed; NULL: plain */
        size_t heard_at_most; /* on each connection; the rest it leaves unread */
        unsigned n_sockets;
        struct {
                int socket;
                SSL *tls;
                struct bytes heard;
                bool has_ended; /* by the sink */
        } at[PEER_MAX_SOCKETS];

        /* What peer_has() waits for. */
        unsigned awaited_at;
        unsigned n_awaited; /* requests; 0: that it ends */
};

static inline void peer_listen(struct http_peer *peer)
{
        struct sockaddr_in address = {
            .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
        socklen_t length = sizeof address;

        *peer = (struct http_peer){.heard_at_most = SIZE_MAX,
            .listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)};
        cr_assert_eq(bind(peer->listener, (struct sockaddr *)&address, sizeof address), 0);
        cr_assert_eq(listen(peer->listener, PEER_MAX_SOCKETS), 0);
        cr_assert_eq(getsockname(peer->listener, (struct sockaddr *)&address, &length), 0);
        peer->port = ntohs(address.sin_port);
}

static inline void peer_hang_up(struct http_peer *peer, unsigned i)
{
        SSL_free(peer->at[i].tls);
        peer->at[i].tls = NULL;
        if (peer->at[i].socket >= 0)
                close(peer->at[i].socket);
        peer->at[i].socket = -1;
}

static inline void peer_close(struct http_peer *peer)
{
        for (unsigned i = 0; i < peer->n_sockets; i++) {
                peer_hang_up(peer, i);
                bytes_deinit(&peer->at[i].heard);
        }
        close(peer->listener);
}

static inline void peer_accept(struct http_peer *peer)
{
        int accepted;

        while (peer->n_sockets < PEER_MAX_SOCKETS && (accepted = accept4(peer->listener, NULL, NULL,
                                                          SOCK_NONBLOCK | SOCK_CLOEXEC)) >= 0) {
                const int at_once = 1;
                unsigned i = peer->n_sockets++;

                setsockopt(accepted, IPPROTO_TCP, TCP_NODELAY, &at_once, sizeof at_once);
                peer->at[i].socket = accepted;
                bytes_append_text(&peer->at[i].heard, "");
                if (peer->tls == NULL)
                        continue;
                peer->at[i].tls = SSL_new(peer->tls);
                SSL_set_fd(peer->at[i].tls, accepted);
                SSL_set_accept_state(peer->at[i].tls);
        }
}

static inline void peer_hear(struct http_peer *peer, unsigned i)
{
        char data[4096];
        size_t room = peer->heard_at_most - peer->at[i].heard.length;
        size_t size = room < sizeof data ? room : sizeof data;
        bool is_over = false;
        ssize_t n;

        if (peer->at[i].socket < 0 || size == 0)
                return;
        if (peer->at[i].tls != NULL) {
                n = SSL_read(peer->at[i].tls, data, (int)size);
                is_over = n <= 0 && SSL_get_error(peer->at[i].tls, (int)n) != SSL_ERROR_WANT_READ;
        } else {
                n = recv(peer->at[i].socket, data, size, 0);
                is_over = n == 0 || (n < 0 && errno != EAGAIN);
        }
        if (n > 0)
                bytes_append(&peer->at[i].heard, data, (size_t)n);
        peer->at[i].has_ended |= is_over;
}

static inline unsigned peer_n_requests(const struct http_peer *peer, unsigned i)
{
        unsigned n = 0;

        if (i < peer->n_sockets)
                for (const char *at = peer->at[i].heard.data; (at = strstr(at, "\r\n\r\n")) != NULL;
                     at += 4)
                        n++;
        return n;
}

static inline bool peer_has(void *context)
{
        struct http_peer *peer = context;

        peer_accept(peer);
        for (unsigned i = 0; i < peer->n_sockets; i++)
                peer_hear(peer, i);
        return peer->n_awaited > 0
                   ? peer_n_requests(peer, peer->awaited_at) >= peer->n_awaited
                   : peer->awaited_at < peer->n_sockets && peer->at[peer->awaited_at].has_ended;
}

/* Heads of requests, on that connection. */
static inline void peer_await(
    struct http_peer *peer, struct http_fixture *fixture, unsigned i, unsigned n_requests)
{
        peer->awaited_at = i;
        peer->n_awaited = n_requests;
        sink_driver_run_until(&fixture->driver, peer_has, peer, "a request on that connection");
}

static inline void peer_await_end(struct http_peer *peer, struct http_fixture *fixture, unsigned i)
{
        peer->awaited_at = i;
        peer->n_awaited = 0;
        sink_driver_run_until(&fixture->driver, peer_has, peer, "the connection's end");
}

static inline void peer_say(struct http_peer *peer, unsigned i, const char *text)
{
        int length = (int)strlen(text);

        if (peer->at[i].tls != NULL)
                cr_assert_eq(SSL_write(peer->at[i].tls, text, length), length);
        else
                cr_assert_eq(send(peer->at[i].socket, text, (size_t)length, MSG_NOSIGNAL), length);
}

/* The next event goes out on that connection, and is answered so. */
static inline struct outcome peer_answer(
    struct http_peer *peer, struct http_fixture *fixture, unsigned i, const char *answer)
{
        const struct event event = json_event("{}");
        size_t number = sink_driver_start(&fixture->driver, &event);

        sink_driver_flush(&fixture->driver);
        peer_await(peer, fixture, i, peer_n_requests(peer, i) + 1);
        peer_say(peer, i, answer);
        sink_driver_finish(&fixture->driver);
        return fixture->driver.attempts[number].outcome;
}

/* The config may be changed until http_fixture_open(). */
static inline void peer_begin(struct http_peer *peer, struct http_fixture *fixture)
{
        peer_listen(peer);
        http_fixture_init(fixture);
        snprintf(fixture->url, sizeof fixture->url, "http://127.0.0.1:%u/hook", peer->port);
}

static inline void peer_end(struct http_peer *peer, struct http_fixture *fixture)
{
        http_fixture_end(fixture);
        peer_close(peer);
}
