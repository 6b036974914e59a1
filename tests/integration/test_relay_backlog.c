/* What an outbox of any size, and transactions of any length, must not do to a relay. */
#include "base/alloc.h"
#include "support/relay_fixture.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

struct awaited_entries {
        struct redis_server *redis;
        struct relay_process *relay;
        long long n;
        long peak_kib; /* of the relay's memory, meanwhile */
};

static long long n_entries(struct redis_server *redis)
{
        return redis_server_count(redis, "XLEN events");
}

static bool have_arrived(void *context)
{
        struct awaited_entries *awaited = context;
        long kib = relay_rss_kib(awaited->relay);

        usleep(20000); /* asking more often would take the processor from what is measured */
        if (kib > awaited->peak_kib)
                awaited->peak_kib = kib;
        return n_entries(awaited->redis) >= awaited->n;
}

Test(relay_backlog, delays_no_event_for_the_sake_of_an_open_transaction)
{
        struct relay_fixture fixture;
        struct relay_process *relay;
        PGconn *open;
        PGconn *looking;
        struct filter_result verdict;

        relay_fixture_begin(&fixture, postgres_shared());
        relay = relay_fixture_start(&fixture, "");
        open = database_connect(fixture.app);
        looking = database_connect(fixture.dsn);
        database_exec(looking, "BEGIN ISOLATION LEVEL REPEATABLE READ");
        database_exec(looking, "SELECT pg_current_xact_id()");
        database_exec(open, "BEGIN");
        database_exec(open, "SELECT count(courier.publish('late', json_build_array(4, i))) "
                            "FROM generate_series(0, 99) AS i");
        relay_fixture_write(&fixture, 21);
        relay_fixture_await_more(&fixture, 1000);
        verdict = relay_fixture_check(&fixture, relay);
        cr_expect_eq(verdict.n_repeated, 0);

        relay_start_again(relay);
        database_exec(open, "COMMIT");
        relay_fixture_await_more(&fixture, 100);
        relay_stop(relay);
        PQfinish(open);
        PQfinish(looking);
        relay_destroy(relay);
        relay_fixture_end(&fixture);
}

/* It has read something, and for a while asked for nothing more. */
#define HAS_READ_ALL_IT_WANTS                                                                      \
        "SELECT count(*) = 2 AND max(query_start) < clock_timestamp() - interval '500 ms' "        \
        "FROM pg_stat_activity WHERE usename = 'relay' AND datname = current_database() "          \
        "AND EXISTS (SELECT FROM courier.cursor WHERE epoch = 1)"

/* The relay's peak while its destination says nothing, and then while it drains: so many events of
 * so many bytes. */
static long peak_kib_of_draining(int n_events, int n_bytes, const char *settings)
{
        struct relay_fixture fixture;
        struct awaited_entries awaited = {.redis = &fixture.redis, .n = n_events};
        char *insert =
            xasprintf("INSERT INTO courier.outbox (topic, key, payload) SELECT 'backlog', "
                      "(i %% 1000)::text, to_json(repeat('x', %d)) "
                      "FROM generate_series(1, %d) AS i",
                n_bytes, n_events);

        relay_fixture_begin(&fixture, postgres_shared());
        database_exec(fixture.admin, insert);
        redis_server_pause(&fixture.redis);
        awaited.relay = relay_fixture_start(&fixture, settings);
        await_in_database(fixture.admin, HAS_READ_ALL_IT_WANTS, "the relay reads no further");
        awaited.peak_kib = relay_rss_kib(awaited.relay);
        redis_server_resume(&fixture.redis);
        wait_until(have_arrived, &awaited, 200000, "the backlog is drained");
        relay_stop(awaited.relay);

        cr_expect_eq(n_entries(awaited.redis), n_events);
        relay_destroy(awaited.relay);
        relay_fixture_end(&fixture);
        free(insert);
        return awaited.peak_kib;
}

/* Freed memory that the address sanitizer keeps back is not the relay's hunger. */
static void let_freed_memory_go(void)
{
        const char *set = getenv("ASAN_OPTIONS");
        char *options = xasprintf(
            "%s%squarantine_size_mb=1", set != NULL ? set : "", set != NULL && *set ? ":" : "");

        setenv("ASAN_OPTIONS", options, 1);
        free(options);
}

/* A relay that read ahead of its window would hold a part of the backlog in memory. What is equal
 * in both runs (the program, the sanitizer's shadow, a full window) needs no allowance; 30 % and
 * 8 MiB are for the allocator. */
Test(relay_backlog, needs_no_more_memory_for_twenty_times_the_backlog)
{
        long small_kib;
        long large_kib;

        let_freed_memory_go();
        small_kib = peak_kib_of_draining(20000, 20, "");
        large_kib = peak_kib_of_draining(400000, 20, "");

        cr_expect_leq(large_kib, small_kib + small_kib * 3 / 10 + 8192,
            "%ld KiB for 20,000 events, %ld KiB for 400,000", small_kib, large_kib);
}

/* 50 MiB in all; 1 MiB of them may be in the window, and in transit through buffers on both
 * sides. */
Test(relay_backlog, holds_no_more_of_large_events_than_its_window)
{
        long small_kib;
        long large_kib;

        let_freed_memory_go();
        small_kib = peak_kib_of_draining(2000, 20, "    max_in_flight_bytes: 1MiB\n");
        large_kib = peak_kib_of_draining(200, 256 * 1024, "    max_in_flight_bytes: 1MiB\n");

        cr_expect_leq(large_kib, small_kib + 16 * 1024,
            "%ld KiB for small events, %ld KiB for large ones", small_kib, large_kib);
}
