/*
 * The floor of the latency: what LISTEN, SELECT and XADD take, and nothing else.
 *
 *   floor DSN TABLE CHANNEL REDIS_SOCKET FILE
 *
 * Waits for notifications on CHANNEL, selects the rows of TABLE (columns: event.h; floor.sql makes
 * one, `baseline.floor`, that rings the channel `floor`) with an id above the last one, adds them
 * all to their streams and waits for the replies. Says "ready" on standard output once it listens;
 * rows that are there before are none of its business. On SIGTERM it writes FILE, a line for each
 * event: EVENT_ID ACK_US, the wall clock when its reply had been read.
 *
 * As lean as it can be, because it promises nothing: no delivered event is noted anywhere, and an
 * id is no cursor as soon as two transactions are under way at a time (the larger id may commit
 * first; such an event is never sent). So it is for one publisher.
 */
#define _GNU_SOURCE /* ppoll() */
#include "database.h"
#include "event.h"
#include "redis.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

struct acknowledged {
        char event_id[36];
        int64_t at_us;
};

static struct acknowledged *all;
static size_t n_all, capacity;
static volatile sig_atomic_t is_over;

static void on_signal(int number)
{
        (void)number;
        is_over = 1;
}

static int64_t wall_us(void)
{
        struct timespec now;

        clock_gettime(CLOCK_REALTIME, &now);
        return now.tv_sec * INT64_C(1000000) + now.tv_nsec / 1000;
}

static void note(const struct event *event)
{
        if (n_all == capacity) {
                capacity = 2 * capacity + 65536;
                all = realloc(all, capacity * sizeof *all);
                if (all == NULL)
                        die("realloc", "no memory");
        }
        all[n_all].at_us = wall_us();
        memcpy(all[n_all++].event_id, event->event_id, sizeof event->event_id);
}

static void write_notes(const char *path)
{
        FILE *file = fopen(path, "w");

        if (file == NULL)
                die(path, strerror(errno));
        for (size_t i = 0; i < n_all; i++)
                fprintf(file, "%.36s %lld\n", all[i].event_id, (long long)all[i].at_us);
        if (fclose(file) != 0)
                die(path, strerror(errno));
}

static int64_t newest_id(PGconn *db, const char *table)
{
        char sql[256];
        PGresult *result;
        int64_t id;

        snprintf(sql, sizeof sql, "SELECT coalesce(max(id), 0)::text FROM %s", table);
        db_prepare(db, "newest", sql);
        db_send(db, "newest", 0, NULL);
        db_sync(db);
        result = db_result(db);
        id = strtoll(PQgetvalue(result, 0, 0), NULL, 10);
        PQclear(result);
        db_synced(db);
        return id;
}

/* Until a notification is there; false: we are to end. The signal comes only while we wait. */
static int await_bell(PGconn *db, const sigset_t *mask)
{
        struct pollfd socket = {.fd = PQsocket(db), .events = POLLIN};
        PGnotify *notify;
        int n_heard = 0;

        for (;;) {
                while ((notify = PQnotifies(db)) != NULL) {
                        PQfreemem(notify);
                        n_heard++;
                }
                if (n_heard > 0)
                        return 1;
                if (ppoll(&socket, 1, NULL, mask) < 0 && errno != EINTR)
                        die("poll", strerror(errno));
                if (is_over)
                        return 0;
                if (PQconsumeInput(db) != 1)
                        die("PostgreSQL", PQerrorMessage(db));
        }
}

static int64_t carry(PGconn *db, struct redis *redis, int64_t last_id)
{
        char last[24];
        const char *values[] = {last};
        struct event event;
        PGresult *rows;

        snprintf(last, sizeof last, "%lld", (long long)last_id);
        db_send(db, "new", 1, values);
        db_sync(db);
        rows = db_result(db);
        for (int row = 0; row < PQntuples(rows); row++) {
                event_read(&event, rows, row);
                redis_add(redis, &event);
        }
        redis_send(redis);
        for (int row = 0; row < PQntuples(rows); row++) {
                event_read(&event, rows, row);
                redis_await_reply(redis);
                note(&event);
                last_id = event.id;
        }
        PQclear(rows);
        db_synced(db);
        return last_id;
}

int main(int n_args, char **args)
{
        struct sigaction action = {.sa_handler = on_signal};
        sigset_t term, before;
        struct redis *redis;
        PGconn *db;
        int64_t last_id;
        char sql[512];

        if (n_args != 6)
                die("usage", "floor DSN TABLE CHANNEL REDIS_SOCKET FILE");
        sigaction(SIGTERM, &action, NULL);
        sigemptyset(&term);
        sigaddset(&term, SIGTERM);
        sigprocmask(SIG_BLOCK, &term, &before);

        db = db_connect(args[1]);
        redis = redis_connect(args[4]);
        snprintf(sql, sizeof sql, "LISTEN \"%s\"", args[3]);
        db_run(db, sql);
        snprintf(sql, sizeof sql,
            "SELECT id, event_id, topic, key, type, payload, headers, created_at"
            " FROM %s WHERE id > $1::bigint ORDER BY id",
            args[2]);
        db_prepare(db, "new", sql);
        last_id = newest_id(db, args[2]);
        puts("ready");
        fflush(stdout);

        while (await_bell(db, &before))
                last_id = carry(db, redis, last_id);
        write_notes(args[5]);
        PQfinish(db);
        return 0;
}
