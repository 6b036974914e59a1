/* The rig itself: what other tests rely on when they ask for a PostgreSQL server. */
#include "base/alloc.h"
#include "support/postgres.h"

#include <criterion/criterion.h>
#include <signal.h>
#include <stdlib.h>

static char *value(const char *dsn, const char *sql)
{
        PGconn *connection = database_connect(dsn);
        char *text = database_value(connection, sql);

        PQfinish(connection);
        return text;
}

#define assert_value(dsn, sql, expected)                                                           \
        do {                                                                                       \
                char *actual = value(dsn, sql);                                                    \
                cr_assert_str_eq(actual, (expected));                                              \
                free(actual);                                                                      \
        } while (0)

Test(postgres_rig, gives_a_database_in_which_app_publishes_and_relay_reads)
{
        char *dsn = postgres_new_database(postgres_shared());
        char *app = dsn_as_user(dsn, "app");
        char *relay = dsn_as_user(dsn, "relay");

        database_exec_once(app, "SELECT courier.publish('orders.created', '{}')");

        assert_value(relay, "SELECT topic FROM courier.outbox", "orders.created");
        free(app);
        free(relay);
        free(dsn);
}

Test(postgres_rig, gives_every_caller_a_database_of_its_own)
{
        char *first = postgres_new_database(postgres_shared());
        char *second = postgres_new_database(postgres_shared());

        database_exec_once(first, "SELECT courier.publish('orders.created', '{}')");

        assert_value(second, "SELECT count(*) FROM courier.outbox", "0");
        free(first);
        free(second);
}

Test(postgres_rig, gives_an_empty_database)
{
        char *dsn = postgres_new_empty_database(postgres_shared());

        assert_value(dsn, "SELECT count(*) FROM pg_namespace WHERE nspname = 'courier'", "0");
        free(dsn);
}

Test(postgres_rig, accepts_tcp_on_the_same_port)
{
        struct postgres *postgres = postgres_shared();
        char *dsn = postgres_new_database(postgres);
        char *tcp = dsn_by_tcp(dsn, postgres->port);

        assert_value(tcp, "SELECT host(inet_server_addr())", "127.0.0.1");
        free(tcp);
        free(dsn);
}

Test(postgres_rig, keeps_committed_rows_over_each_way_to_stop)
{
        void (*const ways[])(struct postgres *) = {
            postgres_stop, postgres_stop_immediate, postgres_kill};
        struct postgres *postgres = postgres_start();
        char *dsn = postgres_new_database(postgres);

        database_exec_once(dsn, "CREATE TABLE stops (n integer)");
        for (int i = 0; i < 3; i++) {
                database_exec_once(dsn, "INSERT INTO stops VALUES (1)");
                ways[i](postgres);
                cr_assert_not(port_accepts(postgres->port));
                postgres_start_again(postgres);
        }

        assert_value(dsn, "SELECT sum(n) FROM stops", "3");
        free(dsn);
}

Test(postgres_rig, kills_sessions_with_the_server)
{
        struct postgres *postgres = postgres_start();
        char *dsn = postgres_dsn(postgres, "postgres", "postgres");
        PGconn *connection = database_connect(dsn);

        postgres_kill(postgres);
        PGresult *result = PQexec(connection, "SELECT 1");

        cr_assert_eq(PQresultStatus(result), PGRES_FATAL_ERROR);
        PQclear(result);
        PQfinish(connection);
        free(dsn);
}

Test(postgres_rig, refuses_to_stop_the_shared_cluster, .signal = SIGABRT)
{
        postgres_kill(postgres_shared());
}
