/*
 * A stream socket on the libuv loop, plain or TLS: looks the name up, tries its addresses, secures
 * the connection, and then carries bytes both ways. What the bytes mean is the owner's: Redis'
 * protocol, NATS' lines and AMQP's frames stand on it.
 *
 * RESOLVING -> CONNECTING -> (SECURING) -> OPEN; any of them -failure or deadline-> FAILED
 */
#pragma once

#include "pgcourier/outcome.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

struct byte_stream;
struct bytes;
struct socket_address;
struct tls_context;
struct tls_ticket;

/* Borrowed for byte_stream_open(), except for `ticket`. */
struct byte_stream_target {
        const char *host; /* a name or a literal address, without brackets; NULL: socket_path */
        uint16_t port;
        const char *socket_path;
        const struct socket_address *addresses; /* of the host, if they are known already */
        unsigned n_addresses;                   /* 0: the host is looked up */
        struct tls_context *tls;                /* NULL: plain */
        struct tls_ticket *ticket; /* borrowed while the stream lives; NULL: each handshake is a
                                    * whole one */
        bool begins_plain; /* with `tls`: until byte_stream_secure(), as after NATS' first line */
        size_t kept_bytes; /* of a buffer's storage while it is empty; 0: 1 MiB */

        /* From byte_stream_open() until byte_stream_greeted(): names, addresses, TLS and the
         * protocol's own greeting. */
        int64_t connect_timeout_ms;
};

/* None of them comes inside a verb of this file. In each the stream may be destroyed. */
struct byte_stream_events {
        /* Connected, and secured unless it begins plain. After byte_stream_secure() it comes
         * again, when that is done. */
        void (*on_connected)(void *owner);

        /* What has come. Returns how much of it was used; the rest comes again, with more behind
         * it, so the owner bounds how long a message may be. It may write to `data`. If the owner has
         * destroyed the stream or asked it to secure itself, what it returns does not matter. */
        size_t (*on_data)(void *owner, char *data, size_t size);

        /* The last event: it could not be made, was too slow, or broke. `reason` names the peer. */
        void (*on_failed)(void *owner, enum outcome_fault fault, const char *reason);
};

/* Never fails: what the system refuses at once is told in the next turn. */
struct byte_stream *byte_stream_open(uv_loop_t *loop, const struct byte_stream_target *target,
    const struct byte_stream_events *events, void *owner);

/* Closes it. NULL is allowed. No callback comes after this line. */
void byte_stream_destroy(struct byte_stream *stream);

/* OPEN and plain, with a target that begins plain: TLS from here on. What was not written yet goes
 * by TLS; bytes that came in the clear and were not used are dropped, since they are of no one
 * that TLS has named. */
void byte_stream_secure(struct byte_stream *stream);

/* The peer has accepted us: connect_timeout_ms no longer counts. */
void byte_stream_greeted(struct byte_stream *stream);

/* "host:port", or the path; lives as long as the stream. */
const char *byte_stream_peer(const struct byte_stream *stream);

/* In any state; bytes go out once it is OPEN, in the next turn of the loop or by
 * byte_stream_flush(). Append to what byte_stream_out() returns, then say so. */
struct bytes *byte_stream_out(struct byte_stream *stream);
void byte_stream_note_appended(struct byte_stream *stream);
void byte_stream_send(struct byte_stream *stream, const void *data, size_t length); /* both */
void byte_stream_flush(struct byte_stream *stream); /* in any state */

/* OPEN, and the peer has neither said anything that was not read yet nor gone. Asks the system. */
bool byte_stream_is_silent(const struct byte_stream *stream);

/* So many bytes wait until the peer reads. */
size_t byte_stream_unwritten(const struct byte_stream *stream);
