#include "support/redis_cluster.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SLOTS = 16384 };

static unsigned first_slot(unsigned i)
{
        return (i * SLOTS + CLUSTER_NODES - 1) / CLUSTER_NODES;
}

static void start_node(struct redis_cluster_rig *cluster, unsigned i, const char *const *options)
{
        static char bus_ports[CLUSTER_NODES][8];
        static const char *all[CLUSTER_NODES][24];
        const char **argv = all[i];
        size_t n = 0;
        redisReply *id;

        snprintf(bus_ports[i], sizeof bus_ports[i], "%u", free_port());
        argv[n++] = "--cluster-enabled";
        argv[n++] = "yes";
        argv[n++] = "--cluster-port";
        argv[n++] = bus_ports[i];
        argv[n++] = "--cluster-node-timeout";
        argv[n++] = "2000";
        while (options != NULL && *options != NULL)
                argv[n++] = *options++;
        argv[n] = NULL;
        redis_server_start(&cluster->nodes[i], argv);
        snprintf(
            cluster->seeds[i], sizeof cluster->seeds[i], "127.0.0.1:%u", cluster->nodes[i].port);
        redis_server_do(&cluster->nodes[i], "CLUSTER ADDSLOTSRANGE %u %u", first_slot(i),
            first_slot(i + 1) - 1);
        redis_server_do(&cluster->nodes[i], "CLUSTER SET-CONFIG-EPOCH %u", i + 1);
        id = redis_server_run(&cluster->nodes[i], "CLUSTER MYID");
        snprintf(cluster->ids[i], sizeof cluster->ids[i], "%s", id->str);
        freeReplyObject(id);
        if (i > 0)
                redis_server_do(&cluster->nodes[i], "CLUSTER MEET 127.0.0.1 %u %s",
                    cluster->nodes[0].port, all[0][3]);
}

static bool knows_all(struct redis_server *node)
{
        redisReply *info = redis_server_run(node, "CLUSTER INFO");
        redisReply *slots = redis_server_run(node, "CLUSTER SLOTS");
        bool is_ready = strstr(info->str, "cluster_state:ok") != NULL &&
                        slots->type == REDIS_REPLY_ARRAY && slots->elements == CLUSTER_NODES;

        freeReplyObject(info);
        freeReplyObject(slots);
        return is_ready;
}

bool redis_cluster_is_formed(void *context)
{
        struct redis_cluster_rig *cluster = context;

        for (unsigned i = 0; i < CLUSTER_NODES; i++)
                if (!knows_all(&cluster->nodes[i]))
                        return false;
        return true;
}

void redis_cluster_start(struct redis_cluster_rig *cluster, const char *const *options)
{
        for (unsigned i = 0; i < CLUSTER_NODES; i++)
                start_node(cluster, i, options);
        wait_until(redis_cluster_is_formed, cluster, 30000, "the cluster does not form");
}

void redis_cluster_destroy_all(struct redis_cluster_rig *cluster)
{
        for (unsigned i = 0; i < CLUSTER_NODES; i++)
                redis_server_destroy(&cluster->nodes[i]);
}

unsigned redis_cluster_slot(struct redis_cluster_rig *cluster, const char *key)
{
        return (unsigned)redis_server_count(&cluster->nodes[0], "CLUSTER KEYSLOT %s", key);
}

unsigned redis_cluster_owner(struct redis_cluster_rig *cluster, const char *key)
{
        unsigned slot = redis_cluster_slot(cluster, key);
        unsigned i = 0;

        while (slot >= first_slot(i + 1))
                i++;
        return i;
}

void redis_cluster_begin_move(
    struct redis_cluster_rig *cluster, unsigned slot, unsigned from, unsigned to)
{
        redis_server_do(
            &cluster->nodes[to], "CLUSTER SETSLOT %u IMPORTING %s", slot, cluster->ids[from]);
        redis_server_do(
            &cluster->nodes[from], "CLUSTER SETSLOT %u MIGRATING %s", slot, cluster->ids[to]);
}

void redis_cluster_move_key(
    struct redis_cluster_rig *cluster, const char *key, unsigned from, unsigned to)
{
        redis_server_do(
            &cluster->nodes[from], "MIGRATE 127.0.0.1 %u %s 0 5000", cluster->nodes[to].port, key);
}

void redis_cluster_end_move(
    struct redis_cluster_rig *cluster, unsigned slot, unsigned from, unsigned to)
{
        const unsigned order[CLUSTER_NODES] = {to, from, CLUSTER_NODES - to - from};

        for (unsigned i = 0; i < CLUSTER_NODES; i++)
                redis_server_do(&cluster->nodes[order[i]], "CLUSTER SETSLOT %u NODE %s", slot,
                    cluster->ids[to]);
}
