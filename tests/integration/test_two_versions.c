/*
 * An upgrade without a gap: the schema first, by the new program, then the relays, one after the
 * other, while events are written. The old program is PGCOURIER, the new one PGCOURIER_NEXT: by
 * default one that knows a version of the schema more (next.sql). scripts/check-upgrade gives a
 * former release for the old program, and this tree's for the new one.
 */
#include "support/program.h"
#include "support/relay_fixture.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>

enum { N_RELAYS = 3, N_SHARDS = 6 };

static struct relay_process *start(const struct relay_fixture *fixture)
{
        char settings[80];

        snprintf(settings, sizeof settings, "    shards: %d\n    max_in_flight: 60\n", N_SHARDS);
        return relay_fixture_start(fixture, settings);
}

static void await_owners(struct relay_fixture *fixture, int n_relays)
{
        char sql[400];

        snprintf(sql, sizeof sql,
            "SELECT count(*) = %d AND sum(n) = %d FROM (SELECT pid, count(*) AS n "
            "FROM courier.cursor JOIN courier.relay_lock USING (lock_id) "
            "WHERE sink = 'bus' GROUP BY pid) AS owner",
            n_relays, N_SHARDS);
        await_in_database(fixture->admin, sql, "the shards are not shared by all relays");
}

static void use_new_program(void)
{
        const char *next = getenv("PGCOURIER_NEXT");

        cr_assert_not_null(next, "PGCOURIER_NEXT must name the new program; ctest sets it");
        setenv("PGCOURIER", next, 1);
}

static void migrate(const struct relay_fixture *fixture)
{
        struct program_run run = program_run(NULL, "migrate", "--dsn", fixture->dsn, NULL);

        cr_expect_eq(run.code, 0, "%s", run.err);
        program_run_free(&run);
}

/* The last relay of the old version is started when the schema is the new one's. */
Test(two_versions, share_a_sink_while_relays_are_replaced)
{
        struct relay_fixture fixture;
        struct relay_process *relays[N_RELAYS];
        struct filter_result verdict;
        const char *old = getenv("PGCOURIER");

        relay_fixture_begin(&fixture, postgres_shared());
        relays[0] = start(&fixture);
        relays[1] = start(&fixture);
        await_owners(&fixture, 2);
        relay_fixture_write(&fixture, 31);
        relay_fixture_await_more(&fixture, 200);

        use_new_program();
        migrate(&fixture);
        setenv("PGCOURIER", old, 1);
        relays[2] = start(&fixture);
        await_owners(&fixture, N_RELAYS);
        relay_fixture_await_more(&fixture, 200);

        use_new_program();
        for (int i = 0; i < N_RELAYS; i++) {
                relay_stop(relays[i]);
                relay_start_again(relays[i]);
                await_owners(&fixture, N_RELAYS);
                relay_fixture_await_more(&fixture, 200);
        }
        relay_stop(relays[0]);
        relay_stop(relays[1]);
        verdict = relay_fixture_check(&fixture, relays[2]);

        cr_expect_eq(verdict.n_repeated, 0, "%zu events came twice", verdict.n_repeated);
        for (int i = 0; i < N_RELAYS; i++)
                relay_destroy(relays[i]);
        relay_fixture_end(&fixture);
}
