/*
 * What one settle makes durable, in one transaction: the cursor, and a verdict
 * on each delivery that leaves the stream or comes back from where it was
 * parked. Deliveries that went straight through need none: the cursor passes
 * them.
 *
 * Known to the pure core, so no libpq here.
 */
#pragma once

#include "base/list.h"
#include "outbox/cursor.h"
#include "outbox/parked.h"

#include <stdbool.h>
#include <stdint.h>

enum verdict_kind {
        VERDICT_DELIVERED, /* a parked one is removed */
        VERDICT_PARK,      /* taken out of the stream; or its row is changed */
        VERDICT_DEAD,      /* given up: a dead letter */
};

enum dead_reason {
        DEAD_REJECTED,  /* refused for good by the destination or its sink */
        DEAD_ATTEMPTS,  /* the retry policy gave up: so many attempts */
        DEAD_AGE,       /* the retry policy gave up: retried for so long */
        DEAD_TOO_LARGE, /* above max_event_bytes */
        DEAD_UNJUDGED,  /* its filter took too long: it is not known whether the event matches */
        DEAD_SKIPPED,   /* by hand */
};

/* As in courier.dead_letter.reason. */
const char *dead_reason_name(enum dead_reason reason);

struct verdict {
        struct list link;          /* settlement::verdicts */
        const struct event *event; /* borrowed from the lane until the settle is answered */
        void *delivery;            /* the lane's own */
        enum verdict_kind kind;
        bool is_parked;      /* it has a row in courier.parked; else it is copied from the outbox */
        uint32_t n_attempts; /* that count */
        int64_t retried_ms;  /* the sum of the delays so far */
        bool is_sent;        /* the lane's own: a settle under way carries it */
        bool has_failed;     /* `words` are those of a failed attempt */

        /* PARK */
        enum parked_state state;
        int64_t due_ms; /* local clock; not for DELAYED, which is due at the event's deliver_at */
        bool goes_last; /* its row moves behind all others of its key */

        /* DEAD */
        enum dead_reason reason;
        char target[128]; /* "" if it is not known */

        char words[256]; /* the failure, in the destination's words or ours; printable ASCII */
};

/* What became of the former versions of the cursor's row, as the answer to a settle shows it. They
 * stay while any session holds an older snapshot. */
enum cursor_room {
        ROOM_UNKNOWN,
        ROOM_REGAINED, /* some were removed: the row stands where one of them stood */
        ROOM_FULL,     /* their page was full of them: the row went to another page */
};

struct settlement {
        struct cursor cursor;        /* borrowed from the lane until it is asked anything else */
        const struct list *verdicts; /* verdict::link, in order; the lane's until lane_settled() */
        int64_t now_ms;              /* the local clock that due_ms refers to */
};
