#include "outbox/filter_query.h"

#include "base/alloc.h"
#include "pg/array_literal.h"
#include "pg/pg_conn.h"
#include "pg/pg_error.h"

#include <assert.h>
#include <endian.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct filter_query {
        struct pg_conn *conn; /* owned */
        struct filter_query_events events;
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

size_t filter_result_n_events(const struct filter_result *result)
{
        return (size_t)PQntuples(result->rows);
}

int64_t filter_result_event(const struct filter_result *result, size_t i)
{
        uint64_t id;

        memcpy(&id, PQgetvalue(result->rows, (int)i, 0), sizeof id);
        return (int64_t)be64toh(id);
}

bool filter_result_holds(const struct filter_result *result, size_t i, size_t filter)
{
        /* An integer[]: dimensions, flags, type, length and lower bound, then length and value. */
        enum { HEADER_BYTES = 20, ELEMENT_BYTES = 8 };
        int n_bytes = PQgetlength(result->rows, (int)i, 1);
        const char *array = PQgetvalue(result->rows, (int)i, 1);

        for (int at = HEADER_BYTES; at + ELEMENT_BYTES <= n_bytes; at += ELEMENT_BYTES) {
                uint32_t number;

                memcpy(&number, array + at + 4, sizeof number);
                if (be32toh(number) == filter + 1)
                        return true;
        }
        return false;
}

static void be_ready(struct filter_query *query)
{
        query->is_asking = false;
        query->events.on_ready(query->owner);
}

static void on_judged(void *owner, PGresult *rows)
{
        struct filter_query *query = owner;
        const struct filter_result result = {.rows = rows, .n_filters = query->n_filters};

        query->events.on_judged(query->owner, &result);
        PQclear(rows);
        be_ready(query);
}

/* courier.true_filters() says in the error's detail what it was at. */
static void on_failed(void *owner, PGresult *result)
{
        struct filter_query *query = owner;
        const char *detail = PQresultErrorField(result, PG_DIAG_MESSAGE_DETAIL);
        const char *sqlstate = PQresultErrorField(result, PG_DIAG_SQLSTATE);
        struct filter_query_failure failure = {
            .filter = -1, .is_time_up = sqlstate != NULL && strcmp(sqlstate, "57014") == 0};
        int64_t id;
        unsigned filter;

        pg_error_set_refused(&failure.error, result);
        if (detail != NULL && sscanf(detail, "event %" SCNd64 ", filter %u", &id, &filter) == 2 &&
            filter <= query->n_filters) {
                failure.id = id;
                failure.filter = (ptrdiff_t)filter - 1;
        }
        PQclear(result);
        query->events.on_failed(query->owner, &failure);
        be_ready(query);
}

static void on_server(void *owner, PGresult *result)
{
        struct filter_query *query = owner;
        bool is_the_same = strcmp(PQgetvalue(result, 0, 0), query->server) == 0;
        struct error error;

        PQclear(result);
        if (!is_the_same) {
                error_set(&error, ERROR_DATABASE,
                    "it reached another server than the connection that reads events");
                pg_conn_fail(query->conn, &error);
                return;
        }
        pg_conn_prepare(query->conn, &limit_statement);
        pg_conn_prepare(query->conn, &ask_statement);
        pg_conn_greeted(query->conn);
        be_ready(query);
}

static void on_connected(void *owner)
{
        struct filter_query *query = owner;

        query->limit_ms = 0;
        pg_conn_prepare(query->conn, &prepare_session);
        pg_conn_execute(query->conn, &prepare_session, NULL, false, NULL, NULL);
        pg_conn_prepare(query->conn, &find_server);
        pg_conn_execute(query->conn, &find_server, NULL, false, on_server, query);
}

static void on_lost(void *owner, const struct error *error, int64_t retry_ms)
{
        struct filter_query *query = owner;

        query->is_asking = false;
        query->events.on_lost(query->owner, error, retry_ms);
}

struct filter_query *filter_query_create(uv_loop_t *loop, const char *name,
    const struct postgres_config *config, const struct filter_query_events *events, void *owner)
{
        static const struct pg_conn_events conn_events = {
            .on_connected = on_connected, .on_lost = on_lost};
        struct filter_query *query = xcalloc(1, sizeof *query);

        query->events = *events;
        query->owner = owner;
        query->conn = pg_conn_create(loop, name, config, &conn_events, query);
        return query;
}

void filter_query_destroy(struct filter_query *query)
{
        if (query == NULL)
                return;
        pg_conn_destroy(query->conn);
        free(query->server);
        free(query);
}

void filter_query_configure(struct filter_query *query, const struct postgres_config *config)
{
        pg_conn_configure(query->conn, config);
}

void filter_query_open(struct filter_query *query, const char *server)
{
        if (query->is_open)
                return;
        query->is_open = true;
        free(query->server);
        query->server = xstrdup(server);
        pg_conn_open(query->conn);
}

void filter_query_close(struct filter_query *query)
{
        query->is_open = false;
        query->is_asking = false;
        pg_conn_close(query->conn);
}

bool filter_query_is_ready(const struct filter_query *query)
{
        return !query->is_asking && pg_conn_is_ready(query->conn);
}

static void set_limit(struct filter_query *query, int64_t limit_ms)
{
        char text[24];

        if (limit_ms == query->limit_ms)
                return;
        query->limit_ms = limit_ms;
        snprintf(text, sizeof text, "%" PRId64, limit_ms);
        pg_conn_execute(
            query->conn, &limit_statement, (const char *const[]){text}, false, NULL, NULL);
}

void filter_query_ask(struct filter_query *query, const struct filter_query_question *question)
{
        struct array_literal ids = {0}, filters = {0};
        char first[24], last[24];

        assert(filter_query_is_ready(query) && question->n_ids > 0);
        query->is_asking = true;
        query->n_filters = question->n_filters;
        for (size_t i = 0; i < question->n_ids; i++)
                array_add_int(&ids, question->ids[i]);
        for (size_t i = 0; i < question->n_filters; i++)
                array_add_text(&filters, question->filters[i]);
        snprintf(first, sizeof first, "%" PRId64, question->ids[0]);
        snprintf(last, sizeof last, "%" PRId64, question->ids[question->n_ids - 1]);
        set_limit(query, question->limit_ms);
        pg_conn_try(query->conn, &ask_statement,
            (const char *const[]){first, last, array_end(&ids), array_end(&filters)}, true,
            on_judged, on_failed, query);
        array_deinit(&ids);
        array_deinit(&filters);
}
