#include "failures_rig.h"

#include "base/alloc.h"
#include "base/bytes.h"

#include <stdio.h>
#include <stdlib.h>

void failures_rig_start(struct failures_rig *rig)
{
        char *owner_dsn = postgres_new_database(postgres_shared());

        rig->owner = database_connect(owner_dsn);
        rig->dsn = dsn_as_user(owner_dsn, "relay");
        free(owner_dsn);
}

void failures_rig_stop(struct failures_rig *rig)
{
        PQfinish(rig->owner);
        free(rig->dsn);
}

static void change_last(
    struct failures_rig *rig, const char *table, const char *counter, const char *set)
{
        char *sql;

        if (set == NULL)
                return;
        sql = xasprintf("UPDATE courier.%s SET %s WHERE %s = (SELECT max(%s) FROM courier.%s)",
            table, set, counter, counter, table);
        database_exec(rig->owner, sql);
        free(sql);
}

void insert_dead_letter(struct failures_rig *rig, const char *set)
{
        database_exec(rig->owner,
            "INSERT INTO courier.dead_letter"
            " (sink, lane, outbox_id, reason, attempts, error, event_id, topic, payload, "
            "created_at)"
            "SELECT 'mail', 0, coalesce(max(id), 0) + 1, 'rejected', 1, 'no', gen_random_uuid(),"
            " 't', '{}', now() FROM courier.dead_letter");
        change_last(rig, "dead_letter", "id", set);
}

void insert_parked(struct failures_rig *rig, const char *set)
{
        database_exec(rig->owner,
            "INSERT INTO courier.parked"
            " (sink, lane, outbox_id, state, due_at, event_id, topic, payload, created_at)"
            "SELECT 'mail', 0, coalesce(max(outbox_id), 0) + 1, 'retry', now() + interval '1 hour',"
            " gen_random_uuid(), 't', '{}', now() FROM courier.parked");
        change_last(rig, "parked", "position", set);
}

void insert_receiver(struct failures_rig *rig, int id, const char *sink, const char *name)
{
        char *sql = xasprintf("INSERT INTO courier.receiver (id, sink, name, url)"
                              " OVERRIDING SYSTEM VALUE VALUES (%d, '%s', '%s', 'https://x/')",
            id, sink, name);

        database_exec(rig->owner, sql);
        free(sql);
}

struct expected_waiters {
        PGconn *owner;
        int n;
};

static bool are_locked_out(void *context)
{
        const struct expected_waiters *expected = context;

        return database_integer(expected->owner,
                   "SELECT count(*) FROM pg_stat_activity"
                   " WHERE usename = 'relay' AND datname = current_database()"
                   "   AND wait_event_type = 'Lock'") == expected->n;
}

void wait_until_locked_out(struct failures_rig *rig, int n)
{
        struct expected_waiters expected = {rig->owner, n};

        wait_until(are_locked_out, &expected, 60000, "the commands wait for a lock");
}

PGconn *listen_to_control(struct failures_rig *rig)
{
        PGconn *listener = database_connect(rig->dsn);

        database_exec(listener, "LISTEN courier_control");
        return listener;
}

/* A statement of the listener brings along all that was sent before. */
int count_notifications(PGconn *listener)
{
        PGnotify *notification;
        int n = 0;

        database_exec(listener, "SELECT 1");
        while ((notification = PQnotifies(listener)) != NULL) {
                PQfreemem(notification);
                n++;
        }
        return n;
}

json_t *read_json_lines(struct program_run run)
{
        json_t *lines = json_array();
        char *at = run.out;

        cr_assert_eq(run.code, 0, "exit code %d: %s", run.code, run.err);
        while (*at != '\0') {
                size_t length = strcspn(at, "\n");
                json_error_t error;
                json_t *line = json_loadb(at, length, JSON_REJECT_DUPLICATES, &error);
                cr_assert_not_null(line, "%s: %.*s", error.text, (int)length, at);
                json_array_append_new(lines, line);
                at += length;
                cr_assert_eq(*at, '\n', "the last line has no end");
                at++;
        }
        program_run_free(&run);
        return lines;
}

char *join_integers(json_t *lines, const char *member)
{
        struct bytes text = {0};
        size_t i;
        json_t *line;

        bytes_append_text(&text, "");
        json_array_foreach(lines, i, line) bytes_printf(&text, "%s%" JSON_INTEGER_FORMAT,
            i > 0 ? " " : "", json_integer_value(json_object_get(line, member)));
        json_decref(lines);
        return text.data;
}
