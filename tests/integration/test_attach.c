/* courier.attach(): which events it makes, what it refuses, and what it leaves as it was. */
#include "attach_rig.h"
#include "support/program.h"
#include "support/relay_fixture.h"

#include <criterion/criterion.h>
#include <sys/wait.h>
#include <unistd.h>

static struct attach_rig rig;

static void begin(void)
{
        attach_rig_begin(&rig,
            "CREATE TABLE outbox (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, topic text,"
            " key text, type text, payload jsonb, headers jsonb, processed_at timestamptz)");
}

static void end(void)
{
        attach_rig_end(&rig);
}

TestSuite(attach, .init = begin, .fini = end, .timeout = 120);

#define ATTACH   "SELECT courier.attach('shop.outbox', done => 'keep')"
#define N_EVENTS "SELECT count(*) FROM courier.outbox"

Test(attach, publishes_with_the_transaction_and_its_savepoints)
{
        database_exec(rig.owner, ATTACH);

        database_exec(
            rig.app, "BEGIN; INSERT INTO outbox (topic, payload) VALUES ('a', '1'); ROLLBACK");
        expect_value(rig.database.admin, N_EVENTS, "0");
        database_exec(rig.app,
            "BEGIN; SAVEPOINT s; INSERT INTO outbox (topic, payload) VALUES ('a', '1');"
            " ROLLBACK TO s; INSERT INTO outbox (topic, payload) VALUES ('b', '2');"
            " RELEASE s; COMMIT");
        expect_value(rig.database.admin,
            "SELECT string_agg(topic, ' ' ORDER BY id) FROM courier.outbox", "b");
}

Test(attach, publishes_each_row_of_a_statement_in_its_order)
{
        PGresult *result;

        database_exec(rig.owner, ATTACH);
        database_exec(rig.app,
            "INSERT INTO outbox (topic, key, payload) VALUES ('v', 'k', '1'), ('v', 'k', '2'), "
            "('v', 'k', '3');"
            "WITH made AS (INSERT INTO outbox (topic, key, payload) SELECT 'c', 'k', to_jsonb(n)"
            " FROM generate_series(1, 4) AS n RETURNING 1) SELECT count(*) FROM made;"
            "BEGIN; INSERT INTO outbox (topic, payload) VALUES ('gone', '1');"
            " DELETE FROM outbox WHERE topic = 'gone'; COMMIT");
        result = PQexec(rig.app, "COPY outbox (topic, key, payload) FROM stdin");
        cr_assert_eq(PQresultStatus(result), PGRES_COPY_IN);
        PQclear(result);
        cr_assert_eq(PQputCopyData(rig.app, "copy\tk\t1\ncopy\tk\t2\n", 18), 1);
        cr_assert_eq(PQputCopyEnd(rig.app, NULL), 1);
        result = PQgetResult(rig.app);
        cr_expect_str_eq(PQcmdStatus(result), "COPY 2");
        PQclear(result);
        while ((result = PQgetResult(rig.app)) != NULL)
                PQclear(result);

        expect_value(rig.database.admin,
            "SELECT string_agg(topic || payload, ' ' ORDER BY id) FROM courier.outbox",
            "v1 v2 v3 c1 c2 c3 c4 gone1 copy1 copy2");
}

static void insert_until_told(const char *dsn, int writer)
{
        PGconn *connection = database_connect(dsn);
        char *sql = xasprintf("INSERT INTO shop.outbox (topic, key, payload) VALUES ('w', 'w%d', "
                              "'{}')",
            writer);
        PGresult *result;

        while (access("stop", F_OK) != 0) {
                result = PQexec(connection, sql);
                cr_assert_eq(PQresultStatus(result), PGRES_COMMAND_OK);
                PQclear(result);
        }
        free(sql);
        PQfinish(connection);
}

Test(attach, takes_over_existing_rows_without_a_gap_while_others_write)
{
        enum { N_WRITERS = 8 };
        char *folder = temp_folder();
        char *app_dsn = dsn_as_user(rig.database.dsn, "shop_app");
        pid_t writers[N_WRITERS];
        char *after;

        cr_assert_eq(chdir(folder), 0);
        for (int i = 0; i < N_WRITERS; i++) {
                writers[i] = fork();
                if (writers[i] == 0) {
                        insert_until_told(app_dsn, i);
                        _exit(0);
                }
        }
        await_in_database(
            rig.database.admin, "SELECT count(*) > 2000 FROM shop.outbox", "rows are written");
        database_exec(rig.database.admin,
            "UPDATE shop.outbox SET processed_at = now() WHERE id % 3 = 0 AND id < 1000");
        database_exec(rig.owner,
            "SELECT courier.attach('shop.outbox', only_if => 'processed_at IS NULL',"
            " existing => 'publish', done => 'keep', lock_timeout => '20 s')");
        after = xasprintf("SELECT max(id) > %lld FROM shop.outbox",
            2000 + (long long)database_integer(rig.owner, "SELECT max(id) FROM shop.outbox"));
        await_in_database(rig.database.admin, after, "rows are written after it");
        replace_file("stop", "");
        for (int i = 0; i < N_WRITERS; i++) {
                int status = 1;
                cr_assert_eq(waitpid(writers[i], &status, 0), writers[i]);
                cr_expect_eq(status, 0);
        }

        expect_value(rig.database.admin,
            "SELECT count(*) FROM shop.outbox AS row FULL JOIN courier.outbox AS event"
            " ON event.source_key = row.id::text"
            " WHERE (row.processed_at IS NULL AND row.id IS NOT NULL) <> (event.id IS NOT NULL)",
            "0");
        expect_value(rig.database.admin,
            "SELECT count(*) - count(DISTINCT source_key) FROM courier.outbox", "0");
        expect_value(rig.database.admin,
            "SELECT count(*) FROM (SELECT source_key::bigint < lag(source_key::bigint)"
            " OVER (PARTITION BY key ORDER BY id) AS is_late FROM courier.outbox) AS e WHERE "
            "is_late",
            "0");
        free(after);
        free(app_dsn);
        free(folder);
}

Test(attach, marks_within_the_insert_what_is_taken)
{
        database_exec(rig.app, "INSERT INTO outbox (topic, payload) VALUES ('before', '0')");
        database_exec(rig.owner,
            "SELECT courier.attach('shop.outbox', only_if => 'processed_at IS NULL',"
            " done_set => 'processed_at = now()', done_when => 'taken', existing => 'publish')");

        database_exec(rig.app,
            "INSERT INTO outbox (topic, payload) VALUES ('a', '1'), ('b', '2');"
            "INSERT INTO outbox (topic, payload, processed_at) VALUES ('done', '3', now() - "
            "interval '1 day')");
        expect_value(rig.app, "SELECT count(*) FROM shop.outbox WHERE processed_at IS NULL", "0");
        expect_value(rig.database.admin,
            "SELECT string_agg(topic, ' ' ORDER BY id) FROM courier.outbox", "before a b");
}

Test(attach, makes_values_fit_so_that_no_insert_fails)
{
        database_exec(rig.owner,
            "CREATE TABLE shop.texts (id int PRIMARY KEY, topic text, key text, type text, payload "
            "text, headers text);"
            "GRANT ALL ON shop.texts TO shop_app;" ATTACH ";"
            "SELECT courier.attach('shop.texts', topic => 'topic', key => 'key', type => 'type',"
            " payload => 'payload', headers => 'headers')");

        database_exec(rig.app,
            "INSERT INTO outbox (topic, key, type, payload, headers) VALUES"
            " (E'line\\nbreak', '', '', NULL, '[1, 2]'),"
            " ('', repeat('k', 1025), repeat('t', 256), 'null', 'null'),"
            " (NULL, repeat('\u00e4', 1025), NULL, '1', jsonb_build_object('big', repeat('x', "
            "20000)));"
            "INSERT INTO texts VALUES (1, 'x', 'k', 't', 'not json', 'none'),"
            " (2, 'x', 'k', 't', '{\"a\":  1}', '{\"a\": \"b\"}'),"
            " (3, repeat('\u00e4', 300), NULL, NULL, '', '{\"a\": \"\\u0000\"}'),"
            " (4, 'x', NULL, NULL, NULL, NULL)");
        expect_value(rig.database.admin,
            "SELECT string_agg(concat_ws('|', topic, left(key, 3), octet_length(key), "
            "octet_length(type),"
            " payload, convert_from(data, 'UTF8'), headers), E'\\n' ORDER BY id) FROM "
            "courier.outbox",
            "line_break|null|{\"headers\": [1, 2]}\n"
            "outbox|kkk|265|63|null\n"
            "outbox|\u00e4\u00e4\u00e4|465|1|{\"headers-dropped\": \"size\"}\n"
            "x|k|1|1|not json|{\"headers-dropped\": \"no JSON\"}\n"
            "x|k|1|1|{\"a\":  1}|{\"a\": \"b\"}\n"
            "\u00e4\u00e4\u00e4\u00e4\u00e4\u00e4\u00e4\u00e4\u00e4\u00e4\u00e4\u00e4\u00e4\u00e4"
            "\u00e4"
            "\u00e4\u00e4\u00e4\u00e4\u00e4\u00e4\u00e4\u00e4\u00e4\u00e4\u00e4\u00e4\u00e4\u00e4"
            "\u00e4"
            "\u00e4\u00e4\u00e4\u00e4\u00e4\u00e4\u00e4\u00e4\u00e4\u00e4\u00e4\u00e4\u00e4\u00e4"
            "\u00e4"
            "\u00e4\u00e4\u00e4\u00e4\u00e4\u00e4\u00e4\u00e4\u00e4\u00e4\u00e4\u00e4\u00e4\u00e4"
            "\u00e4"
            "\u00e4\u00e4\u00e4||{\"headers-dropped\": \"no JSON\"}\n"
            "x|null");
        /* The same row of the same tap has the same identity each time. */
        expect_value(rig.database.admin,
            "SELECT count(DISTINCT event_id) FROM courier.outbox WHERE substr(event_id::text, 15, "
            "1) = '8'",
            "7");
}

Test(attach, makes_several_events_of_one_row)
{
        database_exec(rig.owner,
            "CREATE TABLE shop.batches (id text PRIMARY KEY, operations jsonb);"
            "GRANT ALL ON shop.batches TO shop_app;"
            "SELECT courier.attach('shop.batches', topic => 'op ->> ''to''', payload => 'op -> "
            "''body''',"
            " each => 'jsonb_array_elements(operations) AS op', ops => '{insert,update}')");

        database_exec(rig.app,
            "INSERT INTO batches VALUES ('m', '[]');"
            "UPDATE batches SET operations = '[{\"to\": \"a\", \"body\": 1}, {\"to\": \"b\", "
            "\"body\": 2}]'");
        expect_value(rig.database.admin,
            "SELECT string_agg(topic || payload || source_key, ' ' ORDER BY id) FROM "
            "courier.outbox",
            "a1m b2m");
}

Test(attach, sees_the_rows_of_all_partitions)
{
        database_exec(rig.owner,
            "CREATE TABLE shop.parted (id int, day int, topic text, payload jsonb, PRIMARY KEY "
            "(id, day))"
            " PARTITION BY RANGE (day);"
            "CREATE TABLE shop.parted_1 PARTITION OF shop.parted FOR VALUES FROM (1) TO (2);"
            "SELECT courier.attach('shop.parted', topic => 'topic', payload => 'payload');"
            "CREATE TABLE shop.parted_2 PARTITION OF shop.parted FOR VALUES FROM (2) TO (3);"
            "GRANT ALL ON ALL TABLES IN SCHEMA shop TO shop_app");

        database_exec(rig.app, "INSERT INTO parted VALUES (1, 1, 'a', '1'), (2, 2, 'b', '2');"
                               "INSERT INTO parted_2 VALUES (3, 2, 'c', '3')");
        expect_value(rig.database.admin,
            "SELECT string_agg(topic || source_key, ' ' ORDER BY id) FROM courier.outbox",
            "a[\"1\", \"1\"] b[\"2\", \"2\"] c[\"3\", \"2\"]");
}

Test(attach, is_for_owners_who_may_attach)
{
        database_exec(rig.database.admin,
            "DO $$ BEGIN CREATE ROLE shop_guest LOGIN; EXCEPTION WHEN duplicate_object THEN NULL; "
            "END $$;"
            "GRANT courier_attacher TO shop_guest; CREATE TABLE public.foreigners (id int)");
        PGconn *guest = attach_rig_connect(&rig, "shop_guest");
        PGconn *publisher = attach_rig_connect(&rig, "app");

        database_exec(rig.database.admin, "GRANT USAGE ON SCHEMA shop TO shop_guest, app");
        expect_error(publisher, ATTACH, "42501", "permission denied for function attach");
        expect_error(guest, ATTACH, "42501", "belongs to shop_owner");
        expect_error(rig.owner,
            "SELECT courier.attach('public.foreigners', topic => '1', payload => '1')", "42501",
            "belongs to postgres");
        /* A superuser, too, attaches with the rights of the table's owner. */
        database_exec(rig.database.admin, ATTACH);
        expect_value(rig.database.admin,
            "SELECT string_agg(DISTINCT proowner::regrole::text, ' ') FROM pg_proc"
            " WHERE pronamespace = 'courier_tap'::regnamespace",
            "shop_owner");
        expect_error(guest, "SELECT courier.detach('outbox')", "42501", "belongs to shop_owner");
        database_exec(guest, "DELETE FROM courier.attachment");
        expect_value(rig.database.admin, "SELECT count(*) FROM courier.attachment", "1");
        expect_value(rig.database.admin,
            "SELECT count(*) FROM pg_proc WHERE pronamespace = 'courier_tap'::regnamespace"
            " AND (NOT prosecdef OR NOT array_to_string(proconfig, ' ') LIKE "
            "'search_path=pg_catalog, pg_temp%'"
            " OR has_function_privilege('shop_app', oid, 'EXECUTE'))",
            "0");
        PQfinish(guest);
        PQfinish(publisher);
}

Test(attach, refuses_what_cannot_be_attached)
{
        static const struct {
                const char *sql, *sqlstate, *words;
        } cases[] = {
            {"SELECT courier.attach('courier.outbox')", "42809", "belongs to pgcourier itself"},
            {"SELECT courier.attach('pg_catalog.pg_class')", "42809", "belongs to PostgreSQL"},
            {"SELECT courier.attach('shop.a_view')", "42809", "it is a view"},
            {"SELECT courier.attach('shop.a_summary')", "42809", "it is a materialized view"},
            {"SELECT courier.attach('shop.a_foreign')", "42809", "it is a foreign table"},
            {"SELECT courier.attach('a_temporary')", "42809", "it is a temporary table"},
            {"SELECT courier.attach('shop.outbox_id_seq')", "42809", "it is not a table"},
            {"SELECT courier.attach('shop.bare')", "22023", "its columns fit no layout"},
            {"SELECT courier.attach('shop.outbox', layout => 'debezium')", "42703",
                "needs columns that the table lacks: aggregatetype, aggregateid"},
            {"SELECT courier.attach('shop.outbox', layout => 'x')", "22023", "there is no layout"},
            {"SELECT courier.attach('shop.outbox', topic => 'nope')", "42703",
                "topic does not compile: column \"nope\" does not exist"},
            {"SELECT courier.attach('shop.outbox', topic => 'my_function(topic)')", "42883",
                "name what is yours with its schema"},
            {"SELECT courier.attach('shop.outbox', data => 'id')", "42804",
                "neither bytea nor text"},
            {"SELECT courier.attach('shop.outbox', headers => 'id')", "42804", "which is no JSON"},
            {"SELECT courier.attach('shop.outbox', deliver_at => 'id')", "42804", "is no time"},
            {"SELECT courier.attach('shop.outbox', only_if => 'id')", "42804", "is no condition"},
            {"SELECT courier.attach('shop.outbox', done => 'mark')", "22023",
                "no done_set is given"},
            {"SELECT courier.attach('shop.outbox', done => 'burn')", "22023", "none of keep, mark"},
            {"SELECT courier.attach('shop.outbox', done_set => 'nope = 1')", "42703", "nope"},
            {"SELECT courier.attach('shop.outbox', done_set => 'processed_at')", "42601",
                "is not a list of column = value"},
            {"SELECT courier.attach('shop.outbox', done_set => 'processed_at = now()', ops => "
             "'{insert,update}')",
                "22023", "each mark would be an event"},
            {"SELECT courier.attach('shop.outbox', ops => '{delete}')", "22023",
                "neither {insert}"},
            {"SELECT courier.attach('shop.outbox', ops => NULL)", "22023", "ops are NULL"},
            {"SELECT courier.attach('shop.outbox', each => 'nothing(')", "42601",
                "each does not compile: syntax error"},
            {"SELECT courier.attach('shop.outbox', done => 'keep', done_set => 'topic = NULL')",
                "22023", "done_set says how rows are marked, and done is 'keep'"},
            {"SELECT courier.attach('shop.outbox', done => 'delete', dead_set => 'topic = NULL')",
                "22023", "dead_set says how rows are marked, and done is 'delete'"},
            {"SELECT courier.attach('shop.outbox', done_after => '{bus}')", "22023", "done_after"},
            {"SELECT courier.attach('shop.outbox', done_set => 'processed_at = now()', done_after "
             "=> '{}')",
                "22023", "no list of sinks"},
            {"SELECT courier.attach('shop.outbox', done_set => 'processed_at = now()', done_after "
             "=> '{bus,NULL}')",
                "22023", "no list of sinks"},
            {"SELECT courier.attach('shop.outbox', name => 'A b')", "22023", "small letters"},
            {"SELECT courier.attach('shop.outbox', lock_timeout => '-1 s')", "22023",
                "lock_timeout"},
            {"SELECT courier.detach('nothing')", "P0002", "there is no tap 'nothing'"},
            {"SELECT courier.recompile(NULL)", "P0002", "there is no tap NULL"},
        };

        database_exec(rig.owner,
            "CREATE VIEW shop.a_view AS SELECT * FROM shop.outbox;"
            "CREATE MATERIALIZED VIEW shop.a_summary AS SELECT * FROM shop.outbox;"
            "CREATE TEMPORARY TABLE a_temporary (id int);"
            "CREATE TABLE shop.bare (id int)");
        database_exec(rig.database.admin,
            "CREATE FOREIGN DATA WRAPPER none; CREATE SERVER none FOREIGN DATA WRAPPER none;"
            "CREATE FOREIGN TABLE shop.a_foreign (id int) SERVER none;"
            "ALTER FOREIGN TABLE shop.a_foreign OWNER TO shop_owner");
        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
                expect_error(rig.owner, cases[i].sql, cases[i].sqlstate, cases[i].words);
        expect_value(rig.database.admin, "SELECT count(*) FROM courier.attachment", "0");
        expect_value(rig.database.admin,
            "SELECT count(*) FROM pg_proc WHERE pronamespace = 'courier_tap'::regnamespace", "0");

        database_exec(rig.owner, ATTACH);
        expect_error(rig.owner, ATTACH, "42710", "it is attached already, as outbox");
        expect_value(rig.owner, "SELECT current_user", "shop_owner");
}

Test(attach, gives_up_when_the_table_is_in_use)
{
        database_exec(rig.app, "BEGIN; INSERT INTO outbox (topic) VALUES ('a')");
        expect_error(rig.owner,
            "SELECT courier.attach('shop.outbox', done => 'keep', lock_timeout => '50 ms')",
            "55P03", "Nothing was changed");
        database_exec(rig.app, "COMMIT");
        database_exec(rig.owner, ATTACH);
}

Test(attach, leaves_the_table_as_it_was_when_it_is_detached)
{
        const char *definition =
            "SELECT concat_ws(' ', (SELECT count(*) FROM pg_trigger WHERE tgrelid = c.oid), "
            "relhasrules,"
            " relacl, (SELECT string_agg(attname, ' ') FROM pg_attribute WHERE attrelid = c.oid))"
            " FROM pg_class AS c WHERE oid = 'shop.outbox'::regclass";
        char *before = database_value(rig.database.admin, definition);

        database_exec(rig.owner,
            "SELECT courier.attach('shop.outbox', done_set => 'processed_at = now()', done_when => "
            "'taken')");
        database_exec(rig.owner, "SELECT courier.detach('outbox')");
        expect_value(rig.database.admin, definition, before);
        expect_value(rig.database.admin,
            "SELECT count(*) FROM pg_proc WHERE pronamespace = 'courier_tap'::regnamespace", "0");
        expect_value(rig.database.admin, "SELECT count(*) FROM courier.attachment", "0");
        free(before);
}

static void expect_ok(void)
{
        expect_value(rig.owner, "SELECT state FROM courier.check_attachments()", "ok");
}

static void expect_state(const char *state, const char *detail)
{
        char *sql = xasprintf("SELECT state || CASE WHEN detail LIKE '%%%s%%' THEN '' ELSE ': ' || "
                              "detail END FROM courier.check_attachments()",
            detail);

        expect_value(rig.owner, sql, state);
        free(sql);
}

Test(attach, is_checked)
{
        database_exec(rig.owner, ATTACH);
        expect_ok();
        database_exec(rig.owner, "ALTER TABLE outbox DISABLE TRIGGER courier_outbox_insert");
        expect_state("disabled", "courier_outbox_insert");
        database_exec(rig.owner, "ALTER TABLE outbox ENABLE TRIGGER courier_outbox_insert");

        database_exec(rig.owner, "DROP TRIGGER courier_outbox_insert ON outbox");
        expect_state("trigger_missing", "courier_outbox_insert");
        database_exec(rig.owner, "SELECT courier.recompile('outbox')");
        expect_ok();

        database_exec(rig.owner,
            "CREATE OR REPLACE FUNCTION courier_tap.outbox_insert() RETURNS trigger LANGUAGE "
            "plpgsql"
            " SECURITY DEFINER AS 'BEGIN RETURN NULL; END'");
        expect_state("edited", "not as they were made");
        database_exec(rig.owner, "SELECT courier.recompile('outbox')");

        database_exec(rig.owner, "ALTER TABLE outbox RENAME COLUMN key TO ordering_key");
        expect_state("does_not_compile", "column \"key\" does not exist");
        database_exec(rig.owner, "ALTER TABLE outbox RENAME COLUMN ordering_key TO key");
        expect_ok();

        database_exec(rig.owner,
            "ALTER TABLE outbox ALTER id DROP IDENTITY;" /* no partition may have it from 17 on */
            "CREATE TABLE whole (LIKE outbox INCLUDING ALL) PARTITION BY RANGE (id);"
            "ALTER TABLE whole ATTACH PARTITION outbox DEFAULT");
        expect_state("now_a_partition", "silent when its parent is written");
        database_exec(rig.owner, "SELECT courier.recompile('outbox')");
        expect_ok();
        database_exec(rig.owner, "INSERT INTO whole (id, topic, payload) VALUES (1, 't', '1')");
        expect_value(rig.database.admin, N_EVENTS, "1");

        database_exec(rig.owner, "DROP TABLE whole");
        expect_state("table_gone", "was dropped");
        database_exec(rig.owner, "SELECT courier.detach('outbox')");
        expect_value(rig.owner, "SELECT count(*) FROM courier.check_attachments()", "0");
}

/* All in one session, whose plans are made before. */
Test(attach, bears_changes_of_columns_that_it_does_not_name)
{
        static const char *const changes[] = {
            "ALTER TABLE outbox ADD COLUMN extra int DEFAULT 5",
            "ALTER TABLE outbox DROP COLUMN processed_at",
            "ALTER TABLE outbox RENAME COLUMN extra TO more",
            "ALTER TABLE outbox ALTER COLUMN more TYPE text",
            "ALTER TABLE outbox ALTER COLUMN key TYPE varchar(50)",
            "ALTER TABLE outbox RENAME TO renamed",
            "ALTER TABLE renamed RENAME TO outbox",
        };

        database_exec(rig.owner, ATTACH);
        for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) {
                for (int n = 0; n < 6; n++)
                        database_exec(rig.owner,
                            "DO $$ BEGIN EXECUTE format('INSERT INTO %s (topic, key, payload) "
                            "VALUES (''t'', ''k'', ''1'')',"
                            " coalesce(to_regclass('shop.outbox'), "
                            "to_regclass('shop.renamed'))); END $$");
                database_exec(rig.owner, changes[i]);
        }
        expect_value(rig.database.admin, N_EVENTS, "42");
        expect_ok();
}
