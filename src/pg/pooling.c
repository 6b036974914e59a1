#include "pg/pooling.h"

#include "base/alloc.h"
#include "pg/blocking_conn.h"

#include <stdlib.h>
#include <string.h>

/* A pooler that shares connections has one for us at once: ours is not in use. */
#define WAIT_MAX_MS 5000

/* Others may take the connection that was to be met, or leave it where it was. */
#define ROUNDS 5

static struct blocking_conn *connect_once(const struct postgres_config *config, struct error *error)
{
        const int64_t wait_ms =
            config->query_timeout_ms < WAIT_MAX_MS ? config->query_timeout_ms : WAIT_MAX_MS;

        return blocking_conn_open(&(struct blocking_conn_settings){.dsn = config->dsn,
                                      .password = config->password,
                                      .connect_timeout_ms = config->connect_timeout_ms,
                                      .answer_timeout_ms = wait_ms},
            error);
}

static bool find_server(struct blocking_conn *conn, int *out_pid, struct error *error)
{
        struct rows *rows =
            blocking_conn_query(conn, "SELECT pg_catalog.pg_backend_pid()", NULL, 0, error);

        if (rows == NULL)
                return false;
        *out_pid = (int)strtol(rows_text(rows, 0, 0), NULL, 10);
        rows_free(rows);
        return true;
}

static bool refuse(struct error *error)
{
        return error_set(error, ERROR_CONFIG,
            "a connection pooler in between shares server connections between transactions or "
            "statements, so a lane would lose its owner. Connect to "
            "PostgreSQL "
            "itself, or set pool_mode = session for this database or user in the pooler");
}

/* In one transaction after another the same server process, and in that of another session, which
 * is open meanwhile, not. The first two are for a pool that gives its connections in turn. */
static bool compare(
    struct blocking_conn *conn, struct blocking_conn *other, bool *out_stays, struct error *error)
{
        int first, again, others;

        *out_stays = false;
        if (!find_server(conn, &first, error) || !find_server(conn, &again, error))
                return false;
        if (first != again)
                return true;
        if (!blocking_conn_run(other, "BEGIN", error)) /* with pooled statements there is none */
                return *blocking_conn_sqlstate(other) != '\0';
        if (!find_server(other, &others, error))
                return false;
        if (first == others)
                return true; /* and there may be no other one for `conn` now */
        if (!find_server(conn, &again, error) || !blocking_conn_run(other, "COMMIT", error))
                return false;
        *out_stays = first == again;
        return true;
}

static bool check_between(
    struct blocking_conn *conn, struct blocking_conn *other, struct error *error)
{
        bool stays = true;

        for (int i = 0; stays && i < ROUNDS; i++)
                if (!compare(conn, other, &stays, error)) {
                        struct error cause = *error;
                        return error_set(error, cause.kind,
                            "a connection pooler is in between, and pgcourier cannot find out "
                            "whether it shares its connections: %.700s",
                            cause.text);
                }
        return stays || refuse(error);
}

bool pooling_check(const struct postgres_config *config, struct error *error)
{
        struct blocking_conn *conn = connect_once(config, error);
        struct blocking_conn *other = NULL;
        bool ok = false;
        int pid;

        if (conn != NULL && find_server(conn, &pid, error)) {
                ok = pid == blocking_conn_backend_pid(conn);
                if (!ok) {
                        other = connect_once(config, error);
                        ok = other != NULL && check_between(conn, other, error);
                }
        }
        blocking_conn_close(other);
        blocking_conn_close(conn);
        return ok;
}

struct pooling {
        uv_work_t work;
        struct postgres_config config; /* its texts are owned */
        pooling_answer_fn *on_answer;  /* NULL: pooling_forget() was called */
        void *owner;
        struct error error;
};

static void work(uv_work_t *work)
{
        struct pooling *pooling = work->data;

        if (pooling_check(&pooling->config, &pooling->error))
                pooling->error.kind = ERROR_NONE;
}

static void on_worked(uv_work_t *work, int status)
{
        struct pooling *pooling = work->data;
        bool failed = pooling->error.kind != ERROR_NONE;

        (void)status;
        if (pooling->on_answer != NULL)
                pooling->on_answer(pooling->owner, failed ? &pooling->error : NULL);
        postgres_config_clear(&pooling->config);
        free(pooling);
}

struct pooling *pooling_ask(uv_loop_t *loop, const struct postgres_config *config,
    pooling_answer_fn *on_answer, void *owner)
{
        struct pooling *pooling = xcalloc(1, sizeof *pooling);

        postgres_config_copy(&pooling->config, config);
        pooling->on_answer = on_answer;
        pooling->owner = owner;
        pooling->work.data = pooling;
        uv_queue_work(loop, &pooling->work, work, on_worked);
        return pooling;
}

void pooling_forget(struct pooling *pooling)
{
        if (pooling != NULL)
                pooling->on_answer = NULL;
}
