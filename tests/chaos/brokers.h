/*
 * The three brokers of a chaos run, each on a road of its own: NATS, one server or a cluster of
 * three, with a stream that the relays make; RabbitMQ with a quorum queue; and Kafka with a topic of
 * several partitions, if its jars are there. RabbitMQ and Kafka take seconds to start, so nothing
 * here waits for that but brokers_await().
 */
#pragma once

#include "chaos/arrivals.h"
#include "chaos/fault_proxy.h"
#include "chaos/plan.h"
#include "support/kafka_server.h"
#include "support/nats_server.h"
#include "support/rabbitmq_server.h"

#include <stdatomic.h>

#define BROKERS_STREAM "EVENTS" /* of NATS; its subjects are events.> */
#define BROKERS_QUEUE  "chaos"  /* of RabbitMQ; the exchange and the routing key, too */
#define BROKERS_TOPIC  "chaos"  /* of Kafka */
#define BROKERS_WINDOW "10m"    /* in which NATS knows what it has got; longer than any outage */

enum { KAFKA_PARTITIONS = 4 };

/* Starts Kafka, and starts it again: its children would end with the thread that started them. */
struct keeper {
        pthread_t thread;
        pthread_mutex_t lock;
        pthread_cond_t wish;
        bool wants_start, is_over; /* under the lock */
        bool is_made;              /* the topic is there */
        atomic_bool is_ready;
};

struct brokers {
        unsigned present; /* enum broker, as bits */
        struct nats_server nats[NATS_CLUSTER_NODES];
        unsigned n_nats;
        unsigned nats_hit; /* which of them a fault befell last */
        struct rabbitmq_server rabbit;
        struct kafka_server kafka;
        struct fault_link *links[N_BROKERS];               /* owned by the proxy */
        struct fault_link *nats_links[NATS_CLUSTER_NODES]; /* the first is that of links, too */
        uint16_t kafka_ports[1];                           /* that it tells its clients */
        struct keeper keeper;
        bool is_retired;         /* one of NATS, which is to be killed next */
        bool is_down[N_BROKERS]; /* killed, and not started again */
        bool is_rabbit_starting;
        struct rabbit_watch *watch;
        int64_t mended_us; /* monotonic: the binding is back, its sink to be resumed; 0: not so */
        int64_t next_look_us;
        int64_t kafka_offsets[KAFKA_PARTITIONS]; /* read so far */
};

/* Those that can take part here. */
unsigned brokers_available(void);

/* Starts those of `present`, with a link to each. From brokers_await() on RabbitMQ's queue is
 * watched; what is read of it in the end is noted in `of_rabbit`. */
void brokers_begin(
    struct brokers *brokers, unsigned present, bool has_clusters, struct fault_proxy *proxy);
void brokers_await(struct brokers *brokers, struct arrivals *of_rabbit);
void brokers_end(struct brokers *brokers);

bool brokers_have(const struct brokers *brokers, enum broker broker);
const char *broker_name(enum broker broker);

/* To all of its servers. */
void broker_set_link(struct brokers *brokers, enum broker broker, const struct fault *fault);

/* It runs, and has come to an end of its start. */
bool broker_is_ready(struct brokers *brokers, enum broker broker);

/* Of a cluster, one server: the leader of the stream. */
void broker_kill(struct brokers *brokers, enum broker broker);
void broker_start_again(struct brokers *brokers, enum broker broker);
void broker_freeze(struct brokers *brokers, enum broker broker);
void broker_thaw(struct brokers *brokers, enum broker broker);

/* Where relays find NATS, as in its `servers`. Free it. */
char *brokers_nats_servers(const struct brokers *brokers);

/* Of a cluster, one that no fault has befallen last. */
struct nats_server *brokers_sound_nats(struct brokers *brokers);

/* Ends the clients of the leader of the stream, after a while; then kill it. */
void brokers_retire_nats(struct brokers *brokers);

/* What NATS has in its stream is all that it takes, or not; false without a stream, and for a
 * cluster, which at times does not answer when a stream is to be changed. What is in the stream must
 * have been read: at the worst the oldest of it goes. */
bool brokers_set_nats_full(struct brokers *brokers, bool is_full);

void brokers_set_rabbit_full(struct brokers *brokers, bool is_full);
void brokers_set_rabbit_bound(struct brokers *brokers, bool is_bound);
void brokers_set_rabbit_alarm(struct brokers *brokers, bool is_of_disk, bool is_raised);
void brokers_close_rabbit_connections(struct brokers *brokers);

/* More replicas are asked for than there are, or not. */
void brokers_set_kafka_short(struct brokers *brokers, bool is_short);
