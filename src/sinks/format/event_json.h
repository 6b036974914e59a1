/* The parts of an event as JSON values, and a whole event as one line, for all sinks that write
 * JSON. Pure. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct bytes;
struct event;
struct event_time;

/* A string in its quotes. What is not UTF-8 becomes U+FFFD. */
void event_json_append_text(struct bytes *out, const char *text);

/* Base64 in quotes. */
void event_json_append_base64(struct bytes *out, const void *data, size_t length);

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
void event_json_append_line(
    struct bytes *out, const struct event *event, struct event_time *time, bool with_content);
