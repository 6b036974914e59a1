/*
 * How the parts of the sink hang together. Calls go downwards only:
 *
 *   kafka_sink      the contract: open, deliver, cancel, close
 *   kafka_queue     which attempt is sent when, what its report means, when a producer is given up
 *   kafka_workers   what may block: the probe's questions, a token's file
 *   kafka_probe     the questions
 *   kafka_producer  librdkafka's producer on the loop
 *   kafka_topics    names and handles        kafka_properties  the client's configuration
 *   kafka_answers   errors to outcomes
 */
#pragma once

#include "base/list.h"
#include "pgcourier/sink.h"
#include "sinks/kafka/kafka_producer.h"
#include "sinks/kafka/kafka_topics.h"

#include <stdatomic.h>

struct kafka_config;
struct kafka_worker;
struct message_maker;
struct timer;

struct kafka_sink {
        struct sink base;
        const struct kafka_config *config; /* borrowed */
        rd_kafka_conf_t *conf;             /* owned: what each producer begins with */
        struct message_maker *maker;       /* owned */
        struct kafka_topics *topics;       /* owned */

        struct kafka_listener listener;
        struct kafka_producer *producer; /* NULL before the first use, and while one retires */
        bool is_retiring;
        bool is_broken;     /* the producer is to be given up as soon as no worker uses it */
        bool is_closing;    /* nothing is under way any more, and nothing comes */
        unsigned n_workers; /* that use the producer's client */
        void (*on_worker_done)(struct kafka_sink *sink);

        /* Every attempt is in one of these: struct kafka_sending. */
        struct list waiting; /* not with the client yet */
        struct list sent;    /* the client's, the oldest first */
        struct list alone;   /* refused with their batch: go one by one, before all others */

        struct outcome trouble; /* what the client complained of last; DELIVERED: nothing */
        bool is_down;           /* no broker is connected, as far as we know */
        uint64_t down_since_ms;
        bool was_answered; /* since the start, or since the last outage */
        struct timer *look;

        struct kafka_worker *probing; /* NULL: none */
        sink_closed_fn *on_closed;
        void *closed_owner;
};

/* kafka_queue.c */
void kafka_queue_init(struct kafka_sink *sink);
void kafka_queue_add(struct kafka_sink *sink, struct attempt *attempt, struct kafka_topic *topic);
void kafka_queue_send(struct kafka_sink *sink);
void kafka_queue_cancel(struct kafka_sink *sink);
bool kafka_queue_has_producer(struct kafka_sink *sink, struct outcome *out_trouble);
void kafka_queue_close(struct kafka_sink *sink); /* calls sink->on_closed at the end */

/* kafka_workers.c; on_worker_done() is called at the end of each. */
void kafka_workers_probe(
    struct kafka_sink *sink, const struct outcome *failure, sink_probed_fn *on_probed, void *owner);
void kafka_workers_hurry(struct kafka_sink *sink); /* no broker is there: the probe may say so */
void kafka_workers_read_token(struct kafka_sink *sink);
