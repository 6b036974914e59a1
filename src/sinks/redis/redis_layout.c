/* This runs once for each event, so the native layout goes without printf. */
#include "sinks/redis/redis_layout.h"

#include "base/alloc.h"
#include "base/bytes.h"
#include "config/config.h"
#include "pgcourier/event.h"
#include "sinks/format/cloudevents.h"
#include "sinks/format/debezium.h"
#include "sinks/format/event_time.h"
#include "sinks/redis/resp_write.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

struct redis_layout {
        const struct redis_config *config; /* borrowed */
        struct bytes json;                 /* or other text of the event at hand */
        struct event_time time;
};

struct redis_layout *redis_layout_create(const struct redis_config *config)
{
        struct redis_layout *layout = xcalloc(1, sizeof *layout);

        layout->config = config;
        return layout;
}

void redis_layout_destroy(struct redis_layout *layout)
{
        if (layout == NULL)
                return;
        bytes_deinit(&layout->json);
        free(layout);
}

static void append_header(struct bytes *out, const struct event_header *header)
{
        static const char prefix[] = "header:";
        size_t length = strlen(header->name);

        redis_append_count(out, '$', sizeof prefix - 1 + length);
        bytes_append(out, prefix, sizeof prefix - 1);
        bytes_append(out, header->name, length);
        bytes_append(out, "\r\n", 2);
        redis_append_text(out, header->value);
}

static void append_native(struct redis_layout *layout, const struct event *event, struct bytes *out)
{
        REDIS_APPEND_FIELD(out, 2, "id", event->event_id, strlen(event->event_id));
        REDIS_APPEND_FIELD(out, 5, "topic", event->topic, strlen(event->topic));
        if (event->key != NULL)
                REDIS_APPEND_FIELD(out, 3, "key", event->key, strlen(event->key));
        if (event->type != NULL)
                REDIS_APPEND_FIELD(out, 4, "type", event->type, strlen(event->type));
        event_time_text(&layout->time, event->created_us);
        REDIS_APPEND_FIELD(out, 4, "time", layout->time.text, layout->time.length);
        REDIS_APPEND_FIELD(out, 7, "payload", event->payload, event->payload_bytes);
        for (size_t i = 0; i < event->n_headers; i++)
                append_header(out, &event->headers[i]);
        if (event->is_redriven) {
                REDIS_APPEND_WORD(out, 8, "redriven");
                REDIS_APPEND_WORD(out, 1, "1");
        }
}

void redis_layout_append_message(
    struct redis_layout *layout, const struct event *event, struct bytes *out)
{
        switch (layout->config->format) {
        case FORMAT_NATIVE:
                redis_append_word(out, event->payload, event->payload_bytes);
                return;
        case FORMAT_CLOUDEVENTS:
                bytes_clear(&layout->json);
                cloudevents_append_json(
                    &layout->json, event, layout->config->source, &layout->time);
                redis_append_word(out, layout->json.data, layout->json.length);
                return;
        }
        abort();
}

/* What goes where Debezium has the value. */
static void append_value(struct redis_layout *layout, const struct event *event, struct bytes *out)
{
        const struct debezium_config *debezium = &layout->config->debezium;

        if (layout->config->format == FORMAT_CLOUDEVENTS) {
                redis_layout_append_message(layout, event, out);
                return;
        }
        bytes_clear(&layout->json);
        if (debezium_append_value(debezium, event, &layout->json))
                redis_append_word(out, layout->json.data, layout->json.length);
        else
                redis_append_text(out, debezium->null_value);
}

static void append_key(struct redis_layout *layout, const struct event *event, struct bytes *out)
{
        const struct debezium_config *debezium = &layout->config->debezium;

        bytes_clear(&layout->json);
        if (debezium_append_key(debezium, event, &layout->json))
                redis_append_word(out, layout->json.data, layout->json.length);
        else
                redis_append_text(out, debezium->null_key);
}

static void append_debezium_header(void *owner, const char *name, const char *value, size_t length)
{
        struct bytes *out = owner;
        size_t n_name = strlen(name);

        redis_append_count(out, '$', n_name);
        for (size_t i = 0; i < n_name; i++) {
                char byte =
                    name[i] >= 'a' && name[i] <= 'z' ? (char)(name[i] - 'a' + 'A') : name[i];
                bytes_append(out, &byte, 1);
        }
        bytes_append(out, "\r\n", 2);
        redis_append_word(out, value, length);
}

static void append_extended(
    struct redis_layout *layout, const struct event *event, struct bytes *out)
{
        REDIS_APPEND_WORD(out, 3, "key");
        append_key(layout, event, out);
        REDIS_APPEND_WORD(out, 5, "value");
        append_value(layout, event, out);
        debezium_each_header(&layout->config->debezium, event, append_debezium_header, out);
}

static size_t n_native_fields(const struct redis_layout *layout, const struct event *event)
{
        if (layout->config->format == FORMAT_CLOUDEVENTS)
                return 1;
        return 4 + (event->key != NULL) + (event->type != NULL) + event->n_headers +
               event->is_redriven;
}

size_t redis_layout_n_words(const struct redis_layout *layout, const struct event *event)
{
        switch (layout->config->layout) {
        case LAYOUT_NATIVE:
                return 2 * n_native_fields(layout, event);
        case LAYOUT_DEBEZIUM_EXTENDED:
                return 2 * (2 + debezium_n_headers(&layout->config->debezium, event));
        case LAYOUT_DEBEZIUM_COMPACT:
                return 2;
        }
        abort();
}

void redis_layout_append_fields(
    struct redis_layout *layout, const struct event *event, struct bytes *out)
{
        switch (layout->config->layout) {
        case LAYOUT_NATIVE:
                if (layout->config->format == FORMAT_NATIVE) {
                        append_native(layout, event, out);
                        return;
                }
                REDIS_APPEND_WORD(out, 4, "data");
                redis_layout_append_message(layout, event, out);
                return;
        case LAYOUT_DEBEZIUM_EXTENDED:
                append_extended(layout, event, out);
                return;
        case LAYOUT_DEBEZIUM_COMPACT:
                append_key(layout, event, out);
                append_value(layout, event, out);
                return;
        }
}
