#include "operator/operator_session.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "loop/timer.h"
#include "operator/operator_internal.h"
#include "operator/status_query.h"

#include <stdlib.h>
#include <string.h>

#define EVERY_MS   5000
#define AT_MOST_MS 1000 /* between the beginnings of two looks, however often somebody asks */

static const struct pg_statement prepare_session = {
    .name = "prepare_session", .sql = look_session_sql};
static const struct pg_statement look_statement = {
    .name = "look", .sql = status_query_sql, .n_params = 1};

static int64_t now_ms(void)
{
        return clock_monotonic_us() / 1000;
}

static void arm(struct watch *watch, int64_t gap_ms)
{
        int64_t left_ms = watch->asked_ms + gap_ms - now_ms();

        timer_arm(watch->next, left_ms > 0 ? (uint64_t)left_ms : 0);
}

static void take_look(struct watch *watch, const PGresult *result)
{
        json_t *look = json_loads(PQgetvalue(result, 0, 0), JSON_ALLOW_NUL, NULL);

        if (look == NULL) /* the server's own JSON */
                out_of_memory();
        json_decref(watch->look);
        watch->look = look;
        watch->looked_ms = now_ms();
        watch->failure.kind = ERROR_NONE;
}

static void on_looked(void *owner, PGresult *result)
{
        struct watch *watch = owner;

        take_look(watch, result);
        PQclear(result);
        if (!pg_conn_is_ready(watch->conn))
                pg_conn_greeted(watch->conn);
        watch->is_asking = false;
        arm(watch, watch->is_wanted ? AT_MOST_MS : EVERY_MS);
        watch->is_wanted = false;
        watch->events.on_look(watch->owner);
}

static void look(struct watch *watch)
{
        const char *const values[] = {watch->sinks};

        watch->is_asking = true;
        watch->asked_ms = now_ms();
        pg_conn_execute(watch->conn, &look_statement, values, false, on_looked, watch);
}

static void on_next(void *owner)
{
        struct watch *watch = owner;

        if (pg_conn_is_ready(watch->conn) && !watch->is_asking)
                look(watch);
}

/* The first look is part of the greeting: what cannot look is no session. */
static void on_connected(void *owner)
{
        struct watch *watch = owner;

        pg_conn_prepare(watch->conn, &prepare_session);
        pg_conn_execute(watch->conn, &prepare_session, NULL, false, NULL, NULL);
        pg_conn_prepare(watch->conn, &look_statement);
        watch_prepare_actions(watch);
        look(watch);
}

static void on_lost(void *owner, const struct error *error, int64_t retry_ms)
{
        struct watch *watch = owner;

        (void)retry_ms;
        watch->is_asking = false;
        watch->is_wanted = false;
        timer_disarm(watch->next);
        if (error->kind == ERROR_LOGIN && watch->events.on_login_refused != NULL &&
            watch->events.on_login_refused(watch->owner))
                return;
        watch->failure = *error;
        watch_fail_actions(watch, error->text);
        if (watch->events.on_no_look != NULL)
                watch->events.on_no_look(watch->owner);
}

void watch_set_sinks(struct watch *watch, const struct config *config)
{
        free(watch->sinks);
        watch->sinks = look_sinks(config);
        watch_ask(watch);
}

static void free_secret(char *text)
{
        if (text != NULL)
                explicit_bzero(text, strlen(text));
        free(text);
}

/* Copies of what is a text in them, which are kept. */
static struct postgres_config take_settings(
    struct watch *watch, const struct postgres_config *config)
{
        struct postgres_config postgres = *config;

        watch->dsn = postgres.dsn = postgres.dsn != NULL ? xstrdup(postgres.dsn) : NULL;
        watch->password = postgres.password =
            postgres.password != NULL ? xstrdup(postgres.password) : NULL;
        return postgres;
}

void watch_configure(struct watch *watch, const struct postgres_config *config)
{
        char *old_dsn = watch->dsn;
        char *old_password = watch->password;
        struct postgres_config postgres = take_settings(watch, config);

        pg_conn_configure(watch->conn, &postgres);
        free_secret(old_dsn);
        free_secret(old_password);
}

void watch_reopen(struct watch *watch, const struct config *config)
{
        struct error error;

        error_set(&error, ERROR_DATABASE, "the settings of the connection have changed");
        pg_conn_fail(watch->conn, &error); /* tells those who wait */
        pg_conn_close(watch->conn);
        watch_configure(watch, &config->postgres);
        pg_conn_open(watch->conn);
}

struct watch *watch_create(
    uv_loop_t *loop, const struct config *config, const struct watch_events *events, void *owner)
{
        static const struct pg_conn_events conn_events = {
            .on_connected = on_connected, .on_lost = on_lost};
        struct watch *watch = xcalloc(1, sizeof *watch);
        struct postgres_config postgres;

        watch->events = *events;
        watch->owner = owner;
        list_init(&watch->actions);
        postgres = take_settings(watch, &config->postgres);
        watch->sinks = look_sinks(config);
        watch->asked_ms = now_ms() - AT_MOST_MS;
        watch->next = timer_create_on(loop, on_next, watch);
        watch->tell = timer_create_on(loop, watch_tell_actions, watch);
        watch->conn = pg_conn_create(loop, "watch", &postgres, &conn_events, watch);
        error_set(&watch->failure, ERROR_DATABASE, "not connected to PostgreSQL yet");
        return watch;
}

void watch_open(struct watch *watch)
{
        pg_conn_open(watch->conn);
}

void watch_close(struct watch *watch)
{
        pg_conn_close(watch->conn);
        timer_disarm(watch->next);
        timer_disarm(watch->tell);
        watch->is_asking = false;
        watch_drop_actions(watch);
}

void watch_destroy(struct watch *watch)
{
        if (watch == NULL)
                return;
        watch_close(watch);
        pg_conn_destroy(watch->conn);
        timer_destroy(watch->next);
        timer_destroy(watch->tell);
        json_decref(watch->look);
        free_secret(watch->password);
        free_secret(watch->dsn);
        free(watch->sinks);
        free(watch);
}

const json_t *watch_look(const struct watch *watch)
{
        return watch->look;
}

int64_t watch_age_ms(const struct watch *watch)
{
        return watch->look != NULL ? now_ms() - watch->looked_ms : -1;
}

const char *watch_failure(const struct watch *watch)
{
        return watch->failure.kind != ERROR_NONE ? watch->failure.text : NULL;
}

void watch_ask(struct watch *watch)
{
        if (watch->is_asking)
                watch->is_wanted = true;
        else if (pg_conn_is_ready(watch->conn))
                arm(watch, AT_MOST_MS);
}
