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

int64_t dispatcher_now_ms(void)
{
        return clock_monotonic_us() / 1000;
}

static struct runner *runner_of_link(struct list *link)
{
        return list_owner(link, struct runner, link);
}

/* The only runner of a sink that does not fan out. */
static struct runner *only_runner(const struct dispatcher *dispatcher)
{
        return runner_of_link(dispatcher->runners.next);
}

static bool may_claim(const struct dispatcher *dispatcher)
{
        if (!dispatcher->is_session_up || dispatcher->is_claiming || dispatcher->is_draining ||
            dispatcher->is_owned || timer_is_armed(dispatcher->standby))
                return false;
        /* It starts anew only without what was in flight. */
        return dispatcher->fanout != NULL || only_runner(dispatcher)->lane.state == LANE_UNOWNED;
}

static void claim(struct dispatcher *dispatcher)
{
        if (!may_claim(dispatcher))
                return;
        dispatcher->is_claiming = true;
        lane_store_claim(dispatcher->owner_lane);
}

static void on_standby_due(void *owner)
{
        claim(owner);
}

/* They are noted by whoever takes the lane. A warning while that is somebody else: then it is to be seen
 * before he ends that events would go elsewhere. Afterwards it is what somebody wanted, and news. */
void dispatcher_note_settings(struct dispatcher *dispatcher, const char *theirs)
{
        struct bytes words = {0};

        if (theirs != NULL)
                sink_settings_compare(&words, dispatcher->settings, theirs);
        if (words.data != NULL &&
            (dispatcher->differences == NULL || strcmp(dispatcher->differences, words.data) != 0))
                dispatcher->are_differences_news = true;
        free(dispatcher->differences);
        dispatcher->differences = words.data;
}

void dispatcher_note_owned(struct dispatcher *dispatcher)
{
        dispatcher->is_claiming = false;
        dispatcher->is_standby = false;
        dispatcher->is_owned = true;
        if (dispatcher->differences != NULL)
                log_info("sink_settings_changed", kv_text("sink", dispatcher->config->name),
                    kv_text("differences", dispatcher->differences));
        free(dispatcher->differences);
        dispatcher->differences = NULL;
        if (dispatcher->fanout != NULL)
                fanout_owned(dispatcher->fanout);
        dispatcher->events.on_dirty(dispatcher->owner);
}

void dispatcher_note_owned_elsewhere(struct dispatcher *dispatcher)
{
        dispatcher->is_claiming = false;
        if (!dispatcher->is_standby)
                log_info("lane_owned_elsewhere", kv_text("sink", dispatcher->config->name),
                    kv_int("retry_ms", dispatcher->standby_ms));
        if (dispatcher->differences != NULL && dispatcher->are_differences_news)
                log_warn("sink_settings_differ", kv_text("sink", dispatcher->config->name),
                    kv_text("differences", dispatcher->differences),
                    kv_text("hint",
                        "the relay that delivers has other settings; when it ends, ours "
                        "are in force"));
        dispatcher->are_differences_news = false;
        dispatcher->is_standby = true;
        timer_arm(dispatcher->standby, (uint64_t)dispatcher->standby_ms);
        dispatcher->events.on_standby(dispatcher->owner);
}

void dispatcher_note_released(struct dispatcher *dispatcher)
{
        dispatcher->is_owned = false;
        dispatcher->events.on_dirty(dispatcher->owner);
}

/* `by` is whose pause it was. */
static void log_resumed(const struct dispatcher *dispatcher, const char *by)
{
        log_info("sink_resumed", kv_text("sink", dispatcher->config->name), kv_text("by", by));
}

static void pause_by_relay(struct dispatcher *dispatcher, const char *reason, const char *hint)
{
        dispatcher->is_paused_by_relay = true;
        log_error("sink_paused", kv_text("sink", dispatcher->config->name), kv_text("by", "relay"),
            kv_text("reason", reason), kv_text("hint", hint));
        dispatcher->events.on_refused(dispatcher->owner, dispatcher->config->name, reason);
}

/* A destination that refuses us until somebody changes something is told where people look. */
void dispatcher_show_pause(
    struct dispatcher *dispatcher, const struct lane *lane, const char *reason)
{
        const struct breaker *breaker = &lane->breaker;

        if (breaker->state == BREAKER_CLOSED && dispatcher->is_paused_by_relay &&
            !dispatcher_is_filter_given_up(dispatcher)) {
                dispatcher->is_paused_by_relay = false;
                log_resumed(dispatcher, "relay");
                dispatcher->events.on_recovered(dispatcher->owner, dispatcher->config->name);
        } else if (breaker->state != BREAKER_CLOSED && breaker->needs_operator &&
                   !dispatcher->is_paused_by_relay) {
                pause_by_relay(dispatcher, reason,
                    "mend it; it is tried now and then, and at once after `pgcourier resume`");
        }
}

static void update_pauses(struct dispatcher *dispatcher)
{
        list_for_each (link, &dispatcher->runners)
                runner_update_pause(runner_of_link(link));
}

static void on_filter_given_up(void *owner, const char *words)
{
        struct dispatcher *dispatcher = owner;

        snprintf(dispatcher->filter_reason, sizeof dispatcher->filter_reason, "%s", words);
        pause_by_relay(dispatcher, words,
            "nothing is read for it; change its filter and reload, or `pgcourier resume` tries "
            "again");
        update_pauses(dispatcher);
}

static void open_filter(struct dispatcher *dispatcher)
{
        dispatcher->filter_reason[0] = '\0';
        if (dispatcher->config->filter != NULL)
                dispatcher->filter = filter_open(outbox_filter_queue(dispatcher->outbox),
                    dispatcher->config->filter, on_filter_given_up, dispatcher);
}

/* Somebody wants it to be tried again. */
static void renew_filter(struct dispatcher *dispatcher)
{
        if (!dispatcher_is_filter_given_up(dispatcher))
                return;
        filter_close(dispatcher->filter);
        open_filter(dispatcher);
        update_pauses(dispatcher);
}

/* Not more often than it makes sense to look at files: a receiver of many may refuse us all the time. */
static void retry_login(struct dispatcher *dispatcher)
{
        int64_t now_ms = dispatcher_now_ms();

        if (dispatcher->is_login_retried || dispatcher->is_draining ||
            (dispatcher->login_retried_ms != 0 && now_ms < dispatcher->login_retried_ms + 1000))
                return;
        dispatcher->login_retried_ms = now_ms;
        dispatcher->is_login_retried =
            dispatcher->events.on_login_refused(dispatcher->owner, dispatcher->config->name);
}

/* Of one receiver among many its health is noted in any case, and told by that. */
bool dispatcher_withhold(
    struct dispatcher *dispatcher, const struct outcome *outcome, bool was_closed)
{
        retry_login(dispatcher);
        if (dispatcher->is_draining)
                return true;
        if (!dispatcher->is_login_retried || dispatcher->fanout != NULL)
                return false;
        if (dispatcher->withheld.kind != OUTCOME_SINK_DOWN)
                dispatcher->was_closed = was_closed;
        dispatcher->withheld = *outcome;
        return true;
}

void dispatcher_retry_login(struct dispatcher *dispatcher)
{
        if (dispatcher->is_paused_by_relay)
                retry_login(dispatcher);
}

void dispatcher_tell_refused(struct dispatcher *dispatcher)
{
        const struct outcome outcome = dispatcher->withheld;

        dispatcher->is_login_retried = false;
        dispatcher->withheld = outcome_delivered;
        if (outcome.kind == OUTCOME_SINK_DOWN)
                runner_tell_refused(only_runner(dispatcher), &outcome, dispatcher->was_closed);
}

void dispatcher_pump(struct dispatcher *dispatcher)
{
        int64_t now_ms = dispatcher_now_ms();
        struct list dirty;

        claim(dispatcher);
        list_init(&dirty);
        while (!list_is_empty(&dispatcher->dirty)) {
                struct list *link = dispatcher->dirty.next;
                list_remove(link);
                list_push_back(&dirty, link);
        }
        while (!list_is_empty(&dirty)) {
                struct runner *runner = list_owner(dirty.next, struct runner, dirty_link);
                list_remove(&runner->dirty_link);
                runner_pump(runner, now_ms);
        }
        if (dispatcher->fanout != NULL)
                fanout_serve(dispatcher->fanout);
}

struct dispatcher *dispatcher_create(uv_loop_t *loop, const struct sink_config *config,
    const struct relay_config *relay, struct outbox *outbox, struct telemetry *telemetry,
    const struct dispatcher_events *events, void *owner, struct error *error)
{
        const struct sink_settings settings = {.name = config->name,
            .options = sink_config_options(config),
            .loop = loop,
            .by_key = config->order == ORDER_KEY,
            .concurrency = config->concurrency};
        struct sink *sink = sink_open(sink_kind_of(config), &settings, error);
        struct dispatcher *dispatcher;

        if (sink == NULL)
                return NULL;
        dispatcher = xcalloc(1, sizeof *dispatcher);
        dispatcher->loop = loop;
        dispatcher->outbox = outbox;
        dispatcher->config = config;
        dispatcher->routing = (struct routing){.topics = config->topics,
            .n_topics = config->n_topics,
            .types = config->types,
            .n_types = config->n_types,
            .headers = config->match_headers,
            .n_headers = config->n_match_headers,
            .filter = config->filter};
        dispatcher->only_routing = &dispatcher->routing;
        dispatcher->events = *events;
        dispatcher->owner = owner;
        dispatcher->sink = sink;
        dispatcher->seen = telemetry_open_sink(
            telemetry, config->name, sink_config_kind(config), clock_monotonic_us());
        telemetry_set_target(dispatcher->seen, sink_config_target(config));
        list_init(&dispatcher->runners);
        list_init(&dispatcher->dirty);
        list_init(&dispatcher->starved);
        open_filter(dispatcher);
        dispatcher->settings = sink_settings(config);
        dispatcher->standby_ms = relay->standby_ms;
        dispatcher->standby = timer_create_on(loop, on_standby_due, dispatcher);
        if (sink_config_fans_out(config))
                dispatcher->fanout = fanout_create(dispatcher);
        else
                dispatcher->owner_lane = runner_create(dispatcher, NULL)->store;
        return dispatcher;
}

void dispatcher_session_up(struct dispatcher *dispatcher)
{
        dispatcher->is_session_up = true;
        dispatcher->events.on_dirty(dispatcher->owner);
}

void dispatcher_session_down(struct dispatcher *dispatcher)
{
        dispatcher->is_session_up = false;
        dispatcher->is_claiming = false;
        dispatcher->is_owned = false;
        timer_disarm(dispatcher->standby);
        if (dispatcher->fanout != NULL)
                fanout_session_down(dispatcher->fanout);
        list_for_each (link, &dispatcher->runners)
                runner_session_down(runner_of_link(link));
        /* Nobody could settle what is in flight, and a lane starts anew only without it. */
        dispatcher_cancel(dispatcher);
}

bool dispatcher_is_owned(const struct dispatcher *dispatcher)
{
        return dispatcher->is_owned;
}

void dispatcher_ring(struct dispatcher *dispatcher)
{
        if (dispatcher->fanout != NULL)
                fanout_ring(dispatcher->fanout);
        else
                runner_ring(only_runner(dispatcher));
}

void dispatcher_control(struct dispatcher *dispatcher)
{
        if (dispatcher->fanout != NULL)
                fanout_control(dispatcher->fanout);
        else
                runner_ring_parked(only_runner(dispatcher));
}

static void pause_by_operator(struct dispatcher *dispatcher, const struct pause *pause)
{
        if (dispatcher->is_paused_by_operator == (pause != NULL))
                return;
        dispatcher->is_paused_by_operator = pause != NULL;
        snprintf(dispatcher->pause_reason, sizeof dispatcher->pause_reason, "%s",
            pause != NULL && pause->reason != NULL ? pause->reason : "");
        if (pause != NULL)
                log_warn("sink_paused", kv_text("sink", dispatcher->config->name),
                    kv_text("by", "operator"), kv_text("reason", pause->reason));
        else
                log_resumed(dispatcher, "operator");
        update_pauses(dispatcher);
}

void dispatcher_take_pauses(struct dispatcher *dispatcher, const struct pause_list *pauses)
{
        const struct pause *by_operator = NULL;
        bool by_relay = false;

        for (size_t i = 0; i < pauses->n_pauses; i++) {
                const struct pause *pause = &pauses->pauses[i];
                if (strcmp(pause->sink, dispatcher->config->name) != 0)
                        continue;
                if (pause->by == PAUSED_BY_OPERATOR)
                        by_operator = pause;
                else
                        by_relay = true;
        }
        pause_by_operator(dispatcher, by_operator);
        if (dispatcher->is_paused_by_relay && !by_relay) {
                log_resumed(dispatcher, "relay");
                renew_filter(dispatcher);
        }
        list_for_each (link, &dispatcher->runners) {
                struct runner *runner = runner_of_link(link);
                if (dispatcher->is_paused_by_relay && !by_relay) /* somebody has resumed it */
                        lane_probe_now(&runner->lane, dispatcher_now_ms());
                runner_mark_dirty(runner);
        }
        dispatcher->is_paused_by_relay = by_relay;
}

void dispatcher_drain(struct dispatcher *dispatcher)
{
        dispatcher->is_draining = true;
        timer_disarm(dispatcher->standby);
        list_for_each (link, &dispatcher->runners)
                runner_drain(runner_of_link(link));
}

void dispatcher_cancel(struct dispatcher *dispatcher)
{
        if (dispatcher->sink->n_in_flight > 0)
                sink_cancel(dispatcher->sink);
}

bool dispatcher_is_at_rest(const struct dispatcher *dispatcher)
{
        list_for_each (link, &dispatcher->runners)
                if (!lane_is_at_rest(&runner_of_link(link)->lane))
                        return false;
        return true;
}

bool dispatcher_is_idle(const struct dispatcher *dispatcher)
{
        if (dispatcher->is_claiming || !dispatcher_is_at_rest(dispatcher))
                return false;
        list_for_each (link, &dispatcher->runners)
                if (!runner_is_idle(runner_of_link(link)))
                        return false;
        return dispatcher->fanout == NULL || fanout_is_idle(dispatcher->fanout);
}

void dispatcher_release(struct dispatcher *dispatcher)
{
        lane_store_release(dispatcher->owner_lane);
}

void dispatcher_configure(struct dispatcher *dispatcher, const struct sink_config *config,
    const struct relay_config *relay)
{
        dispatcher->config = config;
        dispatcher->standby_ms = relay->standby_ms;
}

bool dispatcher_is_caught_up(const struct dispatcher *dispatcher)
{
        int64_t now_ms = dispatcher_now_ms();

        if (dispatcher->fanout != NULL && !fanout_is_caught_up(dispatcher->fanout))
                return false;
        list_for_each (link, &dispatcher->runners)
                if (!lane_is_caught_up(&runner_of_link(link)->lane, now_ms))
                        return false;
        return true;
}

static void on_sink_closed(void *owner)
{
        struct dispatcher *dispatcher = owner;
        const struct dispatcher_events events = dispatcher->events;
        void *dispatcher_owner = dispatcher->owner;

        telemetry_close_sink(dispatcher->seen);
        free(dispatcher->settings);
        free(dispatcher->differences);
        free(dispatcher);
        events.on_closed(dispatcher_owner);
}

void dispatcher_close(struct dispatcher *dispatcher)
{
        struct sink *sink = dispatcher->sink;

        timer_destroy(dispatcher->standby);
        if (dispatcher->fanout != NULL)
                fanout_session_down(dispatcher->fanout);
        list_for_each (link, &dispatcher->runners)
                runner_destroy(runner_of_link(link));
        fanout_destroy(dispatcher->fanout);
        filter_close(dispatcher->filter);
        assert(sink->n_in_flight == 0);
        sink_close(sink, on_sink_closed, dispatcher);
}
