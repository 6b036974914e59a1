#include "outbox/marker.h"

#include "base/alloc.h"
#include "base/backoff.h"
#include "base/clock.h"
#include "base/crash_point.h"
#include "loop/timer.h"
#include "outbox/session.h"
#include "pg/pg_conn.h"
#include "pg/pg_error.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

/* A trigger of the application's that takes longer is cut off; courier.mark() gives that table
 * fewer rows then. */
#define STATEMENT_TIMEOUT_MS 10000

/* After calls that took too long as a whole the next asks for half as many. */
#define MAX_HALVED 10

static const struct backoff failed_backoff = {.first_ms = 500, .factor = 2, .max_ms = 30000};

/*
 * Before each call, because a trigger of the application's may have changed them in the one before.
 * synchronous_commit: cursor, marks and what was put off stand in one commit record, and behind the
 * settles that they rest on, so that a crash of the server takes back all of it or none. The rest
 * is as for the `work` session (outbox/outbox.c).
 */
static const struct pg_statement settings_statement = {
    .name = "settings", .n_params = 2, .sql = SESSION_SETTINGS};

enum column { IS_WANTED, MARKED, FAILED, DEAD, MORE, NEXT_DUE_MS, TROUBLED, ERROR };

static const struct pg_statement mark_statement = {.name = "mark",
    .n_params = 1,
    .sql = "SELECT is_wanted, marked, failed, dead, more, next_due_ms, troubled, error"
           " FROM courier.mark($1::integer)"};

enum marker_state { MARKER_OFF, MARKER_CONNECTING, MARKER_RESTING, MARKER_ASKING };

struct marker {
        struct pg_conn *conn; /* owned; closed while OFF */
        struct timer *look;   /* owned; armed at most while RESTING */
        struct marks_config config;
        struct postgres_config postgres; /* its strings are borrowed */
        uv_loop_t *loop;
        struct marker_events events;
        void *owner; /* borrowed */
        enum marker_state state;
        uint64_t look_ms;  /* loop time for which the timer is armed */
        bool has_settled;  /* while a call was under way, or no session was there */
        bool is_draining;  /* no call follows but those that there is something to do for */
        bool is_at_rest;   /* for good */
        uint32_t n_failed; /* calls in a row that failed as a whole */
        unsigned n_halved;
};

static void ask(struct marker *marker);

static void rest_for_good(struct marker *marker)
{
        if (marker->is_at_rest)
                return;
        marker->is_at_rest = true;
        timer_disarm(marker->look);
        marker->events.on_rest(marker->owner);
}

/* The only place that assigns it. */
static void enter(struct marker *marker, enum marker_state next)
{
        marker->state = next;
        if (next != MARKER_RESTING)
                timer_disarm(marker->look);
        if (next == MARKER_OFF)
                pg_conn_close(marker->conn);
}

/* No later than so. */
static void look_in(struct marker *marker, int64_t delay_ms)
{
        uint64_t at_ms = uv_now(marker->loop) + (uint64_t)delay_ms;

        if (timer_is_armed(marker->look) && marker->look_ms <= at_ms)
                return;
        marker->look_ms = at_ms;
        timer_arm(marker->look, (uint64_t)delay_ms);
}

/* There may be rows to mark; after a failure they wait until its delay is over. */
static void look_soon(struct marker *marker)
{
        if (marker->n_failed == 0)
                look_in(marker, marker->config.interval_ms);
}

static void on_look(void *owner)
{
        ask(owner);
}

static void rest(struct marker *marker, int64_t due_ms)
{
        enter(marker, MARKER_RESTING);
        if (marker->is_draining) {
                if (marker->has_settled)
                        ask(marker);
                else
                        rest_for_good(marker);
                return;
        }
        if (due_ms >= 0)
                look_in(marker, due_ms);
        if (marker->has_settled)
                look_soon(marker);
}

static uint64_t number(const PGresult *result, enum column column)
{
        return strtoull(PQgetvalue(result, 0, column), NULL, 10);
}

static bool is_true(const PGresult *result, enum column column)
{
        return PQgetvalue(result, 0, column)[0] == 't';
}

static void on_marked(void *owner, PGresult *result)
{
        struct marker *marker = owner;
        const struct marks_report report = {.n_marked = number(result, MARKED),
            .n_failed = number(result, FAILED),
            .n_dead = number(result, DEAD),
            .n_troubled = (unsigned)number(result, TROUBLED),
            .error = PQgetisnull(result, 0, ERROR) ? NULL : PQgetvalue(result, 0, ERROR)};
        bool is_wanted = is_true(result, IS_WANTED), more = is_true(result, MORE);
        int64_t due_ms =
            PQgetisnull(result, 0, NEXT_DUE_MS) ? -1 : (int64_t)number(result, NEXT_DUE_MS);

        crash_point("after_mark");
        marker->n_failed = 0;
        if (marker->n_halved > 0)
                marker->n_halved--;
        marker->events.on_report(marker->owner, &report);
        PQclear(result);
        if (marker->state != MARKER_ASKING) /* its receiver may have ended it */
                return;
        if (!is_wanted) {
                enter(marker, MARKER_OFF);
                if (marker->is_draining)
                        rest_for_good(marker);
        } else if (more) {
                ask(marker);
        } else {
                rest(marker, due_ms);
        }
}

/* As a whole: what the call met was not an attachment's fault. */
static void on_mark_failed(void *owner, PGresult *result)
{
        struct marker *marker = owner;
        struct error error;
        int64_t retry_ms;

        pg_error_set_refused(&error, result);
        PQclear(result);
        if (marker->n_halved < MAX_HALVED)
                marker->n_halved++;
        marker->n_failed++;
        retry_ms = backoff_ms(&failed_backoff, marker->n_failed, random_u32());
        marker->events.on_failed(marker->owner, &error, retry_ms);
        if (marker->state == MARKER_ASKING)
                rest(marker, retry_ms);
}

static void ask(struct marker *marker)
{
        int64_t statement_ms = marker->postgres.query_timeout_ms * 2 / 3;
        char timeout[24], lock_timeout[24], batch[16];

        if (statement_ms > STATEMENT_TIMEOUT_MS)
                statement_ms = STATEMENT_TIMEOUT_MS;
        snprintf(timeout, sizeof timeout, "%" PRId64, statement_ms);
        snprintf(lock_timeout, sizeof lock_timeout, "%" PRId64, marker->config.lock_timeout_ms);
        snprintf(
            batch, sizeof batch, "%" PRIu32, ((marker->config.batch - 1) >> marker->n_halved) + 1);
        enter(marker, MARKER_ASKING);
        marker->has_settled = false;
        crash_point("before_mark");
        pg_conn_execute(marker->conn, &settings_statement,
            (const char *const[]){timeout, lock_timeout}, false, NULL, NULL);
        pg_conn_try(marker->conn, &mark_statement, (const char *const[]){batch}, false, on_marked,
            on_mark_failed, marker);
        crash_point("after_mark_sent");
}

static void on_connected(void *owner)
{
        struct marker *marker = owner;

        pg_conn_prepare(marker->conn, &settings_statement);
        pg_conn_prepare(marker->conn, &mark_statement);
        pg_conn_greeted(marker->conn);
        ask(marker);
}

static void on_lost(void *owner, const struct error *error, int64_t retry_ms)
{
        struct marker *marker = owner;

        enter(marker, MARKER_CONNECTING);
        marker->events.on_failed(marker->owner, error, retry_ms);
        if (marker->is_draining)
                marker_give_up(marker);
}

struct marker *marker_create(
    uv_loop_t *loop, const struct config *config, const struct marker_events *events, void *owner)
{
        static const struct pg_conn_events conn_events = {
            .on_connected = on_connected, .on_lost = on_lost};
        struct marker *marker = xcalloc(1, sizeof *marker);

        marker->loop = loop;
        marker->events = *events;
        marker->owner = owner;
        marker->config = config->marks;
        marker->postgres = config->postgres;
        marker->look = timer_create_on(loop, on_look, marker);
        marker->conn = pg_conn_create(loop, "marks", &config->postgres, &conn_events, marker);
        return marker;
}

void marker_destroy(struct marker *marker)
{
        if (marker == NULL)
                return;
        pg_conn_destroy(marker->conn);
        timer_destroy(marker->look);
        free(marker);
}

void marker_configure(
    struct marker *marker, const struct marks_config *marks, const struct postgres_config *postgres)
{
        marker->config = *marks;
        marker->postgres = *postgres;
        pg_conn_configure(marker->conn, postgres);
        if (!marks->is_enabled)
                enter(marker, MARKER_OFF);
}

void marker_reopen(struct marker *marker)
{
        if (marker->state == MARKER_OFF)
                return;
        pg_conn_close(marker->conn);
        enter(marker, MARKER_CONNECTING);
        pg_conn_open(marker->conn);
}

void marker_want(struct marker *marker, bool has_marks)
{
        if (marker->is_draining || !marker->config.is_enabled)
                return;
        if (!has_marks) {
                enter(marker, MARKER_OFF);
                return;
        }
        switch (marker->state) {
        case MARKER_OFF:
                enter(marker, MARKER_CONNECTING);
                pg_conn_open(marker->conn);
                break;
        case MARKER_RESTING:
                look_soon(marker);
                break;
        case MARKER_CONNECTING:
        case MARKER_ASKING:
                break;
        }
}

void marker_settled(struct marker *marker)
{
        marker->has_settled = true;
        if (marker->state == MARKER_RESTING && !marker->is_draining)
                look_soon(marker);
}

void marker_drain(struct marker *marker)
{
        if (marker->is_draining)
                return;
        marker->is_draining = true;
        switch (marker->state) {
        case MARKER_OFF:
                marker->is_at_rest = true;
                break;
        case MARKER_RESTING:
                ask(marker);
                break;
        case MARKER_ASKING: /* it may have looked before the last settle */
                marker->has_settled = true;
                break;
        case MARKER_CONNECTING:
                break;
        }
}

void marker_give_up(struct marker *marker)
{
        marker->is_draining = true;
        enter(marker, MARKER_OFF);
        rest_for_good(marker);
}

bool marker_is_at_rest(const struct marker *marker)
{
        return marker->is_at_rest;
}
