/* The time of an event as text, without printf for each: the second that most neighbouring events
 * share is formatted once. Pure. */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* All zero: none yet. */
struct event_time {
        char text[64];
        size_t length;
        int64_t second; /* the one that `text` shows */
};

/* ISO 8601 (RFC 3339) in UTC to the microsecond: "2024-01-31T23:59:59.000001Z". Returns time->text,
 * which is as long as time->length says. */
const char *event_time_text(struct event_time *time, int64_t wall_us);
