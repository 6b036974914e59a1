/*
 * NATS' client protocol: lines that end in CRLF, some with a payload behind them. Pure; it keeps
 * nothing between two calls, so it does not matter where the bytes were split.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct bytes;

/* What a server may send at most. Longer ones are NATS_MALFORMED. */
enum {
        NATS_MAX_LINE_BYTES = 4096,
        NATS_MAX_INFO_BYTES = 64 * 1024,
        NATS_MAX_MESSAGE_BYTES = 1024 * 1024
};

enum nats_frame_kind {
        NATS_INCOMPLETE, /* more has to come */
        NATS_INFO,       /* text: the JSON object */
        NATS_MESSAGE,
        NATS_PING,
        NATS_PONG,
        NATS_OK,
        NATS_ERROR,    /* text: what is wrong, without quotes */
        NATS_MALFORMED /* text: why, for people */
};

/* All of it is borrowed from the bytes that were read; nothing ends in NUL. */
struct nats_frame {
        enum nats_frame_kind kind;
        size_t size; /* bytes that were used; 0: INCOMPLETE and MALFORMED */
        const char *text;
        size_t text_bytes;

        /* MESSAGE */
        const char *subject;
        size_t subject_bytes;
        unsigned status; /* of the headers' first line; 0: none */
        const char *payload;
        size_t payload_bytes;
};

struct nats_frame nats_read(const char *data, size_t size);

/* PUB or, with headers, HPUB. `headers` begins with NATS/1.0 and ends with an empty line; 0 bytes:
 * none. */
struct nats_publication {
        const char *subject;
        size_t subject_bytes;
        const char *reply;
        size_t reply_bytes;
        const char *headers;
        size_t headers_bytes;
        const void *payload;
        size_t payload_bytes;
};

void nats_append_publication(struct bytes *out, const struct nats_publication *publication);

/* `subject` has no blanks. The number is sid, which messages then bear. */
void nats_append_subscription(struct bytes *out, const char *subject, unsigned sid);
void nats_append_ping(struct bytes *out);
void nats_append_pong(struct bytes *out);
