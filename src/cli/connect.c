#include "cli/cli.h"
#include "config/config.h"
#include "pg/blocking_conn.h"

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
