/*
 * A private Apache Kafka for a test: one node or three, KRaft, on free ports of 127.0.0.1. Its jars
 * are those that scripts/deps --kafka has put into .cache; which version is for the environment to
 * say (PGCOURIER_KAFKA: 3.9 or 4.1). The nodes die with the test process.
 *
 * The first listener has no login, and all rights. With has_logins there are two more, whose
 * certificates are for 127.0.0.1 ("localhost" may be ::1, where none listens): one with SASL over
 * TLS (PLAIN, SCRAM and OAUTHBEARER with unsigned tokens), one that wants a certificate. A user
 * there may write to topics that begin with "open", and to no others.
 */
#pragma once

#include "support/process.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define KAFKA_PASSWORD "hunter2-canary"

enum { KAFKA_MAX_NODES = 3 };

struct kafka_server_options {
        unsigned n_nodes;           /* 0: one */
        bool has_logins;            /* user "relay", password KAFKA_PASSWORD */
        const char *properties;     /* more lines of server.properties; NULL: none */
        const uint16_t *advertised; /* ports that clients are sent to instead, of each node: a proxy
                                     * in between; NULL: the nodes' own */
};

struct kafka_node {
        struct process process;
        char *folder; /* server.properties, log.txt, the data */
        uint16_t port;
        uint16_t sasl_port;
        uint16_t certificate_port;
        uint16_t controller_port;
};

struct kafka_server {
        struct kafka_node nodes[KAFKA_MAX_NODES];
        unsigned n_nodes;
        bool is_shared; /* its process is the runner's child */
        struct kafka_server_options options;
        const char *version; /* "4.1" */
        char brokers[128];   /* "127.0.0.1:port,…" of the test's own listener */
};

/* The node with logins that the tests of one binary share; it ends with the runner. Its certificate
 * is signed by itself: ca.pem, and the one that a client may show is client.pem, its key
 * client-key.pem, in the node's folder. */
struct kafka_server *kafka_server_shared(void);

const char *kafka_server_version(void); /* the one that is asked for: "4.1" */
bool kafka_server_is_available(void);

/* Skips the test, saying so, where there are no jars or there is no Java. */
void kafka_server_require(void);

/* Returns when all nodes answer. */
void kafka_server_start(struct kafka_server *server, const struct kafka_server_options *options);

/* The same on ports chosen before: kafka_server_prepare() fills them. */
void kafka_server_prepare(struct kafka_server *server, const struct kafka_server_options *options);
void kafka_server_launch(struct kafka_server *server);

/* Ends what still runs. */
void kafka_server_destroy(struct kafka_server *server);

void kafka_node_kill(struct kafka_node *node); /* SIGKILL */
void kafka_node_pause(struct kafka_node *node);
void kafka_node_resume(struct kafka_node *node);

/* After a kill; returns when it answers. */
void kafka_node_restart(struct kafka_server *server, struct kafka_node *node);

/* `config` is pairs of name and value, ending with NULL; NULL: none. Returns when each partition
 * has a leader. */
void kafka_server_topic(
    struct kafka_server *server, const char *name, int partitions, const char *const *config);

void kafka_server_delete_topic(struct kafka_server *server, const char *name);

/* The node that leads partition 0. */
struct kafka_node *kafka_server_leader(struct kafka_server *server, const char *topic);

/* A certificate of its own for the server and one for the client, in the node's folder. */
void kafka_server_make_certificates(const char *folder);
