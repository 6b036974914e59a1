/*
 * Payloads that are JSON are embedded byte for byte, never parsed and written anew: 1.0 stays 1.0,
 * and no member changes its place. Binary ones become base64, in a member whose name says so, as
 * CloudEvents have it.
 */
#include "sinks/http/http_message.h"

#include "base/alloc.h"
#include "base/bytes.h"
#include "config/config.h"
#include "sinks/format/cloudevents.h"
#include "sinks/format/event_json.h"
#include "sinks/format/event_time.h"
#include "sinks/http/http_batcher.h"
#include "sinks/http/http_headers.h"
#include "sinks/http/http_target.h"

#include <stdlib.h>
#include <string.h>
#define ZLIB_CONST
#include <zlib.h>

#define KEPT_BYTES 8192 /* of the lines, for the next request */

static bool is_cloudevent(const struct http_config *config)
{
        return config->body == HTTP_BODY_CLOUDEVENTS ||
               config->body == HTTP_BODY_CLOUDEVENTS_STRUCTURED;
}

static const char *type_of(const struct event *event)
{
        return event->type != NULL && event->type[0] != '\0' ? event->type : event->topic;
}

bool http_body_can_carry(
    const struct http_config *config, const struct event *event, struct outcome *out_rejected)
{
        struct event shown = *event;
        struct event_header *headers;
        bool can_carry;

        if (!is_cloudevent(config))
                return true;
        headers = http_headers_shown(config, event, &shown.n_headers);
        shown.headers = headers;
        can_carry = cloudevents_can_carry(&shown, out_rejected);
        free(headers);
        return can_carry;
}

/* As it is: then nothing has to be built. */
static bool body_is_payload(const struct http_config *config)
{
        return config->batch == NULL &&
               (config->body == HTTP_BODY_RAW || config->body == HTTP_BODY_CLOUDEVENTS);
}

static void append_member(struct bytes *out, const char *name, const char *value)
{
        if (value == NULL)
                return;
        bytes_printf(out, ",\"%s\":", name);
        event_json_append_text(out, value);
}

static void append_data(struct bytes *out, const struct event *event)
{
        if (event->is_json) {
                bytes_append_text(out, ",\"data\":");
                bytes_append(out, event->payload, event->payload_bytes);
        } else {
                bytes_append_text(out, ",\"data_base64\":");
                event_json_append_base64(out, event->payload, event->payload_bytes);
        }
        bytes_append_text(out, "}");
}

static void append_standard(struct bytes *out, const struct event *event, struct event_time *time)
{
        bytes_append_text(out, "{\"type\":");
        event_json_append_text(out, type_of(event));
        append_member(out, "timestamp", event_time_text(time, event->created_us));
        append_data(out, event);
}

/* In a batch there are no headers that could say the rest. */
static void append_standard_item(
    struct bytes *out, const struct event *event, struct event_time *time)
{
        bytes_append_text(out, "{\"id\":");
        event_json_append_text(out, event->event_id);
        append_member(out, "type", type_of(event));
        append_member(out, "timestamp", event_time_text(time, event->created_us));
        append_member(out, "topic", event->topic);
        append_member(out, "key", event->key);
        if (event->is_redriven)
                bytes_append_text(out, ",\"redriven\":true");
        append_data(out, event);
}

static void append_cloudevent(struct bytes *out, const struct http_config *config,
    const struct event *event, struct event_time *time)
{
        struct event shown = *event;
        struct event_header *headers = http_headers_shown(config, event, &shown.n_headers);

        shown.headers = headers;
        cloudevents_append_json(out, &shown, config->source, time);
        free(headers);
}

void http_body_append(
    const struct http_config *config, const struct event *event, struct bytes *out)
{
        struct event_time time = {0};

        switch (config->body) {
        case HTTP_BODY_RAW:
        case HTTP_BODY_CLOUDEVENTS:
                bytes_append(out, event->payload, event->payload_bytes);
                return;
        case HTTP_BODY_STANDARD:
                append_standard(out, event, &time);
                return;
        case HTTP_BODY_CLOUDEVENTS_STRUCTURED:
                append_cloudevent(out, config, event, &time);
                return;
        }
        abort();
}

void http_body_append_batch(const struct http_config *config, const struct event *const *events,
    size_t n_events, struct bytes *out)
{
        struct event_time time = {0};

        for (size_t i = 0; i < n_events; i++) {
                bytes_append_text(out, i == 0 ? "[" : ",\n");
                if (config->body == HTTP_BODY_CLOUDEVENTS_STRUCTURED)
                        append_cloudevent(out, config, events[i], &time);
                else
                        append_standard_item(out, events[i], &time);
        }
        bytes_append_text(out, "]");
}

/* Fast rather than small: this runs on the loop, where everything else waits for it. */
#define LEVEL       Z_BEST_SPEED
#define GZIP_FORMAT 16 /* added to the window's bits */

void http_gzip_append(struct bytes *out, const void *data, size_t length)
{
        unsigned char buffer[16384];
        z_stream stream = {0};
        int result;

        if (deflateInit2(&stream, LEVEL, Z_DEFLATED, MAX_WBITS + GZIP_FORMAT, MAX_MEM_LEVEL,
                Z_DEFAULT_STRATEGY) != Z_OK)
                out_of_memory();
        stream.next_in = data;
        stream.avail_in = (uInt)length; /* max_event_bytes and batch.bytes keep it below 4 GiB */
        do {
                stream.next_out = buffer;
                stream.avail_out = sizeof buffer;
                result = deflate(&stream, Z_FINISH);
                bytes_append(out, buffer, sizeof buffer - stream.avail_out);
        } while (result == Z_OK);
        deflateEnd(&stream);
}

static void adopt(struct http_message *message, struct bytes *built)
{
        bytes_deinit(&message->built);
        message->built = *built;
        message->body = built->length > 0 ? built->data : "";
        message->body_bytes = built->length;
}

static void make_body(struct http_message *message, const struct http_config *config,
    const struct event *const *events, size_t n_events)
{
        struct bytes built = {0};
        struct bytes compressed = {0};

        if (body_is_payload(config)) {
                message->body = events[0]->payload;
                message->body_bytes = events[0]->payload_bytes;
        } else {
                if (config->batch != NULL)
                        http_body_append_batch(config, events, n_events, &built);
                else
                        http_body_append(config, events[0], &built);
                adopt(message, &built);
        }
        if (config->gzip) {
                http_gzip_append(&compressed, message->body, message->body_bytes);
                adopt(message, &compressed);
        }
}

bool http_message_make(struct http_message *message, const struct http_config *config,
    const struct http_target *target, struct attempt *const *attempts, size_t n_attempts,
    int64_t now_s, struct outcome *out_rejected)
{
        const struct event **events = xcalloc(n_attempts, sizeof(struct event *));
        bool can_carry = true;
        char id[37];

        http_message_clear(message);
        for (size_t i = 0; i < n_attempts; i++) {
                events[i] = attempts[i]->event;
                can_carry = can_carry && http_body_can_carry(config, events[i], out_rejected);
        }
        if (can_carry) {
                make_body(message, config, events, n_attempts);
                http_batch_id(events, n_attempts, id);
                const struct http_request_head head = {.config = config,
                    .event = config->batch == NULL ? events[0] : NULL,
                    .id = id,
                    .fixed = target->fixed,
                    .signing = target->signing,
                    .now_s = now_s,
                    .body = message->body,
                    .body_bytes = message->body_bytes};
                can_carry = http_headers_append(&head, &message->lines, out_rejected);
        }
        free(events);
        return can_carry;
}

void http_message_clear(struct http_message *message)
{
        bytes_deinit(&message->built);
        if (message->lines.capacity > KEPT_BYTES)
                bytes_deinit(&message->lines);
        bytes_clear(&message->lines);
}

void http_message_deinit(struct http_message *message)
{
        bytes_deinit(&message->built);
        bytes_deinit(&message->lines);
}
