/*
 * What a lane has to make durable, and when: that its cursor moved, and the
 * verdicts that go with it. At most one settle is under way; what changes
 * meanwhile waits for the next one. Pure.
 */
#pragma once

#include "base/list.h"
#include "lane/delivery.h"

#include <stdbool.h>
#include <stdint.h>

struct settler {
        int64_t due_ms;       /* what has changed since the last settle is due then; -1: nothing */
        struct list verdicts; /* verdict::link: they may be written */
        bool is_awaited;      /* a key waits until one of these is written */

        bool is_writing;   /* a settle is under way */
        struct list sent;  /* verdict::link: those that it carries */
        uint64_t n_passed; /* by the cursor that it carries: window::n_passed */

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

/* A settle begins, of all verdicts and a cursor that has passed so many events. */
void settler_begin(struct settler *settler, uint64_t n_passed);

/* It is written. Its verdicts are to be taken then, one by one; NULL after the last. */
void settler_end(struct settler *settler);
struct verdict *settler_take_sent(struct settler *settler);
