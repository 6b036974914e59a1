/* One sink, many receivers: rows of courier.receiver, each with an order, retries and an end of its
 * own. */
#include "base/alloc.h"
#include "support/http_receiver.h"
#include "support/postgres.h"
#include "support/process.h"
#include "support/relay_fixture.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct fixture {
        struct relay_fixture relay;
        struct http_receiver *http;
        struct http_receiver *other; /* at another port */
        struct relay_process *process;
};

/* `http` are more keys of the sink's block, each after a comma. */
static void start_sweeping(struct fixture *fixture, const char *each, const char *http)
{
        fixture->process = relay_start("postgres:\n"
                                       "  dsn: \"%s\"\n"
                                       "relay: {sweep: %s, standby: 100ms}\n"
                                       "log: {level: debug}\n"
                                       "sinks:\n"
                                       "  - name: hooks\n"
                                       "    topics: [\"**\"]\n"
                                       "    retry: {first: 10ms, max: 20ms}\n"
                                       "    http: {receivers: table, allow_networks: [127.0.0.1],"
                                       " allow_ports: [%u, %u]%s}\n",
            fixture->relay.relay, each, http_receiver_port(fixture->http),
            http_receiver_port(fixture->other), http);
        relay_wait_for_log(fixture->process, "event=receivers_read", 10000);
}

static void start(struct fixture *fixture, const char *http)
{
        start_sweeping(fixture, "200ms", http);
}

static void begin(struct fixture *fixture)
{
        relay_fixture_begin(&fixture->relay, postgres_shared());
        fixture->http = http_receiver_start(NULL, NULL);
        fixture->other = http_receiver_start(NULL, NULL);
        fixture->process = NULL;
}

static void end(struct fixture *fixture)
{
        relay_destroy(fixture->process);
        http_receiver_destroy(fixture->http);
        http_receiver_destroy(fixture->other);
        relay_fixture_end(&fixture->relay);
}

/* Its requests go to /NAME. `columns` and `values` are more of the row: ", topics", ", '{a}'". */
static void add_at(struct fixture *fixture, const char *name, unsigned port, const char *columns,
    const char *values)
{
        char *sql = xasprintf("INSERT INTO courier.receiver (sink, name, url%s)"
                              " VALUES ('hooks', '%s', 'http://127.0.0.1:%u/%s'%s)",
            columns, name, port, name, values);

        database_exec(fixture->relay.admin, sql);
        free(sql);
}

static void add(struct fixture *fixture, const char *name, const char *columns, const char *values)
{
        add_at(fixture, name, http_receiver_port(fixture->http), columns, values);
}

static bool is_for(const struct http_request *request, const char *name)
{
        return strcmp(request->target + 1, name) == 0;
}

/* The bodies that a receiver got, in order, "1 2 3". */
static char *bodies(struct fixture *fixture, const char *name)
{
        char *all = xstrdup("");

        for (unsigned i = 0, n = http_receiver_n_requests(fixture->http); i < n; i++) {
                const struct http_request *request = http_receiver_request(fixture->http, i);
                char *longer;
                if (!is_for(request, name))
                        continue;
                longer = xasprintf("%s%s%s", all, *all != '\0' ? " " : "", request->body);
                free(all);
                all = longer;
        }
        return all;
}

static void expect_bodies(struct fixture *fixture, const char *name, const char *expected)
{
        char *got = bodies(fixture, name);

        cr_expect_str_eq(got, expected, "%s got %s, not %s", name, got, expected);
        free(got);
}

static void publish_numbers(struct fixture *fixture, const char *topic, int from, int to)
{
        char *sql = xasprintf("SELECT courier.publish('%s', to_json(n), key => 'k')"
                              " FROM generate_series(%d, %d) AS n ORDER BY n",
            topic, from, to);

        database_exec(fixture->relay.admin, sql);
        free(sql);
}

static struct http_answer refuse_a(void *context, const struct http_request *request)
{
        const unsigned *status = context;

        return (struct http_answer){.status = is_for(request, "a") ? *status : 204};
}

Test(fanout, delivers_each_event_to_every_receiver_that_takes_it)
{
        struct fixture fixture;

        begin(&fixture);
        add(&fixture, "all", "", "");
        add(&fixture, "orders", ", topics", ", '{orders.*}'");
        add(&fixture, "no_tests", ", topics, types", ", '{**,!orders.test}', '{}'");
        start(&fixture, "");
        publish_numbers(&fixture, "orders.new", 1, 3);
        publish_numbers(&fixture, "orders.test", 4, 4);
        publish_numbers(&fixture, "invoices", 5, 6);

        http_receiver_wait_for(fixture.http, "/all", 6, 20000);
        http_receiver_wait_for(fixture.http, "/orders", 4, 20000);
        http_receiver_wait_for(fixture.http, "/no_tests", 5, 20000);
        expect_bodies(&fixture, "all", "1 2 3 4 5 6");
        expect_bodies(&fixture, "orders", "1 2 3 4");
        expect_bodies(&fixture, "no_tests", "1 2 3 5 6");
        relay_stop(fixture.process);
        end(&fixture);
}

Test(fanout, lets_a_dead_receiver_delay_no_other_and_delivers_to_it_when_it_is_back)
{
        struct fixture fixture;
        struct http_receiver *late;

        begin(&fixture);
        late = fixture.other;
        http_receiver_stop(late);
        add_at(&fixture, "dead", http_receiver_port(late), "", "");
        add(&fixture, "alive", "", "");
        start(&fixture, "");
        publish_numbers(&fixture, "t", 1, 300);

        http_receiver_wait_for(fixture.http, "/alive", 300, 20000);
        await_in_database(fixture.relay.admin, "SELECT count(*) = 0 FROM courier.parked",
            "nothing is parked for a dead receiver");
        http_receiver_restart(late);
        http_receiver_wait(late, 300, 20000);
        for (unsigned i = 0; i < 300; i++) {
                char body[8];
                snprintf(body, sizeof body, "%u", i + 1);
                cr_assert_str_eq(http_receiver_request(late, i)->body, body);
        }
        cr_expect_eq(http_receiver_count(fixture.http, "/alive"), 300);
        relay_stop(fixture.process);
        end(&fixture);
}

/* All receivers share one attempt. A sink of its own tells that the topic `other` was read. */
static void start_with_one_attempt(struct fixture *fixture)
{
        char *rest = xasprintf("}\n"
                               "    concurrency: 1\n"
                               "  - name: watcher\n"
                               "    topics: [other]\n"
                               "    http: {url: \"http://127.0.0.1:%u/\"",
            http_receiver_port(fixture->other));

        start_sweeping(fixture, "1h", rest);
        free(rest);
}

static void publish_to_other(struct fixture *fixture, int number)
{
        publish_numbers(fixture, "other", number, number);
        http_receiver_wait(fixture->other, 1, 20000);
}

/* Two wait for the attempt, and then their rates forbid it for hours. */
Test(fanout, passes_an_attempt_on_that_the_first_in_line_may_not_start)
{
        struct fixture fixture;
        const struct http_answer held = {.is_held = true};

        begin(&fixture);
        add(&fixture, "limited", ", topics, rate, burst", ", '{limited}', 0.0001, 1");
        add(&fixture, "scarce", ", topics, rate, burst", ", '{limited}', 0.0001, 1");
        add(&fixture, "slow", ", topics", ", '{slow}'");
        add(&fixture, "other", ", topics", ", '{other}'");
        start_with_one_attempt(&fixture);
        publish_numbers(&fixture, "limited", 1, 1);
        http_receiver_wait_for(fixture.http, "/limited", 1, 20000);
        http_receiver_wait_for(fixture.http, "/scarce", 1, 20000);
        http_receiver_answer_next(fixture.http, &held);
        publish_numbers(&fixture, "slow", 2, 2);
        http_receiver_wait_for(fixture.http, "/slow", 1, 20000);
        publish_numbers(&fixture, "limited", 3, 3);
        publish_to_other(&fixture, 4);
        http_receiver_release(fixture.http);
        http_receiver_wait_for(fixture.http, "/other", 1, 20000);
        publish_numbers(&fixture, "other", 5, 5);
        http_receiver_wait_for(fixture.http, "/other", 2, 20000);
        expect_bodies(&fixture, "limited", "1");
        expect_bodies(&fixture, "scarce", "1");
        relay_stop(fixture.process);
        end(&fixture);
}

Test(fanout, gives_an_attempt_to_a_receiver_in_line_before_one_that_had_it)
{
        struct fixture fixture;
        const struct http_answer held = {.is_held = true};

        begin(&fixture);
        add(&fixture, "busy", ", topics", ", '{busy}'");
        add(&fixture, "other", ", topics", ", '{other}'");
        start_with_one_attempt(&fixture);
        http_receiver_answer_next(fixture.http, &held);
        publish_numbers(&fixture, "busy", 1, 1);
        http_receiver_wait(fixture.http, 1, 20000);
        publish_numbers(&fixture, "busy", 2, 59);
        publish_to_other(&fixture, 60);
        http_receiver_release(fixture.http);
        http_receiver_wait(fixture.http, 60, 20000);
        cr_expect(is_for(http_receiver_request(fixture.http, 59), "busy"),
            "it had to wait until the other had nothing left");
        relay_stop(fixture.process);
        end(&fixture);
}

Test(fanout, begins_where_a_receiver_was_added_though_no_relay_ran)
{
        struct fixture fixture;

        begin(&fixture);
        publish_numbers(&fixture, "t", 1, 2);
        add(&fixture, "early", "", "");
        publish_numbers(&fixture, "t", 3, 4);
        add(&fixture, "late", "", "");
        add(&fixture, "historian", ", start", ", 'beginning'");
        publish_numbers(&fixture, "t", 5, 6);
        start(&fixture, "");
        http_receiver_wait_for(fixture.http, "/historian", 6, 20000);
        http_receiver_wait_for(fixture.http, "/early", 4, 20000);
        http_receiver_wait_for(fixture.http, "/late", 2, 20000);
        expect_bodies(&fixture, "historian", "1 2 3 4 5 6");
        expect_bodies(&fixture, "early", "3 4 5 6");
        expect_bodies(&fixture, "late", "5 6");
        relay_stop(fixture.process);
        end(&fixture);
}

/* A look of the owner lane, from now on. */
static void await_look(struct fixture *fixture)
{
        char *now = database_value(fixture->relay.admin, "SELECT clock_timestamp()::text");
        char *sql = xasprintf("SELECT count(*) > 0 FROM pg_stat_activity WHERE datname ="
                              " current_database() AND pid <> pg_backend_pid()"
                              " AND query LIKE '%%pg_current_snapshot() AS snapshot%%'"
                              " AND query_start > '%s'",
            now);

        await_in_database(fixture->relay.admin, sql, "a look");
        free(sql);
        free(now);
}

/* A page with nothing new is not what the next look is answered with. */
Test(fanout, goes_on_after_looks_that_found_nothing)
{
        struct fixture fixture;

        begin(&fixture);
        add(&fixture, "one", ", topics", ", '{one}'");
        add(&fixture, "both", "", "");
        start(&fixture, "");
        for (int i = 1; i <= 3; i++) {
                publish_numbers(&fixture, i == 2 ? "other" : "one", i, i);
                http_receiver_wait_for(fixture.http, "/both", (unsigned)i, 20000);
                await_look(&fixture);
        }
        http_receiver_wait_for(fixture.http, "/one", 2, 20000);
        expect_bodies(&fixture, "one", "1 3");
        expect_bodies(&fixture, "both", "1 2 3");
        relay_stop(fixture.process);
        end(&fixture);
}

/* Its lane reads cells that the others have left long ago. */
Test(fanout, serves_receivers_in_different_cells_of_the_log)
{
        struct fixture fixture;

        begin(&fixture);
        publish_numbers(&fixture, "t", 1, 3);
        database_exec(fixture.relay.admin, "SELECT setval('courier.outbox_id_seq', 262142)");
        add(&fixture, "ahead", "", "");
        start(&fixture, "");
        publish_numbers(&fixture, "t", 4, 7);
        http_receiver_wait_for(fixture.http, "/ahead", 4, 20000);
        database_exec(fixture.relay.admin, "SELECT setval('courier.outbox_id_seq', 524286)");
        publish_numbers(&fixture, "t", 8, 9);
        http_receiver_wait_for(fixture.http, "/ahead", 6, 20000);
        add(&fixture, "behind", ", start", ", 'beginning'");
        publish_numbers(&fixture, "t", 10, 12);
        http_receiver_wait_for(fixture.http, "/behind", 12, 20000);
        http_receiver_wait_for(fixture.http, "/ahead", 9, 20000);
        expect_bodies(&fixture, "ahead", "4 5 6 7 8 9 10 11 12");
        expect_bodies(&fixture, "behind", "1 2 3 4 5 6 7 8 9 10 11 12");
        relay_stop(fixture.process);
        end(&fixture);
}

/* What was written between the insert of a receiver and its first claim may be of any number of
 * transactions: each is looked at once, not in each page. */
Test(fanout, reads_once_what_was_written_between_the_insert_of_a_receiver_and_its_first_claim)
{
        enum { N = 20000, TAKEN = 500 };
        struct fixture fixture;

        begin(&fixture);
        add(&fixture, "late", ", topics", ", '{taken}'");
        /* Each as if its own transaction had published it; a rolled back block has an id of its
         * own, too. */
        database_exec(fixture.relay.admin,
            "CREATE TABLE burnt (n integer);"
            "DO $$ BEGIN FOR i IN 1..20100 LOOP"
            " BEGIN INSERT INTO burnt VALUES (i); RAISE division_by_zero;"
            " EXCEPTION WHEN division_by_zero THEN NULL; END; END LOOP; END $$;"
            "INSERT INTO courier.outbox (txid, topic, payload)"
            " SELECT (pg_snapshot_xmax(start_snapshot)::text::bigint + n)::text::xid8,"
            "  CASE WHEN n % 40 = 0 THEN 'taken' ELSE 'other' END, to_json(n / 40)"
            " FROM courier.receiver, generate_series(1, 20000) AS n ORDER BY n");
        start(&fixture, "");
        http_receiver_wait_for(fixture.http, "/late", TAKEN, 20000);
        relay_stop(fixture.process);
        cr_expect_eq(http_receiver_count(fixture.http, "/late"), TAKEN);
        database_await_no_relay(fixture.relay.admin);
        cr_expect_lt(database_integer(fixture.relay.admin,
                         "SELECT sum(idx_tup_read)::bigint FROM pg_stat_all_indexes"
                         " WHERE relid IN (SELECT relid FROM pg_partition_tree('courier.outbox'))"),
            10 * N, "of the index on the ids");
        end(&fixture);
}

/* When the one has ended, the relay does not know yet that the other is gone, and has something
 * to settle for it. */
Test(fanout, goes_on_when_a_receiver_ends_after_another_was_deleted_unnoticed)
{
        struct fixture fixture;

        begin(&fixture);
        http_receiver_answer(fixture.other, &(struct http_answer){.is_held = true});
        add_at(&fixture, "first", http_receiver_port(fixture.other), "", "");
        add(&fixture, "second", "", "");
        start_sweeping(&fixture, "1h", "");
        publish_numbers(&fixture, "t", 1, 1);
        http_receiver_wait_for(fixture.http, "/second", 1, 20000);
        http_receiver_wait(fixture.other, 1, 20000);

        database_exec(fixture.relay.admin, "DELETE FROM courier.receiver WHERE name = 'first'");
        relay_wait_for_log(fixture.process, "event=receiver_removed sink=hooks/first", 10000);
        database_exec(fixture.relay.admin, "SET session_replication_role = replica;"
                                           "DELETE FROM courier.receiver WHERE name = 'second';"
                                           "RESET session_replication_role");
        http_receiver_release(fixture.other);
        await_in_database(fixture.relay.admin,
            "SELECT count(*) = 0 FROM courier.cursor AS c WHERE lane = 1", "the first has ended");
        publish_numbers(&fixture, "t", 2, 2);
        http_receiver_wait_for(fixture.http, "/second", 2, 20000);
        await_in_database(fixture.relay.admin,
            "SELECT greatest(from_floor, last_id) >= 2 FROM courier.cursor WHERE lane = 2 UNION ALL"
            " SELECT false",
            "what the second got is settled");
        database_exec(fixture.relay.admin, "NOTIFY courier_control");
        relay_wait_for_log(fixture.process, "event=receiver_removed sink=hooks/second", 10000);
        await_in_database(fixture.relay.admin, "SELECT count(*) = 1 FROM courier.cursor",
            "and so has the second");
        relay_stop(fixture.process);
        cr_expect_eq(relay_count_in_log(fixture.process, "event=outbox_connection_lost"), 0);
        end(&fixture);
}

Test(fanout, takes_up_changes_without_a_restart)
{
        struct fixture fixture;

        begin(&fixture);
        start(&fixture, "");
        add(&fixture, "a", "", "");
        publish_numbers(&fixture, "t", 1, 1);
        http_receiver_wait_for(fixture.http, "/a", 1, 20000);

        database_exec(fixture.relay.admin,
            "UPDATE courier.receiver SET state = 'paused', state_reason = 'quiet, please'");
        relay_wait_for_log(fixture.process, "event=receiver_paused", 10000);
        publish_numbers(&fixture, "t", 2, 2);
        add(&fixture, "b", "", "");
        publish_numbers(&fixture, "t", 3, 3);
        http_receiver_wait_for(fixture.http, "/b", 1, 20000);
        cr_expect_eq(http_receiver_count(fixture.http, "/a"), 1, "it is paused");

        database_exec(fixture.relay.admin,
            "UPDATE courier.receiver SET url = replace(url, '/a', '/moved'), state = 'active'"
            " WHERE name = 'a'");
        http_receiver_wait_for(fixture.http, "/moved", 2, 20000);
        expect_bodies(&fixture, "moved", "2 3");
        expect_bodies(&fixture, "a", "1");

        database_exec(fixture.relay.admin, "DELETE FROM courier.receiver WHERE name = 'a'");
        await_in_database(fixture.relay.admin, "SELECT count(*) = 2 FROM courier.cursor",
            "the cursor of the one removed is gone");
        publish_numbers(&fixture, "t", 4, 4);
        http_receiver_wait_for(fixture.http, "/b", 2, 20000);
        expect_bodies(&fixture, "b", "3 4");
        cr_expect_eq(http_receiver_count(fixture.http, "/moved"), 2);
        relay_stop(fixture.process);
        end(&fixture);
}

Test(fanout, takes_up_a_receiver_whose_transaction_took_longer_than_the_next)
{
        struct fixture fixture;
        PGconn *slow;
        char *sql;

        begin(&fixture);
        start(&fixture, "");
        slow = database_connect(fixture.relay.dsn);
        sql = xasprintf("BEGIN; INSERT INTO courier.receiver (sink, name, url)"
                        " VALUES ('hooks', 'slow', 'http://127.0.0.1:%u/slow')",
            http_receiver_port(fixture.http));
        database_exec(slow, sql);
        add(&fixture, "next", "", "");
        publish_numbers(&fixture, "t", 1, 1);
        http_receiver_wait_for(fixture.http, "/next", 1, 20000);

        database_exec(slow, "COMMIT");
        publish_numbers(&fixture, "t", 2, 2);
        http_receiver_wait_for(fixture.http, "/slow", 2, 20000);
        http_receiver_wait_for(fixture.http, "/next", 2, 20000);
        expect_bodies(&fixture, "next", "1 2");
        relay_stop(fixture.process);
        PQfinish(slow);
        free(sql);
        end(&fixture);
}

Test(fanout, gives_up_events_of_one_receiver_and_of_no_other)
{
        struct fixture fixture;
        unsigned status = 422;

        begin(&fixture);
        http_receiver_decide(fixture.http, refuse_a, &status);
        add(&fixture, "a", "", "");
        add(&fixture, "b", "", "");
        start(&fixture, "");
        publish_numbers(&fixture, "t", 1, 3);
        await_in_database(fixture.relay.admin,
            "SELECT count(*) = 3 FROM courier.dead_letter d, courier.receiver e"
            " WHERE d.lane = e.id AND e.name = 'a' AND d.target LIKE '%/a'",
            "all three are dead letters of a");
        await_in_database(fixture.relay.admin,
            "SELECT last_id > 0 OR from_floor >= 3 FROM courier.cursor c, courier.receiver e"
            " WHERE c.lane = e.id AND e.name = 'b'",
            "b has them");
        cr_expect_eq(
            database_integer(fixture.relay.admin, "SELECT count(*) FROM courier.dead_letter"), 3);
        relay_stop(fixture.process);
        end(&fixture);
}

Test(fanout, disables_a_receiver_that_answers_410_and_says_so)
{
        struct fixture fixture;
        unsigned status = 410;

        begin(&fixture);
        http_receiver_decide(fixture.http, refuse_a, &status);
        add(&fixture, "a", "", "");
        add(&fixture, "watcher", ", topics", ", '{courier.receiver.*}'");
        start(&fixture, "");
        publish_numbers(&fixture, "t", 1, 2);
        await_in_database(fixture.relay.admin,
            "SELECT state = 'disabled' AND state_reason LIKE '%410%' FROM courier.receiver"
            " WHERE name = 'a'",
            "it is disabled");
        await_in_database(fixture.relay.admin,
            "SELECT count(*) = 1 FROM courier.outbox WHERE topic = 'courier.receiver.disabled'"
            " AND key = 'a'",
            "an event says so");
        await_in_database(fixture.relay.admin, "SELECT count(*) = 0 FROM courier.dead_letter",
            "its events wait for it");

        status = 204;
        database_exec(
            fixture.relay.admin, "UPDATE courier.receiver SET state = 'active' WHERE name = 'a'");
        await_in_database(fixture.relay.admin,
            "SELECT from_floor >= 2 FROM courier.cursor c, courier.receiver e"
            " WHERE c.lane = e.id AND e.name = 'a'",
            "it gets what it missed");
        relay_stop(fixture.process);
        end(&fixture);
}

Test(fanout, disables_a_receiver_that_fails_for_too_long)
{
        struct fixture fixture;
        unsigned status = 500;

        begin(&fixture);
        http_receiver_decide(fixture.http, refuse_a, &status);
        add(&fixture, "a", "", "");
        add(&fixture, "b", "", "");
        start(&fixture, ", disable_after: 300ms");
        publish_numbers(&fixture, "t", 1, 5);
        await_in_database(fixture.relay.admin,
            "SELECT state = 'disabled' AND state_reason LIKE '%500%' FROM courier.receiver"
            " WHERE name = 'a'",
            "it is disabled");
        cr_expect_eq(database_integer(fixture.relay.admin,
                         "SELECT count(*) FROM courier.receiver WHERE state = 'active'"),
            1);
        relay_stop(fixture.process);
        end(&fixture);
}

Test(fanout, loses_no_event_of_any_receiver_when_it_is_killed)
{
        enum { N_RECEIVERS = 20, N_EVENTS = 400 };
        struct fixture fixture;

        begin(&fixture);
        for (int i = 0; i < N_RECEIVERS; i++) {
                char name[8];
                snprintf(name, sizeof name, "r%d", i);
                add(&fixture, name, "", "");
        }
        start(&fixture, "");
        for (int i = 0; i < 4; i++) {
                publish_numbers(&fixture, "t", 1 + i * N_EVENTS / 4, (i + 1) * N_EVENTS / 4);
                http_receiver_wait_for(fixture.http, "/r7", 20 + (unsigned)i * N_EVENTS / 4, 20000);
                relay_kill(fixture.process);
                relay_start_again(fixture.process);
        }
        for (int i = 0; i < N_RECEIVERS; i++) {
                char target[8];
                const char *name = target + 1;
                char *got;
                int last = 0;

                snprintf(target, sizeof target, "/r%d", i);
                http_receiver_wait_for(fixture.http, target, N_EVENTS, 20000);
                await_in_database(fixture.relay.admin, "SELECT " ALL_IS_SETTLED, "all has arrived");
                got = bodies(&fixture, name);
                for (char *at = got; *at != '\0';) {
                        int number = (int)strtol(at, &at, 10);
                        cr_assert(number <= last + 1, "%s got %d after %d", name, number, last);
                        if (number > last)
                                last = number;
                }
                cr_expect_eq(last, N_EVENTS);
                free(got);
        }
        relay_stop(fixture.process);
        end(&fixture);
}
