/*
 * The parts of one redis sink, and how they hang together.
 *
 *   sink ── queues: what is to go out in order, in bursts
 *     └──── nodes: one connection each, with the queues that it serves
 *
 * One Redis, or one found through Sentinel: one queue, one node. Redis Cluster: a queue for each
 * stream that is in use, a node for each master. A queue belongs to no node: before each burst
 * redis_sink_route() says whose turn it is, and a burst that was redirected stays in its queue and
 * goes out again as a whole.
 */
#pragma once

#include "base/bytes.h"
#include "base/list.h"
#include "pgcourier/sink.h"
#include "sinks/redis/redis_burst.h"
#include "sinks/redis/redis_connection.h"

struct redis_cluster;
struct redis_sentinel;
struct redis_command;
struct redis_dedup;
struct timer;
struct tls_context;

enum redis_probe_step {
        PROBE_WRITING, /* would it take events? */
        PROBE_MEMORY,  /* for how long? */
};

struct redis_probe {
        enum redis_probe_step step;
        sink_probed_fn *on_probed; /* NULL: no probe is running */
        void *owner;
        struct outcome outcome;
        struct timer *answer; /* gives the outcome in a later turn */
};

/* What became of one request of a burst that is answered as a whole. */
struct redis_judgement {
        bool is_delivered;
        struct redis_verdict verdict; /* unless it was */
};

/* exactly_once: what stands in place of a burst. */
enum marks_phase {
        MARKS_USABLE,
        MARKS_CLAIMING,   /* the first on this connection */
        MARKS_CONFIRMING, /* likewise, and the replicas are counted: they must have what is marked */
        MARKS_TIDYING,    /* marks are removed while there is nothing else to send */
};

struct redis_sink {
        struct sink base;
        const struct redis_config *config; /* borrowed */
        struct tls_context *tls;           /* owned; NULL: plain */
        struct redis_command *encoder;
        struct redis_burst_policy policy;
        struct redis_keys keys; /* of the bursts in flight; not with a cluster */
        struct bytes command;   /* the request at hand, encoded */
        struct redis_probe probe;
        struct redis_request *answered; /* those of the last burst, while they are being finished */
        struct redis_judgement *judgements; /* on each of them, as soon as it is known */

        struct redis_dedup *marks; /* exactly_once; else NULL */
        uint64_t n_connections;    /* made so far */
        uint64_t claimed_on;       /* the number of the one that has claimed the stream; 0: none */

        struct redis_node *node;         /* owned; NULL with a cluster */
        struct redis_queue *queue;       /* owned; NULL with a cluster */
        struct redis_sentinel *sentinel; /* owned; or NULL */
        struct redis_cluster *cluster;   /* owned; or NULL */
};

struct redis_queue {
        struct redis_sink *sink;
        struct list link; /* in the list of those that wait, or are served, where it does */
        struct redis_ring ring;
        struct redis_burst burst;  /* of those in the ring that are sent */
        struct redis_burst behind; /* likewise, sent behind it; or not open */
        bool is_behind_refused;    /* none can be sent before the burst is answered */
        struct redis_node *node;   /* where it is sent to */
        enum marks_phase phase;
        unsigned n_alone; /* so many of the next bursts hold one event only */

        /* Of a cluster's. */
        struct list all_link;     /* in the cluster's list of all */
        struct redis_queue *next; /* of those in the same slot */
        unsigned slot;
        struct bytes stream;
        unsigned n_redirects;     /* of the burst at hand */
        struct redis_node *asked; /* the next burst goes there with ASKING; or NULL */
        bool awaits_asking;       /* the answer to ASKING comes first */
};

struct redis_node {
        struct redis_sink *sink;
        struct redis_endpoint endpoint; /* owned; with Sentinel the last one it named */
        struct redis_connection *connection;
        uint64_t number;     /* of the connection, among all of the sink */
        struct list sent;    /* queues with a burst in flight, in the order of sending */
        struct list waiting; /* queues that wait until it is connected */
};

/* redis_queue.c: requests and what becomes of them. */
struct redis_queue *redis_queue_create(struct redis_sink *sink);
void redis_queue_destroy(struct redis_queue *queue); /* it is empty; NULL is allowed */

/* Sends the next burst if there is one and nothing stands against it. A cluster's queue that is empty
 * is destroyed: do not use it afterwards. */
void redis_queue_advance(struct redis_queue *queue);

/* Takes the answer that is due; the sink may be gone afterwards. */
void redis_queue_take(struct redis_queue *queue, const redisReply *reply);

/* Gives back all requests: as it is with a lost connection, or with `outcome`. */
void redis_queue_lose(
    struct redis_queue *queue, enum outcome_fault fault, bool needs_operator, const char *reason);
void redis_queue_give_back(struct redis_queue *queue, const struct outcome *outcome);

/* redis_send.c: sends the next burst to the node, which is READY. */
void redis_queue_send(struct redis_queue *queue, struct redis_node *node);

/* Sends another burst behind the one in flight, if that is of use and harms no order. */
void redis_queue_send_behind(struct redis_queue *queue);

/* There is something to send although no request waits. */
bool redis_queue_wants_tidying(const struct redis_queue *queue);

/* redis_probe.c: appends the question of the step at hand; puts it into a queue; says what the answer
 * means, which would mean `was` if it were one to an event. */
void redis_probe_encode(const struct redis_sink *sink, struct bytes *out);
void redis_probe_queue(struct redis_sink *sink);
struct outcome redis_probe_judge(
    const struct redis_sink *sink, const redisReply *reply, const struct outcome *was);

/* redis_node.c: one connection and the queues that it serves. */
struct redis_node *redis_node_create(
    struct redis_sink *sink, const struct redis_endpoint *endpoint);
void redis_node_destroy(struct redis_node *node); /* NULL is allowed */

/* Sends the queue's burst now, or once it is connected. */
void redis_node_serve(struct redis_node *node, struct redis_queue *queue);

/* Closes the connection. Queues with a burst in flight lose it. */
void redis_node_drop(struct redis_node *node, const char *reason);

/* Closes the connection once all is answered: it leads to the wrong server. */
void redis_node_leave(struct redis_node *node);
void redis_node_flush(struct redis_node *node);

/* redis_sink.c */

/* Leads the queue to the node whose turn it is, or lets it wait. */
void redis_sink_route(struct redis_queue *queue);
void redis_sink_finish_later(
    struct redis_sink *sink, const struct redis_request *request, const struct outcome *outcome);
