/*
 * Redis Streams: each event becomes one XADD.
 *
 * All requests stand in one ring, in the order of the deliver() calls: first
 * the burst in flight, then those that wait for the connection or for the
 * burst's answer. Nothing is sent behind a burst before it is known what became
 * of it. If it was refused, those that wait are given back too: sent now, they
 * would overtake.
 *
 * A probe is a request without an attempt: it sends PING.
 */
#include "base/alloc.h"
#include "base/bytes.h"
#include "base/error.h"
#include "config/config.h"
#include "loop/timer.h"
#include "pgcourier/sink.h"
#include "sinks/redis_burst.h"
#include "sinks/redis_command.h"
#include "sinks/redis_connection.h"
#include "sinks/redis_replies.h"
#include "sinks/redis_ring.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/un.h>

enum {
        KEPT_COMMAND_BYTES = 1024 * 1024,    /* a larger buffer is not kept for the next event */
        MAX_VALUE_BYTES = 512 * 1024 * 1024, /* Redis hangs up on more: proto-max-bulk-len */
};

struct probe {
        sink_probed_fn *on_probed; /* NULL: no probe is running */
        void *owner;
        struct outcome outcome;
        struct timer *answer; /* gives the outcome in a later turn */
};

struct redis_sink {
        struct sink base;
        struct redis_connection *connection;
        struct redis_xadd *xadd;
        bool by_key;
        struct bytes command; /* the request at hand, encoded */
        struct probe probe;

        struct redis_ring ring;
        struct redis_burst burst;       /* of those in the ring that are sent */
        unsigned n_alone;               /* so many of the next bursts hold one event only */
        struct redis_request *answered; /* those of the last burst, while they are being finished */
};

extern const struct sink_ops redis_sink_ops;

static struct redis_sink *redis_sink_from(struct sink *sink)
{
        assert(sink->ops == &redis_sink_ops);
        return (struct redis_sink *)sink;
}

static void on_probe_due(void *owner)
{
        struct probe *probe = owner;
        sink_probed_fn *on_probed = probe->on_probed;
        struct outcome outcome = probe->outcome;

        probe->on_probed = NULL;
        on_probed(probe->owner, &outcome);
}

static void finish_later(
    struct redis_sink *sink, const struct redis_request *request, const struct outcome *outcome)
{
        if (request->attempt != NULL) {
                attempt_finish_later(request->attempt, outcome);
                return;
        }
        sink->probe.outcome = *outcome;
        timer_arm(sink->probe.answer, 0);
}

static void encode(struct redis_sink *sink, const struct redis_request *request)
{
        static const char ping[] = "*1\r\n$4\r\nPING\r\n";

        if (sink->command.capacity > KEPT_COMMAND_BYTES)
                bytes_deinit(&sink->command);
        bytes_clear(&sink->command);
        if (request->attempt != NULL)
                redis_xadd_encode(sink->xadd, request->attempt->event, &sink->command);
        else
                bytes_append(&sink->command, ping, sizeof ping - 1);
}

static void send_text(struct redis_sink *sink, const char *text)
{
        bytes_clear(&sink->command);
        bytes_append_text(&sink->command, text);
        redis_connection_send(sink->connection, &sink->command);
}

static void send_burst(struct redis_sink *sink)
{
        sink->burst = redis_burst_plan(&sink->ring, sink->by_key, sink->n_alone > 0);
        sink->ring.n_sent = sink->burst.n;
        if (sink->n_alone > 0)
                sink->n_alone--;
        if (sink->burst.is_transaction)
                send_text(sink, "*1\r\n$5\r\nMULTI\r\n");
        for (size_t i = 0; i < sink->burst.n; i++) {
                encode(sink, redis_ring_at(&sink->ring, i));
                redis_connection_send(sink->connection, &sink->command);
        }
        if (sink->burst.is_transaction)
                send_text(sink, "*1\r\n$4\r\nEXEC\r\n");
}

/* Does what the connection's state allows for the requests that wait. */
static void advance(struct redis_sink *sink)
{
        if (sink->burst.is_open || sink->ring.n == 0)
                return;
        if (redis_connection_state(sink->connection) == REDIS_CLOSED)
                redis_connection_open(sink->connection);
        if (redis_connection_state(sink->connection) == REDIS_READY)
                send_burst(sink);
}

static void on_ready(void *owner)
{
        advance(owner);
}

/* Those that wait come to the same as what they wait for; if that was one event's own affair, they
 * come again. */
static void give_back_waiting(struct redis_sink *sink, const struct outcome *outcome)
{
        bool is_down = outcome->kind == OUTCOME_SINK_DOWN;

        for (size_t i = sink->ring.n_sent; i < sink->ring.n; i++)
                finish_later(
                    sink, redis_ring_at(&sink->ring, i), is_down ? outcome : &outcome_cancelled);
        redis_ring_drop_waiting(&sink->ring);
}

/* What an answer means for the connection and for those that wait. */
static void heed(struct redis_sink *sink, const struct redis_verdict *verdict)
{
        enum outcome_kind kind = verdict->outcome.kind;

        if (verdict->ends_connection) {
                redis_connection_close(sink->connection);
                sink->burst.is_open = false;
                sink->ring.n_sent = 0;
        } else if (verdict->leaves_server &&
                   redis_connection_state(sink->connection) == REDIS_READY) {
                redis_connection_retire(sink->connection);
        }
        /* After a rejected event, which becomes a dead letter, its key goes on. */
        if (verdict->ends_connection || (kind != OUTCOME_DELIVERED && kind != OUTCOME_REJECTED))
                give_back_waiting(sink, &verdict->outcome);
}

static void answer_one(struct redis_sink *sink, const redisReply *reply)
{
        const struct redis_request request = redis_ring_take(&sink->ring);
        const struct redis_verdict verdict =
            redis_reply_judge(reply, redis_xadd_is_stream_per_event(sink->xadd));

        heed(sink, &verdict);
        advance(sink);
        if (request.attempt == NULL)
                finish_later(sink, &request, &verdict.outcome);
        else
                attempt_finish(request.attempt, &verdict.outcome);
}

/* The usual case, in which nothing needs to be judged. */
static bool is_delivered(const struct redis_burst *burst, const redisReply *reply, size_t i)
{
        return !burst->is_refused && reply->element[i]->type == REDIS_REPLY_STRING;
}

static void finish_one_of_all(const struct redis_burst *burst, const redisReply *reply, size_t i,
    bool is_stream_per_event, struct attempt *attempt)
{
        if (is_delivered(burst, reply, i)) {
                attempt_finish(attempt, &outcome_delivered);
                return;
        }
        const struct redis_verdict verdict =
            redis_burst_verdict(burst, reply, i, is_stream_per_event);
        attempt_finish(attempt, &verdict.outcome);
}

static void answer_all(struct redis_sink *sink, const redisReply *reply)
{
        const struct redis_burst burst = sink->burst;
        const bool is_stream_per_event = redis_xadd_is_stream_per_event(sink->xadd);
        struct redis_request *answered = sink->answered;

        for (size_t i = 0; i < burst.n; i++)
                answered[i] = redis_ring_take(&sink->ring);
        if (burst.is_refused && burst.refusal.outcome.kind != OUTCOME_SINK_DOWN)
                sink->n_alone = (unsigned)burst.n;
        for (size_t i = 0; i < burst.n; i++) {
                if (is_delivered(&burst, reply, i))
                        continue;
                const struct redis_verdict verdict =
                    redis_burst_verdict(&burst, reply, i, is_stream_per_event);
                heed(sink, &verdict);
        }
        advance(sink);
        /* Finishing may start others, cancel, and with the last one close the sink: so from here
         * on only `burst`, `answered` and the reply are read. */
        for (size_t i = 0; i < burst.n; i++)
                finish_one_of_all(&burst, reply, i, is_stream_per_event, answered[i].attempt);
}

static void on_reply(void *owner, const redisReply *reply)
{
        struct redis_sink *sink = owner;

        switch (redis_burst_take(&sink->burst, reply, redis_xadd_is_stream_per_event(sink->xadd))) {
        case BURST_GOES_ON:
                return;
        case BURST_ANSWERS_ONE:
                answer_one(sink, reply);
                return;
        case BURST_ANSWERS_ALL:
                answer_all(sink, reply);
                return;
        case BURST_LOST_MULTI:
                /* Somebody took the permission away; the greeting will say so. */
                if (redis_connection_state(sink->connection) == REDIS_READY)
                        redis_connection_retire(sink->connection);
                advance(sink);
                return;
        }
}

/*
 * An outage, for all of them: it must cost no event an attempt, although those
 * that were in flight may have been added. They come again with the same id and
 * the same bytes, which is what a consumer needs to drop a repetition.
 *
 * Only a large event may be the very reason why Redis hangs up without a word
 * (client-query-buffer-limit): it is charged if Redis goes on answering others.
 */
static void on_lost(void *owner, bool needs_operator, const char *reason)
{
        struct redis_sink *sink = owner;
        struct outcome down = outcome_make(OUTCOME_SINK_DOWN, "%s", reason);
        struct outcome unanswered =
            outcome_make(OUTCOME_RETRY, "unknown whether it arrived: %s", reason);

        down.needs_operator = needs_operator;
        unanswered.is_unanswered = true;
        sink->burst.is_open = false;
        while (sink->ring.n > 0) {
                bool is_sent = sink->ring.n_sent > 0;
                const struct redis_request request = redis_ring_take(&sink->ring);
                bool is_suspect = is_sent && request.attempt != NULL &&
                                  redis_event_is_large(request.attempt->event);
                finish_later(sink, &request, is_suspect ? &unanswered : &down);
        }
}

static void redis_deliver(struct sink *base, struct attempt *attempt)
{
        struct redis_sink *sink = redis_sink_from(base);

        if (attempt->event->payload_bytes > MAX_VALUE_BYTES) {
                const struct outcome outcome = outcome_make(OUTCOME_REJECTED,
                    "the payload has %zu bytes; Redis takes at most %d in one value",
                    attempt->event->payload_bytes, MAX_VALUE_BYTES);
                attempt_finish_later(attempt, &outcome);
                return;
        }
        if (sink_owes_answers(base)) {
                attempt_finish_later(attempt, &outcome_cancelled);
                return;
        }
        redis_ring_push(
            &sink->ring, (struct redis_request){.attempt = attempt}); /* flush() sends it */
}

static void redis_describe_target(
    const struct sink *base, const struct event *event, char *target, size_t size)
{
        redis_xadd_describe(((const struct redis_sink *)base)->xadd, event, target, size);
}

static void redis_flush(struct sink *base)
{
        struct redis_sink *sink = redis_sink_from(base);

        advance(sink);
        redis_connection_flush(sink->connection);
}

static void redis_cancel(struct sink *base)
{
        struct redis_sink *sink = redis_sink_from(base);

        if (sink->ring.n == 0)
                return;
        redis_connection_close(sink->connection);
        sink->burst.is_open = false;
        while (sink->ring.n > 0) {
                const struct redis_request request = redis_ring_take(&sink->ring);
                finish_later(sink, &request, &outcome_cancelled);
        }
}

static void redis_probe(struct sink *base, sink_probed_fn *on_probed, void *owner)
{
        struct redis_sink *sink = redis_sink_from(base);

        assert(sink->probe.on_probed == NULL);
        sink->probe.on_probed = on_probed;
        sink->probe.owner = owner;
        redis_ring_push(&sink->ring, (struct redis_request){.attempt = NULL});
        advance(sink);
        redis_connection_flush(sink->connection);
}

/* What is left of a closed sink: the news that it is gone. */
struct farewell {
        uv_timer_t timer; /* runs out after the sink's own handles are closed */
        sink_closed_fn *on_closed;
        void *owner;
};

static void on_farewell_closed(uv_handle_t *handle)
{
        struct farewell farewell = *(struct farewell *)handle->data;

        free(handle->data);
        farewell.on_closed(farewell.owner);
}

static void on_farewell(uv_timer_t *timer)
{
        uv_close((uv_handle_t *)timer, on_farewell_closed);
}

static void destroy(struct redis_sink *sink)
{
        redis_connection_destroy(sink->connection);
        redis_xadd_destroy(sink->xadd);
        timer_destroy(sink->probe.answer);
        sink_deinit(&sink->base);
        bytes_deinit(&sink->command);
        redis_ring_deinit(&sink->ring);
        free(sink->answered);
        free(sink);
}

static void redis_close(struct sink *base, sink_closed_fn *on_closed, void *owner)
{
        struct redis_sink *sink = redis_sink_from(base);
        struct farewell *farewell = xcalloc(1, sizeof *farewell);

        assert(sink->probe.on_probed == NULL);
        uv_timer_init(base->loop, &farewell->timer);
        farewell->timer.data = farewell;
        farewell->on_closed = on_closed;
        farewell->owner = owner;
        uv_timer_start(&farewell->timer, on_farewell, 1, 0);
        destroy(sink);
}

static bool check_options(const char *name, const struct redis_config *config, struct error *error)
{
        const struct sockaddr_un address = {0};

        if (config->stream[0] == '\0')
                return error_set(error, ERROR_CONFIG,
                    "sink '%s': redis.stream is empty; give the stream a name", name);
        /* hiredis would cut it short without a word. */
        if (config->socket_path != NULL && strlen(config->socket_path) >= sizeof address.sun_path)
                return error_set(error, ERROR_CONFIG,
                    "sink '%s': the socket path '%s' is longer than the %zu bytes that the system "
                    "allows",
                    name, config->socket_path, sizeof address.sun_path - 1);
        return true;
}

static struct sink *redis_open(const struct sink_settings *settings, struct error *error)
{
        static const struct redis_connection_events events = {
            .on_ready = on_ready, .on_reply = on_reply, .on_lost = on_lost};
        const struct redis_config *config = settings->options;
        struct redis_xadd *xadd;
        struct redis_sink *sink;

        if (!check_options(settings->name, config, error))
                return NULL;
        xadd = redis_xadd_create(config->stream, config->maxlen, error);
        if (xadd == NULL)
                return NULL;
        sink = xcalloc(1, sizeof *sink);
        sink_init(&sink->base, &redis_sink_ops, settings);
        sink->xadd = xadd;
        sink->by_key = settings->by_key;
        sink->answered = xcalloc(REDIS_BURST_MAX, sizeof *sink->answered);
        sink->connection = redis_connection_create(settings->loop, config, &events, sink);
        sink->probe.answer = timer_create_on(settings->loop, on_probe_due, &sink->probe);
        return &sink->base;
}

const struct sink_ops redis_sink_ops = {
    .kind = "redis",
    .keeps_order = true,
    .open = redis_open,
    .deliver = redis_deliver,
    .describe_target = redis_describe_target,
    .flush = redis_flush,
    .cancel = redis_cancel,
    .close = redis_close,
    .probe = redis_probe,
};
