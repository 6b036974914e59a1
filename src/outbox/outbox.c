/*
 * The outbox as a whole: how its session begins and ends, and what it does for no lane in
 * particular (pauses, schedules).
 */
#include "outbox/outbox.h"

#include "base/alloc.h"
#include "outbox/filter_queue.h"
#include "outbox/schema.h"
#include "outbox/session.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/*
 * - synchronous_commit: a settle that a server crash takes back only means that events come again.
 * - The planner knows nothing of an append-only table's growing end, and every one of our
 *   statements has an index made for it: generic plans over ordered index scans are right at any
 *   size and cost no planning.
 * - search_path: every name is qualified; no other schema's function can be meant.
 * - statement_timeout, lock_timeout: the server gives up before we would give up the session,
 *   because a statement that is one lane's own need not take it along.
 */
static const struct pg_statement prepare_session = {
    .name = "prepare_session",
    .n_params = 2,
    .sql = SESSION_SETTINGS,
};

static const struct pg_statement find_schema = {
    .name = "find_schema",
    .sql = "SELECT to_regclass('courier.schema_version') IS NOT NULL,"
           " pg_postmaster_start_time()",
};

static const struct pg_statement read_version = {
    .name = "read_version",
    .sql = "SELECT version, coalesce(to_jsonb(v) ->> 'serves_from', version::text)"
           " FROM courier.schema_version AS v ORDER BY version DESC LIMIT 1",
};

/* Without it, all would fail as soon as a lane looks; while the session is greeted, it is tried
 * more and more rarely. */
static const struct pg_statement check_sequence = {
    .name = "check_sequence",
    .sql = "SELECT courier.outbox_floor(courier.outbox_reached())",
};

/*
 * Sinks that stand still. All are read again whenever anything about them may have changed: they
 * are few.
 *
 * The trigger on courier.pause notifies for our own changes too, even for one that changes nothing.
 * That costs each relay a query, and a query never writes, so two relays cannot keep notifying each
 * other.
 */
enum { READ_PAUSES, WRITE_PAUSE, REMOVE_PAUSE, READ_MARKS, READ_DIVISIONS };

static const struct pg_statement pause_statements[] = {
    [READ_PAUSES] = {.name = "read_pauses",
        .sql = "SELECT sink, by, reason FROM courier.pause ORDER BY sink, by"},
    [WRITE_PAUSE] = {.name = "write_pause",
        .n_params = 2,
        .sql = "INSERT INTO courier.pause AS mine (sink, by, reason) VALUES ($1, 'relay', $2)"
               " ON CONFLICT (sink, by) DO UPDATE SET reason = excluded.reason"
               " WHERE mine.reason IS DISTINCT FROM excluded.reason"},
    /* Read with the pauses, for the same reasons. */
    [READ_MARKS] = {.name = "read_marks",
        .sql = "SELECT EXISTS (SELECT FROM courier.attachment WHERE has_marks)"},
    [READ_DIVISIONS] = {.name = "read_divisions",
        .sql = "SELECT name FROM courier.sink WHERE shards_wanted IS NOT NULL"},
    [REMOVE_PAUSE] = {.name = "remove_pause",
        .n_params = 1,
        .sql = "DELETE FROM courier.pause WHERE sink = $1 AND by = 'relay'"},
};

/* Recurring events are published by courier.tick(): one transaction, by the database's clock,
 * however many relays call it. */
static const struct pg_statement tick_statement = {.name = "tick", .sql = "SELECT courier.tick()"};

/* The schema's channels. */
#define NEWS    "courier"
#define CONTROL "courier_control"
#define MEMBERS "courier_members"

static const struct pg_statement listen_news = {.name = "listen_news", .sql = "LISTEN " NEWS};
static const struct pg_statement listen_control = {
    .name = "listen_control", .sql = "LISTEN " CONTROL};
static const struct pg_statement listen_members = {
    .name = "listen_members", .sql = "LISTEN " MEMBERS};

static void on_marks_read(void *owner, PGresult *result)
{
        struct outbox *outbox = owner;
        bool has_marks = PQgetvalue(result, 0, 0)[0] == 't';

        PQclear(result);
        if (outbox->events.on_marks != NULL)
                outbox->events.on_marks(outbox->owner, has_marks);
}

static void on_divisions_read(void *owner, PGresult *result)
{
        struct outbox *outbox = owner;

        for (int row = 0; row < PQntuples(result); row++)
                if (outbox->events.on_division != NULL)
                        outbox->events.on_division(outbox->owner, PQgetvalue(result, row, 0));
        PQclear(result);
}

static void read_pauses(struct outbox *outbox, pg_result_fn *on_result)
{
        pg_conn_execute(
            outbox->conn, &pause_statements[READ_PAUSES], NULL, false, on_result, outbox);
        pg_conn_execute(
            outbox->conn, &pause_statements[READ_MARKS], NULL, false, on_marks_read, outbox);
        pg_conn_execute(outbox->conn, &pause_statements[READ_DIVISIONS], NULL, false,
            on_divisions_read, outbox);
}

static void tell_pauses(struct outbox *outbox, PGresult *result)
{
        int n_rows = PQntuples(result);
        struct pause *pauses = xcalloc((size_t)n_rows + 1, sizeof *pauses);

        for (int row = 0; row < n_rows; row++) {
                pauses[row].sink = PQgetvalue(result, row, 0);
                pauses[row].by = strcmp(PQgetvalue(result, row, 1), "relay") == 0
                                     ? PAUSED_BY_RELAY
                                     : PAUSED_BY_OPERATOR;
                if (!PQgetisnull(result, row, 2))
                        pauses[row].reason = PQgetvalue(result, row, 2);
        }
        if (outbox->events.on_pauses != NULL)
                outbox->events.on_pauses(outbox->owner,
                    &(struct pause_list){.n_pauses = (size_t)n_rows, .pauses = pauses});
        free(pauses);
        PQclear(result);
}

/* Notifications that come while the session is greeted do not matter: everything is read after
 * it. */
static void on_notification(void *owner, const char *channel)
{
        struct outbox *outbox = owner;

        if (!pg_conn_is_ready(outbox->conn))
                return;
        if (strcmp(channel, NEWS) == 0)
                outbox->news.on_rung(outbox->news_owner);
        else if (strcmp(channel, MEMBERS) == 0 && outbox->events.on_members_news != NULL)
                outbox->events.on_members_news(outbox->owner);
        else if (outbox->events.on_control != NULL)
                outbox->events.on_control(outbox->owner);
}

/* Before anything is read, so that what changes after that is heard. */
static void start_listening(struct outbox *outbox)
{
        pg_conn_prepare(outbox->conn, &listen_news);
        pg_conn_prepare(outbox->conn, &listen_control);
        pg_conn_execute(outbox->conn, &listen_news, NULL, false, NULL, NULL);
        pg_conn_execute(outbox->conn, &listen_control, NULL, false, NULL, NULL);
        pg_conn_prepare(outbox->conn, &listen_members);
        pg_conn_execute(outbox->conn, &listen_members, NULL, false, NULL, NULL);
}

static bool version_serves(struct outbox *outbox, struct schema_version version)
{
        struct error error;

        if (schema_check_version(&outbox_schema, version, &error))
                return true;
        session_refuse(outbox, &error);
        return false;
}

static void prepare_statements(struct outbox *outbox)
{
        pg_conn_prepare(outbox->conn, &check_sequence);
        for (unsigned i = 0; i < n_agreement_statements; i++)
                pg_conn_prepare(outbox->conn, &agreement_statements[i]);
        for (unsigned i = 0; i < n_claim_statements; i++)
                pg_conn_prepare(outbox->conn, &claim_statements[i]);
        pg_conn_prepare(outbox->conn, &next_id_statement);
        pg_conn_prepare(outbox->conn, &parked_statement);
        pg_conn_prepare(outbox->conn, &due_lanes_statement);
        for (unsigned i = 0; i < n_settle_statements; i++)
                pg_conn_prepare(outbox->conn, &settle_statements[i]);
        pg_conn_prepare(outbox->conn, &settle_one_statement);
        pg_conn_prepare(outbox->conn, &settle_batch_statement);
        pg_conn_prepare(outbox->conn, &tick_statement);
        for (unsigned i = 0; i < n_membership_statements; i++)
                pg_conn_prepare(outbox->conn, &membership_statements[i]);
        for (unsigned i = 0; i < n_receiver_statements; i++)
                pg_conn_prepare(outbox->conn, &receiver_statements[i]);
        for (unsigned i = 0; i < sizeof pause_statements / sizeof *pause_statements; i++)
                pg_conn_prepare(outbox->conn, &pause_statements[i]);
}

static void on_first_pauses(void *owner, PGresult *result)
{
        struct outbox *outbox = owner;

        pg_conn_greeted(outbox->conn);
        tell_pauses(outbox, result);
        if (!pg_conn_is_ready(outbox->conn)) /* its receiver may have closed the session */
                return;
        filter_queue_session_up(outbox->queue, outbox->server);
        outbox->events.on_up(outbox->owner);
}

static void on_version(void *owner, PGresult *result)
{
        struct outbox *outbox = owner;
        struct schema_version version = {0};

        if (PQntuples(result) > 0) {
                version.number = (int)strtol(PQgetvalue(result, 0, 0), NULL, 10);
                version.serves_from = (int)strtol(PQgetvalue(result, 0, 1), NULL, 10);
        }
        PQclear(result);
        if (!version_serves(outbox, version))
                return;
        if (outbox->is_listening)
                start_listening(outbox);
        prepare_statements(outbox);
        pg_conn_execute(outbox->conn, &check_sequence, NULL, false, NULL, NULL);
        session_join(outbox);
        read_pauses(outbox, on_first_pauses);
}

static void on_schema(void *owner, PGresult *result)
{
        struct outbox *outbox = owner;
        bool exists = PQgetvalue(result, 0, 0)[0] == 't';

        snprintf(outbox->server, sizeof outbox->server, "%s", PQgetvalue(result, 0, 1));
        PQclear(result);
        if (!exists) {
                (void)version_serves(outbox, (struct schema_version){0});
                return;
        }
        pg_conn_prepare(outbox->conn, &read_version);
        pg_conn_execute(outbox->conn, &read_version, NULL, false, on_version, outbox);
}

static void begin_session(struct outbox *outbox)
{
        int64_t timeout_ms = outbox->postgres.query_timeout_ms;
        char statement_ms[24], lock_ms[24];

        snprintf(statement_ms, sizeof statement_ms, "%" PRId64, timeout_ms * 2 / 3);
        snprintf(lock_ms, sizeof lock_ms, "%" PRId64, timeout_ms / 3);
        pg_conn_prepare(outbox->conn, &prepare_session);
        pg_conn_execute(outbox->conn, &prepare_session,
            (const char *const[]){statement_ms, lock_ms}, false, NULL, NULL);
        pg_conn_prepare(outbox->conn, &find_schema);
        pg_conn_execute(outbox->conn, &find_schema, NULL, false, on_schema, outbox);
}

static void on_pooling_known(void *owner, const struct error *error)
{
        struct outbox *outbox = owner;

        outbox->pooling = NULL;
        if (error == NULL)
                begin_session(outbox);
        else if (error->kind == ERROR_CONFIG)
                session_refuse(outbox, error);
        else
                pg_conn_fail(outbox->conn, error);
}

/* Before anything is prepared or set: a pooler may give this server process to another client. */
static void on_server_known(void *owner, PGresult *result)
{
        struct outbox *outbox = owner;
        int pid = (int)strtol(PQgetvalue(result, 0, 0), NULL, 10);
        struct error error;
        bool is_utf8 = schema_check_encoding(PQgetvalue(result, 0, 1), &error);

        snprintf(outbox->role, sizeof outbox->role, "%s", PQgetvalue(result, 0, 2));
        PQclear(result);
        if (!is_utf8)
                session_refuse(outbox, &error);
        else if (pid != pg_conn_backend_pid(outbox->conn))
                outbox->pooling =
                    pooling_ask(outbox->loop, &outbox->postgres, on_pooling_known, outbox);
        else
                begin_session(outbox);
}

static void on_connected(void *owner)
{
        struct outbox *outbox = owner;

        page_statements_begin_session(&outbox->pages);
        outbox->member[0] = '\0';
        outbox->is_reading_members = outbox->reads_members_again = false;
        outbox->marks = (struct frame_marks){0};
        pg_conn_ask(outbox->conn,
            "SELECT pg_catalog.pg_backend_pid(), pg_catalog.current_setting('server_encoding'),"
            " pg_catalog.quote_ident(current_user)",
            on_server_known, outbox);
}

static void on_lost(void *owner, const struct error *error, int64_t retry_ms)
{
        struct outbox *outbox = owner;
        struct error refused;

        session_forget(outbox);
        if (error->kind != ERROR_PERMISSION) {
                outbox->events.on_down(outbox->owner, error, retry_ms);
                return;
        }
        error_set(&refused, ERROR_PERMISSION,
            "%s. The relay's role needs: GRANT courier_relay TO %s; `pgcourier check --connect` "
            "says what is missing",
            error->text, outbox->role);
        session_refuse(outbox, &refused);
}

static void on_filters_down(void *owner, const struct error *error, int64_t retry_ms)
{
        struct outbox *outbox = owner;

        outbox->events.on_filters_down(outbox->owner, error, retry_ms);
}

static void on_filters_up(void *owner)
{
        struct outbox *outbox = owner;

        outbox->events.on_filters_up(outbox->owner);
}

/* Nothing was settled for a while: an outage, which the attempts tell of. */
static void on_attempts_due(void *owner)
{
        session_write_attempts(owner);
}

struct outbox *outbox_create(uv_loop_t *loop, const struct postgres_config *config,
    const struct outbox_events *events, void *owner)
{
        struct outbox *outbox = xcalloc(1, sizeof *outbox);
        const struct pg_conn_events conn_events = {
            .on_connected = on_connected, .on_lost = on_lost, .on_notification = on_notification};
        static const struct filter_queue_events filter_queue_events = {
            .on_trouble = on_filters_down, .on_back = on_filters_up};

        outbox->events = *events;
        outbox->owner = owner;
        list_init(&outbox->settle_batches);
        outbox->loop = loop;
        outbox->postgres = *config;
        outbox->conn = pg_conn_create(loop, "work", config, &conn_events, outbox);
        outbox->queue = filter_queue_create(loop, config, &filter_queue_events, outbox);
        outbox->attempts = attempt_log_create();
        outbox->attempts_due = timer_create_on(loop, on_attempts_due, outbox);
        return outbox;
}

struct filter_queue *outbox_filter_queue(struct outbox *outbox)
{
        return outbox->queue;
}

void outbox_listen(struct outbox *outbox, const struct outbox_news *news, void *owner)
{
        outbox->is_listening = news != NULL;
        if (news != NULL)
                outbox->news = *news;
        outbox->news_owner = owner;
}

void outbox_open(struct outbox *outbox)
{
        pg_conn_open(outbox->conn);
}

void outbox_configure(struct outbox *outbox, const struct postgres_config *config)
{
        outbox->postgres = *config;
        pg_conn_configure(outbox->conn, config);
        filter_queue_configure(outbox->queue, config);
}

bool outbox_is_up(const struct outbox *outbox)
{
        return pg_conn_is_ready(outbox->conn);
}

const char *outbox_server(const struct outbox *outbox)
{
        return pg_conn_is_ready(outbox->conn) ? outbox->server : NULL;
}

void outbox_close(struct outbox *outbox)
{
        pg_conn_close(outbox->conn);
        session_forget(outbox);
}

void outbox_destroy(struct outbox *outbox)
{
        if (outbox == NULL)
                return;
        filter_queue_destroy(outbox->queue);
        pooling_forget(outbox->pooling);
        pg_conn_destroy(outbox->conn);
        timer_destroy(outbox->attempts_due);
        attempt_log_destroy(outbox->attempts);
        page_statements_deinit(&outbox->pages);
        session_forget_membership(outbox);
        free(outbox);
}

static void on_pauses_read(void *owner, PGresult *result)
{
        tell_pauses(owner, result);
}

/* Only a session that is up has its statements; before that, its own first look is still to come or
 * on its way. */
static void execute_pause(struct outbox *outbox, int statement, const char *const *values)
{
        if (pg_conn_is_ready(outbox->conn))
                pg_conn_execute(
                    outbox->conn, &pause_statements[statement], values, false, NULL, NULL);
}

void outbox_read_pauses(struct outbox *outbox)
{
        if (pg_conn_is_ready(outbox->conn))
                read_pauses(outbox, on_pauses_read);
}

void outbox_write_pause(struct outbox *outbox, const char *sink, const char *reason)
{
        execute_pause(outbox, WRITE_PAUSE, (const char *const[]){sink, reason});
}

void outbox_remove_pause(struct outbox *outbox, const char *sink)
{
        execute_pause(outbox, REMOVE_PAUSE, (const char *const[]){sink});
}

static void on_ticked(void *owner, PGresult *result)
{
        struct outbox *outbox = owner;
        int64_t next_ms =
            PQgetisnull(result, 0, 0) ? -1 : strtoll(PQgetvalue(result, 0, 0), NULL, 10);

        PQclear(result);
        outbox->events.on_tick(outbox->owner, next_ms);
}

void outbox_tick(struct outbox *outbox)
{
        pg_conn_execute(outbox->conn, &tick_statement, NULL, false, on_ticked, outbox);
}
