/* The catalogue of event types in SQL: it asks nothing of publishers, unless types are strict. */
#include "support/postgres_expect.h"
#include "support/program_expect.h"
#include "support/relay_fixture.h"

#include <criterion/criterion.h>

#define DEADLINE_MS 60000

static struct test_database database;
static PGconn *app;
static PGconn *relay_role;

static void start(void)
{
        database = test_database_make();
        app = database_connect(database.app);
        relay_role = database_connect(database.relay);
}

static void stop(void)
{
        PQfinish(app);
        PQfinish(relay_role);
        test_database_drop(&database);
}

TestSuite(types, .init = start, .fini = stop);

#define ADD(name)     "INSERT INTO courier.event_type (name) VALUES ('" name "')"
#define PUBLISH(type) "SELECT courier.publish('t', '1', type => '" type "')"
#define N_EVENTS      "SELECT count(*) FROM courier.outbox"
#define REQUIRE(rule) "SELECT courier.require_known_types(" rule ")"

static void be_strict(void)
{
        expect_value(relay_role, REQUIRE("true"), "changed");
}

/* ---- who is refused ----------------------------------------------------------------------- */

Test(types, ask_nothing_of_publishers_by_default)
{
        database_exec(relay_role, ADD("order.created"));
        database_exec(app, PUBLISH("order.craeted"));
        expect_value(database.admin, N_EVENTS, "1");
        expect_value(database.admin,
            "SELECT string_agg(tgname, ',') FROM pg_trigger"
            " WHERE tgrelid = 'courier.outbox'::regclass AND NOT tgisinternal",
            "keep_sequence");
}

Test(types, that_are_unknown_are_refused_if_strict)
{
        database_exec(relay_role, ADD("order.created"));
        be_strict();
        expect_error(app, PUBLISH("order.craeted"), "23514",
            "the type 'order.craeted' is not in courier.event_type, and outbox.types is strict");
        expect_error(app, PUBLISH("order.craeted"), "23514",
            "add it to the catalogue: pgcourier type set order.craeted");
        expect_error(app, PUBLISH("order.craeted"), "23514", "type_must_be_known");
        expect_error(app, PUBLISH("Order.created"), "23514", "'Order.created'");
        expect_value(database.admin, N_EVENTS, "0");
        database_exec(app, PUBLISH("order.created"));
        expect_value(database.admin, N_EVENTS, "1");
}

/* One statement, so all of it or nothing. */
Test(types, are_asked_of_every_row_of_a_plain_insert)
{
        database_exec(relay_role, ADD("a"));
        be_strict();
        expect_error(app,
            "INSERT INTO courier.outbox (topic, type, payload) SELECT 't',"
            " CASE i WHEN 999 THEN 'b' ELSE 'a' END, '1' FROM generate_series(1, 1000) AS i",
            "23514", "the type 'b' is not in courier.event_type");
        expect_value(database.admin, N_EVENTS, "0");
        database_exec(app, "INSERT INTO courier.outbox (topic, type, payload)"
                           " SELECT 't', 'a', '1' FROM generate_series(1, 1000)");
        expect_value(database.admin, N_EVENTS, "1000");
}

Test(types, are_not_asked_of_events_without_one_or_of_pgcourier)
{
        be_strict();
        database_exec(app, "SELECT courier.publish('t', '1')");
        database_exec(app, PUBLISH("courier.receiver.failing"));
        expect_error(app, PUBLISH("couriers"), "23514", "'couriers'");
        expect_value(database.admin, N_EVENTS, "2");
}

Test(types, may_be_deprecated_and_are_still_published)
{
        database_exec(
            relay_role, "INSERT INTO courier.event_type (name, deprecated) VALUES ('old', true)");
        be_strict();
        database_exec(app, PUBLISH("old"));
        expect_value(database.admin, N_EVENTS, "1");
}

Test(types, are_free_again_when_they_are_no_longer_strict)
{
        be_strict();
        expect_value(relay_role, REQUIRE("true"), "");
        expect_value(relay_role, "SELECT courier.are_types_strict()", "t");
        expect_value(relay_role, REQUIRE("false"), "changed");
        expect_value(relay_role, REQUIRE("false"), "");
        expect_value(relay_role, "SELECT courier.are_types_strict()", "f");
        database_exec(app, PUBLISH("anything"));
        expect_value(database.admin, N_EVENTS, "1");
}

/* Nobody queues behind a lock that it does not get. */
Test(types, wait_for_no_transaction_that_publishes)
{
        database_exec(app, "BEGIN");
        database_exec(app, PUBLISH("a"));
        expect_value(relay_role, REQUIRE("true, 1"), "waits");
        expect_value(relay_role, "SELECT courier.are_types_strict()", "f");
        database_exec(app, "COMMIT");
        expect_value(relay_role, REQUIRE("true"), "changed");
        expect_error(relay_role, REQUIRE("NULL"), "22023", "required must be true or false");
        expect_error(relay_role, REQUIRE("true, 0"), "22023", "lock_wait_ms from 1 to 10000");
}

/* The trigger is no partition's, so new ones need nothing. */
Test(types, are_strict_in_every_partition)
{
        database_exec(relay_role, ADD("a"));
        be_strict();
        database_exec(database.admin, "SELECT courier.maintain()");
        database_exec(database.admin, "SELECT setval('courier.outbox_id_seq', 5000001)");
        expect_error(app, PUBLISH("b"), "23514", "'b'");
        database_exec(app, PUBLISH("a"));
}

Test(types, are_asked_of_captured_changes_and_of_schedules)
{
        database_exec(database.admin, "SET client_min_messages = error;"
                                      "CREATE TABLE orders (id integer PRIMARY KEY);"
                                      "SELECT courier.capture('orders', '{id}')");
        database_exec(relay_role, ADD("insert"));
        be_strict();
        database_exec(database.admin, "INSERT INTO orders VALUES (1)");
        expect_error(database.admin, "DELETE FROM orders", "23514", "the type 'delete' is not in");
        expect_value(database.admin, "SELECT count(*) FROM orders", "1");
        database_exec(
            app, "SELECT courier.schedule('s', 't', '1', every => '1 hour', type => 'b')");
        database_exec(
            database.admin, "UPDATE courier.schedule SET next_at = now(); SELECT courier.tick()");
        expect_value(database.admin,
            "SELECT last_error || (retry_at > now()) FROM courier.schedule",
            "the type 'b' is not in courier.event_type, and outbox.types is stricttrue");
        expect_value(database.admin, "SELECT string_agg(type, ' ') FROM courier.outbox", "insert");
}

/* Without it a receiver that fails would not be disabled. */
Test(types, let_pgcourier_tell_of_receivers)
{
        database_exec(database.admin,
            "INSERT INTO courier.sink (name, fans_out) VALUES ('web', true);"
            "INSERT INTO courier.receiver (sink, name, url) VALUES ('web', 'acme', 'https://a/')");
        be_strict();
        expect_value(
            relay_role, "SELECT courier.disable_receiver(id, 'gone') FROM courier.receiver", "t");
        expect_value(
            database.admin, "SELECT type FROM courier.outbox", "courier.receiver.disabled");
}

/* ---- the table ---------------------------------------------------------------------------- */

Test(types, have_rules)
{
        expect_error(relay_role, ADD(""), "23514", "type_must_be_null_rather_than_empty");
        expect_error(relay_role, "INSERT INTO courier.event_type (name) VALUES (repeat('ü', 128))",
            "23514", "type_must_be_at_most_255_bytes");
        expect_error(relay_role, "INSERT INTO courier.event_type (name) VALUES (E'a\\nb')", "23514",
            "name_must_not_contain_control_characters");
        expect_error(relay_role,
            "INSERT INTO courier.event_type (name, schema) VALUES ('a', 'true')", "23514",
            "schema_must_be_an_object");
        expect_error(relay_role,
            "INSERT INTO courier.event_type (name, example) VALUES ('a', to_json(repeat('a', "
            "262143)))",
            "23514", "example_must_be_at_most_256_kibibytes");
        expect_value(relay_role, "SELECT count(*) FROM courier.event_type", "0");
}

Test(types, keep_the_order_of_members_and_the_time_of_the_last_change)
{
        database_exec(relay_role, "INSERT INTO courier.event_type (name, example, created_at)"
                                  " VALUES ('a', '{\"order\": 1, \"a\": 2}', '2026-01-01Z')");
        database_exec(relay_role, "UPDATE courier.event_type SET created_at = '2000-01-01Z',"
                                  " changed_at = '2000-01-01Z'");
        expect_value(relay_role,
            "SELECT example || ' ' || extract(year FROM created_at AT TIME ZONE 'UTC') || ' ' ||"
            " (changed_at > '2026-01-02Z') FROM courier.event_type",
            "{\"order\": 1, \"a\": 2} 2026 true");
}

Test(types, are_not_the_publishers_to_change)
{
        be_strict();
        expect_error(app, ADD("a"), "42501", "permission denied for table event_type");
        expect_error(app, "DELETE FROM courier.event_type", "42501", "permission denied for table");
        expect_error(app, REQUIRE("false"), "42501", "permission denied for function");
}

/* ---- the relay ---------------------------------------------------------------------------- */

#define RELAY "postgres: {dsn: \"%s\"}\nsinks:\n  - {name: out, topics: [\"**\"], stdout: {}}\n"

Test(types, are_as_strict_as_the_relay_is_told_at_its_start_and_by_a_reload)
{
        struct relay_process *relay =
            relay_start(RELAY "outbox: {types: strict}\n", database.relay);

        relay_wait_for_log(relay, "event=types_rule_changed types=strict", DEADLINE_MS);
        expect_error(app, PUBLISH("a"), "23514", "'a'");
        database_exec(relay_role, ADD("a"));
        database_exec(app, PUBLISH("a"));
        relay_reload(relay, RELAY, database.relay);
        relay_wait_for_log(relay, "event=types_rule_changed types=any", DEADLINE_MS);
        database_exec(app, PUBLISH("b"));
        relay_stop(relay);
        relay_destroy(relay);
}

#define MAINTAIN(...) program_run(NULL, "maintain", "--dsn", database.dsn, __VA_ARGS__, NULL)

Test(types, are_as_strict_as_the_command_maintain_says)
{
        expect_texts(MAINTAIN("--types", "strict"), 0,
            "publishing refuses types that are not in the catalogue\n");
        expect_value(relay_role, "SELECT courier.are_types_strict()", "t");
        expect_output(MAINTAIN("--retention", "7d"), "nothing to do\n");
        expect_output(MAINTAIN("--types", "strict"), "nothing to do\n");
        expect_value(relay_role, "SELECT courier.are_types_strict()", "t");
        expect_output(
            MAINTAIN("--types", "any"), "publishing takes types that are not in the catalogue\n");
        expect_value(relay_role, "SELECT courier.are_types_strict()", "f");
        expect_refusal(
            MAINTAIN("--types", "some"), 2, "--types: \"some\" is neither any nor strict");
}
