/*
 * courier.capture(): which changes become events, and what is in them. How tables of other kinds and
 * changed definitions fare is in test_capture_tables.c.
 */
#include "base/alloc.h"
#include "capture_rig.h"
#include "support/relay_fixture.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>

#define ORDERS                                                                                     \
        "CREATE TABLE orders (id bigint PRIMARY KEY, customer_id integer, status text,"            \
        " total numeric, doc json, secret text);"

#define TOPICS "SELECT string_agg(topic, ' ' ORDER BY id) FROM courier.outbox"

/* ---- what is in an event -------------------------------------------------------------------- */

Test(capture, makes_an_event_of_each_insert_update_and_delete)
{
        struct test_database fixture = begin_with(ORDERS);
        PGconn *admin = fixture.admin;

        expect_value(admin, "SELECT courier.capture('orders', '{id,status,total}')", "orders");
        database_exec(admin, "INSERT INTO orders VALUES (7, 1, 'new', 12.50);"
                             "UPDATE orders SET status = 'paid'; DELETE FROM orders");
        expect_value(admin,
            "SELECT string_agg(concat_ws('|', topic, key, type, payload, headers, source, "
            "source_key),"
            " E'\\n' ORDER BY id) FROM courier.outbox",
            "orders.insert|7|insert|{\"id\":7,\"status\":\"new\",\"total\":12.50}|1|7\n"
            "orders.update|7|update|{\"id\":7,\"status\":\"paid\",\"total\":12.50}|1|7\n"
            "orders.delete|7|delete|{\"id\":7,\"status\":\"paid\",\"total\":12.50}|1|7");
        expect_value(admin, "SELECT count(DISTINCT event_id) FROM courier.outbox", "3");
        expect_value(admin, "SELECT state FROM courier.check_attachments()", "ok");
        test_database_drop(&fixture);
}

Test(capture, sends_both_rows_or_what_changed_or_an_expression)
{
        struct test_database fixture = begin_with(ORDERS);
        PGconn *admin = fixture.admin;
        static const struct {
                const char *payload, *expected;
        } forms[] = {
            {"'both'", "{\"old\" : null, \"new\" : {\"id\":7,\"status\":\"new\",\"doc\":{\"a\":1, "
                       "\"a\":2}}}"
                       " {\"old\" : {\"id\":7,\"status\":\"new\",\"doc\":{\"a\":1, \"a\":2}},"
                       " \"new\" : {\"id\":7,\"status\":\"paid\",\"doc\":{\"a\":1, \"a\":2}}}"
                       " {\"old\" : {\"id\":7,\"status\":\"paid\",\"doc\":{\"a\":1, \"a\":2}}, "
                       "\"new\" : null}"},
            {"'diff'", "{\"old\" : null, \"new\" : {\"id\":7,\"status\":\"new\",\"doc\":{\"a\":1, "
                       "\"a\":2}}}"
                       " {\"old\" : {\"id\":7,\"status\":\"new\"}, \"new\" : "
                       "{\"id\":7,\"status\":\"paid\"}}"
                       " {\"old\" : {\"id\":7,\"status\":\"paid\",\"doc\":{\"a\":1, \"a\":2}}, "
                       "\"new\" : null}"},
            {"'json_build_object({{op}}, {{new}}, op, {{old}}, ''t'', {{table}} || {{schema}} ||"
             " coalesce(new.total, old.total))'",
                "{\"insert\" : {\"id\":7,\"status\":\"new\",\"doc\":{\"a\":1, \"a\":2}}, "
                "\"insert\" : null,"
                " \"t\" : \"orderspublic12.50\"}"
                " {\"update\" : {\"id\":7,\"status\":\"paid\",\"doc\":{\"a\":1, \"a\":2}},"
                " \"update\" : {\"id\":7,\"status\":\"new\",\"doc\":{\"a\":1, \"a\":2}},"
                " \"t\" : \"orderspublic12.50\"}"
                " {\"delete\" : null, \"delete\" : {\"id\":7,\"status\":\"paid\",\"doc\":{\"a\":1, "
                "\"a\":2}},"
                " \"t\" : \"orderspublic12.50\"}"},
        };

        for (size_t i = 0; i < sizeof forms / sizeof *forms; i++)
                for (int is_row = 0; is_row < 2; is_row++) {
                        char *make = xasprintf("SELECT courier.capture('orders', '{id,status,doc}',"
                                               " name => 'c', payload => %s, level => '%s')",
                            forms[i].payload, is_row ? "row" : "statement");

                        database_exec(admin, make);
                        expect_after(admin,
                            "INSERT INTO orders VALUES (7, 1, 'new', 12.50, '{\"a\":1, \"a\":2}');"
                            "UPDATE orders SET status = 'paid'; DELETE FROM orders",
                            PAYLOADS, forms[i].expected);
                        database_exec(admin, "SELECT courier.detach('c')");
                        free(make);
                }
        test_database_drop(&fixture);
}

#define ODD_VALUES                                                                                 \
        "(1, 12.50, 'NaN', 'Infinity', '{\"b\":1, \"a\":2, \"b\":  3}', '\\x00ff',"                \
        " '2026-11-23 10:00:00.5+01', '1 day 02:03:04', 0.1::float8 + 0.2, '(1,2)', '<a/>',"       \
        " 9007199254740993, '{1,NULL}', '2026-11-23', '[2026-11-23,2026-11-24)')"
#define ODD_ROW                                                                                    \
        "{\"id\":1,\"n\":12.50,\"nan\":\"NaN\",\"inf\":\"Infinity\","                              \
        "\"doc\":{\"b\":1, \"a\":2, \"b\":  3},\"bytes\":\"\\\\x00ff\","                           \
        "\"at\":\"2026-11-23T09:00:00.5+00:00\",\"span\":\"P1DT2H3M4S\","                          \
        "\"f\":0.30000000000000004,\"place\":\"(1,2)\",\"x\":\"<a/>\","                            \
        "\"big\":9007199254740993,\"list\":[1,null],\"day\":\"2026-11-23\","                       \
        "\"days\":\"[2026-11-23,2026-11-24)\"}"

/* The same bytes, exact, whatever the settings of the session. */
Test(capture, makes_the_same_bytes_in_every_session)
{
        struct test_database fixture = begin_with(
            "CREATE TABLE odd (id int PRIMARY KEY, n numeric, nan numeric, inf float8, doc json,"
            " bytes bytea, at timestamptz, span interval, f float8, place point, x xml, big bigint,"
            " list int[], day date, days daterange);"
            "SELECT courier.capture('odd', '{*}', name => 'whole');"
            "SELECT courier.capture('odd', '{*,-id}', name => 'listed', payload => 'both');"
            "SELECT courier.capture('odd', '{*}', name => 'rows', level => 'row', payload => "
            "'both')");
        PGconn *admin = fixture.admin;
        const bool has_merge = PQserverVersion(admin) >= 150000;
        static const char *const settings[] = {"SET timezone = 'Asia/Kolkata'",
            "SET datestyle = 'German'", "SET bytea_output = 'escape'",
            "SET extra_float_digits = -15", "SET intervalstyle = 'postgres_verbose'",
            "SET search_path = ''", "SET standard_conforming_strings = on"};

        for (size_t i = 0; i < sizeof settings / sizeof *settings; i++) {
                database_exec(admin, FORGET);
                database_exec(admin, "DELETE FROM public.odd");
                database_exec(admin, FORGET);
                database_exec(admin, settings[i]);
                database_exec(admin, "INSERT INTO public.odd VALUES " ODD_VALUES);
                database_exec(admin,
                    "INSERT INTO public.odd VALUES " ODD_VALUES
                    " ON CONFLICT (id) DO UPDATE SET n = 12.51, doc = excluded.doc");
                database_exec(admin,
                    has_merge ? "MERGE INTO public.odd USING (SELECT 1 AS id) AS s ON odd.id = s.id"
                                " WHEN MATCHED THEN UPDATE SET n = 12.50"
                              : "UPDATE public.odd SET n = 12.50");
                database_exec(admin, "DELETE FROM public.odd");
                expect_value(admin, "SELECT count(*) FROM courier.outbox", "12");
                expect_value(admin,
                    "SELECT payload FROM courier.outbox WHERE topic = 'odd.insert' AND source = 1",
                    ODD_ROW);
                expect_value(admin,
                    "SELECT payload FROM courier.outbox WHERE topic = 'odd.delete' AND source = 1",
                    ODD_ROW);
                expect_value(admin,
                    "SELECT payload->'old' FROM courier.outbox WHERE topic = 'odd.delete' AND "
                    "source = 3",
                    ODD_ROW);
                expect_value(admin,
                    "SELECT payload->'new' FROM courier.outbox WHERE topic = 'odd.update' AND "
                    "source = 3"
                    " ORDER BY id DESC LIMIT 1",
                    ODD_ROW);
                expect_value(admin,
                    "SELECT '{\"id\":1,' || substr(payload->>'new', 2) FROM courier.outbox"
                    " WHERE topic = 'odd.insert' AND source = 2",
                    ODD_ROW);
        }
        test_database_drop(&fixture);
}

Test(capture, gives_large_numbers_as_texts_to_javascript)
{
        struct test_database fixture =
            begin_with("CREATE DOMAIN number AS bigint; CREATE DOMAIN id_number AS number;"
                       "CREATE TABLE t (id id_number PRIMARY KEY, n number, i integer, doc json);"
                       "SELECT courier.capture('t', '{*}', name => 'w', bigint_as => 'text');"
                       "SELECT courier.capture('t', '{n,i}', name => 'l', bigint_as => 'text', "
                       "level => 'row')");
        PGconn *admin = fixture.admin;

        expect_after(admin, "INSERT INTO t VALUES (9007199254740993, NULL, 5, '{\"n\":  1}')",
            PAYLOADS,
            "{\"n\":null,\"i\":5}"
            " {\"id\":\"9007199254740993\",\"n\":null,\"i\":5,\"doc\":{\"n\":  1}}");
        expect_after(admin, "UPDATE t SET n = -1", PAYLOADS,
            "{\"n\":\"-1\",\"i\":5}"
            " {\"id\":\"9007199254740993\",\"n\":\"-1\",\"i\":5,\"doc\":{\"n\":  1}}");
        /* What is added later, too. */
        expect_after(admin,
            "ALTER TABLE t ADD \"m\"\"m\" bigint, DROP doc; UPDATE t SET \"m\"\"m\" = 3 WHERE id > "
            "0",
            PAYLOADS, "{\"id\":\"9007199254740993\",\"n\":\"-1\",\"i\":5,\"m\\\"m\":\"3\"}");
        test_database_drop(&fixture);
}

/* ---- topics and keys ------------------------------------------------------------------------ */

Test(capture, takes_the_topic_as_a_text_or_an_expression)
{
        struct test_database fixture = begin_with(
            "CREATE TABLE \"Odd 'Name\" (id int PRIMARY KEY, region text);"
            "SELECT courier.capture('\"Odd ''Name\"', '{*}', name => 'a', topic => "
            "'{{schema}}.{{table}}/{{op}}');"
            "SELECT courier.capture('\"Odd ''Name\"', '{*}', name => 'b', topic => "
            "'things-changed');"
            "SELECT courier.capture('\"Odd ''Name\"', '{*}', name => 'c', topic => '(new.region)', "
            "ops => '{insert}');"
            "SELECT courier.capture('\"Odd ''Name\"', '{*}', name => 'd', ops => '{insert}',"
            " topic => '{{table}} || ''.'' || op || ''.'' || new.region')");
        PGconn *admin = fixture.admin;

        expect_after(admin, "INSERT INTO \"Odd 'Name\" VALUES (1, 'eu')", TOPICS,
            "public.Odd 'Name/insert things-changed eu Odd 'Name.insert.eu");
        /* Values that courier.outbox would refuse do not make the write fail. */
        expect_after(admin, "INSERT INTO \"Odd 'Name\" VALUES (2, E'\\n')", TOPICS,
            "public.Odd 'Name/insert things-changed _ Odd 'Name.insert._");
        expect_after(
            admin, "INSERT INTO \"Odd 'Name\" VALUES (3, NULL)", TOPICS " WHERE source > 2", "c d");
        expect_error(admin,
            "SELECT courier.capture('\"Odd ''Name\"', '{*}', topic => 'new.region')", "22023",
            "topic => '(new.region)'");
        expect_value(
            admin, "SELECT string_agg(state, ' ') FROM courier.check_attachments()", "ok ok ok ok");
        test_database_drop(&fixture);
}

Test(capture, orders_by_the_primary_key_a_column_or_an_expression)
{
        struct test_database fixture = begin_with(
            "CREATE TABLE t (tenant text, id int, \"Customer\" int, op text, PRIMARY KEY (tenant, "
            "id));"
            "SELECT courier.capture('t', '{*}', name => 'a');"
            "SELECT courier.capture('t', '{*}', name => 'b', key => 'Customer');"
            "SELECT courier.capture('t', '{*}', name => 'c', key => '\"Customer\"', level => "
            "'row');"
            "SELECT courier.capture('t', '{*}', name => 'd', key => 'NULL');"
            "SELECT courier.capture('t', '{*}', name => 'e', key => 'coalesce(new.id, -old.id)');"
            "CREATE TABLE bare (id int)");
        PGconn *admin = fixture.admin;
        const char *keys =
            "SELECT string_agg(coalesce(key, '-'), ' ' ORDER BY source) FROM courier.outbox";

        expect_after(admin, "INSERT INTO t VALUES ('x', 1, 5)", keys, "[\"x\", \"1\"] 5 5 - 1");
        expect_after(
            admin, "UPDATE t SET id = 2, \"Customer\" = 6", keys, "[\"x\", \"2\"] 6 6 - 2");
        expect_after(admin, "DELETE FROM t", keys, "[\"x\", \"2\"] 6 6 - -2");
        expect_value(admin, "SELECT DISTINCT source_key FROM courier.outbox", "[\"x\", \"2\"]");
        expect_error(admin, "SELECT courier.capture('bare', '{*}')", "22023", "key => 'NULL'");
        database_exec(admin, "SELECT courier.capture('bare', '{*}', key => 'NULL')");
        expect_after(admin, "INSERT INTO bare VALUES (1); UPDATE bare SET id = 2; DELETE FROM bare",
            PAYLOADS, "{\"id\":1} {\"id\":2} {\"id\":2}");
        test_database_drop(&fixture);
}

/* Columns with the names that the generated functions use. */
Test(capture, takes_columns_of_any_name)
{
        struct test_database fixture = begin_with(
            "CREATE TABLE \"old\" (\"old\" int PRIMARY KEY, \"new\" text, op text, event int, this "
            "int,"
            " tap int, n int, body text, key text, sent int, bigints int);"
            "SELECT courier.capture('\"old\"', '{*}', name => 'a', payload => 'both');"
            "SELECT courier.capture('\"old\"', '{old,new,op}', name => 'b', payload => 'diff',"
            " only_if => '{{op}} <> ''delete''', bigint_as => 'text',"
            " headers => 'json_build_object(''k'', new.key)');"
            "SELECT courier.capture('\"old\"', '{old,new,op}', name => 'c', level => 'row',"
            " topic => '''c.'' || {{op}}')");
        PGconn *admin = fixture.admin;

        expect_after(admin,
            "INSERT INTO \"old\" (\"old\", \"new\", op) VALUES (1, 'x', 'o');"
            "UPDATE \"old\" SET \"new\" = 'y', op = 'p'; DELETE FROM \"old\"",
            PAYLOADS " WHERE source = 2",
            "{\"old\" : null, \"new\" : {\"old\":1,\"new\":\"x\",\"op\":\"o\"}}"
            " {\"old\" : {\"old\":1,\"new\":\"x\",\"op\":\"o\"},"
            " \"new\" : {\"old\":1,\"new\":\"y\",\"op\":\"p\"}}");
        expect_value(admin, PAYLOADS " WHERE source = 3",
            "{\"old\":1,\"new\":\"x\",\"op\":\"o\"} {\"old\":1,\"new\":\"y\",\"op\":\"p\"}"
            " {\"old\":1,\"new\":\"y\",\"op\":\"p\"}");
        expect_value(admin,
            "SELECT payload->'old' FROM courier.outbox WHERE source = 1 AND type = 'update'",
            "{\"old\":1,\"new\":\"x\",\"op\":\"o\",\"event\":null,\"this\":null,\"tap\":null,"
            "\"n\":null,\"body\":null,\"key\":null,\"sent\":null,\"bigints\":null}");
        expect_error(admin,
            "SELECT courier.capture('\"old\"', '{*}', only_if => 'op = ''insert''')", "42702",
            "\"op\" is ambiguous");
        test_database_drop(&fixture);
}

Test(capture, sees_what_foreign_keys_change)
{
        struct test_database fixture =
            begin_with("CREATE TABLE customers (id int PRIMARY KEY);"
                       "CREATE TABLE orders (id int PRIMARY KEY,"
                       " customer int REFERENCES customers ON DELETE CASCADE ON UPDATE CASCADE);"
                       "SELECT courier.capture('orders', '{*}')");

        expect_after(fixture.admin,
            "INSERT INTO customers VALUES (1); INSERT INTO orders VALUES (10, 1), (11, 1);"
            "UPDATE customers SET id = 2; DELETE FROM customers",
            "SELECT string_agg(type || key, ' ' ORDER BY id) FROM courier.outbox",
            "insert10 insert11 update10 update11 delete10 delete11");
        test_database_drop(&fixture);
}

/* ---- which changes are events --------------------------------------------------------------- */

Test(capture, passes_over_updates_that_change_nothing)
{
        struct test_database fixture = begin_with(
            "CREATE TABLE t (id int PRIMARY KEY, status text, doc json, place point, n numeric, "
            "seen int);"
            "INSERT INTO t VALUES (1, 'new', '{}', '(1,1)', 1.0, 1);"
            "SELECT courier.capture('t', '{*}', name => 'whole');"
            "SELECT courier.capture('t', '{id,status,doc,place,n}', name => 'listed');"
            "SELECT courier.capture('t', '{id,status,doc,place,n}', name => 'rows', level => "
            "'row');"
            "SELECT courier.capture('t', '{id}', name => 'every', unchanged => true);"
            "SELECT courier.capture('t', '{*}', name => 'status', when_changed => '{status}');"
            "SELECT courier.capture('t', '{id}', name => 'any', when_changed => '{*}', level => "
            "'row')");
        PGconn *admin = fixture.admin;
        const char *names = "SELECT string_agg(name, ' ' ORDER BY source) FROM courier.outbox AS o"
                            " JOIN courier.attachment AS a ON a.id = o.source";

        expect_after(admin, "UPDATE t SET status = 'new', doc = '{}', n = 1.0", names, "every");
        expect_after(admin, "UPDATE t SET seen = 2", names, "whole every any");
        expect_after(
            admin, "UPDATE t SET status = NULL", names, "whole listed rows every status any");
        expect_after(admin, "UPDATE t SET doc = '{ }'", names, "whole listed rows every any");
        expect_after(admin, "UPDATE t SET place = '(1,2)'", names, "whole listed rows every any");
        expect_after(admin, "UPDATE t SET n = 1.00", names, "whole listed rows every any");
        expect_after(admin, "UPDATE t SET id = 1 WHERE false", names, "");
        test_database_drop(&fixture);
}

Test(capture, asks_a_condition_about_both_rows)
{
        struct test_database fixture = begin_with(ORDERS
            "SELECT courier.capture('orders', '{id}', name => 'big', only_if => 'new.total > 100');"
            "SELECT courier.capture('orders', '{id}', name => 'fell', level => 'row', unchanged => "
            "true,"
            "  only_if => 'op = ''update'' AND new.total < old.total');"
            "SELECT courier.capture('orders', '{id}', name => 'ends', ops => '{delete,update}', "
            "unchanged => true,"
            "  only_if => 'op = ''delete'' OR new.status = ''done''');"
            "SELECT courier.capture('orders', '{status}', name => 'either', ops => '{update}',"
            "  only_if => 'new.total < 0 OR new.status = ''done''')");
        PGconn *admin = fixture.admin;
        const char *names =
            "SELECT string_agg(name || ' ' || type, ', ' ORDER BY o.id) FROM courier.outbox AS o"
            " JOIN courier.attachment AS a ON a.id = o.source";

        expect_after(admin, "INSERT INTO orders VALUES (1, 1, 'new', 50), (2, 1, 'done', 150)",
            names, "big insert");
        expect_after(admin, "UPDATE orders SET total = total - 1", names,
            "fell update, fell update, ends update");
        expect_after(admin, "UPDATE orders SET status = 'done'", names,
            "either update, ends update, ends update");
        expect_after(admin, "DELETE FROM orders", names, "ends delete, ends delete");
        expect_error(admin, "SELECT courier.capture('orders', '{id}', only_if => 'new.total')",
            "42804", "only_if is no condition");
        test_database_drop(&fixture);
}

Test(capture, merges_what_the_transaction_says_into_the_headers)
{
        struct test_database fixture = begin_with(
            ORDERS "SELECT courier.capture('orders', '{id}', name => 'a');"
                   "SELECT courier.capture('orders', '{id}', name => 'b', level => 'row',"
                   "  headers => 'jsonb_build_object(''actor'', ''tap'', ''n'', new.id)')");
        PGconn *admin = fixture.admin;
        const char *headers = "SELECT string_agg(coalesce(headers::text, '-'), ' ' ORDER BY "
                              "source) FROM courier.outbox";

        expect_after(admin,
            "BEGIN; SET LOCAL courier.headers = '{\"actor\": \"ann\", \"traceparent\": \"00-1\"}';"
            "INSERT INTO orders VALUES (1); COMMIT",
            headers,
            "{\"actor\": \"ann\", \"traceparent\": \"00-1\"}"
            " {\"n\": 1, \"actor\": \"tap\", \"traceparent\": \"00-1\"}");
        /* Not on the next transaction of the session. */
        expect_after(
            admin, "INSERT INTO orders VALUES (2)", headers, "- {\"n\": 2, \"actor\": \"tap\"}");
        /* However malformed, it fails no write. */
        expect_after(admin,
            "BEGIN; SET LOCAL courier.headers = '{oops'; INSERT INTO orders VALUES (3); COMMIT",
            headers,
            "{\"headers-dropped\": \"no JSON\"} {\"n\": 3, \"actor\": \"tap\", "
            "\"headers-dropped\": \"no JSON\"}");
        expect_after(admin,
            "BEGIN; SET LOCAL courier.headers = '[1]'; INSERT INTO orders VALUES (4); COMMIT",
            headers, "{\"headers\": [1]} {\"n\": 4, \"actor\": \"tap\", \"headers\": [1]}");
        for (int n = 511; n < 600; n += 80) { /* too large together with n and actor; by itself */
                char *large =
                    xasprintf("BEGIN; SELECT set_config('courier.headers', json_build_object('x',"
                              " repeat('0123456789abcdef0123456789abcdef', %d))::text, true);"
                              "INSERT INTO orders VALUES (%d); COMMIT",
                        n, n);

                expect_after(admin, large,
                    "SELECT string_agg(CASE WHEN length(headers::text) > 100 THEN 'large' ELSE "
                    "headers::text END,"
                    " ' ' ORDER BY source) FROM courier.outbox",
                    n == 511 ? "large {\"headers-dropped\": \"size\"}"
                             : "{\"headers-dropped\": \"size\"}"
                               " {\"n\": 591, \"actor\": \"tap\", \"headers-dropped\": \"size\"}");
                free(large);
        }
        test_database_drop(&fixture);
}

/* ---- who may, and what is refused ----------------------------------------------------------- */

Test(capture, refuses_what_it_cannot_do_and_changes_nothing)
{
        struct test_database fixture =
            begin_with(ORDERS "CREATE VIEW v AS SELECT * FROM orders; CREATE TEMPORARY TABLE tmp "
                              "(id int PRIMARY KEY);"
                              "CREATE TABLE split (id int PRIMARY KEY) PARTITION BY LIST (id)");
        PGconn *admin = fixture.admin;
        static const struct {
                const char *arguments, *state, *words;
        } refused[] = {
            {"'v', '{*}'", "42809", "it is a view"},
            {"'tmp', '{*}'", "42809", "it is a temporary table"},
            {"'pg_class', '{*}'", "42809", "it belongs to PostgreSQL itself"},
            {"'courier.outbox', '{*}'", "42809", "it belongs to pgcourier itself"},
            {"NULL, '{*}'", "22004", "there is no table"},
            {"'orders'", "22023", "columns => '{id,customer_id,status}', or all columns"},
            {"'orders', '{}'", "22023", "columns names no column"},
            {"'orders', '{id,NULL}'", "22023", "columns names no column"},
            {"'orders', '{id,sum}'", "42703",
                "columns names what is no column of the table: 'sum'"},
            {"'orders', '{*,-sum}'", "42703", "no column of the table: 'sum'"},
            {"'orders', '{*,id}'", "22023", "columns has * and names columns besides"},
            {"'orders', '{id}', when_changed => '{sum}'", "42703", "when_changed names"},
            {"'orders', '{id}', ops => '{truncate}'", "0A000", "REVOKE TRUNCATE"},
            {"'orders', '{id}', ops => '{upsert}'", "22023", "not some of {insert,update,delete}"},
            {"'orders', '{id}', ops => '{}'", "22023", "not some of"},
            {"'orders', '{id}', ops => NULL", "22023", "ops are NULL"},
            {"'orders', '{id}', payload => 'full'", "22023", "none of new, both and diff"},
            {"'orders', '{id}', payload => 'json_build_object(new.sum)'", "42703",
                "payload does not compile"},
            {"'orders', '{id}', key => 'new.sum'", "42703", "key does not compile"},
            {"'orders', '{id}', payload => 'row_to_json(new)'", "22023", "{{old}} and {{new}}"},
            {"'orders', '{id}', only_if => 'old.* IS DISTINCT FROM new.*'", "22023", "as a whole"},
            {"'orders', '{id}', headers => '(new.id)'", "42804", "headers are of type bigint"},
            {"'orders', '{id}', topic => ''", "22023", "the topic is ''"},
            {"'orders', '{id}', level => 'table'", "22023", "neither statement nor row"},
            {"'split', '{id}', level => 'statement'", "22023", "statement triggers are silent"},
            {"'orders', '{id}', bigint_as => 'string'", "22023", "neither number nor text"},
            {"'orders', '{id}', unchanged => NULL", "22004", "unchanged is NULL"},
            {"'orders', '{id}', unchanged => true, when_changed => '{id}'", "22023", "all are"},
            {"'orders', '{id}', ops => '{insert}', when_changed => '{id}'", "22023", "none is"},
            {"'orders', '{id}', name => 'No'", "22023", "is not 1 to 48 small letters"},
            {"'orders', '{id}', lock_timeout => '0 s'", "22023", "not between 1 ms and 1 day"},
        };

        for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
                char *call = xasprintf("SELECT courier.capture(%s)", refused[i].arguments);

                expect_error(admin, call, refused[i].state, refused[i].words);
                free(call);
        }
        if (PQserverVersion(admin) >= 180000) {
                database_exec(admin, "CREATE TABLE virtual (id int PRIMARY KEY, n int GENERATED "
                                     "ALWAYS AS (id + 1) VIRTUAL)");
                expect_error(
                    admin, "SELECT courier.capture('virtual', '{*}')", "0A000", "as in {*,-name}");
                expect_error(admin, "SELECT courier.capture('virtual', '{id,n}')", "0A000",
                    "virtual generated columns: n");
        }
        expect_value(admin, "SELECT count(*) FROM courier.attachment", "0");
        expect_value(
            admin, "SELECT count(*) FROM pg_trigger WHERE tgrelid = 'orders'::regclass", "0");
        expect_value(admin,
            "SELECT count(*) FROM pg_proc WHERE pronamespace = 'courier_tap'::regnamespace", "0");
        test_database_drop(&fixture);
}

/* An expression runs with the rights of the table's owner; a writer needs none in courier. */
Test(capture, runs_with_the_rights_of_the_owner_of_the_table)
{
        struct test_database fixture = begin_with(
            "DROP ROLE IF EXISTS captor; DROP ROLE IF EXISTS clerk; CREATE ROLE captor LOGIN; "
            "CREATE ROLE clerk LOGIN;"
            "CREATE SCHEMA shop AUTHORIZATION captor; GRANT USAGE ON SCHEMA shop TO clerk");
        char *captor_dsn = dsn_as_user(fixture.dsn, "captor");
        char *clerk_dsn = dsn_as_user(fixture.dsn, "clerk");
        PGconn *captor = database_connect(captor_dsn);
        PGconn *clerk = database_connect(clerk_dsn);

        database_exec(captor, "CREATE TABLE shop.orders (id int PRIMARY KEY, status text);"
                              "CREATE FUNCTION shop.label(text) RETURNS text LANGUAGE sql AS "
                              "'SELECT current_user || $1';"
                              "ALTER TABLE shop.orders ENABLE ROW LEVEL SECURITY;"
                              "CREATE POLICY own ON shop.orders FOR ALL TO clerk USING (id < 10);"
                              "GRANT SELECT, INSERT, UPDATE, DELETE ON shop.orders TO clerk");
        expect_error(
            captor, "SELECT courier.capture('shop.orders', '{*}')", "42501", "permission denied");
        database_exec(fixture.admin, "GRANT courier_attacher TO captor, clerk");
        expect_error(
            clerk, "SELECT courier.capture('shop.orders', '{*}')", "42501", "belongs to captor");
        database_exec(fixture.admin, "REVOKE courier_attacher FROM clerk");
        database_exec(captor,
            "SELECT courier.capture('shop.orders', '{*}', type => 'shop.label(new.status)', ops => "
            "'{insert}',"
            " name => 'a')");
        database_exec(fixture.admin,
            "SELECT courier.capture('shop.orders', '{id}', name => 'b', level => 'row')");
        expect_error(captor,
            "SELECT courier.capture('shop.orders', '{*}', type => '(SELECT secret FROM "
            "courier.receiver)')",
            "42501", "permission denied");
        database_exec(clerk, "INSERT INTO shop.orders VALUES (1, 'new') RETURNING id");
        expect_value(fixture.admin,
            "SELECT string_agg(type, ' ' ORDER BY source) FROM courier.outbox", "captornew insert");
        expect_value(fixture.admin,
            "SELECT count(*) FROM pg_proc WHERE pronamespace = 'courier_tap'::regnamespace"
            " AND (NOT prosecdef OR proowner <> 'captor'::regrole OR "
            "has_function_privilege('clerk', oid, 'EXECUTE')"
            "      OR NOT proconfig @> '{\"search_path=pg_catalog, "
            "pg_temp\",TimeZone=UTC,bytea_output=hex}')",
            "0");
        expect_error(clerk, "SELECT courier_tap.b_check()", "42501", "permission denied");

        database_exec(captor, "SELECT courier.detach('a'); SELECT courier.detach('b')");
        expect_value(fixture.admin,
            "SELECT count(*) FROM pg_trigger WHERE tgrelid = 'shop.orders'::regclass", "0");
        PQfinish(clerk);
        PQfinish(captor);
        database_exec(fixture.admin,
            "DROP OWNED BY captor; DROP OWNED BY clerk; DROP ROLE captor; DROP ROLE clerk");
        free(clerk_dsn);
        free(captor_dsn);
        test_database_drop(&fixture);
}

/* All that was given, but for the number of the tap. */
#define MADE                                                                                       \
        "SELECT (to_jsonb(a) - '{id,relation,created_at,body_hash}'::text[])::text"                \
        " FROM courier.attachment AS a"

/* A superuser's call is made anew in the role of the owner. */
Test(capture, is_the_same_whoever_calls_it)
{
        struct test_database fixture = begin_with(
            "DROP ROLE IF EXISTS maker; CREATE ROLE maker LOGIN; GRANT courier_attacher TO maker;"
            "CREATE SCHEMA shop AUTHORIZATION maker");
        char *dsn = dsn_as_user(fixture.dsn, "maker");
        PGconn *maker = database_connect(dsn);
        static const char *const calls[] = {
            "SELECT courier.capture('shop.orders', '{id,a}', 'changed', 'b', '{insert,update}',"
            " 'both', 'new.b > 0', '{a,b}', false, 'new.a', 'json_build_object(''b'', new.b)',"
            " 'row', true, 'text', 'c', NULL, '1 s')",
            "SELECT courier.capture('shop.orders', '{*,-a}', unchanged => true)"};

        database_exec(maker, "CREATE TABLE shop.orders (id int PRIMARY KEY, a text, b bigint)");
        for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
                char *made;

                database_exec(maker, calls[i]);
                made = database_value(fixture.admin, MADE);
                database_exec(maker, "SELECT courier.detach(name) FROM courier.attachment");
                database_exec(fixture.admin, calls[i]);
                expect_value(fixture.admin, MADE, made);
                database_exec(fixture.admin, "SELECT courier.detach(name) FROM courier.attachment");
                free(made);
        }
        database_exec(fixture.admin,
            "SELECT courier.capture('shop.orders', '{id}', name => 'c');"
            "SELECT courier.capture('shop.orders', '{a}', replaces => 'c')");
        expect_value(fixture.admin,
            "SELECT name || (expressions ->> 'columns') FROM courier.attachment", "c[\"a\"]");
        PQfinish(maker);
        database_exec(fixture.admin, "DROP OWNED BY maker; DROP ROLE maker");
        free(dsn);
        test_database_drop(&fixture);
}

/* ---- through the relay ---------------------------------------------------------------------- */

Test(capture, brings_changes_to_a_stream)
{
        struct relay_fixture fixture;
        struct relay_process *relay;

        relay_fixture_begin(&fixture, postgres_shared());
        database_exec(fixture.admin,
            ORDERS "SELECT courier.capture('orders', '{id,total}', topic => 'shop.orders')");
        relay = relay_fixture_start(&fixture, "");
        database_exec(fixture.admin,
            "BEGIN; SET LOCAL courier.headers = '{\"actor\": \"ann\"}';"
            "INSERT INTO orders VALUES (1, 5, 'new', 12.50, '{}', 'hush'); COMMIT;"
            "BEGIN; INSERT INTO orders VALUES (2); ROLLBACK; UPDATE orders SET total = 13.00;"
            "DELETE FROM orders");
        relay_fixture_await(&fixture, "events", 3);
        relay_fixture_expect_field(&fixture, "events", 0, "payload", "{\"id\":1,\"total\":12.50}");
        relay_fixture_expect_field(&fixture, "events", 0, "topic", "shop.orders");
        relay_fixture_expect_field(&fixture, "events", 0, "type", "insert");
        relay_fixture_expect_field(&fixture, "events", 1, "payload", "{\"id\":1,\"total\":13.00}");
        relay_fixture_expect_field(&fixture, "events", 2, "key", "1");
        relay_fixture_expect_field(&fixture, "events", 2, "type", "delete");
        relay_stop(relay);
        relay_destroy(relay);
        relay_fixture_end(&fixture);
}
