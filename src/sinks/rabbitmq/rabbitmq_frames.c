/*
 * Property flags and fields are in the order of the specification's basic class: content type,
 * content encoding, headers, delivery mode, priority, correlation id, reply to, expiration, message
 * id, timestamp, type, user id, app id.
 */
#include "sinks/rabbitmq/rabbitmq_frames.h"

#include "base/bytes.h"

#include <assert.h>
#include <string.h>

enum { FRAME_METHOD = 1, FRAME_HEADER = 2, FRAME_BODY = 3, FRAME_HEARTBEAT = 8, FRAME_END = 206 };
enum { FRAME_HEAD_BYTES = 7, CLASS_BASIC = 60 };

enum {
        HAS_CONTENT_TYPE = 1 << 15,
        HAS_CONTENT_ENCODING = 1 << 14,
        HAS_HEADERS = 1 << 13,
        HAS_DELIVERY_MODE = 1 << 12,
        HAS_PRIORITY = 1 << 11,
        HAS_CORRELATION_ID = 1 << 10,
        HAS_REPLY_TO = 1 << 9,
        HAS_EXPIRATION = 1 << 8,
        HAS_MESSAGE_ID = 1 << 7,
        HAS_TIMESTAMP = 1 << 6,
        HAS_TYPE = 1 << 5,
        HAS_APP_ID = 1 << 3
};

/* Reading. */

struct reader {
        const unsigned char *at;
        const unsigned char *end;
        bool is_short; /* something was asked for that is not there */
};

static const unsigned char *take(struct reader *reader, size_t n)
{
        const unsigned char *at = reader->at;

        if (reader->is_short || (size_t)(reader->end - at) < n) {
                reader->is_short = true;
                return NULL;
        }
        reader->at += n;
        return at;
}

static uint64_t take_number(struct reader *reader, size_t n_bytes)
{
        const unsigned char *at = take(reader, n_bytes);
        uint64_t value = 0;

        for (size_t i = 0; at != NULL && i < n_bytes; i++)
                value = value << 8 | at[i];
        return value;
}

static struct amqp_span take_text(struct reader *reader, size_t n_length_bytes)
{
        size_t length = (size_t)take_number(reader, n_length_bytes);
        const unsigned char *at = take(reader, length);

        return at != NULL ? (struct amqp_span){(const char *)at, length}
                          : (struct amqp_span){"", 0};
}

static struct amqp_span take_short(struct reader *reader)
{
        return take_text(reader, 1);
}

static struct amqp_span take_long(struct reader *reader) /* and tables */
{
        return take_text(reader, 4);
}

bool amqp_span_is(struct amqp_span span, const char *text)
{
        return span.length == strlen(text) && memcmp(span.text, text, span.length) == 0;
}

static size_t broken(struct amqp_news *news, const char *why)
{
        *news = (struct amqp_news){.kind = AMQP_BROKEN, .text = {why, strlen(why)}};
        return 0;
}

static void take_close(struct reader *reader, struct amqp_news *news)
{
        news->code = (uint16_t)take_number(reader, 2);
        news->text = take_short(reader);
        news->about = (uint32_t)take_number(reader, 4);
}

static void take_confirm(struct reader *reader, struct amqp_news *news)
{
        news->tag = take_number(reader, 8);
        news->is_multiple = (take_number(reader, 1) & 1) != 0;
}

static void take_start(struct reader *reader, struct amqp_news *news)
{
        (void)take_number(reader, 2); /* version 0-9 */
        (void)take_long(reader);      /* the server's properties */
        news->text = take_long(reader);
        (void)take_long(reader); /* locales */
}

static void take_tune(struct reader *reader, struct amqp_news *news)
{
        news->channel_max = (uint16_t)take_number(reader, 2);
        news->frame_max = (uint32_t)take_number(reader, 4);
        news->heartbeat_s = (uint16_t)take_number(reader, 2);
}

/* The message itself follows: a header, then the body. */
static void take_return(struct amqp_input *input, struct reader *reader, struct amqp_news *news)
{
        struct amqp_span text;

        input->code = (uint16_t)take_number(reader, 2);
        text = take_short(reader);
        (void)take_short(reader); /* exchange */
        (void)take_short(reader); /* routing key */
        memcpy(input->text, text.text, text.length);
        input->text_bytes = (uint8_t)text.length;
        input->awaits_header = true;
        news->kind = AMQP_NOTHING;
}

static void take_fields(struct amqp_input *input, struct reader *reader, struct amqp_news *news)
{
        switch (news->method) {
        case AMQP_START:
                take_start(reader, news);
                break;
        case AMQP_TUNE:
                take_tune(reader, news);
                break;
        case AMQP_CLOSE:
        case AMQP_CHANNEL_CLOSE:
                take_close(reader, news);
                break;
        case AMQP_BLOCKED:
                news->text = take_short(reader);
                break;
        case AMQP_ACK:
        case AMQP_NACK:
                take_confirm(reader, news);
                break;
        case AMQP_RETURN:
                take_return(input, reader, news);
                break;
        default: /* of the others nothing is of interest */
                break;
        }
}

static void take_properties(struct reader *reader, struct amqp_news *news)
{
        uint16_t flags = (uint16_t)take_number(reader, 2);

        if ((flags & HAS_CONTENT_TYPE) != 0)
                (void)take_short(reader);
        if ((flags & HAS_CONTENT_ENCODING) != 0)
                (void)take_short(reader);
        if ((flags & HAS_HEADERS) != 0)
                (void)take_long(reader);
        if ((flags & HAS_DELIVERY_MODE) != 0)
                (void)take(reader, 1);
        if ((flags & HAS_PRIORITY) != 0)
                (void)take(reader, 1);
        if ((flags & HAS_CORRELATION_ID) != 0)
                (void)take_short(reader);
        if ((flags & HAS_REPLY_TO) != 0)
                (void)take_short(reader);
        if ((flags & HAS_EXPIRATION) != 0)
                (void)take_short(reader);
        if ((flags & HAS_MESSAGE_ID) != 0)
                news->message_id = take_short(reader);
}

static void take_header(struct amqp_input *input, struct reader *reader, struct amqp_news *news)
{
        (void)take_number(reader, 4); /* class and weight */
        input->body_left = take_number(reader, 8);
        take_properties(reader, news);
        input->awaits_header = false;
        news->kind = AMQP_RETURNED;
        news->code = input->code;
        news->text = (struct amqp_span){input->text, input->text_bytes};
}

/* False: it may not come here, or not from this channel. */
static bool take_payload(struct amqp_input *input, unsigned type, unsigned channel,
    struct reader *reader, struct amqp_news *news)
{
        bool is_between = input->awaits_header || input->body_left > 0;
        size_t size = (size_t)(reader->end - reader->at);

        switch (type) {
        case FRAME_METHOD:
                news->kind = AMQP_METHOD;
                news->method = (uint32_t)take_number(reader, 4);
                take_fields(input, reader, news);
                /* Connection methods have channel 0, which none of a message comes from. */
                return (news->method >> 16 == 10) == (channel == 0) &&
                       (channel == 0 || !is_between);
        case FRAME_HEADER:
                if (channel == 0 || !input->awaits_header)
                        return false;
                take_header(input, reader, news);
                return true;
        case FRAME_BODY:
                if (channel == 0 || input->awaits_header || size > input->body_left)
                        return false;
                input->body_left -= size;
                return true;
        case FRAME_HEARTBEAT:
                return channel == 0;
        default:
                return false;
        }
}

size_t amqp_take(
    struct amqp_input *input, const char *data, size_t size, struct amqp_news *out_news)
{
        struct reader head = {
            (const unsigned char *)data, (const unsigned char *)data + size, false};
        struct reader reader;
        unsigned type, channel;
        size_t payload;
        bool is_in_place;

        *out_news = (struct amqp_news){.kind = AMQP_MORE};
        if (size > 0 && *head.at == 'A')
                return broken(out_news, "it speaks another version of AMQP, or another protocol");
        if (size < FRAME_HEAD_BYTES)
                return 0;
        type = (unsigned)take_number(&head, 1);
        channel = (unsigned)take_number(&head, 2);
        payload = (size_t)take_number(&head, 4);
        if (payload > input->frame_max - AMQP_FRAME_EXTRA)
                return broken(out_news, "a frame is larger than agreed on");
        if (channel > AMQP_CHANNEL)
                return broken(out_news, "a frame is of a channel that is not open");
        if (size < payload + AMQP_FRAME_EXTRA)
                return 0;
        if (head.at[payload] != FRAME_END)
                return broken(out_news, "a frame does not end where it says");
        reader = (struct reader){head.at, head.at + payload, false};
        out_news->kind = AMQP_NOTHING;
        is_in_place = take_payload(input, type, channel, &reader, out_news);
        if (reader.is_short)
                return broken(out_news, "a frame ends within a field");
        if (!is_in_place)
                return broken(out_news, "a frame comes where it may not");
        return payload + AMQP_FRAME_EXTRA;
}

/* Writing. */

static void put_number(struct bytes *out, uint64_t value, size_t n_bytes)
{
        char *at = bytes_reserve(out, n_bytes);

        for (size_t i = n_bytes; i > 0; i--, value >>= 8)
                at[i - 1] = (char)(unsigned char)value;
        at[n_bytes] = '\0';
        out->length += n_bytes;
}

void amqp_put_8(struct bytes *out, uint8_t value)
{
        put_number(out, value, 1);
}

void amqp_put_16(struct bytes *out, uint16_t value)
{
        put_number(out, value, 2);
}

void amqp_put_32(struct bytes *out, uint32_t value)
{
        put_number(out, value, 4);
}

void amqp_put_64(struct bytes *out, uint64_t value)
{
        put_number(out, value, 8);
}

static void put_short_span(struct bytes *out, const char *text, size_t length)
{
        assert(length <= AMQP_SHORT_MAX);
        amqp_put_8(out, (uint8_t)length);
        bytes_append(out, text, length);
}

void amqp_put_short(struct bytes *out, const char *text)
{
        put_short_span(out, text, strlen(text));
}

void amqp_put_long(struct bytes *out, const void *data, size_t length)
{
        assert(length <= UINT32_MAX);
        amqp_put_32(out, (uint32_t)length);
        bytes_append(out, data, length);
}

/* The length at `place` becomes that of what follows it. */
static void set_length(struct bytes *out, size_t place)
{
        size_t length = out->length - place - 4;

        assert(length <= UINT32_MAX);
        for (size_t i = 0; i < 4; i++)
                out->data[place + i] = (char)(unsigned char)(length >> (24 - 8 * i));
}

static size_t begin_frame(struct bytes *out, uint8_t type, uint16_t channel)
{
        size_t frame = out->length;

        amqp_put_8(out, type);
        amqp_put_16(out, channel);
        amqp_put_32(out, 0);
        return frame;
}

size_t amqp_begin_method(struct bytes *out, uint16_t channel, enum amqp_method method)
{
        size_t frame = begin_frame(out, FRAME_METHOD, channel);

        amqp_put_32(out, (uint32_t)method);
        return frame;
}

void amqp_end_frame(struct bytes *out, size_t frame)
{
        set_length(out, frame + 3);
        amqp_put_8(out, FRAME_END);
}

void amqp_put_empty_method(struct bytes *out, uint16_t channel, enum amqp_method method)
{
        amqp_end_frame(out, amqp_begin_method(out, channel, method));
}

void amqp_put_heartbeat(struct bytes *out)
{
        amqp_end_frame(out, begin_frame(out, FRAME_HEARTBEAT, 0));
}

size_t amqp_begin_table(struct bytes *out)
{
        size_t table = out->length;

        amqp_put_32(out, 0);
        return table;
}

void amqp_end_table(struct bytes *out, size_t table)
{
        set_length(out, table);
}

void amqp_put_entry_text(struct bytes *out, const char *name, const char *value, size_t length)
{
        amqp_put_short(out, name);
        amqp_put_8(out, 'S');
        amqp_put_long(out, value, length);
}

void amqp_put_entry_true(struct bytes *out, const char *name)
{
        amqp_put_short(out, name);
        amqp_put_8(out, 't');
        amqp_put_8(out, 1);
}

size_t amqp_begin_entry_table(struct bytes *out, const char *name)
{
        amqp_put_short(out, name);
        amqp_put_8(out, 'F');
        return amqp_begin_table(out);
}

static uint16_t property_flags(const struct amqp_publish *publish)
{
        return (uint16_t)(HAS_HEADERS | HAS_DELIVERY_MODE | HAS_MESSAGE_ID |
                          (publish->content_type != NULL ? HAS_CONTENT_TYPE : 0) |
                          (publish->priority != 0 ? HAS_PRIORITY : 0) |
                          (publish->expiration != NULL ? HAS_EXPIRATION : 0) |
                          (publish->timestamp_s >= 0 ? HAS_TIMESTAMP : 0) |
                          (publish->type != NULL ? HAS_TYPE : 0) |
                          (publish->app_id != NULL ? HAS_APP_ID : 0));
}

struct amqp_message_places amqp_publish_begin(struct bytes *out, const struct amqp_publish *publish)
{
        struct amqp_message_places places = {.start = out->length};
        size_t method = amqp_begin_method(out, AMQP_CHANNEL, AMQP_PUBLISH);

        amqp_put_16(out, 0);
        amqp_put_short(out, publish->exchange);
        put_short_span(out, publish->routing_key->data, publish->routing_key->length);
        amqp_put_8(out, publish->is_mandatory ? 1 : 0);
        amqp_end_frame(out, method);

        places.header = begin_frame(out, FRAME_HEADER, AMQP_CHANNEL);
        amqp_put_16(out, CLASS_BASIC);
        amqp_put_16(out, 0);
        amqp_put_64(out, publish->body_bytes);
        amqp_put_16(out, property_flags(publish));
        if (publish->content_type != NULL)
                amqp_put_short(out, publish->content_type);
        places.table = amqp_begin_table(out);
        return places;
}

static void put_body(struct bytes *out, const struct amqp_publish *publish, size_t max_bytes)
{
        for (size_t at = 0, n; at < publish->body_bytes; at += n) {
                size_t frame = begin_frame(out, FRAME_BODY, AMQP_CHANNEL);
                n = publish->body_bytes - at;
                if (n > max_bytes)
                        n = max_bytes;
                bytes_append(out, publish->body + at, n);
                amqp_end_frame(out, frame);
        }
}

bool amqp_publish_end(struct bytes *out, const struct amqp_publish *publish,
    const struct amqp_message_places *places, uint32_t frame_max)
{
        amqp_end_table(out, places->table);
        amqp_put_8(out, publish->delivery_mode);
        if (publish->priority != 0)
                amqp_put_8(out, publish->priority);
        if (publish->expiration != NULL)
                amqp_put_short(out, publish->expiration);
        amqp_put_short(out, publish->message_id);
        if (publish->timestamp_s >= 0)
                amqp_put_64(out, (uint64_t)publish->timestamp_s);
        if (publish->type != NULL)
                amqp_put_short(out, publish->type);
        if (publish->app_id != NULL)
                amqp_put_short(out, publish->app_id);
        amqp_end_frame(out, places->header);
        if (out->length - places->header > frame_max) {
                out->length = places->start;
                out->data[out->length] = '\0';
                return false;
        }
        put_body(out, publish, frame_max - AMQP_FRAME_EXTRA);
        return true;
}
