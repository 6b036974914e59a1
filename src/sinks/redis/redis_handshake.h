/*
 * What a new connection says before the first command, all in one go: AUTH if
 * there is a password, SELECT if the database is not 0, CLIENT SETNAME, and then
 *   to one Redis: ROLE, since a replica would take no event, and an empty transaction: without
 *       MULTI and EXEC the order of events could not be kept;
 *   to a node of a cluster: the empty transaction;
 *   to a server that is asked only one question: PING.
 */
#pragma once

#include <hiredis/hiredis.h>
#include <stdbool.h>
#include <stddef.h>

struct bytes;
struct redis_config;

enum redis_peer {
        REDIS_PEER_SINGLE,
        REDIS_PEER_NODE,      /* of a cluster; it takes events */
        REDIS_PEER_DIRECTORY, /* of a cluster; it is asked for the map */
        REDIS_PEER_SENTINEL,
};

struct redis_handshake {
        const struct redis_config *config; /* borrowed */
        enum redis_peer peer;
        unsigned n_answers; /* so far */
        unsigned steps[6];  /* what was said, in order */
        unsigned n_steps;
};

enum redis_handshake_progress { HANDSHAKE_GOES_ON, HANDSHAKE_ACCEPTED, HANDSHAKE_REFUSED };

/* Appends the commands to `out`. */
void redis_handshake_start(struct redis_handshake *handshake, const struct redis_config *config,
    enum redis_peer peer, struct bytes *out);

/* Judges the next answer. If REFUSED, `refusal` says what was refused, in Redis' words and without
 * the password, and *out_needs_operator whether waiting would help. */
enum redis_handshake_progress redis_handshake_judge(struct redis_handshake *handshake,
    const redisReply *reply, char *refusal, size_t size, bool *out_needs_operator);
