#include "operator/maintenance.h"

#include "base/alloc.h"
#include "log/log.h"
#include "loop/timer.h"
#include "pg/blocking_conn.h"
#include "pg/pg_conn.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ROUND_MS 30000

/* A partition stays held for long: logged when that begins, and each hour. */
#define ROUNDS_PER_REPORT 120

/* It may have to read a whole partition for each sink that lags. */
#define ANSWER_TIMEOUT_MS (10 * 60 * 1000)

/* Of expired dedup keys; a round that removes so many of them is enough until the next. */
#define KEYS_PER_BATCH    10000
#define BATCHES_PER_ROUND 100

#define MAINTAIN                                                                                   \
        "SELECT action, name, lower, upper, bytes,"                                                \
        " sink || CASE WHEN lane = 0 THEN '' ELSE '/' || lane END, events,"                        \
        " array_to_string(held_by[:8], ', ') || CASE WHEN cardinality(held_by) > 8"                \
        " THEN ' and ' || (cardinality(held_by) - 8) || ' more' ELSE '' END"                       \
        " FROM courier.maintain($1::bigint * interval '1 millisecond',"                            \
        " $2::bigint * interval '1 millisecond')"

/* A batch goes on where the one before it ended: what that left behind is not yet cleaned up. */
#define FORGET_KEYS                                                                                \
        "SELECT keys, until FROM courier.forget_dedup_keys("                                       \
        "$1::bigint * interval '1 millisecond', $2::integer, coalesce($3::timestamptz, "           \
        "'-infinity'))"

#define CHECK_TYPES "SELECT courier.require_known_types($1::boolean)"

/* A commit that waits for a standby keeps its locks, and those on partitions keep readers of the
 * log out. What a crash takes back is done again. */
#define WAIT_FOR_NO_STANDBY "set_config('synchronous_commit', 'off', false)"

static const struct pg_statement prepare_session = {
    .name = "prepare_session",
    .sql = "SELECT set_config('search_path', 'pg_catalog', false),"
           " " WAIT_FOR_NO_STANDBY ","
           " set_config('default_transaction_isolation', 'read committed', false),"
           " set_config('statement_timeout', '10min', false)",
};
static const struct pg_statement maintain_statement = {
    .name = "maintain", .sql = MAINTAIN, .n_params = 2};

static const struct pg_statement forget_keys_statement = {
    .name = "forget_keys", .sql = FORGET_KEYS, .n_params = 3};

static const struct pg_statement check_types_statement = {
    .name = "check_types", .sql = CHECK_TYPES, .n_params = 1};

struct maintenance_params {
        char numbers[2][24];
        const char *values[2];
};

struct forget_params {
        char retention_ms[24];
        char n_keys[12];
        char since[64]; /* what the previous batch of the round said, in the server's words */
        const char *values[3];
};

struct maintenance {
        struct pg_conn *conn; /* owned; open while a round is under way */
        struct maintenance_params params;
        struct forget_params forget;
        enum types_rule types;
        struct timer *round; /* owned */
        struct maintenance_events events;
        void *owner; /* borrowed */
        bool is_running;
        unsigned n_rounds;
        unsigned n_batches; /* of dedup keys, in this round */
        int64_t n_keys;     /* that were removed in it */
        char *held_by;      /* owned; as last logged, of the oldest held partition; NULL: none */
        bool is_held;       /* any is, in this round */
        bool is_refused;    /* this round's credentials were wrong, and may have changed */
};

static void set_params(struct maintenance_params *params, const struct outbox_config *config)
{
        const int64_t values[] = {config->retention_ms, config->retention_max_ms};

        for (int i = 0; i < 2; i++) {
                snprintf(params->numbers[i], sizeof params->numbers[i], "%" PRId64, values[i]);
                params->values[i] = params->numbers[i];
        }
}

/* Before the first batch of a round. */
static void set_forget_params(struct forget_params *params, const struct outbox_config *config)
{
        snprintf(params->retention_ms, sizeof params->retention_ms, "%" PRId64,
            config->dedup_retention_ms);
        snprintf(params->n_keys, sizeof params->n_keys, "%d", KEYS_PER_BATCH);
        params->values[0] = config->dedup_retention_ms != 0 ? params->retention_ms : NULL;
        params->values[1] = params->n_keys;
        params->values[2] = NULL;
}

/* Takes the answer of a batch; true: there are more. */
static bool was_full_batch(
    struct forget_params *params, const char *n_keys, const char *until, int64_t *n_total)
{
        int64_t n = strtoll(n_keys, NULL, 10);

        *n_total += n;
        if (n < KEYS_PER_BATCH)
                return false;
        snprintf(params->since, sizeof params->since, "%s", until);
        params->values[2] = params->since;
        return true;
}

static int64_t number(const char *const *columns, enum maintenance_column column)
{
        return strtoll(columns[column], NULL, 10);
}

/* The oldest comes first, and what holds it holds the others, too, or nearly all. */
static void report_held(struct maintenance *maintenance, const char *const *columns)
{
        const char *held_by = columns[MAINTENANCE_HELD_BY];
        bool is_first = !maintenance->is_held;

        maintenance->is_held = true;
        if (!is_first ||
            (maintenance->held_by != NULL && strcmp(maintenance->held_by, held_by) == 0))
                return;
        free(maintenance->held_by);
        maintenance->held_by = xstrdup(held_by);
        log_warn("retention_held", kv_text("partition", columns[MAINTENANCE_PARTITION]),
            kv_int("bytes", number(columns, MAINTENANCE_BYTES)), kv_text("by", held_by));
}

static void report(struct maintenance *maintenance, const char *const *columns)
{
        const char *action = columns[MAINTENANCE_ACTION];
        int64_t first_id = number(columns, MAINTENANCE_LOWER);
        int64_t last_id = number(columns, MAINTENANCE_UPPER) - 1;

        if (strcmp(action, "held") == 0)
                report_held(maintenance, columns);
        else if (strcmp(action, "lost") == 0)
                log_error("events_lost", kv_text("sink", columns[MAINTENANCE_SINK]),
                    kv_int("events", number(columns, MAINTENANCE_EVENTS)),
                    kv_int("first_id", first_id), kv_int("last_id", last_id),
                    kv_text("reason", "outbox.retention_max was over before the sink had them"));
        else if (strcmp(action, "waits") == 0)
                log_debug("partitions_wait",
                    kv_text("for", "a moment in which no transaction publishes"));
        else if (strcmp(action, "stray") == 0)
                log_warn("outbox_default_stays",
                    kv_text("reason", "it holds events whose ids were not drawn in order"),
                    kv_int("bytes", number(columns, MAINTENANCE_BYTES)));
        else
                log_info(strcmp(action, "made") == 0      ? "partition_made"
                         : strcmp(action, "emptied") == 0 ? "partition_emptied"
                                                          : "partition_dropped",
                    kv_text("partition", columns[MAINTENANCE_PARTITION]),
                    kv_int("first_id", first_id), kv_int("last_id", last_id),
                    kv_text("bytes",
                        columns[MAINTENANCE_BYTES][0] != '\0' ? columns[MAINTENANCE_BYTES] : NULL));
}

static void end_round(struct maintenance *maintenance)
{
        maintenance->is_running = false;
        pg_conn_close(maintenance->conn);
}

static const char *required(enum types_rule types)
{
        return types == TYPES_STRICT ? "true" : "false";
}

static void on_types_checked(void *owner, PGresult *result)
{
        struct maintenance *maintenance = owner;
        const char *answer = PQgetvalue(result, 0, 0);

        if (strcmp(answer, "changed") == 0)
                log_info("types_rule_changed",
                    kv_text("types", maintenance->types == TYPES_STRICT ? "strict" : "any"));
        else if (strcmp(answer, "waits") == 0)
                log_debug("types_rule_waits",
                    kv_text("for", "a moment in which no transaction publishes"));
        PQclear(result);
        end_round(maintenance);
}

static void check_types(struct maintenance *maintenance)
{
        const char *const values[] = {required(maintenance->types)};

        pg_conn_prepare(maintenance->conn, &check_types_statement);
        pg_conn_execute(maintenance->conn, &check_types_statement, values, false, on_types_checked,
            maintenance);
}

static void on_keys_forgotten(void *owner, PGresult *result)
{
        struct maintenance *maintenance = owner;
        bool is_full = was_full_batch(&maintenance->forget, PQgetvalue(result, 0, 0),
            PQgetvalue(result, 0, 1), &maintenance->n_keys);

        PQclear(result);
        if (is_full && ++maintenance->n_batches < BATCHES_PER_ROUND) {
                pg_conn_execute(maintenance->conn, &forget_keys_statement,
                    maintenance->forget.values, false, on_keys_forgotten, maintenance);
                return;
        }
        if (maintenance->n_keys > 0)
                log_debug("dedup_keys_forgotten", kv_int("keys", maintenance->n_keys));
        check_types(maintenance);
}

static void forget_keys(struct maintenance *maintenance)
{
        maintenance->n_batches = 0;
        maintenance->n_keys = 0;
        maintenance->forget.values[2] = NULL;
        pg_conn_prepare(maintenance->conn, &forget_keys_statement);
        pg_conn_execute(maintenance->conn, &forget_keys_statement, maintenance->forget.values,
            false, on_keys_forgotten, maintenance);
}

static void on_maintained(void *owner, PGresult *result)
{
        struct maintenance *maintenance = owner;

        for (int row = 0; row < PQntuples(result); row++) {
                const char *columns[N_MAINTENANCE_COLUMNS];
                for (int i = 0; i < N_MAINTENANCE_COLUMNS; i++)
                        columns[i] = PQgetvalue(result, row, i);
                report(maintenance, columns);
        }
        PQclear(result);
        forget_keys(maintenance);
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
        maintenance->is_refused =
            error->kind == ERROR_LOGIN && maintenance->events.on_login_refused(maintenance->owner);
        if (!maintenance->is_refused)
                log_warn("maintenance_failed", kv_text("error", error->text));
}

static void run(struct maintenance *maintenance)
{
        if (maintenance->is_running)
                return;
        maintenance->is_running = true;
        pg_conn_open(maintenance->conn);
}

static void on_round(void *owner)
{
        struct maintenance *maintenance = owner;

        if (!maintenance->is_held || maintenance->n_rounds % ROUNDS_PER_REPORT == 0) {
                free(maintenance->held_by);
                maintenance->held_by = NULL;
        }
        maintenance->is_held = false;
        maintenance->is_refused = false;
        maintenance->n_rounds++;
        run(maintenance);
        timer_arm(maintenance->round, ROUND_MS);
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
        maintenance->round = timer_create_on(loop, on_round, maintenance);
        set_params(&maintenance->params, &config->outbox);
        set_forget_params(&maintenance->forget, &config->outbox);
        maintenance->types = config->outbox.types;
        maintenance->conn =
            pg_conn_create(loop, "maintenance", &patient, &conn_events, maintenance);
        return maintenance;
}

void maintenance_configure(struct maintenance *maintenance, const struct postgres_config *config)
{
        const struct postgres_config patient = be_patient(config);

        pg_conn_configure(maintenance->conn, &patient);
        if (maintenance->is_refused)
                run(maintenance);
        maintenance->is_refused = false;
}

void maintenance_destroy(struct maintenance *maintenance)
{
        if (maintenance == NULL)
                return;
        pg_conn_destroy(maintenance->conn);
        timer_destroy(maintenance->round);
        free(maintenance->held_by);
        free(maintenance);
}

void maintenance_start(struct maintenance *maintenance)
{
        if (!timer_is_armed(maintenance->round))
                timer_arm(maintenance->round, 0);
}

struct rows *maintenance_run_now(
    struct blocking_conn *conn, const struct outbox_config *config, struct error *error)
{
        struct maintenance_params params;
        struct parameter parameters[2] = {0};

        if (!blocking_conn_run(conn, "SELECT pg_catalog." WAIT_FOR_NO_STANDBY, error))
                return NULL;
        set_params(&params, config);
        for (int i = 0; i < 2; i++)
                parameters[i].value = params.values[i];
        return blocking_conn_query(conn, MAINTAIN, parameters, 2, error);
}

bool maintenance_forget_keys_now(struct blocking_conn *conn, const struct outbox_config *config,
    int64_t *out_n_keys, struct error *error)
{
        struct forget_params params;
        bool is_full = true;

        set_forget_params(&params, config);
        *out_n_keys = 0;
        while (is_full) {
                struct parameter parameters[3] = {0};
                struct rows *rows;
                for (int i = 0; i < 3; i++)
                        parameters[i].value = params.values[i];
                rows = blocking_conn_query(conn, FORGET_KEYS, parameters, 3, error);
                if (rows == NULL)
                        return false;
                is_full = was_full_batch(
                    &params, rows_text(rows, 0, 0), rows_text(rows, 0, 1), out_n_keys);
                rows_free(rows);
        }
        return true;
}

struct rows *maintenance_check_types_now(
    struct blocking_conn *conn, const struct outbox_config *config, struct error *error)
{
        const struct parameter rule = {.value = required(config->types)};

        return blocking_conn_query(conn, CHECK_TYPES, &rule, 1, error);
}
