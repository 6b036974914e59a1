/*
 * The tricky idea is `is_inside`. While the socket is being served, a callback may destroy the
 * stream, or send and flush: then it is only marked, nothing reads or writes a second time, and
 * leave() does the rest.
 *
 * A flush that fails is not yet the end: what the peer said before it hung up is still to be read.
 *
 * While all goes well a burst costs one read and one write. What was appended waits for a flush, or
 * for a timer of the next turn: to wait for a socket that could be written to anyway would cost
 * calls of the kernel. A read that did not fill its buffer has emptied the socket.
 */
#include "loop/byte_stream.h"

#include "base/alloc.h"
#include "base/bytes.h"
#include "loop/connector.h"
#include "loop/resolve.h"
#include "loop/socket_watch.h"
#include "loop/timer.h"
#include "loop/tls_session.h"

#include <errno.h>
#include <inttypes.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum {
        KEPT_BYTES = 1024 * 1024,
        READ_BYTES = 64 * 1024,
};

enum state { STREAM_RESOLVING, STREAM_CONNECTING, STREAM_SECURING, STREAM_OPEN, STREAM_FAILED };

struct byte_stream {
        enum state state;
        uv_loop_t *loop;                         /* borrowed */
        const struct byte_stream_events *events; /* borrowed */
        void *owner;                             /* borrowed */
        char *host;                              /* owned; NULL: a path */
        char *peer;                              /* owned; "host:port" or the path */
        struct tls_context *context;             /* owned, with others; NULL: plain */
        struct tls_ticket *ticket;               /* borrowed; NULL: none */
        size_t kept_bytes;                       /* of a buffer that is empty */
        bool begins_plain;
        bool is_greeted;
        int64_t connect_timeout_ms;
        struct timer *deadline; /* owned; until it is greeted */

        struct resolve *resolve;     /* RESOLVING */
        struct connector *connector; /* owned; until it is open */
        char failure[240];           /* why the last address failed */
        bool is_tls_failure;         /* it answered, but not by TLS as it should */

        int socket;                 /* owned; -1: none */
        struct socket_watch *watch; /* owned */
        struct tls_session *tls;    /* owned; NULL: plain, or not yet */
        struct bytes in;            /* what has come, and the owner could not use yet */
        struct bytes out;           /* what is still to be written */
        size_t n_written;           /* of it */
        bool is_full;               /* the last write did not take everything */
        struct timer *soon;         /* owned; writes what was appended and not flushed */
        bool is_inside;
        bool is_destroyed; /* by a callback; freed by leave() */
};

static void fail(struct byte_stream *stream, enum outcome_fault fault, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static void fail(struct byte_stream *stream, enum outcome_fault fault, const char *format, ...)
{
        char reason[512];
        va_list arguments;

        va_start(arguments, format);
        vsnprintf(reason, sizeof reason, format, arguments);
        va_end(arguments);

        stream->state = STREAM_FAILED;
        timer_disarm(stream->deadline);
        stream->events->on_failed(stream->owner, fault, reason);
}

static bool is_over(const struct byte_stream *stream)
{
        return stream->state == STREAM_FAILED || stream->is_destroyed;
}

/* Bytes, both ways. */

/* As read(2) and write(2), or TLS_AGAIN, TLS_FAILED. */
static ssize_t read_some(struct byte_stream *stream, void *data, size_t size)
{
        ssize_t n;

        if (stream->tls != NULL)
                return tls_session_read(stream->tls, data, size);
        do
                n = read(stream->socket, data, size);
        while (n < 0 && errno == EINTR);
        if (n >= 0)
                return n;
        return errno == EAGAIN ? TLS_AGAIN : TLS_FAILED;
}

static ssize_t write_some(struct byte_stream *stream, const void *data, size_t size)
{
        ssize_t n;

        if (stream->tls != NULL)
                return tls_session_write(stream->tls, data, size);
        do
                n = send(stream->socket, data, size, MSG_NOSIGNAL);
        while (n < 0 && errno == EINTR);
        if (n >= 0)
                return n;
        return errno == EAGAIN ? TLS_AGAIN : TLS_FAILED;
}

static void lose(struct byte_stream *stream, const char *reason)
{
        fail(stream, stream->is_greeted ? OUTCOME_FAULT_LOST : OUTCOME_FAULT_REFUSED,
            "connection to %s lost: %s", stream->peer, reason);
}

/* After a call that said TLS_FAILED. */
static void lose_by_socket(struct byte_stream *stream)
{
        lose(stream, stream->tls != NULL ? tls_session_failure(stream->tls) : strerror(errno));
}

static void keep_rest(struct byte_stream *stream, const char *data, size_t size)
{
        if (size > 0)
                bytes_append(&stream->in, data, size);
}

static void give_behind_kept(struct byte_stream *stream, const char *data, size_t size)
{
        struct bytes *in = &stream->in;
        size_t n_used;

        bytes_append(in, data, size);
        n_used = stream->events->on_data(stream->owner, in->data, in->length);
        if (is_over(stream) || stream->state != STREAM_OPEN)
                return;
        in->length -= n_used;
        memmove(in->data, in->data + n_used, in->length + 1);
        if (in->length == 0 && in->capacity > stream->kept_bytes)
                bytes_deinit(in);
}

static void give(struct byte_stream *stream, char *data, size_t size)
{
        size_t n_used;

        if (stream->in.length > 0) {
                give_behind_kept(stream, data, size);
                return;
        }
        n_used = stream->events->on_data(stream->owner, data, size);
        if (stream->state == STREAM_OPEN && !stream->is_destroyed)
                keep_rest(stream, data + n_used, size - n_used);
}

/* After a read of `n` bytes. What a full buffer left in the socket is told of again. */
static bool is_emptied(const struct byte_stream *stream, ssize_t n)
{
        return stream->tls != NULL ? !tls_session_has_more(stream->tls) : n < READ_BYTES;
}

static void read_all(struct byte_stream *stream)
{
        static char data[READ_BYTES]; /* there is one loop, and no call of this inside this */

        while (stream->state == STREAM_OPEN && !stream->is_destroyed) {
                ssize_t n = read_some(stream, data, sizeof data);

                if (n == TLS_AGAIN)
                        return;
                if (n == 0)
                        lose(stream, "closed by the server");
                else if (n < 0)
                        lose_by_socket(stream);
                if (n <= 0)
                        return;
                give(stream, data, (size_t)n);
                if (stream->state == STREAM_OPEN && !stream->is_destroyed && is_emptied(stream, n))
                        return;
        }
}

/* False if it cannot be written to at all. */
static bool write_all(struct byte_stream *stream)
{
        struct bytes *out = &stream->out;

        stream->is_full = false;
        while (stream->n_written < out->length) {
                ssize_t n = write_some(
                    stream, out->data + stream->n_written, out->length - stream->n_written);
                if (n < 0) {
                        stream->is_full = true;
                        return n == TLS_AGAIN;
                }
                stream->n_written += (size_t)n;
        }
        stream->n_written = 0;
        bytes_clear(out);
        if (out->capacity > stream->kept_bytes)
                bytes_deinit(out);
        return true;
}

/* The way to an open connection. */

static void close_socket(struct byte_stream *stream)
{
        socket_watch_destroy(stream->watch);
        stream->watch = NULL;
        tls_session_destroy(stream->tls);
        stream->tls = NULL;
        if (stream->socket >= 0)
                close(stream->socket);
        stream->socket = -1;
}

/* It connected, but did not speak TLS as it should. */
static void give_up_address(struct byte_stream *stream, const char *reason)
{
        snprintf(stream->failure, sizeof stream->failure, "%s", reason);
        stream->is_tls_failure = true;
        close_socket(stream);
        stream->state = STREAM_CONNECTING;
        connector_go_on(stream->connector);
}

static void become_open(struct byte_stream *stream)
{
        stream->state = STREAM_OPEN;
        connector_destroy(stream->connector);
        stream->connector = NULL;
        stream->events->on_connected(stream->owner);
}

static void begin_tls(struct byte_stream *stream)
{
        stream->tls =
            tls_session_create(stream->context, stream->socket, stream->host, stream->ticket);
        stream->state = STREAM_SECURING;
}

static void secure(struct byte_stream *stream)
{
        int result = tls_session_shake_hands(stream->tls);

        if (result == TLS_AGAIN)
                return;
        if (result != TLS_FAILED)
                become_open(stream);
        else if (stream->begins_plain)
                fail(stream, OUTCOME_FAULT_TLS, "cannot connect to %s: %s", stream->peer,
                    tls_session_failure(stream->tls));
        else
                give_up_address(stream, tls_session_failure(stream->tls));
}

static int wanted_events(const struct byte_stream *stream)
{
        switch (stream->state) {
        case STREAM_SECURING:
                /* One that was not served yet wants nothing; the client speaks first. */
                return tls_session_events(stream->tls) != 0 ? tls_session_events(stream->tls)
                                                            : SOCKET_WRITABLE;
        case STREAM_OPEN:
                /* A TLS session may have to read before it can write, and the other way round. */
                return SOCKET_READABLE |
                       (stream->tls != NULL ? tls_session_events(stream->tls) : 0) |
                       (stream->tls == NULL && stream->is_full ? SOCKET_WRITABLE : 0);
        case STREAM_RESOLVING:
        case STREAM_CONNECTING:
        case STREAM_FAILED:
                return 0;
        }
        abort();
}

static void destroy(struct byte_stream *stream)
{
        resolve_cancel(stream->resolve);
        connector_destroy(stream->connector);
        close_socket(stream);
        tls_context_destroy(stream->context);
        timer_destroy(stream->deadline);
        timer_destroy(stream->soon);
        bytes_deinit(&stream->in);
        bytes_deinit(&stream->out);
        free(stream->host);
        free(stream->peer);
        free(stream);
}

static void leave(struct byte_stream *stream)
{
        stream->is_inside = false;
        if (stream->is_destroyed)
                destroy(stream);
        else if (stream->watch != NULL)
                socket_watch_set(stream->watch, wanted_events(stream));
}

static void serve(struct byte_stream *stream)
{
        if (stream->state == STREAM_SECURING && !stream->is_destroyed)
                secure(stream);
        read_all(stream);
        /* What that led to need not wait for another turn. */
        if (stream->state == STREAM_OPEN && !stream->is_destroyed && !write_all(stream))
                lose_by_socket(stream);
        leave(stream);
}

static void on_socket_ready(void *owner, int events)
{
        struct byte_stream *stream = owner;

        (void)events;
        stream->is_inside = true;
        serve(stream);
}

static void on_connected(void *owner, int socket, const char *failure)
{
        struct byte_stream *stream = owner;

        stream->is_inside = true;
        stream->socket = socket;
        if (socket >= 0)
                stream->watch = socket_watch_create(stream->loop, socket, on_socket_ready, stream);
        if (stream->watch == NULL) {
                fail(stream, stream->is_tls_failure ? OUTCOME_FAULT_TLS : OUTCOME_FAULT_REFUSED,
                    "cannot connect to %s: %s", stream->peer,
                    socket >= 0              ? "its socket cannot be watched"
                    : stream->is_tls_failure ? stream->failure
                                             : failure);
        } else if (stream->context != NULL && !stream->begins_plain) {
                begin_tls(stream);
        } else {
                become_open(stream);
        }
        serve(stream);
}

static void tell_deadline(struct byte_stream *stream)
{
        int64_t limit_ms = stream->connect_timeout_ms;

        switch (stream->state) {
        case STREAM_RESOLVING:
                fail(stream, OUTCOME_FAULT_DNS, "cannot resolve %s within %" PRId64 " ms",
                    stream->peer, limit_ms);
                return;
        case STREAM_CONNECTING:
        case STREAM_SECURING:
                fail(stream, OUTCOME_FAULT_REFUSED, "cannot connect to %s%s within %" PRId64 " ms",
                    stream->peer, stream->context != NULL ? " by TLS" : "", limit_ms);
                return;
        case STREAM_OPEN:
                fail(stream, OUTCOME_FAULT_REFUSED,
                    "%s has not answered the greeting within %" PRId64 " ms", stream->peer,
                    limit_ms);
                return;
        case STREAM_FAILED:
                return;
        }
}

static void on_deadline(void *owner)
{
        struct byte_stream *stream = owner;

        stream->is_inside = true;
        tell_deadline(stream);
        leave(stream);
}

static void on_soon(void *owner)
{
        byte_stream_flush(owner);
}

/* The addresses have been added. */
static void begin_connecting(struct byte_stream *stream)
{
        stream->state = STREAM_CONNECTING;
        connector_go_on(stream->connector);
}

static void on_resolved(void *owner, const struct addrinfo *addresses, const char *failure)
{
        struct byte_stream *stream = owner;

        stream->resolve = NULL;
        if (addresses != NULL) {
                for (; addresses != NULL; addresses = addresses->ai_next)
                        connector_add(stream->connector, addresses->ai_addr, addresses->ai_addrlen);
                begin_connecting(stream);
                return;
        }
        stream->is_inside = true;
        fail(stream, OUTCOME_FAULT_DNS, "cannot resolve %s: %s", stream->peer,
            failure != NULL ? failure : "no address");
        leave(stream);
}

static void connect_to_path(struct byte_stream *stream, const char *path)
{
        struct sockaddr_un address = {.sun_family = AF_UNIX};

        /* Longer ones are refused when the configuration is read. */
        snprintf(address.sun_path, sizeof address.sun_path, "%s", path);
        connector_add(stream->connector, &address, sizeof address);
        begin_connecting(stream);
}

struct byte_stream *byte_stream_open(uv_loop_t *loop, const struct byte_stream_target *target,
    const struct byte_stream_events *events, void *owner)
{
        struct byte_stream *stream = xcalloc(1, sizeof *stream);
        char service[8];

        stream->loop = loop;
        stream->events = events;
        stream->owner = owner;
        stream->context = tls_context_ref(target->tls);
        stream->ticket = target->ticket;
        stream->kept_bytes = target->kept_bytes > 0 ? target->kept_bytes : KEPT_BYTES;
        stream->begins_plain = target->begins_plain;
        stream->connect_timeout_ms = target->connect_timeout_ms;
        stream->socket = -1;
        stream->deadline = timer_create_on(loop, on_deadline, stream);
        timer_arm(stream->deadline, (uint64_t)target->connect_timeout_ms);
        stream->soon = timer_create_on(loop, on_soon, stream);
        stream->connector = connector_create(loop, on_connected, stream);
        if (target->host == NULL) {
                stream->peer = xstrdup(target->socket_path);
                connect_to_path(stream, target->socket_path);
                return stream;
        }
        stream->host = xstrdup(target->host);
        stream->peer = xasprintf("%s:%u", target->host, target->port);
        for (unsigned i = 0; i < target->n_addresses; i++)
                connector_add(
                    stream->connector, &target->addresses[i].data, target->addresses[i].length);
        if (target->n_addresses > 0) {
                begin_connecting(stream);
                return stream;
        }
        snprintf(service, sizeof service, "%u", target->port);
        stream->state = STREAM_RESOLVING;
        stream->resolve = resolve_start(
            loop, stream->host, service, target->connect_timeout_ms, on_resolved, stream);
        return stream;
}

void byte_stream_destroy(struct byte_stream *stream)
{
        if (stream == NULL)
                return;
        if (stream->is_inside)
                stream->is_destroyed = true;
        else
                destroy(stream);
}

void byte_stream_secure(struct byte_stream *stream)
{
        stream->in.length = 0; /* its storage stays: this may be inside on_data() */
        begin_tls(stream);
        if (!stream->is_inside)
                socket_watch_set(stream->watch, wanted_events(stream));
}

void byte_stream_greeted(struct byte_stream *stream)
{
        stream->is_greeted = true;
        timer_disarm(stream->deadline);
}

const char *byte_stream_peer(const struct byte_stream *stream)
{
        return stream->peer;
}

struct bytes *byte_stream_out(struct byte_stream *stream)
{
        return &stream->out;
}

void byte_stream_note_appended(struct byte_stream *stream)
{
        if (!stream->is_inside && stream->state == STREAM_OPEN && !stream->is_full &&
            !timer_is_armed(stream->soon))
                timer_arm(stream->soon, 0);
}

void byte_stream_send(struct byte_stream *stream, const void *data, size_t length)
{
        bytes_append(&stream->out, data, length);
        byte_stream_note_appended(stream);
}

void byte_stream_flush(struct byte_stream *stream)
{
        if (stream->is_inside || stream->state != STREAM_OPEN || stream->is_full ||
            stream->out.length == 0)
                return;
        if (timer_is_armed(stream->soon))
                timer_disarm(stream->soon);
        (void)write_all(stream); /* of a failure the socket tells when it is next served */
        socket_watch_set(stream->watch, wanted_events(stream));
}

bool byte_stream_is_silent(const struct byte_stream *stream)
{
        char byte;

        if (stream->state != STREAM_OPEN ||
            (stream->tls != NULL && tls_session_has_more(stream->tls)))
                return false;
        return recv(stream->socket, &byte, 1, MSG_PEEK | MSG_DONTWAIT) < 0 &&
               (errno == EAGAIN || errno == EINTR);
}

size_t byte_stream_unwritten(const struct byte_stream *stream)
{
        return stream->out.length - stream->n_written;
}
