/* `pgcourier init`: what the database is, and what it lacks. */
#include "base/bytes.h"
#include "cli/init/cmd_init.h"
#include "outbox/schema.h"
#include "pg/blocking_conn.h"
#include "pg/pg_error.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TIMEOUT_MS 10000

/* What the role may do, in one row. Names as SQL would write them. */
static const char rights_sql[] =
    "SELECT pg_catalog.quote_ident(current_user), r.rolsuper,"
    " EXISTS (SELECT FROM pg_catalog.pg_roles c WHERE c.rolname = 'courier_relay'"
    "         AND pg_catalog.pg_has_role(current_user, c.oid, 'MEMBER')),"
    " pg_catalog.to_regrole('courier_relay') IS NOT NULL"
    " FROM pg_catalog.pg_roles r WHERE r.rolname = current_user";
enum { USER, IS_SUPERUSER, IS_RELAY, HAS_RELAY };

static bool say_how_to_make_schema(
    const struct init *init, struct blocking_conn *conn, struct error *error)
{
        struct bytes command = {0};
        struct schema_maker maker;

        if (!schema_maker_find(&outbox_schema, conn, &maker, error))
                return false;
        fputs("miss  schema: the database has no schema courier. ", stdout);
        if (maker.is_us)
                puts("Make it:");
        else
                printf("%s may not make it; %s may:\n", blocking_conn_user(conn),
                    maker.is_owner ? "its owner" : "a superuser");
        bytes_append_text(&command, "pgcourier migrate --dsn");
        bytes_append_shell_word(&command, maker.is_us ? init->dsn : maker.dsn);
        printf("        %s\n", command.data);
        bytes_deinit(&command);
        schema_maker_deinit(&maker);
        return true;
}

static bool apply_all(struct blocking_conn *conn, struct error *error)
{
        for (const struct migration *at = outbox_schema.migrations; at->version != 0; at++) {
                bool applied;
                if (!schema_apply(&outbox_schema, conn, at, &applied, error))
                        return false;
        }
        printf("ok    schema: made, version %d\n", schema_known_version(&outbox_schema));
        return true;
}

static bool look_at_schema(
    const struct init *init, struct blocking_conn *conn, bool applies, struct error *error)
{
        struct schema_status status;
        struct error why;
        struct schema_version version;

        if (!schema_read_status(&outbox_schema, conn, &status, error)) {
                if (error->kind != ERROR_PERMISSION || applies)
                        return false;
                puts("ok    schema: there is one, which this role may not look into");
                *error = (struct error){0};
                return true;
        }
        version = status.version;
        schema_status_deinit(&status);
        if (version.number < schema_known_version(&outbox_schema) && applies)
                return apply_all(conn, error);
        if (version.number == 0)
                return say_how_to_make_schema(init, conn, error);
        if (schema_check(&outbox_schema, conn, version, &why))
                printf("ok    schema: version %d\n", version.number);
        else
                printf("miss  schema: %s\n", why.text);
        return true;
}

/* Without a schema its roles may be missing as well. */
static void look_at_rights(const struct rows *rights)
{
        const char *user = rows_text(rights, 0, USER);
        const bool has_relay = rows_bool(rights, 0, HAS_RELAY);

        if (rows_bool(rights, 0, IS_SUPERUSER)) {
                puts("warn  role: a superuser has more rights than the relay needs. Make a role "
                     "for");
                printf("      the relay, and connect as that role from then on%s:\n",
                    has_relay ? "" : "; when the schema is made");
                puts("        CREATE ROLE pgcourier LOGIN; GRANT courier_relay TO pgcourier;");
        } else if (rows_bool(rights, 0, IS_RELAY)) {
                printf("ok    role: %s is a member of courier_relay\n", user);
        } else {
                printf("miss  role: %s may not read events and move cursors. As the owner of "
                       "the schema%s:\n",
                    user, has_relay ? "" : ", when it is made");
                printf("        GRANT courier_relay TO %s;\n", user);
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
        ok = ok && look_at_schema(init, conn, applies_schema, error);
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
