/*
 * Redis answers in the order of the commands, so the queue that has waited longest gets the next
 * answer.
 */
#include "base/alloc.h"
#include "sinks/redis/redis_internal.h"
#include "sinks/redis/redis_sentinel.h"

#include <assert.h>
#include <stdlib.h>

static void on_found(void *owner, const struct redis_endpoint *endpoint)
{
        struct redis_node *node = owner;

        redis_connection_open(node->connection, endpoint);
}

static void lose_all(
    struct redis_node *node, enum outcome_fault fault, bool needs_operator, const char *reason)
{
        struct redis_sink *sink = node->sink;

        if (sink->router->rediscover != NULL)
                sink->router->rediscover(sink);
        if (sink->sentinel != NULL)
                redis_sentinel_rediscover(sink->sentinel);
        while (!list_is_empty(&node->sent))
                redis_queue_lose(list_owner(node->sent.next, struct redis_queue, link), fault,
                    needs_operator, reason);
        while (!list_is_empty(&node->waiting))
                redis_queue_lose(list_owner(node->waiting.next, struct redis_queue, link), fault,
                    needs_operator, reason);
}

static void on_lost(void *owner, bool needs_operator, const char *reason)
{
        struct redis_node *node = owner;

        lose_all(node, redis_connection_fault(node->connection), needs_operator, reason);
}

/* No sentinel could say where the master is. */
static void on_not_found(void *owner, bool needs_operator, const char *reason)
{
        lose_all(owner, OUTCOME_FAULT_REFUSED, needs_operator, reason);
}

static void open_connection(struct redis_node *node)
{
        if (redis_connection_state(node->connection) != REDIS_CLOSED)
                return;
        if (node->sink->sentinel != NULL)
                redis_sentinel_ask(node->sink->sentinel, on_found, on_not_found, node);
        else
                redis_connection_open(node->connection, &node->endpoint);
}

static void send_queue(struct redis_node *node, struct redis_queue *queue)
{
        unsigned n_commands;

        queue->node = node;
        n_commands = redis_queue_send(queue, redis_connection_out(node->connection));
        if (n_commands == 0)
                return;
        list_push_back(&node->sent, &queue->link);
        redis_connection_note_sent(node->connection, n_commands);
}

static void send_behind(struct redis_node *node, struct redis_queue *queue)
{
        unsigned n_commands;

        if (redis_connection_state(node->connection) != REDIS_READY)
                return;
        n_commands = redis_queue_send_behind(queue, redis_connection_out(node->connection));
        if (n_commands > 0)
                redis_connection_note_sent(node->connection, n_commands);
}

void redis_node_advance(struct redis_queue *queue)
{
        if (redis_burst_is_open(&queue->burst))
                send_behind(queue->node, queue);
        else if (list_is_empty(&queue->link))
                queue->sink->router->serve(queue->sink, queue);
}

static void on_ready(void *owner)
{
        struct redis_node *node = owner;

        node->number = ++node->sink->n_connections;
        while (!list_is_empty(&node->waiting)) {
                struct redis_queue *queue =
                    list_owner(node->waiting.next, struct redis_queue, link);
                list_remove(&queue->link);
                send_queue(node, queue);
        }
}

/* Queues with a burst in flight lose it. */
static void drop(struct redis_node *node, const char *reason)
{
        redis_connection_close(node->connection);
        while (!list_is_empty(&node->sent))
                redis_queue_lose(list_owner(node->sent.next, struct redis_queue, link),
                    OUTCOME_FAULT_LOST, false, reason);
        if (!list_is_empty(&node->waiting))
                open_connection(node);
}

/* Finishing may start other attempts, cancel, and with the last one close the sink: so the
 * outcome is copied, and nothing is read after it. */
static void give_answers(const struct redis_answer *answers, size_t n_answers)
{
        for (size_t i = 0; i < n_answers; i++) {
                struct outcome outcome;

                if (answers[i].is_delivered) {
                        attempt_finish(answers[i].request.attempt, &outcome_delivered);
                        continue;
                }
                outcome = answers[i].verdict.outcome;
                attempt_finish(answers[i].request.attempt, &outcome);
        }
}

static void on_reply(void *owner, const redisReply *reply)
{
        struct redis_node *node = owner;
        struct redis_sink *sink = node->sink;
        struct redis_queue *queue = list_owner(node->sent.next, struct redis_queue, link);
        struct redis_reaction reaction;

        assert(!list_is_empty(&node->sent));
        /* It was retiring, and others have come for the next one. */
        if (!list_is_empty(&node->waiting))
                open_connection(node);
        reaction = redis_queue_take(queue, reply);
        if (reaction.drops)
                drop(node, reaction.verdict->outcome.reason);
        else if (reaction.leaves)
                redis_node_leave(node);
        if (reaction.rediscovers && sink->router->rediscover != NULL)
                sink->router->rediscover(sink);
        if (reaction.is_redirected)
                sink->router->redirect(sink, queue, &reaction.verdict->redirect);
        if (reaction.may_send)
                redis_node_advance(queue);
        give_answers(sink->answers, reaction.n_answers);
}

struct redis_node *redis_node_create(struct redis_sink *sink, const struct redis_endpoint *endpoint)
{
        static const struct redis_connection_events events = {
            .on_ready = on_ready, .on_reply = on_reply, .on_lost = on_lost};
        const struct redis_session session = {.config = sink->config,
            .tls = sink->tls,
            .peer = sink->cluster != NULL ? REDIS_PEER_NODE : REDIS_PEER_SINGLE};
        struct redis_node *node = xcalloc(1, sizeof *node);

        node->sink = sink;
        node->endpoint = (struct redis_endpoint){
            .host = endpoint->host != NULL ? xstrdup(endpoint->host) : NULL,
            .port = endpoint->port,
            .socket_path = endpoint->socket_path != NULL ? xstrdup(endpoint->socket_path) : NULL};
        node->connection = redis_connection_create(sink->base.loop, &session, &events, node);
        list_init(&node->sent);
        list_init(&node->waiting);
        return node;
}

void redis_node_destroy(struct redis_node *node)
{
        if (node == NULL)
                return;
        redis_connection_destroy(node->connection);
        free(node->endpoint.host);
        free(node->endpoint.socket_path);
        free(node);
}

void redis_node_serve(struct redis_node *node, struct redis_queue *queue)
{
        assert(list_is_empty(&queue->link));
        if (redis_connection_state(node->connection) == REDIS_READY) {
                send_queue(node, queue);
                return;
        }
        list_push_back(&node->waiting, &queue->link);
        open_connection(node);
}

void redis_node_leave(struct redis_node *node)
{
        if (redis_connection_state(node->connection) == REDIS_READY)
                redis_connection_retire(node->connection);
}

void redis_node_flush(struct redis_node *node)
{
        redis_connection_flush(node->connection);
}
