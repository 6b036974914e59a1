/*
 * Maintains the outbox every 30 seconds, whether or not this relay owns any lanes: runs
 * courier.maintain(), which makes partitions ahead and drops expired ones (sql/0006_retention.sql),
 * and logs what was dropped, and which sink still holds expired partitions. Then it removes expired
 * dedup keys (sql/0010_dedup.sql), some thousands in each transaction, because a publisher of such
 * a key waits for their locks. Last it has publishing check types, or not, as outbox.types says
 * (sql/0012_types.sql). Its connection is open only during a round: no other statement waits
 * for the locks that it waits for.
 */
#pragma once

#include "base/error.h"
#include "config/config.h"

#include <stdbool.h>
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
        /* True: the credentials may have changed; log nothing, maintenance_configure() tries the
         * round again. */
        bool (*on_login_refused)(void *owner);
};

struct maintenance *maintenance_create(uv_loop_t *loop, const struct config *config,
    const struct maintenance_events *events, void *owner);

/* From the next round on. */
void maintenance_configure(struct maintenance *maintenance, const struct postgres_config *config);

/* NULL is allowed. A round under way is given up. */
void maintenance_destroy(struct maintenance *maintenance);

/* The schema is there: starts the first round, unless it was started before. */
void maintenance_start(struct maintenance *maintenance);

/* One round for a command: rows with these columns, or NULL. */
struct rows *maintenance_run_now(struct blocking_conn *conn, const struct outbox_config *config,
    struct error *error) __attribute__((warn_unused_result));

/* Has publishing check types as the settings say, for a command: "changed", "waits" (the outbox is in
 * use) or NULL (it is so already) in a row. */
struct rows *maintenance_check_types_now(struct blocking_conn *conn,
    const struct outbox_config *config, struct error *error) __attribute__((warn_unused_result));

/* All expired dedup keys, for a command. */
bool maintenance_forget_keys_now(struct blocking_conn *conn, const struct outbox_config *config,
    int64_t *out_n_keys, struct error *error) __attribute__((warn_unused_result));
