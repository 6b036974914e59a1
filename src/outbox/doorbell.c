#include "outbox/doorbell.h"

#include "base/alloc.h"
#include "outbox/pg_conn.h"

#include <stdlib.h>
#include <string.h>

struct doorbell {
        struct pg_conn *conn; /* owned */
        struct doorbell_events events;
        void *owner; /* borrowed */
};

/* The schema's two channels. */
#define NEWS    "courier"
#define CONTROL "courier_control"

static const struct pg_statement listen_news = {.name = "listen_news", .sql = "LISTEN " NEWS};
static const struct pg_statement listen_control = {
    .name = "listen_control", .sql = "LISTEN " CONTROL};
static const struct pg_statement check_statement = {.name = "check", .sql = "SELECT"};

static void tell_control(struct doorbell *doorbell)
{
        if (doorbell->events.on_control != NULL)
                doorbell->events.on_control(doorbell->owner);
}

static void on_listening(void *owner, PGresult *result)
{
        struct doorbell *doorbell = owner;

        PQclear(result);
        pg_conn_prepare(doorbell->conn, &check_statement);
        pg_conn_greeted(doorbell->conn);
        doorbell->events.on_connected(doorbell->owner);
        doorbell->events.on_rung(doorbell->owner);
        tell_control(doorbell);
}

static void on_connected(void *owner)
{
        struct doorbell *doorbell = owner;

        pg_conn_prepare(doorbell->conn, &listen_news);
        pg_conn_prepare(doorbell->conn, &listen_control);
        pg_conn_execute(doorbell->conn, &listen_news, NULL, false, NULL, NULL);
        pg_conn_execute(doorbell->conn, &listen_control, NULL, false, on_listening, doorbell);
}

static void on_lost(void *owner, const struct error *error, int64_t retry_ms)
{
        struct doorbell *doorbell = owner;

        doorbell->events.on_lost(doorbell->owner, error, retry_ms);
}

static void on_notification(void *owner, const char *channel)
{
        struct doorbell *doorbell = owner;

        if (strcmp(channel, NEWS) == 0)
                doorbell->events.on_rung(doorbell->owner);
        else
                tell_control(doorbell);
}

struct doorbell *doorbell_create(uv_loop_t *loop, const struct postgres_config *config,
    const struct doorbell_events *events, void *owner)
{
        struct doorbell *doorbell = xcalloc(1, sizeof *doorbell);
        const struct pg_conn_events conn_events = {
            .on_connected = on_connected, .on_lost = on_lost, .on_notification = on_notification};

        doorbell->events = *events;
        doorbell->owner = owner;
        doorbell->conn = pg_conn_create(loop, "listen", config, &conn_events, doorbell);
        return doorbell;
}

void doorbell_open(struct doorbell *doorbell)
{
        pg_conn_open(doorbell->conn);
}

void doorbell_destroy(struct doorbell *doorbell)
{
        if (doorbell == NULL)
                return;
        pg_conn_destroy(doorbell->conn);
        free(doorbell);
}

void doorbell_check(struct doorbell *doorbell)
{
        if (pg_conn_is_ready(doorbell->conn))
                pg_conn_execute(doorbell->conn, &check_statement, NULL, false, NULL, NULL);
}
