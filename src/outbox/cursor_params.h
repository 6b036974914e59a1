/* Where a lane's cursor is to be put, as parameters of a statement. */
#pragma once

#include "outbox/cursor.h"

struct lane_store;

/* In this order; what belongs to no open difference is NULL. */
enum cursor_param {
        CURSOR_SINK,
        CURSOR_LANE,
        CURSOR_EPOCH,
        CURSOR_FROM_SNAPSHOT,
        CURSOR_FROM_FLOOR,
        CURSOR_FROM_XID,
        CURSOR_UNTIL_SNAPSHOT,
        CURSOR_UNTIL_FLOOR,
        CURSOR_UNTIL_XID,
        CURSOR_LAST_ID,
        CURSOR_PLACE, /* where its row is: settle_batch.c says why */
        N_CURSOR_PARAMS,
};

struct cursor_params {
        const char *values[N_CURSOR_PARAMS]; /* borrowed from the store, the cursor and `numbers` */
        char numbers[5][24];
};

/* Must stay where it is while it is used. */
void cursor_params_init(
    struct cursor_params *params, const struct lane_store *store, const struct cursor *cursor);
