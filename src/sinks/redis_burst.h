/*
 * How many events go to Redis together, and what their answers mean. Pure.
 *
 * One burst is in flight at a time. If it holds several events with keys it is
 * a transaction, MULTI XADD... EXEC, which Redis executes as a whole or not at
 * all. That is what keeps the order of a key: of plain commands in a pipeline
 * Redis may refuse one (out of memory, read only) and take the next.
 */
#pragma once

#include "sinks/redis_replies.h"

#include <stdbool.h>
#include <stddef.h>

struct event;
struct redis_ring;

enum { REDIS_BURST_MAX = 500 /* Redis does nothing else while it executes them */ };

struct redis_burst {
        size_t n;     /* requests */
        bool is_open; /* Redis still owes it answers */
        bool is_transaction;
        size_t n_replies;
        bool is_unprotected; /* MULTI was refused: each command was executed on its own */
        bool is_refused;     /* nothing was executed, and `refusal` says why */
        struct redis_verdict refusal;
};

enum redis_burst_step {
        BURST_GOES_ON,
        BURST_ANSWERS_ONE, /* the first request without an answer has got it: this reply */
        BURST_ANSWERS_ALL, /* redis_burst_verdict() has the answers */
        BURST_LOST_MULTI,  /* all are answered, but the next burst would not be protected */
};

/* True for an event so large that Redis may hang up on it: it goes alone, so that nothing else can
 * be blamed. */
bool redis_event_is_large(const struct event *event);

/* Plans a burst of the first requests in the ring, none of which is in flight; of one only if
 * `is_alone`. `by_key`: the order of a key is to be kept. */
struct redis_burst redis_burst_plan(const struct redis_ring *ring, bool by_key, bool is_alone);

/* Takes the next reply; is_open is false once it was the last. */
enum redis_burst_step redis_burst_take(
    struct redis_burst *burst, const redisReply *reply, bool is_stream_per_event);

/* The verdict on request `i` of a transaction that `reply` has ended. CANCELLED: nothing is known
 * against it; another of the burst was refused for a reason of its own. */
struct redis_verdict redis_burst_verdict(
    const struct redis_burst *burst, const redisReply *reply, size_t i, bool is_stream_per_event);
