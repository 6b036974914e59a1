#include "support/writers.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "support/postgres.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct writer {
        struct writers *all;
        unsigned number;
        unsigned seed;
        pthread_t thread;
        PGconn *connection;
        enum published *events; /* by number; owned */
        int64_t *committed_us;  /* by number; owned */
        unsigned n_events;
};

struct writers {
        const char *dsn; /* borrowed */
        struct writer_options options;
        atomic_bool is_stopping;
        atomic_uint n_running;
        atomic_uint pause_us;
        bool is_joined;
        struct writer each[];
};

/* False if the connection was lost. */
static bool execute(struct writer *writer, const char *sql)
{
        PGresult *result = PQexec(writer->connection, sql);
        ExecStatusType status = PQresultStatus(result);
        /* libpq's own failures have none; 57P…: an administrator intervened. */
        const char *state = PQresultErrorField(result, PG_DIAG_SQLSTATE);

        if (status != PGRES_COMMAND_OK && status != PGRES_TUPLES_OK && state != NULL &&
            strncmp(state, "57P", 3) != 0)
                test_abort("%.500s\nfailed: %s", sql, PQerrorMessage(writer->connection));
        PQclear(result);
        return status == PGRES_COMMAND_OK || status == PGRES_TUPLES_OK;
}

/* `fate` is theirs if the transaction commits. */
static bool publish(struct writer *writer, unsigned count, enum published fate)
{
        const struct writer_options *options = &writer->all->options;
        char sql[1024];

        snprintf(sql, sizeof sql,
            "INSERT INTO %s (%s) SELECT %s "
            "FROM (SELECT %u AS w) AS writer, generate_series(%u, %u) AS n ORDER BY n",
            options->n_tables > 0 ? options->tables[writer->number % options->n_tables]
                                  : "courier.outbox",
            options->columns != NULL ? options->columns : "topic, key, payload",
            options->event_sql != NULL ? options->event_sql
                                       : "'test.w', w::text, json_build_array(w, n)",
            writer->number, writer->n_events, writer->n_events + count - 1);
        writer->events =
            xrealloc(writer->events, (writer->n_events + count) * sizeof *writer->events);
        writer->committed_us = xrealloc(
            writer->committed_us, (writer->n_events + count) * sizeof *writer->committed_us);
        for (unsigned i = 0; i < count; i++) {
                writer->committed_us[writer->n_events] = 0;
                writer->events[writer->n_events++] = fate;
        }
        return execute(writer, sql);
}

static bool stay_open(struct writer *writer)
{
        unsigned long_ms = writer->all->options.long_ms;
        char sql[64];

        snprintf(
            sql, sizeof sql, "SELECT pg_sleep(random() * 0.001 * %u)", long_ms > 0 ? long_ms : 30);
        return execute(writer, sql);
}

static bool write_transaction(struct writer *writer, unsigned kind)
{
        if (!execute(writer, "BEGIN") ||
            !publish(writer, 1 + (unsigned)rand_r(&writer->seed) % 3, PUBLISHED))
                return false;

        switch (kind) {
        case 1: /* a savepoint that is rolled back: its rows have another xmin */
                return execute(writer, "SAVEPOINT s") && publish(writer, 2, PUBLISHED_NOT) &&
                       execute(writer, "ROLLBACK TO s") && publish(writer, 1, PUBLISHED);
        case 2: /* one that is kept */
                return execute(writer, "SAVEPOINT s") && publish(writer, 2, PUBLISHED) &&
                       execute(writer, "RELEASE s");
        case 3:
                return publish(writer, 60, PUBLISHED);
        case 0:
        case 4: /* others begin and commit meanwhile */
                return stay_open(writer);
        case 5: /* subtransactions that took their xids out of order */
                return execute(writer, "DO $$ BEGIN FOR i IN 1..5 LOOP BEGIN "
                                       "PERFORM pg_current_xact_id(); EXCEPTION WHEN others "
                                       "THEN NULL; END; END LOOP; END $$") &&
                       publish(writer, 3, PUBLISHED);
        default:
                return true;
        }
}

/* What was meant to be committed turned out otherwise. */
static void correct(struct writer *writer, unsigned first, enum published fate)
{
        for (unsigned n = first; n < writer->n_events; n++)
                if (writer->events[n] == PUBLISHED)
                        writer->events[n] = fate;
}

static void note_committed(struct writer *writer, unsigned first)
{
        int64_t now_us = clock_wall_us();

        for (unsigned n = first; n < writer->n_events; n++)
                writer->committed_us[n] = now_us;
}

/* False if the connection was lost. */
static bool run_transaction(struct writer *writer)
{
        unsigned first = writer->n_events;
        unsigned kind = (unsigned)rand_r(&writer->seed) % 10;

        if (!write_transaction(writer, kind)) {
                correct(writer, first, PUBLISHED_NOT);
                return false;
        }
        if (kind == 0) {
                correct(writer, first, PUBLISHED_NOT);
                return execute(writer, "ROLLBACK");
        }
        if (execute(writer, "COMMIT")) {
                note_committed(writer, first);
                return true;
        }
        correct(writer, first, PUBLISHED_IN_DOUBT);
        return false;
}

/* In slices, for the pause may be changed meanwhile. */
static void rest(const struct writers *all)
{
        int64_t began_us = clock_monotonic_us(), left_us;

        while (!atomic_load(&all->is_stopping) &&
               (left_us = began_us + atomic_load(&all->pause_us) - clock_monotonic_us()) > 0)
                usleep(left_us < 20000 ? (unsigned)left_us : 20000);
}

static void *run_writer(void *context)
{
        struct writer *writer = context;
        struct writers *all = writer->all;
        unsigned n_done = 0;
        bool is_connected = true;

        writer->connection = database_connect(all->dsn);
        while (!atomic_load(&all->is_stopping) &&
               (all->options.n_transactions == 0 || n_done < all->options.n_transactions)) {
                if (is_connected) {
                        is_connected = run_transaction(writer);
                        n_done++;
                } else { /* until the server is back */
                        PQreset(writer->connection);
                        is_connected = PQstatus(writer->connection) == CONNECTION_OK;
                }
                rest(all);
        }
        PQfinish(writer->connection);
        atomic_fetch_sub(&all->n_running, 1);
        return NULL;
}

struct writers *writers_start(const char *dsn, const struct writer_options *options)
{
        struct writers *writers =
            xcalloc(1, sizeof *writers + options->n_writers * sizeof writers->each[0]);

        writers->dsn = dsn;
        writers->options = *options;
        atomic_store(&writers->n_running, options->n_writers);
        atomic_store(&writers->pause_us, options->pause_us);
        for (unsigned w = 0; w < options->n_writers; w++) {
                struct writer *writer = &writers->each[w];
                *writer =
                    (struct writer){.all = writers, .number = w, .seed = options->seed * 1000 + w};
                if (pthread_create(&writer->thread, NULL, run_writer, writer) != 0)
                        test_abort("cannot start a thread for writer %u", w);
        }
        return writers;
}

bool writers_have_ended(void *writers_)
{
        struct writers *writers = writers_;

        return atomic_load(&writers->n_running) == 0;
}

void writers_set_pause(struct writers *writers, unsigned pause_us)
{
        atomic_store(&writers->pause_us, pause_us);
}

void writers_stop(struct writers *writers)
{
        if (writers->options.n_transactions == 0)
                atomic_store(&writers->is_stopping, true);
        for (unsigned w = 0; w < writers->options.n_writers && !writers->is_joined; w++)
                pthread_join(writers->each[w].thread, NULL);
        writers->is_joined = true;
}

unsigned writers_count(const struct writers *writers)
{
        return writers->options.n_writers;
}

unsigned writers_n_events(const struct writers *writers, unsigned writer)
{
        return writers->each[writer].n_events;
}

enum published writers_outcome(const struct writers *writers, unsigned writer, unsigned number)
{
        return writers->each[writer].events[number];
}

int64_t writers_committed_us(const struct writers *writers, unsigned writer, unsigned number)
{
        return writers->each[writer].committed_us[number];
}

void writers_destroy(struct writers *writers)
{
        if (writers == NULL)
                return;
        writers_stop(writers);
        for (unsigned w = 0; w < writers->options.n_writers; w++) {
                free(writers->each[w].events);
                free(writers->each[w].committed_us);
        }
        free(writers);
}
