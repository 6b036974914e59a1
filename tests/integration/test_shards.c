/* A sink with several shards: each has a lock, a cursor and a window of its own, one relay may own
 * some of them and another the others, and their number may change. */
#include "support/http_receiver.h"
#include "support/program.h"
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

static void reload(const struct relay_fixture *fixture, struct relay_process *relay, unsigned n)
{
        relay_reload(relay,
            "postgres: {dsn: \"%s\"}\n"
            "relay: {standby: 50ms}\n"
            "sinks:\n"
            "  - {name: bus, topics: [\"**\"], start: beginning, shards: %u, max_in_flight: 60,\n"
            "     redis: {url: \"unix://%s\", stream: events}}\n",
            fixture->relay, n, fixture->redis.socket_path);
}

Test(shards, change_in_number_by_reloads)
{
        static const unsigned numbers[] = {5, 2, 3, 1, 4};
        struct relay_fixture fixture;
        struct relay_process *relay;
        struct filter_result verdict;

        relay_fixture_begin(&fixture, postgres_shared());
        relay = start(&fixture, 3);
        relay_fixture_write(&fixture, 27);
        relay_fixture_await_more(&fixture, 100);
        for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
                reload(&fixture, relay, numbers[i]);
                await_shards(&fixture, numbers[i]);
                relay_fixture_await_more(&fixture, 100);
        }
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

static struct relay_process *start_hooks(
    const struct relay_fixture *fixture, const struct http_receiver *http, unsigned n_shards)
{
        return relay_start("postgres: {dsn: \"%s\"}\n"
                           "relay: {standby: 50ms}\n"
                           "sinks:\n"
                           "  - {name: bus, topics: [\"**\"], start: beginning, shards: %u,\n"
                           "     http: {receivers: table, allow_networks: [127.0.0.1],"
                           " allow_ports: [%u]}}\n",
            fixture->relay, n_shards, http_receiver_port(http));
}

static void publish_hundred(struct relay_fixture *fixture)
{
        database_exec(fixture->admin, "SELECT courier.publish('t', to_json(n), key => 'k' || n % 7)"
                                      " FROM generate_series(1, 100) AS n ORDER BY n");
}

/* Receivers are divided by their numbers; each gets each event once, whichever relay has it. */
Test(shards, divide_receivers)
{
        enum { N_RECEIVERS = 10 };
        struct relay_fixture fixture;
        struct http_receiver *http = http_receiver_start(NULL, NULL);
        struct relay_process *first, *second, *third;
        char target[16];

        relay_fixture_begin(&fixture, postgres_shared());
        first = start_hooks(&fixture, http, 4);
        await_owners(&fixture, 1, 4);
        for (int i = 0; i < N_RECEIVERS; i++) {
                char sql[160];
                snprintf(sql, sizeof sql,
                    "INSERT INTO courier.receiver (sink, name, url)"
                    " VALUES ('bus', 'r%d', 'http://127.0.0.1:%u/r%d')",
                    i, http_receiver_port(http), i);
                database_exec(fixture.admin, sql);
        }
        publish_hundred(&fixture);
        second = start_hooks(&fixture, http, 4);
        await_owners(&fixture, 2, 2);
        publish_hundred(&fixture);
        http_receiver_wait(http, N_RECEIVERS * 200, DEADLINE_MS);
        third = start_hooks(&fixture, http, 6);
        await_owners(&fixture, 1, 6);
        publish_hundred(&fixture);
        http_receiver_wait(http, N_RECEIVERS * 300, DEADLINE_MS);
        relay_stop(first);
        relay_stop(second);
        relay_stop(third);

        for (int i = 0; i < N_RECEIVERS; i++) {
                snprintf(target, sizeof target, "/r%d", i);
                cr_expect_eq(http_receiver_count(http, target), 300, "%s got %u", target,
                    http_receiver_count(http, target));
        }
        relay_destroy(first);
        relay_destroy(second);
        relay_destroy(third);
        http_receiver_destroy(http);
        relay_fixture_end(&fixture);
}

/* The same of receivers: one that hangs keeps those of other shards waiting for nothing. */
Test(shards, of_receivers_are_replaced_one_by_one)
{
        static const char config[] =
            "postgres: {dsn: \"%s\"}\n"
            "sinks:\n"
            "  - {name: bus, topics: [\"**\"], start: beginning, shards: 4, max_in_flight: %u,\n"
            "     http: {receivers: table, timeout: 60s, allow_networks: [127.0.0.1],"
            " allow_ports: [%u]}}\n";
        struct relay_fixture fixture;
        struct http_receiver *http = http_receiver_start(NULL, NULL);
        struct relay_process *relay;
        char sql[200];

        relay_fixture_begin(&fixture, postgres_shared());
        relay = relay_start(config, fixture.relay, 100, http_receiver_port(http));
        await_owners(&fixture, 1, 4);
        snprintf(sql, sizeof sql,
            "INSERT INTO courier.receiver (sink, name, url, topics) SELECT 'bus', t,"
            " 'http://127.0.0.1:%u/' || t, ARRAY[t] FROM unnest(ARRAY['slow', 'quick']) AS t",
            http_receiver_port(http));
        database_exec(fixture.admin, sql);
        http_receiver_answer_next(http, &(struct http_answer){.is_held = true});
        publish(fixture.admin, "slow", "k", "held");
        http_receiver_wait(http, 1, DEADLINE_MS);
        relay_reload(relay, config, fixture.relay, 50, http_receiver_port(http));
        relay_wait_for_log(relay, "event=sink_changed", DEADLINE_MS);
        publish(fixture.admin, "slow", "k", "behind");
        publish(fixture.admin, "quick", "k", "other");
        http_receiver_wait_for(http, "/quick", 1, DEADLINE_MS);
        cr_expect_eq(http_receiver_count(http, "/slow"), 1);
        http_receiver_release(http);
        http_receiver_wait_for(http, "/slow", 2, DEADLINE_MS);
        relay_wait_for_log(relay, "event=reloaded", DEADLINE_MS);
        relay_stop(relay);

        cr_expect_eq(http_receiver_n_requests(http), 3);
        relay_destroy(relay);
        http_receiver_destroy(http);
        relay_fixture_end(&fixture);
}

#define HOOK                                                                                       \
        "postgres: {dsn: \"%s\"}\n"                                                                \
        "relay: {standby: 50ms, sweep: 1h, drain: 1h}\n"                                           \
        "sinks:\n"                                                                                 \
        "  - {name: bus, topics: [\"**\"], start: beginning, shards: %u, max_in_flight: %u,\n"     \
        "     http: {url: \"http://127.0.0.1:%u/\", timeout: 60s}}\n"

static struct relay_process *start_hook(
    const struct relay_fixture *fixture, const struct http_receiver *http, unsigned n_shards)
{
        return relay_start(HOOK, fixture->relay, n_shards, 100, http_receiver_port(http));
}

/* A destination that does not answer does not keep the number from being changed: what was in
 * flight comes again, and nothing else does. */
Test(shards, change_in_number_while_an_attempt_hangs)
{
        struct relay_fixture fixture;
        struct http_receiver *http = http_receiver_start(NULL, NULL);
        struct relay_process *older, *newer;

        relay_fixture_begin(&fixture, postgres_shared());
        older = start_hook(&fixture, http, 2);
        await_shards(&fixture, 2);
        http_receiver_answer_next(http, &(struct http_answer){.is_held = true});
        publish(fixture.admin, "t", "a", "held");
        http_receiver_wait(http, 1, DEADLINE_MS);
        publish(fixture.admin, "t", "b", "answered");
        http_receiver_wait(http, 2, DEADLINE_MS);
        newer = start_hook(&fixture, http, 3);
        relay_wait_for_log(older, "event=shard_abandoned", DEADLINE_MS);
        await_shards(&fixture, 3);
        publish(fixture.admin, "t", "a", "behind");
        http_receiver_wait(http, 4, DEADLINE_MS);

        cr_expect_str_eq(http_receiver_request(http, 2)->body, "\"held\"");
        cr_expect_str_eq(http_receiver_request(http, 3)->body, "\"behind\"");
        cr_expect_eq(relay_count_in_log(older, "event=shard_abandoned"), 1);
        http_receiver_release(http);
        relay_stop(older);
        relay_stop(newer);
        cr_expect_eq(http_receiver_n_requests(http), 4);
        relay_destroy(older);
        relay_destroy(newer);
        http_receiver_destroy(http);
        relay_fixture_end(&fixture);
}

/* `text` with a key of that shard, of four. */
static void publish_to_shard(struct relay_fixture *fixture, unsigned shard, const char *text)
{
        char sql[200];

        snprintf(sql, sizeof sql,
            "SELECT courier.publish('t', '\"%s\"', key => (SELECT min(n::text)"
            " FROM generate_series(1, 99) AS n WHERE courier.shard_of(n::text, 4) = %u))",
            text, shard);
        database_exec(fixture->admin, sql);
}

/* What operators put back into a shard is delivered at once. */
Test(shards, deliver_what_is_redriven)
{
        struct relay_fixture fixture;
        struct http_receiver *http = http_receiver_start(NULL, NULL);
        struct relay_process *relay;
        struct program_run run;

        relay_fixture_begin(&fixture, postgres_shared());
        relay = start_hook(&fixture, http, 4);
        await_shards(&fixture, 4);
        for (unsigned shard = 0; shard < 4; shard++) {
                http_receiver_answer_next(
                    http, &(struct http_answer){
                              .status = 422, .headers = {"webhook-delivery: abort-message"}});
                publish_to_shard(&fixture, shard, "refused");
                http_receiver_wait(http, shard + 1, DEADLINE_MS);
        }
        await_in_database(
            fixture.admin, "SELECT count(*) = 4 FROM courier.dead_letter", "they are given up");
        run = program_run(NULL, "dead", "redrive", "--all", "--yes", "--dsn", fixture.dsn, NULL);
        cr_expect_eq(run.code, 0, "%s", run.err);
        program_run_free(&run);
        http_receiver_wait(http, 8, DEADLINE_MS);
        relay_stop(relay);

        cr_expect_eq(http_receiver_n_requests(http), 8);
        relay_destroy(relay);
        http_receiver_destroy(http);
        relay_fixture_end(&fixture);
}

/* A reload replaces the sink; its other shards do not wait for the attempt that hangs in one. */
Test(shards, are_replaced_one_by_one)
{
        struct relay_fixture fixture;
        struct http_receiver *http = http_receiver_start(NULL, NULL);
        struct relay_process *relay;

        relay_fixture_begin(&fixture, postgres_shared());
        relay = start_hook(&fixture, http, 4);
        await_shards(&fixture, 4);
        http_receiver_answer_next(http, &(struct http_answer){.is_held = true});
        publish_to_shard(&fixture, 2, "held");
        http_receiver_wait(http, 1, DEADLINE_MS);
        relay_reload(relay, HOOK, fixture.relay, 4, 50, http_receiver_port(http));
        relay_wait_for_log(relay, "event=sink_changed", DEADLINE_MS);
        publish_to_shard(&fixture, 2, "behind");
        publish_to_shard(&fixture, 0, "other");
        publish_to_shard(&fixture, 1, "other");
        publish_to_shard(&fixture, 3, "other");
        http_receiver_wait(http, 4, DEADLINE_MS);
        for (unsigned i = 1; i < 4; i++)
                cr_expect_str_eq(http_receiver_request(http, i)->body, "\"other\"");
        cr_expect_eq(relay_count_in_log(relay, "event=reloaded"), 0);
        http_receiver_release(http);
        http_receiver_wait(http, 5, DEADLINE_MS);
        relay_wait_for_log(relay, "event=reloaded", DEADLINE_MS);
        relay_stop(relay);

        cr_expect_str_eq(http_receiver_request(http, 4)->body, "\"behind\"");
        cr_expect_eq(http_receiver_n_requests(http), 5);
        relay_destroy(relay);
        http_receiver_destroy(http);
        relay_fixture_end(&fixture);
}

/* A relay that is drained by hand hands its shards over, and gets its share again. */
Test(shards, leave_a_drained_relay)
{
        struct relay_fixture fixture;
        struct relay_process *first, *second;
        struct filter_result verdict;

        relay_fixture_begin(&fixture, postgres_shared());
        first = start(&fixture, 4);
        second = start(&fixture, 4);
        relay_fixture_write(&fixture, 26);
        await_owners(&fixture, 2, 2);
        database_exec(fixture.admin,
            "UPDATE courier.member SET is_drained = true WHERE name = (SELECT min(name) FROM"
            " courier.live_member); NOTIFY courier_control");
        await_owners(&fixture, 1, 4);
        relay_fixture_await_more(&fixture, 100);
        database_exec(
            fixture.admin, "UPDATE courier.member SET is_drained = false; NOTIFY courier_control");
        await_owners(&fixture, 2, 2);
        relay_stop(second);
        verdict = relay_fixture_check(&fixture, first);

        cr_expect_eq(verdict.n_repeated, 0, "%zu events came twice", verdict.n_repeated);
        relay_destroy(first);
        relay_destroy(second);
        relay_fixture_end(&fixture);
}

/* A relay with relay.sinks owns shards of these alone, and the others are not left without. */
Test(shards, are_owned_by_relays_that_serve_their_sink)
{
        static const char config[] = "postgres: {dsn: \"%s\"}\n"
                                     "relay: {standby: 50ms, name: %s%s}\n"
                                     "sinks:\n"
                                     "  - {name: a1, topics: [\"**\"], shards: 3, stdout: {}}\n"
                                     "  - {name: b1, topics: [\"**\"], shards: 3, stdout: {}}\n";
        struct relay_fixture fixture;
        struct relay_process *all, *only_a;

        relay_fixture_begin(&fixture, postgres_shared());
        all = relay_start(config, fixture.relay, "all", "");
        only_a = relay_start(config, fixture.relay, "only-a", ", sinks: [\"a*\"]");
        await_in_database(fixture.admin,
            "SELECT count(*) = 2 AND bool_and(n = 3) FROM (SELECT name, sink, count(*) AS n"
            " FROM courier.cursor JOIN courier.relay_lock USING (lock_id)"
            " JOIN courier.live_member USING (pid)"
            " WHERE (name, sink) IN (('all', 'b1'), ('only-a', 'a1')) GROUP BY 1, 2) AS owner",
            "the shards are not where they should be");
        relay_reload(all, config, fixture.relay, "all", ", sinks: [\"b*\"]");
        relay_wait_for_log(
            all, "event=sink_removed sink=a1 hint=\"relay.sinks leaves it to", DEADLINE_MS);
        relay_reload(all, config, fixture.relay, "all", "");
        relay_wait_for_log(all, "event=sink_added sink=a1", DEADLINE_MS);
        relay_stop(only_a);
        await_in_database(fixture.admin,
            "SELECT count(*) = 6 FROM courier.cursor JOIN courier.relay_lock USING (lock_id)",
            "the shards of a1 have no owner");
        relay_stop(all);
        relay_destroy(only_a);
        relay_destroy(all);
        relay_fixture_end(&fixture);
}
