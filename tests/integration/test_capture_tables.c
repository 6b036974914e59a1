/*
 * courier.capture() of tables that are large, partitioned, written by several sessions at once, or
 * altered: that no change is missing, and that old and new rows belong together.
 */
#include "base/alloc.h"
#include "capture_rig.h"

#include <criterion/criterion.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>

/* ---- old and new belong together ------------------------------------------------------------ */

static unsigned dice;

static unsigned roll(unsigned n)
{
        dice = dice * 1664525U + 1013904223U;
        return (dice >> 8) % n;
}

/* `uid` never changes, `n` counts the updates of a row. A statement that changes many rows in some
 * order of its own. */
static char *invent_update(unsigned n_kinds)
{
        static const char *const sets[] = {"n = n + 1", "n = n + 1, id = id + 1000",
            "n = n + 1, id = -id", "n = n + 1, note = repeat('x', (uid * 7) % 3000)"};
        const char *set = sets[roll(4)];

        switch (roll(n_kinds)) {
        case 0:
                return xasprintf("UPDATE t SET %s", set);
        case 1:
                return xasprintf("UPDATE t SET %s WHERE uid %% %u = 0", set, 2 + roll(3));
        case 2: /* the order of a join */
                return xasprintf(
                    "UPDATE t SET %s FROM (SELECT uid AS u FROM t ORDER BY md5(uid::text))"
                    " AS s WHERE u = uid AND u > %u",
                    set, roll(40));
        case 3:
                return xasprintf("INSERT INTO t SELECT id, uid, 0 FROM t ORDER BY uid %% %u, id"
                                 " ON CONFLICT (uid) DO UPDATE SET n = t.n + 1",
                    2 + roll(5));
        default:
                return xasprintf(
                    "MERGE INTO t USING (SELECT uid AS u FROM t ORDER BY -uid) AS s ON u = uid"
                    " WHEN MATCHED AND u %% 3 = 0 THEN UPDATE SET %s WHEN MATCHED AND u < 3 THEN "
                    "DELETE",
                    set);
        }
}

/* Two sessions update the same rows; the second waits for the first, and looks at its rows anew. The
 * first locks them all, so that neither ever waits for the other in turn. */
static void run_history(PGconn *first, PGconn *second, unsigned n_kinds)
{
        char *updates[] = {invent_update(n_kinds), invent_update(n_kinds), invent_update(n_kinds)};
        PGresult *result;

        database_exec(first, "BEGIN; SELECT FROM t FOR UPDATE");
        database_exec(first, updates[0]);
        cr_assert(PQsendQuery(second, updates[1]));
        for (unsigned i = roll(3); i > 0;
             i--) /* now and then the second begins before the commit */
                poll(NULL, 0, 1);
        database_exec(first, updates[2]);
        database_exec(first, "COMMIT");
        while ((result = PQgetResult(second)) != NULL) {
                cr_assert(PQresultStatus(result) == PGRES_COMMAND_OK, "%s: %s", updates[1],
                    PQerrorMessage(second));
                PQclear(result);
        }
        for (size_t i = 0; i < 3; i++)
                free(updates[i]);
}

static void pair_rows(const char *capture, const char *make, unsigned n_kinds)
{
        struct test_database fixture = begin_with(make);
        PGconn *second = database_connect(fixture.dsn);

        n_kinds -= n_kinds == 5 && PQserverVersion(second) < 150000; /* there is no MERGE */
        database_exec(fixture.admin, capture);
        for (int i = 0; i < 150; i++) {
                database_exec(fixture.admin,
                    "TRUNCATE t; INSERT INTO t SELECT i, i, 0 FROM generate_series(1, 60) AS i");
                database_exec(fixture.admin, FORGET);
                run_history(fixture.admin, second, n_kinds);
                expect_value(fixture.admin,
                    "SELECT count(*) FROM courier.outbox WHERE type = 'update' AND"
                    " ((payload->'old'->>'uid') IS DISTINCT FROM (payload->'new'->>'uid') OR"
                    "  (payload->'old'->>'n')::int + 1 IS DISTINCT FROM "
                    "(payload->'new'->>'n')::int OR"
                    "  key IS DISTINCT FROM (payload->'new'->>'id'))",
                    "0");
                /* As many as there were updates of the rows that are never deleted. */
                expect_value(fixture.admin,
                    "SELECT (SELECT sum(n) FROM t WHERE uid > 2) - (SELECT count(*) FROM "
                    "courier.outbox"
                    " WHERE type = 'update' AND (payload->'new'->>'uid')::int > 2)",
                    "0");
        }
        PQfinish(second);
        test_database_drop(&fixture);
}

#define PLAIN                                                                                      \
        "CREATE TABLE t (id int NOT NULL, uid int UNIQUE, n int, note text, PRIMARY KEY (id, "     \
        "uid))"

/* The key of an event is that of its new row. */
Test(capture_tables, pair_old_and_new_rows_of_whole_rows)
{
        dice = 1;
        pair_rows("SELECT courier.capture('t', '{*}', payload => 'both', key => 'id')", PLAIN, 5);
}

Test(capture_tables, pair_old_and_new_rows_of_named_columns)
{
        dice = 2;
        pair_rows(
            "SELECT courier.capture('t', '{id,uid,n}', payload => 'both', key => 'id')", PLAIN, 5);
}

/* The rows of children are changed by the parent's name. */
Test(capture_tables, pair_old_and_new_rows_of_an_inheritance)
{
        dice = 3;
        pair_rows("SELECT courier.capture('t', '{*}', payload => 'both', key => 'id')",
            PLAIN
            ";"
            "CREATE TABLE kid (more text, n int, uid int UNIQUE, id int NOT NULL) INHERITS (t);"
            "CREATE FUNCTION place() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
            " IF NEW.uid % 3 = 1 AND NOT EXISTS (SELECT FROM t WHERE uid = NEW.uid) THEN"
            "  INSERT INTO kid (id, uid, n) VALUES (NEW.id, NEW.uid, NEW.n); RETURN NULL; END IF;"
            " RETURN NEW; END $$;"
            "CREATE TRIGGER place BEFORE INSERT ON t FOR EACH ROW EXECUTE FUNCTION place()",
            3);
}

Test(capture_tables, pair_a_thousand_rows_after_a_plan_for_one)
{
        struct test_database fixture =
            begin_with("CREATE TABLE t (id int PRIMARY KEY, uid int, n int);"
                       "INSERT INTO t SELECT i, i, 0 FROM generate_series(1, 1000) AS i;"
                       "SELECT courier.capture('t', '{*}', payload => 'both')");
        PGconn *admin = fixture.admin;

        for (int i = 0; i < 10; i++)
                database_exec(
                    admin, "UPDATE t SET n = n WHERE id = 1; UPDATE t SET n = n + 1 WHERE id = 2");
        database_exec(admin, FORGET);
        database_exec(admin, "UPDATE t SET id = -id, n = n + 1");
        expect_value(admin,
            "SELECT count(*) || ' ' || count(*) FILTER (WHERE payload->'old'->>'uid' = "
            "payload->'new'->>'uid'"
            " AND key = '-' || (payload->'old'->>'id')) FROM courier.outbox",
            "1000 1000");
        test_database_drop(&fixture);
}

/* The plan that has the rows in no order: a hash join in several batches. */
Test(capture_tables, keep_the_order_of_a_statement_whatever_its_plan)
{
        struct test_database fixture =
            begin_with("CREATE TABLE t (id int PRIMARY KEY, n int);"
                       "INSERT INTO t SELECT i, 0 FROM generate_series(1, 5000) AS i;"
                       "SELECT courier.capture('t', '{*}', payload => 'both')");

        database_exec(fixture.admin, "SET work_mem = '64kB'; SET enable_mergejoin = off;"
                                     "UPDATE t SET n = id");
        expect_value(fixture.admin,
            "SELECT count(*) || ' ' || bool_and(n = (payload->'new'->>'id')::int) FROM"
            " (SELECT payload, row_number() OVER (ORDER BY id) AS n FROM courier.outbox) AS o",
            "5000 true");
        test_database_drop(&fixture);
}

/* ---- large statements ----------------------------------------------------------------------- */

/* In kilobytes, of the memory that is a backend's own. */
static long own_memory(int backend)
{
        char *path = xasprintf("/proc/%d/status", backend);
        FILE *file = fopen(path, "r");
        char line[256];
        long kilobytes = -1;

        cr_assert_not_null(file, "%s", path);
        while (fgets(line, sizeof line, file) != NULL)
                if (strncmp(line, "RssAnon:", 8) == 0)
                        kilobytes = atol(line + 8);
        fclose(file);
        free(path);
        return kilobytes;
}

/* Until the statement that was sent has ended; the most memory that the backend had meanwhile. */
static long await_result(PGconn *connection)
{
        long most = 0, now;
        PGresult *result;

        while (PQisBusy(connection)) {
                now = own_memory(PQbackendPID(connection));
                most = now > most ? now : most;
                poll(NULL, 0, 1);
                cr_assert(PQconsumeInput(connection), "%s", PQerrorMessage(connection));
        }
        while ((result = PQgetResult(connection)) != NULL) {
                cr_assert_eq(
                    PQresultStatus(result), PGRES_COMMAND_OK, "%s", PQerrorMessage(connection));
                PQclear(result);
        }
        return most;
}

/* The rows are 60 MB, old and new ones twice that, and their events as much again. */
Test(capture_tables, keep_memory_bounded_however_many_rows_a_statement_has)
{
        enum { N_ROWS = 60000, AT_MOST_KB = 64 * 1024 };
        struct test_database fixture =
            begin_with("CREATE TABLE t (id int PRIMARY KEY, n int, note text);"
                       "INSERT INTO t VALUES (0, 0, ''); SELECT courier.capture('t', '{*}', "
                       "payload => 'both');"
                       "UPDATE t SET n = 1; TRUNCATE courier.outbox");
        PGconn *writer = database_connect(fixture.dsn);
        char row[1100];
        long before, most;

        database_exec(writer,
            "INSERT INTO t VALUES (-1, 0, ''); UPDATE t SET n = 2; TRUNCATE courier.outbox, t");
        before = own_memory(PQbackendPID(writer));
        PQclear(PQexec(writer, "COPY t FROM STDIN"));
        for (int i = 1; i <= N_ROWS; i++) {
                int length = snprintf(row, sizeof row, "%d\t0\t%01000d\n", i, i);

                cr_assert_eq(PQputCopyData(writer, row, length), 1);
        }
        cr_assert_eq(PQputCopyEnd(writer, NULL), 1);
        most = await_result(writer);
        cr_expect_lt(most - before, AT_MOST_KB, "COPY: from %ld to %ld kB", before, most);
        expect_value(fixture.admin,
            "SELECT count(*) || ' ' || bool_and(n = (payload->'new'->>'id')::int) FROM"
            " (SELECT payload, row_number() OVER (ORDER BY id) AS n FROM courier.outbox) AS o",
            "60000 true");

        database_exec(fixture.admin, "TRUNCATE courier.outbox");
        cr_assert(PQsendQuery(writer, "UPDATE t SET n = id"));
        most = await_result(writer);
        cr_expect_lt(most - before, AT_MOST_KB, "UPDATE: from %ld to %ld kB", before, most);
        expect_value(fixture.admin,
            "SELECT count(*) || ' ' || bool_and(n = (payload->'new'->>'n')::int AND n = "
            "(payload->'old'->>'id')::int)"
            " FROM (SELECT payload, row_number() OVER (ORDER BY id) AS n FROM courier.outbox) AS o",
            "60000 true");
        PQfinish(writer);
        test_database_drop(&fixture);
}

/* ---- partitions ----------------------------------------------------------------------------- */

Test(capture_tables, see_what_is_written_to_a_partition)
{
        struct test_database fixture = begin_with(
            "CREATE TABLE t (id int, region text, n int, PRIMARY KEY (id, region)) PARTITION BY "
            "LIST (region);"
            "CREATE TABLE t_eu PARTITION OF t FOR VALUES IN ('eu');"
            "SELECT courier.capture('t', '{id,region,n}', key => 'id', payload => 'both');"
            /* Added later, with its columns in another order. */
            "CREATE TABLE t_us (n int, region text NOT NULL, gone int, id int NOT NULL);"
            "ALTER TABLE t_us DROP gone; ALTER TABLE t ATTACH PARTITION t_us FOR VALUES IN ('us')");
        PGconn *admin = fixture.admin;

        expect_after(admin, "INSERT INTO t VALUES (1, 'eu', 0), (2, 'us', 0)", PAYLOADS,
            "{\"old\" : null, \"new\" : {\"id\":1,\"region\":\"eu\",\"n\":0}}"
            " {\"old\" : null, \"new\" : {\"id\":2,\"region\":\"us\",\"n\":0}}");
        expect_after(admin, "INSERT INTO t_us (id, region, n) VALUES (3, 'us', 0)", PAYLOADS,
            "{\"old\" : null, \"new\" : {\"id\":3,\"region\":\"us\",\"n\":0}}");
        database_exec(admin, FORGET);
        PQclear(PQexec(admin, "COPY t_eu FROM STDIN"));
        PQputCopyData(admin, "4\teu\t0\n5\teu\t0\n", 14);
        PQputCopyEnd(admin, NULL);
        PQclear(PQgetResult(admin));
        expect_value(admin, "SELECT string_agg(key, ' ' ORDER BY id) FROM courier.outbox", "4 5");
        PQclear(PQgetResult(admin));
        /* A row that moves is deleted here and inserted there. */
        expect_after(admin, "UPDATE t SET n = n + 1, region = 'us' WHERE id IN (1, 2)",
            "SELECT string_agg(type || ' ' || payload, ', ' ORDER BY id) FROM courier.outbox",
            "delete {\"old\" : {\"id\":1,\"region\":\"eu\",\"n\":0}, \"new\" : null},"
            " insert {\"old\" : null, \"new\" : {\"id\":1,\"region\":\"us\",\"n\":1}},"
            " update {\"old\" : {\"id\":2,\"region\":\"us\",\"n\":0}, \"new\" : "
            "{\"id\":2,\"region\":\"us\",\"n\":1}}");
        expect_after(admin, "DELETE FROM t",
            "SELECT count(*) FROM courier.outbox WHERE type = 'delete'", "5");
        expect_value(admin,
            "SELECT level || ' ' || state FROM courier.attachment JOIN courier.check_attachments() "
            "USING (name)",
            "row ok");
        database_exec(admin, "SELECT courier.recompile('t')");
        expect_after(admin, "INSERT INTO t_us (id, region) VALUES (9, 'us')",
            "SELECT count(*) FROM courier.outbox", "1");
        database_exec(admin, "SELECT courier.detach('t')");
        expect_value(admin,
            "SELECT count(*) FROM pg_trigger WHERE tgname LIKE 'courier%'"
            " AND tgrelid IN ('t'::regclass, 't_eu'::regclass, 't_us'::regclass)",
            "0");
        test_database_drop(&fixture);
}

Test(capture_tables, notice_what_silences_a_capture)
{
        struct test_database fixture =
            begin_with("CREATE TABLE t (id int PRIMARY KEY); SELECT courier.capture('t', '{*}');"
                       "CREATE TABLE whole (id int PRIMARY KEY) PARTITION BY LIST (id)");
        PGconn *admin = fixture.admin;
        const char *state =
            "SELECT state || ' ' || coalesce(remedy, '') FROM courier.check_attachments()";

        database_exec(admin, "ALTER TABLE t DISABLE TRIGGER courier_t_update");
        expect_value(admin, state, "disabled ALTER TABLE public.t ENABLE TRIGGER courier_t_update");
        database_exec(admin, "ALTER TABLE public.t ENABLE TRIGGER courier_t_update");
        expect_value(admin, state, "ok ");
        database_exec(admin, "DROP TRIGGER courier_t_delete ON t");
        expect_value(admin, state, "trigger_missing SELECT courier.recompile('t')");
        database_exec(admin, "SELECT courier.recompile('t')");
        expect_value(admin, state, "ok ");
        database_exec(admin, "ALTER FUNCTION courier_tap.t_insert() RESET timezone");
        expect_value(admin, state, "edited SELECT courier.recompile('t')");
        database_exec(admin, "SELECT courier.recompile('t')");
        database_exec(admin, "ALTER TABLE whole ATTACH PARTITION t FOR VALUES IN (1)");
        expect_value(admin, state, "now_a_partition SELECT courier.recompile('t')");
        database_exec(admin, "SELECT courier.recompile('t')");
        expect_value(admin, state, "ok ");
        expect_after(
            admin, "INSERT INTO whole VALUES (1)", "SELECT topic FROM courier.outbox", "t.insert");
        database_exec(admin, "DROP TABLE whole");
        expect_value(admin, state, "table_gone SELECT courier.detach('t')");
        database_exec(admin, "SELECT courier.detach('t')");
        test_database_drop(&fixture);
}

/* ---- altered tables ------------------------------------------------------------------------- */

/* All in one session, whose plans have to follow. */
static void alter(const char *level)
{
        struct test_database fixture =
            begin_with("CREATE TABLE t (id int PRIMARY KEY, a int, b text, c text)");
        PGconn *admin = fixture.admin;
        char *capture = xasprintf(
            "SELECT courier.capture('t', '{*}', payload => 'both', level => '%s')", level);
        const char *newest = "SELECT payload->'new' FROM courier.outbox ORDER BY id DESC LIMIT 1";

        database_exec(admin, capture);
        expect_after(admin, "INSERT INTO t VALUES (1, 2, 'x', 'y'); UPDATE t SET a = 3", newest,
            "{\"id\":1,\"a\":3,\"b\":\"x\",\"c\":\"y\"}");
        expect_after(admin, "ALTER TABLE t ADD d int DEFAULT 5; UPDATE t SET a = 4", newest,
            "{\"id\":1,\"a\":4,\"b\":\"x\",\"c\":\"y\",\"d\":5}");
        expect_after(admin, "ALTER TABLE t DROP b; UPDATE t SET a = 5", newest,
            "{\"id\":1,\"a\":5,\"c\":\"y\",\"d\":5}");
        expect_after(admin, "ALTER TABLE t RENAME c TO e; UPDATE t SET a = 6", newest,
            "{\"id\":1,\"a\":6,\"e\":\"y\",\"d\":5}");
        expect_after(admin, "ALTER TABLE t ALTER a TYPE numeric; UPDATE t SET a = 6.50", newest,
            "{\"id\":1,\"a\":6.50,\"e\":\"y\",\"d\":5}");
        /* Of a column that the tap names. */
        expect_after(admin, "ALTER TABLE t ALTER id TYPE bigint; UPDATE t SET id = 5000000000",
            newest, "{\"id\":5000000000,\"a\":6.50,\"e\":\"y\",\"d\":5}");
        expect_after(admin, "ALTER TABLE t RENAME TO t2; UPDATE t2 SET a = 7",
            "SELECT topic FROM courier.outbox", "t.update");
        expect_value(admin, "SELECT state || ' ' || remedy FROM courier.check_attachments()",
            "edited SELECT courier.recompile('t')");
        database_exec(admin, "SELECT courier.recompile('t')");
        expect_value(admin, "SELECT state FROM courier.check_attachments()", "ok");
        expect_after(
            admin, "UPDATE t2 SET a = 7.5", "SELECT topic FROM courier.outbox", "t.update");
        database_exec(admin, "ALTER TABLE t2 RENAME TO t; SELECT courier.recompile('t')");

        /* What it names fails when it is gone: no event is lost, and the check says so. */
        database_exec(admin, "ALTER TABLE t RENAME id TO number");
        expect_error(admin, "UPDATE t SET a = 8", "42703", "id");
        expect_value(admin, "SELECT name || ' ' || state FROM courier.check_attachments()",
            "t does_not_compile");
        database_exec(admin, "SELECT courier.recompile('t')");
        expect_after(admin, "UPDATE t SET a = 8", newest,
            "{\"number\":5000000000,\"a\":8,\"e\":\"y\",\"d\":5}");
        expect_value(admin, "SELECT state FROM courier.check_attachments()", "ok");
        free(capture);
        test_database_drop(&fixture);
}

Test(capture_tables, follow_alter_table_by_statements)
{
        alter("statement");
}

Test(capture_tables, follow_alter_table_by_rows)
{
        alter("row");
}

Test(capture_tables, follow_alter_table_by_named_columns)
{
        static const char *const levels[] = {"statement", "row"};

        for (int i = 0; i < 2; i++) {
                struct test_database fixture =
                    begin_with("CREATE TABLE t (id int PRIMARY KEY, a int, b text)");
                PGconn *admin = fixture.admin;
                char *capture = xasprintf("SELECT courier.capture('t', '{id,a}', level => '%s',"
                                          " only_if => 'coalesce(new.a, old.a) > 1')",
                    levels[i]);

                database_exec(admin, capture);
                expect_after(admin, "INSERT INTO t VALUES (1, 2); UPDATE t SET a = 3", PAYLOADS,
                    "{\"id\":1,\"a\":2} {\"id\":1,\"a\":3}");
                expect_after(admin, "ALTER TABLE t ALTER a TYPE numeric; UPDATE t SET a = 2.50",
                    PAYLOADS, "{\"id\":1,\"a\":2.50}");
                expect_after(admin,
                    "ALTER TABLE t DROP b, ADD c int DEFAULT 1; UPDATE t SET c = 3, a = 4",
                    PAYLOADS, "{\"id\":1,\"a\":4}");
                database_exec(admin, "ALTER TABLE t DROP a");
                expect_error(admin, "INSERT INTO t VALUES (2)", "42703", "a");
                expect_value(
                    admin, "SELECT state FROM courier.check_attachments()", "does_not_compile");
                expect_error(admin, "SELECT courier.recompile('t')", "42703", "a");
                free(capture);

                /* What only the whole query tells fails when the tap is made, not in the next write. */
                database_exec(admin,
                    "SELECT courier.detach('t'); SELECT courier.capture('t', '{id}',"
                    " when_changed => '{c}'); ALTER TABLE t DROP c");
                expect_error(admin, "SELECT courier.recompile('t')", "42703", "c does not exist");
                test_database_drop(&fixture);
        }
}

/* ---- sessions with session_replication_role = replica -------------------------------------- */

Test(capture_tables, leave_out_replicated_changes_unless_told_otherwise)
{
        struct test_database fixture =
            begin_with("CREATE TABLE t (id int PRIMARY KEY);"
                       "CREATE TABLE split (id int PRIMARY KEY) PARTITION BY LIST (id);"
                       "CREATE TABLE split_1 PARTITION OF split FOR VALUES IN (1, 2);"
                       "SELECT courier.capture('t', '{*}', name => 'a');"
                       "SELECT courier.capture('t', '{*}', name => 'b', replicated => true);"
                       "SELECT courier.capture('split', '{*}', name => 'c', replicated => true);"
                       "CREATE TABLE split_2 PARTITION OF split FOR VALUES IN (3)");
        PGconn *admin = fixture.admin;
        const char *names = "SELECT string_agg(name, ' ' ORDER BY o.id) FROM courier.outbox AS o"
                            " JOIN courier.attachment AS a ON a.id = o.source";

        expect_value(admin, "SELECT string_agg(level, ' ' ORDER BY name) FROM courier.attachment",
            "statement row row");
        expect_after(
            admin, "INSERT INTO t VALUES (1); INSERT INTO split VALUES (1)", names, "b a c");
        expect_after(admin,
            "SET session_replication_role = replica; INSERT INTO t VALUES (2); INSERT INTO split "
            "VALUES (2), (3);"
            "SET session_replication_role = origin",
            names, "b c c");
        database_exec(admin, "ALTER TABLE t ENABLE TRIGGER courier_b_insert");
        expect_value(admin,
            "SELECT name || state FROM courier.check_attachments() WHERE state <> 'ok'", "bedited");
        database_exec(admin, "SELECT courier.recompile('b')");
        expect_value(
            admin, "SELECT string_agg(state, ' ') FROM courier.check_attachments()", "ok ok ok");
        expect_after(
            admin, "SET session_replication_role = replica; INSERT INTO t VALUES (4)", names, "b");
        test_database_drop(&fixture);
}
