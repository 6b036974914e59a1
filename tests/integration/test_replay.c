/* `pgcourier replay` beside a running relay: what comes again, how it is marked, and what does
 * not. */
#include "base/alloc.h"
#include "support/program_expect.h"
#include "support/relay_fixture.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ASKED_BYTES = 64 };

static struct relay_fixture fixture;
static struct relay_process *relay;

static void start(void)
{
        relay_fixture_begin(&fixture, postgres_shared());
        relay = relay_fixture_start(&fixture, "    types: [\"kept*\"]\n    filter: $ > 0\n");
}

static void stop(void)
{
        relay_destroy(relay);
        relay_fixture_end(&fixture);
}

TestSuite(replay, .init = start, .fini = stop);

#define REPLAY(...)                                                                                \
        program_run(NULL, "replay", "--sink", "bus", "-c", relay->config_path, __VA_ARGS__, NULL)

/* The payload of event n is n; topics a and b and the keys k0, k1, k2 take turns. */
static void publish_numbers(int first, int last, const char *type)
{
        char *sql = xasprintf(
            "SELECT count(courier.publish(CASE i %% 2 WHEN 0 THEN 'a' ELSE 'b' END, to_json(i),"
            " key => 'k' || i %% 3, type => '%s', headers => '{\"h\": \"1\"}'))"
            " FROM generate_series(%d, %d) AS i",
            type, first, last);

        database_exec(fixture.admin, sql);
        free(sql);
}

/* The payloads of the stream's entries from that index on, and of how many the marks are there. */
static void expect_entries(long long from, const char *const *payloads)
{
        long long n = 0;

        for (; payloads[n] != NULL; n++) {
        }
        relay_fixture_await(&fixture, "events", from + n);
        for (long long i = 0; i < n; i++) {
                relay_fixture_expect_field(
                    &fixture, "events", (size_t)(from + i), "payload", payloads[i]);
                relay_fixture_expect_field(&fixture, "events", (size_t)(from + i), "redriven", "1");
                relay_fixture_expect_field(
                    &fixture, "events", (size_t)(from + i), "header:replayed", "true");
                relay_fixture_expect_field(&fixture, "events", (size_t)(from + i), "header:h", "1");
        }
        await_in_database(fixture.admin, "SELECT count(*) = 0 FROM courier.parked",
            "what was replayed is settled");
        cr_expect_eq(redis_server_count(&fixture.redis, "XLEN events"), from + n);
}

#define EXPECT_ENTRIES(from, ...) expect_entries((from), (const char *const[]){__VA_ARGS__, NULL})

Test(replay, sends_the_chosen_events_again_marked_and_in_order)
{
        publish_numbers(1, 12, "kept");
        publish_numbers(13, 14, "other");
        publish_numbers(-1, 0, "kept"); /* ids 15 and 16: the filter is not true of them */
        publish_numbers(17, 17, "kept");
        relay_fixture_await(&fixture, "events", 13);
        await_in_database(fixture.admin,
            "SELECT pg_visible_in_snapshot((SELECT txid FROM courier.outbox ORDER BY txid DESC "
            "LIMIT 1), from_snapshot)"
            " FROM courier.cursor",
            "all is settled");

        expect_output(REPLAY("--from", "1", "--dry-run"),
            "13 events would be delivered to sink bus once more\n");
        expect_refusal(REPLAY("--from", "1"), 2,
            "that would deliver 13 events to sink bus once more, 100 a second; add --yes");
        expect_output(REPLAY("--from", "10", "--yes", "--rate", "1000/s"),
            "4 events are on their way to sink bus once more\n");
        EXPECT_ENTRIES(13, "10", "11", "12", "17");
        expect_output(REPLAY("--from", "beginning", "--to", "6", "--topic", "a", "--yes"),
            "3 events are on their way to sink bus once more\n");
        EXPECT_ENTRIES(17, "2", "4", "6");
        expect_output(REPLAY("--from", "1h", "--to", "6", "--key", "k1", "--yes"),
            "2 events are on their way to sink bus once more\n");
        EXPECT_ENTRIES(20, "1", "4");
        expect_refusal(
            REPLAY("--from", "1", "--to", "1d", "--yes"), 8, "sink bus has got no such event");
        cr_expect_eq(
            database_integer(fixture.admin, "SELECT count(DISTINCT from_xid) FROM courier.cursor"),
            1);
}

Test(replay, keeps_the_source_of_an_event)
{
        database_exec(fixture.admin,
            "CREATE TABLE seen (source integer, source_key text);"
            "CREATE FUNCTION see() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS"
            " 'BEGIN INSERT INTO public.seen VALUES (NEW.source, NEW.source_key); RETURN NULL; "
            "END';"
            "CREATE TRIGGER see AFTER INSERT ON courier.parked"
            " FOR EACH ROW EXECUTE FUNCTION see();"
            "INSERT INTO courier.outbox (topic, type, payload, source, source_key)"
            " VALUES ('a', 'kept', '1', 5, 'row 7')");
        relay_fixture_await(&fixture, "events", 1);
        await_in_database(fixture.admin,
            "SELECT pg_visible_in_snapshot((SELECT txid FROM courier.outbox), from_snapshot)"
            " FROM courier.cursor",
            "it is settled");
        expect_output(
            REPLAY("--from", "1", "--yes"), "1 event is on its way to sink bus once more\n");
        cr_expect_eq(database_integer(fixture.admin,
                         "SELECT count(*) FROM seen WHERE source = 5 AND source_key = 'row 7'"),
            1);
}

Test(replay, leaves_out_events_that_the_sink_has_not_passed)
{
        publish_numbers(1, 5, "kept");
        relay_fixture_await(&fixture, "events", 5);
        await_in_database(fixture.admin,
            "SELECT pg_visible_in_snapshot((SELECT txid FROM courier.outbox ORDER BY txid DESC "
            "LIMIT 1), from_snapshot)"
            " FROM courier.cursor",
            "all is settled");
        relay_stop(relay);
        publish_numbers(6, 9, "kept");
        expect_output(REPLAY("--from", "4", "--dry-run"),
            "2 events would be delivered to sink bus once more\n");
        /* The sink is asked as it is configured now. */
        cr_assert_eq(process_run((const char *const[]){"sed", "-i", "/filter/d; s/kept/other/",
                                     relay->config_path, NULL},
                         NULL, false),
            0);
        expect_refusal(REPLAY("--from", "1", "--dry-run"), 8, "sink bus has got no such event");
        process_run(
            (const char *const[]){"sed", "-i", "/types/d", relay->config_path, NULL}, NULL, false);
        expect_output(REPLAY("--from", "2", "--dry-run"),
            "4 events would be delivered to sink bus once more\n");
}

/* It has asked once more how many are due, and still not gone on. */
static bool waits_with_three_batches(void *context)
{
        char *first_asked = context;
        char *asked;
        bool is_again;

        if (database_integer(fixture.admin, "SELECT count(*) FROM courier.parked") != 3000)
                return false;
        asked = database_value(fixture.admin,
            "SELECT max(query_start) FROM pg_stat_activity WHERE usename = 'relay'"
            " AND query LIKE 'SELECT count(*) FROM (SELECT FROM courier.parked%'");
        if (*first_asked == '\0')
                snprintf(first_asked, ASKED_BYTES, "%s", asked);
        is_again = *asked != '\0' && strcmp(asked, first_asked) != 0;
        free(asked);
        return is_again;
}

/* Without a relay it waits when two batches are due. */
Test(replay, waits_for_the_relay_and_says_where_it_was_interrupted)
{
        const char *argv[] = {getenv("PGCOURIER"), "replay", "--sink", "bus", "--from", "1",
            "--yes", "--rate", "20000/s", "-c", relay->config_path, NULL};
        char *folder = temp_folder();
        char *path = xasprintf("%s/output", folder);
        char first_asked[ASKED_BYTES] = "";
        struct process process;
        char *output;

        publish_numbers(1, 4000, "kept");
        relay_fixture_await(&fixture, "events", 4000);
        await_in_database(fixture.admin,
            "SELECT pg_visible_in_snapshot((SELECT txid FROM courier.outbox ORDER BY txid DESC "
            "LIMIT 1), from_snapshot)"
            " FROM courier.cursor",
            "all is settled");
        relay_stop(relay);
        process_start(&process, argv, path, false);
        wait_until(waits_with_three_batches, first_asked, 30000, "it waits with three batches");
        process_signal(&process, SIGINT);
        cr_expect_eq(process_wait(&process, 30000), 75);
        output = read_file(path);
        cr_expect_not_null(strstr(output, "3000 events are on their way"), "%s", output);
        cr_expect_not_null(
            strstr(output, "the rest begins at id 3001: give --from 3001 to go on"), "%s", output);
        relay_start_again(relay);
        relay_fixture_await(&fixture, "events", 7000);
        free(output);
        free(path);
        free(folder);
}

Test(replay, says_what_is_wrong)
{
        expect_refusal(
            program_run(NULL, "replay", "--sink", "bus", "--from", "1", NULL), 2, "replay needs");
        expect_refusal(REPLAY("--from", "yesterday"), 2, "--from: \"yesterday\" is not an ID");
        expect_refusal(
            REPLAY("--from", "1", "--rate", "fast"), 2, "--rate: \"fast\" is not a number");
        expect_refusal(REPLAY("--from", "1", "--topic", "!a"), 2, "--topic: \"!a\" excludes");
        expect_refusal(program_run(NULL, "replay", "--sink", "no", "--from", "1", "-c",
                           relay->config_path, NULL),
            2, "the configuration has no sink \"no\"");
        expect_refusal(
            REPLAY("--from", "1", "--receiver", "x"), 2, "sink bus has no receiver \"x\"");
}
