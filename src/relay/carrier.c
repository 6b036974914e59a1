#include "relay/carrier.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/random.h"
#include "loop/timer.h"
#include "relay/lane.h"
#include "sinks/registry.h"
#include "sinks/sink.h"

#include <assert.h>
#include <stdlib.h>

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

static void on_owned(void *owner, const struct cursor *cursor)
{
        struct carrier *carrier = owner;

        carrier->is_claiming = false;
        carrier->is_standby = false;
        lane_own(&carrier->lane, cursor);
        log_info("lane_owned", kv_text("sink", carrier->config->name),
            kv_text("snapshot", cursor->from->snapshot));
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

        lane_take_page(&carrier->lane, page, now_ms());
        mark_dirty(carrier);
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

        lane_settled(&carrier->lane);
        mark_dirty(carrier);
}

static const struct lane_store_events store_events = {
    .on_owned = on_owned,
    .on_owned_elsewhere = on_owned_elsewhere,
    .on_page = on_page,
    .on_xid = on_xid,
    .on_settled = on_settled,
};

static void log_attempt(const struct carrier *carrier, const struct attempt *attempt,
    const struct outcome *outcome, int64_t retry_ms)
{
        const struct event *event = attempt->event;

        if (outcome->kind == OUTCOME_DELIVERED) {
                log_debug("delivered", kv_text("sink", carrier->config->name),
                    kv_int("id", event->id), kv_text("event_id", event->event_id),
                    kv_text("topic", event->topic), kv_int("attempt", attempt->number),
                    kv_ms("age_ms", (double)(clock_wall_us() - event->created_us) / 1000));
                return;
        }
        if (outcome->kind == OUTCOME_RETRY || outcome->kind == OUTCOME_REJECTED)
                log_warn("delivery_failed", kv_text("sink", carrier->config->name),
                    kv_int("id", event->id), kv_text("event_id", event->event_id),
                    kv_text("topic", event->topic), kv_int("attempt", attempt->number),
                    kv_text("outcome", outcome_name(outcome->kind)),
                    kv_text("reason", outcome->reason), kv_int("retry_ms", retry_ms));
}

/* An outage is told when it begins and when it ends, not at every probe. */
static void log_breaker(
    const struct carrier *carrier, bool was_closed, const struct outcome *outcome)
{
        bool is_closed = carrier->lane.breaker.state == BREAKER_CLOSED;

        if (was_closed && !is_closed)
                log_warn("sink_down", kv_text("sink", carrier->config->name),
                    kv_text("reason", outcome->reason));
        else if (!was_closed && is_closed)
                log_info("sink_up", kv_text("sink", carrier->config->name));
        else if (outcome->kind == OUTCOME_SINK_DOWN)
                log_debug("sink_still_down", kv_text("sink", carrier->config->name),
                    kv_text("reason", outcome->reason));
}

static void on_attempt_finished(struct attempt *attempt, const struct outcome *outcome)
{
        struct delivery *delivery = list_owner(attempt, struct delivery, attempt);
        struct carrier *carrier = attempt->owner;
        struct lane *lane = &carrier->lane;
        bool was_closed = lane->breaker.state == BREAKER_CLOSED;
        bool is_owned = lane->state == LANE_OWNED;
        const struct attempt finished = *attempt; /* its page may go with the lane's answer */
        int64_t retry_ms;

        if (outcome->kind == OUTCOME_DELIVERED && is_owned)
                log_attempt(carrier, attempt, outcome, 0);
        retry_ms = lane_finish(lane, delivery, outcome, now_ms(), random_u32());
        if (is_owned) {
                if (outcome->kind != OUTCOME_DELIVERED)
                        log_attempt(carrier, &finished, outcome, retry_ms);
                log_breaker(carrier, was_closed, outcome);
        }
        mark_dirty(carrier);
}

void carrier_pump(struct carrier *carrier)
{
        struct lane *lane = &carrier->lane;
        struct page_request request;
        struct delivery *delivery;
        struct cursor cursor;
        bool any = false;
        int64_t now = now_ms();
        int64_t due;

        claim(carrier);
        while ((delivery = lane_start_next(lane, now)) != NULL) {
                delivery->attempt.owner = carrier;
                delivery->attempt.on_finished = on_attempt_finished;
                sink_deliver(carrier->sink, &delivery->attempt);
                any = true;
        }
        if (any)
                sink_flush(carrier->sink);
        if (lane_wants_xid(lane))
                lane_store_draw_xid(carrier->store);
        if (lane_wants_page(lane, &request))
                lane_store_read(carrier->store, &request);
        if (lane_wants_settle(lane, now, &cursor))
                lane_store_settle(carrier->store, &cursor);

        due = lane_next_due(lane);
        if (due < 0)
                timer_disarm(carrier->due);
        else
                timer_arm(carrier->due, due > now ? (uint64_t)(due - now) : 0);
}

struct carrier *carrier_create(uv_loop_t *loop, const struct sink_config *config,
    const struct relay_config *relay, struct outbox *outbox, const struct carrier_events *events,
    void *owner, struct error *error)
{
        const struct sink_ops *ops = sink_kind_find(sink_config_kind(config));
        const struct sink_settings settings = {
            .name = config->name, .options = sink_config_options(config), .loop = loop};
        const struct lane_store_settings store_settings = {.sink = config->name,
            .topics = config->topics,
            .n_topics = config->n_topics,
            .start = config->start};
        struct sink *sink = ops->open(&settings, error);
        struct carrier *carrier;

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
        lane_init(&carrier->lane, &(struct lane_policy){.by_key = config->order == ORDER_KEY,
                                      .sink_keeps_order = ops->keeps_order,
                                      .max_concurrent = sink->max_concurrent,
                                      .max_in_flight = config->max_in_flight,
                                      .max_in_flight_bytes = config->max_in_flight_bytes,
                                      .retry = {.first_ms = config->retry.first_ms,
                                          .factor = config->retry.factor,
                                          .max_ms = config->retry.max_ms}});
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
        return lane_is_caught_up(&carrier->lane);
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
