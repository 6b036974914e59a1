/*
 * Redis: each event becomes one XADD, or one PUBLISH. How the parts of the sink hang together:
 * redis_internal.h.
 */
#include "base/alloc.h"
#include "base/bytes.h"
#include "base/error.h"
#include "config/config.h"
#include "loop/timer.h"
#include "loop/tls_session.h"
#include "pgcourier/sink.h"
#include "sinks/redis/redis_cluster.h"
#include "sinks/redis/redis_command.h"
#include "sinks/redis/redis_dedup.h"
#include "sinks/redis/redis_internal.h"
#include "sinks/redis/redis_sentinel.h"
#include "sinks/sink_contract.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <sys/un.h>

enum { MAX_VALUE_BYTES = 512 * 1024 * 1024 /* Redis hangs up on more: proto-max-bulk-len */ };

extern const struct sink_ops redis_sink_ops;

static struct redis_sink *redis_sink_from(struct sink *sink)
{
        assert(sink->ops == &redis_sink_ops);
        return (struct redis_sink *)sink;
}

/* Puts the probe's question into a queue. */
static void ask(struct redis_sink *sink, enum redis_probe_step step)
{
        struct redis_queue *queue = sink->queue;

        sink->probe.step = step;
        if (sink->cluster != NULL) {
                struct bytes name = {0};
                redis_probe_append_stream(sink, &name);
                queue = redis_cluster_queue(sink->cluster, name.data, name.length);
                bytes_deinit(&name);
        }
        redis_ring_push(&queue->ring, (struct redis_request){.attempt = NULL});
        redis_sink_ops.flush(&sink->base);
}

static void on_probe_due(void *owner)
{
        struct redis_sink *sink = owner;
        struct redis_probe *probe = &sink->probe;
        sink_probed_fn *on_probed = probe->on_probed;
        struct outcome outcome = probe->outcome;

        if (probe->step == PROBE_WRITING && outcome.kind == OUTCOME_DELIVERED) {
                ask(sink, PROBE_MEMORY);
                return;
        }
        probe->on_probed = NULL;
        on_probed(probe->owner, &outcome);
}

/* Without a cluster: there is one node, and one queue. */
static void serve(struct redis_sink *sink, struct redis_queue *queue)
{
        if (redis_queue_has_work(queue))
                redis_node_serve(sink->node, queue);
}

static const struct redis_router single_router = {.serve = serve};

static struct redis_queue *queue_of(struct redis_sink *sink, const struct event *event)
{
        const struct bytes *stream;

        if (sink->cluster == NULL)
                return sink->queue;
        stream = redis_command_target(sink->encoder, event);
        return redis_cluster_queue(sink->cluster, stream->data, stream->length);
}

/* Debezium's forms make up to three bytes of one, and add a schema. */
static size_t max_payload_bytes(const struct redis_config *config)
{
        bool is_quoted =
            config->layout != LAYOUT_NATIVE && config->debezium.value != DEBEZIUM_STRING;

        return is_quoted ? MAX_VALUE_BYTES / 4 : MAX_VALUE_BYTES;
}

static bool may_be_sent(
    struct redis_sink *sink, const struct event *event, struct outcome *out_refusal)
{
        if (event->payload_bytes > max_payload_bytes(sink->config)) {
                *out_refusal = outcome_make(OUTCOME_REJECTED,
                    "the payload has %zu bytes; Redis takes at most %zu in this layout",
                    event->payload_bytes, max_payload_bytes(sink->config));
                return false;
        }
        if (sink->dedup != NULL &&
            redis_command_n_words(sink->encoder, event) > REDIS_DEDUP_MAX_WORDS) {
                *out_refusal = outcome_make(OUTCOME_REJECTED,
                    "the event has %zu headers, too many for exactly_once", event->n_headers);
                return false;
        }
        return redis_command_admit(sink->encoder, event, out_refusal);
}

static void redis_deliver(struct sink *base, struct attempt *attempt)
{
        struct redis_sink *sink = redis_sink_from(base);
        struct outcome refusal;

        assert(sink->dedup == NULL || redis_dedup_is_owned(sink->dedup));
        if (sink_owes_answers(base)) {
                attempt_finish_later(attempt, &outcome_cancelled);
                return;
        }
        if (!may_be_sent(sink, attempt->event, &refusal)) {
                attempt_finish_later(attempt, &refusal);
                return;
        }
        redis_ring_push(&queue_of(sink, attempt->event)->ring,
            (struct redis_request){.attempt = attempt}); /* flush() sends it */
}

static void redis_describe_target(
    const struct sink *base, const struct event *event, const void *target, char *text, size_t size)
{
        (void)target;
        redis_command_describe(((const struct redis_sink *)base)->encoder, event, text, size);
}

static void redis_flush(struct sink *base)
{
        struct redis_sink *sink = redis_sink_from(base);

        if (sink->cluster != NULL) {
                redis_cluster_flush(sink->cluster);
                return;
        }
        redis_node_advance(sink->queue);
        redis_node_flush(sink->node);
}

/* The next claim shuts out what former connections still have on the way. */
static void redis_owned(struct sink *base, uint64_t epoch)
{
        struct redis_sink *sink = redis_sink_from(base);

        assert(sink->dedup != NULL);
        sink->claimed_on = 0;
        redis_dedup_own(sink->dedup, epoch);
}

/* At once: the sink may be closed next, and then it leaves nothing behind. */
static void redis_settled(struct sink *base, const int64_t *event_ids, size_t n_events)
{
        struct redis_sink *sink = redis_sink_from(base);

        assert(sink->dedup != NULL);
        redis_dedup_settle(sink->dedup, event_ids, n_events);
        if (sink->cluster != NULL)
                (void)redis_cluster_queue(
                    sink->cluster, sink->config->stream, strlen(sink->config->stream));
        redis_flush(base);
}

static void redis_cancel(struct sink *base)
{
        struct redis_sink *sink = redis_sink_from(base);

        if (sink->cluster != NULL) {
                redis_cluster_cancel(sink->cluster);
                return;
        }
        if (sink->queue->ring.n == 0)
                return;
        if (sink->sentinel != NULL)
                redis_sentinel_stop(sink->sentinel);
        redis_connection_close(sink->node->connection);
        redis_queue_give_back(sink->queue, &outcome_cancelled);
}

static void redis_probe(struct sink *base, sink_probed_fn *on_probed, void *owner)
{
        struct redis_sink *sink = redis_sink_from(base);

        assert(sink->probe.on_probed == NULL);
        sink->probe.on_probed = on_probed;
        sink->probe.owner = owner;
        ask(sink, PROBE_WRITING);
}

static void destroy(struct sink *base)
{
        struct redis_sink *sink = redis_sink_from(base);

        redis_queue_destroy(sink->queue); /* it may be in a list of the node's */
        redis_node_destroy(sink->node);
        redis_sentinel_destroy(sink->sentinel);
        redis_cluster_destroy(sink->cluster);
        tls_context_destroy(sink->tls);
        redis_command_destroy(sink->encoder);
        redis_dedup_destroy(sink->dedup);
        timer_destroy(sink->probe.answer);
        sink_deinit(&sink->base);
        free(sink->answers);
        free(sink);
}

static void redis_close(struct sink *base, sink_closed_fn *on_closed, void *owner)
{
        assert(redis_sink_from(base)->probe.on_probed == NULL);
        sink_close_later(base, destroy, on_closed, owner);
}

static bool check_options(const char *name, const struct redis_config *config, struct error *error)
{
        const struct sockaddr_un address = {0};

        const char *target = config->mode == REDIS_PUBSUB ? config->channel : config->stream;

        if (target[0] == '\0')
                return error_set(error, ERROR_CONFIG,
                    "sink '%s': redis.%s is empty; give it a name", name,
                    config->mode == REDIS_PUBSUB ? "channel" : "stream");
        if (config->socket_path != NULL && strlen(config->socket_path) >= sizeof address.sun_path)
                return error_set(error, ERROR_CONFIG,
                    "sink '%s': the socket path '%s' is longer than the %zu bytes that the system "
                    "allows",
                    name, config->socket_path, sizeof address.sun_path - 1);
        return true;
}

static bool open_tls(struct redis_sink *sink, struct error *error)
{
        const struct tls_files files = {.ca_file = sink->config->ca_file,
            .cert_file = sink->config->cert_file,
            .key_file = sink->config->key_file};

        if (!sink->config->tls)
                return true;
        sink->tls = tls_context_create(&files, error);
        return sink->tls != NULL || sink_blame(sink->base.name, "redis", error);
}

static bool open_nodes(struct redis_sink *sink, struct error *error)
{
        const struct redis_config *config = sink->config;
        const struct redis_endpoint endpoint = {
            .host = config->host, .port = config->port, .socket_path = config->socket_path};

        if (config->n_cluster > 0) {
                sink->router = &redis_cluster_router;
                sink->cluster = redis_cluster_create(sink, error);
                return sink->cluster != NULL ||
                       sink_blame(sink->base.name, "redis: cluster", error);
        }
        if (config->n_sentinels > 0) {
                sink->sentinel = redis_sentinel_create(sink->base.loop, config, sink->tls, error);
                if (sink->sentinel == NULL)
                        return sink_blame(sink->base.name, "redis: sentinels", error);
        }
        sink->router = &single_router;
        sink->queue = redis_queue_create(sink);
        sink->node = redis_node_create(sink, &endpoint);
        return true;
}

static struct sink *redis_open(const struct sink_settings *settings, struct error *error)
{
        const struct redis_config *config = settings->options;
        struct redis_command *encoder;
        struct redis_sink *sink;

        if (!check_options(settings->name, config, error))
                return NULL;
        encoder = redis_command_create(config, error);
        if (encoder == NULL)
                return NULL;
        sink = xcalloc(1, sizeof *sink);
        sink_init(&sink->base, &redis_sink_ops, settings);
        sink->base.has_targets = redis_command_is_target_per_event(encoder);
        sink->config = config;
        sink->encoder = encoder;
        sink->policy = (struct redis_burst_policy){.by_key = settings->by_key,
            .is_script = config->exactly_once,
            .is_cluster = config->n_cluster > 0,
            .wait_replicas = config->wait_replicas};
        sink->base.remembers = config->exactly_once;
        if (config->exactly_once)
                sink->dedup = redis_dedup_create(config->stream, settings->name);
        sink->answers = xcalloc(REDIS_BURST_MAX, sizeof *sink->answers);
        sink->probe.answer = timer_create_on(settings->loop, on_probe_due, sink);
        if (open_tls(sink, error) && open_nodes(sink, error))
                return &sink->base;
        destroy(&sink->base);
        return NULL;
}

const struct sink_ops redis_sink_ops = {
    .kind = "redis",
    .keeps_order = true,
    .open = redis_open,
    .deliver = redis_deliver,
    .describe_target = redis_describe_target,
    .owned = redis_owned,
    .settled = redis_settled,
    .flush = redis_flush,
    .cancel = redis_cancel,
    .close = redis_close,
    .probe = redis_probe,
};
