/*
 * One producer of librdkafka on the loop. Its threads never call us: what they have to say stands
 * in a queue, an eventfd tells the loop of it, and it is read here.
 *
 * A producer lasts for the life of the sink, unless it breaks: after a fatal error, or when it
 * says nothing at all any more, the sink retires it and makes another.
 */
#pragma once

#include "pgcourier/outcome.h"

#include <librdkafka/rdkafka.h>
#include <stdbool.h>
#include <uv.h>

struct error;
struct kafka_producer;

/* All called from turns of the loop, with `owner`. In each the producer may be retired; it then
 * says nothing more, but for the other reports of a batch in on_report. */
struct kafka_listener {
        /* What became of a message; code 0: it is stored. `opaque` is what it was produced with. */
        void (*on_report)(void *owner, void *opaque, rd_kafka_resp_err_t code, bool may_be_stored);

        /* A connection, a login, a name: the cluster may be served by others still. */
        void (*on_trouble)(void *owner, const struct outcome *trouble);
        void (*on_all_down)(void *owner);                             /* no broker is connected */
        void (*on_fatal)(void *owner, const struct outcome *trouble); /* it is of no use any more */
        void (*on_topic_made)(
            void *owner, const char *topic, rd_kafka_resp_err_t code, const char *words);
        void (*on_token_wanted)(void *owner);
        void (*on_idle)(void *owner); /* last: all that stood in the queue was told */
        void *owner;
};

/* Starts its threads; connects by itself. `conf` is copied; `sink` and `listener` are borrowed. On
 * failure returns NULL and sets *error: a certificate that cannot be read, a setting that does not
 * go with another. */
struct kafka_producer *kafka_producer_create(uv_loop_t *loop, const char *sink,
    const rd_kafka_conf_t *conf, const struct kafka_listener *listener, struct error *error);

rd_kafka_t *kafka_producer_client(const struct kafka_producer *producer);

/* Where answers to its administrative requests have to go. */
rd_kafka_queue_t *kafka_producer_queue(const struct kafka_producer *producer);

/* Says nothing more, drops what it has, and frees itself on a thread of libuv's pool, as that may
 * wait for a name server. Then `on_gone`. All handles of topics are closed. */
typedef void kafka_gone_fn(void *owner);
void kafka_producer_retire(struct kafka_producer *producer, kafka_gone_fn *on_gone, void *owner);
