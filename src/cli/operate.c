#include "cli/operate.h"

#include "cli/cli.h"
#include "outbox/schema.h"
#include "pg/blocking_conn.h"

#include <string.h>

static bool check_schema(struct blocking_conn *conn, struct error *error)
{
        struct schema_status status;
        bool ok;

        if (!schema_read_status(conn, &status, error))
                return operate_refused(conn, error);
        ok = schema_check(conn, status.version, error);
        schema_status_deinit(&status);
        return ok;
}

struct blocking_conn *operate_connect(
    const char *dsn, const char *config_path, int64_t answer_timeout_ms, struct error *error)
{
        struct blocking_conn *conn =
            connect_for_command(dsn, config_path, answer_timeout_ms, error);

        if (conn == NULL || check_schema(conn, error))
                return conn;
        blocking_conn_close(conn);
        return NULL;
}

bool operate_refused(struct blocking_conn *conn, struct error *error)
{
        if (error->kind == ERROR_PERMISSION)
                return error_set(error, ERROR_PERMISSION,
                    "%s. An administrator can allow it: GRANT courier_relay TO \"%s\"",
                    blocking_conn_message(conn), blocking_conn_user(conn));
        /* character_not_in_repertoire: only a word of the command line can be the cause. */
        if (strcmp(blocking_conn_sqlstate(conn), "22021") == 0)
                return error_set(
                    error, ERROR_USAGE, "a value is not valid: %s", blocking_conn_message(conn));
        return false;
}
