/*
 * Runs courier.maintain(), which makes partitions of the outbox ahead and drops expired ones
 * (sql/0006_retention.sql), on a connection of its own that is open only during a round: no other
 * statement waits for the locks that it waits for.
 */
#pragma once

#include "base/error.h"
#include "config/config.h"

#include <stdint.h>
#include <uv.h>

struct blocking_conn;
struct maintenance;
struct rows;

/* The columns that courier.maintain() answers; what does not apply is empty. */
enum maintenance_column {
        MAINTENANCE_ACTION, /* made, dropped, emptied, lost, held, waits or stray */
        MAINTENANCE_PARTITION,
        MAINTENANCE_LOWER,
        MAINTENANCE_UPPER,
        MAINTENANCE_BYTES,
        MAINTENANCE_SINK, /* a receiver is sink/lane */
        MAINTENANCE_EVENTS,
        MAINTENANCE_HELD_BY,
        N_MAINTENANCE_COLUMNS,
};

struct maintenance_events {
        /* Something that was done or found; borrowed. */
        void (*on_news)(void *owner, const char *const *columns);
        void (*on_failed)(void *owner, const struct error *error);
};

struct maintenance *maintenance_create(uv_loop_t *loop, const struct config *config,
    const struct maintenance_events *events, void *owner);
/* From the next round on. */
void maintenance_configure(struct maintenance *maintenance, const struct postgres_config *config);
void maintenance_destroy(struct maintenance *maintenance); /* NULL is allowed */

/* One round, if none is under way. */
void maintenance_run(struct maintenance *maintenance);

/* The same for a command: rows with these columns, or NULL. */
struct rows *maintenance_run_now(struct blocking_conn *conn, const struct outbox_config *config,
    struct error *error) __attribute__((warn_unused_result));
