/* `pgcourier capture`: the commands of captures, which are taps like attached tables. */
#include "base/alloc.h"
#include "support/postgres_expect.h"
#include "support/program_expect.h"

static struct test_database database;

static void start(void)
{
        database = test_database_make();
        database_exec(database.admin,
            "CREATE TABLE orders (id int PRIMARY KEY, status text, total numeric, \"Note\" text);"
            "CREATE TABLE outbox (kind text, body text)");
}

static void stop(void)
{
        test_database_drop(&database);
}

TestSuite(capture_command, .init = start, .fini = stop);

#define CAPTURE(...) program_run(NULL, "capture", "--dsn", database.dsn, __VA_ARGS__, NULL)

Test(capture_command, prints_the_call_for_a_migration)
{
        expect_output(CAPTURE("add", "orders", "--print", "--columns", "id, status,Note", "--ops",
                          "insert,update", "--when-changed=status", "--only-if",
                          "new.status <> 'draft'", "--unchanged", "--lock-timeout=5s"),
            "-- Changes of public.orders become events, in the transaction that makes them.\n"
            "SELECT courier.capture('public.orders',\n"
            "  name         => 'orders',\n"
            "  columns      => '{id,status,Note}',\n"
            "  ops          => '{insert,update}',\n"
            "  only_if      => $$new.status <> 'draft'$$,\n"
            "  when_changed => '{status}',\n"
            "  unchanged    => true,\n"
            "  lock_timeout => '5s');\n");
        expect_value(database.admin, "SELECT count(*) FROM courier.attachment", "0");
}

Test(capture_command, says_what_is_wrong_with_its_arguments)
{
        expect_refusal(CAPTURE("add", "orders"), 2,
            "capture add needs --columns: those that may leave the database, as in --columns "
            "id,status,total; --columns '*' is all of them");
        expect_refusal(
            CAPTURE("add", "orders", "--columns", ""), 2, "--columns: a word is missing");
        expect_refusal(
            CAPTURE("add", "order", "--columns=id", "--print"), 8, "did you mean \"orders\"?");
        expect_refusal(CAPTURE("add"), 2, "capture add: an argument is missing");
        expect_refusal(CAPTURE("ad"), 2, "capture cannot \"ad\"; did you mean \"add\"?");
        expect_refusal(
            CAPTURE("list", "--columns=id"), 2, "capture list takes no --columns; it is for: add");
        expect_refusal(CAPTURE("show", "x"), 8, "there is no tap \"x\"");
}

/* An attached table is not for these commands, by whose names one expects a capture. */
Test(capture_command, is_about_captures_alone)
{
        database_exec(
            database.admin, "SELECT courier.attach('outbox', topic => 'kind', payload => 'body')");
        expect_refusal(
            CAPTURE("list"), 0, "no table is captured; `pgcourier capture add TABLE` does it");
        expect_refusal(CAPTURE("check"), 0, "no table is captured");
        expect_refusal(CAPTURE("show", "outbox"), 8,
            "outbox is no capture; see `pgcourier attach show outbox");
        expect_refusal(CAPTURE("remove", "outbox"), 8, "outbox is no capture");
        expect_value(database.admin, "SELECT count(*) FROM courier.attachment", "1");
}

/* All of the catalog's row but what is of this run, and the generated SQL. */
#define MADE                                                                                       \
        "SELECT (to_jsonb(a) - '{relation,created_at}'::text[])::text || courier.tap_source(name)" \
        " FROM courier.attachment AS a"

#define WORDS                                                                                      \
        "add", "orders", "--columns", "id,status,Note", "--name=o", "--topic", "shop.{{op}}",      \
            "--key", "status", "--payload=diff", "--only-if", "new.status <> 'draft'",             \
            "--when-changed", "status", "--type", "'it''s ' || op", "--headers",                   \
            "'{\"a\": \"\\\\b\"}'::jsonb", "--level=row", "--bigint-as=text"

Test(capture_command, captures_and_prints_what_makes_the_same)
{
        struct program_run print = CAPTURE(WORDS, "--print");
        char *made;

        cr_assert_eq(print.code, 0, "%s", print.err);
        expect_output(CAPTURE(WORDS), "orders is captured as o\n");
        made = database_value(database.admin, MADE);
        database_exec(database.admin,
            "SELECT courier.detach('o'); ALTER TABLE courier.attachment ALTER id RESTART");
        database_exec(database.admin, print.out);
        expect_value(database.admin, MADE, made);
        database_exec(database.admin, "INSERT INTO orders VALUES (1, 'paid', 2.50)");
        expect_value(
            database.admin, "SELECT topic || ' ' || key FROM courier.outbox", "shop.insert paid");
        free(made);
        program_run_free(&print);
}

Test(capture_command, lists_and_checks_and_removes_captures)
{
        struct program_run run = CAPTURE("add", "orders", "--columns", "*,-Note");

        program_run_free(&run);
        database_exec(
            database.admin, "SELECT courier.attach('outbox', topic => 'kind', payload => 'body')");
        expect_output(CAPTURE("list"), "NAME   KIND    TABLE         STATE\n"
                                       "orders capture public.orders ok\n");
        expect_output(CAPTURE("check"), "ok    orders: public.orders\n");
        expect_texts(CAPTURE("show", "orders"), 0, "\ncolumns     id,status,total\n",
            "\nCREATE TRIGGER courier_orders_delete AFTER DELETE ON public.orders");
        database_exec(database.admin, "ALTER TABLE orders RENAME total TO sum");
        expect_texts(CAPTURE("check"), 1, "fail  orders: does_not_compile: ");
        expect_output(CAPTURE("remove", "orders"), "removed orders\n");
        expect_refusal(CAPTURE("list"), 0, "no table is captured");
}

/* All changes are events of either the old capture or the new one. */
Test(capture_command, replaces_a_capture)
{
        expect_output(CAPTURE("add", "orders", "--columns", "id", "--name", "o"),
            "orders is captured as o\n");
        expect_output(CAPTURE("add", "orders", "--columns", "id,total", "--replaces=o", "--print"),
            "-- Changes of public.orders become events, in the transaction that makes them.\n"
            "SELECT courier.capture('public.orders',\n"
            "  columns  => '{id,total}',\n"
            "  replaces => 'o');\n");
        expect_refusal(CAPTURE("add", "orders", "--columns", "id", "--replaces=orders"), 2,
            "capture public.orders: replaces is 'orders', which is no capture of this table. Its "
            "captures: o");
        database_exec(database.admin,
            "ALTER TABLE orders RENAME total TO sum; INSERT INTO orders VALUES (1, 'new', 2.50)");
        expect_output(CAPTURE("add", "orders", "--columns", "id,sum", "--replaces=o"),
            "orders is captured as o\n");
        database_exec(database.admin, "UPDATE orders SET sum = 3.50");
        expect_value(database.admin,
            "SELECT string_agg(payload::text, ' ' ORDER BY id) FROM courier.outbox",
            "{\"id\":1} {\"id\":1,\"sum\":3.50}");
        expect_output(CAPTURE("add", "orders", "--columns", "id", "--replaces=o", "--name=another"),
            "orders is captured as another\n");
        expect_output(CAPTURE("check"), "ok    another: public.orders\n");
}

/* In lists of columns, expressions and the primary key; in no topic or payload that is a word. */
Test(capture_command, the_guard_follows_renames)
{
        struct program_run run;

        database_exec(database.admin,
            "ALTER TABLE orders ADD number int, ADD op text, ADD \"new\" int;"
            "SELECT courier.guard_ddl(true)");
        run = CAPTURE("add", "orders", "--columns", "id,status,number,op,new",
            "--when-changed=status", "--only-if=new.total > 0", "--topic", "total-{{op}}",
            "--bigint-as=number");
        cr_assert_eq(run.code, 0, "%s", run.err);
        program_run_free(&run);
        database_exec(database.admin, "ALTER TABLE orders RENAME id TO order_id");
        database_exec(database.admin, "ALTER TABLE orders RENAME status TO state");
        database_exec(database.admin, "ALTER TABLE orders RENAME number TO nr");
        database_exec(database.admin, "ALTER TABLE orders RENAME op TO operator");
        database_exec(database.admin, "ALTER TABLE orders RENAME \"new\" TO newest");
        database_exec(database.admin, "ALTER TABLE orders RENAME total TO sum");
        database_exec(database.admin,
            "INSERT INTO orders VALUES (1, 'new', 2.50);"
            "UPDATE orders SET \"Note\" = 'n'; UPDATE orders SET state = 'paid'");
        expect_value(database.admin,
            "SELECT string_agg(concat_ws(' ', topic, source_key, payload), E'\n'"
            " ORDER BY id) FROM courier.outbox",
            "total-insert 1 {\"order_id\":1,\"state\":\"new\",\"nr\":null,\"operator\":null,"
            "\"newest\":null}\n"
            "total-update 1 {\"order_id\":1,\"state\":\"paid\",\"nr\":null,\"operator\":null,"
            "\"newest\":null}");
        expect_output(CAPTURE("check"), "ok    orders: public.orders\n");
}
