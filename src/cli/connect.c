#include "cli/connect.h"

#include "cli/cli.h"
#include "config/config.h"
#include "config/suggest.h"
#include "outbox/schema.h"

#include <string.h>

#define CONNECT_TIMEOUT_MS 10000

static struct blocking_conn *connect_as_configured(
    const char *path, int64_t answer_timeout_ms, struct error *error)
{
        struct config *config = config_load(path, error);
        struct blocking_conn *conn;

        if (config == NULL)
                return NULL;
        conn = blocking_conn_open(&(struct blocking_conn_settings){.dsn = config->postgres.dsn,
                                      .password = config->postgres.password,
                                      .connect_timeout_ms = config->postgres.connect_timeout_ms,
                                      .answer_timeout_ms = answer_timeout_ms},
            error);
        config_free(config);
        return conn;
}

struct blocking_conn *connect_for_command(
    const char *dsn, const char *config_path, int64_t answer_timeout_ms, struct error *error)
{
        struct blocking_conn_settings settings = {.dsn = dsn,
            .connect_timeout_ms = CONNECT_TIMEOUT_MS,
            .answer_timeout_ms = answer_timeout_ms};
        struct blocking_conn *conn;

        if (dsn != NULL && config_path != NULL) {
                error_set(error, ERROR_USAGE, "--dsn and --config both name a database: give one");
                return NULL;
        }
        if (config_path != NULL)
                return connect_as_configured(config_path, answer_timeout_ms, error);
        conn = blocking_conn_open(&settings, error);
        if (conn == NULL && dsn == NULL) {
                struct error cause = *error;
                const size_t length = strlen(cause.text);
                error_set(error, cause.kind,
                    "%.800s%s Give --dsn or -c, or set PGHOST, PGUSER, PGDATABASE", cause.text,
                    length > 0 && strchr(".?!", cause.text[length - 1]) != NULL ? "" : ".");
        }
        return conn;
}

static bool check_schema(struct blocking_conn *conn, struct error *error)
{
        struct schema_status status;
        bool ok;

        if (!schema_read_status(&outbox_schema, conn, &status, error)) {
                command_refused(conn, NULL, error);
                return false;
        }
        ok = schema_check(&outbox_schema, conn, status.version, error);
        schema_status_deinit(&status);
        return ok;
}

struct blocking_conn *connect_to_schema(
    const char *dsn, const char *config_path, int64_t answer_timeout_ms, struct error *error)
{
        struct blocking_conn *conn =
            connect_for_command(dsn, config_path, answer_timeout_ms, error);

        if (conn == NULL || check_schema(conn, error))
                return conn;
        blocking_conn_close(conn);
        return NULL;
}

struct blocking_conn *command_connect(const struct arguments *arguments, struct error *error)
{
        const struct command *root = arguments->root;

        *arguments->conn = (root->needs_schema ? connect_to_schema : connect_for_command)(
            arguments->dsn, arguments->config_path, root->answer_timeout_ms, error);
        return *arguments->conn;
}

void command_refused(
    struct blocking_conn *conn, const struct arguments *arguments, struct error *error)
{
        (void)arguments;
        if (error->kind == ERROR_PERMISSION)
                error_set(error, ERROR_PERMISSION,
                    "%s. An administrator can allow it: GRANT courier_relay TO \"%s\"",
                    blocking_conn_message(conn), blocking_conn_user(conn));
        /* character_not_in_repertoire: only a word of the command line can be the cause. */
        else if (strcmp(blocking_conn_sqlstate(conn), "22021") == 0)
                error_set(
                    error, ERROR_USAGE, "a value is not valid: %s", blocking_conn_message(conn));
}

bool name_missing(
    struct rows *names, const char *kind, const char *list, const char *name, struct error *error)
{
        const char *meant = NULL;

        if (names == NULL)
                return false;
        for (int i = 0; i < rows_count(names); i++)
                meant = suggest_nearer(name, meant, rows_text(names, i, 0));
        if (meant != NULL)
                error_set(error, ERROR_EMPTY, "there is no %s \"%.100s\"; did you mean \"%s\"?",
                    kind, name, meant);
        else
                error_set(error, ERROR_EMPTY, "there is no %s \"%.100s\"; see `pgcourier %s`", kind,
                    name, list);
        rows_free(names);
        return false;
}
