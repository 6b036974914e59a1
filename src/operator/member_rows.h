/* courier.member: the relays of the database, for the commands. */
#pragma once

#include "base/error.h"
#include "pg/blocking_conn.h"

#include <stdbool.h>

/* Text for people; times are RFC 3339 in UTC. */
enum member_column {
        MEMBER_NAME,
        MEMBER_STATE, /* "active", "draining", "drained", "leaving", "gone" or "gone, drained" */
        MEMBER_HOST,
        MEMBER_VERSION,
        MEMBER_SINCE,
        MEMBER_WEIGHT,
        MEMBER_SHARDS, /* that it owns: "billing 1/1, orders 3/8"; "" */
        MEMBER_JSON,   /* the row as an object */
};

/* By name: those that live or are drained; `all`: those that are gone, too. */
struct rows *members_read(struct blocking_conn *conn, bool all, struct error *error)
    __attribute__((warn_unused_result));

/* A list of all names: one column. */
struct rows *member_names(struct blocking_conn *conn, struct error *error)
    __attribute__((warn_unused_result));

/* A relay that is drained is to have no shards. */
struct drained {
        bool existed;
        bool was_drained;
        bool is_live;
        int n_others; /* that live, and may have shards */
};
bool member_set_drained(struct blocking_conn *conn, const char *name, bool is_drained,
    struct drained *out, struct error *error) __attribute__((warn_unused_result));
