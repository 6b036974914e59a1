/* The whole program and a real RabbitMQ, with a network between them that fails. */
#include "rabbitmq_history.h"

#include "chaos/fault_proxy.h"
#include "support/relay_fixture.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { MAX_IN_FLIGHT = 50, PAUSE_US = 20000 };

static char vhost[32];

static struct rabbitmq_server *make_queue(void)
{
        struct rabbitmq_server *server = rabbitmq_shared();

        snprintf(vhost, sizeof vhost, "relay%d", (int)getpid());
        rabbitmq_make_vhost(server, vhost);
        rabbitmq_make_exchange(server, vhost, "events", "topic");
        rabbitmq_make_queue(server, vhost, "q", "{<<\"x-queue-type\">>, longstr, <<\"quorum\">>}");
        rabbitmq_bind(server, vhost, "events", "q", "#");
        return server;
}

static struct relay_process *start(const struct stage *stage, unsigned port)
{
        return relay_start("postgres: {dsn: \"%s\"}\n"
                           "relay: {standby: 50ms}\n"
                           "sinks:\n"
                           "  - name: bus\n"
                           "    topics: [\"**\"]\n"
                           "    start: beginning\n"
                           "    max_in_flight: %d\n"
                           "    rabbitmq: {servers: [\"127.0.0.1:%u\"], vhost: %s,\n"
                           "      exchange: events, timeout: 1s, connect_timeout: 1s}\n",
            stage->database.relay, MAX_IN_FLIGHT, port, stage->vhost);
}

Test(rabbitmq_relay, loses_nothing_and_keeps_the_order_when_the_network_fails)
{
        static const struct fault faults[] = {{.kind = FAULT_RESET},
            {.kind = FAULT_CUT, .after_bytes = 900}, {.kind = FAULT_HALF_OPEN},
            {.kind = FAULT_BLACKHOLE}, {.kind = FAULT_REFUSE},
            {.kind = FAULT_DELAY, .delay_ms = 5, .jitter_ms = 20}};
        const size_t n_faults = sizeof faults / sizeof *faults;
        struct rabbitmq_server *server = make_queue();
        struct fault_proxy *proxy = fault_proxy_start();
        struct fault_link *link = fault_proxy_add(proxy, server->port);
        struct relay_process *relay;
        struct stage stage;
        size_t n_repeated;

        stage_begin(&stage, server, vhost, PAUSE_US);
        relay = start(&stage, fault_link_port(link));
        for (size_t i = 0; i < n_faults; i++) {
                stage_await_more(&stage, 50);
                fault_link_set(link, &faults[i]);
                if (faults[i].kind != FAULT_DELAY && faults[i].kind != FAULT_REFUSE)
                        relay_wait_for_log(relay, "event=sink_down", 30000);
                fault_link_set(link, &(struct fault){.kind = FAULT_NONE});
        }
        stage_await_more(&stage, 50);
        n_repeated = stage_end(&stage, relay);

        cr_expect(n_repeated <= n_faults * MAX_IN_FLIGHT, "%zu came twice", n_repeated);
        fault_proxy_destroy(proxy);
}

/* Others go on coming. */
static bool has_a_dead_letter(void *context)
{
        const struct relay_fixture *fixture = context;

        publish(fixture->admin, "taken", NULL, "taken");
        return database_integer(fixture->admin, "SELECT count(*) FROM courier.dead_letter") > 0;
}

/* One queue is full; the others are not. */
Test(rabbitmq_relay, gives_up_only_what_a_full_queue_refuses)
{
        struct rabbitmq_server *server = rabbitmq_shared();
        struct relay_fixture fixture;
        struct relay_process *relay;
        char *messages;

        snprintf(vhost, sizeof vhost, "one%d", (int)getpid());
        rabbitmq_make_vhost(server, vhost);
        rabbitmq_make_exchange(server, vhost, "events", "topic");
        rabbitmq_make_queue(server, vhost, "q", "");
        rabbitmq_bind(server, vhost, "events", "q", "taken");
        rabbitmq_make_queue(server, vhost, "full",
            "{<<\"x-max-length\">>, long, 1}, {<<\"x-overflow\">>, longstr, "
            "<<\"reject-publish\">>}");
        rabbitmq_bind(server, vhost, "events", "full", "full");
        relay_fixture_begin(&fixture, postgres_shared());
        relay = relay_start("postgres: {dsn: \"%s\"}\n"
                            "sinks:\n"
                            "  - name: bus\n"
                            "    topics: [\"**\"]\n"
                            "    start: beginning\n"
                            "    retry: {first: 50ms, max: 100ms, attempts: 5}\n"
                            "    rabbitmq: {servers: [\"127.0.0.1:%u\"], vhost: %s,\n"
                            "      exchange: events}\n",
            fixture.relay, server->port, vhost);
        for (int i = 0; i < 6; i++)
                publish(fixture.admin, "full", NULL, "refused but for the first ones");
        for (int i = 0; i < 20; i++)
                publish(fixture.admin, "taken", NULL, "taken");
        messages = rabbitmq_drain(server, vhost, "q", 20);
        wait_until(has_a_dead_letter, &fixture, 30000, "a dead letter");
        await_in_database(fixture.admin,
            "SELECT count(*) > 0 AND min(attempts) = 5 AND max(attempts) = 5 AND max(topic) = "
            "'full' FROM courier.dead_letter",
            "dead letters");
        free(messages);
        relay_stop(relay);
        relay_destroy(relay);
        relay_fixture_end(&fixture);
}

/* It starts, carries what it can for the other sink, and this one joins. */
Test(rabbitmq_relay, starts_while_rabbitmq_is_down)
{
        struct rabbitmq_server *server = make_queue();
        struct fault_proxy *proxy = fault_proxy_start();
        struct fault_link *link = fault_proxy_add(proxy, server->port);
        struct relay_process *relay;
        struct stage stage;

        rabbitmq_make_queue(server, vhost, "other", "");
        fault_link_set(link, &(struct fault){.kind = FAULT_REFUSE});
        stage_begin(&stage, server, vhost, PAUSE_US);
        relay =
            relay_start("postgres: {dsn: \"%s\"}\n"
                        "relay: {standby: 50ms}\n"
                        "sinks:\n"
                        "  - name: bus\n"
                        "    topics: [\"**\"]\n"
                        "    start: beginning\n"
                        "    rabbitmq: {servers: [\"127.0.0.1:%u\"], vhost: %s, exchange: "
                        "events}\n"
                        "  - name: other\n"
                        "    topics: [\"**\"]\n"
                        "    start: beginning\n"
                        "    rabbitmq: {servers: [\"127.0.0.1:%u\"], vhost: %s, exchange: \"\", "
                        "routing_key: other}\n",
                stage.database.relay, fault_link_port(link), vhost, server->port, vhost);
        relay_wait_for_log(relay, "refused", 30000);
        free(rabbitmq_drain(server, vhost, "other", RABBITMQ_ALL));
        fault_link_set(link, &(struct fault){.kind = FAULT_NONE});
        stage_await_more(&stage, 50);

        cr_expect(stage_end(&stage, relay) == 0);
        fault_proxy_destroy(proxy);
}

/* All keys may be under way by then, so the relay has nothing left to say it about. */
static bool has_blocked(void *server)
{
        char *n = rabbitmq_eval(server,
            "length([1 || P <- rabbit_networking:connections(), [{vhost, <<\"%s\">>}, {state, "
            "blocked}] =:= (catch rabbit_networking:connection_info(P, [vhost, state]))])",
            vhost);
        bool has = strcmp(n, "0") != 0;

        free(n);
        return has;
}

/* Blocked is not failed: nothing is lost, and nothing is sent twice. */

Test(rabbitmq_relay, loses_nothing_and_keeps_the_order_through_alarms)
{
        struct rabbitmq_server *server = make_queue();
        struct relay_process *relay;
        struct stage stage;
        size_t n_repeated;

        stage_begin(&stage, server, vhost, PAUSE_US);
        relay = start(&stage, server->port);
        for (int i = 0; i < 2; i++) {
                stage_await_more(&stage, 50);
                rabbitmq_set_alarm(server, true);
                wait_until(has_blocked, server, 30000, "RabbitMQ blocks nothing");
                rabbitmq_set_alarm(server, false);
        }
        n_repeated = stage_end(&stage, relay);

        cr_expect_eq(n_repeated, 0, "%zu came twice", n_repeated);
}
