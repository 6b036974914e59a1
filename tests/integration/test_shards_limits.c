/* The limits of a sink with several shards: what the configuration says holds for all of them
 * together, in one relay. */
#include "support/http_receiver.h"
#include "support/relay_fixture.h"

#include <criterion/criterion.h>

enum { N_SHARDS = 4, N_EVENTS = 100, DEADLINE_MS = 60000 };

static struct relay_fixture fixture;
static struct http_receiver *limited, *all;
static struct relay_process *relay;

/* Sink "bus" with those settings, and "all", which settles often, and so shows that the relay had
 * time for more. */
static void start(const char *settings)
{
        limited = http_receiver_start(NULL, NULL);
        all = http_receiver_start(NULL, NULL);
        relay_fixture_begin(&fixture, postgres_shared());
        relay =
            relay_start("postgres: {dsn: \"%s\"}\n"
                        "sinks:\n"
                        "  - {name: bus, topics: [\"**\"], start: beginning, shards: %d,\n"
                        "     %s, http: {url: \"http://127.0.0.1:%u/\", timeout: 60s}}\n"
                        "  - {name: all, topics: [\"**\"], start: beginning, max_in_flight: 4,\n"
                        "     http: {url: \"http://127.0.0.1:%u/\"}}\n",
                fixture.relay, N_SHARDS, settings, http_receiver_port(limited),
                http_receiver_port(all));
        await_in_database(fixture.admin,
            "SELECT count(*) = 4 FROM courier.cursor JOIN courier.relay_lock USING (lock_id) "
            "WHERE sink = 'bus'",
            "the shards have no owner");
}

static void stop(void)
{
        http_receiver_release(limited);
        relay_stop(relay);
        relay_destroy(relay);
        http_receiver_destroy(limited);
        http_receiver_destroy(all);
        relay_fixture_end(&fixture);
}

/* The same number of events for each shard; all of one key. */
static void publish_to_shards(void)
{
        char sql[300];

        snprintf(sql, sizeof sql,
            "SELECT courier.publish('t', '1', key => k) FROM generate_series(1, %d),"
            " (SELECT min(n::text) AS k FROM generate_series(1, 99) AS n"
            "  GROUP BY courier.shard_of(n::text, %d)) AS keys",
            N_EVENTS / N_SHARDS, N_SHARDS);
        database_exec(fixture.admin, sql);
}

static void publish_keys(void)
{
        char sql[120];

        snprintf(sql, sizeof sql,
            "SELECT courier.publish('t', '1', key => 'k' || n) FROM generate_series(1, %d) AS n",
            N_EVENTS);
        database_exec(fixture.admin, sql);
}

Test(shards_limits, share_the_rate)
{
        start("rate: {per_second: 0.001, burst: 8}");
        publish_keys();
        http_receiver_wait(limited, 8, DEADLINE_MS);
        http_receiver_wait(all, N_EVENTS, DEADLINE_MS);

        cr_expect_eq(http_receiver_n_requests(limited), 8);
        stop();
}

Test(shards_limits, share_the_window)
{
        start("max_in_flight: 20, concurrency: 100");
        http_receiver_answer(limited, &(struct http_answer){.is_held = true});
        publish_keys();
        http_receiver_wait(limited, N_SHARDS, DEADLINE_MS);
        http_receiver_wait(all, N_EVENTS, DEADLINE_MS);

        cr_expect_leq(http_receiver_n_requests(limited), 20);
        stop();
}

/* The first event of each shard fails, and those behind it are parked with it. A shard reads no more
 * once it has parked its part; a page that was read before may be on top of it. */
Test(shards_limits, share_the_room_for_what_is_parked)
{
        enum { MOST = 8, WINDOW = 8 };

        start("max_parked: 8, max_in_flight: 8, retry: {first: 1h, max: 1h}, park_after: 1ms");
        http_receiver_answer(limited, &(struct http_answer){.status = 500});
        for (int i = 1; i <= 3; i++) {
                publish_to_shards();
                http_receiver_wait(all, i * N_EVENTS, DEADLINE_MS);
        }
        await_in_database(
            fixture.admin, "SELECT count(*) >= 8 FROM courier.parked", "too few are parked");

        cr_expect_leq(
            database_integer(fixture.admin, "SELECT count(*) FROM courier.parked"), MOST + WINDOW);
        stop();
}
