#include "outbox/doorbell.h"

#include "base/alloc.h"
#include "base/log.h"
#include "outbox/pg_conn.h"

#include <stdlib.h>

struct doorbell {
        struct pg_conn *conn; /* owned */
        doorbell_rung_fn *on_rung;
        void *owner; /* borrowed */
};

static const struct pg_statement listen_statement = {.name = "listen", .sql = "LISTEN courier"};
static const struct pg_statement check_statement = {.name = "check", .sql = "SELECT"};

static void on_listening(void *owner, PGresult *result)
{
        struct doorbell *doorbell = owner;

        PQclear(result);
        pg_conn_prepare(doorbell->conn, &check_statement);
        pg_conn_greeted(doorbell->conn);
        log_info("listening");
        doorbell->on_rung(doorbell->owner);
}

static void on_connected(void *owner)
{
        struct doorbell *doorbell = owner;

        pg_conn_prepare(doorbell->conn, &listen_statement);
        pg_conn_execute(doorbell->conn, &listen_statement, NULL, false, on_listening, doorbell);
}

static void on_lost(void *owner, const struct error *error, int64_t retry_ms)
{
        (void)owner;
        log_warn(
            "listen_connection_lost", kv_text("error", error->text), kv_int("retry_ms", retry_ms));
}

static void on_notification(void *owner)
{
        struct doorbell *doorbell = owner;

        doorbell->on_rung(doorbell->owner);
}

struct doorbell *doorbell_create(
    uv_loop_t *loop, const struct postgres_config *config, doorbell_rung_fn *on_rung, void *owner)
{
        struct doorbell *doorbell = xcalloc(1, sizeof *doorbell);
        const struct pg_conn_events events = {
            .on_connected = on_connected, .on_lost = on_lost, .on_notification = on_notification};

        doorbell->on_rung = on_rung;
        doorbell->owner = owner;
        doorbell->conn = pg_conn_create(loop, "listen", config, &events, doorbell);
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
