/*
 * The receivers of a sink that fans out: rows of courier.receiver, and the table as the relay
 * follows it.
 */
#pragma once

#include "outbox/outbox.h"
#include "outbox/routing.h"
#include "pgcourier/event.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum receiver_state { RECEIVER_ACTIVE, RECEIVER_PAUSED, RECEIVER_DISABLED };

struct receiver {
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
        enum receiver_state state;
        const char *state_reason; /* or NULL */
        int64_t failing_for_ms;   /* -1: it is not known to fail */

        int n_references;
        char *texts; /* owned; what the above points at */
};

struct receiver_list {
        size_t n_receivers;
        const struct receiver *const *receivers; /* in order of id */
};

/* With one reference, from the JSON text that the relay's statement makes of its row: it cannot be
 * misshapen. */
struct receiver *receiver_read(int32_t id, int64_t version, const char *row);

struct receiver *receiver_ref(const struct receiver *receiver);
void receiver_unref(struct receiver *receiver); /* NULL is allowed; clears secrets */

/* The receivers of one sink, and what the relay finds out about them. On the `work` session;
 * answers come from the loop. */
struct receiver_table;

struct receiver_table_events {
        /* All receivers there are, if anything about them has changed since the last answer; else
         * NULL. To keep one, take it out of the list by receiver_ref(). */
        void (*on_receivers)(void *owner, const struct receiver_list *list);
};

/* `sink` is borrowed for their life. */
struct receiver_table *receiver_table_create(struct outbox *outbox, const char *sink,
    const struct receiver_table_events *events, void *owner);

/* NULL is allowed. No answer may be on its way: it is idle, or the outbox is closed. */
void receiver_table_destroy(struct receiver_table *table);

/* Answered by on_receivers, at least once after the last call. */
void receiver_table_read(struct receiver_table *table);

/* The same, and the answer has the receivers, although they may not have changed. */
void receiver_table_read_anew(struct receiver_table *table);

/* No answer is on its way any more, and what was read may be out of date. */
void receiver_table_session_down(struct receiver_table *table);

/* Nothing that is answered is asked. */
bool receiver_table_is_idle(const struct receiver_table *table);

/* These publish an event of their own, unless the same was noted already. */
void receiver_table_note_failing(
    struct receiver_table *table, int32_t id, int64_t failing_for_ms, const char *error);
void receiver_table_note_recovered(struct receiver_table *table, int32_t id);
void receiver_table_disable(struct receiver_table *table, int32_t id, const char *reason);

/* Removes the cursors and parked deliveries of lanes whose receiver was removed. Only for the owner
 * of these shards, of so many, and not of the lanes that it still serves: they would have no cursor
 * to settle. Both are arrays in SQL. */
void receiver_table_forget_gone(
    struct receiver_table *table, const char *served, uint32_t n_shards, const char *shards);
