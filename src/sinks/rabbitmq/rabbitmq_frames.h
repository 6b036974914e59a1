/*
 * AMQP 0-9-1 as bytes: frames, methods, properties and tables, both ways. Pure.
 *
 * What a server sends is cut into frames that may not be larger than agreed on; of each frame only
 * those fields are read that the sink asks for. Tables are skipped by their length, so no nesting
 * of them costs anything, and nothing is allocated. A text is a span of the bytes that were given.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct bytes;

enum {
        AMQP_FRAME_MIN = 4096,       /* what each side must accept */
        AMQP_FRAME_MAX = 128 * 1024, /* what we accept, and RabbitMQ's default */
        AMQP_FRAME_EXTRA = 8,        /* of a frame that are not its payload */
        AMQP_SHORT_MAX = 255,
        AMQP_HEADER_NAME_MAX = 128,
        AMQP_CHANNEL = 1, /* the only one */
};

/* class << 16 | method */
enum amqp_method {
        AMQP_START = 10 << 16 | 10,
        AMQP_START_OK = 10 << 16 | 11,
        AMQP_TUNE = 10 << 16 | 30,
        AMQP_TUNE_OK = 10 << 16 | 31,
        AMQP_OPEN = 10 << 16 | 40,
        AMQP_OPEN_OK = 10 << 16 | 41,
        AMQP_CLOSE = 10 << 16 | 50,
        AMQP_CLOSE_OK = 10 << 16 | 51,
        AMQP_BLOCKED = 10 << 16 | 60,
        AMQP_UNBLOCKED = 10 << 16 | 61,
        AMQP_CHANNEL_OPEN = 20 << 16 | 10,
        AMQP_CHANNEL_OPEN_OK = 20 << 16 | 11,
        AMQP_CHANNEL_CLOSE = 20 << 16 | 40,
        AMQP_CHANNEL_CLOSE_OK = 20 << 16 | 41,
        AMQP_EXCHANGE_DECLARE = 40 << 16 | 10,
        AMQP_EXCHANGE_DECLARE_OK = 40 << 16 | 11,
        AMQP_QUEUE_DECLARE = 50 << 16 | 10,
        AMQP_QUEUE_DECLARE_OK = 50 << 16 | 11,
        AMQP_QUEUE_BIND = 50 << 16 | 20,
        AMQP_QUEUE_BIND_OK = 50 << 16 | 21,
        AMQP_PUBLISH = 60 << 16 | 40,
        AMQP_RETURN = 60 << 16 | 50,
        AMQP_ACK = 60 << 16 | 80,
        AMQP_NACK = 60 << 16 | 120,
        AMQP_CONFIRM_SELECT = 85 << 16 | 10,
        AMQP_CONFIRM_SELECT_OK = 85 << 16 | 11,
};

struct amqp_span {
        const char *text;
        size_t length;
};

bool amqp_span_is(struct amqp_span span, const char *text);

/* What has come. */
struct amqp_news {
        enum {
                AMQP_MORE,     /* the frame is not complete yet */
                AMQP_NOTHING,  /* a heartbeat, or a part of a message that came back */
                AMQP_METHOD,   /* `method` and its fields */
                AMQP_RETURNED, /* a message came back: code, text, message_id */
                AMQP_BROKEN    /* no AMQP: `text` says why */
        } kind;
        uint32_t method;
        struct amqp_span text;       /* close, blocked: why; start: the mechanisms of logging in */
        uint16_t code;               /* close, returned */
        uint32_t about;              /* close: the method that failed; 0: none */
        uint64_t tag;                /* ack, nack */
        bool is_multiple;            /* ack, nack: all up to it */
        uint32_t frame_max;          /* tune; 0: any */
        uint16_t channel_max;        /* tune; 0: any */
        uint16_t heartbeat_s;        /* tune; 0: none */
        struct amqp_span message_id; /* of what came back; may be empty */
};

/* Of one connection; begins zeroed, but for frame_max. */
struct amqp_input {
        uint32_t frame_max; /* the largest frame that is accepted, all of it */
        bool awaits_header; /* of a message that comes back */
        uint64_t body_left; /* of it */
        uint16_t code;      /* of its return */
        char text[AMQP_SHORT_MAX];
        uint8_t text_bytes;
};

/* Reads one frame at the beginning of `data`. Returns how many bytes it had; 0: MORE or BROKEN. */
size_t amqp_take(
    struct amqp_input *input, const char *data, size_t size, struct amqp_news *out_news);

/* Writing: a frame is opened, filled and ended. Integers are big-endian. */
size_t amqp_begin_method(struct bytes *out, uint16_t channel, enum amqp_method method);
void amqp_end_frame(struct bytes *out, size_t frame); /* `frame` is what the former returned */
void amqp_put_8(struct bytes *out, uint8_t value);
void amqp_put_16(struct bytes *out, uint16_t value);
void amqp_put_32(struct bytes *out, uint32_t value);
void amqp_put_64(struct bytes *out, uint64_t value);
void amqp_put_short(struct bytes *out, const char *text); /* at most AMQP_SHORT_MAX bytes */
void amqp_put_long(struct bytes *out, const void *data, size_t length);

size_t amqp_begin_table(struct bytes *out);
void amqp_end_table(struct bytes *out, size_t table);
void amqp_put_entry_text(struct bytes *out, const char *name, const char *value, size_t length);
void amqp_put_entry_true(struct bytes *out, const char *name);
size_t amqp_begin_entry_table(struct bytes *out, const char *name); /* amqp_end_table() ends it */

void amqp_put_empty_method(struct bytes *out, uint16_t channel, enum amqp_method method);
void amqp_put_heartbeat(struct bytes *out);

/* The three kinds of frames of one message. */
struct amqp_publish {
        const char *exchange;
        const struct bytes *routing_key;
        bool is_mandatory;
        const char *content_type; /* NULL: none */
        uint8_t delivery_mode;
        uint8_t priority;       /* 0: none */
        const char *expiration; /* NULL: none */
        const char *message_id;
        int64_t timestamp_s; /* negative: none */
        const char *type;    /* NULL: none */
        const char *app_id;  /* NULL: none */
        const char *body;
        size_t body_bytes;
};

/* Method and header, up to and without the table of headers; the caller fills that, then calls
 * amqp_publish_end(). All short texts have at most AMQP_SHORT_MAX bytes. */
struct amqp_message_places {
        size_t start; /* of all of it */
        size_t header;
        size_t table;
};
struct amqp_message_places amqp_publish_begin(
    struct bytes *out, const struct amqp_publish *publish);

/* False, with everything since amqp_publish_begin() taken back, if the header does not fit into a
 * frame of that size. */
bool amqp_publish_end(struct bytes *out, const struct amqp_publish *publish,
    const struct amqp_message_places *places, uint32_t frame_max);
