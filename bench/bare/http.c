/*
 * Webhooks: IN_FLIGHT kept connections, one request in flight on each, in one epoll loop. The header
 * lines are those of pgcourier's default request. As the fourth argument `tls` stands in place of
 * PAUSE_US: then by TLS; the certificate is not verified. Connecting is not measured.
 */
#define _GNU_SOURCE /* memmem */
#include "bare.h"

#include <errno.h>
#include <fcntl.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>

#define ANSWER_MAX     1024
#define REQUEST_MAX    1024
#define EVENTS_AT_ONCE 256

struct conn {
        int fd;
        SSL *ssl; /* NULL: no TLS */
        size_t n_bytes;
        char answer[ANSWER_MAX];
};

static void write_all(struct conn *conn, const char *bytes, size_t n_bytes)
{
        ssize_t n = conn->ssl != NULL ? SSL_write(conn->ssl, bytes, (int)n_bytes)
                                      : send(conn->fd, bytes, n_bytes, MSG_NOSIGNAL);

        if (n != (ssize_t)n_bytes)
                bare_die("send", strerror(errno));
}

static void post_next(struct bare *bare, struct conn *conn)
{
        static struct bare_event event;
        char request[REQUEST_MAX];
        int n;

        bare_event(bare, &event);
        n = snprintf(request, sizeof request,
            "POST /1 HTTP/1.1\r\nHost: 127.0.0.1:%d\r\nAccept: */*\r\nUser-Agent: "
            "pgcourier/0.0.0\r\n"
            "Content-Type: " BARE_CONTENT_TYPE "\r\nwebhook-id: %s\r\nwebhook-timestamp: %lld\r\n"
            "x-event-topic: %s\r\nx-event-key: %s\r\nx-event-type: " BARE_TYPE
            "\r\nContent-Length: %d\r\n\r\n%s",
            bare->port, event.id, (long long)(event.created_us / 1000000), event.topic, event.key,
            BARE_PAYLOAD_BYTES, event.payload);
        write_all(conn, request, (size_t)n);
        bare->n_sent++;
}

/* False: nothing more is there yet. */
static bool read_some(struct conn *conn)
{
        char *end = conn->answer + conn->n_bytes;
        size_t room = ANSWER_MAX - conn->n_bytes;
        ssize_t n;

        if (conn->ssl != NULL) {
                n = SSL_read(conn->ssl, end, (int)room);
                if (n <= 0 && SSL_get_error(conn->ssl, (int)n) == SSL_ERROR_WANT_READ)
                        return false;
        } else {
                n = recv(conn->fd, end, room, 0);
        }
        if (n <= 0)
                bare_die("recv", n == 0 ? "the receiver hung up" : "it failed");
        conn->n_bytes += (size_t)n;
        return true;
}

/* An answer without a body, as bench/receiver.c gives it. */
static void take_answer(struct bare *bare, struct conn *conn)
{
        if (!read_some(conn))
                return;
        if (memmem(conn->answer, conn->n_bytes, "\r\n\r\n", 4) == NULL)
                return;
        if (memcmp(conn->answer, "HTTP/1.1 200 ", 13) != 0)
                bare_die("the receiver says", "no 200");
        conn->n_bytes = 0;
        bare->n_acked++;
        if (bare->n_sent < bare->n_events)
                post_next(bare, conn);
}

static void open_conn(const struct bare *bare, SSL_CTX *tls, int poll_fd, struct conn *conn)
{
        struct epoll_event event = {.events = EPOLLIN, .data.ptr = conn};

        conn->fd = bare_connect(bare);
        if (tls != NULL) {
                conn->ssl = SSL_new(tls);
                if (conn->ssl == NULL || SSL_set_fd(conn->ssl, conn->fd) != 1 ||
                    SSL_connect(conn->ssl) != 1)
                        bare_die("TLS", ERR_error_string(ERR_get_error(), NULL));
        }
        if (fcntl(conn->fd, F_SETFL, O_NONBLOCK) != 0 ||
            epoll_ctl(poll_fd, EPOLL_CTL_ADD, conn->fd, &event) != 0)
                bare_die("epoll_ctl", strerror(errno));
}

static void allow_many_files(void)
{
        struct rlimit files;

        getrlimit(RLIMIT_NOFILE, &files);
        files.rlim_cur = files.rlim_max;
        setrlimit(RLIMIT_NOFILE, &files);
}

int main(int n_args, char **args)
{
        bool is_tls = n_args == 5 && strcmp(args[4], "tls") == 0;
        SSL_CTX *tls = is_tls ? SSL_CTX_new(TLS_client_method()) : NULL;
        struct epoll_event events[EVENTS_AT_ONCE];
        struct bare bare;
        struct conn *conns;
        int poll_fd = epoll_create1(0);

        bare_init(&bare, is_tls ? 4 : n_args, args);
        allow_many_files();
        conns = calloc((size_t)bare.in_flight, sizeof *conns);
        if (conns == NULL || poll_fd < 0 || (is_tls && tls == NULL))
                bare_die("beginning", "it failed");
        for (long i = 0; i < bare.in_flight; i++)
                open_conn(&bare, tls, poll_fd, &conns[i]);
        bare_begin(&bare);
        for (long i = 0; i < bare.in_flight && bare.n_sent < bare.n_events; i++)
                post_next(&bare, &conns[i]);
        while (bare.n_acked < bare.n_events) {
                int n = epoll_wait(poll_fd, events, EVENTS_AT_ONCE, 60000);

                if (n == 0)
                        bare_die("epoll_wait", "no answer in 60 seconds");
                for (int i = 0; i < n; i++)
                        take_answer(&bare, events[i].data.ptr);
        }
        bare_end(&bare);
        return 0;
}
