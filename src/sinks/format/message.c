/*
 * This runs once for each event, so what can point into the event does, and what cannot is written
 * to buffers that are used again. They may move while they grow: until all headers are there, a
 * place in `text` is known by its distance from the beginning.
 */
#include "sinks/format/message.h"

#include "base/alloc.h"
#include "base/bytes.h"
#include "base/error.h"
#include "base/utf8.h"
#include "config/config.h"
#include "sinks/format/cloudevents.h"
#include "sinks/format/debezium.h"
#include "sinks/format/event_time.h"
#include "sinks/format/percent.h"
#include "sinks/format/trace.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define KEPT_BYTES      65536
#define STRUCTURED_TYPE "application/cloudevents+json; charset=UTF-8"

enum own { OWN_CONTENT_TYPE, OWN_ID, OWN_TOPIC, OWN_KEY, OWN_TYPE, OWN_TIME, OWN_REDRIVEN, N_OWN };

/* Of a header: where its name and value stand in `text`, or NOWHERE. */
struct place {
        size_t name;
        size_t value;
};

#define NOWHERE ((size_t)-1)

struct message_maker {
        const struct message_config *config; /* borrowed */
        const struct message_style *style;   /* borrowed */
        char *own_names[N_OWN];              /* owned; NULL: no header in this format or style */
        size_t n_prefix;                     /* of CloudEvents' attributes; 0: other format */
        struct event_time time;
        struct bytes text; /* names and values that stand nowhere else, each with its NUL */
        struct bytes key;
        struct bytes body;
        struct message_header *headers; /* owned */
        struct place *places;           /* owned; one for each header */
        size_t n_headers;
        size_t n_allocated;

        /* The event at hand without headers that must not go along, if it has such. */
        struct event kept;
        struct event_header *kept_headers; /* owned */
        unsigned char *kept_types;         /* owned */
        size_t n_kept_allocated;
};

static void name_own(struct message_maker *maker, enum own own, const char *name)
{
        maker->own_names[own] = xasprintf("%s%s", maker->style->own_prefix, name);
}

static void name_native(struct message_maker *maker)
{
        if (maker->style->has_id)
                name_own(maker, OWN_ID, "id");
        name_own(maker, OWN_TOPIC, "topic");
        if (maker->style->has_key)
                name_own(maker, OWN_KEY, "key");
        if (maker->style->has_type)
                name_own(maker, OWN_TYPE, "type");
        name_own(maker, OWN_TIME, "time");
        name_own(maker, OWN_REDRIVEN, "redriven");
}

struct message_maker *message_maker_create(
    const struct message_config *config, const struct message_style *style)
{
        struct message_maker *maker = xcalloc(1, sizeof *maker);

        maker->config = config;
        maker->style = style;
        if (config->format == MESSAGE_NATIVE)
                name_native(maker);
        if (config->format == MESSAGE_CLOUDEVENTS)
                maker->n_prefix = strlen(style->cloudevent_prefix);
        if (style->content_type_header != NULL)
                maker->own_names[OWN_CONTENT_TYPE] = xstrdup(style->content_type_header);
        return maker;
}

void message_maker_destroy(struct message_maker *maker)
{
        if (maker == NULL)
                return;
        for (size_t i = 0; i < N_OWN; i++)
                free(maker->own_names[i]);
        bytes_deinit(&maker->text);
        bytes_deinit(&maker->key);
        bytes_deinit(&maker->body);
        free(maker->headers);
        free(maker->places);
        free(maker->kept_headers);
        free(maker->kept_types);
        free(maker);
}

/* Keeps the storage, unless it has become large. */
static void clear(struct bytes *bytes)
{
        if (bytes->capacity > KEPT_BYTES)
                bytes_deinit(bytes);
        bytes_clear(bytes);
}

static struct message_header *add_header(
    struct message_maker *maker, enum message_origin origin, const char *name)
{
        size_t i = maker->n_headers++;

        if (i == maker->n_allocated) {
                maker->n_allocated = i > 0 ? 2 * i : 16;
                maker->headers =
                    xrealloc(maker->headers, maker->n_allocated * sizeof *maker->headers);
                maker->places = xrealloc(maker->places, maker->n_allocated * sizeof *maker->places);
        }
        maker->headers[i] = (struct message_header){.name = name, .origin = origin};
        maker->places[i] = (struct place){NOWHERE, NOWHERE};
        return &maker->headers[i];
}

static struct message_header *add(struct message_maker *maker, enum message_origin origin,
    const char *name, const char *value, size_t length)
{
        struct message_header *header = add_header(maker, origin, name);

        header->value = value;
        header->value_bytes = length;
        return header;
}

/* The value of the header that was added last is what was appended to `text` since `at`. */
static void end_value(struct message_maker *maker, size_t at)
{
        maker->places[maker->n_headers - 1].value = at;
        maker->headers[maker->n_headers - 1].value_bytes = maker->text.length - at;
        bytes_append(&maker->text, "", 1);
}

/* Only now `text` stays where it is. */
static void settle_places(struct message_maker *maker)
{
        for (size_t i = 0; i < maker->n_headers; i++) {
                if (maker->places[i].name != NOWHERE)
                        maker->headers[i].name = maker->text.data + maker->places[i].name;
                if (maker->places[i].value != NOWHERE)
                        maker->headers[i].value = maker->text.data + maker->places[i].value;
        }
}

static struct message_header *add_own(
    struct message_maker *maker, enum own own, const char *value, size_t length)
{
        return add(maker, MESSAGE_OWN, maker->own_names[own], value, length);
}

static void add_content_type(struct message_maker *maker, const char *type)
{
        if (maker->own_names[OWN_CONTENT_TYPE] != NULL)
                add_own(maker, OWN_CONTENT_TYPE, type, strlen(type));
}

static void add_trace(struct message_maker *maker, const struct trace *trace)
{
        if (trace->parent != NULL)
                add(maker, MESSAGE_OF_EVENT, "traceparent", trace->parent, strlen(trace->parent));
        if (trace->state != NULL)
                add(maker, MESSAGE_OF_EVENT, "tracestate", trace->state, strlen(trace->state));
}

static bool goes_along(
    const struct message_maker *maker, const struct event_header *header, const struct trace *trace)
{
        if (trace_is_header(header->name))
                return header->value == trace->parent || header->value == trace->state;
        return maker->style->is_reserved == NULL || !maker->style->is_reserved(header->name);
}

static void grow_kept(struct message_maker *maker, size_t n)
{
        if (n <= maker->n_kept_allocated)
                return;
        maker->n_kept_allocated = 2 * n;
        maker->kept_headers =
            xrealloc(maker->kept_headers, maker->n_kept_allocated * sizeof *maker->kept_headers);
        maker->kept_types = xrealloc(maker->kept_types, maker->n_kept_allocated);
}

/* The event without the headers that stay here. Mostly that is the event itself. */
static const struct event *kept_event(
    struct message_maker *maker, const struct event *event, const struct trace *trace)
{
        size_t n = 0;

        while (n < event->n_headers && goes_along(maker, &event->headers[n], trace))
                n++;
        if (n == event->n_headers)
                return event;
        grow_kept(maker, event->n_headers);
        n = 0;
        for (size_t i = 0; i < event->n_headers; i++) {
                if (!goes_along(maker, &event->headers[i], trace))
                        continue;
                maker->kept_headers[n] = event->headers[i];
                maker->kept_types[n++] =
                    event->header_types != NULL ? event->header_types[i] : EVENT_HEADER_STRING;
        }
        maker->kept = *event;
        maker->kept.headers = maker->kept_headers;
        maker->kept.header_types = maker->kept_types;
        maker->kept.n_headers = n;
        return &maker->kept;
}

static bool is_ours(const struct message_maker *maker, const char *name)
{
        for (size_t i = 0; i < N_OWN; i++)
                if (maker->own_names[i] != NULL && strcasecmp(maker->own_names[i], name) == 0)
                        return true;
        return maker->n_prefix > 0 &&
               strncasecmp(maker->style->cloudevent_prefix, name, maker->n_prefix) == 0;
}

static void add_event_headers(
    struct message_maker *maker, const struct event *kept, const struct trace *trace)
{
        bool is_cloudevent = maker->config->format == MESSAGE_CLOUDEVENTS;

        for (size_t i = 0; i < kept->n_headers; i++) {
                const struct event_header *header = &kept->headers[i];

                if (!trace_is_header(header->name) && !is_ours(maker, header->name) &&
                    !(is_cloudevent && cloudevents_is_extension(header->name)))
                        add(maker, MESSAGE_OF_EVENT, header->name, header->value,
                            strlen(header->value));
        }
        add_trace(maker, trace);
}

/* False if it cannot be encoded. */
static bool add_own_text(
    struct message_maker *maker, enum own own, const char *value, struct outcome *out_rejected)
{
        size_t at = maker->text.length;

        if (maker->own_names[own] == NULL || value == NULL)
                return true;
        if (!maker->style->is_encoded) {
                add_own(maker, own, value, strlen(value));
                return true;
        }
        if (utf8_has_control(value)) {
                *out_rejected = outcome_make(OUTCOME_REJECTED,
                    "the value of header %s cannot be sent: it holds a line break or another "
                    "control character",
                    maker->own_names[own]);
                return false;
        }
        add_header(maker, MESSAGE_OWN, maker->own_names[own]);
        percent_append(&maker->text, value, false);
        end_value(maker, at);
        return true;
}

static bool add_native(struct message_maker *maker, const struct event *event,
    const struct trace *trace, struct outcome *out_rejected)
{
        const char *time = event_time_text(&maker->time, event->created_us);

        add_content_type(maker, cloudevents_data_type(event));
        if (maker->own_names[OWN_ID] != NULL)
                add_own(maker, OWN_ID, event->event_id, strlen(event->event_id));
        if (!add_own_text(maker, OWN_TOPIC, event->topic, out_rejected) ||
            !add_own_text(maker, OWN_KEY, event->key, out_rejected) ||
            !add_own_text(maker, OWN_TYPE, event->type, out_rejected))
                return false;
        add_own(maker, OWN_TIME, time, maker->time.length);
        if (event->is_redriven)
                add_own(maker, OWN_REDRIVEN, "true", 4)->is_boolean = true;
        add_event_headers(maker, event, trace);
        return true;
}

static void add_attribute(void *owner, const struct cloudevents_attribute *attribute)
{
        struct message_maker *maker = owner;
        size_t at = maker->text.length;
        struct message_header *header;

        if (strcmp(attribute->name, "datacontenttype") == 0 && !maker->style->has_datacontenttype)
                return;
        header = add(maker, MESSAGE_OF_CLOUDEVENT, NULL, attribute->value, 0);
        header->is_boolean = attribute->is_boolean;
        maker->places[maker->n_headers - 1].name = at;
        bytes_append(&maker->text, maker->style->cloudevent_prefix, maker->n_prefix);
        bytes_append(&maker->text, attribute->name, strlen(attribute->name) + 1);
        if (maker->style->is_encoded) {
                at = maker->text.length;
                percent_append(&maker->text, attribute->value, true);
                end_value(maker, at);
        } else {
                header->value_bytes = strlen(attribute->value);
        }
}

static void add_debezium_header(void *owner, const char *name, const char *value, size_t length)
{
        struct message_maker *maker = owner;
        size_t at = maker->text.length;

        add_header(maker, MESSAGE_OF_EVENT, name);
        bytes_append(&maker->text, value, length);
        end_value(maker, at);
}

static void take(const struct bytes *bytes, const char **out_data, size_t *out_length)
{
        *out_data = bytes->length > 0 ? bytes->data : "";
        *out_length = bytes->length;
}

static void make_debezium(
    struct message_maker *maker, const struct event *event, struct message *message)
{
        const struct debezium_config *debezium = &maker->config->debezium;

        message->key = NULL;
        message->key_bytes = 0;
        if (debezium_append_key(debezium, event, &maker->key))
                take(&maker->key, &message->key, &message->key_bytes);
        message->is_null = !debezium_append_value(debezium, event, &maker->body);
        take(&maker->body, &message->body, &message->body_bytes);
        message->content_type =
            debezium->value == DEBEZIUM_STRING ? cloudevents_data_type(event) : "application/json";
        debezium_each_header(debezium, event, add_debezium_header, maker);
}

static void make_structured(struct message_maker *maker, const struct event *event,
    const struct trace *trace, struct message *message)
{
        cloudevents_append_json(&maker->body, event, maker->config->source, &maker->time);
        take(&maker->body, &message->body, &message->body_bytes);
        message->content_type = STRUCTURED_TYPE;
        add_content_type(maker, STRUCTURED_TYPE);
        add_trace(maker, trace);
}

/* The headers of the event are those that are kept. */
static bool make_format(struct message_maker *maker, const struct event *event,
    const struct trace *trace, struct message *message, struct outcome *out_rejected)
{
        switch (maker->config->format) {
        case MESSAGE_NATIVE:
                return add_native(maker, event, trace, out_rejected);
        case MESSAGE_CLOUDEVENTS:
                if (!cloudevents_can_carry(event, out_rejected))
                        return false;
                add_content_type(maker, message->content_type);
                cloudevents_each_attribute(
                    event, maker->config->source, &maker->time, add_attribute, maker);
                add_event_headers(maker, event, trace);
                return true;
        case MESSAGE_CLOUDEVENTS_STRUCTURED:
                if (!cloudevents_can_carry(event, out_rejected))
                        return false;
                make_structured(maker, event, trace, message);
                return true;
        case MESSAGE_DEBEZIUM:
                make_debezium(maker, event, message);
                return true;
        }
        abort();
}

bool message_make(struct message_maker *maker, const struct event *event, struct message *out,
    struct outcome *out_rejected)
{
        struct message message = {.content_type = cloudevents_data_type(event),
            .body = event->payload != NULL ? event->payload : "",
            .body_bytes = event->payload_bytes,
            .key = event->key,
            .key_bytes = event->key != NULL ? strlen(event->key) : 0};
        const struct trace trace = trace_of(event);
        const struct event *kept = kept_event(maker, event, &trace);

        clear(&maker->text);
        clear(&maker->key);
        clear(&maker->body);
        maker->n_headers = 0;
        if (!make_format(maker, kept, &trace, &message, out_rejected))
                return false;
        settle_places(maker);
        message.headers = maker->headers;
        message.n_headers = maker->n_headers;
        *out = message;
        return true;
}
