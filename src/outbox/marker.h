/*
 * Calls courier.mark() (sql/0009_marks.sql), which marks the rows of attached tables whose events
 * all sinks have passed: some time after lanes have settled, at once while there is more, and when
 * something that was put off is due; after a call that failed, when its delay is over. On a
 * connection of its own, so that nothing that an application's table does keeps a lane waiting; it
 * is open only while some attachment has marks.
 *
 *   OFF -marker_want()-> CONNECTING -session ready-> ASKING -answer-> RESTING -due-> ASKING
 *   any but OFF -session lost-> CONNECTING; -nothing to mark any more-> OFF
 *
 * Every call is a transaction that writes marks and the marker's cursor together: it may be lost
 * at any time, and is made again.
 */
#pragma once

#include "base/error.h"
#include "config/config.h"

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

struct marker;

/* What a call did; borrowed. */
struct marks_report {
        uint64_t n_marked;   /* events whose row is marked */
        uint64_t n_failed;   /* marks that failed by a fault of the row */
        uint64_t n_dead;     /* of those, given up */
        unsigned n_troubled; /* attachments of which rows cannot be marked */
        const char *error;   /* the first failure, in words; NULL: none */
};

struct marker_events {
        void (*on_report)(void *owner, const struct marks_report *report);
        /* The session or a whole call was lost. It is tried again, in so many ms. */
        void (*on_failed)(void *owner, const struct error *error, int64_t retry_ms);
        /* After marker_drain(): marker_is_at_rest(). */
        void (*on_rest)(void *owner);
};

struct marker *marker_create(
    uv_loop_t *loop, const struct config *config, const struct marker_events *events, void *owner);
void marker_destroy(struct marker *marker); /* NULL is allowed */

/* Other settings; those of the connection from the next one on. */
void marker_configure(struct marker *marker, const struct marks_config *marks,
    const struct postgres_config *postgres);

/* The session ends, and begins anew with the settings by now. */
void marker_reopen(struct marker *marker);

/* Whether some attachment has marks, as the `work` session says, again and again: each yes makes
 * it look. */
void marker_want(struct marker *marker, bool has_marks);

/* A lane has settled: there may be rows to mark, marks.interval from now. */
void marker_settled(struct marker *marker);

/* Marks what has been settled, and then rests for good. */
void marker_drain(struct marker *marker);
void marker_give_up(struct marker *marker); /* at rest now */
bool marker_is_at_rest(const struct marker *marker);
