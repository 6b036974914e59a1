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
