/*
 * A private NATS server for a test, with JetStream: on a free port of 127.0.0.1, with its store in
 * a temporary folder. It dies with the test process. What a test wants to know of it, it asks over
 * a connection of the rig's own, which shares no code with the sink.
 */
#pragma once

#include "support/process.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { NATS_CLUSTER_NODES = 3 };

struct nats_server {
        struct process process;
        char *folder; /* its configuration, log.txt and the store are in it */
        char *config; /* owned; the text of its configuration */
        uint16_t port;
        const char *login; /* members of CONNECT for the rig's own connections, as in
                            * "\"user\":\"a\",\"pass\":\"b\""; borrowed; NULL: none */
};

/*
 * `config` is more of the server's configuration, or NULL: accounts, permissions, tls {…}. Without
 * `jetstream` in it, JetStream is enabled. Returns when it takes connections and its JetStream
 * answers.
 */
void nats_server_start(struct nats_server *server, const char *config);

/* The same with the rig's login; `server` has been set to zero but for it. */
void nats_server_start_as(struct nats_server *server, const char *config, const char *login);

void nats_server_kill(struct nats_server *server); /* SIGKILL */

/* On the same port and store; after a kill. */
void nats_server_restart(struct nats_server *server);

/* Changes the configuration and lets it be read (SIGHUP), and waits until it was. */
void nats_server_reload(struct nats_server *server, const char *config);

void nats_server_pause(struct nats_server *server); /* SIGSTOP */
void nats_server_resume(struct nats_server *server);
void nats_server_retire(struct nats_server *server); /* SIGUSR2: lame duck */

/* Stops it if it runs. */
void nats_server_destroy(struct nats_server *server);

/* Three servers that are one cluster, each with the rest of the configuration. */
void nats_cluster_start(struct nats_server nodes[NATS_CLUSTER_NODES], const char *config);

/* The answer of JetStream's API: `subject` without $JS.API., `body` a JSON object or "". Aborts the
 * test without an answer. Release it with json_decref(). */
json_t *nats_server_ask(struct nats_server *server, const char *subject, const char *body);

/* Makes a stream with the defaults of the server but for `more`, as in ",\"max_msgs\":5". Aborts
 * the test if it is refused. */
void nats_server_make_stream(
    struct nats_server *server, const char *name, const char *subjects, const char *more);

/* The number of messages in the stream. */
long long nats_server_count(struct nats_server *server, const char *stream);

/* One message of a stream, by its number from 1: its subject, its headers as they are written, its
 * payload. */
struct nats_stored {
        char *subject;
        char *headers; /* "NATS/1.0\r\nA: b\r\n…"; "" if it has none */
        char *payload;
        size_t payload_bytes;
};

/* False: there is none of this number. */
bool nats_server_read(
    struct nats_server *server, const char *stream, long long number, struct nats_stored *out);
void nats_stored_deinit(struct nats_stored *stored);

/* The value of a header; NULL: it has none. Free it. */
char *nats_stored_header(const struct nats_stored *stored, const char *name);
