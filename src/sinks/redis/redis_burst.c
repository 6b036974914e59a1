/*
 * Within EXEC nothing fails for lack of memory or for being a replica: Redis
 * checks that before it begins, for all. What can still fail alone is a stream
 * of the wrong type and an entry that is too large, and both are final.
 */
#include "sinks/redis/redis_burst.h"

#include "base/alloc.h"
#include "base/hash.h"
#include "pgcourier/event.h"
#include "pgcourier/sink.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { FIRST_CAPACITY = 256 };

void redis_ring_deinit(struct redis_ring *ring)
{
        free(ring->requests);
        *ring = (struct redis_ring){0};
}

struct redis_request *redis_ring_at(const struct redis_ring *ring, size_t index)
{
        return &ring->requests[(ring->first + index) & (ring->capacity - 1)];
}

static void grow(struct redis_ring *ring)
{
        size_t capacity = ring->capacity > 0 ? 2 * ring->capacity : FIRST_CAPACITY;
        struct redis_request *requests = xcalloc(capacity, sizeof *requests);

        for (size_t i = 0; i < ring->n; i++)
                requests[i] = *redis_ring_at(ring, i);
        free(ring->requests);
        ring->requests = requests;
        ring->capacity = capacity;
        ring->first = 0;
}

void redis_ring_push(struct redis_ring *ring, struct redis_request request)
{
        if (ring->n == ring->capacity)
                grow(ring);
        *redis_ring_at(ring, ring->n++) = request;
}

struct redis_request redis_ring_take(struct redis_ring *ring)
{
        struct redis_request request = *redis_ring_at(ring, 0);

        ring->first++;
        ring->n--;
        if (ring->n_sent > 0)
                ring->n_sent--;
        return request;
}

void redis_ring_drop_waiting(struct redis_ring *ring)
{
        ring->n = ring->n_sent;
}

void redis_keys_forget_others(struct redis_keys *keys)
{
        keys->forgotten = keys->burst - 1;
}

/* False if it is there already. At most REDIS_BURST_MAX for a burst, and two bursts. */
static bool add_key(struct redis_keys *keys, const char *key)
{
        uint64_t hash = hash_text(key);
        uint64_t at = (hash ^ (hash >> 32)) % REDIS_KEYS_PLACES;

        while (keys->places[at].burst > keys->forgotten) {
                if (keys->places[at].hash == hash)
                        return false;
                at = (at + 1) % REDIS_KEYS_PLACES;
        }
        keys->places[at].hash = hash;
        keys->places[at].burst = keys->burst;
        return true;
}

/* A burst stays in Redis' memory until EXEC; and a single value of this size passes everywhere, as
 * no proto-max-bulk-len can be below 1 MiB. */
enum { MAX_BYTES = 1024 * 1024 - 4096 };

/* A transaction costs Redis the more the longer it is, as all of it is kept until EXEC; a short
 * burst costs a turn of both processes. */
enum { MAX_REPEATING = REDIS_BURST_MAX / 2 };

static size_t event_bytes(const struct event *event)
{
        size_t bytes = event->payload_bytes + strlen(event->topic);

        if (event->key != NULL)
                bytes += strlen(event->key);
        if (event->type != NULL)
                bytes += strlen(event->type);
        for (size_t i = 0; i < event->n_headers; i++)
                bytes += strlen(event->headers[i].name) + strlen(event->headers[i].value);
        return bytes;
}

bool redis_event_is_large(const struct event *event)
{
        return event_bytes(event) > MAX_BYTES;
}

static bool is_transaction_anyway(const struct redis_burst_policy *policy, size_t n)
{
        return !policy->is_script && (policy->wait_replicas > 0 || (policy->is_cluster && n > 1));
}

static enum redis_burst_kind kind_of(
    const struct redis_burst_policy *policy, size_t n, bool is_repeating)
{
        if (policy->is_script)
                return BURST_SCRIPT;
        return is_repeating || is_transaction_anyway(policy, n) ? BURST_TRANSACTION : BURST_PLAIN;
}

struct redis_burst redis_burst_plan(const struct redis_ring *ring,
    const struct redis_burst_policy *policy, struct redis_keys *keys, bool is_alone)
{
        size_t max = is_alone ? 1 : REDIS_BURST_MAX;
        bool is_watched =
            policy->by_key && !policy->is_script && !is_transaction_anyway(policy, max);
        bool is_repeating = false;
        size_t bytes = 0;
        size_t n = 0;

        keys->burst++; /* keys of the bursts before stay */
        redis_keys_forget_others(keys);
        for (; n < ring->n && n < max; n++) {
                const struct attempt *attempt = redis_ring_at(ring, n)->attempt;

                if (attempt == NULL)
                        break;
                bytes += event_bytes(attempt->event);
                if (n > 0 && bytes > MAX_BYTES)
                        break;
                if (!is_watched || is_repeating || attempt->event->key == NULL ||
                    add_key(keys, attempt->event->key))
                        continue;
                if (n >= MAX_REPEATING)
                        break; /* those before it need no transaction */
                is_repeating = true;
                max = MAX_REPEATING;
        }
        /* A probe goes alone, as does what is too large for any burst. */
        if (n == 0)
                return (struct redis_burst){.kind = BURST_PLAIN, .stage = STAGE_SENT, .n = 1};
        return (struct redis_burst){.kind = kind_of(policy, n, is_repeating),
            .stage = STAGE_SENT,
            .n = n,
            .bytes = bytes,
            .wait_replicas = policy->wait_replicas};
}

/* Where WAIT counts for the whole burst, or all answers come at once, nothing is sent before
 * them. */
static bool may_be_followed(
    const struct redis_burst *burst, const struct redis_burst_policy *policy)
{
        return burst->kind == BURST_PLAIN && !is_transaction_anyway(policy, REDIS_BURST_MAX) &&
               !policy->is_script;
}

struct redis_burst redis_burst_plan_behind(const struct redis_ring *ring,
    const struct redis_burst_policy *policy, struct redis_keys *keys,
    const struct redis_burst *front)
{
        size_t n_waiting = ring->n - ring->n_sent;
        struct redis_burst burst = {.kind = BURST_PLAIN};

        if (!may_be_followed(front, policy))
                return burst;
        keys->burst++; /* keys of the bursts before stay */
        for (; burst.n < n_waiting && burst.n < REDIS_BURST_MAX; burst.n++) {
                const struct attempt *attempt =
                    redis_ring_at(ring, ring->n_sent + burst.n)->attempt;
                size_t bytes;

                if (attempt == NULL)
                        break;
                bytes = event_bytes(attempt->event);
                if (front->bytes + burst.bytes + bytes > MAX_BYTES)
                        break;
                if (policy->by_key && attempt->event->key != NULL &&
                    !add_key(keys, attempt->event->key))
                        break;
                burst.bytes += bytes;
        }
        burst.stage = burst.n > 0 ? STAGE_SENT : STAGE_ANSWERED;
        return burst;
}

static void refuse(struct redis_burst *burst, const redisReply *reply, bool is_stream_per_event)
{
        /* What follows the first refusal (EXECABORT) has less to say. */
        if (burst->is_refused)
                return;
        burst->is_refused = true;
        burst->refusal = redis_reply_judge(reply, is_stream_per_event);
}

/* The answers to all requests are there. */
static enum redis_burst_step end(struct redis_burst *burst)
{
        burst->stage = burst->wait_replicas > 0 ? STAGE_AWAITS_REPLICAS : STAGE_ANSWERED;
        return redis_burst_is_open(burst) ? BURST_EXECUTED : BURST_ANSWERS_ALL;
}

static enum redis_burst_step take_in_transaction(
    struct redis_burst *burst, size_t place, const redisReply *reply, bool is_stream_per_event)
{
        bool is_multi = place == 0;
        bool is_exec = place == burst->n + 1;

        if (is_exec) {
                if (reply->type != REDIS_REPLY_ARRAY || reply->elements != burst->n)
                        refuse(burst, reply, is_stream_per_event);
                return end(burst);
        }
        if (reply->type != REDIS_REPLY_ERROR)
                return BURST_GOES_ON; /* OK, QUEUED */
        /* With WAIT to come no request can be answered yet: what was executed comes again. */
        if (is_multi && burst->wait_replicas == 0) {
                burst->stage = STAGE_UNPROTECTED;
                return BURST_GOES_ON;
        }
        refuse(burst, reply, is_stream_per_event);
        if (!burst->refusal.ends_connection)
                return BURST_GOES_ON;
        burst->stage = STAGE_ANSWERED; /* EXEC will not be answered */
        return BURST_ANSWERS_ALL;
}

static enum redis_burst_step take_unprotected(struct redis_burst *burst, size_t place)
{
        if (place <= burst->n)
                return BURST_ANSWERS_ONE;
        burst->stage = STAGE_ANSWERED; /* EXEC is refused too */
        return BURST_LOST_MULTI;
}

/* A script stops at the first error: those behind it have no answer. */
static enum redis_burst_step take_script(
    struct redis_burst *burst, const redisReply *reply, bool is_stream_per_event)
{
        if (reply->type == REDIS_REPLY_NIL) {
                burst->is_refused = true;
                burst->refusal = (struct redis_verdict){
                    .outcome = outcome_down(OUTCOME_FAULT_OTHER, false,
                        "another connection has claimed the stream; claiming it again"),
                    .leaves_server = true};
        } else if (reply->type != REDIS_REPLY_ARRAY || reply->elements > burst->n ||
                   reply->elements == 0) {
                refuse(burst, reply, is_stream_per_event);
        }
        return end(burst);
}

static struct redis_verdict judge_wait(const redisReply *reply, uint32_t wait_replicas)
{
        if (reply->type == REDIS_REPLY_ERROR)
                return redis_reply_judge(reply, false);
        if (reply->integer >= wait_replicas)
                return (struct redis_verdict){.outcome = outcome_delivered};
        return (struct redis_verdict){
            .outcome = outcome_down(OUTCOME_FAULT_OTHER, false,
                "%lld of the %" PRIu32 " replicas that wait_replicas asks for have it",
                reply->integer, wait_replicas)};
}

static enum redis_burst_step take_wait(struct redis_burst *burst, const redisReply *reply)
{
        const struct redis_verdict verdict = judge_wait(reply, burst->wait_replicas);

        burst->stage = STAGE_ANSWERED;
        if (verdict.outcome.kind == OUTCOME_DELIVERED)
                return BURST_WAITED;
        burst->is_refused = true;
        burst->refusal = verdict;
        /* Events in the ledger are not sent again: the next claim asks for the replicas once
         * more. */
        burst->refusal.leaves_server |= burst->kind == BURST_SCRIPT;
        return BURST_WAITED;
}

static enum redis_burst_step take_sent(
    struct redis_burst *burst, size_t place, const redisReply *reply, bool is_stream_per_event)
{
        switch (burst->kind) {
        case BURST_PLAIN:
                if (burst->n_replies == burst->n)
                        burst->stage = STAGE_ANSWERED;
                return BURST_ANSWERS_ONE;
        case BURST_TRANSACTION:
                return take_in_transaction(burst, place, reply, is_stream_per_event);
        case BURST_SCRIPT:
                return take_script(burst, reply, is_stream_per_event);
        case BURST_CLAIM:
                (void)end(burst);
                return BURST_CLAIMED;
        case BURST_PURGE:
                (void)end(burst);
                return BURST_PURGED;
        }
        abort();
}

enum redis_burst_step redis_burst_take(
    struct redis_burst *burst, const redisReply *reply, bool is_stream_per_event)
{
        size_t place = burst->n_replies++;

        switch (burst->stage) {
        case STAGE_SENT:
                return take_sent(burst, place, reply, is_stream_per_event);
        case STAGE_UNPROTECTED:
                return take_unprotected(burst, place);
        case STAGE_AWAITS_REPLICAS:
                return take_wait(burst, reply);
        case STAGE_ANSWERED:
                break;
        }
        abort();
}

bool redis_burst_is_delivered(const struct redis_burst *burst, const redisReply *reply, size_t i)
{
        return !burst->is_refused && i < reply->elements &&
               (reply->element[i]->type == REDIS_REPLY_STRING ||
                   reply->element[i]->type == REDIS_REPLY_INTEGER);
}

struct redis_verdict redis_burst_verdict(
    const struct redis_burst *burst, const redisReply *reply, size_t i, bool is_stream_per_event)
{
        struct redis_verdict verdict = burst->refusal;

        if (!burst->is_refused && i < reply->elements)
                return redis_reply_judge(reply->element[i], is_stream_per_event);
        /* Which of them was meant, and whether one of its key stands before it, is found out by
         * sending each alone. Behind a script's first error nothing was tried. */
        if (burst->n > 1 && !verdict.outcome.concerns_all)
                verdict.outcome = outcome_cancelled;
        else if (verdict.outcome.kind == OUTCOME_DELIVERED)
                verdict.outcome = outcome_make(OUTCOME_RETRY, "Redis did not answer the burst");
        return verdict;
}
