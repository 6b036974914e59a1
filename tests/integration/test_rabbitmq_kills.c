/* The whole program and a RabbitMQ of its own, which stands still and is killed. */
#include "broker_stage.h"

#include "base/alloc.h"
#include "support/rabbitmq_server.h"

#include <criterion/criterion.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

static void kill_server(void *server)
{
        rabbitmq_server_kill(server);
}

/* RabbitMQ 3.10 at times starts the only member of a queue and lets it wait for a leader for ever;
 * an operator has to have it elected. */
static bool has_leader(void *server)
{
        char *answer =
            rabbitmq_eval(server, "case element(1, ra:members({'%%2F_q', node()}, 1000)) of "
                                  "ok -> ok; _ -> ra:trigger_election({'%%2F_q', node()}), no end");
        bool has = strcmp(answer, "ok") == 0;

        free(answer);
        return has;
}

static void restart_server(void *server)
{
        rabbitmq_server_restart(server);
        wait_until(has_leader, server, 60000, "the queue has a leader");
}

static void pause_server(void *server)
{
        rabbitmq_server_pause(server);
}

static void resume_server(void *server)
{
        rabbitmq_server_resume(server);
}

static void read_queue(void *server, struct history *history)
{
        char *text = rabbitmq_drain(server, "/", "q", RABBITMQ_ALL);
        char *rest;

        for (char *line = strtok_r(text, "\n", &rest); line != NULL;
             line = strtok_r(NULL, "\n", &rest)) {
                json_t *message = json_loads(line, 0, NULL);
                history_note(history, json_string_value(json_object_get(message, "body")));
                json_decref(message);
        }
        free(text);
}

static struct broker begin(struct rabbitmq_server *server)
{
        rabbitmq_server_start(server);
        rabbitmq_make_exchange(server, "/", "events", "topic");
        rabbitmq_make_queue(server, "/", "q", "{<<\"x-queue-type\">>, longstr, <<\"quorum\">>}");
        rabbitmq_bind(server, "/", "events", "q", "#");
        wait_until(has_leader, server, 60000, "the new queue has a leader");
        return (struct broker){.relay_keys = "",
            .sink =
                xasprintf("rabbitmq: {servers: [\"127.0.0.1:%u\"], exchange: events", server->port),
            .patient_keys = ", timeout: 60s, heartbeat: 0",
            .server = server,
            .kill = kill_server,
            .restart = restart_server,
            .pause = pause_server,
            .resume = resume_server,
            .read = read_queue};
}

static void end(struct broker *broker)
{
        rabbitmq_server_destroy(broker->server);
        free(broker->sink);
}

Test(rabbitmq_kills, stop_neither_other_sinks_nor_the_end_of_a_relay)
{
        struct rabbitmq_server server;
        struct broker broker = begin(&server);

        broker_expect_stop_while_it_stands_still(&broker);
        end(&broker);
}

Test(rabbitmq_kills, lose_nothing_and_keep_the_order)
{
        struct rabbitmq_server server;
        struct broker broker = begin(&server);

        broker_expect_outages_lose_nothing(&broker, 2, 2000);
        end(&broker);
}
