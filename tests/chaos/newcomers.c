#include "chaos/newcomers.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "chaos/events.h"
#include "chaos/plan.h"
#include "support/postgres.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MAX_ALIVE = 6, EVENTS_AT_ONCE = 500, MOST_EVENTS = 500000 };

#define PAUSE_US (150 * 1000)

/* In the order in which they are published. */
enum {
        BEFORE_TRANSACTION,
        BEFORE_INSERT,
        BEFORE_INSERT_TOO,
        AFTER_INSERT,
        AFTER_INSERT_TOO,
        AFTER_TRANSACTION
};

struct newcomer {
        enum published fates[EVENTS_OF_NEWCOMER];
        bool is_gone, has_published_before; /* before it was inserted, in that transaction */
};

struct newcomers {
        const char *dsn;
        uint16_t port;
        struct arrivals *arrivals;
        pthread_t thread;
        atomic_bool is_over, is_nobody;
        bool is_joined;
        PGconn *admin;
        uint64_t random;
        struct newcomer *each; /* owned */
        unsigned n, n_late;
};

/* False if the connection was lost. */
static bool execute(struct newcomers *newcomers, const char *sql)
{
        PGresult *result = PQexec(newcomers->admin, sql);
        ExecStatusType status = PQresultStatus(result);
        const char *state = PQresultErrorField(result, PG_DIAG_SQLSTATE);
        bool is_done = status == PGRES_COMMAND_OK || status == PGRES_TUPLES_OK;

        if (!is_done && state != NULL && strncmp(state, "57P", 3) != 0)
                test_abort("%.500s\nfailed: %s", sql, PQerrorMessage(newcomers->admin));
        PQclear(result);
        return is_done;
}

static bool publish(struct newcomers *newcomers, unsigned generation, unsigned number)
{
        char sql[256];

        snprintf(sql, sizeof sql,
            "INSERT INTO courier.outbox (topic, key, payload) VALUES ('fresh.g%u', 'fresh%u',"
            " json_build_object('subject', '%u %u'))",
            generation, generation, generation, number);
        return execute(newcomers, sql);
}

static bool insert(struct newcomers *newcomers, unsigned generation)
{
        char sql[256];

        snprintf(sql, sizeof sql,
            "INSERT INTO courier.receiver (sink, name, url, topics) VALUES ('many', 'fresh-%u',"
            " 'http://127.0.0.1:%u/fresh-%u', '{fresh.g%u}')",
            generation, newcomers->port, generation, generation);
        return execute(newcomers, sql);
}

static void set_fates(struct newcomer *newcomer, enum published fate)
{
        if (newcomer->has_published_before)
                newcomer->fates[BEFORE_INSERT] = newcomer->fates[BEFORE_INSERT_TOO] = fate;
        newcomer->fates[AFTER_INSERT] = newcomer->fates[AFTER_INSERT_TOO] = fate;
}

/* Neighbours commit meanwhile. */
static bool wait_within(struct newcomers *newcomers, unsigned max_ms)
{
        char sql[64];

        snprintf(sql, sizeof sql, "SELECT pg_sleep(0.001 * %u)",
            chaos_random(&newcomers->random) % max_ms);
        return execute(newcomers, sql);
}

/* All but COMMIT. */
static bool join_within(struct newcomers *newcomers, unsigned generation)
{
        unsigned kind = chaos_random(&newcomers->random) % 4;

        newcomers->each[generation].has_published_before = kind >= 2;
        return execute(newcomers, "BEGIN") &&
               (kind == 0 || execute(newcomers, "SELECT pg_current_xact_id()")) &&
               (kind < 2 || publish(newcomers, generation, BEFORE_INSERT)) &&
               wait_within(newcomers, 250) &&
               (kind < 2 || publish(newcomers, generation, BEFORE_INSERT_TOO)) &&
               (kind < 3 || execute(newcomers, "SAVEPOINT s")) && insert(newcomers, generation) &&
               publish(newcomers, generation, AFTER_INSERT) &&
               (kind < 3 || execute(newcomers, "RELEASE s")) && wait_within(newcomers, 100) &&
               publish(newcomers, generation, AFTER_INSERT_TOO);
}

/* As many transactions with events as an application has in hours, until relays come back. */
static void be_late(struct newcomers *newcomers)
{
        char sql[64];

        newcomers->n_late++;
        snprintf(sql, sizeof sql, "CALL public.pass_hours(%d)", EVENTS_AT_ONCE);
        if (!execute(newcomers, "SET synchronous_commit = off"))
                return;
        for (int n = 0; n < MOST_EVENTS && newcomers->is_nobody; n += EVENTS_AT_ONCE)
                if (!execute(newcomers, sql))
                        return;
        execute(newcomers, "RESET synchronous_commit");
}

static bool join(struct newcomers *newcomers)
{
        unsigned generation = newcomers->n++;
        bool is_late = newcomers->is_nobody;
        struct newcomer *newcomer;

        newcomers->each = xrealloc(newcomers->each, newcomers->n * sizeof *newcomers->each);
        newcomer = &newcomers->each[generation];
        *newcomer = (struct newcomer){.is_gone = true};
        if (!publish(newcomers, generation, BEFORE_TRANSACTION) ||
            !join_within(newcomers, generation))
                return false;
        newcomer->is_gone = false;
        set_fates(newcomer, PUBLISHED_IN_DOUBT);
        if (!execute(newcomers, "COMMIT"))
                return false;
        set_fates(newcomer, PUBLISHED);
        if (is_late)
                be_late(newcomers);
        newcomer->fates[AFTER_TRANSACTION] = PUBLISHED_IN_DOUBT;
        if (!publish(newcomers, generation, AFTER_TRANSACTION))
                return false;
        newcomer->fates[AFTER_TRANSACTION] = PUBLISHED;
        return true;
}

/* Of those in doubt nothing is awaited. */
static bool has_got_all(struct newcomers *newcomers, unsigned generation)
{
        bool has_got[EVENTS_OF_NEWCOMER] = {false};
        struct arrivals *arrivals = newcomers->arrivals;

        pthread_mutex_lock(&arrivals->lock);
        for (size_t i = 0; i < arrivals->n; i++)
                if (arrivals->each[i].writer == generation &&
                    arrivals->each[i].number < EVENTS_OF_NEWCOMER)
                        has_got[arrivals->each[i].number] = true;
        pthread_mutex_unlock(&arrivals->lock);
        for (int i = 0; i < EVENTS_OF_NEWCOMER; i++)
                if (newcomers->each[generation].fates[i] == PUBLISHED && !has_got[i])
                        return false;
        return true;
}

static bool remove_those_that_are_done(struct newcomers *newcomers, unsigned *n_alive)
{
        char sql[80];

        *n_alive = 0;
        for (unsigned generation = 0; generation < newcomers->n; generation++) {
                if (newcomers->each[generation].is_gone)
                        continue;
                if (!has_got_all(newcomers, generation)) {
                        ++*n_alive;
                        continue;
                }
                snprintf(sql, sizeof sql, "DELETE FROM courier.receiver WHERE name = 'fresh-%u'",
                    generation);
                if (!execute(newcomers, sql))
                        return false;
                newcomers->each[generation].is_gone = true;
        }
        return true;
}

static void *come_and_go(void *argument)
{
        struct newcomers *newcomers = argument;
        unsigned n_alive = 0;

        while (!newcomers->is_over) {
                bool is_connected = PQstatus(newcomers->admin) == CONNECTION_OK &&
                                    remove_those_that_are_done(newcomers, &n_alive);
                if (is_connected && (n_alive < MAX_ALIVE || newcomers->is_nobody))
                        is_connected = join(newcomers);
                if (!is_connected)
                        PQreset(newcomers->admin);
                usleep(PAUSE_US);
        }
        return NULL;
}

struct newcomers *newcomers_start(
    const char *dsn, uint16_t port, struct arrivals *arrivals, uint64_t seed)
{
        struct newcomers *newcomers = xcalloc(1, sizeof *newcomers);

        newcomers->dsn = dsn;
        newcomers->port = port;
        newcomers->arrivals = arrivals;
        newcomers->random = seed;
        newcomers->admin = database_connect(dsn);
        database_exec(newcomers->admin,
            "CREATE PROCEDURE public.pass_hours(n integer) LANGUAGE plpgsql AS $$"
            "BEGIN"
            "  FOR i IN 1..n LOOP"
            "    INSERT INTO courier.outbox (topic, payload) VALUES ('hours.pass', '{}');"
            "    COMMIT;"
            "  END LOOP;"
            "END$$");
        if (pthread_create(&newcomers->thread, NULL, come_and_go, newcomers) != 0)
                test_abort("cannot start a thread");
        return newcomers;
}

void newcomers_note_nobody(struct newcomers *newcomers, bool is_nobody)
{
        atomic_store(&newcomers->is_nobody, is_nobody);
}

void newcomers_stop(struct newcomers *newcomers)
{
        atomic_store(&newcomers->is_over, true);
        if (!newcomers->is_joined)
                pthread_join(newcomers->thread, NULL);
        newcomers->is_joined = true;
}

unsigned newcomers_count(const struct newcomers *newcomers)
{
        return newcomers->n;
}

unsigned newcomers_n_late(const struct newcomers *newcomers)
{
        return newcomers->n_late;
}

void newcomers_events(const struct newcomers *newcomers, struct chaos_event *out)
{
        for (unsigned g = 0; g < newcomers->n; g++)
                for (unsigned i = 0; i < EVENTS_OF_NEWCOMER; i++)
                        *out++ = (struct chaos_event){.fate = newcomers->each[g].fates[i],
                            .key = g,
                            .sinks = i == BEFORE_TRANSACTION ? 0 : 1u << SINK_FRESH};
}

void newcomers_destroy(struct newcomers *newcomers)
{
        if (newcomers == NULL)
                return;
        newcomers_stop(newcomers);
        PQfinish(newcomers->admin);
        free(newcomers->each);
        free(newcomers);
}
