#include "delivery/dispatcher.h"

#include "base/alloc.h"
#include "base/bytes.h"
#include "base/clock.h"
#include "delivery/fanout.h"
#include "delivery/runner.h"
#include "log/log.h"
#include "loop/timer.h"
#include "outbox/sink_settings.h"
#include "sinks/registry.h"
#include "sinks/sink_contract.h"
#include "telemetry/telemetry.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int64_t carrier_now_ms(void)
{
        return clock_monotonic_us() / 1000;
}

static struct route *route_of_link(struct list *link)
{
        return list_owner(link, struct route, link);
}

/* The only route of a sink that does not fan out. */
static struct route *only_route(const struct carrier *carrier)
{
        return route_of_link(carrier->routes.next);
}

static bool may_claim(const struct carrier *carrier)
{
        if (!carrier->is_session_up || carrier->is_claiming || carrier->is_draining ||
            carrier->is_owned || timer_is_armed(carrier->standby))
                return false;
        /* It starts anew only without what was in flight. */
        return carrier->fanout != NULL || only_route(carrier)->lane.state == LANE_UNOWNED;
}

static void claim(struct carrier *carrier)
{
        if (!may_claim(carrier))
                return;
        carrier->is_claiming = true;
        lane_store_claim(carrier->gate);
}

static void on_standby_due(void *owner)
{
        claim(owner);
}

/* They are noted by whoever takes the lane. A warning while that is somebody else: then it is to be seen
 * before he ends that events would go elsewhere. Afterwards it is what somebody wanted, and news. */
void carrier_note_settings(struct carrier *carrier, const char *theirs)
{
        struct bytes words = {0};

        if (theirs != NULL)
                sink_settings_compare(&words, carrier->settings, theirs);
        if (words.data != NULL &&
            (carrier->differences == NULL || strcmp(carrier->differences, words.data) != 0))
                carrier->are_differences_news = true;
        free(carrier->differences);
        carrier->differences = words.data;
}

void carrier_note_owned(struct carrier *carrier)
{
        carrier->is_claiming = false;
        carrier->is_standby = false;
        carrier->is_owned = true;
        if (carrier->differences != NULL)
                log_info("sink_settings_changed", kv_text("sink", carrier->config->name),
                    kv_text("differences", carrier->differences));
        free(carrier->differences);
        carrier->differences = NULL;
        if (carrier->fanout != NULL)
                fanout_owned(carrier->fanout);
        carrier->events.on_dirty(carrier->owner);
}

void carrier_note_owned_elsewhere(struct carrier *carrier)
{
        carrier->is_claiming = false;
        if (!carrier->is_standby)
                log_info("lane_owned_elsewhere", kv_text("sink", carrier->config->name),
                    kv_int("retry_ms", carrier->standby_ms));
        if (carrier->differences != NULL && carrier->are_differences_news)
                log_warn("sink_settings_differ", kv_text("sink", carrier->config->name),
                    kv_text("differences", carrier->differences),
                    kv_text("hint",
                        "the relay that delivers has other settings; when it ends, ours "
                        "are in force"));
        carrier->are_differences_news = false;
        carrier->is_standby = true;
        timer_arm(carrier->standby, (uint64_t)carrier->standby_ms);
        carrier->events.on_standby(carrier->owner);
}

void carrier_note_released(struct carrier *carrier)
{
        carrier->is_owned = false;
        carrier->events.on_dirty(carrier->owner);
}

/* `by` is whose pause it was. */
static void log_resumed(const struct carrier *carrier, const char *by)
{
        log_info("sink_resumed", kv_text("sink", carrier->config->name), kv_text("by", by));
}

static void pause_by_relay(struct carrier *carrier, const char *reason, const char *hint)
{
        carrier->is_paused_by_relay = true;
        log_error("sink_paused", kv_text("sink", carrier->config->name), kv_text("by", "relay"),
            kv_text("reason", reason), kv_text("hint", hint));
        carrier->events.on_refused(carrier->owner, carrier->config->name, reason);
}

/* A destination that refuses us until somebody changes something is told where people look. */
void carrier_show_pause(struct carrier *carrier, const struct lane *lane, const char *reason)
{
        const struct breaker *breaker = &lane->breaker;

        if (breaker->state == BREAKER_CLOSED && carrier->is_paused_by_relay &&
            !carrier_is_filter_given_up(carrier)) {
                carrier->is_paused_by_relay = false;
                log_resumed(carrier, "relay");
                carrier->events.on_recovered(carrier->owner, carrier->config->name);
        } else if (breaker->state != BREAKER_CLOSED && breaker->needs_operator &&
                   !carrier->is_paused_by_relay) {
                pause_by_relay(carrier, reason,
                    "mend it; it is tried now and then, and at once after `pgcourier resume`");
        }
}

static void update_pauses(struct carrier *carrier)
{
        list_for_each (link, &carrier->routes)
                route_update_pause(route_of_link(link));
}

static void on_filter_given_up(void *owner, const char *words)
{
        struct carrier *carrier = owner;

        snprintf(carrier->filter_reason, sizeof carrier->filter_reason, "%s", words);
        pause_by_relay(carrier, words,
            "nothing is read for it; change its filter and reload, or `pgcourier resume` tries "
            "again");
        update_pauses(carrier);
}

static void open_filter(struct carrier *carrier)
{
        carrier->filter_reason[0] = '\0';
        if (carrier->config->filter != NULL)
                carrier->filter = sieve_filter_open(outbox_sieve(carrier->outbox),
                    carrier->config->filter, on_filter_given_up, carrier);
}

/* Somebody wants it to be tried again. */
static void renew_filter(struct carrier *carrier)
{
        if (!carrier_is_filter_given_up(carrier))
                return;
        sieve_filter_close(carrier->filter);
        open_filter(carrier);
        update_pauses(carrier);
}

/* Not more often than it makes sense to look at files: a receiver of many may refuse us all the time. */
static void retry_login(struct carrier *carrier)
{
        int64_t now_ms = carrier_now_ms();

        if (carrier->is_login_retried || carrier->is_draining ||
            (carrier->login_retried_ms != 0 && now_ms < carrier->login_retried_ms + 1000))
                return;
        carrier->login_retried_ms = now_ms;
        carrier->is_login_retried =
            carrier->events.on_login_refused(carrier->owner, carrier->config->name);
}

/* Of one receiver among many its health is noted in any case, and told by that. */
bool carrier_withhold(struct carrier *carrier, const struct outcome *outcome, bool was_closed)
{
        retry_login(carrier);
        if (carrier->is_draining)
                return true;
        if (!carrier->is_login_retried || carrier->fanout != NULL)
                return false;
        if (carrier->withheld.kind != OUTCOME_SINK_DOWN)
                carrier->was_closed = was_closed;
        carrier->withheld = *outcome;
        return true;
}

void carrier_retry_login(struct carrier *carrier)
{
        if (carrier->is_paused_by_relay)
                retry_login(carrier);
}

void carrier_tell_refused(struct carrier *carrier)
{
        const struct outcome outcome = carrier->withheld;

        carrier->is_login_retried = false;
        carrier->withheld = outcome_delivered;
        if (outcome.kind == OUTCOME_SINK_DOWN)
                route_tell_refused(only_route(carrier), &outcome, carrier->was_closed);
}

void carrier_pump(struct carrier *carrier)
{
        int64_t now_ms = carrier_now_ms();
        struct list dirty;

        claim(carrier);
        list_init(&dirty);
        while (!list_is_empty(&carrier->dirty)) {
                struct list *link = carrier->dirty.next;
                list_remove(link);
                list_push_back(&dirty, link);
        }
        while (!list_is_empty(&dirty)) {
                struct route *route = list_owner(dirty.next, struct route, dirty_link);
                list_remove(&route->dirty_link);
                route_pump(route, now_ms);
        }
        if (carrier->fanout != NULL)
                fanout_serve(carrier->fanout);
}

struct carrier *carrier_create(uv_loop_t *loop, const struct sink_config *config,
    const struct relay_config *relay, struct outbox *outbox, struct telemetry *telemetry,
    const struct carrier_events *events, void *owner, struct error *error)
{
        const struct sink_settings settings = {.name = config->name,
            .options = sink_config_options(config),
            .loop = loop,
            .by_key = config->order == ORDER_KEY,
            .concurrency = config->concurrency};
        struct sink *sink = sink_open(sink_kind_of(config), &settings, error);
        struct carrier *carrier;

        if (sink == NULL)
                return NULL;
        carrier = xcalloc(1, sizeof *carrier);
        carrier->loop = loop;
        carrier->outbox = outbox;
        carrier->config = config;
        carrier->routing = (struct routing){.topics = config->topics,
            .n_topics = config->n_topics,
            .types = config->types,
            .n_types = config->n_types,
            .headers = config->match_headers,
            .n_headers = config->n_match_headers,
            .filter = config->filter};
        carrier->only_routing = &carrier->routing;
        carrier->events = *events;
        carrier->owner = owner;
        carrier->sink = sink;
        carrier->seen = telemetry_open_sink(
            telemetry, config->name, sink_config_kind(config), clock_monotonic_us());
        telemetry_set_target(carrier->seen, sink_config_target(config));
        list_init(&carrier->routes);
        list_init(&carrier->dirty);
        list_init(&carrier->starved);
        open_filter(carrier);
        carrier->settings = sink_settings(config);
        carrier->standby_ms = relay->standby_ms;
        carrier->standby = timer_create_on(loop, on_standby_due, carrier);
        if (sink_config_fans_out(config))
                carrier->fanout = fanout_create(carrier);
        else
                carrier->gate = route_create(carrier, NULL)->store;
        return carrier;
}

void carrier_session_up(struct carrier *carrier)
{
        carrier->is_session_up = true;
        carrier->events.on_dirty(carrier->owner);
}

void carrier_session_down(struct carrier *carrier)
{
        carrier->is_session_up = false;
        carrier->is_claiming = false;
        carrier->is_owned = false;
        timer_disarm(carrier->standby);
        if (carrier->fanout != NULL)
                fanout_session_down(carrier->fanout);
        list_for_each (link, &carrier->routes)
                route_session_down(route_of_link(link));
        /* Nobody could settle what is in flight, and a lane starts anew only without it. */
        carrier_cancel(carrier);
}

bool carrier_is_owned(const struct carrier *carrier)
{
        return carrier->is_owned;
}

void carrier_ring(struct carrier *carrier)
{
        if (carrier->fanout != NULL)
                fanout_ring(carrier->fanout);
        else
                route_ring(only_route(carrier));
}

void carrier_control(struct carrier *carrier)
{
        if (carrier->fanout != NULL)
                fanout_control(carrier->fanout);
        else
                route_ring_parked(only_route(carrier));
}

static void pause_by_operator(struct carrier *carrier, const struct pause *pause)
{
        if (carrier->is_paused_by_operator == (pause != NULL))
                return;
        carrier->is_paused_by_operator = pause != NULL;
        snprintf(carrier->pause_reason, sizeof carrier->pause_reason, "%s",
            pause != NULL && pause->reason != NULL ? pause->reason : "");
        if (pause != NULL)
                log_warn("sink_paused", kv_text("sink", carrier->config->name),
                    kv_text("by", "operator"), kv_text("reason", pause->reason));
        else
                log_resumed(carrier, "operator");
        update_pauses(carrier);
}

void carrier_take_pauses(struct carrier *carrier, const struct pause_list *pauses)
{
        const struct pause *by_operator = NULL;
        bool by_relay = false;

        for (size_t i = 0; i < pauses->n_pauses; i++) {
                const struct pause *pause = &pauses->pauses[i];
                if (strcmp(pause->sink, carrier->config->name) != 0)
                        continue;
                if (pause->by == PAUSED_BY_OPERATOR)
                        by_operator = pause;
                else
                        by_relay = true;
        }
        pause_by_operator(carrier, by_operator);
        if (carrier->is_paused_by_relay && !by_relay) {
                log_resumed(carrier, "relay");
                renew_filter(carrier);
        }
        list_for_each (link, &carrier->routes) {
                struct route *route = route_of_link(link);
                if (carrier->is_paused_by_relay && !by_relay) /* somebody has resumed it */
                        lane_probe_now(&route->lane, carrier_now_ms());
                route_mark_dirty(route);
        }
        carrier->is_paused_by_relay = by_relay;
}

void carrier_drain(struct carrier *carrier)
{
        carrier->is_draining = true;
        timer_disarm(carrier->standby);
        list_for_each (link, &carrier->routes)
                route_drain(route_of_link(link));
}

void carrier_cancel(struct carrier *carrier)
{
        if (carrier->sink->n_in_flight > 0)
                sink_cancel(carrier->sink);
}

bool carrier_is_at_rest(const struct carrier *carrier)
{
        list_for_each (link, &carrier->routes)
                if (!lane_is_at_rest(&route_of_link(link)->lane))
                        return false;
        return true;
}

bool carrier_is_idle(const struct carrier *carrier)
{
        if (carrier->is_claiming || !carrier_is_at_rest(carrier))
                return false;
        list_for_each (link, &carrier->routes)
                if (!route_is_idle(route_of_link(link)))
                        return false;
        return carrier->fanout == NULL || fanout_is_idle(carrier->fanout);
}

void carrier_release(struct carrier *carrier)
{
        lane_store_release(carrier->gate);
}

void carrier_configure(
    struct carrier *carrier, const struct sink_config *config, const struct relay_config *relay)
{
        carrier->config = config;
        carrier->standby_ms = relay->standby_ms;
}

bool carrier_is_caught_up(const struct carrier *carrier)
{
        int64_t now_ms = carrier_now_ms();

        if (carrier->fanout != NULL && !fanout_is_caught_up(carrier->fanout))
                return false;
        list_for_each (link, &carrier->routes)
                if (!lane_is_caught_up(&route_of_link(link)->lane, now_ms))
                        return false;
        return true;
}

static void on_sink_closed(void *owner)
{
        struct carrier *carrier = owner;
        const struct carrier_events events = carrier->events;
        void *carrier_owner = carrier->owner;

        telemetry_close_sink(carrier->seen);
        free(carrier->settings);
        free(carrier->differences);
        free(carrier);
        events.on_closed(carrier_owner);
}

void carrier_close(struct carrier *carrier)
{
        struct sink *sink = carrier->sink;

        timer_destroy(carrier->standby);
        if (carrier->fanout != NULL)
                fanout_session_down(carrier->fanout);
        list_for_each (link, &carrier->routes)
                route_destroy(route_of_link(link));
        fanout_destroy(carrier->fanout);
        sieve_filter_close(carrier->filter);
        assert(sink->n_in_flight == 0);
        sink_close(sink, on_sink_closed, carrier);
}
