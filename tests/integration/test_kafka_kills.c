/* The whole program and a real Kafka, which stands still and is killed. */
#include "broker_stage.h"

#include "base/alloc.h"
#include "support/kafka_reader.h"
#include "support/kafka_server.h"

#include <criterion/criterion.h>
#include <stdlib.h>

enum { N_PARTITIONS = 4 };

static struct kafka_node *node_of(void *server)
{
        return &((struct kafka_server *)server)->nodes[0];
}

static void kill_server(void *server)
{
        kafka_node_kill(node_of(server));
}

static void restart_server(void *server)
{
        kafka_node_restart(server, node_of(server));
}

static void pause_server(void *server)
{
        kafka_node_pause(node_of(server));
}

static void resume_server(void *server)
{
        kafka_node_resume(node_of(server));
}

static void read_topic(void *server, struct history *history)
{
        struct kafka_records records =
            kafka_read(((struct kafka_server *)server)->brokers, "events");

        history_deinit(history);
        for (size_t i = 0; i < records.n; i++)
                history_note(history, records.items[i].value);
        kafka_records_deinit(&records);
}

static struct broker begin(struct kafka_server *server)
{
        kafka_server_require();
        kafka_server_start(server, NULL);
        kafka_server_topic(server, "events", N_PARTITIONS, NULL);
        return (struct broker){.relay_keys = ", modules: " PGCOURIER_BUILD_FOLDER "/modules",
            .sink = xasprintf("kafka: {brokers: [\"%s\"], topic: events", server->brokers),
            .patient_keys = ", timeout: 60s",
            .server = server,
            .kill = kill_server,
            .restart = restart_server,
            .pause = pause_server,
            .resume = resume_server,
            .read = read_topic};
}

static void end(struct broker *broker)
{
        kafka_server_destroy(broker->server);
        free(broker->sink);
}

Test(kafka_kills, stop_neither_other_sinks_nor_the_end_of_a_relay)
{
        struct kafka_server server;
        struct broker broker = begin(&server);

        broker_expect_stop_while_it_stands_still(&broker);
        end(&broker);
}

Test(kafka_kills, lose_nothing_and_keep_the_order)
{
        struct kafka_server server;
        struct broker broker = begin(&server);

        broker_expect_outages_lose_nothing(&broker, 2, 2000);
        end(&broker);
}
