/* The whole program and three nodes of RabbitMQ with a quorum queue, which are killed. */
#include "rabbitmq_history.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>

#define QUEUE "rabbit_misc:r(<<\"/\">>, queue, <<\"q\">>)"

enum { MAX_IN_FLIGHT = 50, PAUSE_US = 150000 };

static unsigned leader(const struct rabbitmq_server *nodes, unsigned alive)
{
        char *name = rabbitmq_eval(&nodes[alive],
            "begin {ok, Q} = rabbit_amqqueue:lookup(" QUEUE "), amqqueue:get_pid(Q) end");
        unsigned found = 0;

        for (unsigned i = 0; i < 3; i++)
                if (strstr(name, nodes[i].name) != NULL)
                        found = i;
        free(name);
        return found;
}

static bool has_all_members(void *node)
{
        char *answer =
            rabbitmq_eval(node, "begin {ok, Q} = rabbit_amqqueue:lookup(" QUEUE "), "
                                "length(maps:get(nodes, amqqueue:get_type_state(Q))) end");
        bool has_three = strcmp(answer, "3") == 0;

        free(answer);
        return has_three;
}

static void declare(struct rabbitmq_server *nodes)
{
        rabbitmq_make_exchange(&nodes[0], "/", "events", "topic");
        rabbitmq_make_queue(&nodes[0], "/", "q", "{<<\"x-queue-type\">>, longstr, <<\"quorum\">>}");
        rabbitmq_bind(&nodes[0], "/", "events", "q", "#");
        wait_until(has_all_members, &nodes[0], 30000, "the queue has three members");
}

static struct relay_process *start(
    const struct stage *stage, const struct rabbitmq_server *nodes, unsigned first)
{
        return relay_start("postgres: {dsn: \"%s\"}\n"
                           "relay: {standby: 50ms}\n"
                           "sinks:\n"
                           "  - name: bus\n"
                           "    topics: [\"**\"]\n"
                           "    start: beginning\n"
                           "    max_in_flight: %d\n"
                           "    rabbitmq: {servers: [\"127.0.0.1:%u\", \"127.0.0.1:%u\", "
                           "\"127.0.0.1:%u\"],\n"
                           "      exchange: events, timeout: 3s, connect_timeout: 3s}\n",
            stage->database.relay, MAX_IN_FLIGHT, nodes[first].port, nodes[(first + 1) % 3].port,
            nodes[(first + 2) % 3].port);
}

Test(rabbitmq_cluster, loses_nothing_and_keeps_the_order_when_nodes_are_killed)
{
        struct rabbitmq_server nodes[3];
        struct relay_process *relay;
        struct stage stage;
        unsigned first, reader;
        size_t n_repeated;

        rabbitmq_cluster_start(nodes);
        declare(nodes);
        first = leader(nodes, 0);
        reader = (first + 2) % 3;
        stage_begin(&stage, &nodes[reader], "/", PAUSE_US);
        relay = start(&stage, nodes, first);
        stage_await_more(&stage, 30);

        /* The queue's leader, to which the sink is connected: another node leads, and takes it. */
        rabbitmq_server_kill(&nodes[first]);
        stage_await_more(&stage, 30);

        /* The others, too: nothing is confirmed, and nothing is lost. */
        rabbitmq_server_kill(&nodes[(first + 1) % 3]);
        rabbitmq_server_kill(&nodes[reader]);
        relay_wait_for_log(relay, "event=sink_down", 30000);
        for (int i = 0; i < 3; i++)
                rabbitmq_server_restart_soon(&nodes[i]);
        for (int i = 0; i < 3; i++)
                rabbitmq_server_wait(&nodes[i]);
        stage_await_more(&stage, 30);
        n_repeated = stage_end(&stage, relay);

        cr_expect(n_repeated <= 3 * MAX_IN_FLIGHT, "%zu came twice", n_repeated);
        for (int i = 2; i >= 0; i--)
                rabbitmq_server_destroy(&nodes[i]);
}
