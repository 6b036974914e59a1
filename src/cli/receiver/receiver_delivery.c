#include "cli/receiver/receiver_delivery.h"

#include "base/clock.h"
#include "cli/process.h"
#include "config/config.h"
#include "config/url.h"
#include "sinks/address_guard.h"
#include "sinks/registry.h"
#include "sinks/sink_contract.h"

#include <curl/curl.h>

struct delivery {
        uv_loop_t loop;
        struct sink *sink;
        void *target;
        struct attempt attempt;
        struct outcome outcome;
        int64_t finished_us;
};

static void on_finished(struct attempt *attempt, const struct outcome *outcome)
{
        struct delivery *delivery = attempt->owner;

        delivery->outcome = *outcome;
        delivery->finished_us = clock_monotonic_us();
        uv_stop(&delivery->loop);
}

static void on_closed(void *owner)
{
        (void)owner;
}

static bool open_target(struct delivery *delivery, const struct sink_config *config,
    const struct target_settings *target, struct error *error)
{
        const struct sink_settings settings = {
            .name = config->name, .options = sink_config_options(config), .loop = &delivery->loop};
        const struct sink_ops *ops = sink_kind_of(config);

        if (ops->open_target == NULL)
                return error_set(error, ERROR_CONFIG,
                    "the sink %s does not deliver to receivers: in this pgcourier its kind, %s, "
                    "has one destination",
                    config->name, ops->kind);
        delivery->sink = sink_open(ops, &settings, error);
        if (delivery->sink == NULL)
                return false;
        delivery->target = ops->open_target(delivery->sink, target, error);
        return delivery->target != NULL;
}

/* The timeouts of the sink end the attempt. */
static void deliver(struct delivery *delivery, const struct event *event)
{
        delivery->attempt = (struct attempt){.event = event,
            .number = 1,
            .target = delivery->target,
            .on_finished = on_finished,
            .owner = delivery};
        sink_deliver(delivery->sink, &delivery->attempt);
        sink_flush(delivery->sink);
        uv_run(&delivery->loop, UV_RUN_DEFAULT);
}

/* Runs the loop until the sink has closed its handles. */
static void finish(struct delivery *delivery)
{
        if (delivery->target != NULL)
                delivery->sink->ops->close_target(delivery->sink, delivery->target);
        if (delivery->sink != NULL)
                sink_close(delivery->sink, on_closed, NULL);
        uv_run(&delivery->loop, UV_RUN_DEFAULT);
        uv_loop_close(&delivery->loop);
        curl_global_cleanup();
}

static bool run(struct delivery *delivery, const struct sink_config *config,
    const struct target_settings *target, const struct event *event, struct error *error)
{
        bool ok;

        if (!process_init_curl())
                return error_set(error, ERROR_SYSTEM, "libcurl cannot be initialised");
        if (uv_loop_init(&delivery->loop) != 0) {
                curl_global_cleanup();
                return error_set(error, ERROR_SYSTEM, "the event loop cannot be initialised");
        }
        ok = open_target(delivery, config, target, error);
        if (ok && event != NULL)
                deliver(delivery, event);
        finish(delivery);
        return ok;
}

/* An address in the URL itself can be judged now; a name is resolved at each connection. */
static bool check_address(const struct http_config *config, const char *url, struct error *error)
{
        struct address_guard *guard;
        char words[256];
        char *host, *port;
        bool ok;

        if (config->proxy != NULL || !http_url_parse("url", url, &host, &port, error))
                return config->proxy != NULL;
        guard = address_guard_create(config, URL_OF_TABLE);
        ok = address_guard_permits_host(guard, host, port, words, sizeof words) ||
             error_set(error, ERROR_CONFIG, "%s", words);
        address_guard_destroy(guard);
        curl_free(host);
        curl_free(port);
        return ok;
}

bool receiver_delivery_check(
    const struct sink_config *config, const struct target_settings *target, struct error *error)
{
        struct delivery delivery = {0};

        return run(&delivery, config, target, NULL, error) &&
               (config->http == NULL || check_address(config->http, target->url, error));
}

bool receiver_delivery_try(const struct sink_config *config, const struct target_settings *target,
    const struct event *event, struct outcome *out_outcome, int64_t *out_ms, struct error *error)
{
        struct delivery delivery = {0};
        int64_t started_us = clock_monotonic_us();

        if (!run(&delivery, config, target, event, error))
                return false;
        *out_outcome = delivery.outcome;
        *out_ms = (delivery.finished_us - started_us) / 1000;
        return true;
}
