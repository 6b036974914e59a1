#include "database.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CONNECTIONS_MAX 4

static PGconn *connections[CONNECTIONS_MAX];
static nfds_t n_connections;

void die(const char *what, const char *why)
{
        fprintf(stderr, "%s: %s\n", what, why);
        exit(1);
}

PGconn *db_connect(const char *dsn)
{
        PGconn *db = PQconnectdb(dsn);

        if (PQstatus(db) != CONNECTION_OK)
                die("PostgreSQL", PQerrorMessage(db));
        PQclear(PQexec(db, "SET synchronous_commit = off"));
        if (PQenterPipelineMode(db) != 1)
                die("PostgreSQL", PQerrorMessage(db));
        if (n_connections == CONNECTIONS_MAX)
                die("PostgreSQL", "too many connections");
        connections[n_connections++] = db;
        return db;
}

void db_run(PGconn *db, const char *sql)
{
        if (PQsendQueryParams(db, sql, 0, NULL, NULL, NULL, NULL, 1) != 1)
                die(sql, PQerrorMessage(db));
        db_sync(db);
        db_skip(db, 1);
        db_synced(db);
}

void db_prepare(PGconn *db, const char *name, const char *sql)
{
        if (PQsendPrepare(db, name, sql, 0, NULL) != 1)
                die(sql, PQerrorMessage(db));
        db_sync(db);
        db_skip(db, 1);
        db_synced(db);
}

void db_send(PGconn *db, const char *name, int n_values, const char *const *values)
{
        if (PQsendQueryPrepared(db, name, n_values, values, NULL, NULL, 1) != 1)
                die(name, PQerrorMessage(db));
}

void db_sync(PGconn *db)
{
        if (PQpipelineSync(db) != 1)
                die("PostgreSQL", PQerrorMessage(db));
}

/* Reads from all connections meanwhile. A server that cannot send its rows cannot end its
 * transaction either; and if this connection's statement waits for a lock of that one, neither would
 * ever go on. */
static void await_result(PGconn *db)
{
        struct pollfd sockets[CONNECTIONS_MAX];

        while (PQisBusy(db)) {
                for (nfds_t i = 0; i < n_connections; i++)
                        sockets[i] =
                            (struct pollfd){.fd = PQsocket(connections[i]), .events = POLLIN};
                if (poll(sockets, n_connections, -1) < 0 && errno != EINTR)
                        die("poll", strerror(errno));
                for (nfds_t i = 0; i < n_connections; i++)
                        if (sockets[i].revents != 0 && PQconsumeInput(connections[i]) != 1)
                                die("PostgreSQL", PQerrorMessage(connections[i]));
        }
}

PGresult *db_result(PGconn *db)
{
        PGresult *result;
        ExecStatusType status;

        await_result(db);
        result = PQgetResult(db);
        status = PQresultStatus(result);

        if (status != PGRES_TUPLES_OK && status != PGRES_COMMAND_OK)
                die("PostgreSQL", PQerrorMessage(db));
        if (PQgetResult(db) != NULL)
                die("PostgreSQL", "more than one result");
        return result;
}

void db_skip(PGconn *db, unsigned n_statements)
{
        for (unsigned i = 0; i < n_statements; i++)
                PQclear(db_result(db));
}

void db_synced(PGconn *db)
{
        PGresult *result = PQgetResult(db);

        if (PQresultStatus(result) != PGRES_PIPELINE_SYNC)
                die("PostgreSQL", PQerrorMessage(db));
        PQclear(result);
}

void id_list_clear(struct id_list *list)
{
        list->length = 0;
}

void id_list_add(struct id_list *list, int64_t id)
{
        if (list->capacity - list->length < 24) {
                list->capacity = 2 * list->capacity + 1024;
                list->text = realloc(list->text, list->capacity);
                if (list->text == NULL)
                        die("realloc", "no memory");
        }
        list->length += (size_t)sprintf(
            list->text + list->length, "%c%lld", list->length == 0 ? '{' : ',', (long long)id);
}

const char *id_list_text(struct id_list *list)
{
        if (list->length == 0)
                return "{}";
        memcpy(list->text + list->length, "}", 2);
        return list->text;
}
