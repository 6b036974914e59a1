/*
 * RabbitMQ: each event becomes one persistent, mandatory message, and counts as delivered by its
 * own confirm.
 *
 *   rabbitmq_sink        when something is sent: servers, channels, deadlines, being blocked
 *   rabbitmq_attempts    what is sent next, and how each attempt ends
 *   rabbitmq_connection  one connection and its channel; below it greeting, frames
 *   rabbitmq_message, rabbitmq_answers, rabbitmq_unconfirmed: pure
 *
 * After a nack the channel is renewed. One that was opened while a quorum queue had no leader (seen
 * with RabbitMQ 3.10) goes on asking the node that led it before, and refuses everything for ever.
 */
#include "base/alloc.h"
#include "base/error.h"
#include "config/config.h"
#include "config/server_address.h"
#include "loop/timer.h"
#include "loop/tls_session.h"
#include "pgcourier/sink.h"
#include "sinks/rabbitmq/rabbitmq_attempts.h"
#include "sinks/rabbitmq/rabbitmq_connection.h"
#include "sinks/rabbitmq/rabbitmq_message.h"
#include "sinks/sink_contract.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

/* Messages whose attempts timed out, and whose confirms are still to come: with more of them the
 * connection is given up. */
enum { MAX_ABANDONED = 10000 };

/* A queue that is full refuses many: new channels help it no further. */
enum { RENEWAL_MS = 1000 };

struct rabbitmq_sink {
        struct sink base;
        const struct rabbitmq_config *config;   /* borrowed */
        struct rabbitmq_encoder *encoder;       /* owned */
        struct tls_context *tls;                /* owned; NULL: no server has it */
        struct server_address *servers;         /* owned; config->n_servers */
        unsigned server;                        /* the one to connect to */
        unsigned n_tried;                       /* servers that failed since one was READY */
        struct rabbitmq_connection *connection; /* owned */

        struct rabbitmq_attempts attempts;
        bool is_refused;   /* by a nack on this channel */
        uint64_t ready_ms; /* uv_now() when the channel became READY */

        struct timer *deadline; /* owned; of the oldest unconfirmed */

        struct timer *blocked; /* owned; armed while RabbitMQ blocks us */
        char blocked_why[160];
        uint64_t unblocked_ms; /* uv_now() when that ended last */

        sink_probed_fn *on_probed; /* NULL: nobody asks */
        void *probe_owner;         /* borrowed */
};

extern const struct sink_ops rabbitmq_sink_ops;

static struct rabbitmq_sink *rabbitmq_sink_from(struct sink *sink)
{
        assert(sink->ops == &rabbitmq_sink_ops);
        return (struct rabbitmq_sink *)sink;
}

/* Sending. */

static bool is_blocked(const struct rabbitmq_sink *sink)
{
        return timer_is_armed(sink->blocked);
}

static void open_connection(struct rabbitmq_sink *sink)
{
        const struct server_address *server = &sink->servers[sink->server];

        rabbitmq_connection_open(
            sink->connection, server->host, server->port, server->is_tls ? sink->tls : NULL);
}

static void refuse_while_blocked(struct rabbitmq_sink *sink)
{
        const struct outcome outcome =
            outcome_down(OUTCOME_FAULT_AMQP, false, "RabbitMQ blocks us: %s", sink->blocked_why);

        rabbitmq_attempts_give_back_unsent(&sink->attempts, &outcome);
}

static void watch_deadline(struct rabbitmq_sink *sink)
{
        uint64_t now_ms = uv_now(sink->base.loop);
        uint64_t due_ms;

        if (sink->attempts.unconfirmed.n_attempts == 0 || timer_is_armed(sink->deadline))
                return;
        due_ms = rabbitmq_unconfirmed_oldest_ms(&sink->attempts.unconfirmed) +
                 (uint64_t)sink->config->timeout_ms;
        timer_arm_behind_sockets(sink->deadline, due_ms > now_ms ? due_ms - now_ms : 0);
}

static void send_waiting(struct rabbitmq_sink *sink)
{
        rabbitmq_attempts_send(
            &sink->attempts, sink->encoder, sink->connection, uv_now(sink->base.loop));
        watch_deadline(sink);
}

static bool wants_new_channel(const struct rabbitmq_sink *sink)
{
        return sink->is_refused && uv_now(sink->base.loop) - sink->ready_ms >= RENEWAL_MS;
}

/* Once nothing is under way on the old one. */
static void renew_channel(struct rabbitmq_sink *sink)
{
        if (sink->attempts.unconfirmed.n_attempts == 0)
                rabbitmq_connection_renew_channel(sink->connection);
}

/* Does what can be done now for those that wait. */
static void advance(struct rabbitmq_sink *sink)
{
        bool has_work = rabbitmq_attempts_has_unsent(&sink->attempts);

        switch (rabbitmq_connection_state(sink->connection)) {
        case RABBITMQ_CLOSED:
                if (has_work || sink->on_probed != NULL)
                        open_connection(sink);
                return;
        case RABBITMQ_CONNECTING:
        case RABBITMQ_STARTING:
        case RABBITMQ_TUNING:
        case RABBITMQ_OPENING:
        case RABBITMQ_CHANNEL:
        case RABBITMQ_DECLARING:
        case RABBITMQ_CONFIRMING:
        case RABBITMQ_RENEWING:
                return;
        case RABBITMQ_READY:
                if (is_blocked(sink))
                        refuse_while_blocked(sink);
                else if (wants_new_channel(sink))
                        renew_channel(sink);
                else if (has_work)
                        send_waiting(sink);
                return;
        }
}

/* What comes. */

static void answer_probe(struct rabbitmq_sink *sink, const struct outcome *outcome)
{
        if (sink->on_probed == NULL)
                return;
        sink_probed_later(&sink->base, sink->on_probed, sink->probe_owner, outcome);
        sink->on_probed = NULL;
}

static void on_ready(void *owner)
{
        struct rabbitmq_sink *sink = owner;

        sink->n_tried = 0;
        sink->is_refused = false;
        sink->ready_ms = uv_now(sink->base.loop);
        rabbitmq_unconfirmed_restart(&sink->attempts.unconfirmed);
        answer_probe(sink, &outcome_delivered);
}

static bool on_confirm(void *owner, uint64_t tag, bool is_multiple, bool is_ack)
{
        struct rabbitmq_sink *sink = owner;

        sink->is_refused |= !is_ack;
        return rabbitmq_attempts_confirm(&sink->attempts, tag, is_multiple, is_ack);
}

static void on_return(void *owner, struct amqp_span message_id)
{
        struct rabbitmq_sink *sink = owner;

        rabbitmq_unconfirmed_return(&sink->attempts.unconfirmed, message_id);
}

static bool on_channel_closed(void *owner, const struct amqp_news *close)
{
        struct rabbitmq_sink *sink = owner;

        return rabbitmq_attempts_channel_closed(&sink->attempts, close);
}

static void on_blocked(void *owner, struct amqp_span why)
{
        struct rabbitmq_sink *sink = owner;

        snprintf(sink->blocked_why, sizeof sink->blocked_why, "%.*s", (int)why.length, why.text);
        if (!is_blocked(sink))
                timer_arm(sink->blocked, (uint64_t)sink->config->blocked_timeout_ms);
}

static void on_unblocked(void *owner)
{
        struct rabbitmq_sink *sink = owner;

        timer_disarm(sink->blocked);
        sink->unblocked_ms = uv_now(sink->base.loop);
        watch_deadline(sink);
}

static void on_lost(void *owner, const struct outcome *outcome, bool was_greeted)
{
        struct rabbitmq_sink *sink = owner;

        timer_disarm(sink->blocked);
        timer_disarm(sink->deadline);
        sink->server = (sink->server + 1) % sink->config->n_servers;
        if (!was_greeted && !outcome->needs_operator && ++sink->n_tried < sink->config->n_servers)
                return; /* those that wait go by the next */
        sink->n_tried = 0;
        rabbitmq_attempts_give_back(&sink->attempts, outcome);
        answer_probe(sink, outcome);
}

/* Finishing may start other attempts, cancel, and with the last one close the sink. */
static void on_end(void *owner)
{
        struct rabbitmq_sink *sink = owner;
        struct attempt_queue delivered = sink->attempts.delivered;
        struct attempt *attempt;

        sink->attempts.delivered = (struct attempt_queue){0};
        advance(sink);
        while ((attempt = attempt_queue_take(&delivered)) != NULL)
                attempt_finish(attempt, &outcome_delivered);
}

static void on_blocked_too_long(void *owner)
{
        struct rabbitmq_sink *sink = owner;

        rabbitmq_connection_lose(
            sink->connection, outcome_down(OUTCOME_FAULT_AMQP, false,
                                  "RabbitMQ has blocked us for %" PRId64 " ms: %s",
                                  sink->config->blocked_timeout_ms, sink->blocked_why));
}

/* RabbitMQ talks, but does not confirm: a quorum queue without a majority, say. */
static void expire(struct rabbitmq_sink *sink, uint64_t sent_before_ms)
{
        const struct rabbitmq_unconfirmed *unconfirmed = &sink->attempts.unconfirmed;

        rabbitmq_attempts_expire(&sink->attempts, sent_before_ms);
        watch_deadline(sink); /* of those that were sent later */
        if (rabbitmq_unconfirmed_count(unconfirmed) - unconfirmed->n_attempts > MAX_ABANDONED)
                rabbitmq_connection_lose(sink->connection,
                    outcome_down(OUTCOME_FAULT_TIMEOUT, false,
                        "%s leaves more than %d messages without a confirm",
                        rabbitmq_connection_peer(sink->connection), MAX_ABANDONED));
        else
                on_end(sink);
}

static uint64_t later_of(uint64_t a, uint64_t b)
{
        return a > b ? a : b;
}

/*
 * An attempt is overdue `timeout` after it was sent. If RabbitMQ has said something since then, it
 * is that event's affair. If not, RabbitMQ is given `timeout` from its last word, and then it is an
 * outage. While it blocks us nothing is overdue.
 */
static void on_deadline(void *owner)
{
        struct rabbitmq_sink *sink = owner;
        uint64_t limit_ms = (uint64_t)sink->config->timeout_ms;
        uint64_t now_ms = uv_now(sink->base.loop);
        uint64_t heard_ms = rabbitmq_connection_heard_ms(sink->connection);
        uint64_t due_ms;

        if (sink->attempts.unconfirmed.n_attempts == 0 || is_blocked(sink))
                return;
        due_ms = limit_ms + later_of(rabbitmq_unconfirmed_oldest_ms(&sink->attempts.unconfirmed),
                                sink->unblocked_ms);
        if (now_ms >= due_ms && heard_ms < due_ms)
                due_ms = later_of(due_ms, heard_ms + limit_ms);
        if (now_ms < due_ms) {
                timer_arm_behind_sockets(sink->deadline, due_ms - now_ms);
                return;
        }
        if (now_ms - heard_ms >= limit_ms)
                rabbitmq_connection_lose(sink->connection,
                    outcome_down(OUTCOME_FAULT_TIMEOUT, false,
                        "%s has not answered for %" PRId64 " ms",
                        rabbitmq_connection_peer(sink->connection), sink->config->timeout_ms));
        else
                expire(sink, now_ms - limit_ms);
}

/* The contract. */

static void rabbitmq_deliver(struct sink *base, struct attempt *attempt)
{
        attempt_queue_push(
            &rabbitmq_sink_from(base)->attempts.waiting, attempt); /* flush() sends it */
}

static void rabbitmq_flush(struct sink *base)
{
        struct rabbitmq_sink *sink = rabbitmq_sink_from(base);

        advance(sink);
        rabbitmq_connection_flush(sink->connection);
}

static void rabbitmq_describe_target(
    const struct sink *base, const struct event *event, const void *target, char *text, size_t size)
{
        (void)target;
        rabbitmq_describe(((const struct rabbitmq_sink *)base)->encoder, event, text, size);
}

/* Without the connection, what RabbitMQ has not read by then is not stored any more. */
static void rabbitmq_cancel(struct sink *base)
{
        struct rabbitmq_sink *sink = rabbitmq_sink_from(base);

        if (sink->attempts.unconfirmed.n_attempts > 0) {
                timer_disarm(sink->deadline);
                timer_disarm(sink->blocked);
                rabbitmq_connection_close(sink->connection);
        }
        rabbitmq_attempts_give_back(&sink->attempts, &outcome_cancelled);
}

static void rabbitmq_probe(struct sink *base, sink_probed_fn *on_probed, void *owner)
{
        struct rabbitmq_sink *sink = rabbitmq_sink_from(base);

        assert(sink->on_probed == NULL);
        sink->on_probed = on_probed;
        sink->probe_owner = owner;
        if (rabbitmq_connection_state(sink->connection) == RABBITMQ_READY)
                answer_probe(sink, &outcome_delivered);
        else
                advance(sink);
}

static void destroy(struct sink *base)
{
        struct rabbitmq_sink *sink = rabbitmq_sink_from(base);

        rabbitmq_connection_destroy(sink->connection);
        for (unsigned i = 0; sink->servers != NULL && i < sink->config->n_servers; i++)
                server_address_deinit(&sink->servers[i]);
        free(sink->servers);
        tls_context_destroy(sink->tls);
        rabbitmq_encoder_destroy(sink->encoder);
        rabbitmq_unconfirmed_deinit(&sink->attempts.unconfirmed);
        timer_destroy(sink->deadline);
        timer_destroy(sink->blocked);
        sink_deinit(&sink->base);
        free(sink);
}

static void rabbitmq_close(struct sink *base, sink_closed_fn *on_closed, void *owner)
{
        assert(rabbitmq_sink_from(base)->on_probed == NULL);
        sink_close_later(base, destroy, on_closed, owner);
}

static bool read_servers(struct rabbitmq_sink *sink, struct error *error)
{
        const struct rabbitmq_config *config = sink->config;

        sink->servers = xcalloc(config->n_servers, sizeof *sink->servers);
        for (unsigned i = 0; i < config->n_servers; i++) {
                const char *wrong = server_address_split(
                    SERVER_AMQP, config->servers[i], config->tls, &sink->servers[i]);
                if (wrong != NULL)
                        return error_set(error, ERROR_CONFIG, "server %u %s", i + 1, wrong);
        }
        return true;
}

static bool open_tls(struct rabbitmq_sink *sink, struct error *error)
{
        const struct tls_files files = {.ca_file = sink->config->ca_file,
            .cert_file = sink->config->cert_file,
            .key_file = sink->config->key_file};
        bool is_used = false;

        for (unsigned i = 0; i < sink->config->n_servers; i++)
                is_used |= sink->servers[i].is_tls;
        if (!is_used)
                return true;
        sink->tls = tls_context_create(&files, error);
        return sink->tls != NULL;
}

static void open_parts(struct rabbitmq_sink *sink)
{
        static const struct rabbitmq_connection_events events = {.on_ready = on_ready,
            .on_confirm = on_confirm,
            .on_return = on_return,
            .on_channel_closed = on_channel_closed,
            .on_blocked = on_blocked,
            .on_unblocked = on_unblocked,
            .on_lost = on_lost,
            .on_end = on_end};
        uv_loop_t *loop = sink->base.loop;

        rabbitmq_unconfirmed_init(&sink->attempts.unconfirmed);
        sink->deadline = timer_create_on(loop, on_deadline, sink);
        sink->blocked = timer_create_on(loop, on_blocked_too_long, sink);
        sink->connection =
            rabbitmq_connection_create(loop, sink->base.name, sink->config, &events, sink);
}

static struct sink *rabbitmq_open(const struct sink_settings *settings, struct error *error)
{
        struct rabbitmq_sink *sink = xcalloc(1, sizeof *sink);

        sink_init(&sink->base, &rabbitmq_sink_ops, settings);
        sink->config = settings->options;
        sink->attempts.config = settings->options;
        open_parts(sink);
        sink->encoder = rabbitmq_encoder_create(sink->config, error);
        if (sink->encoder != NULL && read_servers(sink, error) && open_tls(sink, error)) {
                sink->base.has_targets = !rabbitmq_encoder_is_key_fixed(sink->encoder);
                return &sink->base;
        }
        (void)sink_blame(settings->name, "rabbitmq", error);
        destroy(&sink->base);
        return NULL;
}

const struct sink_ops rabbitmq_sink_ops = {
    .kind = "rabbitmq",
    .open = rabbitmq_open,
    .deliver = rabbitmq_deliver,
    .describe_target = rabbitmq_describe_target,
    .flush = rabbitmq_flush,
    .cancel = rabbitmq_cancel,
    .close = rabbitmq_close,
    .probe = rabbitmq_probe,
};
