/* Commands that ask filters, where a filter takes minutes for an ordinary event. */
#include "base/alloc.h"
#include "support/dear_filter.h"
#include "support/program_expect.h"
#include "support/relay_fixture.h"

#include <stdio.h>
#include <stdlib.h>

static struct relay_fixture fixture;
static struct relay_process *relay;

/* What commands ask without a bound of their own ends soon, too, and not with the machine's
 * memory. */
static void bound_statements(void)
{
        char *sql =
            database_value(fixture.admin, "SELECT format('ALTER DATABASE %I SET statement_timeout"
                                          " = ''3s''', current_database())");

        database_exec(fixture.admin, sql);
        free(sql);
}

static void start(void)
{
        relay_fixture_begin(&fixture, postgres_shared());
        database_exec(fixture.admin, "GRANT courier_publisher TO relay");
}

static void stop(void)
{
        relay_destroy(relay);
        database_exec(fixture.admin, "REVOKE courier_publisher FROM relay");
        relay_fixture_end(&fixture);
}

TestSuite(command_filters, .init = start, .fini = stop);

/* A delivery that waits for its turn waits, whatever its filter says. */
Test(command_filters, send_follows_an_event_past_a_filter_that_takes_too_long)
{
        static const char *const lines[] = {"\nsink bus: ", " ms: delivered and settled\n",
            "sink dear: given up (unjudged): its filter takes longer than 400 ms for this event",
            "sink hooks/evil: waits: it is disabled (-): `pgcourier receiver resume evil",
            "sink hooks/other: not taken: its filter is not true of the payload\n"};
        struct program_run run;

        database_exec(fixture.admin,
            "INSERT INTO courier.receiver (sink, name, url, filter, state) VALUES"
            " ('hooks', 'evil', 'http://127.0.0.1:1/', '" DEAR "', 'disabled'),"
            " ('hooks', 'other', 'http://127.0.0.1:1/', '$.a == 1', 'disabled')");
        relay = relay_start("postgres: {dsn: \"%s\"}\n"
                            "relay: {standby: 50ms}\n"
                            "sinks:\n"
                            "  - {name: dear, topics: ['**'], start: beginning, filter: '" DEAR
                            "', stdout: {}}\n"
                            "  - {name: bus, topics: ['**'], start: beginning, filter: '$.a == 2',"
                            " redis: {url: 'unix://%s', stream: events}}\n"
                            "  - {name: hooks, topics: ['**'], http: {receivers: table,"
                            " allow_networks: [127.0.0.1], allow_ports: [1]}}\n",
            fixture.relay, fixture.redis.socket_path);
        await_in_database(fixture.admin,
            "SELECT count(*) FILTER (WHERE epoch > 0) >= 2 FROM courier.cursor",
            "the lanes are taken");
        bound_statements();
        run = program_run(NULL, "send", "t.a", "--data", A_DOZEN, "-c", relay->config_path, NULL);
        cr_expect_eq(run.code, 5, "exit code %d: %s%s", run.code, run.out, run.err);
        for (size_t i = 0; i < sizeof lines / sizeof *lines; i++)
                cr_expect_not_null(strstr(run.out, lines[i]), "%s not in:\n%s", lines[i], run.out);
        program_run_free(&run);
        relay_fixture_expect_field(&fixture, "events", 0, "payload", A_DOZEN);
}

#define REPLAY(...)                                                                                \
        program_run(NULL, "replay", "--sink", "bus", "--from", "1", "-c", relay->config_path,      \
            __VA_ARGS__, NULL)

/* As the configuration says from the next replay on; the relay is not told. */
static void set_filter(const char *filter)
{
        char *script = xasprintf("s/    filter: .*/    filter: '%s'/", filter);

        cr_assert_eq(
            process_run(
                (const char *const[]){"sed", "-i", script, relay->config_path, NULL}, NULL, false),
            0);
        free(script);
}

/* Each with its number as $.n and as its key. */
static void publish_dozens(int first, int last)
{
        char *sql = xasprintf("SELECT count(courier.publish('t', (jsonb '" A_DOZEN
                              "' || jsonb_build_object('n', i))::json, key => i::text))"
                              " FROM generate_series(%d, %d) AS i",
            first, last);

        database_exec(fixture.admin, sql);
        free(sql);
}

static void start_with_history(int n_events)
{
        relay = relay_fixture_start(&fixture, "    filter: $.n > 0\n");
        publish_dozens(1, n_events);
        relay_fixture_await(&fixture, "events", n_events);
        await_in_database(fixture.admin,
            "SELECT pg_visible_in_snapshot((SELECT txid FROM courier.outbox ORDER BY txid DESC"
            " LIMIT 1), from_snapshot) FROM courier.cursor",
            "all is settled");
        bound_statements();
}

Test(command_filters, replay_ends_where_a_filter_takes_too_long_for_all)
{
        start_with_history(5);
        set_filter(DEAR);
        expect_refusal(REPLAY("--dry-run"), 5,
            "sink bus: its filter takes too long: more than 400 ms for each of 3 events in a row, "
            "the last with the id 3; simplify it");
        expect_refusal(REPLAY("--to", "2", "--yes"), 8,
            "sink bus has got such events, but its filter takes longer than 400 ms for each");
}

/* Two in a row are left out, and those before and behind them come, each once and in order. */
Test(command_filters, replay_leaves_out_an_event_that_a_filter_takes_too_long_for)
{
        start_with_history(20);
        set_filter("$.n != 4 \\&\\& (($.n != 8 \\&\\& $.n != 9) || " DEAR ")");
        expect_output(REPLAY("--dry-run"), "17 events would be delivered to sink bus once more\n"
                                           "2 events were left out: the filter took longer than "
                                           "400 ms for each\n");
        expect_output(REPLAY("--yes", "--rate", "6/s"),
            "17 events are on their way to sink bus once more\n"
            "2 events were left out: the filter took longer than 400 ms for each\n");
        relay_fixture_await(&fixture, "events", 37);
        for (int n = 1, i = 20; n <= 20; n++) {
                char key[16];

                if (n == 4 || n == 8 || n == 9)
                        continue;
                snprintf(key, sizeof key, "%d", n);
                relay_fixture_expect_field(&fixture, "events", (size_t)i++, "key", key);
        }
}
