/*
 * One question put to several servers in turn, on short-lived connections, until one gives a usable
 * answer. Sentinels are asked for the master, nodes of a cluster for the map of slots.
 */
#pragma once

#include "sinks/redis/redis_connection.h"

#include <stddef.h>

struct error;
struct redis_discovery;

/* The servers to ask. All zero is empty. */
struct redis_endpoints {
        struct redis_endpoint *items; /* owned, with their hosts */
        size_t n;
};

/* Reads texts "host" or "host:port"; `default_port` stands for a port that is not given. False and
 * *error (ERROR_CONFIG) if a text is not of that form. */
bool redis_endpoints_read(struct redis_endpoints *endpoints, char *const *texts, size_t n_texts,
    uint16_t default_port, struct error *error);

/* Copies the host. */
void redis_endpoints_add(struct redis_endpoints *endpoints, const char *host, uint16_t port);
void redis_endpoints_deinit(struct redis_endpoints *endpoints);

/* True and *out_port if `text` is a number from 1 to 65535. */
bool redis_port_parse(const char *text, uint16_t *out_port);

struct redis_discovery_events {
        /* True if the answer is usable: the discovery is over. Else `refusal` says what is wrong
         * with it. */
        bool (*on_answer)(void *owner, const redisReply *reply, const struct redis_endpoint *asked,
            char *refusal, size_t size);

        /* No server gave a usable answer. `reason` says what each of them did. */
        void (*on_failed)(void *owner, bool needs_operator, const char *reason);
};

/* `question` is an encoded command. All but the loop is borrowed; of the session, what it points
 * at. */
struct redis_discovery *redis_discovery_create(uv_loop_t *loop, const struct redis_session *session,
    const char *question, const struct redis_discovery_events *events, void *owner);
void redis_discovery_destroy(struct redis_discovery *discovery); /* NULL is allowed */

/* Asks these servers, which are copied, beginning with number `first`. Not while it runs. */
void redis_discovery_start(struct redis_discovery *discovery,
    const struct redis_endpoint *endpoints, size_t n_endpoints, size_t first);
bool redis_discovery_is_running(const struct redis_discovery *discovery);
void redis_discovery_stop(struct redis_discovery *discovery);

/* The number of the server that gave the last answer. */
size_t redis_discovery_place(const struct redis_discovery *discovery);
