/*
 * The parts of one redis sink, and how they hang together. Calls go downwards only:
 *
 *   redis_sink      opens the parts, and has a router: which node serves which queue
 *   redis_cluster   the router of a Redis Cluster
 *   redis_node      one connection, and the queues that it serves
 *   redis_answers   what a reply means for the burst that it answers
 *   redis_queue     what is to go out in order, in bursts
 *
 * One Redis, or one found through Sentinel: one queue, one node. Redis Cluster: a queue for each
 * stream that is in use, a node for each master. A queue belongs to no node: before each burst the
 * router says whose turn it is, and a burst that was redirected stays in its queue and goes out
 * again as a whole.
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
struct redis_node;
struct redis_queue;
struct redis_sink;
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

/* What became of one request. */
struct redis_answer {
        struct redis_request request;
        bool is_delivered;
        struct redis_verdict verdict; /* unless it was delivered */
};

/* Who says which node serves which queue. */
struct redis_router {
        /* Leads a queue that is in no list to the node whose turn it is, or lets it wait. A cluster
         * destroys a queue that has nothing to send. */
        void (*serve)(struct redis_sink *sink, struct redis_queue *queue);

        /* Of a cluster: the queue's burst was not executed, and this is where its stream is. */
        void (*redirect)(struct redis_sink *sink, struct redis_queue *queue,
            const struct redis_redirect *redirect);

        /* Of a cluster, NULL without one: slots may have moved. */
        void (*rediscover)(struct redis_sink *sink);
};

struct redis_sink {
        struct sink base;
        const struct redis_config *config; /* borrowed */
        const struct redis_router *router;
        struct tls_context *tls; /* owned; NULL: plain */
        struct redis_command *encoder;
        struct redis_burst_policy policy;
        struct redis_keys keys; /* of the bursts in flight; not with a cluster */
        struct redis_probe probe;
        struct redis_answer *answers; /* to one burst, from judging them until they are given */

        struct redis_dedup *dedup; /* exactly_once; else NULL */
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
        struct redis_node *node;   /* where the burst was sent to */
        unsigned n_alone;          /* so many of the next bursts hold one event only */

        /* Of a cluster's. */
        struct list all_link;     /* in the cluster's list of all */
        struct redis_queue *next; /* of those in the same slot */
        unsigned slot;
        struct bytes stream;
        unsigned n_redirects;     /* of the burst at hand */
        struct redis_node *asked; /* the next burst goes there with ASKING; or NULL */
        bool awaits_asking;       /* the answer to ASKING comes first */

        /* The answers to the burst while its replicas are counted, since others of the sink are
         * answered meanwhile; owned; or NULL. */
        struct redis_answer *held;
};

struct redis_node {
        struct redis_sink *sink;
        struct redis_endpoint endpoint; /* owned; with Sentinel the last one it named */
        struct redis_connection *connection;
        uint64_t number;     /* of the connection, among all of the sink */
        struct list sent;    /* queues with a burst in flight, in the order of sending */
        struct list waiting; /* queues that wait until it is connected */
};

/* redis_queue.c: the requests of one order, and what is sent of them. */
struct redis_queue *redis_queue_create(struct redis_sink *sink);
void redis_queue_destroy(struct redis_queue *queue); /* it is empty; NULL is allowed */

/* There is something to send, perhaps without a request: entries of the ledger may be due to go. */
bool redis_queue_has_work(const struct redis_queue *queue);

/* Appends what is to go first to `out`, for queue->node, where it has no burst in flight.
 * Returns the number of commands; 0: there was nothing to send after all. */
unsigned redis_queue_send(struct redis_queue *queue, struct bytes *out);

/* Likewise another burst behind the one in flight, if that is of use and harms no order. */
unsigned redis_queue_send_behind(struct redis_queue *queue, struct bytes *out);

/* The queue has no burst in flight any more, and is in no list of its node's. */
void redis_queue_end_bursts(struct redis_queue *queue);

/* Finishes a request, also the probe's, in a later turn. */
void redis_request_finish_later(
    struct redis_sink *sink, const struct redis_request *request, const struct outcome *outcome);

/* What a reply asks of the node, to be done in this order. */
struct redis_reaction {
        bool drops;         /* close the connection: nothing more will be answered */
        bool leaves;        /* close it once all is answered */
        bool rediscovers;   /* servers may have changed places */
        bool is_redirected; /* nothing was executed: see verdict->redirect */
        bool may_send;      /* else an answer or a flush has to come first */
        size_t n_answers;   /* of the first ones in sink->answers, to be given at last */
        const struct redis_verdict *verdict; /* of drops and is_redirected: why, and where to */
};

/* redis_answers.c: takes the reply that is due. */
struct redis_reaction redis_queue_take(struct redis_queue *queue, const redisReply *reply);

/* Gives back all requests: as it is with a lost connection, or with `outcome`. */
void redis_queue_lose(
    struct redis_queue *queue, enum outcome_fault fault, bool needs_operator, const char *reason);
void redis_queue_give_back(struct redis_queue *queue, const struct outcome *outcome);

/* redis_probe.c: appends the question of the step at hand; says what the answer means, which would
 * mean `was` if it were one to an event. */
void redis_probe_encode(const struct redis_sink *sink, struct bytes *out);
struct outcome redis_probe_judge(
    const struct redis_sink *sink, const redisReply *reply, const struct outcome *was);

/* Appends the name of the stream that is asked for. */
void redis_probe_append_stream(const struct redis_sink *sink, struct bytes *name);

/* redis_node.c: one connection and the queues that it serves. */
struct redis_node *redis_node_create(
    struct redis_sink *sink, const struct redis_endpoint *endpoint);
void redis_node_destroy(struct redis_node *node); /* NULL is allowed */

/* Sends what the queue holds, unless it waits for a connection or an answer. A cluster's queue
 * that is empty is destroyed: do not use it afterwards. */
void redis_node_advance(struct redis_queue *queue);

/* Sends the queue's burst now, or once it is connected. */
void redis_node_serve(struct redis_node *node, struct redis_queue *queue);

/* Closes the connection once all is answered: it leads to the wrong server. */
void redis_node_leave(struct redis_node *node);
void redis_node_flush(struct redis_node *node);
