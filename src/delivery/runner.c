#include "delivery/runner.h"

#include "base/alloc.h"
#include "base/backoff.h"
#include "base/crash_point.h"
#include "base/hash.h"
#include "delivery/attempt_report.h"
#include "delivery/attempts.h"
#include "delivery/shard.h"
#include "log/log.h"
#include "loop/timer.h"
#include "sinks/sink_contract.h"
#include "telemetry/pace.h"
#include "telemetry/telemetry.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* Progress is written so soon, with that of the other sinks. */
#define SETTLE_MS 20

static uint64_t hash_target(const void *owner, const struct event *event)
{
        const struct sink *sink = owner;
        char target[sizeof((struct verdict *)NULL)->target];
        const char *domain;

        sink->ops->describe_target(sink, event, NULL, target, sizeof target);
        domain = strrchr(target, '@');
        return hash_text(sink->has_addresses && domain != NULL ? domain : target);
}

struct lane_policy runner_policy(const struct dispatcher *dispatcher)
{
        const struct sink_config *config = dispatcher->config;
        const struct sink *sink = dispatcher->sink;

        return (struct lane_policy){.by_key = config->order == ORDER_KEY,
            .sink_keeps_order = sink->ops->keeps_order,
            .max_concurrent = sink->max_concurrent,
            .max_in_flight = config->max_in_flight,
            .max_in_flight_bytes = config->max_in_flight_bytes,
            .max_event_bytes = config->max_event_bytes,
            .max_parked = config->max_parked,
            .park_after_ms = config->park_after_ms,
            .rate_per_s = config->rate.per_second,
            .rate_burst = config->rate.burst,
            .settle_delay_ms = SETTLE_MS / 2,
            .settle_idle_ms = 1000,
            .settle_step_ms = SETTLE_MS,
            .retry = {.backoff = {.first_ms = config->retry.first_ms,
                          .factor = config->retry.factor,
                          .max_ms = config->retry.max_ms},
                .delays_ms = config->retry.delays_ms,
                .n_delays = config->retry.n_delays,
                .max_attempts = config->retry.attempts,
                .max_age_ms = config->retry.max_age_ms},
            .hash_target = sink->has_targets ? hash_target : NULL,
            .owner = sink};
}

static void on_due(void *owner)
{
        runner_wake(owner);
}

struct runner *runner_create(
    struct shard *shard, const struct runner_ops *ops, const struct lane_policy *policy)
{
        struct dispatcher *dispatcher = shard->dispatcher;
        struct runner *runner = xcalloc(1, sizeof *runner);

        runner->dispatcher = dispatcher;
        runner->shard = shard;
        runner->ops = ops;
        list_init(&runner->work_link);
        list_init(&runner->line_link);
        list_init(&runner->targets);
        page_waiter_init(&runner->waiter);
        page_filter_init(runner);
        runner->due = timer_create_on(dispatcher->set->loop, on_due, runner);
        lane_init(&runner->lane, policy);
        list_push_back(&dispatcher->runners, &runner->link);
        return runner;
}

void runner_destroy(struct runner *runner)
{
        assert(runner->lane.n_in_flight == 0 && !page_waiter_is_under_way(&runner->waiter));
        list_remove(&runner->link);
        list_remove(&runner->work_link);
        starts_leave(runner);
        attempts_close_targets(runner);
        page_filter_forget(runner);
        filter_close(runner->filter);
        timer_destroy(runner->due);
        lane_deinit(&runner->lane);
        lane_store_destroy(runner->store);
        receiver_unref(runner->receiver);
        pace_destroy(runner->pace);
        free(runner->delivered);
        free(runner->settling);
        free(runner->label);
        free(runner);
}

void runner_own(void *owner, const struct cursor *cursor, const struct parked_keys *parked)
{
        struct runner *runner = owner;
        struct sink *sink = runner->dispatcher->sink;

        runner->is_claiming = false;
        runner->n_delivered = 0;
        lane_own(&runner->lane, cursor, parked);
        log_info("lane_owned", kv_text("sink", runner->label),
            kv_text("snapshot", cursor->from->snapshot), kv_int("parked", parked->n_rows));
        if (sink->remembers)
                sink->ops->owned(sink, lane_store_epoch(runner->store));
        if (runner->shard->state != SHARD_OWNED)
                lane_drain(&runner->lane);
        runner_wake(runner);
}

/* The database reads the next page while the sink is handed this one. */
static void read_on(struct runner *runner)
{
        struct page_request page;

        if (runner->n_failed_pages > 0 && dispatcher_now_ms() < runner->read_again_ms)
                return;
        if (lane_wants_page(&runner->lane, &page))
                runner->ops->read(runner, &page);
}

void runner_note_page_end(void *owner, const struct page *page)
{
        struct runner *runner = owner;

        telemetry_see_poll(runner->dispatcher->seen->telemetry, page->arrived_us - page->asked_us);
        if (page_filter_is_needed(runner))
                return; /* where the page ends depends on the filter's answers */
        lane_see_page(&runner->lane, page);
        read_on(runner);
}

void runner_take_page(struct runner *runner, struct page *page, bool is_old)
{
        runner->n_failed_pages = 0;
        page_filter_start(runner, page, is_old);
}

/* This lane waits for a while; all others go on. */
void runner_fail_page(void *owner, const struct error *error)
{
        static const struct backoff backoff = {.first_ms = 500, .factor = 2, .max_ms = 60000};
        struct runner *runner = owner;
        int64_t retry_ms = backoff_ms(&backoff, ++runner->n_failed_pages, random_u32());

        lane_fail_page(&runner->lane);
        runner->read_again_ms = dispatcher_now_ms() + retry_ms;
        log_warn("page_failed", kv_text("sink", runner->label), kv_text("error", error->text),
            kv_int("retry_ms", retry_ms));
        runner_wake(runner);
}

void runner_take_parked(void *owner, struct parked_batch *batch)
{
        struct runner *runner = owner;

        crash_point("after_claim_parked");
        lane_take_parked(&runner->lane, batch, dispatcher_now_ms());
        runner_wake(runner);
}

void runner_note_missing(void *owner, uint64_t n_verdicts)
{
        const struct runner *runner = owner;

        log_warn("rows_missing", kv_text("sink", runner->label), kv_int("rows", n_verdicts),
            kv_text("hint", "rows of courier.outbox or courier.parked were removed by hand"));
}

void runner_note_settled(void *owner, enum cursor_room room)
{
        struct runner *runner = owner;

        crash_point("after_settled");
        if (!list_is_empty(&runner->lane.settler.sent))
                crash_point("after_park");
        lane_settled(&runner->lane, room, dispatcher_now_ms());
        runner->dispatcher->set->work->has_settled = true;
        attempt_report_settled(runner, clock_monotonic_us());
        runner_wake(runner);
}

/* For people: it becomes durable with the cursor. */
static void note_pace(struct runner *runner)
{
        struct pace_figures figures;

        if (runner->pace == NULL)
                return;
        figures = pace_figures(runner->pace, clock_monotonic_us());
        lane_store_note_pace(
            runner->store, &(struct lane_pace){.delivered_us = runner->delivered_us,
                               .rate = figures.rate,
                               .p50_us = figures.p50_us,
                               .p99_us = figures.p99_us});
}

static void settle(struct runner *runner, const struct settlement *settlement)
{
        attempts_complete_verdicts(runner, settlement->verdicts);
        attempt_note_settling(runner, settlement->verdicts);
        crash_point("before_settle");
        note_pace(runner);
        lane_store_settle(runner->store, settlement);
        runner->shard->has_settled = true;
        crash_point("after_settle_sent");
}

static void ask_outbox(struct runner *runner, int64_t now_ms)
{
        struct lane *lane = &runner->lane;
        struct parked_request parked;
        struct settlement settlement;

        if (lane_wants_parked(lane, now_ms, &parked))
                lane_store_read_parked(runner->store, &parked);
        if (lane_wants_settle(lane, now_ms, &settlement))
                settle(runner, &settlement);
}

static void arm(struct runner *runner, int64_t now_ms)
{
        /* A lane that is in line for an attempt is called, and not woken by time. */
        int64_t due_ms = list_is_empty(&runner->line_link)
                             ? lane_next_due(&runner->lane)
                             : lane_next_due_without_starts(&runner->lane);

        if (runner->n_failed_pages > 0 && runner->read_again_ms > now_ms &&
            (due_ms < 0 || due_ms > runner->read_again_ms))
                due_ms = runner->read_again_ms;
        if (due_ms < 0)
                timer_disarm(runner->due);
        else
                timer_arm(runner->due, due_ms > now_ms ? (uint64_t)(due_ms - now_ms) : 0);
}

void runner_pump(struct runner *runner, int64_t now_ms)
{
        read_on(runner);
        attempts_start(runner, now_ms);
        ask_outbox(runner, now_ms);
        arm(runner, now_ms);
}

void runner_ring_parked(struct runner *runner)
{
        lane_ring_parked(&runner->lane);
        runner_wake(runner);
}

void runner_note_parked_due(struct runner *runner, int64_t due_ms)
{
        if (lane_note_parked_due(&runner->lane, due_ms))
                runner_wake(runner);
}

void runner_session_down(struct runner *runner)
{
        runner->is_claiming = false;
        runner->n_failed_pages = 0;
        page_filter_forget(runner);
        attempt_forget_delivered(runner);
        lane_lose(&runner->lane);
        runner_wake(runner);
}

void runner_stop_reading(struct runner *runner)
{
        if (runner->dispatcher->page_cache != NULL)
                page_cache_call_off(runner->dispatcher->page_cache, &runner->waiter);
        page_filter_stop(runner);
}

void runner_drain(struct runner *runner)
{
        runner_stop_reading(runner);
        lane_drain(&runner->lane);
        runner_wake(runner);
}

void runner_leave(struct runner *runner)
{
        lane_lose(&runner->lane);
        runner->is_leaving = runner->receiver != NULL;
        runner_wake(runner);
}

void runner_update_pause(struct runner *runner)
{
        const struct dispatcher *dispatcher = runner->dispatcher;

        if (runner->is_stopped || dispatcher->is_paused_by_operator ||
            dispatcher->filter_reason[0] != '\0')
                lane_pause(&runner->lane);
        else
                lane_resume(&runner->lane);
        runner_wake(runner);
}

bool runner_is_caught_up(const struct runner *runner, int64_t now_ms)
{
        const struct page_cache *page_cache = runner->dispatcher->page_cache;
        bool waits_at_end = page_cache != NULL && page_cache_is_at_end(page_cache, &runner->waiter);

        return lane_is_caught_up(&runner->lane, waits_at_end, now_ms);
}

bool runner_is_idle(const struct runner *runner)
{
        return !runner->is_claiming && runner->lane.n_in_flight == 0 &&
               !lane_is_asking(&runner->lane);
}
