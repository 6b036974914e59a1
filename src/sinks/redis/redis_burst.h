/*
 * How many events go to Redis together, and what their answers mean. Pure.
 *
 * If a key comes twice in a burst, it is a transaction, MULTI XADD... EXEC,
 * which Redis executes as a whole or not at all. That is what keeps the order
 * of a key: of plain commands in a pipeline Redis may refuse one (out of memory,
 * read only) and take the next. Where all keys differ that does no harm, and
 * plain commands cost Redis less. For the same reason a second burst may follow
 * one of plain commands before that is answered, if they share no key: Redis is
 * then not idle while answers are read and commands are made.
 *
 * With exactly_once a burst is one script instead (redis_dedup.h). A burst that
 * waits for replicas has WAIT behind it, whose answer counts for all of it: so it
 * is a transaction even of one event.
 */
#pragma once

#include "sinks/redis/redis_replies.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct attempt;
struct event;

enum { REDIS_BURST_MAX = 500 /* Redis does nothing else while it executes them */ };

/* A request in a queue, in the order in which they came. */
struct redis_request {
        struct attempt *attempt; /* lent by the relay; NULL: the probe */
};

/* The requests of a queue: first those in flight, then those that wait. All zero is empty. */
struct redis_ring {
        struct redis_request *requests;
        size_t capacity; /* a power of two */
        size_t first;    /* counts on for ever; the place in the ring is its remainder */
        size_t n;
        size_t n_sent; /* of those, the first ones: unanswered */
};

void redis_ring_deinit(struct redis_ring *ring);
void redis_ring_push(struct redis_ring *ring, struct redis_request request);

/* The index counts from the oldest request. */
struct redis_request *redis_ring_at(const struct redis_ring *ring, size_t index);

/* Removes the oldest request. */
struct redis_request redis_ring_take(struct redis_ring *ring);

/* Leaves only those in flight. */
void redis_ring_drop_waiting(struct redis_ring *ring);

enum { REDIS_KEYS_PLACES = 4096 /* a power of two, and several times what two bursts hold */ };

/*
 * The keys of the events in flight: only to tell whether one is among them. Keys are compared by
 * their hashes: two keys with the same hash count as a repetition, which costs time and nothing
 * else. All zero is empty.
 */
struct redis_keys {
        struct {
                uint64_t hash;
                uint64_t burst; /* in which it was added; of a forgotten one: the place is free */
        } places[REDIS_KEYS_PLACES];
        uint64_t burst;     /* the last one */
        uint64_t forgotten; /* up to this one */
};

/* Forgets those of all bursts but the last one; there was one. */
void redis_keys_forget_others(struct redis_keys *keys);

struct redis_burst_policy {
        bool by_key; /* the order of a key is to be kept */
        bool is_script;
        bool is_cluster;        /* it redirects a burst as a whole or not at all */
        uint32_t wait_replicas; /* 0: no WAIT */
};

/* What a burst is made of. */
enum redis_burst_kind {
        BURST_PLAIN,       /* commands, or a probe: each gets an answer of its own */
        BURST_TRANSACTION, /* MULTI, commands, EXEC */
        BURST_SCRIPT,      /* exactly_once: one script with the commands in it */
        BURST_CLAIM,       /* exactly_once: claims the stream; the first on a connection */
        BURST_PURGE, /* exactly_once: takes settled events out of the ledger; has no requests */
};

/* Which answer is due. */
enum redis_burst_stage {
        STAGE_ANSWERED, /* none; all zero is a burst that was never sent */
        STAGE_SENT,
        STAGE_UNPROTECTED,     /* MULTI was refused: each command is executed on its own */
        STAGE_AWAITS_REPLICAS, /* all is executed, and only WAIT's answer is outstanding */
};

struct redis_burst {
        enum redis_burst_kind kind;
        enum redis_burst_stage stage;
        size_t n;     /* requests */
        size_t bytes; /* about what they take */
        uint32_t wait_replicas;
        size_t n_replies; /* so far */
        bool is_refused;  /* nothing was executed, or not as configured: `refusal` says why */
        struct redis_verdict refusal;
};

/* True while Redis owes it answers. */
static inline bool redis_burst_is_open(const struct redis_burst *burst)
{
        return burst->stage != STAGE_ANSWERED;
}

/* What a reply means for its burst. */
enum redis_burst_step {
        BURST_GOES_ON,
        BURST_ANSWERS_ONE, /* it answers the first request without an answer */
        BURST_ANSWERS_ALL, /* redis_burst_verdict() has the answers */
        BURST_EXECUTED,    /* likewise, but they hold only with WAIT's answer */
        BURST_WAITED,      /* that came: if is_refused, `refusal` stands for all that were taken */
        BURST_LOST_MULTI,  /* all are answered, but the next burst would not be protected */
        BURST_CLAIMED,     /* it answers the claim, or refuses it */
        BURST_PURGED,      /* it answers the purge, or refuses it */
};

/* True for an event so large that Redis may hang up on it: it goes alone, so that nothing else can
 * be blamed. */
bool redis_event_is_large(const struct event *event);

/* Plans a burst of the first requests in the ring, none of which is in flight; of one only if
 * `is_alone`. */
struct redis_burst redis_burst_plan(const struct redis_ring *ring,
    const struct redis_burst_policy *policy, struct redis_keys *keys, bool is_alone);

/* Plans a burst of plain commands that is sent behind `front`, which is in flight and the last
 * one that was planned: it holds no key that is in flight, so whatever becomes of the first one
 * does not matter to it. Not open: there is none for now. */
struct redis_burst redis_burst_plan_behind(const struct redis_ring *ring,
    const struct redis_burst_policy *policy, struct redis_keys *keys,
    const struct redis_burst *front);

/* Takes the next reply; the stage is ANSWERED once it was the last. */
enum redis_burst_step redis_burst_take(
    struct redis_burst *burst, const redisReply *reply, bool is_stream_per_event);

/* True if request `i` of the burst that `reply` has ended was taken: the usual case, in which
 * nothing needs to be judged. */
bool redis_burst_is_delivered(const struct redis_burst *burst, const redisReply *reply, size_t i);

/* The verdict on request `i`. CANCELLED: nothing is known against it; another of the burst was
 * refused for a reason of its own. */
struct redis_verdict redis_burst_verdict(
    const struct redis_burst *burst, const redisReply *reply, size_t i, bool is_stream_per_event);
