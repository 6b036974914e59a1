/* The nats sink and a cluster of three servers, whose stream has three replicas. */
#include "nats_rig.h"

#include "base/alloc.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static void start_cluster(
    struct nats_server *nodes, struct rig *rig, unsigned n_events, const char *config)
{
        nats_cluster_start(nodes, config);
        nats_server_make_stream(
            &nodes[0], "S", "events.>", ",\"num_replicas\":3,\"duplicate_window\":120000000000");
        rig_init(rig, &nodes[0], n_events);
}

static void stop_cluster(struct nats_server *nodes, struct rig *rig)
{
        rig_destroy(rig);
        for (unsigned i = 0; i < NATS_CLUSTER_NODES; i++)
                nats_server_destroy(&nodes[i]);
}

static unsigned find_leader(struct nats_server *nodes, unsigned ask)
{
        json_t *answer = nats_server_ask(&nodes[ask], "STREAM.INFO.S", "");
        const char *leader =
            json_string_value(json_object_get(json_object_get(answer, "cluster"), "leader"));
        unsigned found = NATS_CLUSTER_NODES;
        char name[16];

        for (unsigned i = 0; i < NATS_CLUSTER_NODES; i++) {
                snprintf(name, sizeof name, "n%u", nodes[i].port);
                if (leader != NULL && strcmp(leader, name) == 0)
                        found = i;
        }
        json_decref(answer);
        return found;
}

/* The other nodes hear of a new stream a moment later, and say until then that there is none. */
static void await_stream(struct rig *rig)
{
        while (sink_driver_deliver(&rig->driver, &rig->events[0]).kind != OUTCOME_DELIVERED) {
                cr_assert(rig->driver.n_started < 200, "no node knows the stream");
                nanosleep(&(struct timespec){.tv_nsec = 50000000}, NULL);
        }
}

/* Delivers each event until it is delivered, as a relay does: while none gets through, it tries with
 * one. */
static void deliver_until_all_are(struct rig *rig, unsigned n)
{
        bool *is_done = xcalloc(n, sizeof *is_done);
        unsigned n_done = 0, n_most = n;

        while (n_done < n) {
                const unsigned n_before = n_done;
                size_t first = rig->driver.n_started;
                unsigned *numbers = xcalloc(n, sizeof *numbers);
                unsigned n_sent = 0;

                for (unsigned i = 0; i < n && n_sent < n_most; i++)
                        if (!is_done[i]) {
                                numbers[n_sent++] = i;
                                sink_driver_start(&rig->driver, &rig->events[i]);
                        }
                sink_driver_flush(&rig->driver);
                sink_driver_finish(&rig->driver);
                for (unsigned i = 0; i < n_sent; i++) {
                        const struct outcome *outcome = &rig->driver.attempts[first + i].outcome;
                        cr_assert(outcome->kind == OUTCOME_DELIVERED || !outcome->needs_operator,
                            "%s", outcome->reason);
                        cr_assert(outcome->kind != OUTCOME_RETRY || outcome->is_unanswered,
                            "charged: %s", outcome->reason);
                        if (outcome->kind == OUTCOME_DELIVERED) {
                                is_done[numbers[i]] = true;
                                n_done++;
                        }
                }
                free(numbers);
                n_most = n_done > n_before ? n : 1;
                if (n_done < n)
                        nanosleep(
                            &(struct timespec){.tv_nsec = 100000000}, NULL); /* the breaker's */
        }
        free(is_done);
}

Test(nats_cluster, goes_on_when_the_leader_of_its_stream_steps_down_or_is_killed)
{
        struct nats_server nodes[NATS_CLUSTER_NODES];
        struct rig rig;
        unsigned leader;

        start_cluster(nodes, &rig, 300, NULL);
        rig_add_server(&rig, &nodes[1]);
        rig_add_server(&rig, &nodes[2]);
        rig.config.timeout_ms = 2000;
        rig_open(&rig);
        await_stream(&rig);

        json_decref(nats_server_ask(&nodes[0], "STREAM.LEADER.STEPDOWN.S", ""));
        deliver_until_all_are(&rig, 150);
        leader = find_leader(nodes, 0);
        cr_assert(leader < NATS_CLUSTER_NODES);
        for (unsigned i = 150; i < 250; i++)
                sink_driver_start(&rig.driver, &rig.events[i]);
        sink_driver_flush(&rig.driver);
        nats_server_kill(&nodes[leader]);
        sink_driver_finish(&rig.driver);
        deliver_until_all_are(&rig, 300);

        cr_expect(nats_server_count(&nodes[(leader + 1) % NATS_CLUSTER_NODES], "S") == 300);
        stop_cluster(nodes, &rig);
}

static bool has_left(void *context)
{
        char *path = xasprintf("%s/log.txt", ((const struct nats_server *)context)->folder);
        char *log = read_file(path);
        bool is_closed =
            strstr(log, "pgcourier\" - Client connection closed: Client Closed") != NULL;

        free(log);
        free(path);
        return is_closed;
}

/* Only the first node is in the list: the others are learned from it. */
Test(nats_cluster, moves_to_another_server_before_its_own_stops)
{
        struct nats_server nodes[NATS_CLUSTER_NODES];
        struct outcome outcome;
        struct rig rig;

        start_cluster(nodes, &rig, 300, "debug: true\n");
        rig.config.timeout_ms = 2000;
        rig_open(&rig);
        await_stream(&rig);
        nats_server_retire(&nodes[0]);
        sink_driver_run_until(&rig.driver, has_left, &nodes[0], "the sink to move");
        deliver_until_all_are(&rig, 300);

        nats_server_kill(&nodes[0]);
        outcome = sink_driver_deliver(&rig.driver, &rig.events[0]);
        expect_outcome_is(&outcome, OUTCOME_DELIVERED, "");
        stop_cluster(nodes, &rig);
}

/* Nothing is charged and nothing needs an operator: the stream has taken events a moment ago. */
Test(nats_cluster, waits_for_a_majority)
{
        static char per_event[] = "events.{{topic}}";
        struct nats_server nodes[NATS_CLUSTER_NODES];
        struct rig rig;

        start_cluster(nodes, &rig, 200, NULL);
        rig.config.timeout_ms = 1000;
        rig.config.subject = per_event;
        rig_open(&rig);
        rig_deliver_all(&rig, 1);
        nats_server_kill(&nodes[1]);
        nats_server_kill(&nodes[2]);
        for (unsigned i = 0; i < 4; i++)
                rig_deliver_all(&rig, 10);
        for (unsigned i = 1; i < 41; i++) {
                const struct outcome *outcome = &rig.driver.attempts[i].outcome;
                cr_expect(outcome->kind == OUTCOME_SINK_DOWN ||
                              (outcome->kind == OUTCOME_RETRY && outcome->is_unanswered),
                    "%s: %s", outcome_name(outcome->kind), outcome->reason);
                cr_expect(!outcome->needs_operator);
        }
        nats_server_restart(&nodes[1]);
        deliver_until_all_are(&rig, 200);
        cr_expect(nats_server_count(&nodes[0], "S") == 200);
        stop_cluster(nodes, &rig);
}
