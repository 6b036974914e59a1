/* A runner's life: its lane is taken, asked what it wants, lost and taken again. What becomes of its
 * attempts is in runner_attempts.c. */
#include "delivery/runner.h"

#include "base/alloc.h"
#include "base/backoff.h"
#include "base/clock.h"
#include "base/crash_point.h"
#include "delivery/delivery_log.h"
#include "delivery/fanout.h"
#include "delivery/runner_internal.h"
#include "log/log.h"
#include "loop/timer.h"
#include "outbox/endpoint.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

void runner_mark_dirty(struct runner *runner)
{
        struct dispatcher *dispatcher = runner->dispatcher;

        if (list_is_empty(&runner->dirty_link))
                list_push_back(&dispatcher->dirty, &runner->dirty_link);
        dispatcher->events.on_dirty(dispatcher->owner);
}

static void on_due(void *owner)
{
        runner_mark_dirty(owner);
}

static void on_owned(void *owner, const struct cursor *cursor, const struct parked_keys *parked)
{
        struct runner *runner = owner;
        const struct dispatcher *dispatcher = runner->dispatcher;

        runner->is_claiming = false;
        runner->n_delivered = 0;
        lane_own(&runner->lane, cursor, parked);
        if (runner->endpoint == NULL)
                dispatcher_note_owned(runner->dispatcher);
        else
                page_cache_ring(fanout_page_cache(dispatcher->fanout));
        log_info("lane_owned", kv_text("sink", runner->label),
            kv_text("snapshot", cursor->from->snapshot), kv_int("parked", parked->n_rows));
        if (dispatcher->sink->remembers)
                dispatcher->sink->ops->owned(dispatcher->sink, lane_store_epoch(runner->store));
        if (dispatcher->is_draining)
                lane_drain(&runner->lane);
        runner_mark_dirty(runner);
}

static void on_owned_elsewhere(void *owner)
{
        struct runner *runner = owner;

        dispatcher_note_owned_elsewhere(runner->dispatcher);
}

static void read_page(struct runner *runner, struct page_request *request)
{
        struct dispatcher *dispatcher = runner->dispatcher;

        request->routings = &dispatcher->only_routing;
        request->n_routings = 1;
        if (dispatcher->fanout != NULL)
                page_cache_ask(fanout_page_cache(dispatcher->fanout), &runner->ask, request);
        else
                lane_store_read(runner->store, request);
}

/* The database reads the next page while the sink is handed this one. */
static void read_on(struct runner *runner)
{
        struct page_request page;

        if (runner->n_failed_pages > 0 && dispatcher_now_ms() < runner->read_again_ms)
                return;
        if (lane_wants_page(&runner->lane, &page))
                read_page(runner, &page);
}

static void on_page_end(void *owner, const struct page *page)
{
        struct runner *runner = owner;

        telemetry_see_poll(runner->dispatcher->seen->telemetry, page->arrived_us - page->asked_us);
        if (runner_has_filter(runner))
                return; /* where it ends depends on what the filter does */
        lane_see_page(&runner->lane, page);
        read_on(runner);
}

static void on_page(void *owner, struct page *page)
{
        struct runner *runner = owner;

        runner->n_failed_pages = 0;
        runner_sift(runner, page, false);
}

/* The lane stands aside for a while, and all others go on. */
static void on_page_failed(void *owner, const struct error *error)
{
        static const struct backoff backoff = {.first_ms = 500, .factor = 2, .max_ms = 60000};
        struct runner *runner = owner;
        int64_t retry_ms = backoff_ms(&backoff, ++runner->n_failed_pages, random_u32());

        lane_fail_page(&runner->lane);
        runner->read_again_ms = dispatcher_now_ms() + retry_ms;
        log_warn("page_failed", kv_text("sink", runner->label), kv_text("error", error->text),
            kv_int("retry_ms", retry_ms));
        runner_mark_dirty(runner);
}

static void on_parked(void *owner, struct parked_batch *batch)
{
        struct runner *runner = owner;

        crash_point("after_claim_parked");
        lane_take_parked(&runner->lane, batch, dispatcher_now_ms());
        runner_mark_dirty(runner);
}

static void on_missing(void *owner, uint64_t n_verdicts)
{
        const struct runner *runner = owner;

        log_warn("rows_missing", kv_text("sink", runner->label), kv_int("rows", n_verdicts),
            kv_text("hint", "rows of courier.outbox or courier.parked were removed by hand"));
}

static void on_xid(void *owner, uint64_t xid)
{
        struct runner *runner = owner;

        lane_take_xid(&runner->lane, xid);
        runner_mark_dirty(runner);
}

static void on_settled(void *owner)
{
        struct runner *runner = owner;

        crash_point("after_settled");
        if (!list_is_empty(&runner->lane.settling))
                crash_point("after_park");
        lane_settled(&runner->lane, dispatcher_now_ms());
        runner_tell_settled(runner, clock_monotonic_us());
        runner_mark_dirty(runner);
}

static void on_released(void *owner)
{
        struct runner *runner = owner;

        dispatcher_note_released(runner->dispatcher);
}

static void on_settings(void *owner, const char *theirs)
{
        struct runner *runner = owner;

        dispatcher_note_settings(runner->dispatcher, theirs);
}

const struct lane_store_events runner_store_events = {
    .on_owned = on_owned,
    .on_owned_elsewhere = on_owned_elsewhere,
    .on_settings = on_settings,
    .on_page_end = on_page_end,
    .on_page = on_page,
    .on_page_failed = on_page_failed,
    .on_parked = on_parked,
    .on_missing = on_missing,
    .on_xid = on_xid,
    .on_settled = on_settled,
    .on_released = on_released,
};

static struct runner *runner_of_ask(struct page_waiter *ask)
{
        return list_owner(ask, struct runner, ask);
}

static void on_view(struct page_waiter *ask, struct page *view, bool is_old)
{
        struct runner *runner = runner_of_ask(ask);

        runner->n_failed_pages = 0;
        runner_sift(runner, view, is_old);
}

static void on_view_failed(struct page_waiter *ask, const struct error *error)
{
        on_page_failed(runner_of_ask(ask), error);
}

static bool takes(void *ask, const struct page *page, size_t i)
{
        const struct runner *runner = runner_of_ask(ask);
        const struct routing *of_sink = &runner->dispatcher->routing;
        const struct routing *of_receiver = &runner->endpoint->routing;

        return routing_matches(of_receiver, &page->events[i]) &&
               routing_matches(of_sink, &page->events[i]);
}

const struct page_cache_events runner_page_cache_events = {
    .on_view = on_view, .on_failed = on_view_failed, .takes = takes};

void runner_claim(struct runner *runner)
{
        const struct dispatcher *dispatcher = runner->dispatcher;

        if (runner->endpoint == NULL || !dispatcher->is_owned || dispatcher->is_draining ||
            runner->is_claiming || runner->is_leaving || runner->lane.state != LANE_UNOWNED)
                return;
        runner->is_claiming = true;
        lane_store_claim(runner->store);
}

static void settle(struct runner *runner, const struct settlement *settlement)
{
        struct dispatcher *dispatcher = runner->dispatcher;

        runner_complete_verdicts(runner, settlement->verdicts);
        runner_note_settling(runner, settlement->verdicts);
        crash_point("before_settle");
        lane_store_settle(runner->store, settlement);
        if (dispatcher->fanout != NULL)
                fanout_note_settling(dispatcher->fanout);
        crash_point("after_settle_sent");
}

static void ask_outbox(struct runner *runner, int64_t now_ms)
{
        struct lane *lane = &runner->lane;
        struct parked_request parked;
        struct settlement settlement;

        if (lane_wants_xid(lane))
                lane_store_draw_xid(runner->store);
        if (lane_wants_parked(lane, now_ms, &parked))
                lane_store_read_parked(runner->store, &parked);
        if (lane_wants_settle(lane, now_ms, &settlement))
                settle(runner, &settlement);
}

static void arm(struct runner *runner, int64_t now_ms)
{
        /* For whoever waits for another's attempt to end, time changes nothing. */
        int64_t due_ms = list_is_empty(&runner->starved_link)
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
        if (runner->is_leaving && runner_is_idle(runner)) {
                fanout_drop_idle_runner(runner->dispatcher->fanout, runner);
                return;
        }
        runner_claim(runner);
        read_on(runner);
        runner_start_deliveries(runner, now_ms);
        ask_outbox(runner, now_ms);
        arm(runner, now_ms);
}

void runner_ring(struct runner *runner)
{
        lane_ring(&runner->lane);
        runner_mark_dirty(runner);
}

void runner_ring_parked(struct runner *runner)
{
        lane_ring_parked(&runner->lane);
        runner_mark_dirty(runner);
}

void runner_session_down(struct runner *runner)
{
        runner->is_claiming = false;
        runner->n_failed_pages = 0;
        runner_forget_sifting(runner);
        runner_forget_delivered(runner);
        lane_lose(&runner->lane);
        runner_mark_dirty(runner);
}

void runner_drain(struct runner *runner)
{
        runner_stop_sifting(runner);
        lane_drain(&runner->lane);
        runner_mark_dirty(runner);
}

void runner_update_pause(struct runner *runner)
{
        const struct endpoint *endpoint = runner->endpoint;
        bool is_paused =
            runner->dispatcher->is_paused_by_operator ||
            dispatcher_is_filter_given_up(runner->dispatcher) ||
            (endpoint != NULL &&
                (endpoint->state != ENDPOINT_ACTIVE || runner->is_leaving ||
                    list_is_empty(&runner->targets) || runner->health.state == HEALTH_GIVEN_UP));

        if (runner->is_leaving)
                runner_stop_sifting(runner);
        if (is_paused)
                lane_pause(&runner->lane);
        else
                lane_resume(&runner->lane);
        runner_mark_dirty(runner);
}

bool runner_is_idle(const struct runner *runner)
{
        const struct lane *lane = &runner->lane;

        return !runner->is_claiming && lane->n_in_flight == 0 && !lane->is_reading &&
               !lane->is_reading_parked && !lane->is_drawing && !lane->is_settling;
}

/* The receiver's filter is another one, or is given another chance. */
static void renew_filter(struct runner *runner)
{
        runner_close_filter(runner);
        runner_open_filter(runner);
}

static bool filters_are_equal(const struct endpoint *a, const struct endpoint *b)
{
        const char *of_a = a->routing.filter, *of_b = b->routing.filter;

        return of_a == NULL || of_b == NULL ? of_a == of_b : strcmp(of_a, of_b) == 0;
}

void runner_update(struct runner *runner, const struct endpoint *endpoint)
{
        struct endpoint *before = runner->endpoint;

        /* It may have been resumed since, or the session was lost that was to disable it. */
        if (endpoint->state == ENDPOINT_ACTIVE &&
            (before->state != ENDPOINT_ACTIVE || runner->health.state == HEALTH_GIVEN_UP)) {
                health_init(&runner->health, endpoint->failing_for_ms, dispatcher_now_ms());
                renew_filter(runner);
                runner_update_pause(runner);
        }
        if (before->version == endpoint->version)
                return;
        runner->endpoint = endpoint_ref(endpoint);
        if (!filters_are_equal(before, endpoint))
                renew_filter(runner);
        if (before->concurrency != endpoint->concurrency ||
            before->rate_per_s != endpoint->rate_per_s ||
            before->rate_burst != endpoint->rate_burst) {
                struct lane_policy policy = runner_policy(runner->dispatcher, endpoint);
                lane_set_policy(&runner->lane, &policy);
        }
        if (strcmp(before->name, endpoint->name) != 0)
                runner_set_label(runner);
        if (list_is_empty(&runner->targets) || !targets_are_alike(before, endpoint))
                runner_open_target(runner);
        endpoint_unref(before);
        runner_update_pause(runner);
        lane_probe_now(&runner->lane, dispatcher_now_ms());
}

void runner_set_label(struct runner *runner)
{
        const char *sink = runner->dispatcher->config->name;

        free(runner->label);
        runner->label = runner->endpoint != NULL ? xasprintf("%s/%s", sink, runner->endpoint->name)
                                                 : xstrdup(sink);
}

static struct lane_store *create_store(struct runner *runner)
{
        const struct dispatcher *dispatcher = runner->dispatcher;
        const struct sink_config *config = dispatcher->config;
        const struct endpoint *endpoint = runner->endpoint;
        struct lane_store_settings settings = {.sink = config->name,
            .lane = runner->lane_number,
            .filter = endpoint == NULL ? config->filter : NULL,
            .settings = endpoint == NULL ? dispatcher->settings : NULL,
            .is_covered = endpoint != NULL,
            .is_durable = dispatcher->sink->remembers,
            .start = config->start};

        if (endpoint != NULL) {
                settings.start = START_BEGINNING;
                settings.start_snapshot = runner->endpoint->start_snapshot;
                settings.start_floor = runner->endpoint->start_floor;
        }
        return lane_store_create(dispatcher->outbox, &settings, &runner_store_events, runner);
}

struct runner *runner_create(struct dispatcher *dispatcher, const struct endpoint *endpoint)
{
        struct runner *runner = xcalloc(1, sizeof *runner);
        struct lane_policy policy = runner_policy(dispatcher, endpoint);

        runner->dispatcher = dispatcher;
        list_init(&runner->link);
        list_init(&runner->dirty_link);
        list_init(&runner->starved_link);
        list_init(&runner->targets);
        page_waiter_init(&runner->ask);
        runner_init_sift(runner);
        if (endpoint != NULL) {
                runner->endpoint = endpoint_ref(endpoint);
                runner->lane_number = endpoint->id;
                health_init(&runner->health, endpoint->failing_for_ms, dispatcher_now_ms());
        }
        runner_set_label(runner);
        runner->store = create_store(runner);
        runner->due = timer_create_on(dispatcher->loop, on_due, runner);
        lane_init(&runner->lane, &policy);
        list_push_back(&dispatcher->runners, &runner->link);
        runner_open_filter(runner);
        if (endpoint != NULL)
                runner_open_target(runner);
        runner_update_pause(runner);
        return runner;
}

void runner_destroy(struct runner *runner)
{
        assert(runner->lane.n_in_flight == 0 && !page_waiter_is_under_way(&runner->ask));
        list_remove(&runner->link);
        list_remove(&runner->dirty_link);
        list_remove(&runner->starved_link);
        runner_close_targets(runner);
        runner_forget_sifting(runner);
        filter_close(runner->filter);
        timer_destroy(runner->due);
        lane_deinit(&runner->lane);
        lane_store_destroy(runner->store);
        endpoint_unref(runner->endpoint);
        free(runner->delivered);
        free(runner->settling);
        free(runner->label);
        free(runner);
}
