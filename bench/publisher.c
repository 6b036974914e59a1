/*
 * Publishes events at a pace, each in a transaction of its own, and notes when:
 *
 *   publisher CONNINFO FILE PER_SECOND SECONDS CONNECTIONS FIRST SQL
 *
 * SQL inserts one event; $1 is its number, from FIRST on, $2 its payload: 256 bytes of JSON that
 * begin with {"n": NUMBER,. FILE gets a record for each, in their order. INSERT and COMMIT are
 * separate messages, so that the time before COMMIT is that of the commit alone.
 *
 * The connections take turns, each in a thread, by absolute times: a slow commit delays only what
 * its own connection publishes next, and the pace is made up for afterwards. Where that is hopeless
 * it ends after twice the time; the records of what was not published are zero.
 *
 * Applications keep their connections. So each runs SQL some times before the pace begins, and rolls
 * it back: by then the session has read its catalogs and has its plan.
 */
#include <libpq-fe.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>

#define PAYLOAD_BYTES   256
#define CONNECTIONS_MAX 64
#define N_WARM_UP       8 /* PostgreSQL chooses a plan for good after five executions */
#define NS_PER_S        INT64_C(1000000000)
#define LEAD_NS         (NS_PER_S / 20) /* until the first event: all threads are there by then */

struct record {
        int64_t before_us; /* wall time just before COMMIT is sent */
        int64_t after_us;  /* and after it has returned */
};

struct connection {
        PGconn *pg;
        long index;
};

static struct record *records;
static long n_events, n_connections, first_number;
static double per_second;
static int64_t began_ns, give_up_ns;

static void die(const char *what, const char *why)
{
        fprintf(stderr, "publisher: %s: %s\n", what, why);
        exit(1);
}

static int64_t clock_ns(clockid_t clock)
{
        struct timespec now;

        clock_gettime(clock, &now);
        return now.tv_sec * NS_PER_S + now.tv_nsec;
}

static void wait_until(int64_t at_ns)
{
        struct timespec at = {.tv_sec = at_ns / NS_PER_S, .tv_nsec = at_ns % NS_PER_S};

        while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, NULL) != 0)
                continue;
}

static void expect(PGconn *pg, PGresult *result, const char *what)
{
        ExecStatusType status = PQresultStatus(result);

        if (status != PGRES_COMMAND_OK && status != PGRES_TUPLES_OK)
                die(what, PQerrorMessage(pg));
        PQclear(result);
}

static void insert(PGconn *pg, long event_number)
{
        char number[24], payload[PAYLOAD_BYTES + 1];
        const char *values[] = {number, payload};
        int n_head;

        snprintf(number, sizeof number, "%ld", event_number);
        n_head = snprintf(payload, sizeof payload, "{\"n\": %s, \"note\": \"", number);
        memset(payload + n_head, 'x', (size_t)(PAYLOAD_BYTES - n_head - 2));
        memcpy(payload + PAYLOAD_BYTES - 2, "\"}", 3);
        expect(pg, PQexecPrepared(pg, "publish", 2, values, NULL, NULL, 0), "the INSERT");
}

static void warm_up(PGconn *pg)
{
        for (int i = 0; i < N_WARM_UP; i++) {
                expect(pg, PQexec(pg, "BEGIN"), "BEGIN");
                insert(pg, first_number);
                expect(pg, PQexec(pg, "ROLLBACK"), "ROLLBACK");
        }
}

static void publish(PGconn *pg, long index)
{
        struct record *record = &records[index];

        expect(pg, PQexec(pg, "BEGIN"), "BEGIN");
        insert(pg, first_number + index);
        record->before_us = clock_ns(CLOCK_REALTIME) / 1000;
        expect(pg, PQexec(pg, "COMMIT"), "COMMIT");
        record->after_us = clock_ns(CLOCK_REALTIME) / 1000;
}

static void *keep_pace(void *argument)
{
        struct connection *connection = argument;

        for (long i = connection->index; i < n_events && clock_ns(CLOCK_MONOTONIC) < give_up_ns;
             i += n_connections) {
                wait_until(began_ns + (int64_t)((double)i / per_second * (double)NS_PER_S));
                publish(connection->pg, i);
        }
        return NULL;
}

static PGconn *connect_to(const char *conninfo, const char *sql)
{
        PGconn *pg = PQconnectdb(conninfo);

        if (PQstatus(pg) != CONNECTION_OK)
                die("cannot connect", PQerrorMessage(pg));
        expect(pg, PQprepare(pg, "publish", sql, 2, NULL), "cannot prepare the INSERT");
        warm_up(pg);
        return pg;
}

static void write_records(const char *path)
{
        FILE *file = fopen(path, "wb");

        if (file == NULL ||
            fwrite(records, sizeof *records, (size_t)n_events, file) != (size_t)n_events ||
            fclose(file) != 0)
                die(path, "cannot write it");
}

int main(int n_args, char **args)
{
        struct connection connections[CONNECTIONS_MAX];
        pthread_t threads[CONNECTIONS_MAX];

        if (n_args != 8) {
                fprintf(stderr,
                    "usage: publisher CONNINFO FILE PER_SECOND SECONDS CONNECTIONS FIRST SQL\n");
                return 2;
        }
        prctl(PR_SET_TIMERSLACK,
            1UL); /* wake when asked to, not up to 50 us later; threads inherit it */
        per_second = strtod(args[3], NULL);
        n_events = (long)(per_second * strtod(args[4], NULL));
        n_connections = strtol(args[5], NULL, 10);
        first_number = strtol(args[6], NULL, 10);
        if (per_second <= 0 || n_events < 1 || n_connections < 1 || n_connections > CONNECTIONS_MAX)
                die("arguments", "a pace, a time and 1 to 64 connections are needed");
        records = calloc((size_t)n_events, sizeof *records);
        if (records == NULL)
                die("memory", "there is not enough");
        for (long i = 0; i < n_connections; i++)
                connections[i] =
                    (struct connection){.pg = connect_to(args[1], args[7]), .index = i};

        began_ns = clock_ns(CLOCK_MONOTONIC) + LEAD_NS;
        give_up_ns = began_ns + (int64_t)(2 * strtod(args[4], NULL) * (double)NS_PER_S);
        for (long i = 0; i < n_connections; i++)
                if (pthread_create(&threads[i], NULL, keep_pace, &connections[i]) != 0)
                        die("threads", "cannot start them");
        for (long i = 0; i < n_connections; i++) {
                pthread_join(threads[i], NULL);
                PQfinish(connections[i].pg);
        }
        write_records(args[2]);
        free(records);
        return 0;
}
