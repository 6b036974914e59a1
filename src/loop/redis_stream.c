/*
 * CONNECTING -writable-> SECURING -handshake-> OPEN; any of them -failure-> FAILED
 * Without TLS there is no SECURING.
 *
 * The tricky idea is `is_inside`. While the socket is being served, a callback may destroy the
 * stream, or send and flush: then it is only marked, nothing reads or writes a second time, and
 * leave() does the rest.
 *
 * A flush that fails is not yet the end: what Redis said before it hung up is still to be read.
 */
#include "loop/redis_stream.h"

#include "base/alloc.h"
#include "base/bytes.h"
#include "loop/socket_watch.h"
#include "loop/tls_session.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MAX_DIGITS = 18 /* they fit into a long long */ };

/* Digits up to "\r\n", as Redis writes a number. Returns how many bytes that is, or 0. */
static size_t read_number(const char *data, size_t size, long long *number)
{
        size_t n = 0;

        *number = 0;
        while (n < size && n < MAX_DIGITS && data[n] >= '0' && data[n] <= '9')
                *number = 10 * *number + (data[n++] - '0');
        if (n == 0 || (data[0] == '0' && n > 1) || n + 2 > size || data[n] != '\r' ||
            data[n + 1] != '\n')
                return 0;
        return n + 2;
}

static size_t read_text(char *data, size_t size, size_t length, int type, redisReply *reply)
{
        if (length + 2 > size || data[length] != '\r' || data[length + 1] != '\n')
                return 0;
        data[length] = '\0';
        *reply = (redisReply){.type = type, .str = data, .len = length};
        return length + 2;
}

static size_t read_string(char *data, size_t size, redisReply *reply)
{
        long long length;
        size_t n = read_number(data, size, &length);
        size_t n_text;

        if (n == 0 || (unsigned long long)length > size - n)
                return 0;
        n_text = read_text(data + n, size - n, (size_t)length, REDIS_REPLY_STRING, reply);
        return n_text > 0 ? n + n_text : 0;
}

static size_t read_status(char *data, size_t size, redisReply *reply)
{
        const char *end = memchr(data, '\r', size);

        return end != NULL ? read_text(data, size, (size_t)(end - data), REDIS_REPLY_STATUS, reply)
                           : 0;
}

static size_t read_integer(const char *data, size_t size, redisReply *reply)
{
        long long number;
        size_t n = read_number(data, size, &number);

        if (n > 0)
                *reply = (redisReply){.type = REDIS_REPLY_INTEGER, .integer = number};
        return n;
}

size_t resp_fast_read(char *data, size_t size, redisReply *reply)
{
        size_t n = 0;

        if (size == 0)
                return 0;
        if (data[0] == '$')
                n = read_string(data + 1, size - 1, reply);
        else if (data[0] == '+')
                n = read_status(data + 1, size - 1, reply);
        else if (data[0] == ':')
                n = read_integer(data + 1, size - 1, reply);
        return n > 0 ? 1 + n : 0;
}

enum {
        KEPT_BYTES = 1024 * 1024, /* of a buffer that is empty */
        READ_BYTES = 64 * 1024,
};

enum state { STREAM_CONNECTING, STREAM_SECURING, STREAM_OPEN, STREAM_FAILED };

struct redis_stream {
        enum state state;
        const struct redis_stream_events *events; /* borrowed */
        void *owner;                              /* borrowed */
        int socket;                               /* owned */
        struct socket_watch *watch;               /* owned */
        struct tls_session *tls;                  /* owned; NULL: plain */
        redisReader *reader;                      /* owned */
        struct bytes out;                         /* what is still to be written */
        size_t n_written;                         /* of it */
        bool is_met;                              /* a server accepted the connection */
        bool is_full;                             /* the last write did not take everything */
        bool is_inside;
        bool is_destroyed; /* by a callback; freed by leave() */
};

#if HIREDIS_MAJOR == 0
/* hiredis calls these where it aborts without memory, and gives no reason. Ours replace those of
 * the library. */
void *hi_malloc(size_t size);
char *hi_strdup(const char *text);

void *hi_malloc(size_t size)
{
        return xmalloc(size);
}

char *hi_strdup(const char *text)
{
        return xstrdup(text);
}
#endif

static void fail(struct redis_stream *stream, const char *reason)
{
        stream->state = STREAM_FAILED;
        stream->events->on_failed(stream->owner, reason);
}

/* As read(2) and write(2), or TLS_AGAIN, TLS_FAILED. */
static ssize_t read_some(struct redis_stream *stream, void *data, size_t size)
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

static ssize_t write_some(struct redis_stream *stream, const void *data, size_t size)
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

/* After a call that said TLS_FAILED. */
static void fail_by_socket(struct redis_stream *stream)
{
        fail(stream, stream->tls != NULL ? tls_session_failure(stream->tls) : strerror(errno));
}

static void give_replies(struct redis_stream *stream)
{
        while (stream->state == STREAM_OPEN && !stream->is_destroyed) {
                void *reply = NULL;

                if (redisReaderGetReply(stream->reader, &reply) != REDIS_OK) {
                        if (stream->reader->err == REDIS_ERR_OOM)
                                out_of_memory();
                        fail(stream, stream->reader->errstr);
                        return;
                }
                if (reply == NULL)
                        return;
                stream->events->on_reply(stream->owner, reply);
                freeReplyObject(reply);
        }
}

/* Whole answers of the simple kinds need no reader. Returns how many bytes those at the front
 * have. */
static size_t give_simple_replies(struct redis_stream *stream, char *data, size_t size)
{
        size_t n_used = 0;

        while (stream->state == STREAM_OPEN && !stream->is_destroyed) {
                redisReply reply;
                size_t n = resp_fast_read(data + n_used, size - n_used, &reply);

                if (n == 0)
                        break;
                n_used += n;
                stream->events->on_reply(stream->owner, &reply);
        }
        return n_used;
}

static bool is_between_replies(const redisReader *reader)
{
        return reader->ridx < 0 && reader->pos == reader->len;
}

static void take(struct redis_stream *stream, char *data, size_t size)
{
        if (is_between_replies(stream->reader)) {
                size_t n = give_simple_replies(stream, data, size);

                data += n;
                size -= n;
        }
        if (size == 0)
                return;
        if (redisReaderFeed(stream->reader, data, size) != REDIS_OK)
                out_of_memory();
        give_replies(stream);
}

static void read_all(struct redis_stream *stream)
{
        static char data[READ_BYTES]; /* there is one loop, and no call of this inside this */

        while (stream->state == STREAM_OPEN && !stream->is_destroyed) {
                ssize_t n = read_some(stream, data, sizeof data);

                if (n == TLS_AGAIN)
                        return;
                if (n == 0)
                        fail(stream, "closed by the server");
                else if (n < 0)
                        fail_by_socket(stream);
                if (n <= 0)
                        return;
                take(stream, data, (size_t)n);
        }
}

/* False if it cannot be written to at all. */
static bool write_all(struct redis_stream *stream)
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
        if (out->capacity > KEPT_BYTES)
                bytes_deinit(out);
        return true;
}

static void become_open(struct redis_stream *stream)
{
        stream->state = STREAM_OPEN;
        stream->events->on_connected(stream->owner);
}

static void secure(struct redis_stream *stream)
{
        int result = tls_session_shake_hands(stream->tls);

        if (result == TLS_FAILED)
                fail(stream, tls_session_failure(stream->tls));
        else if (result != TLS_AGAIN)
                become_open(stream);
}

static void finish_connecting(struct redis_stream *stream)
{
        int status = 0;
        socklen_t length = sizeof status;

        if (getsockopt(stream->socket, SOL_SOCKET, SO_ERROR, &status, &length) != 0)
                status = errno;
        stream->is_met = status == 0;
        if (status != 0)
                fail(stream, strerror(status));
        else if (stream->tls != NULL)
                stream->state = STREAM_SECURING;
        else
                become_open(stream);
}

bool redis_stream_has_met(const struct redis_stream *stream)
{
        return stream->is_met;
}

static int wanted_events(const struct redis_stream *stream)
{
        switch (stream->state) {
        case STREAM_CONNECTING:
                return SOCKET_WRITABLE;
        case STREAM_SECURING:
                return tls_session_events(stream->tls);
        case STREAM_OPEN:
                /* A TLS session may have to read before it can write, and the other way round. */
                return SOCKET_READABLE |
                       (stream->tls != NULL ? tls_session_events(stream->tls) : 0) |
                       (stream->out.length > 0 && (stream->tls == NULL || !stream->is_full)
                               ? SOCKET_WRITABLE
                               : 0);
        case STREAM_FAILED:
                return 0;
        }
        abort();
}

static void destroy(struct redis_stream *stream)
{
        socket_watch_destroy(stream->watch);
        tls_session_destroy(stream->tls);
        redisReaderFree(stream->reader);
        bytes_deinit(&stream->out);
        close(stream->socket);
        free(stream);
}

static void leave(struct redis_stream *stream)
{
        stream->is_inside = false;
        if (stream->is_destroyed)
                destroy(stream);
        else
                socket_watch_set(stream->watch, wanted_events(stream));
}

static void on_socket_ready(void *owner, int events)
{
        struct redis_stream *stream = owner;

        (void)events;
        stream->is_inside = true;
        if (stream->state == STREAM_CONNECTING)
                finish_connecting(stream);
        if (stream->state == STREAM_SECURING)
                secure(stream);
        read_all(stream);
        /* What that led to need not wait for another turn. */
        if (stream->state == STREAM_OPEN && !stream->is_destroyed && !write_all(stream))
                fail_by_socket(stream);
        leave(stream);
}

/* Dead peers that never say so are found within half a minute. */
static void keep_alive(int socket)
{
        static const struct {
                int level;
                int name;
                int value;
        } options[] = {{IPPROTO_TCP, TCP_NODELAY, 1}, {SOL_SOCKET, SO_KEEPALIVE, 1},
            {IPPROTO_TCP, TCP_KEEPIDLE, 15}, {IPPROTO_TCP, TCP_KEEPINTVL, 5},
            {IPPROTO_TCP, TCP_KEEPCNT, 3}};

        for (size_t i = 0; i < sizeof options / sizeof options[0]; i++)
                (void)setsockopt(socket, options[i].level, options[i].name, &options[i].value,
                    sizeof options[i].value);
}

static int start_connecting(const struct redis_stream_target *target)
{
        int family = target->address.ss_family;
        int fd = socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
        int failure;

        if (fd < 0)
                return -1;
        if (family != AF_UNIX)
                keep_alive(fd);
        if (connect(fd, (const struct sockaddr *)&target->address, target->address_length) == 0 ||
            errno == EINPROGRESS)
                return fd;
        failure = errno;
        close(fd);
        errno = failure;
        return -1;
}

struct redis_stream *redis_stream_open(uv_loop_t *loop, const struct redis_stream_target *target,
    const struct redis_stream_events *events, void *owner, char *failure, size_t size)
{
        int fd = start_connecting(target);
        struct redis_stream *stream;

        if (fd < 0) {
                snprintf(failure, size, "%s", strerror(errno));
                return NULL;
        }
        stream = xcalloc(1, sizeof *stream);
        stream->watch = socket_watch_create(loop, fd, on_socket_ready, stream);
        if (stream->watch == NULL) {
                snprintf(failure, size, "the socket cannot be watched");
                close(fd);
                free(stream);
                return NULL;
        }
        stream->state = STREAM_CONNECTING;
        stream->events = events;
        stream->owner = owner;
        stream->socket = fd;
        stream->reader = redisReaderCreate();
        if (stream->reader == NULL)
                out_of_memory();
        /* Beyond this hiredis 0.14 would throw its buffer away, and crash without memory for a new
         * one. */
        stream->reader->maxbuf = 0;
        if (target->tls != NULL)
                stream->tls = tls_session_create(target->tls, fd, target->tls_host);
        socket_watch_set(stream->watch, SOCKET_WRITABLE);
        return stream;
}

void redis_stream_destroy(struct redis_stream *stream)
{
        if (stream == NULL)
                return;
        if (stream->is_inside)
                stream->is_destroyed = true;
        else
                destroy(stream);
}

void redis_stream_send(struct redis_stream *stream, const void *data, size_t length)
{
        bytes_append(&stream->out, data, length);
        redis_stream_note_appended(stream);
}

struct bytes *redis_stream_out(struct redis_stream *stream)
{
        return &stream->out;
}

void redis_stream_note_appended(struct redis_stream *stream)
{
        if (!stream->is_inside)
                socket_watch_set(stream->watch, wanted_events(stream));
}

void redis_stream_flush(struct redis_stream *stream)
{
        if (stream->is_inside || stream->state != STREAM_OPEN || stream->is_full ||
            stream->out.length == 0)
                return;
        (void)write_all(stream); /* of a failure the socket tells when it is next served */
        socket_watch_set(stream->watch, wanted_events(stream));
}
