/* A route's life: its lane is taken, asked what it wants, lost and taken again. What becomes of its
 * attempts is in route_attempts.c. */
#include "delivery/runner.h"

#include "base/alloc.h"
#include "base/backoff.h"
#include "base/clock.h"
#include "base/crash_point.h"
#include "base/random.h"
#include "delivery/delivery_log.h"
#include "delivery/fanout.h"
#include "delivery/runner_internal.h"
#include "log/log.h"
#include "loop/timer.h"
#include "outbox/endpoint.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

void route_mark_dirty(struct route *route)
{
        struct carrier *carrier = route->carrier;

        if (list_is_empty(&route->dirty_link))
                list_push_back(&carrier->dirty, &route->dirty_link);
        carrier->events.on_dirty(carrier->owner);
}

static void on_due(void *owner)
{
        route_mark_dirty(owner);
}

static void on_owned(void *owner, const struct cursor *cursor, const struct parked_keys *parked)
{
        struct route *route = owner;
        const struct carrier *carrier = route->carrier;

        route->is_claiming = false;
        route->n_delivered = 0;
        lane_own(&route->lane, cursor, parked);
        if (route->endpoint == NULL)
                carrier_note_owned(route->carrier);
        else
                page_desk_ring(fanout_desk(carrier->fanout));
        log_info("lane_owned", kv_text("sink", route->label),
            kv_text("snapshot", cursor->from->snapshot), kv_int("parked", parked->n_rows));
        if (carrier->sink->remembers)
                carrier->sink->ops->owned(carrier->sink, lane_store_epoch(route->store));
        if (carrier->is_draining)
                lane_drain(&route->lane);
        route_mark_dirty(route);
}

static void on_owned_elsewhere(void *owner)
{
        struct route *route = owner;

        carrier_note_owned_elsewhere(route->carrier);
}

static void read_page(struct route *route, struct page_request *request)
{
        struct carrier *carrier = route->carrier;

        request->routings = &carrier->only_routing;
        request->n_routings = 1;
        if (carrier->fanout != NULL)
                page_desk_ask(fanout_desk(carrier->fanout), &route->ask, request);
        else
                lane_store_read(route->store, request);
}

/* The database reads the next page while the sink is handed this one. */
static void read_on(struct route *route)
{
        struct page_request page;

        if (route->n_failed_pages > 0 && carrier_now_ms() < route->read_again_ms)
                return;
        if (lane_wants_page(&route->lane, &page))
                read_page(route, &page);
}

static void on_page_end(void *owner, const struct page *page)
{
        struct route *route = owner;

        telemetry_see_poll(route->carrier->seen->telemetry, page->arrived_us - page->asked_us);
        if (route_has_filter(route))
                return; /* where it ends depends on what the filter does */
        lane_see_page(&route->lane, page);
        read_on(route);
}

static void on_page(void *owner, struct page *page)
{
        struct route *route = owner;

        route->n_failed_pages = 0;
        route_sift(route, page, false);
}

/* The lane stands aside for a while, and all others go on. */
static void on_page_failed(void *owner, const struct error *error)
{
        static const struct backoff backoff = {.first_ms = 500, .factor = 2, .max_ms = 60000};
        struct route *route = owner;
        int64_t retry_ms = backoff_ms(&backoff, ++route->n_failed_pages, random_u32());

        lane_fail_page(&route->lane);
        route->read_again_ms = carrier_now_ms() + retry_ms;
        log_warn("page_failed", kv_text("sink", route->label), kv_text("error", error->text),
            kv_int("retry_ms", retry_ms));
        route_mark_dirty(route);
}

static void on_parked(void *owner, struct parked_batch *batch)
{
        struct route *route = owner;

        crash_point("after_claim_parked");
        lane_take_parked(&route->lane, batch, carrier_now_ms());
        route_mark_dirty(route);
}

static void on_missing(void *owner, uint64_t n_verdicts)
{
        const struct route *route = owner;

        log_warn("rows_missing", kv_text("sink", route->label), kv_int("rows", n_verdicts),
            kv_text("hint", "rows of courier.outbox or courier.parked were removed by hand"));
}

static void on_xid(void *owner, uint64_t xid)
{
        struct route *route = owner;

        lane_take_xid(&route->lane, xid);
        route_mark_dirty(route);
}

static void on_settled(void *owner)
{
        struct route *route = owner;

        crash_point("after_settled");
        if (!list_is_empty(&route->lane.settling))
                crash_point("after_park");
        lane_settled(&route->lane, carrier_now_ms());
        route_tell_settled(route, clock_monotonic_us());
        route_mark_dirty(route);
}

static void on_released(void *owner)
{
        struct route *route = owner;

        carrier_note_released(route->carrier);
}

static void on_settings(void *owner, const char *theirs)
{
        struct route *route = owner;

        carrier_note_settings(route->carrier, theirs);
}

const struct lane_store_events route_store_events = {
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

static struct route *route_of_ask(struct page_ask *ask)
{
        return list_owner(ask, struct route, ask);
}

static void on_view(struct page_ask *ask, struct page *view, bool is_old)
{
        struct route *route = route_of_ask(ask);

        route->n_failed_pages = 0;
        route_sift(route, view, is_old);
}

static void on_view_failed(struct page_ask *ask, const struct error *error)
{
        on_page_failed(route_of_ask(ask), error);
}

static bool takes(void *ask, const struct page *page, size_t i)
{
        const struct route *route = route_of_ask(ask);
        const struct routing *of_sink = &route->carrier->routing;
        const struct routing *of_receiver = &route->endpoint->routing;

        return routing_matches(of_receiver, &page->events[i]) &&
               routing_matches(of_sink, &page->events[i]);
}

const struct page_desk_events route_desk_events = {
    .on_view = on_view, .on_failed = on_view_failed, .takes = takes};

void route_claim(struct route *route)
{
        const struct carrier *carrier = route->carrier;

        if (route->endpoint == NULL || !carrier->is_owned || carrier->is_draining ||
            route->is_claiming || route->is_leaving || route->lane.state != LANE_UNOWNED)
                return;
        route->is_claiming = true;
        lane_store_claim(route->store);
}

static void settle(struct route *route, const struct settlement *settlement)
{
        struct carrier *carrier = route->carrier;

        route_complete_verdicts(route, settlement->verdicts);
        route_note_settling(route, settlement->verdicts);
        crash_point("before_settle");
        lane_store_settle(route->store, settlement);
        if (carrier->fanout != NULL)
                fanout_note_settling(carrier->fanout);
        crash_point("after_settle_sent");
}

static void ask_outbox(struct route *route, int64_t now_ms)
{
        struct lane *lane = &route->lane;
        struct parked_request parked;
        struct settlement settlement;

        if (lane_wants_xid(lane))
                lane_store_draw_xid(route->store);
        if (lane_wants_parked(lane, now_ms, &parked))
                lane_store_read_parked(route->store, &parked);
        if (lane_wants_settle(lane, now_ms, &settlement))
                settle(route, &settlement);
}

static void arm(struct route *route, int64_t now_ms)
{
        /* For whoever waits for another's attempt to end, time changes nothing. */
        int64_t due_ms = list_is_empty(&route->starved_link)
                             ? lane_next_due(&route->lane)
                             : lane_next_due_without_starts(&route->lane);

        if (route->n_failed_pages > 0 && route->read_again_ms > now_ms &&
            (due_ms < 0 || due_ms > route->read_again_ms))
                due_ms = route->read_again_ms;
        if (due_ms < 0)
                timer_disarm(route->due);
        else
                timer_arm(route->due, due_ms > now_ms ? (uint64_t)(due_ms - now_ms) : 0);
}

void route_pump(struct route *route, int64_t now_ms)
{
        if (route->is_leaving && route_is_idle(route)) {
                fanout_drop_idle_route(route->carrier->fanout, route);
                return;
        }
        route_claim(route);
        read_on(route);
        route_start_deliveries(route, now_ms);
        ask_outbox(route, now_ms);
        arm(route, now_ms);
}

void route_ring(struct route *route)
{
        lane_ring(&route->lane);
        route_mark_dirty(route);
}

void route_ring_parked(struct route *route)
{
        lane_ring_parked(&route->lane);
        route_mark_dirty(route);
}

void route_session_down(struct route *route)
{
        route->is_claiming = false;
        route->n_failed_pages = 0;
        route_forget_sifting(route);
        route_forget_delivered(route);
        lane_lose(&route->lane);
        route_mark_dirty(route);
}

void route_drain(struct route *route)
{
        route_stop_sifting(route);
        lane_drain(&route->lane);
        route_mark_dirty(route);
}

void route_update_pause(struct route *route)
{
        const struct endpoint *endpoint = route->endpoint;
        bool is_paused =
            route->carrier->is_paused_by_operator || carrier_is_filter_given_up(route->carrier) ||
            (endpoint != NULL &&
                (endpoint->state != ENDPOINT_ACTIVE || route->is_leaving ||
                    list_is_empty(&route->targets) || route->health.state == HEALTH_GIVEN_UP));

        if (route->is_leaving)
                route_stop_sifting(route);
        if (is_paused)
                lane_pause(&route->lane);
        else
                lane_resume(&route->lane);
        route_mark_dirty(route);
}

bool route_is_idle(const struct route *route)
{
        const struct lane *lane = &route->lane;

        return !route->is_claiming && lane->n_in_flight == 0 && !lane->is_reading &&
               !lane->is_reading_parked && !lane->is_drawing && !lane->is_settling;
}

/* The receiver's filter is another one, or is given another chance. */
static void renew_filter(struct route *route)
{
        route_close_filter(route);
        route_open_filter(route);
}

static bool filters_are_equal(const struct endpoint *a, const struct endpoint *b)
{
        const char *of_a = a->routing.filter, *of_b = b->routing.filter;

        return of_a == NULL || of_b == NULL ? of_a == of_b : strcmp(of_a, of_b) == 0;
}

void route_update(struct route *route, const struct endpoint *endpoint)
{
        struct endpoint *before = route->endpoint;

        /* It may have been resumed since, or the session was lost that was to disable it. */
        if (endpoint->state == ENDPOINT_ACTIVE &&
            (before->state != ENDPOINT_ACTIVE || route->health.state == HEALTH_GIVEN_UP)) {
                health_init(&route->health, endpoint->failing_for_ms, carrier_now_ms());
                renew_filter(route);
                route_update_pause(route);
        }
        if (before->version == endpoint->version)
                return;
        route->endpoint = endpoint_ref(endpoint);
        if (!filters_are_equal(before, endpoint))
                renew_filter(route);
        if (before->concurrency != endpoint->concurrency ||
            before->rate_per_s != endpoint->rate_per_s ||
            before->rate_burst != endpoint->rate_burst) {
                struct lane_policy policy = route_policy(route->carrier, endpoint);
                lane_set_policy(&route->lane, &policy);
        }
        if (strcmp(before->name, endpoint->name) != 0)
                route_set_label(route);
        if (list_is_empty(&route->targets) || !targets_are_alike(before, endpoint))
                route_open_target(route);
        endpoint_unref(before);
        route_update_pause(route);
        lane_probe_now(&route->lane, carrier_now_ms());
}

void route_set_label(struct route *route)
{
        const char *sink = route->carrier->config->name;

        free(route->label);
        route->label = route->endpoint != NULL ? xasprintf("%s/%s", sink, route->endpoint->name)
                                               : xstrdup(sink);
}

static struct lane_store *create_store(struct route *route)
{
        const struct carrier *carrier = route->carrier;
        const struct sink_config *config = carrier->config;
        const struct endpoint *endpoint = route->endpoint;
        struct lane_store_settings settings = {.sink = config->name,
            .lane = route->lane_number,
            .filter = endpoint == NULL ? config->filter : NULL,
            .settings = endpoint == NULL ? carrier->settings : NULL,
            .is_covered = endpoint != NULL,
            .is_durable = carrier->sink->remembers,
            .start = config->start};

        if (endpoint != NULL) {
                settings.start = START_BEGINNING;
                settings.start_snapshot = route->endpoint->start_snapshot;
                settings.start_floor = route->endpoint->start_floor;
        }
        return lane_store_create(carrier->outbox, &settings, &route_store_events, route);
}

struct route *route_create(struct carrier *carrier, const struct endpoint *endpoint)
{
        struct route *route = xcalloc(1, sizeof *route);
        struct lane_policy policy = route_policy(carrier, endpoint);

        route->carrier = carrier;
        list_init(&route->link);
        list_init(&route->dirty_link);
        list_init(&route->starved_link);
        list_init(&route->targets);
        page_ask_init(&route->ask);
        route_init_sift(route);
        if (endpoint != NULL) {
                route->endpoint = endpoint_ref(endpoint);
                route->lane_number = endpoint->id;
                health_init(&route->health, endpoint->failing_for_ms, carrier_now_ms());
        }
        route_set_label(route);
        route->store = create_store(route);
        route->due = timer_create_on(carrier->loop, on_due, route);
        lane_init(&route->lane, &policy);
        list_push_back(&carrier->routes, &route->link);
        route_open_filter(route);
        if (endpoint != NULL)
                route_open_target(route);
        route_update_pause(route);
        return route;
}

void route_destroy(struct route *route)
{
        assert(route->lane.n_in_flight == 0 && !page_ask_is_under_way(&route->ask));
        list_remove(&route->link);
        list_remove(&route->dirty_link);
        list_remove(&route->starved_link);
        route_close_targets(route);
        route_forget_sifting(route);
        sieve_filter_close(route->filter);
        timer_destroy(route->due);
        lane_deinit(&route->lane);
        lane_store_destroy(route->store);
        endpoint_unref(route->endpoint);
        free(route->delivered);
        free(route->settling);
        free(route->label);
        free(route);
}
