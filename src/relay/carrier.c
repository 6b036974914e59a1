#include "relay/carrier.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/crash_point.h"
#include "base/log.h"
#include "base/random.h"
#include "loop/timer.h"
#include "relay/lane.h"
#include "relay/report.h"
#include "sinks/registry.h"
#include "sinks/sink.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* relay owns carriers; a carrier owns its lane, its lane's store and its sink; the lane owns pages,
 * a page its events; a delivery borrows its event, and its attempt is lent to the sink. */
struct carrier {
        const struct sink_config *config; /* borrowed */
        struct carrier_events events;
        void *owner; /* borrowed */
        int64_t standby_ms;

        struct lane lane;
        struct lane_store *store; /* owned */
        struct sink *sink;        /* owned */
        struct timer *due;        /* the lane's next_due */
        struct timer *standby;    /* the next try for a lane that another relay owns */
        bool is_session_up;
        bool is_claiming;
        bool is_standby; /* so that it is logged once */

        /* Rows of courier.pause, as far as we know. */
        bool is_paused_by_operator;
        bool is_paused_by_relay;
};

static int64_t now_ms(void)
{
        return clock_monotonic_us() / 1000;
}

static void mark_dirty(void *owner)
{
        struct carrier *carrier = owner;

        carrier->events.on_dirty(carrier->owner);
}

static void claim(void *owner)
{
        struct carrier *carrier = owner;

        if (!carrier->is_session_up || carrier->is_claiming || carrier->lane.is_draining ||
            carrier->lane.state != LANE_UNOWNED || timer_is_armed(carrier->standby))
                return;
        carrier->is_claiming = true;
        lane_store_claim(carrier->store);
}

static void on_owned(void *owner, const struct cursor *cursor, const struct parked_keys *parked)
{
        struct carrier *carrier = owner;

        carrier->is_claiming = false;
        carrier->is_standby = false;
        lane_own(&carrier->lane, cursor, parked);
        log_info("lane_owned", kv_text("sink", carrier->config->name),
            kv_text("snapshot", cursor->from->snapshot), kv_int("parked", parked->n_rows));
        mark_dirty(carrier);
}

static void on_owned_elsewhere(void *owner)
{
        struct carrier *carrier = owner;

        carrier->is_claiming = false;
        if (!carrier->is_standby)
                log_info("lane_owned_elsewhere", kv_text("sink", carrier->config->name),
                    kv_int("retry_ms", carrier->standby_ms));
        carrier->is_standby = true;
        timer_arm(carrier->standby, (uint64_t)carrier->standby_ms);
        carrier->events.on_standby(carrier->owner);
}

static void on_page(void *owner, struct page *page)
{
        struct carrier *carrier = owner;

        crash_point("after_claim");
        lane_take_page(&carrier->lane, page, now_ms());
        mark_dirty(carrier);
}

static void on_parked(void *owner, struct parked_batch *batch)
{
        struct carrier *carrier = owner;

        crash_point("after_claim_parked");
        lane_take_parked(&carrier->lane, batch, now_ms());
        mark_dirty(carrier);
}

static void on_missing(void *owner, uint64_t n_verdicts)
{
        const struct carrier *carrier = owner;

        log_warn("rows_missing", kv_text("sink", carrier->config->name), kv_int("rows", n_verdicts),
            kv_text("hint", "rows of courier.outbox or courier.parked were removed by hand"));
}

static void on_xid(void *owner, uint64_t xid)
{
        struct carrier *carrier = owner;

        lane_take_xid(&carrier->lane, xid);
        mark_dirty(carrier);
}

static void on_settled(void *owner)
{
        struct carrier *carrier = owner;

        crash_point("after_settled");
        if (!list_is_empty(&carrier->lane.settling))
                crash_point("after_park");
        lane_settled(&carrier->lane, now_ms());
        mark_dirty(carrier);
}

static const struct lane_store_events store_events = {
    .on_owned = on_owned,
    .on_owned_elsewhere = on_owned_elsewhere,
    .on_page = on_page,
    .on_parked = on_parked,
    .on_missing = on_missing,
    .on_xid = on_xid,
    .on_settled = on_settled,
};

/* A destination that refuses us until somebody changes something is told where people look. */
static void show_pause(struct carrier *carrier, const char *reason)
{
        const struct breaker *breaker = &carrier->lane.breaker;

        if (breaker->state == BREAKER_CLOSED && carrier->is_paused_by_relay) {
                carrier->is_paused_by_relay = false;
                carrier->events.on_recovered(carrier->owner, carrier->config->name);
        } else if (breaker->state != BREAKER_CLOSED && breaker->needs_operator &&
                   !carrier->is_paused_by_relay) {
                carrier->is_paused_by_relay = true;
                log_error("sink_paused", kv_text("sink", carrier->config->name),
                    kv_text("by", "relay"), kv_text("reason", reason),
                    kv_text("hint", "mend it; it is tried now and then, and at once after "
                                    "`pgcourier resume`"));
                carrier->events.on_refused(carrier->owner, carrier->config->name, reason);
        }
}

static void on_attempt_finished(struct attempt *attempt, const struct outcome *outcome)
{
        struct delivery *delivery = list_owner(attempt, struct delivery, attempt);
        struct carrier *carrier = attempt->owner;
        struct lane *lane = &carrier->lane;
        bool was_closed = lane->breaker.state == BREAKER_CLOSED;
        bool is_owned = lane->state == LANE_OWNED;
        const struct attempt finished = *attempt; /* its batch may go with the lane's answer */
        struct lane_result result;

        if (outcome->kind == OUTCOME_DELIVERED && is_owned)
                report_delivered(carrier->config->name, attempt);
        result = lane_finish(lane, delivery, outcome, now_ms(), random_u32());
        if (is_owned) {
                if (result.decision == LANE_PARKED)
                        report_parked(carrier->config->name, &finished, outcome, result.retry_ms);
                report_breaker(carrier->config->name, was_closed,
                    lane->breaker.state == BREAKER_CLOSED, outcome);
                show_pause(carrier, outcome->reason);
        }
        mark_dirty(carrier);
}

/* What the lane leaves to us: where a dead letter was going. */
static void complete_verdicts(struct carrier *carrier, const struct list *verdicts)
{
        list_for_each (link, verdicts) {
                struct verdict *verdict = list_owner(link, struct verdict, link);
                if (verdict->kind != VERDICT_DEAD)
                        continue;
                if (carrier->sink->ops->describe_target != NULL)
                        carrier->sink->ops->describe_target(
                            carrier->sink, verdict->event, verdict->target, sizeof verdict->target);
                report_dead_letter(carrier->config->name, verdict);
        }
}

static void start_deliveries(struct carrier *carrier, int64_t now)
{
        struct delivery *delivery;
        bool any = false;

        while ((delivery = lane_start_next(&carrier->lane, now)) != NULL) {
                delivery->attempt.owner = carrier;
                delivery->attempt.on_finished = on_attempt_finished;
                crash_point("before_send");
                sink_deliver(carrier->sink, &delivery->attempt);
                any = true;
        }
        if (any) {
                sink_flush(carrier->sink);
                crash_point("after_send");
        }
}

static void ask_outbox(struct carrier *carrier, int64_t now)
{
        struct lane *lane = &carrier->lane;
        struct page_request page;
        struct parked_request parked;
        struct settlement settlement;

        if (lane_wants_xid(lane))
                lane_store_draw_xid(carrier->store);
        if (lane_wants_page(lane, &page))
                lane_store_read(carrier->store, &page);
        if (lane_wants_parked(lane, now, &parked))
                lane_store_read_parked(carrier->store, &parked);
        if (lane_wants_settle(lane, now, &settlement)) {
                complete_verdicts(carrier, settlement.verdicts);
                crash_point("before_settle");
                lane_store_settle(carrier->store, &settlement);
                crash_point("after_settle_sent");
        }
}

void carrier_pump(struct carrier *carrier)
{
        int64_t now = now_ms();
        int64_t due;

        claim(carrier);
        start_deliveries(carrier, now);
        ask_outbox(carrier, now);
        due = lane_next_due(&carrier->lane);
        if (due < 0)
                timer_disarm(carrier->due);
        else
                timer_arm(carrier->due, due > now ? (uint64_t)(due - now) : 0);
}

static struct lane_policy lane_policy(const struct sink_config *config, const struct sink *sink)
{
        return (struct lane_policy){.by_key = config->order == ORDER_KEY,
            .sink_keeps_order = sink->ops->keeps_order,
            .max_concurrent = sink->max_concurrent,
            .max_in_flight = config->max_in_flight,
            .max_in_flight_bytes = config->max_in_flight_bytes,
            .max_event_bytes = config->max_event_bytes,
            .max_parked = config->max_parked,
            .park_after_ms = config->park_after_ms,
            .retry = {.backoff = {.first_ms = config->retry.first_ms,
                          .factor = config->retry.factor,
                          .max_ms = config->retry.max_ms},
                .delays_ms = config->retry.delays_ms,
                .n_delays = config->retry.n_delays,
                .max_attempts = config->retry.attempts,
                .max_age_ms = config->retry.max_age_ms}};
}

struct carrier *carrier_create(uv_loop_t *loop, const struct sink_config *config,
    const struct relay_config *relay, struct outbox *outbox, const struct carrier_events *events,
    void *owner, struct error *error)
{
        const struct sink_ops *ops = sink_kind_find(sink_config_kind(config));
        const struct sink_settings settings = {.name = config->name,
            .options = sink_config_options(config),
            .loop = loop,
            .by_key = config->order == ORDER_KEY};
        const struct lane_store_settings store_settings = {.sink = config->name,
            .topics = config->topics,
            .n_topics = config->n_topics,
            .start = config->start};
        struct sink *sink = ops->open(&settings, error);
        struct carrier *carrier;
        struct lane_policy policy;

        if (sink == NULL)
                return NULL;
        carrier = xcalloc(1, sizeof *carrier);
        carrier->config = config;
        carrier->events = *events;
        carrier->owner = owner;
        carrier->standby_ms = relay->standby_ms;
        carrier->sink = sink;
        carrier->store = lane_store_create(outbox, &store_settings, &store_events, carrier);
        carrier->due = timer_create_on(loop, mark_dirty, carrier);
        carrier->standby = timer_create_on(loop, claim, carrier);
        policy = lane_policy(config, sink);
        lane_init(&carrier->lane, &policy);
        return carrier;
}

void carrier_session_up(struct carrier *carrier)
{
        carrier->is_session_up = true;
        mark_dirty(carrier);
}

void carrier_session_down(struct carrier *carrier)
{
        carrier->is_session_up = false;
        carrier->is_claiming = false;
        timer_disarm(carrier->standby);
        lane_lose(&carrier->lane);
        /* Nobody could settle what is in flight, and the lane starts anew only without it. */
        carrier_cancel(carrier);
        mark_dirty(carrier);
}

void carrier_ring(struct carrier *carrier)
{
        lane_ring(&carrier->lane);
        mark_dirty(carrier);
}

void carrier_ring_parked(struct carrier *carrier)
{
        lane_ring_parked(&carrier->lane);
        mark_dirty(carrier);
}

static void pause_by_operator(struct carrier *carrier, const struct pause *pause)
{
        if (carrier->is_paused_by_operator == (pause != NULL))
                return;
        carrier->is_paused_by_operator = pause != NULL;
        if (pause != NULL) {
                log_warn("sink_paused", kv_text("sink", carrier->config->name),
                    kv_text("by", "operator"), kv_text("reason", pause->reason));
                lane_pause(&carrier->lane);
        } else {
                log_info("sink_resumed", kv_text("sink", carrier->config->name));
                lane_resume(&carrier->lane);
        }
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
        if (carrier->is_paused_by_relay && !by_relay)
                lane_probe_now(&carrier->lane, now_ms()); /* somebody has resumed it */
        carrier->is_paused_by_relay = by_relay;
        mark_dirty(carrier);
}

void carrier_drain(struct carrier *carrier)
{
        timer_disarm(carrier->standby);
        lane_drain(&carrier->lane);
        mark_dirty(carrier);
}

void carrier_cancel(struct carrier *carrier)
{
        if (carrier->lane.n_in_flight > 0)
                sink_cancel(carrier->sink);
}

bool carrier_is_at_rest(const struct carrier *carrier)
{
        return lane_is_at_rest(&carrier->lane);
}

bool carrier_is_caught_up(const struct carrier *carrier)
{
        return lane_is_caught_up(&carrier->lane, now_ms());
}

static void on_sink_closed(void *owner)
{
        struct carrier *carrier = owner;
        const struct carrier_events events = carrier->events;
        void *carrier_owner = carrier->owner;

        free(carrier);
        events.on_closed(carrier_owner);
}

void carrier_close(struct carrier *carrier)
{
        assert(carrier->lane.n_in_flight == 0);
        timer_destroy(carrier->due);
        timer_destroy(carrier->standby);
        lane_deinit(&carrier->lane);
        lane_store_destroy(carrier->store);
        sink_close(carrier->sink, on_sink_closed, carrier);
}
