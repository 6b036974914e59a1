/* A sink with several shards: each has a lock, a cursor and a window of its own, one relay may own
 * some of them and another the others, and their number may change. */
#include "support/relay_fixture.h"

#include <criterion/criterion.h>
#include <stdio.h>

enum { DEADLINE_MS = 60000 };

static struct relay_process *start(const struct relay_fixture *fixture, unsigned n_shards)
{
        char settings[80];

        snprintf(settings, sizeof settings, "    shards: %u\n    max_in_flight: 60\n", n_shards);
        return relay_fixture_start(fixture, settings);
}

static void await_shards(struct relay_fixture *fixture, unsigned n_shards)
{
        char sql[200];

        snprintf(sql, sizeof sql,
            "SELECT count(*) = %u FROM courier.cursor JOIN courier.relay_lock USING (lock_id) "
            "WHERE sink = 'bus'",
            n_shards);
        await_in_database(fixture->admin, sql, "the shards have no owner");
}

Test(shards, deliver_all_in_order_of_keys)
{
        struct relay_fixture fixture;
        struct relay_process *relay;
        struct filter_result verdict;

        relay_fixture_begin(&fixture, postgres_shared());
        relay = start(&fixture, 5);
        await_shards(&fixture, 5);
        relay_fixture_write(&fixture, 21);
        relay_fixture_await_more(&fixture, 500);
        verdict = relay_fixture_check(&fixture, relay);

        cr_expect_eq(verdict.n_repeated, 0, "%zu events came twice", verdict.n_repeated);
        cr_expect_eq(database_integer(fixture.admin,
                         "SELECT count(*) FROM courier.cursor WHERE sink = 'bus' AND epoch = 1"),
            5);
        relay_destroy(relay);
        relay_fixture_end(&fixture);
}

Test(shards, repeat_no_more_than_the_windows_after_a_kill)
{
        struct relay_fixture fixture;
        struct relay_process *relay;
        struct filter_result verdict;

        relay_fixture_begin(&fixture, postgres_shared());
        relay = start(&fixture, 4);
        relay_fixture_write(&fixture, 22);
        for (int i = 0; i < 3; i++) {
                relay_fixture_await_more(&fixture, 200);
                relay_kill(relay);
                relay_start_again(relay);
        }
        relay_fixture_await_more(&fixture, 200);
        verdict = relay_fixture_check(&fixture, relay);

        cr_expect_leq(verdict.n_repeated, 3 * 60, "%zu events came twice", verdict.n_repeated);
        relay_destroy(relay);
        relay_fixture_end(&fixture);
}

/* A relay with another number comes, the first gives its shards back, and waits. */
static void change(struct relay_fixture *fixture, struct relay_process **relay, unsigned n_shards)
{
        struct relay_process *newer = start(fixture, n_shards);

        relay_wait_for_log(*relay, "event=shards_differ", DEADLINE_MS);
        await_shards(fixture, n_shards);
        relay_fixture_await_more(fixture, 100);
        relay_stop(*relay);
        relay_destroy(*relay);
        *relay = newer;
}

Test(shards, change_in_number_without_loss_or_repetition)
{
        static const unsigned numbers[] = {2, 6, 4, 7, 256, 1};
        struct relay_fixture fixture;
        struct relay_process *relay;
        struct filter_result verdict;

        relay_fixture_begin(&fixture, postgres_shared());
        relay = start(&fixture, 1);
        relay_fixture_write(&fixture, 23);
        relay_fixture_await_more(&fixture, 100);
        for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
                change(&fixture, &relay, numbers[i]);
        verdict = relay_fixture_check(&fixture, relay);

        cr_expect_eq(verdict.n_repeated, 0, "%zu events came twice", verdict.n_repeated);
        relay_destroy(relay);
        relay_fixture_end(&fixture);
}

/* The older configuration does not take the number back, and does once no newer relay lives. */
Test(shards, are_not_changed_back_by_an_older_relay)
{
        struct relay_fixture fixture;
        struct relay_process *older, *newer;

        relay_fixture_begin(&fixture, postgres_shared());
        older = start(&fixture, 2);
        await_shards(&fixture, 2);
        newer = start(&fixture, 3);
        await_shards(&fixture, 3);
        relay_stop(older);
        relay_start_again(older);
        relay_wait_for_log(older, "event=shards_differ", DEADLINE_MS);
        await_shards(&fixture, 3);
        relay_kill(newer);
        await_shards(&fixture, 2);

        relay_destroy(newer);
        relay_destroy(older);
        relay_fixture_end(&fixture);
}

static void await_owners(struct relay_fixture *fixture, unsigned n_relays, unsigned n_each)
{
        char sql[400];

        snprintf(sql, sizeof sql,
            "SELECT count(*) = %u AND bool_and(n = %u) FROM (SELECT pid, count(*) AS n "
            "FROM courier.cursor JOIN courier.relay_lock USING (lock_id) "
            "WHERE sink = 'bus' GROUP BY pid) AS owner",
            n_relays, n_each);
        await_in_database(fixture->admin, sql, "the shards are not spread evenly");
}

/* Relays that come get their share, one after the other; those that end hand theirs over. */
Test(shards, are_shared_by_relays_and_handed_over)
{
        enum { N_RELAYS = 3, N_SHARDS = 12 };
        struct relay_fixture fixture;
        struct relay_process *relays[N_RELAYS];
        struct filter_result verdict;

        relay_fixture_begin(&fixture, postgres_shared());
        relays[0] = start(&fixture, N_SHARDS);
        relay_fixture_write(&fixture, 24);
        await_owners(&fixture, 1, N_SHARDS);
        relays[1] = start(&fixture, N_SHARDS);
        await_owners(&fixture, 2, N_SHARDS / 2);
        relays[2] = start(&fixture, N_SHARDS);
        await_owners(&fixture, 3, N_SHARDS / 3);
        relay_fixture_await_more(&fixture, 200);
        relay_stop(relays[0]);
        await_owners(&fixture, 2, N_SHARDS / 2);
        relay_start_again(relays[0]);
        await_owners(&fixture, 3, N_SHARDS / 3);
        relay_fixture_await_more(&fixture, 200);
        relay_stop(relays[1]);
        relay_stop(relays[2]);
        await_owners(&fixture, 1, N_SHARDS);
        verdict = relay_fixture_check(&fixture, relays[0]);

        cr_expect_eq(verdict.n_repeated, 0, "%zu events came twice", verdict.n_repeated);
        for (int i = 0; i < N_RELAYS; i++)
                relay_destroy(relays[i]);
        relay_fixture_end(&fixture);
}

/* Two of three are killed again and again. */
Test(shards, of_dead_relays_are_taken_over)
{
        enum { N_RELAYS = 3, N_SHARDS = 6 };
        struct relay_fixture fixture;
        struct relay_process *relays[N_RELAYS];
        struct filter_result verdict;

        relay_fixture_begin(&fixture, postgres_shared());
        for (int i = 0; i < N_RELAYS; i++)
                relays[i] = start(&fixture, N_SHARDS);
        relay_fixture_write(&fixture, 25);
        await_owners(&fixture, N_RELAYS, N_SHARDS / N_RELAYS);
        for (int i = 0; i < 4; i++) {
                relay_kill(relays[i % 2]);
                await_owners(&fixture, 2, N_SHARDS / 2);
                relay_fixture_await_more(&fixture, 100);
                relay_start_again(relays[i % 2]);
                await_owners(&fixture, N_RELAYS, N_SHARDS / N_RELAYS);
        }
        verdict = relay_fixture_check(&fixture, relays[2]);

        cr_expect_leq(verdict.n_repeated, 4 * 60, "%zu events came twice", verdict.n_repeated);
        for (int i = 0; i < N_RELAYS; i++)
                relay_destroy(relays[i]);
        relay_fixture_end(&fixture);
}
