/* What one answer of Redis means. */
#pragma once

#include "pgcourier/outcome.h"

#include <hiredis/hiredis.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { REDIS_SLOTS = 16384 /* of a Redis Cluster */ };

enum redis_redirect_kind {
        REDIRECT_NONE,
        REDIRECT_MOVED, /* another node has the slot */
        REDIRECT_ASK,   /* another node has this stream, while the slot is on its way there */
};

struct redis_redirect {
        enum redis_redirect_kind kind;
        unsigned slot;
        char host[256]; /* "": the node that answered */
        uint16_t port;
};

struct redis_verdict {
        struct outcome outcome;
        struct redis_redirect redirect; /* of a cluster; nothing was executed */
        bool leaves_server;   /* this server or session is of no use: connect anew, look up anew */
        bool ends_connection; /* Redis closes the connection behind this answer */
};

/* True if that is what redis_reply_judge() would say: DELIVERED, and nothing else to know. */
bool redis_reply_is_success(const redisReply *reply);

/* Judges the answer to one XADD, PUBLISH or PING. PUBLISH tells how many clients listened, and any
 * number will do. `is_stream_per_event`: the stream's name comes from the
 * event, so that a wrong one is the event's own fault. */
struct redis_verdict redis_reply_judge(const redisReply *reply, bool is_stream_per_event);

/* The text of an error reply without the arguments that Redis may quote in it: those can be a
 * password or a payload. */
void redis_reply_words(const redisReply *reply, char *words, size_t size);
