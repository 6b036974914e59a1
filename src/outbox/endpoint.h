/*
 * The receivers of a sink that fans out: rows of courier.endpoint, and the table as the relay
 * follows it.
 */
#pragma once

#include "outbox/outbox.h"
#include "outbox/routing.h"
#include "pgcourier/event.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum endpoint_state { ENDPOINT_ACTIVE, ENDPOINT_PAUSED, ENDPOINT_DISABLED };

struct endpoint {
        int32_t id; /* also the number of its lane */
        const char *name;
        int64_t version; /* differs whenever something about the receiver differs */
        const char *url;
        const char *const *secrets; /* to sign with, the newest first */
        size_t n_secrets;
        const struct event_header *headers;
        size_t n_headers;
        struct routing routing;
        /* Its first event is the first that is not visible here; NULL: all that the outbox has. */
        const char *start_snapshot;
        int64_t start_floor;
        uint32_t concurrency;
        double rate_per_s;
        uint32_t rate_burst;
        enum endpoint_state state;
        const char *state_reason; /* or NULL */
        int64_t failing_for_ms;   /* -1: it is not known to fail */

        int n_references;
        char *texts; /* owned; what the above points at */
};

struct endpoint_list {
        size_t n_endpoints;
        const struct endpoint *const *endpoints; /* in order of id */
};

/* With one reference, from the JSON text that the relay's statement makes of its row: it cannot be
 * misshapen. */
struct endpoint *endpoint_read(int32_t id, int64_t version, const char *row);

struct endpoint *endpoint_ref(const struct endpoint *endpoint);
void endpoint_unref(struct endpoint *endpoint); /* NULL is allowed; clears secrets */

/* The receivers of one sink, which of their lanes have something parked that is due, and what the
 * relay finds out about them. On the `work` session; answers come from the loop. */
struct endpoint_table;

struct endpoint_table_events {
        /* All receivers there are, if anything about them has changed since the last answer; else
         * NULL. To keep one, take it out of the list by endpoint_ref(). */
        void (*on_endpoints)(void *owner, const struct endpoint_list *list);
        /* The lanes with parked deliveries that are due. Borrowed. */
        void (*on_due)(void *owner, const int32_t *lanes, size_t n_lanes);
};

/* `sink` is borrowed for their life. */
struct endpoint_table *endpoint_table_create(struct outbox *outbox, const char *sink,
    const struct endpoint_table_events *events, void *owner);

/* NULL is allowed. No answer may be on its way: it is idle, or the outbox is closed. */
void endpoint_table_destroy(struct endpoint_table *table);

/* Answered by on_endpoints, at least once after the last call. */
void endpoint_table_read(struct endpoint_table *table);

/* Answered by on_due, likewise. */
void endpoint_table_read_due(struct endpoint_table *table);

/* No answer is on its way any more, and what was read may be out of date. */
void endpoint_table_session_down(struct endpoint_table *table);

/* Nothing that is answered is asked. */
bool endpoint_table_is_idle(const struct endpoint_table *table);

/* These publish an event of their own, unless the same was noted already. */
void endpoint_table_note_failing(
    struct endpoint_table *table, int32_t id, int64_t failing_for_ms, const char *error);
void endpoint_table_note_recovered(struct endpoint_table *table, int32_t id);
void endpoint_table_disable(struct endpoint_table *table, int32_t id, const char *reason);

/* Removes the cursors and parked deliveries of lanes whose receiver was removed. Only for the
 * sink's owner, and not of the lanes that it still serves: they would have no cursor to settle. */
void endpoint_table_forget_gone(
    struct endpoint_table *table, const int32_t *served, size_t n_served);
