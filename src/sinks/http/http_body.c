/*
 * Payloads that are JSON are embedded byte for byte, never parsed and written
 * anew: 1.0 stays 1.0, and no member changes its place. Binary ones become
 * base64, in a member whose name says so, as CloudEvents have it.
 */
#include "sinks/http/http_body.h"

#include "base/bytes.h"
#include "sinks/format/cloudevents.h"
#include "sinks/format/event_json.h"
#include "sinks/http/http_headers.h"

#include <stdlib.h>
#include <string.h>

static bool is_cloudevent(const struct http_config *config)
{
        return config->body == HTTP_BODY_CLOUDEVENTS ||
               config->body == HTTP_BODY_CLOUDEVENTS_STRUCTURED;
}

static const char *type_of(const struct event *event)
{
        return event->type != NULL && event->type[0] != '\0' ? event->type : event->topic;
}

/* The specification forbids them in every attribute. */
static bool has_control(const char *text)
{
        for (; text != NULL && *text != '\0'; text++)
                if ((unsigned char)*text < ' ' || *text == '\x7f')
                        return true;
        return false;
}

bool http_body_can_carry(
    const struct http_config *config, const struct event *event, struct outcome *out_rejected)
{
        const char *attribute = has_control(event->topic)  ? "topic"
                                : has_control(event->key)  ? "key"
                                : has_control(event->type) ? "type"
                                                           : NULL;

        if (!is_cloudevent(config) || attribute == NULL)
                return true;
        *out_rejected = outcome_make(OUTCOME_REJECTED,
            "the event's %s holds a line break or another control character, which CloudEvents "
            "forbid",
            attribute);
        return false;
}

bool http_body_is_payload(const struct http_config *config)
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

static void append_time(struct bytes *out, const char *name, int64_t wall_us)
{
        char text[EVENT_TIME_SIZE];

        event_time_format(text, wall_us);
        bytes_printf(out, ",\"%s\":\"%s\"", name, text);
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

static void append_standard(struct bytes *out, const struct event *event)
{
        bytes_append_text(out, "{\"type\":");
        event_json_append_text(out, type_of(event));
        append_time(out, "timestamp", event->created_us);
        append_data(out, event);
}

/* In a batch there are no headers that could say the rest. */
static void append_standard_item(struct bytes *out, const struct event *event)
{
        bytes_append_text(out, "{\"id\":");
        event_json_append_text(out, event->event_id);
        append_member(out, "type", type_of(event));
        append_time(out, "timestamp", event->created_us);
        append_member(out, "topic", event->topic);
        append_member(out, "key", event->key);
        if (event->is_redriven)
                bytes_append_text(out, ",\"redriven\":true");
        append_data(out, event);
}

static void append_cloudevent(
    struct bytes *out, const struct http_config *config, const struct event *event)
{
        struct event shown = *event;
        struct event_header *headers = http_headers_shown(config, event, &shown.n_headers);

        shown.headers = headers;
        cloudevents_append_json(out, &shown, config->source);
        free(headers);
}

void http_body_append(
    const struct http_config *config, const struct event *event, struct bytes *out)
{
        switch (config->body) {
        case HTTP_BODY_RAW:
        case HTTP_BODY_CLOUDEVENTS:
                bytes_append(out, event->payload, event->payload_bytes);
                return;
        case HTTP_BODY_STANDARD:
                append_standard(out, event);
                return;
        case HTTP_BODY_CLOUDEVENTS_STRUCTURED:
                append_cloudevent(out, config, event);
                return;
        }
        abort();
}

void http_body_append_batch(const struct http_config *config, const struct event *const *events,
    size_t n_events, struct bytes *out)
{
        for (size_t i = 0; i < n_events; i++) {
                bytes_append_text(out, i == 0 ? "[" : ",\n");
                if (config->body == HTTP_BODY_CLOUDEVENTS_STRUCTURED)
                        append_cloudevent(out, config, events[i]);
                else
                        append_standard_item(out, events[i]);
        }
        bytes_append_text(out, "]");
}

const char *http_body_content_type(const struct http_config *config, const struct event *event)
{
        if (config->body == HTTP_BODY_CLOUDEVENTS_STRUCTURED)
                return event != NULL ? "application/cloudevents+json"
                                     : "application/cloudevents-batch+json";
        if (event == NULL || config->body == HTTP_BODY_STANDARD || event->is_json)
                return "application/json";
        return "application/octet-stream";
}
