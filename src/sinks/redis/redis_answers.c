/*
 * A reply is judged at once, and its consequences come in a fixed order: what the connection needs
 * and where the queue goes next is the node's to do (struct redis_reaction), then the next burst is
 * sent, and last the attempts are finished, since that may close the sink.
 *
 * If one request of a burst was refused, those that wait are given back too: sent now, they would
 * overtake it.
 *
 * A burst that a cluster redirects was not executed at all, since in a cluster every burst of more
 * than one request is a transaction of one stream. So it stays where it is, in front of those that
 * wait.
 */
#include "base/alloc.h"
#include "sinks/redis/redis_command.h"
#include "sinks/redis/redis_dedup.h"
#include "sinks/redis/redis_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Redirects of one burst; then the cluster does not know itself. */
#define MAX_REDIRECTS 5

/* The next answer is the first one to what was sent behind it. */
static void end_first_burst(struct redis_queue *queue)
{
        if (!redis_burst_is_open(&queue->behind)) {
                redis_queue_end_bursts(queue);
                return;
        }
        queue->burst = queue->behind;
        queue->behind.stage = STAGE_ANSWERED;
        queue->is_behind_refused = false;
        redis_keys_forget_others(&queue->sink->keys);
}

/* They come again. */
static void give_back_waiting(struct redis_queue *queue)
{
        for (size_t i = queue->ring.n_sent; i < queue->ring.n; i++)
                redis_request_finish_later(
                    queue->sink, redis_ring_at(&queue->ring, i), &outcome_cancelled);
        redis_ring_drop_waiting(&queue->ring);
}

/* What a verdict means for the connection and for those that wait. */
static void react(
    struct redis_queue *queue, const struct redis_verdict *verdict, struct redis_reaction *reaction)
{
        enum outcome_kind kind = verdict->outcome.kind;

        if (verdict->ends_connection) {
                if (redis_burst_is_open(&queue->burst))
                        redis_queue_end_bursts(queue);
                queue->ring.n_sent = 0;
                reaction->drops = true;
                reaction->verdict = verdict;
        }
        reaction->leaves |= verdict->leaves_server;
        reaction->rediscovers |= kind == OUTCOME_SINK_DOWN;
        /* After a rejected event, which becomes a dead letter, its key goes on. */
        if (verdict->ends_connection || (kind != OUTCOME_DELIVERED && kind != OUTCOME_REJECTED))
                give_back_waiting(queue);
}

static bool is_redirected(const struct redis_queue *queue, const struct redis_verdict *verdict)
{
        return queue->sink->policy.is_cluster && verdict->redirect.kind != REDIRECT_NONE;
}

/* The burst was not executed, and goes where the cluster says. */
static void follow(
    struct redis_queue *queue, const struct redis_verdict *verdict, struct redis_reaction *reaction)
{
        queue->ring.n_sent = 0;
        reaction->may_send = true;
        if (++queue->n_redirects > MAX_REDIRECTS) {
                const struct outcome down =
                    outcome_make(OUTCOME_SINK_DOWN, "the cluster redirected this %d times: %s",
                        MAX_REDIRECTS, verdict->outcome.reason);
                reaction->rediscovers = true;
                redis_queue_give_back(queue, &down);
                return;
        }
        reaction->is_redirected = true;
        reaction->verdict = verdict;
}

/* The answer to one request, which is the first in the ring. */
static void answer_one(
    struct redis_queue *queue, const redisReply *reply, struct redis_reaction *reaction)
{
        struct redis_sink *sink = queue->sink;
        struct redis_answer *answer = &sink->answers[0];
        const struct outcome *outcome = &outcome_delivered;

        reaction->may_send = true;
        answer->is_delivered = redis_reply_is_success(reply);
        if (!answer->is_delivered) {
                answer->verdict =
                    redis_reply_judge(reply, redis_command_is_target_per_event(sink->encoder));
                if (is_redirected(queue, &answer->verdict)) {
                        follow(queue, &answer->verdict, reaction);
                        return;
                }
                outcome = &answer->verdict.outcome;
        }
        queue->n_redirects = 0;
        answer->request = redis_ring_take(&queue->ring);
        if (answer->request.attempt != NULL) {
                reaction->n_answers = 1;
        } else {
                const struct outcome probed = redis_probe_judge(sink, reply, outcome);
                redis_request_finish_later(sink, &answer->request, &probed);
        }
        if (!answer->is_delivered)
                react(queue, &answer->verdict, reaction);
}

/* Judges each request of the burst, and enters in the ledger what was taken. */
static void judge_all(struct redis_queue *queue, const redisReply *reply)
{
        struct redis_sink *sink = queue->sink;
        const bool is_per_event = redis_command_is_target_per_event(sink->encoder);

        for (size_t i = 0; i < queue->burst.n; i++) {
                struct redis_answer *answer = &sink->answers[i];
                answer->is_delivered = redis_burst_is_delivered(&queue->burst, reply, i);
                if (!answer->is_delivered)
                        answer->verdict =
                            redis_burst_verdict(&queue->burst, reply, i, is_per_event);
                else if (sink->dedup != NULL)
                        redis_dedup_note_delivered(
                            sink->dedup, redis_ring_at(&queue->ring, i)->attempt->event);
        }
        if (sink->dedup != NULL && !queue->burst.is_refused)
                redis_dedup_note_executed(sink->dedup);
}

/* Between EXEC and WAIT of this burst, other nodes of a cluster answer other queues. */
static void hold_answers(struct redis_queue *queue)
{
        size_t size = queue->burst.n * sizeof *queue->held;

        if (!queue->sink->policy.is_cluster)
                return;
        queue->held = xmalloc(size);
        memcpy(queue->held, queue->sink->answers, size);
}

static void release_answers(struct redis_queue *queue)
{
        if (queue->held != NULL)
                memcpy(queue->sink->answers, queue->held, queue->burst.n * sizeof *queue->held);
        free(queue->held);
        queue->held = NULL;
}

/* Too few replicas have it: it may be lost with the server, so it is not delivered. */
static void take_back_delivered(struct redis_queue *queue)
{
        for (size_t i = 0; i < queue->burst.n; i++) {
                struct redis_answer *answer = &queue->sink->answers[i];
                if (!answer->is_delivered)
                        continue;
                answer->is_delivered = false;
                answer->verdict = queue->burst.refusal;
        }
}

static void answer_all(struct redis_queue *queue, struct redis_reaction *reaction)
{
        const struct redis_burst *burst = &queue->burst;
        struct redis_answer *answers = queue->sink->answers;

        if (burst->is_refused && is_redirected(queue, &burst->refusal)) {
                follow(queue, &burst->refusal, reaction);
                return;
        }
        queue->n_redirects = 0;
        for (size_t i = 0; i < burst->n; i++)
                answers[i].request = redis_ring_take(&queue->ring);
        if (burst->is_refused && !burst->refusal.outcome.concerns_all)
                queue->n_alone = (unsigned)burst->n;
        for (size_t i = 0; i < burst->n; i++)
                if (!answers[i].is_delivered)
                        react(queue, &answers[i].verdict, reaction);
        reaction->n_answers = burst->n;
        reaction->may_send = true;
}

/* Without the stream nothing can be sent on this connection. */
static void take_claim_error(
    struct redis_queue *queue, const redisReply *reply, struct redis_reaction *reaction)
{
        struct redis_verdict *verdict = &queue->sink->answers[0].verdict;
        const struct outcome *outcome = &verdict->outcome;
        bool is_waiting;
        char refusal[400];

        *verdict = redis_reply_judge(reply, false);
        redis_queue_end_bursts(queue);
        reaction->drops = true; /* with the answer to WAIT, if there is one */
        reaction->verdict = verdict;
        if (is_redirected(queue, verdict)) {
                follow(queue, verdict, reaction);
                return;
        }
        is_waiting = outcome->kind == OUTCOME_SINK_DOWN && !outcome->needs_operator;
        snprintf(refusal, sizeof refusal, "cannot claim the stream: %s", outcome->reason);
        redis_queue_lose(queue, outcome->fault, !is_waiting, refusal);
}

static void end_claim(struct redis_queue *queue, struct redis_reaction *reaction)
{
        queue->sink->claimed_on = queue->node->number;
        reaction->may_send = true;
}

static void take_claim(
    struct redis_queue *queue, const redisReply *reply, struct redis_reaction *reaction)
{
        struct redis_verdict *verdict = &queue->sink->answers[0].verdict;
        char refusal[400];

        if (reply->type == REDIS_REPLY_ERROR) {
                take_claim_error(queue, reply, reaction);
        } else if (!redis_dedup_take_claim(queue->sink->dedup, reply, refusal, sizeof refusal)) {
                verdict->outcome = outcome_make(OUTCOME_SINK_DOWN, "%s", refusal);
                reaction->drops = true;
                reaction->verdict = verdict;
                redis_queue_lose(queue, OUTCOME_FAULT_REDIS, true, refusal);
        } else if (!redis_burst_is_open(&queue->burst)) {
                end_claim(queue, reaction);
        }
}

/* A claim writes, so a replica that has it has all that was delivered before. */
static void take_confirmation(struct redis_queue *queue, struct redis_reaction *reaction)
{
        const struct outcome *refusal = &queue->burst.refusal.outcome;

        if (queue->burst.is_refused)
                redis_queue_lose(queue, refusal->fault, refusal->needs_operator, refusal->reason);
        else
                end_claim(queue, reaction);
}

/* What cannot be purged now is purged later: no event waits for it. */
static void take_purge(
    struct redis_queue *queue, const redisReply *reply, struct redis_reaction *reaction)
{
        bool is_purged = reply->type == REDIS_REPLY_ARRAY;

        if (is_purged)
                redis_dedup_note_executed(queue->sink->dedup);
        reaction->leaves = !is_purged;
        reaction->may_send = is_purged || queue->ring.n > 0;
}

struct redis_reaction redis_queue_take(struct redis_queue *queue, const redisReply *reply)
{
        bool is_stream_per_event = redis_command_is_target_per_event(queue->sink->encoder);
        struct redis_reaction reaction = {0};
        enum redis_burst_step step;

        if (queue->awaits_asking) {
                queue->awaits_asking = false;
                return reaction;
        }
        step = redis_burst_take(&queue->burst, reply, is_stream_per_event);
        if (!redis_burst_is_open(&queue->burst))
                end_first_burst(queue);
        switch (step) {
        case BURST_GOES_ON:
                break;
        case BURST_ANSWERS_ONE:
                answer_one(queue, reply, &reaction);
                break;
        case BURST_ANSWERS_ALL:
                judge_all(queue, reply);
                answer_all(queue, &reaction);
                break;
        case BURST_EXECUTED:
                judge_all(queue, reply);
                hold_answers(queue);
                break;
        case BURST_WAITED:
                if (queue->burst.kind == BURST_CLAIM) {
                        take_confirmation(queue, &reaction);
                        break;
                }
                release_answers(queue);
                if (queue->burst.is_refused)
                        take_back_delivered(queue);
                answer_all(queue, &reaction);
                break;
        case BURST_LOST_MULTI: /* the permission was taken away; the handshake will say so */
                reaction.leaves = true;
                reaction.may_send = true;
                break;
        case BURST_CLAIMED:
                take_claim(queue, reply, &reaction);
                break;
        case BURST_PURGED:
                take_purge(queue, reply, &reaction);
                break;
        }
        return reaction;
}

void redis_queue_give_back(struct redis_queue *queue, const struct outcome *outcome)
{
        redis_queue_end_bursts(queue);
        free(queue->held);
        queue->held = NULL;
        queue->asked = NULL;
        queue->n_redirects = 0;
        while (queue->ring.n > 0) {
                const struct redis_request request = redis_ring_take(&queue->ring);
                redis_request_finish_later(queue->sink, &request, outcome);
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
        struct outcome down = outcome_down(fault, needs_operator, "%s", reason);
        struct outcome unsent;
        struct outcome unanswered =
            outcome_make(OUTCOME_RETRY, "unknown whether it arrived: %s", reason);

        unsent = down;
        if (is_silent(fault))
                unsent.fault = OUTCOME_FAULT_REFUSED;
        down.fault = unanswered.fault = is_silent(fault) ? fault : OUTCOME_FAULT_LOST;
        unanswered.is_unanswered = true;
        while (queue->ring.n_sent > 0) {
                const struct redis_request request = redis_ring_take(&queue->ring);
                bool is_suspect =
                    request.attempt != NULL && redis_event_is_large(request.attempt->event);
                redis_request_finish_later(queue->sink, &request, is_suspect ? &unanswered : &down);
        }
        redis_queue_give_back(queue, &unsent);
}
