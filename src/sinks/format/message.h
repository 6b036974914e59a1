/*
 * An event as a message of a broker: a body, what kind of bytes it is, a key, and headers. Made
 * once for NATS, RabbitMQ and Kafka, so that the same event says the same on each; the sinks only
 * encode it. Pure.
 *
 *   format                  body              headers
 *   native                  the payload       id, topic, key, type, time, redriven; the event's own
 *   cloudevents             the payload       the attributes of CloudEvents; the event's own
 *   cloudevents-structured  one JSON object   traceparent and tracestate
 *   debezium                Debezium's value  Debezium's: id, and the event's own
 *
 * Before them, except with debezium, comes the header for the content type if the style has one.
 *
 * The event's own headers go along as they are; numbers and booleans are texts. Those that the
 * style reserves are left out in every format. So is one with the name of one of ours, in upper or
 * lower case, even if this event does not have it (a key); and, with cloudevents, one that begins
 * like an attribute. With cloudevents, a header that can be an attribute (cloudevents.h) is one,
 * instead.
 *
 * A traceparent and tracestate that are valid (sinks/format/trace.h) go along by these names; with
 * cloudevents as attributes, too. Others are left out in every format.
 */
#pragma once

#include "pgcourier/event.h"
#include "pgcourier/outcome.h"

#include <stdbool.h>
#include <stddef.h>

struct message_config;
struct message_maker;

/* Where a header comes from. */
enum message_origin {
        MESSAGE_OF_EVENT,     /* one that was published with the event, or Debezium's of it */
        MESSAGE_OWN,          /* ours: content type, id, topic, key, type, time, redriven */
        MESSAGE_OF_CLOUDEVENT /* an attribute, even if it was published as a header */
};

/* Name and value are any UTF-8 without NUL, as they were published, unless the style has them
 * encoded: what its protocol forbids in them, the sink refuses. Both end with a NUL. */
struct message_header {
        const char *name; /* with the style's prefix */
        const char *value;
        size_t value_bytes;
        enum message_origin origin;
        bool is_boolean; /* the value is the word true */
};

/* How a broker spells it. Lives as long as the maker. */
struct message_style {
        const char *own_prefix;        /* before id, topic, key, type, time, redriven: "x-event-" */
        const char *cloudevent_prefix; /* before an attribute: "ce-" */

        /* The header that holds the content type: "content-type". NULL: the broker has a property
         * for it, and message->content_type alone says it. */
        const char *content_type_header;

        /* Native: which of ours become headers, beside topic, time and redriven. What a broker has
         * a property for, it leaves out. */
        bool has_id;
        bool has_key;
        bool has_type;

        /* CloudEvents: datacontenttype is an attribute like the others. False: the content type
         * says it. */
        bool has_datacontenttype;

        /* Topic, key, type and attributes are percent-encoded as in HTTP (percent.h); an event with
         * a control character in one is rejected. False: they are any UTF-8, as published. */
        bool is_encoded;

        /* An event's header that this broker would act on: it is left out. NULL: none. */
        bool (*is_reserved)(const char *name);
};

/* All of it is borrowed from the event and the maker, until the next message_make(). */
struct message {
        const char *content_type; /* a constant, of the body; with is_null of what it would be */
        const char *body;         /* never NULL */
        size_t body_bytes;
        bool is_null;    /* debezium: a tombstone; the body is empty */
        const char *key; /* the event's; debezium: as its converter writes it; NULL: none */
        size_t key_bytes;
        const struct message_header *headers;
        size_t n_headers;
};

/* Both are borrowed while it lives. */
struct message_maker *message_maker_create(
    const struct message_config *config, const struct message_style *style);
void message_maker_destroy(struct message_maker *maker); /* NULL is allowed */

/* False, with *out_rejected set and *out untouched, if the format cannot carry the event. */
bool message_make(struct message_maker *maker, const struct event *event, struct message *out,
    struct outcome *out_rejected);
