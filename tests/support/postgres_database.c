/* Databases inside a cluster, made from a template with the schema; and libpq made short. */
#include "support/postgres.h"

#include "base/alloc.h"
#include "support/process.h"

#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define TEMPLATE "courier_template"

char *postgres_dsn(const struct postgres *postgres, const char *database, const char *user)
{
        return xasprintf(
            "host=%s port=%u dbname=%s user=%s", postgres->folder, postgres->port, database, user);
}

/* libpq takes the last of several values for one keyword. */
char *dsn_as_user(const char *dsn, const char *user)
{
        return xasprintf("%s user=%s", dsn, user);
}

char *dsn_by_tcp(const char *dsn, uint16_t port)
{
        return xasprintf("%s host=127.0.0.1 port=%u", dsn, port);
}

static void ignore_notice(void *context, const char *message)
{
        (void)context;
        (void)message;
}

PGconn *database_connect(const char *dsn)
{
        PGconn *connection = PQconnectdb(dsn);

        if (PQstatus(connection) != CONNECTION_OK)
                test_abort("cannot connect to %s: %s", dsn, PQerrorMessage(connection));
        PQsetNoticeProcessor(connection, ignore_notice, NULL);
        return connection;
}

void database_exec(PGconn *connection, const char *sql)
{
        PGresult *result = PQexec(connection, sql);
        ExecStatusType status = PQresultStatus(result);

        if (status != PGRES_COMMAND_OK && status != PGRES_TUPLES_OK)
                test_abort("%.500s\nfailed: %s", sql, PQerrorMessage(connection));
        PQclear(result);
}

void database_exec_once(const char *dsn, const char *sql)
{
        PGconn *connection = database_connect(dsn);

        database_exec(connection, sql);
        PQfinish(connection);
}

char *database_value(PGconn *connection, const char *sql)
{
        PGresult *result = PQexec(connection, sql);
        char *value;

        if (PQresultStatus(result) != PGRES_TUPLES_OK)
                test_abort("%.500s\nfailed: %s", sql, PQerrorMessage(connection));
        if (PQntuples(result) == 0)
                test_abort("%.500s\ngave no row", sql);
        value = xstrdup(PQgetvalue(result, 0, 0));
        PQclear(result);
        return value;
}

int64_t database_integer(PGconn *connection, const char *sql)
{
        char *text = database_value(connection, sql);
        char *end;
        int64_t number = strtoll(text, &end, 10);

        if (*text == '\0' || *end != '\0')
                test_abort("%.500s\ngave '%s' rather than a number", sql, text);
        free(text);
        return number;
}

static bool has_no_relay(void *connection)
{
        return database_integer(connection,
                   "SELECT count(*) FROM pg_stat_activity"
                   " WHERE usename = 'relay' AND datname = current_database()") == 0;
}

void database_await_no_relay(PGconn *connection)
{
        wait_until(has_no_relay, connection, 30000, "a relay's session does not end");
}

static char *create_database(struct postgres *postgres, const char *template)
{
        static unsigned count;
        char *maintenance_dsn = postgres_dsn(postgres, "postgres", "postgres");
        PGconn *connection = database_connect(maintenance_dsn);
        char *name = xasprintf("test_%d_%u", (int)getpid(), ++count);
        /* Files that are copied take half the time of pages that go through the WAL, which
         * PostgreSQL does since 15, and before that there is no choice. */
        char *sql = xasprintf("CREATE DATABASE %s TEMPLATE %s%s", name, template,
            PQserverVersion(connection) >= 150000 ? " STRATEGY file_copy" : "");
        char *dsn = postgres_dsn(postgres, name, "postgres");

        database_exec(connection, sql);
        PQfinish(connection);
        free(maintenance_dsn);
        free(name);
        free(sql);
        return dsn;
}

static void apply_migrations(PGconn *connection, const char *of)
{
        const char *folder = getenv("PGCOURIER_SQL"); /* of a former release */
        char *pattern = xasprintf("%s%s/*.sql", folder != NULL ? folder : PGCOURIER_SQL_FOLDER, of);
        glob_t files;

        if (glob(pattern, 0, NULL, &files) != 0)
                test_abort("no migrations: %s", pattern);
        free(pattern);
        for (size_t i = 0; i < files.gl_pathc; i++) {
                char *sql = read_file(files.gl_pathv[i]);
                database_exec(connection, "BEGIN");
                database_exec(connection, sql);
                database_exec(connection, "COMMIT");
                free(sql);
        }
        globfree(&files);
}

void database_make_inbox(PGconn *connection)
{
        apply_migrations(connection, "/inbox");
}

void postgres_make_template(struct postgres *postgres)
{
        char *maintenance_dsn = postgres_dsn(postgres, "postgres", "postgres");
        char *template_dsn = postgres_dsn(postgres, TEMPLATE, "postgres");
        PGconn *maintenance = database_connect(maintenance_dsn);
        PGconn *connection;

        if (database_integer(maintenance,
                "SELECT count(*) FROM pg_database WHERE datname = '" TEMPLATE "'") == 0) {
                database_exec(maintenance, "CREATE DATABASE " TEMPLATE " TEMPLATE template0");
                connection = database_connect(template_dsn);
                apply_migrations(connection, "");
                database_exec(connection, "CREATE ROLE app LOGIN IN ROLE courier_publisher;"
                                          "CREATE ROLE relay LOGIN IN ROLE courier_relay");
                PQfinish(connection);
        }
        PQfinish(maintenance);
        free(maintenance_dsn);
        free(template_dsn);
}

char *postgres_new_database(struct postgres *postgres)
{
        postgres_make_template(postgres);
        return create_database(postgres, TEMPLATE);
}

char *postgres_new_empty_database(struct postgres *postgres)
{
        return create_database(postgres, "template0");
}
