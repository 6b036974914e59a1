#include "cli/commands.h"
#include "outbox/schema.h"
#include "pg/blocking_conn.h"

#include <stdio.h>
#include <string.h>

enum { DSN, CONFIG, PRINT };

static const struct command_option options[] = {
    [DSN] = {"dsn", 0, "DSN", false, "the database: postgresql://… or host=…"},
    [CONFIG] = {"config", 'c', "FILE", false, "the database of this configuration"},
    [PRINT] = {"print", 0, NULL, false,
        "print the SQL of all migrations, for another\ntool; does not connect"},
    {0},
};

static void print_migrations(void)
{
        for (const struct migration *at = schema_migrations; at->version != 0; at++)
                fputs(at->sql, stdout);
}

static bool apply_missing(
    struct blocking_conn *conn, const struct schema_status *status, struct error *error)
{
        bool applied_one = false;

        for (const struct migration *at = schema_migrations; at->version != 0; at++) {
                bool applied;
                if (schema_status_has(status, at->version))
                        continue;
                if (!schema_apply(conn, at, &applied, error))
                        return false;
                if (applied)
                        printf("applied %04d_%s\n", at->version, at->name);
                else
                        printf("%04d_%s was applied by somebody else meanwhile\n", at->version,
                            at->name);
                applied_one = true;
        }
        if (!applied_one)
                puts("nothing to do");
        printf("schema courier is at version %d\n", schema_known_version());
        return true;
}

/* The migrations that this program knows, and those of the database that it does not. */
static void print_status(const struct schema_status *status)
{
        for (const struct migration *at = schema_migrations; at->version != 0; at++)
                if (!schema_status_has(status, at->version))
                        printf("%04d_%s missing\n", at->version, at->name);
        for (size_t i = 0; i < status->n_applied; i++) {
                const struct applied_migration *applied = &status->applied[i];
                printf("%04d_%s applied %s%s\n", applied->version, applied->name,
                    applied->applied_at,
                    applied->version > schema_known_version() ? " (unknown to this pgcourier)"
                                                              : "");
        }
        printf("schema version %d, this pgcourier knows %d\n", status->version,
            schema_known_version());
}

static bool migrate(struct blocking_conn *conn, bool only_status, struct error *error)
{
        struct schema_status status;
        bool ok;

        if (!schema_read_status(conn, &status, error))
                return false;
        if (only_status) {
                print_status(&status);
                ok = schema_check(conn, status.version, error);
        } else if (status.version > schema_known_version()) {
                ok = schema_check(conn, status.version, error);
        } else {
                ok = apply_missing(conn, &status, error);
        }
        schema_status_deinit(&status);
        return ok;
}

static bool run_migrate(const struct arguments *arguments, struct error *error)
{
        bool only_status = arguments->n_operands == 1;
        struct blocking_conn *conn;
        bool ok;

        if (only_status && strcmp(arguments->operands[0], "status") != 0)
                return error_set(error, ERROR_USAGE,
                    "migrate: \"%.64s\" is not \"status\", the only word that may stand here",
                    arguments->operands[0]);
        if (arguments_has(arguments, PRINT)) {
                if (only_status || arguments->n_given > 1)
                        return error_set(error, ERROR_USAGE,
                            "migrate: --print does not connect, so it stands alone");
                print_migrations();
                return true;
        }
        conn = connect_for_command(
            arguments_value(arguments, DSN), arguments_value(arguments, CONFIG), 0, error);
        if (conn == NULL)
                return false;
        ok = migrate(conn, only_status, error);
        blocking_conn_close(conn);
        return ok;
}

const struct command migrate_command = {
    .name = "migrate",
    .summary = "make or update schema courier in the database",
    .usage = "[--dsn DSN | -c FILE] [--print]\n"
             "       pgcourier migrate status [--dsn DSN | -c FILE]",
    .details =
        "Applies the migrations that are missing, each in a transaction of its own, and says so.\n"
        "It can be run at any time, also by several at once. With neither --dsn nor -c the\n"
        "environment names the database (PGHOST, PGUSER, PGDATABASE …).\n"
        "\n"
        "`migrate status` changes nothing: it lists the migrations and ends with 6 unless the\n"
        "schema is exactly what this pgcourier needs.\n",
    .options = options,
    .max_operands = 1,
    .run = run_migrate,
};
