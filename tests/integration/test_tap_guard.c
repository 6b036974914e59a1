/* courier.guard_ddl(): with the guard, ALTER TABLE of a tapped table leaves a tap that compiles, or
 * fails; and it is in the way of no other table. */
#include "base/alloc.h"
#include "support/postgres_expect.h"
#include "support/program_expect.h"

static struct test_database database;
static PGconn *owner; /* of the tapped table; a member of courier_attacher */

#define MAKE_TABLE                                                                                 \
        "CREATE TABLE shop.events (id uuid PRIMARY KEY DEFAULT gen_random_uuid(), kind text,"      \
        " owner_key text, body jsonb, sent boolean DEFAULT false, noted timestamptz)"

static PGconn *connect_as(const char *user)
{
        char *dsn = dsn_as_user(database.dsn, user);
        PGconn *connection = database_connect(dsn);

        free(dsn);
        return connection;
}

static void start(void)
{
        database = test_database_make();
        database_exec(database.admin,
            "DO $$ BEGIN CREATE ROLE guarded LOGIN; CREATE ROLE stranger LOGIN;"
            " EXCEPTION WHEN duplicate_object THEN NULL; END $$;"
            "GRANT courier_attacher TO guarded; CREATE SCHEMA shop AUTHORIZATION guarded;"
            "CREATE SCHEMA elsewhere AUTHORIZATION stranger; SELECT courier.guard_ddl(true)");
        owner = connect_as("guarded");
        database_exec(owner, MAKE_TABLE);
}

static void stop(void)
{
        PQfinish(owner);
        test_database_drop(&database);
}

TestSuite(tap_guard, .init = start, .fini = stop);

#define ATTACH                                                                                     \
        "SELECT courier.attach('shop.events', topic => 'kind', key => 'owner_key || ''owner_key''" \
        "', payload => 'body', only_if => 'NOT sent', done_when => 'taken',"                       \
        " done_set => 'sent = true, noted = now()')"
#define WRITE "INSERT INTO shop.events (kind) VALUES ('k')"

static char *notices;

static void note(void *context, const char *message)
{
        (void)context;
        free(notices);
        notices = xstrdup(message);
}

static void expect_notice(const char *sql, const char *words)
{
        PQsetNoticeProcessor(owner, note, NULL);
        database_exec(owner, sql);
        cr_expect(notices != NULL && strstr(notices, words) != NULL, "%s: %s", sql, notices);
        free(notices);
        notices = NULL;
}

static void expect_check(int code, const char *words)
{
        struct program_run run = program_run(NULL, "attach", "check", "--dsn", database.dsn, NULL);

        cr_expect_eq(run.code, code, "%s%s", run.out, run.err);
        cr_expect_not_null(strstr(run.out, words), "%s not in:\n%s", words, run.out);
        program_run_free(&run);
}

Test(tap_guard, follows_a_rename_of_each_column_that_a_tap_names)
{
        database_exec(owner, ATTACH);
        expect_notice("ALTER TABLE shop.events RENAME id TO \"Event Id\"",
            "tap events follows: id is now \"Event Id\"");
        expect_notice("ALTER TABLE shop.events RENAME owner_key TO belongs_to",
            "tap events follows: owner_key is now belongs_to");
        expect_notice("ALTER TABLE shop.events RENAME sent TO done", "sent is now done");
        expect_notice("ALTER TABLE shop.events RENAME noted TO at", "noted is now at");
        database_exec(owner, "INSERT INTO shop.events (\"Event Id\", kind, belongs_to, body) VALUES"
                             " ('00000000-0000-4000-8000-000000000001', 'k', 'o', '{}')");
        expect_value(database.admin,
            "SELECT concat_ws(' ', topic, key, event_id, source_key) FROM courier.outbox",
            "k oowner_key 00000000-0000-4000-8000-000000000001 "
            "00000000-0000-4000-8000-000000000001");
        expect_value(owner, "SELECT done AND at IS NOT NULL FROM shop.events", "t");
        expect_value(owner, "SELECT string_agg(state, ',') FROM courier.check_attachments()", "ok");
}

Test(tap_guard, swaps_names_by_way_of_a_third)
{
        database_exec(owner, "SELECT courier.attach('shop.events', topic => 'kind', key => "
                             "'owner_key', payload => 'body', done => 'keep')");
        database_exec(owner, "ALTER TABLE shop.events RENAME kind TO passing");
        database_exec(owner, "ALTER TABLE shop.events RENAME owner_key TO kind");
        database_exec(owner, "ALTER TABLE shop.events RENAME passing TO owner_key");
        database_exec(owner, "INSERT INTO shop.events (owner_key, kind) VALUES ('topic', 'key')");
        expect_value(database.admin, "SELECT topic || ' ' || key FROM courier.outbox", "topic key");
}

/* What the tap does not name is looked at as well. */
Test(tap_guard, follows_to_a_name_that_another_column_had)
{
        database_exec(owner, "SELECT courier.attach('shop.events', topic => 'kind', payload => "
                             "'body', done => 'keep')");
        database_exec(owner, "ALTER TABLE shop.events RENAME owner_key TO unused");
        database_exec(owner, "ALTER TABLE shop.events RENAME kind TO owner_key");
        database_exec(owner, "INSERT INTO shop.events (owner_key) VALUES ('topic')");
        expect_value(database.admin, "SELECT topic FROM courier.outbox", "topic");
}

Test(tap_guard, follows_the_table_itself_and_a_superuser_and_keeps_the_owner)
{
        database_exec(owner, "SELECT courier.attach('shop.events', topic => 'kind', payload => "
                             "'body', done => 'keep')");
        database_exec(database.admin, "ALTER TABLE shop.events RENAME TO renamed");
        database_exec(database.admin, "BEGIN; ALTER TABLE shop.renamed RENAME kind TO topic");
        expect_value(database.admin, "SELECT current_user", "postgres");
        database_exec(database.admin, "COMMIT");
        database_exec(owner, "INSERT INTO shop.renamed (topic) VALUES ('t')");
        expect_value(database.admin, "SELECT topic FROM courier.outbox", "t");
        expect_value(database.admin,
            "SELECT string_agg(DISTINCT proowner::regrole::text, ',') FROM pg_proc"
            " WHERE pronamespace = 'courier_tap'::regnamespace",
            "guarded");
        expect_check(0, "ok    events: shop.renamed\n");
}

Test(tap_guard, refuses_what_would_fail_the_writes_and_says_the_way_out)
{
        database_exec(owner, ATTACH);
        expect_error(owner, "ALTER TABLE shop.events DROP body", "2BP01",
            "after this change, writes to shop.events fail in tap events: column \"body\" does not "
            "exist");
        expect_error(owner, "ALTER TABLE shop.events DROP body", "2BP01",
            "In one transaction: SELECT courier.detach('events'), this change, and attach");
        expect_error(
            database.admin, "ALTER TABLE shop.events DROP COLUMN owner_key", "2BP01", "tap events");
        database_exec(owner, WRITE);
        database_exec(owner, "ALTER TABLE shop.events ADD extra int");
        database_exec(owner, "ALTER TABLE shop.events DROP extra");
        database_exec(owner, "BEGIN; SELECT courier.detach('events');"
                             "ALTER TABLE shop.events DROP body; COMMIT");
        database_exec(owner, WRITE);
        expect_value(database.admin, "SELECT count(*) FROM courier.outbox", "1");
}

/* A name in a subquery may be one of the other table's. */
Test(tap_guard, does_not_guess_within_subqueries)
{
        database_exec(owner, "CREATE TABLE shop.bodies (kind text, text text)");
        database_exec(owner, "SELECT courier.attach('shop.events', topic => 'kind', payload =>"
                             " '(SELECT min(text) FROM shop.bodies AS b WHERE b.kind = kind)',"
                             " done => 'keep')");
        expect_error(owner, "ALTER TABLE shop.events RENAME kind TO topic", "2BP01",
            "column \"kind\" does not exist");
        database_exec(owner, WRITE);
}

Test(tap_guard, is_in_the_way_of_no_other_table_nor_of_the_end_of_the_schema)
{
        PGconn *stranger = connect_as("stranger");

        database_exec(owner, ATTACH);
        database_exec(
            stranger, "CREATE TABLE elsewhere.t (a int); ALTER TABLE elsewhere.t RENAME a TO b");
        database_exec(stranger, "ALTER TABLE elsewhere.t ADD c int, DROP b");
        database_exec(owner, "SELECT courier.detach('events')");
        database_exec(database.admin, "DROP SCHEMA courier_tap, courier CASCADE");
        database_exec(stranger, "ALTER TABLE elsewhere.t RENAME c TO d");
        database_exec(owner, "ALTER TABLE shop.events DROP body");
        expect_value(database.admin, "SELECT count(*) FROM pg_event_trigger", "0");
        PQfinish(stranger);
}

/* Its writes do not fail. */
Test(tap_guard, leaves_a_disabled_tap_alone)
{
        database_exec(owner, ATTACH);
        database_exec(owner, "ALTER TABLE shop.events DISABLE TRIGGER USER");
        database_exec(owner, "ALTER TABLE shop.events DROP body");
        database_exec(owner, WRITE);
        expect_error(owner, "ALTER TABLE shop.events ENABLE TRIGGER USER", "2BP01", "tap events");
}

/* A change of the parent reaches its partitions, of which one may be attached by itself. */
Test(tap_guard, looks_at_partitions_too)
{
        database_exec(owner,
            "CREATE TABLE shop.parent (id int, kind text, body text)"
            " PARTITION BY RANGE (id);"
            "CREATE TABLE shop.part PARTITION OF shop.parent DEFAULT;"
            "SELECT courier.attach('shop.part', topic => 'kind', payload => 'body',"
            " done => 'keep')");
        expect_error(owner, "ALTER TABLE shop.parent DROP body", "2BP01", "tap part");
        expect_notice("ALTER TABLE shop.parent RENAME kind TO topic", "kind is now topic");
        database_exec(owner, "INSERT INTO shop.parent VALUES (1, 't', '{}')");
        expect_value(database.admin, "SELECT topic FROM courier.outbox", "t");
}

/* Without it the application's writes fail, and check names the tap. */
Test(tap_guard, is_optional_and_without_it_the_check_finds_what_broke)
{
        database_exec(database.admin, "SELECT courier.guard_ddl(true), courier.guard_ddl(false)");
        database_exec(owner, ATTACH);
        expect_check(0, "ok    events: shop.events\n");
        database_exec(owner, "ALTER TABLE shop.events RENAME owner_key TO belongs_to");
        expect_error(owner, WRITE, "42703", "column \"owner_key\" does not exist");
        expect_check(1, "fail  events: does_not_compile: writes to shop.events fail: column "
                        "\"owner_key\" does not exist\n"
                        "      In one transaction: SELECT courier.detach('events'), and attach");
}

Test(tap_guard, is_for_superusers)
{
        char *dsn = dsn_as_user(database.dsn, "guarded");

        expect_refusal(program_run(NULL, "attach", "guard", "off", "--dsn", dsn, NULL), 7,
            "permission denied for function guard_ddl. It needs a superuser\n");
        database_exec(
            database.admin, "GRANT EXECUTE ON FUNCTION courier.guard_ddl(boolean) TO guarded");
        expect_output(program_run(NULL, "attach", "guard", "off", "--dsn", database.dsn, NULL),
            "the guard is off\n");
        expect_value(database.admin, "SELECT count(*) FROM pg_event_trigger", "0");
        expect_refusal(program_run(NULL, "attach", "guard", "on", "--dsn", dsn, NULL), 7,
            "permission denied to create event trigger \"courier_ddl_guard\"");
        for (int i = 0; i < 2; i++)
                expect_output(
                    program_run(NULL, "attach", "guard", "on", "--dsn", database.dsn, NULL),
                    "the guard is on\n");
        expect_value(database.admin, "SELECT count(*) FROM pg_event_trigger", "1");
        expect_refusal(program_run(NULL, "attach", "guard", "maybe", NULL), 2,
            "attach guard: \"maybe\" is neither on nor off");
        free(dsn);
}

Test(tap_guard, renames_identifiers_and_nothing_else)
{
        static const char *const cases[][2] = {
            {"a", "\"B c\""},
            {"A || \"a\" || \"A\"", "\"B c\" || \"B c\" || \"A\""},
            {"'a' || E'\\'a' || $$a$$ || $x$ a $ a $x$ || a",
                "'a' || E'\\'a' || $$a$$ || $x$ a $ a $x$ || \"B c\""},
            {"a /* a */ -- a\n+ a", "\"B c\" /* a */ -- a\n+ \"B c\""},
            {"new.a + old.a + op.a + (row).a", "new.\"B c\" + old.\"B c\" + op.a + (row).a"},
            {"shop.a(a) + a(1) + a.b", "shop.a(\"B c\") + a(1) + a.b"},
            {"a::a || CAST(a AS a)", "\"B c\"::a || CAST(\"B c\" AS a)"},
            {"a1 + _a + \303\251a + a\303\251 + 1e5", "a1 + _a + \303\251a + a\303\251 + 1e5"},
            {"{{a}} || a", "{{a}} || \"B c\""},
            {"a = 1, at = now()", "\"B c\" = 1, at = now()"},
            {"(SELECT x FROM y WHERE y.z = new.a)", "(SELECT x FROM y WHERE y.z = new.\"B c\")"},
            {"(SELECT a FROM y)", ""},
        };

        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
                PGresult *result =
                    PQexecParams(database.admin, "SELECT courier.tap_rename($1, 'a', 'B c')", 1,
                        NULL, (const char *const[]){cases[i][0]}, NULL, NULL, 0);
                cr_expect_str_eq(PQgetvalue(result, 0, 0), cases[i][1], "%s: %s", cases[i][0],
                    PQresultErrorMessage(result));
                PQclear(result);
        }
}
