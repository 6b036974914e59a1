/*
 * What a queue sends: a burst of its requests, or, where the sink remembers what it has delivered
 * (exactly_once), first the claim of the stream, and the removal of marks when there is nothing else.
 */
#include "base/bytes.h"
#include "config/config.h"
#include "pgcourier/event.h"
#include "pgcourier/sink.h"
#include "sinks/redis/redis_command.h"
#include "sinks/redis/redis_dedup.h"
#include "sinks/redis/redis_internal.h"
#include "sinks/redis/resp_write.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

static void send_text(struct redis_queue *queue, const char *text)
{
        struct redis_connection *connection = queue->node->connection;

        bytes_append_text(redis_connection_out(connection), text);
        redis_connection_note_sent(connection, 1);
}

static void send_wait(struct redis_queue *queue)
{
        const struct redis_sink *sink = queue->sink;
        struct bytes *out = redis_connection_out(queue->node->connection);

        redis_append_count(out, '*', 3);
        REDIS_APPEND_WORD(out, 4, "WAIT");
        redis_append_number(out, sink->policy.wait_replicas);
        redis_append_number(out, (uint64_t)sink->config->wait_timeout_ms);
        redis_connection_note_sent(queue->node->connection, 1);
}

/* The first n requests of the ring, which may be none. */
static void send_script(struct redis_queue *queue, size_t n)
{
        struct redis_sink *sink = queue->sink;
        struct bytes *out = redis_connection_out(queue->node->connection);

        redis_dedup_encode_burst(sink->marks, &queue->ring, n, sink->encoder, out);
        redis_connection_note_sent(queue->node->connection, 1);
}

/* The burst's requests begin at this place of the ring. */
static void send_commands(struct redis_queue *queue, size_t first, const struct redis_burst *burst)
{
        struct redis_connection *connection = queue->node->connection;
        struct bytes *out = redis_connection_out(connection);
        unsigned n_commands = (unsigned)burst->n;

        if (burst->is_transaction) {
                bytes_append_text(out, "*1\r\n$5\r\nMULTI\r\n");
                n_commands += 2;
        }
        for (size_t i = 0; i < burst->n; i++) {
                const struct attempt *attempt = redis_ring_at(&queue->ring, first + i)->attempt;

                if (attempt != NULL)
                        redis_command_encode(queue->sink->encoder, attempt->event, out);
                else
                        redis_probe_encode(queue->sink, out);
        }
        if (burst->is_transaction)
                bytes_append_text(out, "*1\r\n$4\r\nEXEC\r\n");
        redis_connection_note_sent(connection, n_commands);
}

static void send_burst(struct redis_queue *queue)
{
        struct redis_sink *sink = queue->sink;

        queue->burst =
            redis_burst_plan(&queue->ring, &sink->policy, &sink->keys, queue->n_alone > 0);
        queue->ring.n_sent = queue->burst.n;
        queue->is_behind_refused = false;
        if (queue->n_alone > 0)
                queue->n_alone--;
        if (queue->burst.is_script)
                send_script(queue, queue->burst.n);
        else
                send_commands(queue, 0, &queue->burst);
        if (queue->burst.wait_replicas > 0)
                send_wait(queue);
}

static void send_claim(struct redis_queue *queue)
{
        struct redis_sink *sink = queue->sink;

        queue->phase = MARKS_CLAIMING;
        queue->burst = (struct redis_burst){.is_open = true};
        redis_dedup_encode_claim(sink->marks, redis_connection_out(queue->node->connection));
        redis_connection_note_sent(queue->node->connection, 1);
        if (sink->policy.wait_replicas > 0)
                send_wait(queue);
}

static void send_tidying(struct redis_queue *queue)
{
        queue->phase = MARKS_TIDYING;
        queue->burst = (struct redis_burst){.is_open = true};
        send_script(queue, 0);
}

/* Of what is redriven or replayed, a mark may be that of the first delivery. */
static bool is_delivered(const struct redis_queue *queue, const struct redis_request *request)
{
        const struct event *event = request->attempt != NULL ? request->attempt->event : NULL;

        return event != NULL && !event->is_redriven && redis_dedup_has(queue->sink->marks, event);
}

/* Answers those that an earlier connection, or an earlier owner of the lane, has delivered. */
static void sift_marked(struct redis_queue *queue)
{
        for (size_t n = queue->ring.n; n > 0; n--) {
                const struct redis_request request = redis_ring_take(&queue->ring);
                if (is_delivered(queue, &request))
                        redis_sink_finish_later(queue->sink, &request, &outcome_delivered);
                else
                        redis_ring_push(&queue->ring, request);
        }
}

/* A probe of a sink that owns no lane must not take the stream from the one that does. */
static bool wants_claim(const struct redis_queue *queue, const struct redis_node *node)
{
        const struct redis_sink *sink = queue->sink;

        return sink->marks != NULL && redis_dedup_is_owned(sink->marks) &&
               sink->claimed_on != node->number;
}

bool redis_queue_wants_tidying(const struct redis_queue *queue)
{
        return queue->sink->marks != NULL && redis_dedup_has_settled(queue->sink->marks);
}

void redis_queue_send(struct redis_queue *queue, struct redis_node *node)
{
        bool is_claim = wants_claim(queue, node);

        assert(!queue->burst.is_open && list_is_empty(&queue->link));
        if (!is_claim && queue->sink->marks != NULL)
                sift_marked(queue);
        if (!is_claim && queue->ring.n == 0 && !redis_queue_wants_tidying(queue))
                return;
        queue->node = node;
        queue->awaits_asking = queue->asked != NULL;
        queue->asked = NULL;
        list_push_back(&node->sent, &queue->link);
        if (queue->awaits_asking)
                send_text(queue, "*1\r\n$6\r\nASKING\r\n");
        if (is_claim)
                send_claim(queue);
        else if (queue->ring.n > 0)
                send_burst(queue);
        else
                send_tidying(queue);
}

/* As long as more is unanswered than waits, Redis has enough to do, and what waits can still grow. */
static bool is_worth_it(const struct redis_queue *queue)
{
        size_t n_waiting = queue->ring.n - queue->ring.n_sent;

        return n_waiting > 0 && n_waiting >= queue->ring.n_sent;
}

void redis_queue_send_behind(struct redis_queue *queue)
{
        const struct redis_sink *sink = queue->sink;

        if (queue->behind.is_open || queue->is_behind_refused || queue->n_alone > 0 ||
            !is_worth_it(queue) || redis_connection_state(queue->node->connection) != REDIS_READY)
                return;
        queue->behind =
            redis_burst_plan_behind(&queue->ring, &sink->policy, &queue->sink->keys, &queue->burst);
        queue->is_behind_refused = !queue->behind.is_open;
        if (!queue->behind.is_open)
                return;
        send_commands(queue, queue->ring.n_sent, &queue->behind);
        queue->ring.n_sent += queue->behind.n;
}
