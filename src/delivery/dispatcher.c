#include "delivery/dispatcher.h"

#include "base/alloc.h"
#include "base/bytes.h"
#include "delivery/attempts.h"
#include "delivery/dispatcher_internal.h"
#include "delivery/fanout.h"
#include "delivery/runner.h"
#include "log/log.h"
#include "loop/timer.h"
#include "outbox/sink_settings.h"
#include "sinks/registry.h"
#include "sinks/sink_contract.h"
#include "telemetry/telemetry.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

static struct runner *runner_of(struct list *link)
{
        return list_owner(link, struct runner, link);
}

/* Of a sink that does not fan out. */
static struct runner *only_runner(const struct dispatcher *dispatcher)
{
        return runner_of(dispatcher->runners.next);
}

static void on_sink_closed(void *owner)
{
        struct dispatcher *dispatcher = owner;
        struct sink_set *set = dispatcher->set;

        list_remove(&dispatcher->link);
        telemetry_close_sink(dispatcher->seen);
        free(dispatcher->settings);
        free(dispatcher->topics);
        free(dispatcher->types);
        free(dispatcher->differences);
        free(dispatcher->name);
        free(dispatcher);
        set->work->is_pending = true;
        if (list_is_empty(&set->dispatchers))
                set->events.on_empty(set->owner);
}

static void close_parts(struct dispatcher *dispatcher)
{
        struct sink *sink = dispatcher->sink;

        timer_destroy(dispatcher->standby);
        starts_deinit(dispatcher);
        if (dispatcher->fanout != NULL)
                fanout_session_down(dispatcher->fanout);
        list_for_each (link, &dispatcher->runners)
                runner_destroy(runner_of(link));
        if (dispatcher->fanout != NULL) {
                fanout_destroy(dispatcher->fanout);
                lane_store_destroy(dispatcher->owner_lane);
        }
        filter_close(dispatcher->filter);
        assert(sink->n_in_flight == 0);
        sink_close(sink, on_sink_closed, dispatcher);
}

/* The only function that assigns dispatcher->state: see dispatcher_internal.h. After CLOSING the
 * dispatcher may be gone. */
static void enter(struct dispatcher *dispatcher, enum dispatcher_state state)
{
        dispatcher->state = state;
        dispatcher_wake(dispatcher);
        timer_disarm(dispatcher->standby);
        switch (state) {
        case DISPATCHER_CLAIMING:
                lane_store_claim(dispatcher->owner_lane);
                return;
        case DISPATCHER_STANDBY:
                timer_arm(dispatcher->standby, (uint64_t)dispatcher->standby_ms);
                return;
        case DISPATCHER_OWNED:
                if (dispatcher->fanout != NULL)
                        fanout_owned(dispatcher->fanout);
                return;
        case DISPATCHER_RELEASING:
                lane_store_release(dispatcher->owner_lane);
                return;
        case DISPATCHER_CLOSING:
                close_parts(dispatcher);
                return;
        case DISPATCHER_WAITING:
        case DISPATCHER_UNOWNED:
        case DISPATCHER_WITHDRAWING:
        case DISPATCHER_DRAINING:
        case DISPATCHER_FINISHING:
                return;
        }
}

static void on_standby_due(void *owner)
{
        enter(owner, DISPATCHER_CLAIMING);
}

/* The relay that takes the lane notes its settings. While another relay owns it, other settings are
 * a warning: events will be sent elsewhere once that relay ends. Afterwards they are a change. */
static void note_settings(struct dispatcher *dispatcher, const char *theirs)
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

static void note_owned(struct dispatcher *dispatcher)
{
        assert(dispatcher->state == DISPATCHER_CLAIMING ||
               dispatcher->state == DISPATCHER_WITHDRAWING);
        dispatcher->is_owned_elsewhere = false;
        if (dispatcher->differences != NULL)
                log_info("sink_settings_changed", kv_text("sink", dispatcher->name),
                    kv_text("differences", dispatcher->differences));
        free(dispatcher->differences);
        dispatcher->differences = NULL;
        enter(dispatcher,
            dispatcher->state == DISPATCHER_CLAIMING ? DISPATCHER_OWNED : DISPATCHER_DRAINING);
}

static void note_owned_elsewhere(struct dispatcher *dispatcher)
{
        const struct sink_set *set = dispatcher->set;

        if (dispatcher->state == DISPATCHER_WITHDRAWING) {
                enter(dispatcher, DISPATCHER_FINISHING);
                return;
        }
        if (!dispatcher->is_owned_elsewhere)
                log_info("lane_owned_elsewhere", kv_text("sink", dispatcher->name),
                    kv_int("retry_ms", dispatcher->standby_ms));
        if (dispatcher->differences != NULL && dispatcher->are_differences_news)
                log_warn("sink_settings_differ", kv_text("sink", dispatcher->name),
                    kv_text("differences", dispatcher->differences),
                    kv_text("hint",
                        "the relay that delivers has other settings; when it ends, ours "
                        "are in force"));
        dispatcher->are_differences_news = false;
        dispatcher->is_owned_elsewhere = true;
        enter(dispatcher, DISPATCHER_STANDBY);
        set->events.on_standby(set->owner);
}

/* The only lane of a sink is the owner lane, too, and reads its pages itself. */

static void on_only_owned(
    void *owner, const struct cursor *cursor, const struct parked_keys *parked)
{
        struct runner *runner = owner;

        note_owned(runner->dispatcher);
        runner_own(runner, cursor, parked);
}

static void on_only_owned_elsewhere(void *owner)
{
        struct runner *runner = owner;

        note_owned_elsewhere(runner->dispatcher);
}

static void on_only_settings(void *owner, const char *theirs)
{
        struct runner *runner = owner;

        note_settings(runner->dispatcher, theirs);
}

static void on_only_page(void *owner, struct page *page)
{
        runner_take_page(owner, page, false);
}

static void on_only_released(void *owner)
{
        struct runner *runner = owner;

        enter(runner->dispatcher, DISPATCHER_FINISHING);
}

static void read_page(struct runner *runner, struct page_request *request)
{
        lane_store_read(runner->store, request);
}

static void create_only_runner(struct dispatcher *dispatcher)
{
        static const struct runner_ops ops = {
            .read = read_page, .on_outcome = dispatcher_note_outcome};
        static const struct lane_store_events events = {.on_owned = on_only_owned,
            .on_owned_elsewhere = on_only_owned_elsewhere,
            .on_settings = on_only_settings,
            .on_page_end = runner_note_page_end,
            .on_page = on_only_page,
            .on_page_failed = runner_fail_page,
            .on_parked = runner_take_parked,
            .on_missing = runner_note_missing,
            .on_settled = runner_note_settled,
            .on_released = on_only_released};
        const struct sink_config *config = dispatcher->config;
        const struct lane_store_settings settings = {.sink = config->name,
            .filter = config->filter,
            .settings = dispatcher->settings,
            .topics = dispatcher->topics,
            .types = dispatcher->types,
            .is_durable = dispatcher->sink->remembers,
            .start = config->start};
        const struct lane_policy policy = runner_policy(dispatcher);
        const struct routing *routing = &dispatcher->routing;
        struct runner *runner = runner_create(dispatcher, &ops, &policy);

        runner->label = xstrdup(config->name);
        runner->store = lane_store_create(dispatcher->set->outbox, &settings, &events, runner);
        lane_store_route(runner->store, &routing, 1);
        dispatcher->owner_lane = runner->store;
        runner_update_pause(runner);
}

/* The owner lane of a sink that fans out reads for all receivers, and delivers nothing itself. */

static void on_owned(void *owner, const struct cursor *cursor, const struct parked_keys *parked)
{
        (void)cursor;
        (void)parked;
        note_owned(owner);
}

static void on_owned_elsewhere(void *owner)
{
        note_owned_elsewhere(owner);
}

static void on_settings(void *owner, const char *theirs)
{
        note_settings(owner, theirs);
}

static void on_settled(void *owner, enum cursor_room room)
{
        (void)owner;
        (void)room;
}

static void on_released(void *owner)
{
        enter(owner, DISPATCHER_FINISHING);
}

static void create_fanout(struct dispatcher *dispatcher)
{
        static const struct lane_store_events events = {.on_owned = on_owned,
            .on_owned_elsewhere = on_owned_elsewhere,
            .on_settings = on_settings,
            .on_page = fanout_take_page,
            .on_page_failed = fanout_fail_page,
            .on_settled = on_settled,
            .on_released = on_released};
        const struct sink_config *config = dispatcher->config;
        const struct lane_store_settings settings = {.sink = config->name,
            .filter = config->filter,
            .settings = dispatcher->settings,
            .topics = dispatcher->topics,
            .types = dispatcher->types,
            .is_owner_lane = true,
            .start = config->start};

        dispatcher->owner_lane =
            lane_store_create(dispatcher->set->outbox, &settings, &events, dispatcher);
        dispatcher->fanout = fanout_create(dispatcher);
}

struct dispatcher *dispatcher_create(struct sink_set *set, const struct sink_config *config,
    const struct relay_config *relay, struct error *error)
{
        const struct sink_settings settings = {.name = config->name,
            .options = sink_config_options(config),
            .loop = set->loop,
            .by_key = config->order == ORDER_KEY,
            .concurrency = config->concurrency};
        struct sink *sink = sink_open(sink_kind_of(config), &settings, error);
        struct dispatcher *dispatcher;

        if (sink == NULL)
                return NULL;
        dispatcher = xcalloc(1, sizeof *dispatcher);
        dispatcher->set = set;
        dispatcher->config = config;
        dispatcher->name = xstrdup(config->name);
        dispatcher->routing = (struct routing){.topics = config->topics,
            .n_topics = config->n_topics,
            .types = config->types,
            .n_types = config->n_types,
            .headers = config->match_headers,
            .n_headers = config->n_match_headers,
            .filter = config->filter};
        dispatcher->sink = sink;
        dispatcher->seen = telemetry_open_sink(
            set->telemetry, config->name, sink_config_kind(config), clock_monotonic_us());
        telemetry_set_target(dispatcher->seen, sink_config_target(config));
        list_init(&dispatcher->link);
        list_init(&dispatcher->runners);
        dispatcher_open_filter(dispatcher);
        dispatcher->settings = sink_settings(config);
        dispatcher->topics = sink_patterns(config->topics, config->n_topics);
        dispatcher->types = sink_patterns(config->types, config->n_types);
        dispatcher->standby_ms = relay->standby_ms;
        dispatcher->standby = timer_create_on(set->loop, on_standby_due, dispatcher);
        starts_init(dispatcher);
        if (sink_config_fans_out(config))
                create_fanout(dispatcher);
        else
                create_only_runner(dispatcher);
        return dispatcher;
}

void dispatcher_close(struct dispatcher *dispatcher)
{
        if (dispatcher->state != DISPATCHER_CLOSING)
                enter(dispatcher, DISPATCHER_CLOSING);
}

void dispatcher_session_down(struct dispatcher *dispatcher)
{
        if (!dispatcher_is_at_work(dispatcher))
                return;
        enter(dispatcher,
            dispatcher_is_serving(dispatcher) ? DISPATCHER_UNOWNED : DISPATCHER_FINISHING);
        if (dispatcher->fanout != NULL)
                fanout_session_down(dispatcher->fanout);
        list_for_each (link, &dispatcher->runners)
                runner_session_down(runner_of(link));
        /* What is in flight could not be settled any more, and a lane starts anew only without
         * it. */
        if (dispatcher->sink->n_in_flight > 0)
                sink_cancel(dispatcher->sink);
}

void dispatcher_ring(struct dispatcher *dispatcher)
{
        if (!dispatcher_is_serving(dispatcher))
                return;
        if (dispatcher->fanout != NULL) {
                page_cache_ring(dispatcher->fanout->page_cache);
                dispatcher_wake(dispatcher);
        } else {
                lane_ring(&only_runner(dispatcher)->lane);
                runner_wake(only_runner(dispatcher));
        }
}

void dispatcher_control(struct dispatcher *dispatcher)
{
        if (!dispatcher_is_serving(dispatcher))
                return;
        if (dispatcher->fanout != NULL)
                fanout_control(dispatcher->fanout);
        else
                runner_ring_parked(only_runner(dispatcher));
}

void dispatcher_retry_login(struct dispatcher *dispatcher)
{
        if (dispatcher_is_serving(dispatcher))
                attempts_retry_login(dispatcher);
}

void dispatcher_tell_refused(struct dispatcher *dispatcher)
{
        if (dispatcher != NULL)
                attempts_tell_refused(dispatcher);
}

void dispatcher_retire(struct dispatcher *dispatcher)
{
        if (dispatcher == NULL || !dispatcher_is_serving(dispatcher))
                return;
        if (dispatcher->state == DISPATCHER_OWNED)
                enter(dispatcher, DISPATCHER_DRAINING);
        else if (dispatcher->state == DISPATCHER_CLAIMING)
                enter(dispatcher, DISPATCHER_WITHDRAWING);
        else
                enter(dispatcher, DISPATCHER_FINISHING);
        list_for_each (link, &dispatcher->runners)
                runner_drain(runner_of(link));
}

void dispatcher_hurry(struct dispatcher *dispatcher)
{
        if (dispatcher_is_draining(dispatcher) && dispatcher_is_at_work(dispatcher) &&
            dispatcher->sink->n_in_flight > 0)
                sink_cancel(dispatcher->sink);
}

void dispatcher_configure(struct dispatcher *dispatcher, const struct sink_config *config,
    const struct relay_config *relay)
{
        if (dispatcher == NULL)
                return;
        dispatcher->config = config;
        dispatcher->standby_ms = relay->standby_ms;
}

bool dispatcher_is_owned(const struct dispatcher *dispatcher)
{
        return dispatcher->state == DISPATCHER_OWNED;
}

bool dispatcher_is_at_rest(const struct dispatcher *dispatcher)
{
        list_for_each (link, &dispatcher->runners)
                if (!lane_is_at_rest(&runner_of(link)->lane))
                        return false;
        return true;
}

bool dispatcher_is_caught_up(const struct dispatcher *dispatcher)
{
        int64_t now_ms = dispatcher_now_ms();

        if (!dispatcher_is_serving(dispatcher) ||
            (dispatcher->fanout != NULL && !fanout_is_caught_up(dispatcher->fanout)))
                return false;
        list_for_each (link, &dispatcher->runners)
                if (!runner_is_caught_up(runner_of(link), now_ms))
                        return false;
        return true;
}

/* Nothing is under way but progress that was written, and not the claim: that has states of its
 * own. */
static bool is_idle(const struct dispatcher *dispatcher)
{
        if (!dispatcher_is_at_rest(dispatcher))
                return false;
        list_for_each (link, &dispatcher->runners)
                if (!runner_is_idle(runner_of(link)))
                        return false;
        return dispatcher->fanout == NULL || fanout_is_idle(dispatcher->fanout);
}

/* An only lane starts anew when nothing is in flight from the time before. */
static bool may_claim(const struct dispatcher *dispatcher)
{
        return dispatcher->set->is_session_up &&
               (dispatcher->fanout != NULL || only_runner(dispatcher)->lane.state == LANE_UNOWNED);
}

void dispatcher_serve(struct dispatcher *dispatcher, bool may_begin)
{
        if (dispatcher->fanout != NULL &&
            (dispatcher->state == DISPATCHER_OWNED || dispatcher->state == DISPATCHER_DRAINING))
                fanout_serve(dispatcher->fanout);
        switch (dispatcher->state) {
        case DISPATCHER_WAITING:
                if (!may_begin)
                        return;
                enter(dispatcher, DISPATCHER_UNOWNED);
                dispatcher_ring(dispatcher);
                return;
        case DISPATCHER_UNOWNED:
                if (may_claim(dispatcher))
                        enter(dispatcher, DISPATCHER_CLAIMING);
                return;
        case DISPATCHER_DRAINING:
                if (!dispatcher->set->is_ending && is_idle(dispatcher))
                        enter(dispatcher, DISPATCHER_RELEASING);
                return;
        case DISPATCHER_FINISHING:
                if (!dispatcher->set->is_ending && is_idle(dispatcher))
                        enter(dispatcher, DISPATCHER_CLOSING);
                return;
        case DISPATCHER_CLAIMING:
        case DISPATCHER_STANDBY:
        case DISPATCHER_OWNED:
        case DISPATCHER_WITHDRAWING:
        case DISPATCHER_RELEASING:
        case DISPATCHER_CLOSING:
                return;
        }
}
