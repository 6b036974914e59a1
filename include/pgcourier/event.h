/*
 * One event as a sink sees it: a row of courier.outbox.
 *
 * Everything a `struct event` points at is borrowed: it stays valid and
 * unchanged until the attempt that carries the event is finished.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct event_header {
        const char *name;  /* never empty; any UTF-8 without NUL */
        const char *value; /* any UTF-8 without NUL: validate before it reaches a protocol */
};

/* What a header's value is in the JSON object that was published. */
enum event_header_type {
        EVENT_HEADER_STRING,
        EVENT_HEADER_NUMBER,
        EVENT_HEADER_BOOLEAN,
        EVENT_HEADER_NULL,
        EVENT_HEADER_STRUCTURE, /* an object or an array */
};

struct event {
        int64_t id;        /* courier.outbox.id: the order within one difference */
        char event_id[37]; /* uuid as text; the identity that receivers may use to deduplicate */
        const char *topic; /* never NULL, never empty */
        const char *key;   /* ordering key, or NULL */
        const char *type;  /* or NULL */
        const void
            *payload; /* the exact bytes that were published; NUL-terminated beyond its end */
        size_t payload_bytes; /* may be 0 for binary data, never for JSON */
        bool is_json;         /* published as JSON (`payload`) rather than as bytes (`data`) */
        int64_t created_us;   /* when it was inserted: microseconds since 1970-01-01 UTC */
        const struct event_header *headers;
        size_t n_headers;
        bool is_redriven; /* sent again by an operator: a dead letter, or a replay */
        int32_t source;   /* courier.attachment.id of the tap that made it; 0: it was published */
        const unsigned char *header_types; /* an enum event_header_type for each header; NULL: all
                                            * are strings */
};
