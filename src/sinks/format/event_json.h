/* The parts of an event as JSON values, for every sink that writes JSON. Pure. */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct bytes;

enum { EVENT_TIME_SIZE = 64 };

/* A string in its quotes. What is not UTF-8 becomes U+FFFD. */
void event_json_append_text(struct bytes *out, const char *text);

/* One control character, quote or backslash as it stands within a string. */
void event_json_append_escaped(struct bytes *out, char byte);

/* Base64 in quotes. */
void event_json_append_base64(struct bytes *out, const void *data, size_t length);

/* ISO 8601 (RFC 3339) in UTC to the microsecond: "2024-01-31T23:59:59.000001Z". */
void event_time_format(char text[EVENT_TIME_SIZE], int64_t wall_us);
