/*
 * Two servers, of which one is the standby of the other, and what a relay needs to carry events out
 * of them: the stage of the tests of a fail-over.
 */
#pragma once

#include "support/postgres_replica.h"
#include "support/relay_fixture.h"

#define WINDOW 50 /* of the relay's sink */

struct stage {
        struct relay_fixture fixture; /* its dsns name both; its session is with the primary */
        struct postgres *primary;
        struct postgres *standby;
        char *database;
};

void stage_begin(struct stage *stage, bool is_synchronous);
void stage_end(struct stage *stage, struct relay_process *relay); /* the relay may be NULL */

/* The superuser's session with one of them. */
PGconn *stage_connect(const struct stage *stage, const struct postgres *postgres);

/* The primary is killed, the standby promoted; it is the primary from now on. */
void stage_fail_over(struct stage *stage);

/* From all topics to the stream "events"; it never sweeps. `redis_settings` are more of the block's
 * keys, each after a comma. */
struct relay_process *stage_start_relay(const struct stage *stage, const char *redis_settings);

/* Until so many deliveries are settled, as that server knows. */
void stage_await_settled(PGconn *connection, int n_deliveries);
