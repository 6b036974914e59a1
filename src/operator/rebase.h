/* Repairs the outbox and its cursors after the database was moved to another cluster, or after its
 * sequence was set back. */
#pragma once

#include "base/error.h"

struct blocking_conn;

struct rebased_lane {
        char sink[128];
        int lane;
        long long n_waiting; /* events that it has still to deliver */
};

struct rebase_result {
        bool was_rewritten;         /* the outbox; false: its transaction ids are valid here */
        struct rebased_lane *lanes; /* owned */
        int n_lanes;
};

/*
 * Lets each lane go on exactly where it stood. If this cluster is past all transaction ids that the
 * cursors know, as it is after pg_upgrade, the cursors only get its name. Otherwise the ids are
 * rewritten, in one transaction, which locks out writers; transactions before it only draw ids, if
 * the cluster has drawn too few. Needs the schema's owner. ERROR_TEMPORARY if a relay owns a lane.
 * After a failure close the connection, which rolls everything back.
 */
bool rebase(struct blocking_conn *conn, struct rebase_result *out_result, struct error *error)
    __attribute__((warn_unused_result));
void rebase_result_deinit(struct rebase_result *result);
