/*
 * Webhooks: each event is one POST, or with `batch` several are. The relay keeps
 * to max_concurrent and to one event of a key at a time; requests run side by
 * side on kept-alive connections, and none waits inside libcurl (but, with
 * HTTP/2, for a connection that is being made), so the timestamp that is signed
 * is the time of sending.
 *
 * With `batch` the attempts first gather at their target. A target that has
 * something to send is `due`, and gets the next place that is free: one request
 * for each in turn, so that no receiver waits for all of another's.
 */
#include "pgcourier/sink.h"

#include "base/alloc.h"
#include "base/error.h"
#include "base/list.h"
#include "base/utf8.h"
#include "config/config.h"
#include "sinks/address_guard.h"
#include "sinks/http/http_batcher.h"
#include "sinks/http/http_message.h"
#include "sinks/http/http_requests.h"
#include "sinks/http/http_target.h"
#include "sinks/sink_contract.h"

#include <assert.h>
#include <stdlib.h>
#include <sys/resource.h>

extern const struct sink_ops http_sink_ops;

struct http_sink {
        struct sink base;
        const struct http_config *config; /* borrowed */
        struct address_guard *guard;      /* owned */
        struct http_requests *requests;
        struct http_target *only; /* NULL with receivers: table */
        struct list targets;      /* http_target::among */
        struct list due;          /* http_target::due */
        unsigned max_requests;
        struct attempt **batch; /* for a moment; NULL without batch */

        sink_probed_fn *on_probed;
        void *probe_owner; /* borrowed */
};

static struct http_sink *http_sink_from(struct sink *sink)
{
        assert(sink->ops == &http_sink_ops);
        return (struct http_sink *)sink;
}

static void send_due(struct http_sink *sink)
{
        while (!list_is_empty(&sink->due) &&
               http_requests_count(sink->requests) < sink->max_requests) {
                struct http_target *target = list_owner(sink->due.next, struct http_target, due);
                size_t n_attempts = http_batcher_take(target->batcher, sink->batch);

                list_remove(&target->due);
                if (http_batcher_is_due(target->batcher))
                        list_push_back(&sink->due, &target->due);
                http_requests_start(sink->requests, target, sink->batch, n_attempts);
        }
}

static void on_batch_due(void *owner)
{
        struct http_target *target = owner;
        struct http_sink *sink = http_sink_from(target->sink);

        if (list_is_empty(&target->due))
                list_push_back(&sink->due, &target->due);
        send_due(sink);
}

static bool is_refused(const struct outcome *outcome)
{
        return outcome->kind != OUTCOME_DELIVERED && outcome->kind != OUTCOME_CANCELLED &&
               !outcome->concerns_all;
}

static void cancel_gathered(struct http_sink *sink, struct http_target *target)
{
        size_t n;

        while ((n = http_batcher_take(target->batcher, sink->batch)) > 0)
                for (size_t i = 0; i < n; i++)
                        attempt_finish_later(sink->batch[i], &outcome_cancelled);
        list_remove(&target->due);
}

/* Of a request that is refused each event goes alone, to find out whose fault it is. But if two in
 * a row blame the receiver, it is nobody's, and the others come again. */
static void note_answer(struct http_sink *sink, struct http_target *target, size_t n_attempts,
    const struct outcome *outcome)
{
        if (outcome->kind != OUTCOME_SINK_DOWN && !outcome->is_unanswered)
                target->n_blaming = 0;
        else if (n_attempts == 1 && ++target->n_blaming == 2)
                cancel_gathered(sink, target);
}

static void on_request_done(void *owner, struct http_target *target,
    struct attempt *const *attempts, size_t n_attempts, const struct outcome *outcome)
{
        struct http_sink *sink = owner;

        if (n_attempts == 0) {
                sink->on_probed(sink->probe_owner, outcome);
        } else if (n_attempts > 1 && is_refused(outcome) && target->n_blaming < 2) {
                http_batcher_add_alone(target->batcher, attempts, n_attempts);
        } else {
                if (target->batcher != NULL)
                        note_answer(sink, target, n_attempts, outcome);
                send_due(sink);
                for (size_t i = 0; i < n_attempts; i++)
                        attempt_finish(attempts[i], outcome);
        }
}

static void on_host_settled(void *owner, const char *failure)
{
        struct http_target *target = owner;
        struct http_sink *sink = http_sink_from(target->sink);

        http_requests_host_settled(sink->requests, target, failure);
        send_due(sink);
}

static void http_sink_deliver(struct sink *base, struct attempt *attempt)
{
        struct http_sink *sink = http_sink_from(base);
        struct http_target *target = sink->only != NULL ? sink->only : attempt->target;
        struct outcome rejected;

        assert(target != NULL);
        if (sink->config->batch == NULL)
                http_requests_start(sink->requests, target, &attempt, 1);
        else if (http_body_can_carry(sink->config, attempt->event, &rejected))
                http_batcher_add(target->batcher, attempt);
        else
                attempt_finish_later(attempt, &rejected);
}

static void http_sink_probe(struct sink *base, sink_probed_fn *on_probed, void *owner)
{
        struct http_sink *sink = http_sink_from(base);

        sink->on_probed = on_probed;
        sink->probe_owner = owner;
        if (sink->only != NULL)
                http_requests_probe(sink->requests, sink->only);
        else
                sink_probed_later(base, on_probed, owner, &outcome_delivered); /* no receiver */
}

static void http_sink_cancel(struct sink *base)
{
        struct http_sink *sink = http_sink_from(base);

        if (sink->config->batch != NULL)
                list_for_each (link, &sink->targets)
                        cancel_gathered(sink, list_owner(link, struct http_target, among));
        http_requests_cancel(sink->requests);
}

static void *adopt(struct http_sink *sink, struct http_target *target)
{
        if (target == NULL)
                return NULL;
        list_push_back(&sink->targets, &target->among);
        if (sink->config->batch != NULL)
                target->batcher =
                    http_batcher_create(sink->base.loop, sink->config->batch, on_batch_due, target);
        return target;
}

static void *http_sink_open_target(
    struct sink *base, const struct target_settings *settings, struct error *error)
{
        struct http_sink *sink = http_sink_from(base);

        return adopt(sink,
            http_target_create(base, sink->config, settings, sink->guard, on_host_settled, error));
}

static void http_sink_close_target(struct sink *base, void *target)
{
        (void)base;
        http_target_destroy(target);
}

static void destroy(struct sink *base)
{
        struct http_sink *sink = http_sink_from(base);

        http_requests_destroy(sink->requests);
        http_target_destroy(sink->only);
        assert(list_is_empty(&sink->targets)); /* the relay closes what it opened */
        address_guard_destroy(sink->guard);
        free(sink->batch);
        sink_deinit(&sink->base);
        free(sink);
}

/* Later: the caller may be told of the last attempt by curl_driver, which is still to return. */
static void http_sink_close(struct sink *base, sink_closed_fn *on_closed, void *owner)
{
        sink_close_later(base, destroy, on_closed, owner);
}

static void http_sink_describe_target(
    const struct sink *base, const struct event *event, const void *target, char *text, size_t size)
{
        const struct http_sink *sink = (const struct http_sink *)base;
        const struct http_target *its = sink->only != NULL ? sink->only : target;

        (void)event;
        utf8_copy(text, size, its != NULL ? its->description : "");
}

/* A quarter of the descriptors is left for all else. */
static unsigned table_requests(void)
{
        struct rlimit files;

        if (getrlimit(RLIMIT_NOFILE, &files) == 0 &&
            files.rlim_cur / 4 * 3 < HTTP_TABLE_CONCURRENCY)
                return (unsigned)(files.rlim_cur / 4 * 3);
        return HTTP_TABLE_CONCURRENCY;
}

static unsigned requests_allowed(
    const struct http_config *config, const struct sink_settings *settings)
{
        if (settings->concurrency != 0)
                return settings->concurrency;
        return config->receivers == HTTP_RECEIVERS_TABLE ? table_requests() : HTTP_CONCURRENCY;
}

/* Of a table so many that a receiver's connection is there when its next event comes. */
static unsigned pool_size(const struct http_config *config, unsigned max_requests)
{
        unsigned size = config->receivers == HTTP_RECEIVERS_TABLE ? table_requests() : 0;

        return size > max_requests ? size : max_requests;
}

static struct sink *http_sink_open(const struct sink_settings *settings, struct error *error)
{
        const struct http_config *config = settings->options;
        struct http_sink *sink;
        struct http_target *only;

        if (!http_headers_check_names(config, error))
                return NULL;
        sink = xcalloc(1, sizeof *sink);
        sink->base.loop = settings->loop;
        sink->base.name = settings->name;
        sink->base.ops = &http_sink_ops;
        sink->config = config;
        sink->guard = address_guard_create(
            config, config->receivers == HTTP_RECEIVERS_TABLE ? URL_OF_TABLE : URL_OF_CONFIG);
        list_init(&sink->targets);
        list_init(&sink->due);
        if (config->receivers == HTTP_RECEIVERS_NONE) {
                only = http_target_create_fixed(
                    &sink->base, config, sink->guard, on_host_settled, error);
                if (only == NULL) {
                        address_guard_destroy(sink->guard);
                        free(sink);
                        return NULL;
                }
                sink->only = adopt(sink, only);
        }

        sink_init(&sink->base, &http_sink_ops, settings);
        sink->max_requests = requests_allowed(config, settings);
        sink->base.max_concurrent = sink->max_requests;
        if (config->batch != NULL) {
                sink->batch = xcalloc(config->batch->events, sizeof(struct attempt *));
                sink->base.max_concurrent *= config->batch->events;
        }
        sink->requests = http_requests_create(settings->loop, config, sink->guard,
            pool_size(config, sink->max_requests), on_request_done, sink);
        return &sink->base;
}

const struct sink_ops http_sink_ops = {
    .kind = "http",
    .keeps_order = false,
    .open = http_sink_open,
    .deliver = http_sink_deliver,
    .describe_target = http_sink_describe_target,
    .open_target = http_sink_open_target,
    .close_target = http_sink_close_target,
    .cancel = http_sink_cancel,
    .close = http_sink_close,
    .probe = http_sink_probe,
};
