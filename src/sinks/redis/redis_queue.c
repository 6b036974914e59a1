/*
 * All requests of a queue stand in one ring, in the order of the deliver() calls: first the burst
 * in flight, perhaps a second one behind it that shares no key with it, then those that wait for
 * the connection or for answers. Nothing else is sent behind a burst before it is known what became
 * of it.
 *
 * With exactly_once the first thing on a connection is the claim of the stream, and when there is
 * nothing else to send, settled events are purged from the ledger.
 *
 * A probe is a request without an attempt: redis_probe.c knows what it sends.
 */
#include "base/alloc.h"
#include "config/config.h"
#include "loop/timer.h"
#include "pgcourier/event.h"
#include "sinks/redis/redis_command.h"
#include "sinks/redis/redis_dedup.h"
#include "sinks/redis/redis_internal.h"
#include "sinks/redis/resp_write.h"

#include <assert.h>
#include <stdlib.h>

struct redis_queue *redis_queue_create(struct redis_sink *sink)
{
        struct redis_queue *queue = xcalloc(1, sizeof *queue);

        queue->sink = sink;
        list_init(&queue->link);
        list_init(&queue->all_link);
        return queue;
}

void redis_queue_destroy(struct redis_queue *queue)
{
        if (queue == NULL)
                return;
        list_remove(&queue->link);
        list_remove(&queue->all_link);
        redis_ring_deinit(&queue->ring);
        bytes_deinit(&queue->stream);
        free(queue->held);
        free(queue);
}

void redis_request_finish_later(
    struct redis_sink *sink, const struct redis_request *request, const struct outcome *outcome)
{
        if (request->attempt != NULL) {
                attempt_finish_later(request->attempt, outcome);
                return;
        }
        sink->probe.outcome = *outcome;
        timer_arm(sink->probe.answer, 0);
}

void redis_queue_end_bursts(struct redis_queue *queue)
{
        queue->burst.stage = STAGE_ANSWERED;
        queue->behind.stage = STAGE_ANSWERED;
        queue->awaits_asking = false;
        list_remove(&queue->link);
}

static unsigned append_wait(const struct redis_sink *sink, struct bytes *out)
{
        redis_append_count(out, '*', 3);
        REDIS_APPEND_WORD(out, 4, "WAIT");
        redis_append_number(out, sink->policy.wait_replicas);
        redis_append_number(out, (uint64_t)sink->config->wait_timeout_ms);
        return 1;
}

/* The first n requests of the ring, which may be none, and what is to be purged. */
static unsigned append_script(struct redis_queue *queue, size_t n, struct bytes *out)
{
        redis_dedup_encode_burst(queue->sink->dedup, &queue->ring, n, queue->sink->encoder, out);
        return 1;
}

/* The burst's requests begin at this place of the ring. */
static unsigned append_commands(
    struct redis_queue *queue, size_t first, const struct redis_burst *burst, struct bytes *out)
{
        bool is_transaction = burst->kind == BURST_TRANSACTION;

        if (is_transaction)
                bytes_append_text(out, "*1\r\n$5\r\nMULTI\r\n");
        for (size_t i = 0; i < burst->n; i++) {
                const struct attempt *attempt = redis_ring_at(&queue->ring, first + i)->attempt;

                if (attempt != NULL)
                        redis_command_encode(queue->sink->encoder, attempt->event, out);
                else
                        redis_probe_encode(queue->sink, out);
        }
        if (is_transaction)
                bytes_append_text(out, "*1\r\n$4\r\nEXEC\r\n");
        return (unsigned)burst->n + (is_transaction ? 2 : 0);
}

static unsigned send_requests(struct redis_queue *queue, struct bytes *out)
{
        struct redis_sink *sink = queue->sink;
        unsigned n_commands;

        queue->burst =
            redis_burst_plan(&queue->ring, &sink->policy, &sink->keys, queue->n_alone > 0);
        queue->ring.n_sent = queue->burst.n;
        queue->is_behind_refused = false;
        if (queue->n_alone > 0)
                queue->n_alone--;
        n_commands = queue->burst.kind == BURST_SCRIPT
                         ? append_script(queue, queue->burst.n, out)
                         : append_commands(queue, 0, &queue->burst, out);
        if (queue->burst.wait_replicas > 0)
                n_commands += append_wait(sink, out);
        return n_commands;
}

static unsigned send_claim(struct redis_queue *queue, struct bytes *out)
{
        const struct redis_sink *sink = queue->sink;
        unsigned n_commands = 1;

        queue->burst = (struct redis_burst){
            .kind = BURST_CLAIM, .stage = STAGE_SENT, .wait_replicas = sink->policy.wait_replicas};
        redis_dedup_encode_claim(sink->dedup, out);
        if (sink->policy.wait_replicas > 0)
                n_commands += append_wait(sink, out);
        return n_commands;
}

static unsigned send_purge(struct redis_queue *queue, struct bytes *out)
{
        queue->burst = (struct redis_burst){.kind = BURST_PURGE, .stage = STAGE_SENT};
        return append_script(queue, 0, out);
}

/* The entry of a redriven or replayed event may be that of its first delivery. */
static bool is_delivered(const struct redis_queue *queue, const struct redis_request *request)
{
        const struct event *event = request->attempt != NULL ? request->attempt->event : NULL;

        return event != NULL && !event->is_redriven && redis_dedup_has(queue->sink->dedup, event);
}

/* Answers those that an earlier connection, or an earlier owner of the lane, has delivered. */
static void drop_duplicates(struct redis_queue *queue)
{
        for (size_t n = queue->ring.n; n > 0; n--) {
                const struct redis_request request = redis_ring_take(&queue->ring);
                if (is_delivered(queue, &request))
                        redis_request_finish_later(queue->sink, &request, &outcome_delivered);
                else
                        redis_ring_push(&queue->ring, request);
        }
}

/* A probe of a sink that owns no lane must not take the stream from the one that does. */
static bool needs_claim(const struct redis_queue *queue)
{
        const struct redis_sink *sink = queue->sink;

        return sink->dedup != NULL && redis_dedup_is_owned(sink->dedup) &&
               sink->claimed_on != queue->node->number;
}

static bool needs_purge(const struct redis_queue *queue)
{
        return queue->sink->dedup != NULL && redis_dedup_has_settled(queue->sink->dedup);
}

bool redis_queue_has_work(const struct redis_queue *queue)
{
        return queue->ring.n > 0 || needs_purge(queue);
}

unsigned redis_queue_send(struct redis_queue *queue, struct bytes *out)
{
        bool is_claim = needs_claim(queue);
        unsigned n_commands = 0;

        assert(!redis_burst_is_open(&queue->burst) && list_is_empty(&queue->link));
        if (!is_claim && queue->sink->dedup != NULL)
                drop_duplicates(queue);
        if (!is_claim && !redis_queue_has_work(queue))
                return 0;
        queue->awaits_asking = queue->asked != NULL;
        queue->asked = NULL;
        if (queue->awaits_asking) {
                bytes_append_text(out, "*1\r\n$6\r\nASKING\r\n");
                n_commands++;
        }
        if (is_claim)
                return n_commands + send_claim(queue, out);
        if (queue->ring.n > 0)
                return n_commands + send_requests(queue, out);
        return n_commands + send_purge(queue, out);
}

/* As long as more is unanswered than waits, Redis has enough to do, and what waits can still
 * grow. */
static bool is_worth_it(const struct redis_queue *queue)
{
        size_t n_waiting = queue->ring.n - queue->ring.n_sent;

        return n_waiting > 0 && n_waiting >= queue->ring.n_sent;
}

unsigned redis_queue_send_behind(struct redis_queue *queue, struct bytes *out)
{
        const struct redis_sink *sink = queue->sink;
        unsigned n_commands;

        if (redis_burst_is_open(&queue->behind) || queue->is_behind_refused || queue->n_alone > 0 ||
            !is_worth_it(queue))
                return 0;
        queue->behind =
            redis_burst_plan_behind(&queue->ring, &sink->policy, &queue->sink->keys, &queue->burst);
        queue->is_behind_refused = !redis_burst_is_open(&queue->behind);
        if (queue->is_behind_refused)
                return 0;
        n_commands = append_commands(queue, queue->ring.n_sent, &queue->behind, out);
        queue->ring.n_sent += queue->behind.n;
        return n_commands;
}
