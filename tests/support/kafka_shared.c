/*
 * The node that the tests of one binary share, as in postgres_shared.c: linking this file, which
 * naming kafka_server_shared() does, is what makes the runner start it.
 */
#include "support/kafka_server.h"

#include "base/alloc.h"

#include <criterion/criterion.h>
#include <criterion/hooks.h>
#include <stdio.h>
#include <stdlib.h>

#define SHARED_NODE "PGCOURIER_TEST_KAFKA"

ReportHook(PRE_ALL)(struct criterion_test_set *tests)
{
        static struct kafka_server server;
        char *place;

        (void)tests;
        if (!kafka_server_is_available())
                return;
        kafka_server_start(&server, &(struct kafka_server_options){.has_logins = true});
        place = xasprintf("%u %u %u %d %s", server.nodes[0].port, server.nodes[0].sasl_port,
            server.nodes[0].certificate_port, (int)server.nodes[0].process.pid,
            server.nodes[0].folder);
        setenv(SHARED_NODE, place, 1);
        free(place);
}

struct kafka_server *kafka_server_shared(void)
{
        static struct kafka_server shared;
        const char *place = getenv(SHARED_NODE);
        unsigned ports[3];
        int pid;
        int folder_at = 0;

        kafka_server_require();
        if (shared.n_nodes > 0)
                return &shared;
        if (place == NULL ||
            sscanf(place, "%u %u %u %d %n", &ports[0], &ports[1], &ports[2], &pid, &folder_at) !=
                4 ||
            folder_at == 0)
                test_abort("the test runner started no Kafka to share");
        shared.n_nodes = 1;
        shared.is_shared = true;
        shared.version = kafka_server_version();
        shared.nodes[0] = (struct kafka_node){.process = {.pid = pid, .name = "java"},
            .folder = xstrdup(place + folder_at),
            .port = (uint16_t)ports[0],
            .sasl_port = (uint16_t)ports[1],
            .certificate_port = (uint16_t)ports[2]};
        snprintf(shared.brokers, sizeof shared.brokers, "127.0.0.1:%u", ports[0]);
        return &shared;
}
