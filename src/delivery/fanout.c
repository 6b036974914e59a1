#include "delivery/fanout.h"

#include "base/alloc.h"
#include "delivery/runner.h"
#include "log/log.h"
#include "outbox/endpoint_table.h"
#include "telemetry/telemetry.h"

#include <stdlib.h>
#include <string.h>

struct fanout {
        struct carrier *carrier;         /* borrowed */
        struct endpoint_table *table;    /* owned */
        struct page_desk *desk;          /* owned */
        const struct routing **routings; /* owned; of all receivers */
        bool is_current;  /* who the receivers are is known since the lanes were taken */
        bool is_looking;  /* at what is parked and due */
        bool is_settling; /* a route does in this pump */
};

struct page_desk *fanout_desk(struct fanout *fanout)
{
        return fanout->desk;
}

int64_t fanout_disable_after_ms(const struct fanout *fanout)
{
        const struct sink_config *config = fanout->carrier->config;

        return config->http != NULL ? config->http->disable_after_ms
                                    : config->module->disable_after_ms;
}

static struct route *route_of_link(struct list *link)
{
        return list_owner(link, struct route, link);
}

/* What any of the receivers takes: read once for all of them. */
static void collect_routings(struct fanout *fanout)
{
        static const struct routing nothing;
        size_t n = 0;

        list_for_each (link, &fanout->carrier->routes)
                n++;
        free(fanout->routings);
        fanout->routings = xcalloc(n + 2, sizeof(const struct routing *));
        n = 0;
        list_for_each (route_link, &fanout->carrier->routes) {
                const struct route *route = route_of_link(route_link);
                if (!route->is_leaving)
                        fanout->routings[n++] = &route->endpoint->routing;
        }
        fanout->routings[n++] = &nothing; /* so that there are several, or none */
        page_desk_set_routings(fanout->desk, fanout->routings, n);
}

static void leave(struct route *route)
{
        if (route->is_leaving)
                return;
        log_info("endpoint_removed", kv_text("sink", route->label));
        route->is_leaving = true;
        route_update_pause(route);
}

/* `before`: the next route in order of id, or the list itself. */
static void join(struct fanout *fanout, const struct endpoint *endpoint, struct list *before)
{
        struct route *route = route_create(fanout->carrier, endpoint);

        list_remove(&route->link);
        list_insert_before(before, &route->link);
        log_debug("endpoint_added", kv_text("sink", route->label));
        route_mark_dirty(route);
}

static void update(struct route *route, const struct endpoint *endpoint)
{
        enum endpoint_state before = route->endpoint->state;

        route_update(route, endpoint);
        if (before == endpoint->state)
                return;
        if (endpoint->state == ENDPOINT_ACTIVE)
                log_info("endpoint_resumed", kv_text("sink", route->label));
        else
                log_warn(
                    endpoint->state == ENDPOINT_PAUSED ? "endpoint_paused" : "endpoint_disabled",
                    kv_text("sink", route->label),
                    kv_text(
                        "reason", endpoint->state_reason != NULL ? endpoint->state_reason : ""));
}

/* Both are in order of id. Whoever is new need not have the highest: its transaction may have taken
 * longer than that of the next. */
static void reconcile(struct fanout *fanout, const struct endpoint_list *list)
{
        struct carrier *carrier = fanout->carrier;
        size_t i = 0;

        list_for_each (link, &carrier->routes) {
                struct route *route = route_of_link(link);
                while (i < list->n_endpoints && list->endpoints[i]->id < route->lane_number)
                        join(fanout, list->endpoints[i++], link);
                if (i < list->n_endpoints && list->endpoints[i]->id == route->lane_number)
                        update(route, list->endpoints[i++]);
                else
                        leave(route);
        }
        while (i < list->n_endpoints)
                join(fanout, list->endpoints[i++], &carrier->routes);
        collect_routings(fanout);
}

static void on_endpoints(void *owner, const struct endpoint_list *list)
{
        struct fanout *fanout = owner;

        if (fanout->carrier->is_draining) {
                fanout->carrier->events.on_dirty(fanout->carrier->owner); /* it may be idle now */
                return;
        }
        if (list != NULL)
                reconcile(fanout, list);
        if (!fanout->is_current)
                log_info("endpoints_read", kv_text("sink", fanout->carrier->config->name),
                    kv_int("endpoints", list != NULL ? (int64_t)list->n_endpoints : 0));
        fanout->is_current = true;
        fanout->carrier->events.on_dirty(fanout->carrier->owner);
}

static void on_due(void *owner, const int32_t *lanes, size_t n_lanes)
{
        struct fanout *fanout = owner;
        size_t i = 0;

        fanout->is_looking = false;
        list_for_each (link, &fanout->carrier->routes) {
                struct route *route = route_of_link(link);
                while (i < n_lanes && lanes[i] < route->lane_number)
                        i++;
                if (i < n_lanes && lanes[i] == route->lane_number)
                        route_ring_parked(route);
        }
        fanout->carrier->events.on_dirty(fanout->carrier->owner);
}

static void on_owned(void *owner, const struct cursor *cursor, const struct parked_keys *parked)
{
        struct fanout *fanout = owner;

        (void)cursor;
        (void)parked;
        carrier_note_owned(fanout->carrier);
}

static void on_owned_elsewhere(void *owner)
{
        struct fanout *fanout = owner;

        carrier_note_owned_elsewhere(fanout->carrier);
}

static void on_settings(void *owner, const char *theirs)
{
        struct fanout *fanout = owner;

        carrier_note_settings(fanout->carrier, theirs);
}

static void on_page(void *owner, struct page *page)
{
        struct fanout *fanout = owner;

        telemetry_see_poll(fanout->carrier->seen->telemetry, page->arrived_us - page->asked_us);
        page_desk_take_page(fanout->desk, page);
        fanout->carrier->events.on_dirty(
            fanout->carrier->owner); /* the desk may have more to ask */
}

static void on_page_failed(void *owner, const struct error *error)
{
        struct fanout *fanout = owner;

        page_desk_fail_page(fanout->desk, error);
        fanout->carrier->events.on_dirty(fanout->carrier->owner);
}

static void on_xid(void *owner, uint64_t xid)
{
        struct fanout *fanout = owner;

        page_desk_take_xid(fanout->desk, xid);
        fanout->carrier->events.on_dirty(fanout->carrier->owner);
}

static void on_settled(void *owner)
{
        (void)owner;
}

static void on_released(void *owner)
{
        struct fanout *fanout = owner;

        carrier_note_released(fanout->carrier);
}

static struct lane_store *create_gate(struct fanout *fanout)
{
        static const struct lane_store_events events = {.on_owned = on_owned,
            .on_owned_elsewhere = on_owned_elsewhere,
            .on_settings = on_settings,
            .on_page = on_page,
            .on_page_failed = on_page_failed,
            .on_xid = on_xid,
            .on_settled = on_settled,
            .on_released = on_released};
        const struct sink_config *config = fanout->carrier->config;
        const struct lane_store_settings settings = {.sink = config->name,
            .filter = config->filter,
            .settings = fanout->carrier->settings,
            .is_gate = true,
            .start = config->start};

        return lane_store_create(fanout->carrier->outbox, &settings, &events, fanout);
}

struct fanout *fanout_create(struct carrier *carrier)
{
        static const struct endpoint_table_events events = {
            .on_endpoints = on_endpoints, .on_due = on_due};
        const struct sink_config *config = carrier->config;
        struct fanout *fanout = xcalloc(1, sizeof *fanout);

        fanout->carrier = carrier;
        fanout->table = endpoint_table_create(carrier->outbox, config->name, &events, fanout);
        carrier->gate = create_gate(fanout);
        fanout->desk = page_desk_create(carrier->gate, &route_desk_events);
        return fanout;
}

void fanout_destroy(struct fanout *fanout)
{
        if (fanout == NULL)
                return;
        page_desk_destroy(fanout->desk);
        lane_store_destroy(fanout->carrier->gate);
        endpoint_table_destroy(fanout->table);
        free(fanout->routings);
        free(fanout);
}

/* Of receivers that are gone; but not of those whose lanes still write there. */
static void forget_gone(struct fanout *fanout)
{
        int32_t *served;
        size_t n = 0;

        list_for_each (link, &fanout->carrier->routes)
                n++;
        served = xcalloc(n + 1, sizeof *served);
        n = 0;
        list_for_each (route_link, &fanout->carrier->routes)
                served[n++] = route_of_link(route_link)->lane_number;
        endpoint_table_forget_gone(fanout->table, served, n);
        free(served);
}

void fanout_owned(struct fanout *fanout)
{
        fanout->is_current = false;
        forget_gone(fanout);
        endpoint_table_read(fanout->table);
        list_for_each (link, &fanout->carrier->routes)
                route_mark_dirty(route_of_link(link));
}

void fanout_session_down(struct fanout *fanout)
{
        fanout->is_current = false;
        fanout->is_looking = false;
        page_desk_reset(fanout->desk);
        endpoint_table_session_down(fanout->table);
}

void fanout_ring(struct fanout *fanout)
{
        page_desk_ring(fanout->desk);
        list_for_each (link, &fanout->carrier->routes)
                route_ring(route_of_link(link));
}

void fanout_control(struct fanout *fanout)
{
        if (!fanout->carrier->is_owned)
                return;
        endpoint_table_read(fanout->table);
        endpoint_table_read_due(fanout->table);
        fanout->is_looking = true;
}

/* The gate's cursor says how far the log has been read for anybody, for people to see. */
static void settle_gate(struct fanout *fanout)
{
        struct settlement settlement = {.cursor = {.from = page_desk_newest(fanout->desk)}};
        struct list no_verdicts;

        if (!fanout->is_settling || settlement.cursor.from == NULL)
                return;
        list_init(&no_verdicts);
        settlement.verdicts = &no_verdicts;
        lane_store_settle(fanout->carrier->gate, &settlement);
}

void fanout_serve(struct fanout *fanout)
{
        settle_gate(fanout);
        fanout->is_settling = false;
        if (fanout->carrier->is_owned)
                page_desk_serve(fanout->desk);
}

void fanout_note_settling(struct fanout *fanout)
{
        fanout->is_settling = true;
}

void fanout_drop_idle_route(struct fanout *fanout, struct route *route)
{
        route_destroy(route);
        collect_routings(fanout);
        forget_gone(fanout);
}

void fanout_note_health(
    struct fanout *fanout, struct route *route, enum health_news news, const char *reason)
{
        int32_t id = route->endpoint->id;

        switch (news) {
        case HEALTH_NO_NEWS:
                return;
        case HEALTH_FAILING:
                log_warn(
                    "endpoint_failing", kv_text("sink", route->label), kv_text("reason", reason));
                endpoint_table_note_failing(
                    fanout->table, id, carrier_now_ms() - route->health.failing_since_ms, reason);
                return;
        case HEALTH_RECOVERED:
                log_info("endpoint_recovered", kv_text("sink", route->label));
                endpoint_table_note_recovered(fanout->table, id);
                return;
        case HEALTH_HOPELESS:
                endpoint_table_disable(fanout->table, id, reason);
                route_update_pause(route);
                return;
        }
}

void fanout_give_up(struct fanout *fanout, struct route *route, const char *reason)
{
        route->health.state = HEALTH_GIVEN_UP;
        fanout_note_health(fanout, route, HEALTH_HOPELESS, reason);
}

void fanout_disable(struct fanout *fanout, struct route *route, const char *reason)
{
        endpoint_table_disable(fanout->table, route->endpoint->id, reason);
}

bool fanout_is_idle(const struct fanout *fanout)
{
        return endpoint_table_is_idle(fanout->table) && page_desk_is_idle(fanout->desk);
}

bool fanout_is_caught_up(const struct fanout *fanout)
{
        return fanout->is_current && !fanout->is_looking;
}
