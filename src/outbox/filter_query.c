#include "outbox/filter_query.h"

#include "base/alloc.h"
#include "pg/array_literal.h"
#include "pg/pg_conn.h"

#include <assert.h>
#include <endian.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct judge {
        struct pg_conn *conn; /* owned */
        struct judge_events events;
        void *owner;  /* borrowed */
        char *server; /* owned */
        bool is_open, is_asking;
        size_t n_filters; /* of the question */
        int64_t limit_ms; /* of the session; 0: not set yet */
};

/* As the `work` session reads: nothing is scanned, nothing is planned anew. */
static const struct pg_statement prepare_session = {
    .name = "prepare_session",
    .sql = "SELECT set_config('search_path', 'pg_catalog', false),"
           " set_config('default_transaction_isolation', 'read committed', false),"
           " set_config('default_transaction_read_only', 'on', false),"
           " set_config('plan_cache_mode', 'force_generic_plan', false),"
           " set_config('enable_seqscan', 'off', false),"
           " set_config('enable_bitmapscan', 'off', false),"
           " set_config('jit', 'off', false),"
           " set_config('max_parallel_workers_per_gather', '0', false),"
           " set_config('lock_timeout', '0', false),"
           " set_config('idle_session_timeout', '0', false)",
};
static const struct pg_statement find_server = {
    .name = "find_server", .sql = "SELECT pg_postmaster_start_time()::text"};
static const struct pg_statement limit_statement = {
    .name = "limit", .sql = "SELECT set_config('statement_timeout', $1, false)", .n_params = 1};
/* The bounds are for the partitions: those of a list would not leave any out. */
static const struct pg_statement ask_statement = {.name = "ask",
    .sql = "SELECT id, courier.true_filters(payload, $4::jsonpath[], id) FROM courier.outbox"
           " WHERE id >= $1::bigint AND id <= $2::bigint AND id = ANY ($3::bigint[])",
    .n_params = 4};

size_t judgement_n_events(const struct judgement *judgement)
{
        return (size_t)PQntuples(judgement->rows);
}

int64_t judgement_event(const struct judgement *judgement, size_t i)
{
        uint64_t id;

        memcpy(&id, PQgetvalue(judgement->rows, (int)i, 0), sizeof id);
        return (int64_t)be64toh(id);
}

bool judgement_holds(const struct judgement *judgement, size_t i, size_t filter)
{
        /* An integer[]: dimensions, flags, type, length and lower bound, then length and value. */
        enum { HEADER_BYTES = 20, ELEMENT_BYTES = 8 };
        int n_bytes = PQgetlength(judgement->rows, (int)i, 1);
        const char *array = PQgetvalue(judgement->rows, (int)i, 1);

        for (int at = HEADER_BYTES; at + ELEMENT_BYTES <= n_bytes; at += ELEMENT_BYTES) {
                uint32_t number;

                memcpy(&number, array + at + 4, sizeof number);
                if (be32toh(number) == filter + 1)
                        return true;
        }
        return false;
}

static void be_ready(struct judge *judge)
{
        judge->is_asking = false;
        judge->events.on_ready(judge->owner);
}

static void on_judged(void *owner, PGresult *result)
{
        struct judge *judge = owner;
        const struct judgement judgement = {.rows = result, .n_filters = judge->n_filters};

        judge->events.on_judged(judge->owner, &judgement);
        PQclear(result);
        be_ready(judge);
}

/* courier.true_filters() says in the error's detail what it was at. */
static void on_failed(void *owner, PGresult *result)
{
        struct judge *judge = owner;
        const char *detail = PQresultErrorField(result, PG_DIAG_MESSAGE_DETAIL);
        const char *sqlstate = PQresultErrorField(result, PG_DIAG_SQLSTATE);
        struct judge_failure failure = {
            .filter = -1, .is_time_up = sqlstate != NULL && strcmp(sqlstate, "57014") == 0};
        int64_t id;
        unsigned filter;

        pg_conn_describe(result, &failure.error);
        if (detail != NULL && sscanf(detail, "event %" SCNd64 ", filter %u", &id, &filter) == 2 &&
            filter <= judge->n_filters) {
                failure.id = id;
                failure.filter = (ptrdiff_t)filter - 1;
        }
        PQclear(result);
        judge->events.on_failed(judge->owner, &failure);
        be_ready(judge);
}

static void on_server(void *owner, PGresult *result)
{
        struct judge *judge = owner;
        bool is_the_same = strcmp(PQgetvalue(result, 0, 0), judge->server) == 0;
        struct error error;

        PQclear(result);
        if (!is_the_same) {
                error_set(&error, ERROR_DATABASE,
                    "it led to another server than the connection that events are read from");
                pg_conn_fail(judge->conn, &error);
                return;
        }
        pg_conn_prepare(judge->conn, &limit_statement);
        pg_conn_prepare(judge->conn, &ask_statement);
        pg_conn_greeted(judge->conn);
        be_ready(judge);
}

static void on_connected(void *owner)
{
        struct judge *judge = owner;

        judge->limit_ms = 0;
        pg_conn_prepare(judge->conn, &prepare_session);
        pg_conn_execute(judge->conn, &prepare_session, NULL, false, NULL, NULL);
        pg_conn_prepare(judge->conn, &find_server);
        pg_conn_execute(judge->conn, &find_server, NULL, false, on_server, judge);
}

static void on_lost(void *owner, const struct error *error, int64_t retry_ms)
{
        struct judge *judge = owner;

        judge->is_asking = false;
        judge->events.on_lost(judge->owner, error, retry_ms);
}

struct judge *judge_create(uv_loop_t *loop, const char *name, const struct postgres_config *config,
    const struct judge_events *events, void *owner)
{
        static const struct pg_conn_events conn_events = {
            .on_connected = on_connected, .on_lost = on_lost};
        struct judge *judge = xcalloc(1, sizeof *judge);

        judge->events = *events;
        judge->owner = owner;
        judge->conn = pg_conn_create(loop, name, config, &conn_events, judge);
        return judge;
}

void judge_destroy(struct judge *judge)
{
        if (judge == NULL)
                return;
        pg_conn_destroy(judge->conn);
        free(judge->server);
        free(judge);
}

void judge_configure(struct judge *judge, const struct postgres_config *config)
{
        pg_conn_configure(judge->conn, config);
}

void judge_open(struct judge *judge, const char *server)
{
        if (judge->is_open)
                return;
        judge->is_open = true;
        free(judge->server);
        judge->server = xstrdup(server);
        pg_conn_open(judge->conn);
}

void judge_close(struct judge *judge)
{
        judge->is_open = false;
        judge->is_asking = false;
        pg_conn_close(judge->conn);
}

bool judge_is_ready(const struct judge *judge)
{
        return !judge->is_asking && pg_conn_is_ready(judge->conn);
}

static void set_limit(struct judge *judge, int64_t limit_ms)
{
        char text[24];

        if (limit_ms == judge->limit_ms)
                return;
        judge->limit_ms = limit_ms;
        snprintf(text, sizeof text, "%" PRId64, limit_ms);
        pg_conn_execute(
            judge->conn, &limit_statement, (const char *const[]){text}, false, NULL, NULL);
}

void judge_ask(struct judge *judge, const struct judge_question *question)
{
        struct array_literal ids = {0}, filters = {0};
        char first[24], last[24];

        assert(judge_is_ready(judge) && question->n_ids > 0);
        judge->is_asking = true;
        judge->n_filters = question->n_filters;
        for (size_t i = 0; i < question->n_ids; i++)
                array_add_int(&ids, question->ids[i]);
        for (size_t i = 0; i < question->n_filters; i++)
                array_add_text(&filters, question->filters[i]);
        snprintf(first, sizeof first, "%" PRId64, question->ids[0]);
        snprintf(last, sizeof last, "%" PRId64, question->ids[question->n_ids - 1]);
        set_limit(judge, question->limit_ms);
        pg_conn_try(judge->conn, &ask_statement,
            (const char *const[]){first, last, array_end(&ids), array_end(&filters)}, true,
            on_judged, on_failed, judge);
        array_deinit(&ids);
        array_deinit(&filters);
}
