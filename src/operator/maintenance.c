#include "operator/maintenance.h"

#include "base/alloc.h"
#include "pg/blocking_conn.h"
#include "pg/pg_conn.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* It may have to read a whole partition for each sink that lags. */
#define ANSWER_TIMEOUT_MS (10 * 60 * 1000)

#define MAINTAIN                                                                                   \
        "SELECT action, name, lower, upper, bytes,"                                                \
        " sink || CASE WHEN lane = 0 THEN '' ELSE '/' || lane END, events,"                        \
        " array_to_string(held_by[:8], ', ') || CASE WHEN cardinality(held_by) > 8"                \
        " THEN ' and ' || (cardinality(held_by) - 8) || ' more' ELSE '' END"                       \
        " FROM courier.maintain($1::bigint * interval '1 millisecond',"                            \
        " $2::bigint * interval '1 millisecond')"

static const struct pg_statement prepare_session = {
    .name = "prepare_session",
    .sql = "SELECT set_config('search_path', 'pg_catalog', false),"
           " set_config('default_transaction_isolation', 'read committed', false),"
           " set_config('statement_timeout', '10min', false)",
};
static const struct pg_statement maintain_statement = {
    .name = "maintain", .sql = MAINTAIN, .n_params = 2};

struct maintenance_params {
        char numbers[2][24];
        const char *values[2];
};

struct maintenance {
        struct pg_conn *conn; /* owned; open while a round is under way */
        struct maintenance_params params;
        struct maintenance_events events;
        void *owner; /* borrowed */
        bool is_running;
};

static void set_params(struct maintenance_params *params, const struct outbox_config *config)
{
        const int64_t values[] = {config->retention_ms, config->retention_max_ms};

        for (int i = 0; i < 2; i++) {
                snprintf(params->numbers[i], sizeof params->numbers[i], "%" PRId64, values[i]);
                params->values[i] = params->numbers[i];
        }
}

static void end_round(struct maintenance *maintenance)
{
        maintenance->is_running = false;
        pg_conn_close(maintenance->conn);
}

static void on_maintained(void *owner, PGresult *result)
{
        struct maintenance *maintenance = owner;

        end_round(maintenance);
        for (int row = 0; row < PQntuples(result); row++) {
                const char *columns[N_MAINTENANCE_COLUMNS];
                for (int i = 0; i < N_MAINTENANCE_COLUMNS; i++)
                        columns[i] = PQgetvalue(result, row, i);
                maintenance->events.on_news(maintenance->owner, columns);
        }
        PQclear(result);
}

static void on_connected(void *owner)
{
        struct maintenance *maintenance = owner;

        pg_conn_prepare(maintenance->conn, &prepare_session);
        pg_conn_execute(maintenance->conn, &prepare_session, NULL, false, NULL, NULL);
        pg_conn_prepare(maintenance->conn, &maintain_statement);
        pg_conn_execute(maintenance->conn, &maintain_statement, maintenance->params.values, false,
            on_maintained, maintenance);
}

/* There is always a next round. */
static void on_lost(void *owner, const struct error *error, int64_t retry_ms)
{
        struct maintenance *maintenance = owner;

        (void)retry_ms;
        end_round(maintenance);
        maintenance->events.on_failed(maintenance->owner, error);
}

static struct postgres_config be_patient(const struct postgres_config *config)
{
        struct postgres_config patient = *config;

        patient.query_timeout_ms = ANSWER_TIMEOUT_MS;
        return patient;
}

struct maintenance *maintenance_create(uv_loop_t *loop, const struct config *config,
    const struct maintenance_events *events, void *owner)
{
        static const struct pg_conn_events conn_events = {
            .on_connected = on_connected, .on_lost = on_lost};
        struct maintenance *maintenance = xcalloc(1, sizeof *maintenance);
        const struct postgres_config patient = be_patient(&config->postgres);

        maintenance->events = *events;
        maintenance->owner = owner;
        set_params(&maintenance->params, &config->outbox);
        maintenance->conn =
            pg_conn_create(loop, "maintenance", &patient, &conn_events, maintenance);
        return maintenance;
}

void maintenance_configure(struct maintenance *maintenance, const struct postgres_config *config)
{
        const struct postgres_config patient = be_patient(config);

        pg_conn_configure(maintenance->conn, &patient);
}

void maintenance_destroy(struct maintenance *maintenance)
{
        if (maintenance == NULL)
                return;
        pg_conn_destroy(maintenance->conn);
        free(maintenance);
}

void maintenance_run(struct maintenance *maintenance)
{
        if (maintenance->is_running)
                return;
        maintenance->is_running = true;
        pg_conn_open(maintenance->conn);
}

struct rows *maintenance_run_now(
    struct blocking_conn *conn, const struct outbox_config *config, struct error *error)
{
        struct maintenance_params params;
        struct parameter parameters[2] = {0};

        set_params(&params, config);
        for (int i = 0; i < 2; i++)
                parameters[i].value = params.values[i];
        return blocking_conn_query(conn, MAINTAIN, parameters, 2, error);
}
