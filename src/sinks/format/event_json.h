/* The parts of an event as JSON values, and a whole event as a CloudEvent or as one line, for
 * all sinks that write JSON. Pure. */
#pragma once

#include "pgcourier/event.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct bytes;

enum { EVENT_TIME_SIZE = 64 };

/* A string in its quotes. What is not UTF-8 becomes U+FFFD. */
void event_json_append_text(struct bytes *out, const char *text);

/* Base64 in quotes. */
void event_json_append_base64(struct bytes *out, const void *data, size_t length);

/* ISO 8601 (RFC 3339) in UTC to the microsecond: "2024-01-31T23:59:59.000001Z". */
void event_time_format(char text[EVENT_TIME_SIZE], int64_t wall_us);

/*
 * An event as a CloudEvent 1.0.
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
struct cloudevents_attribute {
        const char *name;
        const char *value; /* any UTF-8; for a protocol's headers still to be encoded */
        bool is_boolean;   /* `value` is the word true: without quotes in JSON */
};

typedef void cloudevents_attribute_fn(void *owner, const struct cloudevents_attribute *attribute);

/* Calls `on_attribute` for each attribute of the event, in the order above; the attribute is
 * borrowed for the call. For modes in which the payload travels by itself (HTTP's binary mode). */
void cloudevents_each_attribute(const struct event *event, const char *source,
    cloudevents_attribute_fn *on_attribute, void *owner);

/* Appends the event in structured mode, application/cloudevents+json: its attributes, then `data`
 * with the JSON as it was published, byte for byte, or `data_base64`. */
void cloudevents_append_json(struct bytes *out, const struct event *event, const char *source);

/*
 * An event as one line of JSON (NDJSON).
 *
 *   {"id": event id, "topic": …, "key": … or null, "type": … or null,
 *    "time": "2026-11-20T10:00:00.123456Z"[, "redriven": true], "headers": {…},
 *    "payload": the JSON that was published | "data_base64": …}
 *
 * A payload on one line is embedded byte for byte: numbers keep their digits and members their
 * order. One on several lines loses its blanks, no more. Appends the line and its newline; without
 * content, headers and payload are left out.
 */
void event_json_append_line(struct bytes *out, const struct event *event, bool with_content);
