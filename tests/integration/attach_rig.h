/*
 * What the tests of attached tables share: a database with two schemas of the same tables, `shop`,
 * whose tables are attached, and `bare`, whose tables are not. Their owner is "shop_owner", a
 * member of courier_attacher; the application logs in as "shop_app", which has no right in schema
 * courier.
 */
#pragma once

#include "base/alloc.h"
#include "base/bytes.h"
#include "support/postgres_expect.h"

struct attach_rig {
        struct test_database database;
        PGconn *owner; /* a session as shop_owner */
        PGconn *app;   /* a session as shop_app */
};

static inline PGconn *attach_rig_connect(const struct attach_rig *rig, const char *user)
{
        char *dsn = dsn_as_user(rig->database.dsn, user);
        PGconn *connection = database_connect(dsn);

        free(dsn);
        return connection;
}

/* `ddl` makes the tables; it is run in both schemas, as their owner. */
static inline void attach_rig_begin(struct attach_rig *rig, const char *ddl)
{
        rig->database = test_database_make();
        database_exec(rig->database.admin,
            "DO $$ BEGIN"
            "  CREATE ROLE shop_owner LOGIN; CREATE ROLE shop_app LOGIN;"
            " EXCEPTION WHEN duplicate_object THEN NULL; END $$;"
            "GRANT courier_attacher TO shop_owner;"
            "CREATE SCHEMA shop AUTHORIZATION shop_owner; CREATE SCHEMA bare AUTHORIZATION "
            "shop_owner");
        rig->owner = attach_rig_connect(rig, "shop_owner");
        rig->app = attach_rig_connect(rig, "shop_app");
        for (int i = 0; i < 2; i++) {
                database_exec(
                    rig->owner, i == 0 ? "SET search_path = shop" : "SET search_path = bare");
                database_exec(rig->owner, ddl);
        }
        database_exec(rig->owner, "SET search_path = shop;"
                                  "GRANT USAGE ON SCHEMA shop, bare TO shop_app;"
                                  "GRANT ALL ON ALL TABLES IN SCHEMA shop, bare TO shop_app;"
                                  "GRANT ALL ON ALL SEQUENCES IN SCHEMA shop, bare TO shop_app");
        database_exec(rig->app, "SET search_path = shop");
}

static inline void attach_rig_end(struct attach_rig *rig)
{
        PQfinish(rig->owner);
        PQfinish(rig->app);
        test_database_drop(&rig->database);
}

/* What the application sees of one statement: the command tag, columns and rows, or the error. */
static inline void attach_rig_note(struct bytes *seen, PGconn *app, const char *sql)
{
        PGresult *result = PQexec(app, sql);

        if (PQresultStatus(result) == PGRES_FATAL_ERROR)
                bytes_printf(seen, "%s %s\n", PQresultErrorField(result, PG_DIAG_SQLSTATE),
                    PQresultErrorField(result, PG_DIAG_MESSAGE_PRIMARY));
        else
                bytes_printf(seen, "%s\n", PQcmdStatus(result));
        for (int i = 0; i < PQnfields(result); i++) {
                bytes_printf(seen, "  %s:", PQfname(result, i));
                for (int row = 0; row < PQntuples(result); row++)
                        bytes_printf(seen, " %s",
                            PQgetisnull(result, row, i) ? "NULL" : PQgetvalue(result, row, i));
                bytes_append_text(seen, "\n");
        }
        PQclear(result);
}

/* Runs the statements of an application on the tables that are not attached, and on those that are:
 * it must see the same. */
static inline void attach_rig_compare(struct attach_rig *rig, const char *const *statements)
{
        struct bytes seen[2] = {{0}, {0}};

        for (int i = 0; i < 2; i++) {
                database_exec(
                    rig->app, i == 0 ? "SET search_path = bare" : "SET search_path = shop");
                for (const char *const *sql = statements; *sql != NULL; sql++)
                        attach_rig_note(&seen[i], rig->app, *sql);
        }
        cr_expect_str_eq(
            seen[0].data, seen[1].data, "without:\n%s\nwith:\n%s", seen[0].data, seen[1].data);
        bytes_deinit(&seen[0]);
        bytes_deinit(&seen[1]);
}
