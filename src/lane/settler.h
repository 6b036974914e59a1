/*
 * What a lane has to make durable, and when: that its cursor moved, and the
 * verdicts that go with it. At most one settle is under way; what changes
 * meanwhile waits for the next one.
 *
 * Each settle leaves a former version of the cursor's row behind, which PostgreSQL removes at one
 * of the next settles. It cannot while any session holds an older snapshot: then settles become
 * rarer, the longer the more. A window that fills up, a key that waits, verdicts and a clean stop
 * do not wait for that. Pure.
 */
#pragma once

#include "base/list.h"
#include "lane/delivery.h"
#include "outbox/settlement.h"

#include <stdbool.h>
#include <stdint.h>

struct settler {
        int64_t due_ms;       /* what has changed since the last settle is due then; -1: nothing */
        struct list verdicts; /* verdict::link: they may be written */
        bool is_awaited;      /* a key waits until one of these is written */

        bool is_writing;   /* a settle is under way */
        struct list sent;  /* verdict::link: those that it carries */
        uint64_t n_passed; /* by the cursor that it carries: window::n_passed */

        int64_t rest_ms;   /* after each settle; 0 while former versions can be removed */
        int64_t rested_ms; /* the rest after the last one ends then */

        uint64_t n_settled; /* events behind the durable cursor since the lane was owned */
};

/* Also forgets everything. Verdicts belong to their deliveries, and are freed with these. */
void settler_init(struct settler *settler);

/* Something has changed and is to be written then, or sooner. */
void settler_note_moved(struct settler *settler, int64_t due_ms);

/* The delivery is behind the cursor, and its verdict may be written. */
void settler_add(struct settler *settler, struct delivery *delivery);

/* The same for a verdict in place of the delivery's own, which waits and is freed. */
void settler_replace(struct settler *settler, struct delivery *delivery, struct verdict *verdict);

/* The delivery's verdict, which waits, is taken back and freed. */
void settler_withdraw(struct delivery *delivery);

/* The delivery is blocked. If it waits for a dead letter, that is to be written at once. */
void settler_note_blocked(struct settler *settler, const struct delivery *delivery);

/* When the next settle is to begin if nothing presses; -1: there is nothing to write. */
int64_t settler_next_due(const struct settler *settler);

/* A settle begins, of all verdicts and a cursor that has passed so many events. If there is to be a
 * rest, it ends then. */
void settler_begin(struct settler *settler, uint64_t n_passed, int64_t rested_ms);

/* It is written, and may have changed the rest, to rest_max_ms at most. Its verdicts are to be
 * taken then, one by one; NULL after the last. */
void settler_end(struct settler *settler, enum cursor_room room, int64_t rest_max_ms);
struct verdict *settler_take_sent(struct settler *settler);
