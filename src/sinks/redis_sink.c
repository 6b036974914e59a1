/*
 * Redis Streams: each event becomes one XADD.
 *
 * All requests in flight stand in one ring, in the order of the deliver()
 * calls: first those that have been sent, then those that wait for the
 * connection. Redis answers in order, so an answer belongs to the first of the
 * ring, and a lost connection splits the ring by what it had written.
 *
 * A probe is a request without an attempt: it sends PING.
 */
#include "base/alloc.h"
#include "base/bytes.h"
#include "base/error.h"
#include "config/config.h"
#include "loop/timer.h"
#include "pgcourier/sink.h"
#include "sinks/redis_command.h"
#include "sinks/redis_connection.h"
#include "sinks/redis_replies.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/un.h>

enum {
        FIRST_CAPACITY = 256,
        KEPT_COMMAND_BYTES = 1024 * 1024,    /* a larger buffer is not kept for the next event */
        MAX_VALUE_BYTES = 512 * 1024 * 1024, /* Redis hangs up on more: proto-max-bulk-len */
};

struct request {
        struct attempt *attempt; /* lent by the relay; NULL: the probe */
        uint64_t end;            /* its place among the bytes sent */
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
        struct bytes command; /* the request at hand, encoded */
        struct probe probe;

        struct request *ring;
        size_t capacity; /* a power of two */
        size_t first;    /* counts on for ever; the place in the ring is its remainder */
        size_t n_requests;
        size_t n_sent; /* of those, the first ones */
};

extern const struct sink_ops redis_sink_ops;

static struct redis_sink *redis_sink_from(struct sink *sink)
{
        assert(sink->ops == &redis_sink_ops);
        return (struct redis_sink *)sink;
}

static struct request *request_at(const struct redis_sink *sink, size_t index)
{
        return &sink->ring[(sink->first + index) & (sink->capacity - 1)];
}

static void grow(struct redis_sink *sink)
{
        size_t capacity = sink->capacity > 0 ? 2 * sink->capacity : FIRST_CAPACITY;
        struct request *ring = xcalloc(capacity, sizeof *ring);

        for (size_t i = 0; i < sink->n_requests; i++)
                ring[i] = *request_at(sink, i);
        free(sink->ring);
        sink->ring = ring;
        sink->capacity = capacity;
        sink->first = 0;
}

static void push(struct redis_sink *sink, struct attempt *attempt)
{
        if (sink->n_requests == sink->capacity)
                grow(sink);
        *request_at(sink, sink->n_requests++) = (struct request){.attempt = attempt};
}

/* Takes the first request out of the ring. */
static struct request take(struct redis_sink *sink)
{
        struct request request = *request_at(sink, 0);

        sink->first++;
        sink->n_requests--;
        if (sink->n_sent > 0)
                sink->n_sent--;
        return request;
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
    struct redis_sink *sink, const struct request *request, const struct outcome *outcome)
{
        if (request->attempt != NULL) {
                attempt_finish_later(request->attempt, outcome);
                return;
        }
        sink->probe.outcome = *outcome;
        timer_arm(sink->probe.answer, 0);
}

static void encode(struct redis_sink *sink, const struct request *request)
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

/* Does what the connection's state allows for the requests that wait. */
static void advance(struct redis_sink *sink)
{
        if (sink->n_sent == sink->n_requests)
                return;
        if (redis_connection_state(sink->connection) == REDIS_CLOSED)
                redis_connection_open(sink->connection);
        /* Sending may lose the connection, and that empties the ring. */
        while (redis_connection_state(sink->connection) == REDIS_READY &&
               sink->n_sent < sink->n_requests) {
                struct request *request = request_at(sink, sink->n_sent++);
                encode(sink, request);
                request->end = redis_connection_bytes_sent(sink->connection) + sink->command.length;
                redis_connection_send(sink->connection, &sink->command);
        }
}

static void on_ready(void *owner)
{
        advance(owner);
}

static void on_reply(void *owner, const redisReply *reply)
{
        struct redis_sink *sink = owner;
        struct request request = take(sink);
        struct redis_verdict verdict =
            redis_reply_judge(reply, redis_xadd_is_stream_per_event(sink->xadd));

        if (verdict.leaves_server && redis_connection_state(sink->connection) == REDIS_READY)
                redis_connection_retire(sink->connection);
        advance(sink);
        if (request.attempt == NULL)
                finish_later(sink, &request, &verdict.outcome);
        else
                attempt_finish(request.attempt, &verdict.outcome);
}

static void on_lost(void *owner, uint64_t bytes_written, const char *reason)
{
        struct redis_sink *sink = owner;
        const struct outcome unknown =
            outcome_make(OUTCOME_RETRY, "unknown whether it arrived: %s", reason);
        const struct outcome down = outcome_make(OUTCOME_SINK_DOWN, "%s", reason);

        while (sink->n_requests > 0) {
                bool is_sent = sink->n_sent > 0;
                struct request request = take(sink);
                finish_later(
                    sink, &request, is_sent && request.end <= bytes_written ? &unknown : &down);
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
        push(sink, attempt);
        advance(sink);
}

static void redis_flush(struct sink *base)
{
        redis_connection_flush(redis_sink_from(base)->connection);
}

static void redis_cancel(struct sink *base)
{
        struct redis_sink *sink = redis_sink_from(base);

        if (sink->n_requests == 0)
                return;
        redis_connection_close(sink->connection);
        while (sink->n_requests > 0) {
                struct request request = take(sink);
                finish_later(sink, &request, &outcome_cancelled);
        }
}

static void redis_probe(struct sink *base, sink_probed_fn *on_probed, void *owner)
{
        struct redis_sink *sink = redis_sink_from(base);

        assert(sink->probe.on_probed == NULL);
        sink->probe.on_probed = on_probed;
        sink->probe.owner = owner;
        push(sink, NULL);
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
        free(sink->ring);
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
        sink->connection = redis_connection_create(settings->loop, config, &events, sink);
        sink->probe.answer = timer_create_on(settings->loop, on_probe_due, &sink->probe);
        return &sink->base;
}

const struct sink_ops redis_sink_ops = {
    .kind = "redis",
    .keeps_order = true,
    .open = redis_open,
    .deliver = redis_deliver,
    .flush = redis_flush,
    .cancel = redis_cancel,
    .close = redis_close,
    .probe = redis_probe,
};
