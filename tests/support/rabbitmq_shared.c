/*
 * The RabbitMQ that the tests of one binary share: a file of its own, for the reason that
 * postgres_shared.c gives.
 */
#include "support/rabbitmq_server.h"

#include "base/alloc.h"

#include <criterion/criterion.h>
#include <criterion/hooks.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SHARED_SERVER "PGCOURIER_TEST_RABBITMQ"

ReportHook(PRE_ALL)(struct criterion_test_set *tests)
{
        static struct rabbitmq_server server;
        char *place;

        (void)tests;
        rabbitmq_server_start(&server);
        place = xasprintf("%u %u %u %d %s %s %s", server.port, server.tls_port, server.epmd_port,
            (int)server.process.pid, server.name, server.folder, server.certificates);
        setenv(SHARED_SERVER, place, 1);
        free(place);
}

struct rabbitmq_server *rabbitmq_shared(void)
{
        static struct rabbitmq_server shared;
        const char *place = getenv(SHARED_SERVER);
        unsigned port, tls_port, epmd_port;
        int pid;
        char folder[128], certificates[128];

        if (shared.folder != NULL)
                return &shared;
        if (place == NULL || sscanf(place, "%u %u %u %d %31s %127s %127s", &port, &tls_port,
                                 &epmd_port, &pid, shared.name, folder, certificates) != 7)
                test_abort("the test runner started no RabbitMQ to share");
        shared.port = (uint16_t)port;
        shared.tls_port = (uint16_t)tls_port;
        shared.epmd_port = (uint16_t)epmd_port;
        shared.process.pid = pid; /* for SIGSTOP; it is the runner's child */
        snprintf(shared.process.name, sizeof shared.process.name, "rabbitmq-server");
        shared.folder = xstrdup(folder);
        shared.certificates = xstrdup(certificates);
        return &shared;
}
