/*
 * A private RabbitMQ for a test, from Debian's package: on free ports of 127.0.0.1, plain and TLS,
 * with its own epmd and a temporary folder. It dies with the test process. Starting takes seconds,
 * so the tests of a binary share one (rabbitmq_shared()), each with virtual hosts of its own.
 */
#pragma once

#include "support/process.h"

#include <stdbool.h>
#include <stdint.h>

struct rabbitmq_server {
        struct process process;
        struct process epmd;
        char *folder;       /* log.txt in it, and log/ */
        char *certificates; /* a folder: ca.pem, server.pem, client.pem, and their keys *-key.pem */
        char name[32];      /* of the node */
        char peers[96];     /* of the cluster to join, as Erlang writes it; "": none */
        uint16_t port;
        uint16_t tls_port; /* takes the certificate of client.pem (CN=client) instead of a login */
        uint16_t dist_port;
        uint16_t epmd_port;
};

/* Returns when it answers. The second does not wait. */
void rabbitmq_server_start(struct rabbitmq_server *server);
void rabbitmq_server_start_soon(struct rabbitmq_server *server);

/* Three nodes of one cluster. */
void rabbitmq_cluster_start(struct rabbitmq_server nodes[3]);

void rabbitmq_server_kill(struct rabbitmq_server *server); /* SIGKILL */

/* On the same ports and folder, after kill. The second does not wait. */
void rabbitmq_server_restart(struct rabbitmq_server *server);
void rabbitmq_server_restart_soon(struct rabbitmq_server *server);
void rabbitmq_server_wait(struct rabbitmq_server *server);

void rabbitmq_server_pause(
    struct rabbitmq_server *server); /* SIGSTOP: takes connections, says nothing */
void rabbitmq_server_resume(struct rabbitmq_server *server);

/* Stops it if it runs. */
void rabbitmq_server_destroy(struct rabbitmq_server *server);

/* The one that the tests of this binary share. */
struct rabbitmq_server *rabbitmq_shared(void);

/* Evaluates Erlang within the node, and returns what it makes of it, as Erlang writes it; aborts the
 * test if it fails. Free it. */
char *rabbitmq_eval(const struct rabbitmq_server *server, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* The same for those whose answer is of no interest. */
void rabbitmq_do(const struct rabbitmq_server *server, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* A new virtual host, to which guest has all rights. */
void rabbitmq_make_vhost(const struct rabbitmq_server *server, const char *vhost);

/* `arguments` is a list as Erlang writes it; "" is [{"x-queue-type", longstr, "quorum"}]'s place for
 * a classic queue without arguments. Durable. */
void rabbitmq_make_exchange(
    const struct rabbitmq_server *server, const char *vhost, const char *name, const char *type);
void rabbitmq_make_queue(const struct rabbitmq_server *server, const char *vhost, const char *name,
    const char *arguments);
void rabbitmq_bind(const struct rabbitmq_server *server, const char *vhost, const char *exchange,
    const char *queue, const char *routing_key);

/* What pika, another client, finds in a queue: one line of JSON for each message, which is taken
 * out. Waits until there are `n`. Free it. */
enum { RABBITMQ_ALL = -1 }; /* what there is */
char *rabbitmq_drain(
    const struct rabbitmq_server *server, const char *vhost, const char *queue, int n);

/* The nodes' memory is said to be short, or not. */
void rabbitmq_set_alarm(const struct rabbitmq_server *server, bool is_short);
