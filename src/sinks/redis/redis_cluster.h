/*
 * Which node of a Redis Cluster has which slot, and the queues of the streams that are in use.
 */
#pragma once

#include "sinks/redis/redis_replies.h"

#include <stddef.h>

struct error;
struct event;
struct redis_cluster;
struct redis_queue;
struct redis_router;
struct redis_sink;

/* The slot of a key, or of a stream's name: if it has a {tag} that is not empty, only the tag
 * counts. */
unsigned redis_slot_of(const char *key, size_t length);

/* NULL and *error if the config names no node that can be asked. */
struct redis_cluster *redis_cluster_create(struct redis_sink *sink, struct error *error);
void redis_cluster_destroy(struct redis_cluster *cluster); /* NULL is allowed */

/* The queue of the stream of this name; made if need be. */
struct redis_queue *redis_cluster_queue(
    struct redis_cluster *cluster, const char *stream, size_t length);

/* Leads each queue to the node that has its slot, once that is known. */
extern const struct redis_router redis_cluster_router;

/* Sends what can be sent. */
void redis_cluster_flush(struct redis_cluster *cluster);

/* Closes all connections and gives all requests back. */
void redis_cluster_cancel(struct redis_cluster *cluster);
