/*
 * Where a baseline delivers to. All of them get the same events: add() takes the events of a batch
 * one by one and may begin to send; await() returns when all that were added are acknowledged. A
 * refusal ends the program.
 */
#pragma once

#include "event.h"

struct sink {
        const char *name;                       /* "redis" in "redis:/run/redis.sock" */
        void (*open)(const char *where);        /* what follows the colon */
        void (*add)(const struct event *event); /* borrowed until await() returns */
        void (*await)(void);
};

extern const struct sink http_sink, null_sink, redis_sink;

/* "null", "redis:SOCKET" or "http:PORT" */
const struct sink *sink_open(const char *text);
