/*
 * Two private clusters of which one follows the other by streaming replication: the standby, its
 * promotion, and the old primary, which comes back as it was (postgres_start_again()) or becomes
 * the standby. The first primary is one of postgres_start_replicated().
 */
#pragma once

#include "support/postgres.h"

/* A copy of the primary that follows it, asynchronously; on the same path of databases and roles,
 * with a port and a folder of its own. Returns when it streams. */
struct postgres *postgres_start_standby(const struct postgres *primary);

/* From now on commits of the primary wait for its standby, as far as synchronous_commit asks for
 * it. */
void postgres_wait_for_standby(const struct postgres *primary);

/* What the primary writes from now on does not reach the standby any more. */
void postgres_stop_receiving(const struct postgres *standby);

/* Returns when it accepts writes, on a timeline of its own. The primary may run, or not. */
void postgres_promote(const struct postgres *standby);

/* The same for a primary that was killed, whose folder, socket and port the standby takes over, as
 * an address that moves. The old primary's data is what `standby` has then: postgres_rewind(). */
void postgres_take_over(struct postgres *primary, struct postgres *standby);

/* Makes what was the primary the standby of what was its standby. It is stopped first if it
 * runs. Returns when it streams. */
void postgres_rewind(struct postgres *postgres, const struct postgres *primary);

/* A conninfo that names both, on their unix sockets, for the one that accepts writes. */
char *postgres_dsn_of_two(const struct postgres *first, const struct postgres *second,
    const char *database, const char *user);
