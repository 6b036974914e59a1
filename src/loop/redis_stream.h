/*
 * A stream socket, plain or TLS, that speaks Redis' protocol on the libuv loop: bytes of commands
 * go out, answers come in. Of hiredis it uses the parser only: its asynchronous connection of 0.14
 * knows no TLS, frees itself under its owner, and resolves names on the loop's thread. hiredis 1.x
 * has TLS and leaves the freeing to its owner: with it this file could go.
 */
#pragma once

#include <hiredis/hiredis.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/socket.h>
#include <uv.h>

struct bytes;
struct redis_stream;
struct tls_context;

/* None of them comes inside a verb of this file. In each the stream may be destroyed. */
struct redis_stream_events {
        /* Connected, and with TLS the peer is who it should be. */
        void (*on_connected)(void *owner);

        /* One answer; borrowed for the call. */
        void (*on_reply)(void *owner, const redisReply *reply);

        /* The last event: it could not be made or broke. */
        void (*on_failed)(void *owner, const char *reason);
};

struct redis_stream_target {
        struct sockaddr_storage address;
        socklen_t address_length;
        struct tls_context *tls; /* borrowed; NULL: plain */
        const char *tls_host;    /* what the certificate must bear */
};

/* Starts to connect. NULL if the system refuses at once, with the reason in `failure`. */
struct redis_stream *redis_stream_open(uv_loop_t *loop, const struct redis_stream_target *target,
    const struct redis_stream_events *events, void *owner, char *failure, size_t size);

/* Closes it. NULL is allowed. No callback comes after this line. */
void redis_stream_destroy(struct redis_stream *stream);

/* A server accepted the connection: what failed before on_connected was TLS. */
bool redis_stream_has_met(const struct redis_stream *stream);

/* Connected only. Buffers; written in the next turn of the loop, or by redis_stream_flush(). */
void redis_stream_send(struct redis_stream *stream, const void *data, size_t length);

/* The same without a copy: append to what redis_stream_out() returns, then say so. */
struct bytes *redis_stream_out(struct redis_stream *stream);
void redis_stream_note_appended(struct redis_stream *stream);

void redis_stream_flush(struct redis_stream *stream); /* in any state */

/*
 * Reads the simple kinds of answers where they lie: most answers are an entry's id, +QUEUED or a
 * number, and hiredis allocates twice for each. Hiredis reads all others, and what is incomplete or
 * malformed.
 *
 * If the answer at the front is a whole string, status or integer, this fills *reply, whose text
 * lies in `data` (a NUL is put behind it), and returns how many bytes the answer has. Else it
 * returns 0 and changes nothing. Pure; public for its tests.
 */
size_t resp_fast_read(char *data, size_t size, redisReply *reply);
