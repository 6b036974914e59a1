/* `pgcourier init`: what the database is, and what it lacks. */
#include "cli/init.h"
#include "outbox/blocking_conn.h"
#include "outbox/pg_words.h"
#include "outbox/schema.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TIMEOUT_MS 10000

/* What the role may do, in one row. Names as SQL would write them. */
static const char rights_sql[] =
    "SELECT pg_catalog.quote_ident(current_user),"
    " pg_catalog.has_database_privilege(pg_catalog.current_database(), 'CREATE'),"
    " r.rolcreaterole OR r.rolsuper, r.rolsuper,"
    " EXISTS (SELECT FROM pg_catalog.pg_roles c WHERE c.rolname = 'courier_relay'"
    "         AND pg_catalog.pg_has_role(current_user, c.oid, 'MEMBER')),"
    " (SELECT pg_catalog.pg_get_userbyid(d.datdba)"
    "  FROM pg_catalog.pg_database d WHERE d.datname = pg_catalog.current_database()),"
    " (SELECT o.rolsuper OR o.rolcreaterole FROM pg_catalog.pg_database d"
    "  JOIN pg_catalog.pg_roles o ON o.oid = d.datdba"
    "  WHERE d.datname = pg_catalog.current_database())"
    " FROM pg_catalog.pg_roles r WHERE r.rolname = current_user";
enum { USER, MAY_CREATE, MAY_CREATE_ROLES, IS_SUPERUSER, IS_RELAY, OWNER, IS_OWNER_ENOUGH };

static void say_how_to_make_schema(const struct init *init, const struct rows *rights)
{
        const bool may = rows_bool(rights, 0, MAY_CREATE) && rows_bool(rights, 0, MAY_CREATE_ROLES);

        puts(
            "miss  schema: the database has no schema courier. Make it, as a role that may create");
        puts("      schemas and roles:");
        if (may)
                printf("        pgcourier migrate --dsn \"%s\"\n", init->dsn);
        else
                printf("        pgcourier migrate --dsn \"%s user=%s\"\n", init->dsn,
                    rows_bool(rights, 0, IS_OWNER_ENOUGH) ? rows_text(rights, 0, OWNER)
                                                          : "SUPERUSER");
        if (!may && rows_bool(rights, 0, IS_OWNER_ENOUGH))
                printf("      as the owner of the database: %s may not.\n",
                    rows_text(rights, 0, USER));
        else if (!may)
                printf("      %s may not, nor may %s, the owner of the database, create roles.\n",
                    rows_text(rights, 0, USER), rows_text(rights, 0, OWNER));
}

static bool apply_all(struct blocking_conn *conn, struct error *error)
{
        for (const struct migration *at = schema_migrations; at->version != 0; at++) {
                bool applied;
                if (!schema_apply(conn, at, &applied, error))
                        return false;
        }
        printf("ok    schema: made, version %d\n", schema_known_version());
        return true;
}

static bool look_at_schema(const struct init *init, struct blocking_conn *conn,
    const struct rows *rights, bool applies, struct error *error)
{
        struct schema_status status;
        struct error why;
        int version;

        if (!schema_read_status(conn, &status, error)) {
                if (error->kind != ERROR_PERMISSION || applies)
                        return false;
                puts("ok    schema: there is one, which this role may not look into");
                *error = (struct error){0};
                return true;
        }
        version = status.version;
        schema_status_deinit(&status);
        if (version < schema_known_version() && applies)
                return apply_all(conn, error);
        if (version == 0)
                say_how_to_make_schema(init, rights);
        else if (schema_check_version(version, &why))
                printf("ok    schema: version %d\n", version);
        else
                printf("miss  schema: %s\n", why.text);
        return true;
}

static void look_at_rights(const struct rows *rights)
{
        if (rows_bool(rights, 0, IS_SUPERUSER)) {
                puts("warn  role: a superuser needs nothing more, and may far more than it needs. "
                     "Better one");
                puts("      of its own, as which to connect from then on:");
                puts("        CREATE ROLE pgcourier LOGIN IN ROLE courier_relay;");
        } else if (rows_bool(rights, 0, IS_RELAY)) {
                printf("ok    role: %s is a member of courier_relay\n", rows_text(rights, 0, USER));
        } else {
                printf("miss  role: %s may not read events and move cursors. As who made the "
                       "schema:\n",
                    rows_text(rights, 0, USER));
                printf("        GRANT courier_relay TO %s;\n", rows_text(rights, 0, USER));
        }
}

static struct rows *read_rights(struct blocking_conn *conn, struct error *error)
{
        return blocking_conn_query(conn, rights_sql, NULL, 0, error);
}

static bool look(
    const struct init *init, struct blocking_conn *conn, bool applies_schema, struct error *error)
{
        const int version = blocking_conn_server_version(conn);
        struct rows *rights = read_rights(conn, error);
        bool ok;

        if (rights == NULL)
                return false;
        printf("ok    database: PostgreSQL %d.%d (%s)\n", version / 10000, version % 10000,
            blocking_conn_place(conn));
        ok = schema_check_encoding(blocking_conn_encoding(conn), error);
        if (!ok && !applies_schema) {
                printf("miss  encoding: %s\n", error->text);
                *error = (struct error){0};
                ok = true;
        }
        ok = ok && look_at_schema(init, conn, rights, applies_schema, error);
        rows_free(rights);
        if (!ok)
                return false;
        rights = read_rights(conn, error); /* the schema brings its roles */
        if (rights == NULL)
                return false;
        look_at_rights(rights);
        rows_free(rights);
        return true;
}

static void say_how_to_connect(const struct error *error)
{
        char *remedy;

        if (error->kind == ERROR_CONFIG)
                return;
        remedy = connect_words_remedy(error);
        printf("      %s\n", remedy);
        free(remedy);
}

bool init_look_at_database(const struct init *init, bool applies_schema, struct error *error)
{
        struct blocking_conn *conn =
            blocking_conn_open(&(struct blocking_conn_settings){.dsn = init->dsn,
                                   .password = init->password,
                                   .connect_timeout_ms = TIMEOUT_MS,
                                   .answer_timeout_ms = applies_schema ? 0 : TIMEOUT_MS},
                error);
        bool ok;

        if (conn == NULL) {
                if (applies_schema)
                        return false;
                printf("miss  database: %s\n", error->text);
                say_how_to_connect(error);
                *error = (struct error){0};
                return true;
        }
        ok = look(init, conn, applies_schema, error);
        blocking_conn_close(conn);
        return ok;
}
