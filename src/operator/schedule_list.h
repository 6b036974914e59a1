/* Recurring events as commands see them: listed and removed, on a connection that may wait. */
#pragma once

#include "base/error.h"

#include <stdbool.h>

struct blocking_conn;
struct rows;

/* Text for people; times are RFC 3339 in UTC. */
enum schedule_column {
        SCHEDULE_NAME,
        SCHEDULE_TIMING,
        SCHEDULE_NEXT,
        SCHEDULE_LAST, /* NULL: it has not ticked yet */
        SCHEDULE_TOPIC,
        SCHEDULE_MISSED,
        SCHEDULE_LAST_ERROR, /* NULL: all is well */

        SCHEDULE_JSON = 0, /* the only column as_json */
};

/* By name. NULL and *error; else to be freed. */
struct rows *schedule_list(struct blocking_conn *conn, bool as_json, struct error *error)
    __attribute__((warn_unused_result));

bool schedule_remove(struct blocking_conn *conn, const char *name, bool *out_existed,
    struct error *error) __attribute__((warn_unused_result));
