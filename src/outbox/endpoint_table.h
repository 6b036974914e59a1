/*
 * courier.endpoint as the relay uses it: the receivers of one sink,
 * which of their lanes have something parked that is due, and what the relay
 * finds out about them. On the `work` session; answers come from the loop.
 */
#pragma once

#include "outbox/endpoint.h"
#include "outbox/outbox.h"

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

/* Removes the cursors and parked deliveries of lanes whose receiver was removed. Only for the sink's
 * owner, and not of the lanes that it still serves: they would have no cursor to settle. */
void endpoint_table_forget_gone(
    struct endpoint_table *table, const int32_t *served, size_t n_served);
