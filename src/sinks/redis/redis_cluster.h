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
struct redis_sink;

/* The slot of a key, or of a stream's name: if it has a {tag} that is not empty, only the tag counts. */
unsigned redis_slot_of(const char *key, size_t length);

/* NULL and *error if the config names no node that can be asked. */
struct redis_cluster *redis_cluster_create(struct redis_sink *sink, struct error *error);
void redis_cluster_destroy(struct redis_cluster *cluster); /* NULL is allowed */

/* The queue of the stream of this name; made if need be. */
struct redis_queue *redis_cluster_queue(
    struct redis_cluster *cluster, const char *stream, size_t length);

/* The queue is going to be destroyed. */
void redis_cluster_forget(struct redis_cluster *cluster, struct redis_queue *queue);

/* Leads the queue to the node that has its slot, once that is known. */
void redis_cluster_route(struct redis_cluster *cluster, struct redis_queue *queue);

/* Takes note of where a burst of the queue belongs. */
void redis_cluster_redirect(struct redis_cluster *cluster, struct redis_queue *queue,
    const struct redis_redirect *redirect);

/* The map may be out of date: it is read anew before it is next used. */
void redis_cluster_doubt(struct redis_cluster *cluster);

/* Sends what can be sent. */
void redis_cluster_flush(struct redis_cluster *cluster);

/* Closes all connections and gives all requests back. */
void redis_cluster_cancel(struct redis_cluster *cluster);
