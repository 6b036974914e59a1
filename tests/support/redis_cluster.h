/*
 * A private Redis Cluster of three masters without replicas. They share the 16384 slots evenly, in
 * order: the first one has 0 to 5461.
 */
#pragma once

#include "support/redis_server.h"

enum { CLUSTER_NODES = 3 };

struct redis_cluster_rig {
        struct redis_server nodes[CLUSTER_NODES];
        char ids[CLUSTER_NODES][48];
        char seeds[CLUSTER_NODES][32]; /* "127.0.0.1:port" */
};

/* `options` as in redis_server_start(), for each. Returns when each knows all slots. */
void redis_cluster_start(struct redis_cluster_rig *cluster, const char *const *options);
/* For wait_until(): each node knows where all slots are. */
bool redis_cluster_is_formed(void *cluster);
void redis_cluster_destroy_all(struct redis_cluster_rig *cluster);

/* The node that has the slot of this key, and the slot. */
unsigned redis_cluster_owner(struct redis_cluster_rig *cluster, const char *key);
unsigned redis_cluster_slot(struct redis_cluster_rig *cluster, const char *key);

/* The steps of moving a slot, as redis-cli does them. */
void redis_cluster_begin_move(
    struct redis_cluster_rig *cluster, unsigned slot, unsigned from, unsigned to);
void redis_cluster_move_key(
    struct redis_cluster_rig *cluster, const char *key, unsigned from, unsigned to);
void redis_cluster_end_move(
    struct redis_cluster_rig *cluster, unsigned slot, unsigned from, unsigned to);
