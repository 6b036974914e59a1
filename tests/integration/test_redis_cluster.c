/* The redis sink in front of a real Redis Cluster of three nodes. */
#include "redis_rig.h"

#include "base/list.h"
#include "support/redis_cluster.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { N_STREAMS = 40 };

static char topics[N_STREAMS][16];
static char *seeds[CLUSTER_NODES];

/* Streams 0 to 4 share a slot; the others lie over all slots. Event i goes to stream i % N. */
static void rig_init_cluster(struct rig *rig, struct redis_cluster_rig *cluster, unsigned n_events)
{
        static char stream[] = "{{topic}}";

        for (unsigned i = 0; i < CLUSTER_NODES; i++)
                seeds[i] = cluster->seeds[i];
        for (unsigned i = 0; i < N_STREAMS; i++)
                snprintf(topics[i], sizeof topics[i], i < 5 ? "{tag}%u" : "orders-%u", i);
        rig_init(rig, &cluster->nodes[0], n_events);
        rig->config.host = NULL;
        rig->config.cluster = seeds;
        rig->config.n_cluster = CLUSTER_NODES;
        rig->config.stream = stream;
        for (unsigned i = 0; i < n_events; i++) {
                rig->events[i].topic = topics[i % N_STREAMS];
                /* Those without a key are a transaction too: a redirect is for the whole burst. */
                rig->events[i].key = i % 2 == 0 ? "k" : NULL;
        }
}

static redisReply *read_stream(
    struct redis_cluster_rig *cluster, const char *stream, unsigned owner)
{
        redisReply *reply = redis_server_run(&cluster->nodes[owner], "XRANGE %s - +", stream);

        cr_assert(reply->type == REDIS_REPLY_ARRAY, "%s: %s", stream,
            reply->str != NULL ? reply->str : "?");
        return reply;
}

/* Each of the first n events once, in the order of its stream; those of the tag at `tag_owner`. */
static void expect_all(struct redis_cluster_rig *cluster, unsigned n, unsigned tag_owner)
{
        for (unsigned s = 0; s < N_STREAMS; s++) {
                unsigned owner = s < 5 ? tag_owner : redis_cluster_owner(cluster, topics[s]);
                redisReply *reply = read_stream(cluster, topics[s], owner);
                size_t n_expected = n / N_STREAMS + (s < n % N_STREAMS);

                cr_assert(reply->elements == n_expected, "%s has %zu", topics[s], reply->elements);
                for (size_t i = 0; i < reply->elements; i++) {
                        const redisReply *fields = reply->element[i]->element[1];
                        const char *id = fields->element[1]->str;
                        cr_assert(strtoul(id + 24, NULL, 10) == i * N_STREAMS + s, "%s at %zu: %s",
                            topics[s], i, id);
                }
                freeReplyObject(reply);
        }
}

Test(redis_cluster, spreads_streams_over_the_nodes_and_keeps_the_order_of_each)
{
        enum { N = 4000 };
        struct redis_cluster_rig cluster;
        struct rig rig;

        redis_cluster_start(&cluster, NULL);
        rig_init_cluster(&rig, &cluster, N);
        rig_open(&rig);
        cr_expect(sink_driver_probe(&rig.driver).kind == OUTCOME_DELIVERED);
        rig_deliver_all(&rig, 1);
        rig_deliver_all(&rig, N - 1);

        cr_expect(rig_count(&rig, OUTCOME_DELIVERED) == N);
        expect_all(&cluster, N, redis_cluster_owner(&cluster, "{tag}"));
        rig_destroy(&rig);
        redis_cluster_destroy_all(&cluster);
}

struct move {
        struct rig rig;
        struct redis_cluster_rig cluster;
        unsigned slot;
        unsigned from;
        unsigned to;
        unsigned step;
};

/* While a burst is under way behind every one that ends here. The last stream of the tag is new: it
 * is made where the slot goes to. */
static void on_finished_move(struct sink_driver *driver)
{
        struct move *move = list_owner(driver, struct move, rig.driver);

        if (driver->n_started < move->rig.restart_below && driver->n_finished % 200 == 0)
                rig_deliver(&move->rig, 200);
        if (move->step == 4 || driver->n_finished < 2000 * (move->step + 1))
                return;
        switch (move->step++) {
        case 0:
                redis_cluster_begin_move(&move->cluster, move->slot, move->from, move->to);
                return;
        case 1:
                redis_cluster_move_key(&move->cluster, topics[0], move->from, move->to);
                redis_cluster_move_key(&move->cluster, topics[1], move->from, move->to);
                return;
        case 2:
                for (unsigned i = 2; i < 5; i++)
                        redis_cluster_move_key(&move->cluster, topics[i], move->from, move->to);
                return;
        case 3:
                redis_cluster_end_move(&move->cluster, move->slot, move->from, move->to);
                return;
        }
}

Test(redis_cluster, follows_a_slot_that_moves_under_load)
{
        enum { N = 12000 };
        static struct move move;

        redis_cluster_start(&move.cluster, NULL);
        move.slot = redis_cluster_slot(&move.cluster, "{tag}");
        move.from = redis_cluster_owner(&move.cluster, "{tag}");
        move.to = (move.from + 1) % CLUSTER_NODES;
        rig_init_cluster(&move.rig, &move.cluster, N);
        rig_open(&move.rig);
        move.rig.driver.on_finished = on_finished_move;
        move.rig.restart_below = N;
        rig_deliver(&move.rig, 1000);
        sink_driver_finish(&move.rig.driver);

        cr_expect(move.step == 4);
        cr_expect(move.rig.driver.n_started == N);
        for (unsigned i = 0; i < N; i++)
                expect_outcome(&move.rig, i, OUTCOME_DELIVERED, "");
        expect_all(&move.cluster, N, move.to);
        rig_destroy(&move.rig);
        redis_cluster_destroy_all(&move.cluster);
}

Test(redis_cluster, goes_on_with_the_nodes_that_are_left)
{
        static const char *const options[] = {"--cluster-require-full-coverage", "no", NULL};
        struct redis_cluster_rig cluster;
        struct rig rig;
        unsigned n_down = 0;

        redis_cluster_start(&cluster, options);
        rig_init_cluster(&rig, &cluster, 3 * N_STREAMS);
        rig_open(&rig);
        rig_deliver_all(&rig, N_STREAMS);
        redis_server_stop(&cluster.nodes[1]);
        rig_deliver_all(&rig, N_STREAMS);
        for (unsigned i = N_STREAMS; i < 2 * N_STREAMS; i++) {
                bool is_left = redis_cluster_owner(&cluster, rig.events[i].topic) != 1;
                n_down += !is_left;
                expect_outcome(&rig, i, is_left ? OUTCOME_DELIVERED : OUTCOME_SINK_DOWN,
                    is_left ? "" : "127.0.0.1");
        }
        cr_expect(n_down > 0 && n_down < N_STREAMS);
        redis_server_restart(&cluster.nodes[1]);
        wait_until(redis_cluster_is_formed, &cluster, 10000, "the node is not taken back");
        rig_deliver_all(&rig, N_STREAMS);
        for (unsigned i = 2 * N_STREAMS; i < 3 * N_STREAMS; i++)
                expect_outcome(&rig, i, OUTCOME_DELIVERED, "");
        rig_destroy(&rig);
        redis_cluster_destroy_all(&cluster);
}

static bool has_all_slots(void *context)
{
        redisReply *info = redis_server_run(context, "CLUSTER INFO");
        bool has = strstr(info->str, "cluster_slots_ok:16384") != NULL;

        freeReplyObject(info);
        return has;
}

/* No node is left that could redirect: only the map tells who has taken over. */
Test(redis_cluster, finds_who_took_over_the_slots_of_a_lost_node)
{
        static const char *const options[] = {"--cluster-require-full-coverage", "no", NULL};
        struct redis_cluster_rig cluster;
        struct rig rig;

        redis_cluster_start(&cluster, options);
        rig_init_cluster(&rig, &cluster, 3 * N_STREAMS);
        rig_open(&rig);
        rig_deliver_all(&rig, N_STREAMS);
        redis_server_kill(&cluster.nodes[1]);
        for (unsigned i = 0; i < CLUSTER_NODES; i += 2)
                redis_server_do(&cluster.nodes[i], "CLUSTER DELSLOTSRANGE 5462 10922");
        redis_server_do(&cluster.nodes[2], "CLUSTER ADDSLOTSRANGE 5462 10922");
        redis_server_do(&cluster.nodes[2], "CLUSTER BUMPEPOCH");
        wait_until(has_all_slots, &cluster.nodes[0], 20000, "no node takes over");
        rig_deliver_all(&rig, N_STREAMS);
        rig_deliver_all(&rig, N_STREAMS);

        cr_expect(rig_count(&rig, OUTCOME_SINK_DOWN) > 0);
        for (unsigned i = 2 * N_STREAMS; i < 3 * N_STREAMS; i++)
                expect_outcome(&rig, i, OUTCOME_DELIVERED, "");
        rig_destroy(&rig);
        redis_cluster_destroy_all(&cluster);
}

Test(redis_cluster, waits_while_no_node_has_a_slot)
{
        struct redis_cluster_rig cluster;
        struct rig rig;
        unsigned slot;
        unsigned owner;

        redis_cluster_start(&cluster, NULL);
        owner = redis_cluster_owner(&cluster, "{tag}");
        slot = redis_cluster_slot(&cluster, "{tag}");
        rig_init_cluster(&rig, &cluster, 3);
        for (unsigned i = 0; i < 3; i++)
                rig.events[i].topic = topics[0];
        rig_open(&rig);
        rig_deliver_all(&rig, 1);
        redis_server_do(&cluster.nodes[owner], "CLUSTER DELSLOTS %u", slot);
        rig_deliver_all(&rig, 1);
        redis_server_do(&cluster.nodes[owner], "CLUSTER ADDSLOTS %u", slot);
        wait_until(redis_cluster_is_formed, &cluster, 10000, "the slot is not there again");
        rig_deliver_all(&rig, 1);

        expect_outcome(&rig, 0, OUTCOME_DELIVERED, "");
        expect_outcome(&rig, 1, OUTCOME_SINK_DOWN, "CLUSTERDOWN");
        cr_expect(!rig.driver.attempts[1].outcome.needs_operator);
        expect_outcome(&rig, 2, OUTCOME_DELIVERED, "");
        rig_destroy(&rig);
        redis_cluster_destroy_all(&cluster);
}

/* While a slot moves, a new stream is at neither node: the one that is to have it takes it, behind
 * ASKING. */
Test(redis_cluster, makes_new_streams_with_no_more_than_the_documented_permissions)
{
        static const char *const options[] = {"--user", "app", "on", ">s3cret", "~*", "+xadd",
            "+multi", "+exec", "+ping", "+client|setname", "+cluster|slots", "+asking", NULL};
        static char user[] = "app";
        static char password[] = "s3cret";
        struct redis_cluster_rig cluster;
        struct rig rig;
        unsigned slot;
        unsigned from;
        unsigned to;

        redis_cluster_start(&cluster, options);
        slot = redis_cluster_slot(&cluster, "{tag}");
        from = redis_cluster_owner(&cluster, "{tag}");
        to = (from + 1) % CLUSTER_NODES;
        redis_cluster_begin_move(&cluster, slot, from, to);
        rig_init_cluster(&rig, &cluster, 200);
        rig.config.user = user;
        rig.config.password = password;
        rig_open(&rig);
        cr_expect(sink_driver_probe(&rig.driver).kind == OUTCOME_DELIVERED);
        rig_deliver_all(&rig, 200);
        cr_expect(rig_count(&rig, OUTCOME_DELIVERED) == 200);
        redis_cluster_end_move(&cluster, slot, from, to);
        expect_all(&cluster, 200, to);
        rig_destroy(&rig);
        redis_cluster_destroy_all(&cluster);
}

Test(redis_cluster, is_down_while_no_node_answers)
{
        static char seed[] = "127.0.0.1:1";
        static char *only[] = {seed};
        struct redis_server nothing = {.port = 1};
        struct rig rig;

        rig_init(&rig, &nothing, 1);
        rig.config.host = NULL;
        rig.config.cluster = only;
        rig.config.n_cluster = 1;
        rig_open(&rig);
        rig_deliver_all(&rig, 1);
        expect_outcome(&rig, 0, OUTCOME_SINK_DOWN, "no node of the cluster could be asked");
        cr_expect(sink_driver_probe(&rig.driver).kind == OUTCOME_SINK_DOWN);
        rig_destroy(&rig);
}
