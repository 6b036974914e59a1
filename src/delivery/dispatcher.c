#include "delivery/dispatcher.h"

#include "base/alloc.h"
#include "base/bytes.h"
#include "delivery/attempts.h"
#include "delivery/dispatcher_internal.h"
#include "delivery/fanout.h"
#include "delivery/reading.h"
#include "delivery/runner.h"
#include "delivery/shard.h"
#include "log/log.h"
#include "loop/timer.h"
#include "outbox/sink_settings.h"
#include "sinks/registry.h"
#include "sinks/sink_contract.h"
#include "telemetry/telemetry.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* Another relay gives its shards back: that takes a moment. */
#define AGREE_AGAIN_MS 100

static struct runner *runner_of(struct list *link)
{
        return list_owner(link, struct runner, link);
}

static void on_sink_closed(void *owner)
{
        struct dispatcher *dispatcher = owner;
        struct sink_set *set = dispatcher->set;

        list_remove(&dispatcher->link);
        if (set->sharing_events != NULL)
                set->sharing_events->on_gone(set->sharing, dispatcher);
        telemetry_close_sink(dispatcher->seen);
        agreement_deinit(&dispatcher->agreement);
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

        if (dispatcher->newer != NULL)
                dispatcher->newer->older = NULL;
        if (dispatcher->older != NULL)
                dispatcher->older->newer = NULL;
        timer_destroy(dispatcher->agree_again);
        starts_deinit(dispatcher);
        if (dispatcher->reading != NULL)
                reading_reset(dispatcher->reading);
        list_for_each (link, &dispatcher->runners)
                runner_destroy(runner_of(link));
        if (dispatcher->fanout != NULL)
                fanout_destroy(dispatcher->fanout);
        reading_destroy(dispatcher->reading);
        shards_destroy(dispatcher);
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
        if (state == DISPATCHER_CLOSING)
                close_parts(dispatcher);
}

/* No lock of it is held or asked for, and nothing is in flight under one. */
static bool has_no_shard(const struct dispatcher *dispatcher)
{
        for (unsigned i = 0; i < dispatcher->n_shards; i++)
                if (dispatcher->shards[i].state != SHARD_UNOWNED)
                        return false;
        return true;
}

static void set_agreement(struct dispatcher *dispatcher, enum agreement_state state)
{
        dispatcher->agreement_state = state;
        timer_disarm(dispatcher->agree_again);
        dispatcher_wake(dispatcher);
}

static void on_agree_again(void *owner)
{
        set_agreement(owner, AGREEMENT_NEEDED);
}

static void agree_anew(struct dispatcher *dispatcher)
{
        if (dispatcher->agreement_state != AGREEMENT_ASKING)
                set_agreement(dispatcher, AGREEMENT_NEEDED);
}

void dispatcher_note_division(struct dispatcher *dispatcher, const char *sink)
{
        if (dispatcher_is_serving(dispatcher) && strcmp(dispatcher->name, sink) == 0)
                agree_anew(dispatcher);
}

/* The relay that takes shard 0 notes its settings. While another relay owns it, other settings are
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

static void note_settings_in_force(struct dispatcher *dispatcher)
{
        if (dispatcher->differences != NULL)
                log_info("sink_settings_changed", kv_text("sink", dispatcher->name),
                    kv_text("differences", dispatcher->differences));
        free(dispatcher->differences);
        dispatcher->differences = NULL;
}

static void warn_of_settings(struct dispatcher *dispatcher)
{
        if (dispatcher->differences != NULL && dispatcher->are_differences_news)
                log_warn("sink_settings_differ", kv_text("sink", dispatcher->name),
                    kv_text("differences", dispatcher->differences),
                    kv_text("hint",
                        "the relay that delivers has other settings; when it ends, ours "
                        "are in force"));
        dispatcher->are_differences_news = false;
}

static void note_older(struct dispatcher *dispatcher)
{
        const struct agreement *agreement = &dispatcher->agreement;
        bool is_older = agreement->verdict == AGREEMENT_OLDER;

        if (is_older && !dispatcher->is_older)
                log_warn("shards_differ", kv_text("sink", dispatcher->name),
                    kv_int("here", agreement->n_shards), kv_int("in_force", agreement->n_in_force),
                    kv_text("hint",
                        "another relay has a newer configuration; give this one the same and "
                        "reload it: until then it takes no shard of this sink"));
        dispatcher->is_older = is_older;
}

static void on_agreed(void *owner)
{
        struct dispatcher *dispatcher = owner;
        const struct agreement *agreement = &dispatcher->agreement;

        note_older(dispatcher);
        note_settings(dispatcher, agreement->settings);
        if (agreement->verdict != AGREEMENT_READY) {
                set_agreement(dispatcher, AGREEMENT_LATER);
                timer_arm(dispatcher->agree_again, agreement->verdict == AGREEMENT_OLDER
                                                       ? (uint64_t)dispatcher->standby_ms
                                                       : AGREE_AGAIN_MS);
                return;
        }
        if (dispatcher->reading != NULL)
                reading_leave_out(dispatcher->reading, agreement->newest_end);
        else
                lane_store_leave_out(dispatcher->shards[0].owner_lane, agreement->newest_end);
        set_agreement(dispatcher, AGREEMENT_REACHED);
        if (dispatcher->set->sharing_events != NULL)
                dispatcher->set->sharing_events->on_agreed(dispatcher->set->sharing);
}

static void serve_agreement(struct dispatcher *dispatcher)
{
        if (dispatcher->agreement_state != AGREEMENT_NEEDED || !dispatcher->set->is_session_up ||
            !has_no_shard(dispatcher))
                return;
        set_agreement(dispatcher, AGREEMENT_ASKING);
        agreement_ask(&dispatcher->agreement);
}

void dispatcher_note_standby(struct dispatcher *dispatcher)
{
        bool is_standby = shards_are_elsewhere(dispatcher);

        if (is_standby && !dispatcher->is_standby)
                log_info("lane_owned_elsewhere", kv_text("sink", dispatcher->name),
                    kv_int("retry_ms", dispatcher->standby_ms));
        if (is_standby)
                warn_of_settings(dispatcher);
        dispatcher->is_standby = is_standby;
}

static struct agreement agreement_of(const struct dispatcher *dispatcher)
{
        const struct sink_config *config = dispatcher->config;

        return (struct agreement){.outbox = dispatcher->set->outbox,
            .sink = dispatcher->name,
            .filter = dispatcher->routing.filter,
            .n_shards = config->shards,
            .fans_out = sink_config_fans_out(config),
            .start = config->start,
            .settings_here = dispatcher->settings,
            .on_agreed = on_agreed};
}

static void on_owned(struct shard *shard)
{
        const struct sink_set *set = shard->dispatcher->set;

        note_settings_in_force(shard->dispatcher);
        if (set->sharing_events != NULL)
                set->sharing_events->on_owned(set->sharing, shard);
}

static void tell_lost(struct shard *shard)
{
        const struct sink_set *set = shard->dispatcher->set;

        if (set->sharing_events != NULL)
                set->sharing_events->on_lost(set->sharing, shard);
}

static void on_elsewhere(struct shard *shard)
{
        const struct sink_set *set = shard->dispatcher->set;

        dispatcher_note_standby(shard->dispatcher);
        tell_lost(shard);
        set->events.on_standby(set->owner);
}

static void on_gone(struct shard *shard)
{
        tell_lost(shard);
        agree_anew(shard->dispatcher);
}

static void on_released(struct shard *shard)
{
        const struct sink_set *set = shard->dispatcher->set;

        if (set->sharing_events != NULL)
                set->sharing_events->on_released(set->sharing, shard);
}

static const struct shard_events shard_events = {.on_owned = on_owned,
    .on_elsewhere = on_elsewhere,
    .on_gone = on_gone,
    .on_released = on_released};

static void ignore_closed(void *owner)
{
        (void)owner;
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
        if (sink->remembers && config->shards > 1) {
                sink_close(sink, ignore_closed, NULL);
                error_set(error, ERROR_CONFIG,
                    "sink %s remembers what it has delivered, which goes by one owner of the whole "
                    "sink: it cannot have shards: %u; use shards: 1",
                    config->name, (unsigned)config->shards);
                return NULL;
        }
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
        dispatcher->drain_ms = relay->drain_ms;
        dispatcher->agree_again = timer_create_on(set->loop, on_agree_again, dispatcher);
        dispatcher->agreement = agreement_of(dispatcher);
        dispatcher->agreement.owner = dispatcher;
        starts_init(dispatcher);
        if (sink_config_fans_out(config))
                dispatcher->fanout = fanout_create(dispatcher);
        if (sink_config_fans_out(config) || config->shards > 1)
                dispatcher->reading = reading_create(dispatcher);
        shards_create(dispatcher, &shard_events);
        if (dispatcher->reading != NULL)
                reading_note_lanes(dispatcher->reading);
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
        set_agreement(dispatcher, AGREEMENT_NEEDED);
        for (unsigned i = 0; i < dispatcher->n_shards; i++)
                shard_session_down(&dispatcher->shards[i]);
        if (dispatcher->fanout != NULL)
                fanout_session_down(dispatcher->fanout);
        if (dispatcher->reading != NULL)
                reading_reset(dispatcher->reading);
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
        if (dispatcher->reading != NULL) {
                reading_ring(dispatcher->reading);
        } else {
                lane_ring(&dispatcher->shards[0].runner->lane);
                runner_wake(dispatcher->shards[0].runner);
        }
}

void dispatcher_control(struct dispatcher *dispatcher)
{
        if (!dispatcher_is_serving(dispatcher))
                return;
        if (dispatcher->agreement_state == AGREEMENT_LATER)
                set_agreement(dispatcher, AGREEMENT_NEEDED);
        if (dispatcher->fanout != NULL)
                fanout_control(dispatcher->fanout);
        if (dispatcher->reading != NULL)
                reading_ring_parked(dispatcher->reading);
        else
                runner_ring_parked(dispatcher->shards[0].runner);
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
        if (dispatcher->set->sharing_events != NULL)
                dispatcher->set->sharing_events->on_end(dispatcher->set->sharing, dispatcher);
        enter(dispatcher, DISPATCHER_RETIRING);
        for (unsigned i = 0; i < dispatcher->n_shards; i++)
                shard_serve(&dispatcher->shards[i], false);
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
        dispatcher->drain_ms = relay->drain_ms;
}

bool dispatcher_is_owned(const struct dispatcher *dispatcher)
{
        return dispatcher_is_serving(dispatcher) && shards_count_owned(dispatcher) > 0;
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
            (dispatcher->fanout != NULL && !fanout_is_caught_up(dispatcher->fanout)) ||
            (dispatcher->reading != NULL && reading_is_looking(dispatcher->reading)))
                return false;
        list_for_each (link, &dispatcher->runners)
                if (!runner_is_caught_up(runner_of(link), now_ms))
                        return false;
        return true;
}

/* Nothing is under way, and the database owes it no answer. */
static bool is_idle(const struct dispatcher *dispatcher)
{
        if (!has_no_shard(dispatcher) || dispatcher->agreement_state == AGREEMENT_ASKING)
                return false;
        list_for_each (link, &dispatcher->runners)
                if (!runner_is_idle(runner_of(link)))
                        return false;
        return (dispatcher->fanout == NULL || fanout_is_idle(dispatcher->fanout)) &&
               (dispatcher->reading == NULL || reading_is_idle(dispatcher->reading));
}

bool dispatcher_succeed(struct dispatcher *older, struct dispatcher *newer)
{
        if (older->state != DISPATCHER_RETIRING || older->n_shards == 1 ||
            older->n_shards != newer->n_shards ||
            (older->fanout == NULL) != (newer->fanout == NULL))
                return false;
        newer->older = older;
        older->newer = newer;
        return true;
}

static void serve_shards(struct dispatcher *dispatcher, bool may_own)
{
        const struct dispatcher *older = dispatcher->older;

        if (dispatcher->fanout != NULL)
                fanout_serve(dispatcher->fanout);
        if (dispatcher->reading != NULL)
                reading_serve(dispatcher->reading, dispatcher_now_ms());
        for (unsigned i = 0; i < dispatcher->n_shards; i++)
                shard_serve(&dispatcher->shards[i],
                    may_own && (older == NULL || older->shards[i].state == SHARD_UNOWNED));
}

/* A relay that shares with no other wants all shards. */
static void begin(struct dispatcher *dispatcher)
{
        const struct sink_set *set = dispatcher->set;

        for (unsigned i = 0; i < dispatcher->n_shards; i++)
                dispatcher->shards[i].is_wanted = set->sharing_events == NULL;
        if (set->sharing_events != NULL)
                set->sharing_events->on_begin(set->sharing, dispatcher);
}

void dispatcher_serve(struct dispatcher *dispatcher, bool may_begin)
{
        switch (dispatcher->state) {
        case DISPATCHER_WAITING:
                if (!may_begin)
                        return;
                enter(dispatcher, DISPATCHER_SERVING);
                begin(dispatcher);
                dispatcher_ring(dispatcher);
                return;
        case DISPATCHER_SERVING:
                serve_agreement(dispatcher);
                serve_shards(dispatcher, dispatcher->set->is_session_up &&
                                             dispatcher->agreement_state == AGREEMENT_REACHED);
                return;
        case DISPATCHER_RETIRING:
                serve_shards(dispatcher, false);
                if (!dispatcher->set->is_ending && is_idle(dispatcher))
                        enter(dispatcher, DISPATCHER_CLOSING);
                return;
        case DISPATCHER_CLOSING:
                return;
        }
}
