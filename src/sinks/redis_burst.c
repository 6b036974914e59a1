/*
 * Within EXEC nothing fails for lack of memory or for being a replica: Redis
 * checks that before it begins, for all. What can still fail alone is a stream
 * of the wrong type and an entry that is too large, and both are final.
 */
#include "sinks/redis_burst.h"

#include "pgcourier/event.h"
#include "pgcourier/sink.h"
#include "sinks/redis_ring.h"

#include <string.h>

/* A burst stays in Redis' memory until EXEC; and a single value of this size passes everywhere, as
 * no proto-max-bulk-len can be below 1 MiB. */
enum { MAX_BYTES = 1024 * 1024 - 4096 };

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

struct redis_burst redis_burst_plan(const struct redis_ring *ring, bool by_key, bool is_alone)
{
        size_t max = is_alone ? 1 : REDIS_BURST_MAX;
        size_t bytes = 0;
        size_t n = 0;
        size_t n_keyed = 0;

        for (; n < ring->n && n < max; n++) {
                const struct attempt *attempt = redis_ring_at(ring, n)->attempt;

                if (attempt == NULL)
                        break;
                bytes += event_bytes(attempt->event);
                if (n > 0 && bytes > MAX_BYTES)
                        break;
                n_keyed += attempt->event->key != NULL;
        }
        /* A probe goes alone, as does what is too large for any burst. */
        return (struct redis_burst){
            .n = n > 0 ? n : 1, .is_open = true, .is_transaction = by_key && n_keyed > 1};
}

static void refuse(struct redis_burst *burst, const redisReply *reply, bool is_stream_per_event)
{
        /* What follows the first refusal (EXECABORT) has less to say. */
        if (burst->is_refused)
                return;
        burst->is_refused = true;
        burst->refusal = redis_reply_judge(reply, is_stream_per_event);
}

static enum redis_burst_step take_exec(
    struct redis_burst *burst, const redisReply *reply, bool is_stream_per_event)
{
        burst->is_open = false;
        if (burst->is_unprotected)
                return BURST_LOST_MULTI;
        if (reply->type != REDIS_REPLY_ARRAY || reply->elements != burst->n)
                refuse(burst, reply, is_stream_per_event);
        return BURST_ANSWERS_ALL;
}

enum redis_burst_step redis_burst_take(
    struct redis_burst *burst, const redisReply *reply, bool is_stream_per_event)
{
        bool is_error = reply->type == REDIS_REPLY_ERROR;
        size_t place = burst->n_replies++;

        if (!burst->is_transaction) {
                burst->is_open = burst->n_replies < burst->n;
                return BURST_ANSWERS_ONE;
        }
        if (place == 0) {
                burst->is_unprotected = is_error;
                return BURST_GOES_ON;
        }
        if (place == burst->n + 1)
                return take_exec(burst, reply, is_stream_per_event);
        if (burst->is_unprotected)
                return BURST_ANSWERS_ONE;
        if (!is_error)
                return BURST_GOES_ON; /* QUEUED */
        refuse(burst, reply, is_stream_per_event);
        if (!burst->refusal.ends_connection)
                return BURST_GOES_ON;
        burst->is_open = false; /* EXEC will not be answered */
        return BURST_ANSWERS_ALL;
}

struct redis_verdict redis_burst_verdict(
    const struct redis_burst *burst, const redisReply *reply, size_t i, bool is_stream_per_event)
{
        struct redis_verdict verdict = burst->refusal;

        if (!burst->is_refused)
                return redis_reply_judge(reply->element[i], is_stream_per_event);
        /* Which of them was meant, and whether one of its key stands before it, is found out by
         * sending each alone. */
        if (verdict.outcome.kind != OUTCOME_SINK_DOWN)
                verdict.outcome = outcome_cancelled;
        return verdict;
}
