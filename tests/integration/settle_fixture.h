/* What the tests of settles with verdicts share: a database, a store, and verdicts in a line
 * each. */
#pragma once

#include "base/alloc.h"
#include "store_rig.h"
#include "support/postgres_expect.h"

#include <criterion/criterion.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct fixture {
        char *dsn; /* of the superuser */
        PGconn *admin;
        struct store_rig *rig;
        struct verdicts verdicts;
};

static inline struct fixture set_up(void)
{
        struct fixture fixture = {.dsn = postgres_new_database(postgres_shared())};

        fixture.admin = database_connect(fixture.dsn);
        fixture.rig = store_rig_open(fixture.dsn);
        return fixture;
}

static inline void tear_down(struct fixture *fixture)
{
        store_rig_close(fixture->rig);
        PQfinish(fixture->admin);
        free(fixture->dsn);
}

/* Ids 1 to n, key "k". */
static inline void publish(PGconn *admin, int n)
{
        for (int i = 0; i < n; i++)
                database_exec(admin, "SELECT courier.publish('test.topic', '\"body\"', 'k')");
}

/* Rows 1 to n of key "k": a retry that waits for an hour, and those behind it. */
static inline void publish_and_park(struct fixture *fixture, int n)
{
        struct verdicts verdicts = {0};

        publish(fixture->admin, n);
        for (int id = 1; id <= n; id++) {
                struct verdict *verdict = verdicts_add(&verdicts, VERDICT_PARK, id, false);

                verdict->state = id == 1 ? PARKED_RETRY : PARKED_BLOCKED;
                verdict->due_ms = 1000 + 3600000;
        }
        cr_assert(store_rig_settle(fixture->rig, &verdicts));
}

static inline void settle(struct fixture *fixture)
{
        bool is_settled = store_rig_settle(fixture->rig, &fixture->verdicts);

        cr_assert(is_settled, "%s", fixture->rig->lost.text);
        fixture->verdicts.n = 0;
}

static const char in_order[] =
    "SELECT string_agg(outbox_id || ':' || state, ' ' ORDER BY position) FROM courier.parked";

static inline struct verdict *fail(
    struct fixture *fixture, int id, bool is_parked, const char *words)
{
        struct verdict *verdict = verdicts_add(&fixture->verdicts, VERDICT_PARK, id, is_parked);

        verdict->state = PARKED_RETRY;
        verdict->has_failed = true;
        snprintf(verdict->words, sizeof verdict->words, "%s", words);
        return verdict;
}

static inline struct verdict *give_up(struct fixture *fixture, int id, bool is_parked,
    enum dead_reason reason, const char *target, const char *words)
{
        struct verdict *verdict = verdicts_add(&fixture->verdicts, VERDICT_DEAD, id, is_parked);

        verdict->reason = reason;
        verdict->has_failed =
            reason == DEAD_REJECTED || reason == DEAD_ATTEMPTS || reason == DEAD_AGE;
        snprintf(verdict->words, sizeof verdict->words, "%s", words);
        snprintf(verdict->target, sizeof verdict->target, "%s", target);
        return verdict;
}
