/*
 * Webhooks: each event is one POST, in the form of Standard Webhooks. The relay
 * keeps to max_concurrent and to one event of a key at a time; requests run
 * side by side on kept-alive connections, and none waits inside libcurl, so the
 * timestamp that is signed is the time of sending.
 *
 * A request: IDLE -deliver-> WAITING (for the host's addresses) -> RUNNING -> IDLE
 */
#include "pgcourier/sink.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/list.h"
#include "config/config.h"
#include "loop/curl_driver.h"
#include "loop/timer.h"
#include "sinks/http_exchange.h"
#include "sinks/http_headers.h"
#include "sinks/http_host.h"
#include "sinks/http_url.h"
#include "sinks/utf8.h"
#include "sinks/webhook_signature.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

extern const struct sink_ops http_sink_ops;

enum request_state { REQUEST_IDLE, REQUEST_WAITING, REQUEST_RUNNING };

struct http_sink {
        struct sink base;
        const struct http_config *config; /* borrowed */
        struct curl_driver *driver;
        struct http_host *host;
        struct webhook_signer *signer; /* NULL: unsigned */
        char *target;                  /* owned; the URL without what may be secret in it */

        /* request::link, by state, oldest first */
        struct list idle;
        struct list waiting;
        struct list running;

        sink_probed_fn *on_probed;
        void *probe_owner; /* borrowed */
        struct outcome probe_outcome;
        struct timer *probe_timer; /* carries an outcome that was known at once to a later turn */

        uv_timer_t farewell; /* the last handle to go */
        sink_closed_fn *on_closed;
        void *close_owner; /* borrowed */
};

struct request {
        struct list link;
        enum request_state state;
        struct http_sink *sink;
        struct attempt *attempt; /* lent by the relay; NULL: idle, or the probe */
        struct http_exchange *exchange;
};

static struct http_sink *http_sink_from(struct sink *sink)
{
        assert(sink->ops == &http_sink_ops);
        return (struct http_sink *)sink;
}

/* The only place that assigns request->state. */
static void enter(struct request *request, enum request_state next)
{
        struct http_sink *sink = request->sink;

        request->state = next;
        list_remove(&request->link);

        switch (next) {
        case REQUEST_IDLE:
                request->attempt = NULL;
                list_push_front(&sink->idle, &request->link);
                break;
        case REQUEST_WAITING:
                list_push_back(&sink->waiting, &request->link);
                break;
        case REQUEST_RUNNING:
                list_push_back(&sink->running, &request->link);
                break;
        }
}

/* Ends a request from inside deliver(), cancel() or probe(). */
static void answer_later(struct request *request, struct outcome outcome)
{
        struct http_sink *sink = request->sink;

        if (request->attempt != NULL) {
                attempt_finish_later(request->attempt, &outcome);
        } else {
                sink->probe_outcome = outcome;
                timer_arm(sink->probe_timer, 0);
        }
        enter(request, REQUEST_IDLE);
}

static void on_probe_answered(void *owner)
{
        struct http_sink *sink = owner;

        sink->on_probed(sink->probe_owner, &sink->probe_outcome);
}

static void on_exchange_done(void *owner, const struct http_result *result)
{
        struct request *request = owner;
        struct http_sink *sink = request->sink;
        struct attempt *attempt = request->attempt;
        bool is_probed = attempt == NULL && result->code == CURLE_OK;
        struct outcome outcome = is_probed ? outcome_delivered : http_result_classify(result);

        if (result->status == 0 && !result->is_sent && !is_probed)
                http_host_doubt(sink->host);
        enter(request, REQUEST_IDLE);
        if (attempt != NULL)
                attempt_finish(attempt, &outcome);
        else
                sink->on_probed(sink->probe_owner, &outcome);
}

static struct request *take_idle(struct http_sink *sink)
{
        struct request *request;

        if (!list_is_empty(&sink->idle))
                return list_owner(sink->idle.next, struct request, link);
        request = xcalloc(1, sizeof *request);
        list_init(&request->link);
        request->sink = sink;
        request->exchange = http_exchange_create(
            sink->base.loop, sink->driver, sink->config, on_exchange_done, request);
        return request;
}

static void run(struct request *request)
{
        struct http_sink *sink = request->sink;
        struct curl_slist *pin = http_host_pin(sink->host);
        struct error error;
        bool is_started;

        if (request->attempt != NULL) {
                const struct event *event = request->attempt->event;
                struct outcome rejected;
                struct curl_slist *headers = http_headers_make(
                    sink->config, event, sink->signer, clock_wall_us() / 1000000, &rejected);

                if (headers == NULL) {
                        curl_slist_free_all(pin);
                        answer_later(request, rejected);
                        return;
                }
                is_started = http_exchange_post(
                    request->exchange, headers, pin, event->payload, event->payload_bytes, &error);
        } else {
                is_started = http_exchange_connect(request->exchange, pin, &error);
        }
        if (is_started)
                enter(request, REQUEST_RUNNING);
        else
                answer_later(request, outcome_make(OUTCOME_SINK_DOWN, "%s", error.text));
}

static void run_when_ready(struct request *request)
{
        if (http_host_is_ready(request->sink->host))
                run(request);
        else
                enter(request, REQUEST_WAITING);
}

static void on_host_settled(void *owner, const char *failure)
{
        struct http_sink *sink = owner;

        list_for_each (link, &sink->waiting) {
                struct request *request = list_owner(link, struct request, link);

                if (failure == NULL)
                        run(request);
                else
                        answer_later(request, outcome_make(OUTCOME_SINK_DOWN,
                                                  "the host of the sink's url has no "
                                                  "address: %s",
                                                  failure));
        }
}

static void http_sink_deliver(struct sink *base, struct attempt *attempt)
{
        struct request *request = take_idle(http_sink_from(base));

        request->attempt = attempt;
        run_when_ready(request);
}

static void http_sink_probe(struct sink *base, sink_probed_fn *on_probed, void *owner)
{
        struct http_sink *sink = http_sink_from(base);

        sink->on_probed = on_probed;
        sink->probe_owner = owner;
        run_when_ready(take_idle(sink));
}

static void http_sink_cancel(struct sink *base)
{
        struct http_sink *sink = http_sink_from(base);

        list_for_each (link, &sink->waiting) {
                struct request *request = list_owner(link, struct request, link);

                if (request->attempt != NULL) /* a probe has its own deadline */
                        answer_later(request, outcome_cancelled);
        }
        list_for_each (running, &sink->running) {
                struct request *request = list_owner(running, struct request, link);
                struct outcome outcome = outcome_cancelled;

                if (request->attempt != NULL) {
                        http_exchange_stop(request->exchange, &outcome);
                        answer_later(request, outcome);
                }
        }
}

static void on_farewell_closed(uv_handle_t *handle)
{
        struct http_sink *sink = handle->data;
        sink_closed_fn *on_closed = sink->on_closed;
        void *owner = sink->close_owner;

        free(sink);
        on_closed(owner);
}

static void free_parts(struct http_sink *sink)
{
        list_for_each (link, &sink->idle) {
                struct request *request = list_owner(link, struct request, link);

                http_exchange_destroy(request->exchange);
                free(request);
        }
        curl_driver_destroy(sink->driver);
        http_host_destroy(sink->host);
        webhook_signer_destroy(sink->signer);
        free(sink->target);
        timer_destroy(sink->probe_timer);
        sink_deinit(&sink->base);
}

static void on_farewell(uv_timer_t *timer)
{
        free_parts(timer->data);
        uv_close((uv_handle_t *)timer, on_farewell_closed);
}

static void http_sink_close(struct sink *base, sink_closed_fn *on_closed, void *owner)
{
        struct http_sink *sink = http_sink_from(base);

        assert(list_is_empty(&sink->waiting) && list_is_empty(&sink->running));
        sink->on_closed = on_closed;
        sink->close_owner = owner;
        /* The caller may be told of the last attempt by curl_driver, which is still to return. */
        uv_timer_start(&sink->farewell, on_farewell, 0, 0);
}

static void http_sink_describe_target(
    const struct sink *base, const struct event *event, char *target, size_t size)
{
        const struct http_sink *sink = (const struct http_sink *)base;

        (void)event;
        utf8_copy(target, size, sink->target);
}

static struct sink *http_sink_open(const struct sink_settings *settings, struct error *error)
{
        const struct http_config *config = settings->options;
        struct webhook_signer *signer = NULL;
        struct http_sink *sink;
        char *host;
        char *port;

        if (!http_headers_check_names(config, error))
                return NULL;
        if (config->secret != NULL &&
            (signer = webhook_signer_create(config->secret, error)) == NULL)
                return NULL;
        if (!http_url_parse(config->url, &host, &port, error)) {
                webhook_signer_destroy(signer);
                return NULL;
        }

        sink = xcalloc(1, sizeof *sink);
        sink_init(&sink->base, &http_sink_ops, settings);
        sink->base.max_concurrent = config->concurrency;
        sink->config = config;
        sink->signer = signer;
        sink->target = http_url_describe(config->url);
        sink->driver = curl_driver_create(settings->loop, config->concurrency);
        sink->host = http_host_create(
            settings->loop, host, port, config->connect_timeout_ms, on_host_settled, sink);
        list_init(&sink->idle);
        list_init(&sink->waiting);
        list_init(&sink->running);
        sink->probe_timer = timer_create_on(settings->loop, on_probe_answered, sink);
        uv_timer_init(settings->loop, &sink->farewell);
        sink->farewell.data = sink;
        curl_free(host);
        curl_free(port);
        return &sink->base;
}

const struct sink_ops http_sink_ops = {
    .kind = "http",
    .keeps_order = false,
    .open = http_sink_open,
    .deliver = http_sink_deliver,
    .describe_target = http_sink_describe_target,
    .cancel = http_sink_cancel,
    .close = http_sink_close,
    .probe = http_sink_probe,
};
