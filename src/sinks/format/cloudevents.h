/*
 * An event as a CloudEvent 1.0, for all sinks that send them. Pure.
 *
 *   specversion      1.0
 *   id               the event_id, the same at every attempt
 *   source           as configured; source and id together are unique
 *   type             the event's; of one without, the topic
 *   subject          the key, if there is one that is not empty
 *   time             when it was published
 *   datacontenttype  application/json, or application/octet-stream
 *   partitionkey     the key again, as the Partitioning extension has it
 *   topic            the topic
 *   redriven         true, only if it was a dead letter
 *   and each event header whose name CloudEvents allows: 1 to 20 lower-case letters and digits,
 *   such as traceparent and tracestate (Distributed Tracing). It cannot replace one above.
 */
#pragma once

#include "pgcourier/event.h"
#include "pgcourier/outcome.h"

#include <stdbool.h>

struct bytes;
struct event_time;

struct cloudevents_attribute {
        const char *name;  /* a constant, or of the event */
        const char *value; /* of the event, the source or `time`: any UTF-8 without control
                            * characters; for a protocol's headers still to be encoded */
        bool is_boolean;   /* `value` is the word true: without quotes in JSON */
};

typedef void cloudevents_attribute_fn(void *owner, const struct cloudevents_attribute *attribute);

/* Whether a header of the event is an attribute, too. */
bool cloudevents_is_extension(const char *name);

/* False, with *out_rejected set, if a control character stands in what would be an attribute:
 * topic, key, type or a header. CloudEvents forbid it. To be asked before the functions below. */
bool cloudevents_can_carry(const struct event *event, struct outcome *out_rejected);

/* Calls `on_attribute` for each attribute of the event, in the order above; the attribute is
 * borrowed for the call. For modes in which the payload travels by itself (HTTP's binary mode). */
void cloudevents_each_attribute(const struct event *event, const char *source,
    struct event_time *time, cloudevents_attribute_fn *on_attribute, void *owner);

/* The type of the payload: datacontenttype. */
const char *cloudevents_data_type(const struct event *event);

/* Appends the event in structured mode, application/cloudevents+json: its attributes, then `data`
 * with the JSON as it was published, byte for byte, or `data_base64`. */
void cloudevents_append_json(
    struct bytes *out, const struct event *event, const char *source, struct event_time *time);
