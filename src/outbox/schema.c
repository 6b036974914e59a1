/*
 * Two `pgcourier migrate` at the same time must both succeed. Each migration's
 * transaction begins with an advisory lock and then looks whether it is still
 * needed. The lock ends with the transaction rather than with the session, so
 * that none is left behind in a server connection that a pooler shares.
 */
#include "outbox/schema.h"

#include "base/alloc.h"
#include "base/bytes.h"
#include "pg/blocking_conn.h"
#include "pg/dsn.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

extern const char sql_0001_outbox[];
extern const char sql_0002_failures[];
extern const char sql_0003_schedule[];
extern const char sql_0004_receivers[];
extern const char sql_0005_routing[];
extern const char sql_0006_retention[];
extern const char sql_0007_attach[];
extern const char sql_0008_capture[];
extern const char sql_0009_marks[];
extern const char sql_0010_dedup[];
extern const char sql_0011_story[];
extern const char sql_0012_types[];
extern const char sql_0013_portal[];
extern const char sql_0014_shards[];
extern const char sql_0015_schedules[];
extern const char sql_0016_jobs[];
extern const char sql_0017_waiting[];
extern const char sql_inbox_0001_inbox[];
extern const char sql_inbox_0002_event[];
extern const char sql_next[]; /* of a test */

static const struct migration outbox_migrations[] = {
    {1, "outbox", sql_0001_outbox},
    {2, "failures", sql_0002_failures},
    {3, "schedule", sql_0003_schedule},
    {4, "receivers", sql_0004_receivers},
    {5, "routing", sql_0005_routing},
    {6, "retention", sql_0006_retention},
    {7, "attach", sql_0007_attach},
    {8, "capture", sql_0008_capture},
    {9, "marks", sql_0009_marks},
    {10, "dedup", sql_0010_dedup},
    {11, "story", sql_0011_story},
    {12, "types", sql_0012_types},
    {13, "portal", sql_0013_portal},
    {14, "shards", sql_0014_shards},
    {15, "schedules", sql_0015_schedules},
    {16, "jobs", sql_0016_jobs},
    {17, "waiting", sql_0017_waiting},
#ifdef PGCOURIER_NEXT_SCHEMA /* the program of a release to come, for a test */
    {18, "next", sql_next},
#endif
    {0},
};

/* The lock is of no relay's class: a relay that sleeps keeps such a lock until an event comes. */
const struct schema outbox_schema = {
    .name = "courier",
    .migrations = outbox_migrations,
    .command = "pgcourier migrate",
    .roles = "{courier_relay,courier_publisher,courier_attacher}",
    .lock = "SELECT pg_catalog.pg_advisory_xact_lock(1668248949, 0)",
    .needs_utf8 = true,
};

static const struct migration inbox_migrations[] = {
    {1, "inbox", sql_inbox_0001_inbox},
    {2, "event", sql_inbox_0002_event},
    {0},
};

/* The lock's class is "inbx". */
const struct schema inbox_schema = {
    .name = "courier_inbox",
    .migrations = inbox_migrations,
    .command = "pgcourier migrate --inbox",
    .roles = "{courier_consumer}",
    .lock = "SELECT pg_catalog.pg_advisory_xact_lock(1768841848, 0)",
};

int schema_known_version(const struct schema *schema)
{
        int last = 0;

        for (const struct migration *at = schema->migrations; at->version != 0; at++)
                last = at->version;
        return last;
}

static char *describe_lack(const struct schema *schema, struct schema_version found)
{
        if (found.number == 0)
                return xasprintf("schema %s is missing in this database", schema->name);
        return xasprintf("schema %s is at version %d and this pgcourier needs %d", schema->name,
            found.number, schema_known_version(schema));
}

bool schema_check_version(
    const struct schema *schema, struct schema_version found, struct error *error)
{
        const int known = schema_known_version(schema);
        char *lack;

        if (found.number > known && found.serves_from > known)
                return error_set(error, ERROR_SCHEMA,
                    "schema %s is at version %d, which serves programs of version %d and later; "
                    "this "
                    "pgcourier knows %d: upgrade pgcourier",
                    schema->name, found.number, found.serves_from, known);
        if (found.number >= known)
                return true;
        lack = describe_lack(schema, found);
        /* No complete command: the reader's role is most often one that may not run it. */
        error_set(error, ERROR_SCHEMA,
            "%s: the database's owner or a superuser has to run %s --dsn DSN", lack,
            schema->command);
        free(lack);
        return false;
}

/* "run `pgcourier migrate`", or that `us` may not and which role may, with the whole command. To be
 * freed. */
static char *words_for(
    const struct schema *schema, const struct schema_maker *maker, const char *us)
{
        struct bytes command = {0};
        char *words;

        if (maker->is_us)
                return xasprintf("run `%s`", schema->command);
        bytes_printf(&command, "%s --dsn", schema->command);
        bytes_append_shell_word(&command, maker->dsn);
        words = xasprintf("%s may not make it; %s may: `%s`", us,
            maker->is_owner ? "its owner" : "a superuser", command.data);
        bytes_deinit(&command);
        return words;
}

bool schema_check(const struct schema *schema, struct blocking_conn *conn,
    struct schema_version found, struct error *error)
{
        struct schema_maker maker;
        struct error ignored;
        char *lack, *words;

        if (schema_check_version(schema, found, error))
                return true;
        if (found.number > schema_known_version(schema) ||
            !schema_maker_find(schema, conn, &maker, &ignored))
                return false;
        lack = describe_lack(schema, found);
        words = words_for(schema, &maker, blocking_conn_user(conn));
        error_set(error, ERROR_SCHEMA, "%s: %s", lack, words);
        free(words);
        free(lack);
        schema_maker_deinit(&maker);
        return false;
}

bool schema_check_encoding(const char *found, struct error *error)
{
        if (strcmp(found, "UTF8") == 0)
                return true;
        return error_set(error, ERROR_SCHEMA,
            "the database is encoded in %.32s, and pgcourier needs UTF8: an event that cannot be "
            "converted would stop all deliveries. Make a database with that encoding, and move the "
            "data into it: CREATE DATABASE … ENCODING 'UTF8' TEMPLATE template0 (with LOCALE "
            "'C.UTF-8' if the "
            "server's "
            "is another), pg_dump, pg_restore",
            found);
}

/* Asked first: a statement that fails would end the transaction it is in. */
static bool has_versions(
    const struct schema *schema, struct blocking_conn *conn, bool *out_has, struct error *error)
{
        const struct parameter name = {.value = schema->name};
        struct rows *rows = blocking_conn_query(conn,
            "SELECT pg_catalog.to_regclass($1 || '.schema_version') IS NOT NULL", &name, 1, error);

        if (rows == NULL)
                return false;
        *out_has = rows_bool(rows, 0, 0);
        rows_free(rows);
        return true;
}

bool schema_read_status(const struct schema *schema, struct blocking_conn *conn,
    struct schema_status *out_status, struct error *error)
{
        struct schema_status status = {0};
        struct rows *rows;
        char *sql;
        bool exists;

        if (!has_versions(schema, conn, &exists, error))
                return false;
        if (!exists) {
                *out_status = status;
                return true;
        }
        /* Versions before 14, and those of the inbox, have no column serves_from. */
        sql = xasprintf("SELECT version, name, pg_catalog.to_char(applied_at AT TIME ZONE 'UTC', "
                        "'YYYY-MM-DD\"T\"HH24:MI:SS\"Z\"'),"
                        " coalesce(pg_catalog.to_jsonb(v) ->> 'serves_from', version::text)"
                        " FROM %s.schema_version AS v ORDER BY version",
            schema->name);
        rows = blocking_conn_query(conn, sql, NULL, 0, error);
        free(sql);
        if (rows == NULL)
                return false;
        status.n_applied = (size_t)rows_count(rows);
        status.applied = xcalloc(status.n_applied, sizeof *status.applied);
        for (size_t i = 0; i < status.n_applied; i++) {
                struct applied_migration *applied = &status.applied[i];
                applied->version = (int)strtol(rows_text(rows, (int)i, 0), NULL, 10);
                snprintf(applied->name, sizeof applied->name, "%s", rows_text(rows, (int)i, 1));
                snprintf(applied->applied_at, sizeof applied->applied_at, "%s",
                    rows_text(rows, (int)i, 2));
                status.version.number = applied->version;
                status.version.serves_from = (int)strtol(rows_text(rows, (int)i, 3), NULL, 10);
        }
        rows_free(rows);
        *out_status = status;
        return true;
}

void schema_status_deinit(struct schema_status *status)
{
        free(status->applied);
        *status = (struct schema_status){0};
}

bool schema_status_has(const struct schema_status *status, int version)
{
        for (size_t i = 0; i < status->n_applied; i++)
                if (status->applied[i].version == version)
                        return true;
        return false;
}

/* What the server says of a migration's failure, and what to do. */
static bool migration_failed(
    struct blocking_conn *conn, const struct migration *migration, struct error *error)
{
        const char *sqlstate = blocking_conn_sqlstate(conn);
        struct error cause = *error;
        const char *advice = "";

        if (strcmp(sqlstate, "42501") == 0 && strstr(cause.text, "Ask an administrator") == NULL)
                advice = ". Use the database's owner or a superuser (--dsn)";
        else if (strcmp(sqlstate, "42P06") == 0)
                advice = ". It is not pgcourier's: rename or drop it, or use another database";
        else if (strcmp(sqlstate, "0A000") == 0 && strstr(cause.text, "recovery") != NULL)
                advice = ". This server is a standby: use the primary";
        return error_set(error, cause.kind, "migration %04d_%s: %.800s%s", migration->version,
            migration->name, cause.text, advice);
}

static bool is_in_utf8(struct blocking_conn *conn, struct error *error)
{
        return schema_check_encoding(blocking_conn_encoding(conn), error);
}

static bool apply_in_transaction(const struct schema *schema, struct blocking_conn *conn,
    const struct migration *migration, bool *out_applied, struct error *error)
{
        struct schema_status status;

        /* Read committed: what another migrate did while we waited for the lock must be seen. The
         * settings keep the role's own from cutting the wait short or lending names to our SQL. */
        if (!blocking_conn_run(conn,
                "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE;"
                "SET LOCAL statement_timeout = 0; SET LOCAL lock_timeout = 0;"
                "SET LOCAL search_path = ''",
                error) ||
            !blocking_conn_run(conn, schema->lock, error) ||
            !schema_read_status(schema, conn, &status, error))
                return false;
        *out_applied = !schema_status_has(&status, migration->version);
        schema_status_deinit(&status);
        return (!*out_applied || ((!schema->needs_utf8 || is_in_utf8(conn, error)) &&
                                     blocking_conn_run(conn, migration->sql, error))) &&
               blocking_conn_run(conn, "COMMIT", error);
}

bool schema_apply(const struct schema *schema, struct blocking_conn *conn,
    const struct migration *migration, bool *out_applied, struct error *error)
{
        bool applied;
        struct error ignored;

        if (apply_in_transaction(schema, conn, migration, &applied, error)) {
                *out_applied = applied;
                return true;
        }
        migration_failed(conn, migration, error);
        /* If the connection is gone, the server has rolled back by itself. */
        (void)!blocking_conn_run(conn, "ROLLBACK", &ignored);
        return false;
}

/* A role that exists need not be created. Of superusers the cluster's first is the likeliest to be
 * let in. */
static const char maker_sql[] =
    "WITH lacking (roles) AS (SELECT pg_catalog.bool_or(pg_catalog.to_regrole(name) IS NULL)"
    "   FROM pg_catalog.unnest($2::pg_catalog.text[]) AS name),"
    " owner (oid) AS (SELECT coalesce((SELECT nspowner FROM pg_catalog.pg_namespace"
    "   WHERE nspname = $1::pg_catalog.text), (SELECT datdba FROM pg_catalog.pg_database"
    "   WHERE datname = pg_catalog.current_database()))),"
    " maker AS (SELECT r.oid, r.rolname, r.rolcanlogin AND (r.rolsuper OR"
    "   pg_catalog.has_database_privilege(r.oid, pg_catalog.current_database(), 'CREATE')"
    "   AND (r.rolcreaterole OR NOT lacking.roles)"
    "   AND (pg_catalog.to_regnamespace($1::pg_catalog.text) IS NULL"
    "    OR pg_catalog.pg_has_role(r.oid, owner.oid, 'USAGE'))) AS may,"
    "   r.rolname = current_user AS is_us, r.oid = owner.oid AS is_owner, r.rolsuper"
    "  FROM pg_catalog.pg_roles AS r, lacking, owner)"
    " SELECT is_us, is_owner, rolname, pg_catalog.current_database() FROM maker"
    " WHERE may AND (is_us OR is_owner OR rolsuper)"
    " ORDER BY is_us DESC, is_owner DESC, oid LIMIT 1";
enum { IS_US, IS_OWNER, ROLE, DATABASE };

bool schema_maker_find(const struct schema *schema, struct blocking_conn *conn,
    struct schema_maker *out_maker, struct error *error)
{
        const struct parameter parameters[] = {{.value = schema->name}, {.value = schema->roles}};
        struct rows *rows = blocking_conn_query(conn, maker_sql, parameters, 2, error);
        const bool is_known = rows != NULL && rows_count(rows) > 0;

        if (rows == NULL)
                return false;
        /* A cluster in which no superuser may log in: name what it takes. */
        *out_maker = (struct schema_maker){
            .is_us = is_known && rows_bool(rows, 0, IS_US),
            .is_owner = is_known && rows_bool(rows, 0, IS_OWNER),
            .role = xstrdup(is_known ? rows_text(rows, 0, ROLE) : "SUPERUSER"),
        };
        out_maker->dsn = dsn_of_role(blocking_conn_dsn(conn), out_maker->role,
            is_known ? rows_text(rows, 0, DATABASE) : NULL);
        rows_free(rows);
        return true;
}

void schema_maker_deinit(struct schema_maker *maker)
{
        free(maker->role);
        free(maker->dsn);
        *maker = (struct schema_maker){0};
}
