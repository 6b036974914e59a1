/*
 * The cluster that the tests of one binary share. A file of its own: linking it, which naming
 * postgres_shared() or test_database_make() does, is what makes the runner start a cluster.
 *
 * Criterion executes the binary anew for each test, so the runner's memory does not reach it; the
 * environment does. The postmaster is the runner's child and dies with the runner, not with a test.
 */
#include "support/postgres.h"

#include "base/alloc.h"

#include <criterion/criterion.h>
#include <criterion/hooks.h>
#include <stdio.h>
#include <stdlib.h>

#define SHARED_CLUSTER "PGCOURIER_TEST_CLUSTER"

ReportHook(PRE_ALL)(struct criterion_test_set *tests)
{
        struct postgres *postgres = postgres_start();
        char *place = xasprintf("%u %s", postgres->port, postgres->folder);

        (void)tests;
        postgres_make_template(postgres); /* before tests race to make it */
        setenv(SHARED_CLUSTER, place, 1);
        free(place);
}

/* The cluster itself ends with the runner. */
struct postgres *postgres_shared(void)
{
        static struct postgres shared;
        const char *place = getenv(SHARED_CLUSTER);
        unsigned port;
        int folder_at = 0;

        if (shared.folder != NULL)
                return &shared;
        if (place == NULL || sscanf(place, "%u %n", &port, &folder_at) != 1 || folder_at == 0)
                test_abort("the test runner started no cluster to share");
        shared.port = (uint16_t)port;
        shared.folder = xstrdup(place + folder_at);
        shared.log_path = xasprintf("%s/log", shared.folder);
        return &shared;
}

struct test_database test_database_make(void)
{
        struct test_database database = {.dsn = postgres_new_database(postgres_shared())};

        database.app = dsn_as_user(database.dsn, "app");
        database.relay = dsn_as_user(database.dsn, "relay");
        database.admin = database_connect(database.dsn);
        return database;
}

void test_database_drop(struct test_database *database)
{
        PQfinish(database->admin);
        free(database->dsn);
        free(database->app);
        free(database->relay);
}
