/*
 * All requests of a queue stand in one ring, in the order of the deliver() calls: first
 * the burst in flight, perhaps one sent behind it that shares no key with it,
 * then those that wait for the connection or for answers. Nothing else is sent
 * behind a burst before it is known what became of it. If one of it was refused,
 * those that wait are given back too: sent now, they would overtake.
 *
 * A burst that a cluster redirects was not executed at all, since in a cluster every burst of more
 * than one is a transaction of one stream. So it stays where it is, in front of those that wait.
 *
 * A probe is a request without an attempt: redis_probe.c knows what it sends.
 */
#include "base/alloc.h"
#include "config/config.h"
#include "pgcourier/sink.h"
#include "sinks/redis/redis_cluster.h"
#include "sinks/redis/redis_command.h"
#include "sinks/redis/redis_dedup.h"
#include "sinks/redis/redis_internal.h"
#include "sinks/redis/redis_replies.h"
#include "sinks/redis/resp_write.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

/* Redirects of one burst; then the cluster does not know itself. */
#define MAX_REDIRECTS 5

void redis_queue_advance(struct redis_queue *queue)
{
        if (queue->burst.is_open) {
                redis_queue_send_behind(queue);
                return;
        }
        if (!list_is_empty(&queue->link))
                return;
        if (queue->ring.n > 0 || redis_queue_wants_tidying(queue))
                redis_sink_route(queue);
        else if (queue->sink->cluster != NULL && queue->n_alone == 0)
                redis_queue_destroy(queue);
}

/* It has no burst in flight any more. */
static void end_burst(struct redis_queue *queue)
{
        queue->burst.is_open = false;
        queue->behind.is_open = false;
        queue->phase = MARKS_USABLE;
        queue->awaits_asking = false;
        list_remove(&queue->link);
}

/* The next answer is the first one to what was sent behind it. */
static void end_first_burst(struct redis_queue *queue)
{
        if (!queue->behind.is_open) {
                end_burst(queue);
                return;
        }
        queue->burst = queue->behind;
        queue->behind.is_open = false;
        queue->is_behind_refused = false;
        redis_keys_forget_others(&queue->sink->keys);
}

/* Those that wait come to the same as what they wait for; if that was one event's own affair, they
 * come again. */
static void give_back_waiting(struct redis_queue *queue, const struct outcome *outcome)
{
        bool is_down = outcome->kind == OUTCOME_SINK_DOWN;

        for (size_t i = queue->ring.n_sent; i < queue->ring.n; i++)
                redis_sink_finish_later(queue->sink, redis_ring_at(&queue->ring, i),
                    is_down ? outcome : &outcome_cancelled);
        redis_ring_drop_waiting(&queue->ring);
}

/* What an answer means for the connection and for those that wait. */
static void heed(struct redis_queue *queue, const struct redis_verdict *verdict)
{
        enum outcome_kind kind = verdict->outcome.kind;

        if (verdict->ends_connection) {
                if (queue->burst.is_open)
                        end_burst(queue);
                queue->ring.n_sent = 0;
                redis_node_drop(queue->node, verdict->outcome.reason);
        } else if (verdict->leaves_server) {
                redis_node_leave(queue->node);
        }
        if (kind == OUTCOME_SINK_DOWN && queue->sink->cluster != NULL)
                redis_cluster_doubt(queue->sink->cluster);
        /* After a rejected event, which becomes a dead letter, its key goes on. */
        if (verdict->ends_connection || (kind != OUTCOME_DELIVERED && kind != OUTCOME_REJECTED))
                give_back_waiting(queue, &verdict->outcome);
}

/* The burst was not executed, and goes where the cluster says. */
static void follow(struct redis_queue *queue, const struct redis_verdict *verdict)
{
        queue->ring.n_sent = 0;
        if (++queue->n_redirects > MAX_REDIRECTS) {
                const struct outcome down =
                    outcome_make(OUTCOME_SINK_DOWN, "the cluster redirected this %d times: %s",
                        MAX_REDIRECTS, verdict->outcome.reason);
                redis_cluster_doubt(queue->sink->cluster);
                redis_queue_give_back(queue, &down);
        } else {
                redis_cluster_redirect(queue->sink->cluster, queue, &verdict->redirect);
        }
        redis_queue_advance(queue);
}

static bool is_redirected(const struct redis_queue *queue, const struct redis_verdict *verdict)
{
        return queue->sink->cluster != NULL && verdict->redirect.kind != REDIRECT_NONE;
}

static void finish_probe(struct redis_sink *sink, const struct redis_request *request,
    const redisReply *reply, const struct outcome *was)
{
        const struct outcome outcome = redis_probe_judge(sink, reply, was);

        redis_sink_finish_later(sink, request, &outcome);
}

/* The usual case: it is delivered, and nothing follows from that for others. */
static void answer_delivered(struct redis_queue *queue, const redisReply *reply)
{
        struct redis_sink *sink = queue->sink;
        const struct redis_request request = redis_ring_take(&queue->ring);

        queue->n_redirects = 0;
        if (request.attempt == NULL)
                finish_probe(sink, &request, reply, &outcome_delivered);
        redis_queue_advance(queue);
        if (request.attempt != NULL)
                attempt_finish(request.attempt, &outcome_delivered);
}

static void answer_one(struct redis_queue *queue, const redisReply *reply)
{
        struct redis_sink *sink = queue->sink;
        struct redis_verdict verdict;
        struct redis_request request;

        if (redis_reply_is_success(reply)) {
                answer_delivered(queue, reply);
                return;
        }
        verdict = redis_reply_judge(reply, redis_command_is_target_per_event(sink->encoder));
        if (is_redirected(queue, &verdict)) {
                follow(queue, &verdict);
                return;
        }
        request = redis_ring_take(&queue->ring);
        queue->n_redirects = 0;
        if (request.attempt == NULL)
                finish_probe(sink, &request, reply, &verdict.outcome);
        heed(queue, &verdict); /* the answer may be gone with the connection */
        redis_queue_advance(queue);
        if (request.attempt != NULL)
                attempt_finish(request.attempt, &verdict.outcome);
}

static void judge_all(struct redis_queue *queue, const redisReply *reply)
{
        struct redis_sink *sink = queue->sink;
        const bool is_per_event = redis_command_is_target_per_event(sink->encoder);

        for (size_t i = 0; i < queue->burst.n; i++) {
                struct redis_judgement *judgement = &queue->sink->judgements[i];
                judgement->is_delivered = redis_burst_is_delivered(&queue->burst, reply, i);
                if (!judgement->is_delivered)
                        judgement->verdict =
                            redis_burst_verdict(&queue->burst, reply, i, is_per_event);
                else if (sink->marks != NULL)
                        redis_dedup_note_delivered(
                            sink->marks, redis_ring_at(&queue->ring, i)->attempt->event);
        }
        if (sink->marks != NULL && !queue->burst.is_refused)
                redis_dedup_note_executed(sink->marks);
}

/* Too few replicas have it: it may be lost with the server, so it is not delivered. */
static void take_back_delivered(struct redis_queue *queue)
{
        for (size_t i = 0; i < queue->burst.n; i++) {
                struct redis_judgement *judgement = &queue->sink->judgements[i];
                if (!judgement->is_delivered)
                        continue;
                judgement->is_delivered = false;
                judgement->verdict = queue->burst.refusal;
        }
}

static void answer_all(struct redis_queue *queue)
{
        const struct redis_burst burst = queue->burst;
        struct redis_request *answered = queue->sink->answered;
        const struct redis_judgement *judgements = queue->sink->judgements;

        if (burst.is_refused && is_redirected(queue, &burst.refusal)) {
                follow(queue, &burst.refusal);
                return;
        }
        queue->n_redirects = 0;
        for (size_t i = 0; i < burst.n; i++)
                answered[i] = redis_ring_take(&queue->ring);
        if (burst.is_refused && burst.refusal.outcome.kind != OUTCOME_SINK_DOWN)
                queue->n_alone = (unsigned)burst.n;
        for (size_t i = 0; i < burst.n; i++)
                if (!judgements[i].is_delivered)
                        heed(queue, &judgements[i].verdict);
        redis_queue_advance(queue);
        /* Finishing may start others, cancel, and with the last one close the sink: so from here
         * on only `burst`, `answered` and `judgements` are read, and the last one is copied. */
        for (size_t i = 0; i < burst.n; i++) {
                struct outcome outcome;

                if (judgements[i].is_delivered) {
                        attempt_finish(answered[i].attempt, &outcome_delivered);
                        continue;
                }
                outcome = judgements[i].verdict.outcome;
                attempt_finish(answered[i].attempt, &outcome);
        }
}

static void take_claim_error(struct redis_queue *queue, const redisReply *reply)
{
        const struct redis_verdict verdict = redis_reply_judge(reply, false);
        const struct outcome *outcome = &verdict.outcome;
        bool is_waiting = outcome->kind == OUTCOME_SINK_DOWN && !outcome->needs_operator;
        char refusal[400];

        end_burst(queue);
        redis_node_drop(
            queue->node, outcome->reason); /* with the answer to WAIT, if there is one */
        if (is_redirected(queue, &verdict)) {
                follow(queue, &verdict);
                return;
        }
        snprintf(refusal, sizeof refusal, "cannot claim the stream: %s", outcome->reason);
        redis_queue_lose(queue, outcome->fault, !is_waiting, refusal);
}

static void end_claim(struct redis_queue *queue)
{
        queue->sink->claimed_on = queue->node->number;
        end_burst(queue);
        redis_queue_advance(queue);
}

static void take_claim(struct redis_queue *queue, const redisReply *reply)
{
        char refusal[400];

        if (reply->type == REDIS_REPLY_ERROR) {
                take_claim_error(queue, reply);
        } else if (!redis_dedup_take_claim(queue->sink->marks, reply, refusal, sizeof refusal)) {
                end_burst(queue);
                redis_node_drop(queue->node, refusal);
                redis_queue_lose(queue, OUTCOME_FAULT_REDIS, true, refusal);
        } else if (queue->sink->policy.wait_replicas > 0) {
                queue->phase = MARKS_CONFIRMING;
        } else {
                end_claim(queue);
        }
}

/* A claim writes, so a replica that has it has all that was marked before. */
static void take_confirmation(struct redis_queue *queue, const redisReply *reply)
{
        const struct redis_verdict verdict =
            redis_wait_judge(reply, queue->sink->policy.wait_replicas);

        if (verdict.outcome.kind == OUTCOME_DELIVERED) {
                end_claim(queue);
                return;
        }
        end_burst(queue);
        redis_queue_lose(
            queue, verdict.outcome.fault, verdict.outcome.needs_operator, verdict.outcome.reason);
}

/* What cannot be removed now is removed later: nobody waits for it. */
static void take_tidying(struct redis_queue *queue, const redisReply *reply)
{
        end_burst(queue);
        if (reply->type == REDIS_REPLY_ARRAY) {
                redis_dedup_note_executed(queue->sink->marks);
                redis_queue_advance(queue);
                return;
        }
        redis_node_leave(queue->node);
        if (queue->ring.n > 0)
                redis_queue_advance(queue);
}

void redis_queue_take(struct redis_queue *queue, const redisReply *reply)
{
        bool is_stream_per_event = redis_command_is_target_per_event(queue->sink->encoder);
        enum redis_burst_step step;

        if (queue->awaits_asking) {
                queue->awaits_asking = false;
                return;
        }
        switch (queue->phase) {
        case MARKS_USABLE:
                break;
        case MARKS_CLAIMING:
                take_claim(queue, reply);
                return;
        case MARKS_CONFIRMING:
                take_confirmation(queue, reply);
                return;
        case MARKS_TIDYING:
                take_tidying(queue, reply);
                return;
        }
        step = redis_burst_take(&queue->burst, reply, is_stream_per_event);
        if (!queue->burst.is_open)
                end_first_burst(queue);
        switch (step) {
        case BURST_GOES_ON:
                return;
        case BURST_ANSWERS_ONE:
                answer_one(queue, reply);
                return;
        case BURST_ANSWERS_ALL:
                judge_all(queue, reply);
                answer_all(queue);
                return;
        case BURST_EXECUTED:
                judge_all(queue, reply);
                return;
        case BURST_WAITED:
                if (queue->burst.is_refused)
                        take_back_delivered(queue);
                answer_all(queue);
                return;
        case BURST_LOST_MULTI:
                /* Somebody took the permission away; the greeting will say so. */
                redis_node_leave(queue->node);
                redis_queue_advance(queue);
                return;
        }
}

void redis_queue_give_back(struct redis_queue *queue, const struct outcome *outcome)
{
        end_burst(queue);
        queue->asked = NULL;
        queue->n_redirects = 0;
        while (queue->ring.n > 0) {
                const struct redis_request request = redis_ring_take(&queue->ring);
                redis_sink_finish_later(queue->sink, &request, outcome);
        }
}

static bool is_silent(enum outcome_fault fault)
{
        return fault == OUTCOME_FAULT_TIMEOUT || fault == OUTCOME_FAULT_LOST;
}

/*
 * An outage, for all of them: it must cost no event an attempt, although those
 * that were in flight may have been added. They come again with the same id and
 * the same bytes, which is what a consumer needs to drop a repetition.
 *
 * Only a large event may be the very reason why Redis hangs up without a word
 * (client-query-buffer-limit): it is charged if Redis goes on answering others.
 */
void redis_queue_lose(
    struct redis_queue *queue, enum outcome_fault fault, bool needs_operator, const char *reason)
{
        struct outcome down = outcome_make(OUTCOME_SINK_DOWN, "%s", reason);
        struct outcome unsent;
        struct outcome unanswered =
            outcome_make(OUTCOME_RETRY, "unknown whether it arrived: %s", reason);

        down.needs_operator = needs_operator;
        unsent = down;
        unsent.fault = is_silent(fault) ? OUTCOME_FAULT_REFUSED : fault;
        down.fault = unanswered.fault = is_silent(fault) ? fault : OUTCOME_FAULT_LOST;
        unanswered.is_unanswered = true;
        while (queue->ring.n_sent > 0) {
                const struct redis_request request = redis_ring_take(&queue->ring);
                bool is_suspect =
                    request.attempt != NULL && redis_event_is_large(request.attempt->event);
                redis_sink_finish_later(queue->sink, &request, is_suspect ? &unanswered : &down);
        }
        redis_queue_give_back(queue, &unsent);
}

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
        if (queue->sink->cluster != NULL)
                redis_cluster_forget(queue->sink->cluster, queue);
        list_remove(&queue->link);
        redis_ring_deinit(&queue->ring);
        bytes_deinit(&queue->stream);
        free(queue);
}
