#include "outbox/schema_maker.h"

#include "base/alloc.h"
#include "base/bytes.h"
#include "pg/blocking_conn.h"
#include "pg/dsn_split.h"

#include <stdlib.h>

/* A role that exists need not be created. Of superusers the cluster's first is the likeliest to be let in. */
static const char maker_sql[] =
    "WITH lacking (roles) AS (SELECT pg_catalog.to_regrole('courier_relay') IS NULL"
    "   OR pg_catalog.to_regrole('courier_publisher') IS NULL),"
    " owner (oid) AS (SELECT coalesce((SELECT nspowner FROM pg_catalog.pg_namespace"
    "   WHERE nspname = 'courier'), (SELECT datdba FROM pg_catalog.pg_database"
    "   WHERE datname = pg_catalog.current_database()))),"
    " maker AS (SELECT r.oid, r.rolname, r.rolcanlogin AND (r.rolsuper OR"
    "   pg_catalog.has_database_privilege(r.oid, pg_catalog.current_database(), 'CREATE')"
    "   AND (r.rolcreaterole OR NOT lacking.roles)"
    "   AND (pg_catalog.to_regnamespace('courier') IS NULL"
    "    OR pg_catalog.pg_has_role(r.oid, owner.oid, 'USAGE'))) AS may,"
    "   r.rolname = current_user AS is_us, r.oid = owner.oid AS is_owner, r.rolsuper"
    "  FROM pg_catalog.pg_roles AS r, lacking, owner)"
    " SELECT is_us, is_owner, rolname, pg_catalog.current_database() FROM maker"
    " WHERE may AND (is_us OR is_owner OR rolsuper)"
    " ORDER BY is_us DESC, is_owner DESC, oid LIMIT 1";
enum { IS_US, IS_OWNER, ROLE, DATABASE };

bool schema_maker_find(
    struct blocking_conn *conn, struct schema_maker *out_maker, struct error *error)
{
        struct rows *rows = blocking_conn_query(conn, maker_sql, NULL, 0, error);
        const bool is_known = rows != NULL && rows_count(rows) > 0;

        if (rows == NULL)
                return false;
        /* A cluster whose superusers may all not log in: somebody has to be told what it takes. */
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

char *schema_maker_words(const struct schema_maker *maker, const char *us)
{
        struct bytes command = {0};
        char *words;

        if (maker->is_us)
                return xstrdup("run `pgcourier migrate`");
        bytes_append_text(&command, "pgcourier migrate --dsn");
        bytes_append_shell_word(&command, maker->dsn);
        words = xasprintf("%s may not make it; %s may: `%s`", us,
            maker->is_owner ? "its owner" : "a superuser", command.data);
        bytes_deinit(&command);
        return words;
}

void schema_maker_deinit(struct schema_maker *maker)
{
        free(maker->role);
        free(maker->dsn);
        *maker = (struct schema_maker){0};
}
