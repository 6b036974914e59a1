/* exactly_once in a real Redis Cluster: the marks lie in the slot of their stream, and move with
 * it. */
#include "redis_rig.h"

#include "support/redis_cluster.h"

static char *seeds[CLUSTER_NODES];

static void open_marked(struct rig *rig, struct redis_cluster_rig *cluster, uint64_t epoch)
{
        for (unsigned i = 0; i < CLUSTER_NODES; i++)
                seeds[i] = cluster->seeds[i];
        rig_init(rig, &cluster->nodes[0], 100);
        rig->config.host = NULL;
        rig->config.cluster = seeds;
        rig->config.n_cluster = CLUSTER_NODES;
        rig->config.exactly_once = true;
        for (unsigned i = 0; i < 100; i++)
                rig->events[i].key = "k";
        rig_open(rig);
        rig->driver.sink->ops->owned(rig->driver.sink, epoch);
}

static void expect_count(struct redis_server *node, long long n_entries, long long n_marks)
{
        cr_expect_eq(redis_server_count(node, "XLEN events"), n_entries);
        cr_expect_eq(redis_server_count(node, "SCARD {events}:delivered:driven"), n_marks);
}

static bool has_no_marks(void *node)
{
        return redis_server_count(node, "EXISTS {events}:delivered:driven") == 0;
}

Test(redis_dedup_cluster, are_found_where_their_slot_has_moved_to)
{
        struct redis_cluster_rig cluster;
        struct rig first;
        struct rig second;
        unsigned from;
        unsigned to;
        unsigned slot;
        int64_t ids[20];

        redis_cluster_start(&cluster, NULL);
        from = redis_cluster_owner(&cluster, "events");
        to = (from + 1) % CLUSTER_NODES;
        slot = redis_cluster_slot(&cluster, "events");
        open_marked(&first, &cluster, 1);
        rig_deliver_all(&first, 10);
        cr_expect(rig_count(&first, OUTCOME_DELIVERED) == 10);
        expect_count(&cluster.nodes[from], 10, 10);

        redis_cluster_begin_move(&cluster, slot, from, to);
        redis_cluster_move_key(&cluster, "events", from, to);
        redis_cluster_move_key(&cluster, "{events}:owner:driven", from, to);
        redis_cluster_move_key(&cluster, "{events}:delivered:driven", from, to);
        redis_cluster_end_move(&cluster, slot, from, to);
        rig_deliver_all(&first, 5); /* redirected, and claimed there */
        cr_expect(rig_count(&first, OUTCOME_DELIVERED) == 15);
        expect_count(&cluster.nodes[to], 15, 15);
        rig_destroy(&first);

        open_marked(&second, &cluster, 2);
        rig_deliver_all(&second, 20);
        cr_expect(rig_count(&second, OUTCOME_DELIVERED) == 20);
        expect_count(&cluster.nodes[to], 20, 20);
        for (int i = 0; i < 20; i++)
                ids[i] = second.events[i].id;
        second.driver.sink->ops->settled(second.driver.sink, ids, 20);
        sink_driver_run_until(&second.driver, has_no_marks, &cluster.nodes[to], "the marks to go");
        rig_destroy(&second);
        redis_cluster_destroy_all(&cluster);
}
