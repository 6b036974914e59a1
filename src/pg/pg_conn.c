#include "pg/pg_conn.h"

#include "base/alloc.h"
#include "base/backoff.h"
#include "base/instance.h"
#include "base/list.h"
#include "log/log.h"
#include "loop/socket_watch.h"
#include "loop/timer.h"
#include "pg/dsn.h"
#include "pg/pg_error.h"
#include "pg/session_start.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum pg_conn_state {
        PG_CONN_CLOSED,
        PG_CONN_WAITING,
        PG_CONN_CONNECTING,
        PG_CONN_GREETING,
        PG_CONN_READY,
};

/* An answer that the server owes us: of a statement, or of the sync that ends its transaction. */
struct expected {
        struct list link;
        bool is_sync;
        bool is_of_others;       /* both results of the statement go to on_failed, at the sync */
        pg_result_fn *on_result; /* NULL: the result is dropped */
        pg_result_fn *on_failed; /* NULL: it does not fail without the connection */
        void *owner;
};

struct pg_conn {
        const char *name;
        char instance[INSTANCE_SHORT_SIZE]; /* so that people know whose session it is */
        struct postgres_config config;      /* its strings are owned */
        struct pg_conn_events events;
        void *owner; /* borrowed */
        uv_loop_t *loop;

        enum pg_conn_state state;
        bool is_outdated; /* it connects with settings that are not in force any more */
        struct tls_default tls;
        PGconn *pq; /* owned; NULL while CLOSED or WAITING */
        struct socket_watch *watch;
        struct timer *timer;    /* the deadline of the state, or the end of the backoff */
        struct list expected;   /* expected::link, in the order the answers will come */
        struct list free_slots; /* expected::link, for reuse */
        PGresult *kept;         /* owned; of the first of them, to be told at its sync; or NULL */
        uint32_t n_failures;    /* since the last complete greeting */

        /* A failure found inside a call of the owner's; told from the loop, never inside the
         * call. */
        struct error failed_sending;
};

static const struct backoff reconnect_backoff = {.first_ms = 100, .factor = 2, .max_ms = 5000};
/* A refused login does not mend itself in a moment, and servers count them. */
static const struct backoff login_backoff = {.first_ms = 1000, .factor = 2, .max_ms = 5000};

static void on_socket_ready(void *owner, int events);

static const char *state_name(enum pg_conn_state state)
{
        static const char *const names[] = {"closed", "waiting", "connecting", "greeting", "ready"};
        return names[state];
}

static bool is_open(const struct pg_conn *conn)
{
        return conn->state == PG_CONN_GREETING || conn->state == PG_CONN_READY;
}

static void forget_expected(struct pg_conn *conn)
{
        list_for_each (link, &conn->expected) {
                list_remove(link);
                list_push_back(&conn->free_slots, link);
        }
}

static void unwatch_socket(struct pg_conn *conn)
{
        socket_watch_destroy(conn->watch);
        conn->watch = NULL;
}

static void drop_session(struct pg_conn *conn)
{
        PQclear(conn->kept);
        conn->kept = NULL;
        unwatch_socket(conn); /* before PQfinish() closes the socket */
        PQfinish(conn->pq);
        conn->pq = NULL;
        forget_expected(conn);
}

/* The only place that assigns conn->state. */
static void enter(struct pg_conn *conn, enum pg_conn_state next)
{
        log_debug("connection_state", kv_text("connection", conn->name),
            kv_text("from", state_name(conn->state)), kv_text("to", state_name(next)));
        conn->state = next;

        switch (next) {
        case PG_CONN_CLOSED:
        case PG_CONN_WAITING:
                timer_disarm(conn->timer);
                drop_session(conn);
                conn->failed_sending.kind = ERROR_NONE;
                break;
        case PG_CONN_CONNECTING:
                timer_arm(conn->timer, (uint64_t)conn->config.connect_timeout_ms);
                break;
        case PG_CONN_GREETING:
                timer_arm(conn->timer, (uint64_t)conn->config.query_timeout_ms);
                break;
        case PG_CONN_READY:
                conn->n_failures = 0;
                if (list_is_empty(&conn->expected))
                        timer_disarm(conn->timer);
                break;
        }
}

void pg_conn_fail(struct pg_conn *conn, const struct error *error)
{
        const struct error reason = *error; /* it may be our own, which the next attempt clears */
        int64_t retry_ms;

        if (conn->state == PG_CONN_CLOSED || conn->state == PG_CONN_WAITING)
                return;
        if (conn->state == PG_CONN_CONNECTING &&
            conn->is_outdated) { /* tells nothing of those in force */
                enter(conn, PG_CONN_WAITING);
                timer_arm(conn->timer, 0);
                return;
        }
        conn->n_failures++;
        retry_ms = backoff_ms(reason.kind == ERROR_LOGIN ? &login_backoff : &reconnect_backoff,
            conn->n_failures, random_u32());
        enter(conn, PG_CONN_WAITING);
        timer_arm(conn->timer, (uint64_t)retry_ms);
        conn->events.on_lost(conn->owner, &reason, retry_ms);
}

static void fail_with(struct pg_conn *conn, const char *doing, const char *words)
{
        struct error error;

        if (conn->state == PG_CONN_CONNECTING) {
                connect_words_set_error(&error, doing, words);
                tls_default_explain(&conn->tls, &error);
        } else {
                pg_error_set_error(&error, doing, words);
        }
        pg_conn_fail(conn, &error);
}

static bool has_failed_sending(const struct pg_conn *conn)
{
        return conn->failed_sending.kind != ERROR_NONE;
}

/* libpq may have closed its socket: a loop that still watched it would abort when next it waits. */
static void fail_later(struct pg_conn *conn)
{
        unwatch_socket(conn);
        pg_error_set_error(&conn->failed_sending, "cannot send", PQerrorMessage(conn->pq));
        timer_arm(conn->timer, 0);
}

static bool is_to_be_kept(const struct expected *first, const PGresult *result)
{
        const char *sqlstate = PQresultErrorField(result, PG_DIAG_SQLSTATE);

        if (first->is_of_others)
                return result_is_success(result) || sqlstate != NULL;
        return first->on_failed != NULL && !first->is_sync && sqlstate != NULL &&
               sqlstate_is_of_statement(sqlstate);
}

/* What was kept is told when the transaction has ended: only then is it known, as its commit may
 * fail, too; and what the receiver sends between an error and that end libpq would not report. */
static void tell_kept(struct pg_conn *conn, const struct expected *expected)
{
        PGresult *kept = conn->kept;

        conn->kept = NULL;
        if (kept != NULL)
                expected->on_failed(expected->owner, kept);
}

/* False: it is not one to keep. Of a statement's results the last is the one that counts. */
static bool keep(struct pg_conn *conn, struct expected *first, PGresult *result)
{
        if (!is_to_be_kept(first, result))
                return false;
        PQclear(conn->kept);
        conn->kept = result;
        if (result_ends_session(result)) /* no sync will come */
                tell_kept(conn, first);
        return true;
}

static bool watch_socket(struct pg_conn *conn, int events)
{
        if (conn->watch == NULL)
                conn->watch =
                    socket_watch_create(conn->loop, PQsocket(conn->pq), on_socket_ready, conn);
        if (conn->watch == NULL) {
                fail_with(conn, "cannot watch the socket", "refused by the event loop");
                return false;
        }
        socket_watch_set(conn->watch, events);
        return true;
}

static void start_connecting(struct pg_conn *conn)
{
        enter(conn, PG_CONN_CONNECTING);
        conn->is_outdated = false;
        conn->tls = tls_default_choose(conn->config.dsn);
        conn->pq = session_start(&conn->config, &conn->tls, conn->instance);
        if (conn->pq == NULL || PQstatus(conn->pq) == CONNECTION_BAD) {
                fail_with(conn, "cannot connect",
                    conn->pq != NULL ? PQerrorMessage(conn->pq) : "out of memory");
                return;
        }
        watch_socket(conn, SOCKET_WRITABLE);
}

static void become_connected(struct pg_conn *conn)
{
        if (!server_accepts_writes(conn->pq)) {
                fail_with(conn, "cannot use the connection", "session is read-only");
                return;
        }
        PQsetErrorVerbosity(conn->pq, PQERRORS_DEFAULT);
        if (PQsetnonblocking(conn->pq, 1) != 0 || PQenterPipelineMode(conn->pq) != 1) {
                fail_with(conn, "cannot use the connection", PQerrorMessage(conn->pq));
                return;
        }
        if (!watch_socket(conn, SOCKET_READABLE))
                return;
        enter(conn, PG_CONN_GREETING);
        conn->events.on_connected(conn->owner);
}

/* libpq may close its socket in here and open another (another host or address, TLS refused), even
 * one with the same number; libuv must never watch a socket that was closed under it. */
static void continue_connecting(struct pg_conn *conn)
{
        unwatch_socket(conn);
        switch (PQconnectPoll(conn->pq)) {
        case PGRES_POLLING_READING:
                watch_socket(conn, SOCKET_READABLE);
                return;
        case PGRES_POLLING_WRITING:
                watch_socket(conn, SOCKET_WRITABLE);
                return;
        case PGRES_POLLING_OK:
                become_connected(conn);
                return;
        case PGRES_POLLING_FAILED:
        case PGRES_POLLING_ACTIVE: /* never returned; kept by libpq for old programs */
                fail_with(conn, "cannot connect", PQerrorMessage(conn->pq));
                return;
        }
}

static void flush(struct pg_conn *conn)
{
        int left = PQflush(conn->pq);

        if (left < 0)
                fail_later(conn);
        else
                socket_watch_set(
                    conn->watch, left > 0 ? SOCKET_READABLE | SOCKET_WRITABLE : SOCKET_READABLE);
}

static void note_progress(struct pg_conn *conn)
{
        if (has_failed_sending(conn))
                return;
        if (list_is_empty(&conn->expected) && conn->state == PG_CONN_READY)
                timer_disarm(conn->timer);
        else
                timer_arm(conn->timer, (uint64_t)conn->config.query_timeout_ms);
}

static void pop_expected(struct pg_conn *conn)
{
        struct list *first = conn->expected.next;

        assert(!list_is_empty(&conn->expected));
        list_remove(first);
        list_push_front(&conn->free_slots, first);
}

/* False once the connection has been lost or closed, be it by the receiver of a result. */
static bool take_result(struct pg_conn *conn, PGresult *result)
{
        struct expected *first = list_owner(conn->expected.next, struct expected, link);
        struct expected ended = *first;
        struct error error;

        if (keep(conn, first, result))
                return is_open(conn);
        if (result_is_success(result) && first->on_result != NULL) {
                first->on_result(first->owner, result);
                return is_open(conn);
        }
        if (PQresultStatus(result) == PGRES_PIPELINE_SYNC) {
                pop_expected(conn);
                tell_kept(conn, &ended);
        } else if (!result_is_success(result)) {
                pg_error_set_refused(&error, result);
                pg_conn_fail(conn, &error);
        }
        PQclear(result);
        return is_open(conn);
}

/* Without memory for an answer libpq skips it, a sync too, and takes the next one for it. Its words
 * are the only sign; PQgetResult() clears them when it returns a sync. */
static bool has_skipped(
    const struct pg_conn *conn, bool awaits_sync, bool had_words, const PGresult *result)
{
        if (result == NULL)
                return false;
        if (PQresultStatus(result) == PGRES_PIPELINE_SYNC)
                return had_words || !awaits_sync;
        if (result_is_success(result))
                return awaits_sync;
        return awaits_sync && strcmp(PQerrorMessage(conn->pq), PQresultErrorMessage(result)) != 0;
}

/* Once sending has failed, libpq may say for ever that there is no more of a result. */
static void take_results(struct pg_conn *conn)
{
        bool progress = false;

        while (!has_failed_sending(conn) && !list_is_empty(&conn->expected)) {
                bool is_sync = list_owner(conn->expected.next, struct expected, link)->is_sync;
                bool is_busy = PQisBusy(conn->pq);
                bool had_words = *PQerrorMessage(conn->pq) != '\0';
                PGresult *result = is_busy ? NULL : PQgetResult(conn->pq);

                if (is_busy ? had_words : has_skipped(conn, is_sync, had_words, result)) {
                        PQclear(result);
                        fail_with(conn, "connection lost",
                            "libpq has skipped an answer, perhaps without memory for it");
                        return;
                }
                if (is_busy)
                        break;
                progress = true;
                if (result != NULL && !take_result(conn, result))
                        return;
                if (result == NULL && !is_sync) /* a sync's own is still to come */
                        pop_expected(conn);
        }
        if (progress)
                note_progress(conn);
}

static void take_notifications(struct pg_conn *conn)
{
        PGnotify *notification;

        while (is_open(conn) && (notification = PQnotifies(conn->pq)) != NULL) {
                if (conn->events.on_notification != NULL)
                        conn->events.on_notification(conn->owner, notification->relname);
                PQfreemem(notification);
        }
}

static void exchange(struct pg_conn *conn)
{
        if (PQconsumeInput(conn->pq) != 1) {
                fail_with(conn, "connection lost", PQerrorMessage(conn->pq));
                return;
        }
        take_results(conn);
        /* After the results: libpq finds what stands behind one only when that has been taken. */
        if (is_open(conn))
                take_notifications(conn);
        if (is_open(conn) && !has_failed_sending(conn))
                flush(conn);
}

static void on_socket_ready(void *owner, int events)
{
        struct pg_conn *conn = owner;

        (void)events; /* libpq finds out by itself what it can do */
        switch (conn->state) {
        case PG_CONN_CONNECTING:
                continue_connecting(conn);
                return;
        case PG_CONN_GREETING:
        case PG_CONN_READY:
                exchange(conn);
                return;
        case PG_CONN_CLOSED:
        case PG_CONN_WAITING:
                assert(!"a dead connection watches no socket");
        }
}

static void on_timer(void *owner)
{
        struct pg_conn *conn = owner;

        if (has_failed_sending(conn)) {
                pg_conn_fail(conn, &conn->failed_sending);
                return;
        }
        switch (conn->state) {
        case PG_CONN_WAITING:
                start_connecting(conn);
                return;
        case PG_CONN_CONNECTING:
                fail_with(conn, "cannot connect", "no answer within postgres.connect_timeout");
                return;
        case PG_CONN_GREETING:
        case PG_CONN_READY:
                fail_with(conn, "connection lost", "no answer within postgres.query_timeout");
                return;
        case PG_CONN_CLOSED:
                assert(!"a closed connection waits for nothing");
        }
}

struct pg_conn *pg_conn_create(uv_loop_t *loop, const char *name,
    const struct postgres_config *config, const struct pg_conn_events *events, void *owner)
{
        struct pg_conn *conn = xcalloc(1, sizeof *conn);

        conn->name = name;
        instance_name(conn->instance, sizeof conn->instance, "pgcourier ");
        postgres_config_copy(&conn->config, config);
        conn->events = *events;
        conn->owner = owner;
        conn->loop = loop;
        conn->timer = timer_create_on(loop, on_timer, conn);
        list_init(&conn->expected);
        list_init(&conn->free_slots);
        return conn;
}

void pg_conn_configure(struct pg_conn *conn, const struct postgres_config *config)
{
        postgres_config_copy(&conn->config, config);
        conn->is_outdated = conn->state == PG_CONN_CONNECTING;
        if (conn->state == PG_CONN_WAITING)
                timer_arm(conn->timer, 0);
}

void pg_conn_open(struct pg_conn *conn)
{
        assert(conn->state == PG_CONN_CLOSED);
        enter(conn, PG_CONN_WAITING);
        timer_arm(conn->timer, 0); /* what fails at once is told from the loop as well */
}

void pg_conn_close(struct pg_conn *conn)
{
        if (conn->state != PG_CONN_CLOSED)
                enter(conn, PG_CONN_CLOSED);
}

void pg_conn_destroy(struct pg_conn *conn)
{
        if (conn == NULL)
                return;
        pg_conn_close(conn);
        timer_destroy(conn->timer);
        list_for_each (link, &conn->free_slots)
                free(list_owner(link, struct expected, link));
        postgres_config_clear(&conn->config);
        free(conn);
}

void pg_conn_greeted(struct pg_conn *conn)
{
        assert(conn->state == PG_CONN_GREETING);
        enter(conn, PG_CONN_READY);
}

bool pg_conn_is_ready(const struct pg_conn *conn)
{
        return conn->state == PG_CONN_READY;
}

int pg_conn_backend_pid(const struct pg_conn *conn)
{
        return is_open(conn) ? PQbackendPID(conn->pq) : 0;
}

static void expect(struct pg_conn *conn, const struct expected *answer)
{
        struct expected *slot;

        if (list_is_empty(&conn->free_slots))
                slot = xcalloc(1, sizeof *slot);
        else {
                slot = list_owner(conn->free_slots.next, struct expected, link);
                list_remove(&slot->link);
        }
        if (list_is_empty(&conn->expected))
                timer_arm(conn->timer, (uint64_t)conn->config.query_timeout_ms);
        *slot = *answer;
        list_push_back(&conn->expected, &slot->link);
}

/* Each statement is a transaction of its own. */
static void end_statement(struct pg_conn *conn, int sent, const struct expected *answer)
{
        struct expected sync = *answer;

        sync.is_sync = true;
        if (sent != 1 || PQpipelineSync(conn->pq) != 1) {
                fail_later(conn);
                return;
        }
        expect(conn, answer);
        expect(conn, &sync);
        flush(conn);
}

static void prepare(
    struct pg_conn *conn, const struct pg_statement *statement, const struct expected *answer)
{
        if (is_open(conn) && !has_failed_sending(conn))
                end_statement(conn,
                    PQsendPrepare(
                        conn->pq, statement->name, statement->sql, statement->n_params, NULL),
                    answer);
}

void pg_conn_prepare(struct pg_conn *conn, const struct pg_statement *statement)
{
        prepare(conn, statement, &(struct expected){0});
}

static void execute(struct pg_conn *conn, const struct pg_statement *statement,
    const char *const *values, bool binary_result, const struct expected *answer)
{
        if (is_open(conn) && !has_failed_sending(conn))
                end_statement(conn,
                    PQsendQueryPrepared(conn->pq, statement->name, statement->n_params, values,
                        NULL, NULL, binary_result ? 1 : 0),
                    answer);
}

void pg_conn_try(struct pg_conn *conn, const struct pg_statement *statement,
    const char *const *values, bool binary_result, pg_result_fn *on_result, pg_result_fn *on_failed,
    void *owner)
{
        execute(conn, statement, values, binary_result,
            &(struct expected){.on_result = on_result, .on_failed = on_failed, .owner = owner});
}

void pg_conn_run(struct pg_conn *conn, const struct pg_statement *statement,
    const char *const *values, pg_result_fn *on_ended, void *owner)
{
        execute(conn, statement, values, false,
            &(struct expected){.is_of_others = true, .on_failed = on_ended, .owner = owner});
}

void pg_conn_prepare_run(
    struct pg_conn *conn, const struct pg_statement *statement, pg_result_fn *on_ended, void *owner)
{
        prepare(conn, statement,
            &(struct expected){.is_of_others = true, .on_failed = on_ended, .owner = owner});
}

void pg_conn_execute(struct pg_conn *conn, const struct pg_statement *statement,
    const char *const *values, bool binary_result, pg_result_fn *on_result, void *owner)
{
        pg_conn_try(conn, statement, values, binary_result, on_result, NULL, owner);
}

void pg_conn_ask(struct pg_conn *conn, const char *sql, pg_result_fn *on_result, void *owner)
{
        if (is_open(conn) && !has_failed_sending(conn))
                end_statement(conn, PQsendQueryParams(conn->pq, sql, 0, NULL, NULL, NULL, NULL, 0),
                    &(struct expected){.on_result = on_result, .owner = owner});
}
