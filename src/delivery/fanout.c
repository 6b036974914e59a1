#include "delivery/fanout.h"

#include "base/alloc.h"
#include "delivery/runner.h"
#include "log/log.h"
#include "outbox/endpoint_table.h"
#include "telemetry/telemetry.h"

#include <stdlib.h>
#include <string.h>

struct fanout {
        struct dispatcher *dispatcher;   /* borrowed */
        struct endpoint_table *table;    /* owned */
        struct page_cache *page_cache;   /* owned */
        const struct routing **routings; /* owned; of all receivers */
        bool is_current;  /* who the receivers are is known since the lanes were taken */
        bool is_looking;  /* at what is parked and due */
        bool is_settling; /* a runner does in this pump */
};

struct page_cache *fanout_page_cache(struct fanout *fanout)
{
        return fanout->page_cache;
}

int64_t fanout_disable_after_ms(const struct fanout *fanout)
{
        const struct sink_config *config = fanout->dispatcher->config;

        return config->http != NULL ? config->http->disable_after_ms
                                    : config->module->disable_after_ms;
}

static struct runner *runner_of_link(struct list *link)
{
        return list_owner(link, struct runner, link);
}

/* What any of the receivers takes: read once for all of them. */
static void collect_routings(struct fanout *fanout)
{
        static const struct routing nothing;
        size_t n = 0;

        list_for_each (link, &fanout->dispatcher->runners)
                n++;
        free(fanout->routings);
        fanout->routings = xcalloc(n + 2, sizeof(const struct routing *));
        n = 0;
        list_for_each (runner_link, &fanout->dispatcher->runners) {
                const struct runner *runner = runner_of_link(runner_link);
                if (!runner->is_leaving)
                        fanout->routings[n++] = &runner->endpoint->routing;
        }
        fanout->routings[n++] = &nothing; /* so that there are several, or none */
        page_cache_set_routings(fanout->page_cache, fanout->routings, n);
}

static void leave(struct runner *runner)
{
        if (runner->is_leaving)
                return;
        log_info("endpoint_removed", kv_text("sink", runner->label));
        runner->is_leaving = true;
        runner_update_pause(runner);
}

/* `before`: the next runner in order of id, or the list itself. */
static void join(struct fanout *fanout, const struct endpoint *endpoint, struct list *before)
{
        struct runner *runner = runner_create(fanout->dispatcher, endpoint);

        list_remove(&runner->link);
        list_insert_before(before, &runner->link);
        log_debug("endpoint_added", kv_text("sink", runner->label));
        runner_mark_dirty(runner);
}

static void update(struct runner *runner, const struct endpoint *endpoint)
{
        enum endpoint_state before = runner->endpoint->state;

        runner_update(runner, endpoint);
        if (before == endpoint->state)
                return;
        if (endpoint->state == ENDPOINT_ACTIVE)
                log_info("endpoint_resumed", kv_text("sink", runner->label));
        else
                log_warn(
                    endpoint->state == ENDPOINT_PAUSED ? "endpoint_paused" : "endpoint_disabled",
                    kv_text("sink", runner->label),
                    kv_text(
                        "reason", endpoint->state_reason != NULL ? endpoint->state_reason : ""));
}

/* Both are in order of id. Whoever is new need not have the highest: its transaction may have taken
 * longer than that of the next. */
static void reconcile(struct fanout *fanout, const struct endpoint_list *list)
{
        struct dispatcher *dispatcher = fanout->dispatcher;
        size_t i = 0;

        list_for_each (link, &dispatcher->runners) {
                struct runner *runner = runner_of_link(link);
                while (i < list->n_endpoints && list->endpoints[i]->id < runner->lane_number)
                        join(fanout, list->endpoints[i++], link);
                if (i < list->n_endpoints && list->endpoints[i]->id == runner->lane_number)
                        update(runner, list->endpoints[i++]);
                else
                        leave(runner);
        }
        while (i < list->n_endpoints)
                join(fanout, list->endpoints[i++], &dispatcher->runners);
        collect_routings(fanout);
}

static void on_endpoints(void *owner, const struct endpoint_list *list)
{
        struct fanout *fanout = owner;

        if (fanout->dispatcher->is_draining) {
                fanout->dispatcher->events.on_dirty(
                    fanout->dispatcher->owner); /* it may be idle now */
                return;
        }
        if (list != NULL)
                reconcile(fanout, list);
        if (!fanout->is_current)
                log_info("endpoints_read", kv_text("sink", fanout->dispatcher->config->name),
                    kv_int("endpoints", list != NULL ? (int64_t)list->n_endpoints : 0));
        fanout->is_current = true;
        fanout->dispatcher->events.on_dirty(fanout->dispatcher->owner);
}

static void on_due(void *owner, const int32_t *lanes, size_t n_lanes)
{
        struct fanout *fanout = owner;
        size_t i = 0;

        fanout->is_looking = false;
        list_for_each (link, &fanout->dispatcher->runners) {
                struct runner *runner = runner_of_link(link);
                while (i < n_lanes && lanes[i] < runner->lane_number)
                        i++;
                if (i < n_lanes && lanes[i] == runner->lane_number)
                        runner_ring_parked(runner);
        }
        fanout->dispatcher->events.on_dirty(fanout->dispatcher->owner);
}

static void on_owned(void *owner, const struct cursor *cursor, const struct parked_keys *parked)
{
        struct fanout *fanout = owner;

        (void)cursor;
        (void)parked;
        dispatcher_note_owned(fanout->dispatcher);
}

static void on_owned_elsewhere(void *owner)
{
        struct fanout *fanout = owner;

        dispatcher_note_owned_elsewhere(fanout->dispatcher);
}

static void on_settings(void *owner, const char *theirs)
{
        struct fanout *fanout = owner;

        dispatcher_note_settings(fanout->dispatcher, theirs);
}

static void on_page(void *owner, struct page *page)
{
        struct fanout *fanout = owner;

        telemetry_see_poll(fanout->dispatcher->seen->telemetry, page->arrived_us - page->asked_us);
        page_cache_take_page(fanout->page_cache, page);
        fanout->dispatcher->events.on_dirty(
            fanout->dispatcher->owner); /* the cache may have more to ask */
}

static void on_page_failed(void *owner, const struct error *error)
{
        struct fanout *fanout = owner;

        page_cache_fail_page(fanout->page_cache, error);
        fanout->dispatcher->events.on_dirty(fanout->dispatcher->owner);
}

static void on_xid(void *owner, uint64_t xid)
{
        struct fanout *fanout = owner;

        page_cache_take_xid(fanout->page_cache, xid);
        fanout->dispatcher->events.on_dirty(fanout->dispatcher->owner);
}

static void on_settled(void *owner)
{
        (void)owner;
}

static void on_released(void *owner)
{
        struct fanout *fanout = owner;

        dispatcher_note_released(fanout->dispatcher);
}

static struct lane_store *create_owner_lane(struct fanout *fanout)
{
        static const struct lane_store_events events = {.on_owned = on_owned,
            .on_owned_elsewhere = on_owned_elsewhere,
            .on_settings = on_settings,
            .on_page = on_page,
            .on_page_failed = on_page_failed,
            .on_xid = on_xid,
            .on_settled = on_settled,
            .on_released = on_released};
        const struct sink_config *config = fanout->dispatcher->config;
        const struct lane_store_settings settings = {.sink = config->name,
            .filter = config->filter,
            .settings = fanout->dispatcher->settings,
            .is_owner_lane = true,
            .start = config->start};

        return lane_store_create(fanout->dispatcher->outbox, &settings, &events, fanout);
}

struct fanout *fanout_create(struct dispatcher *dispatcher)
{
        static const struct endpoint_table_events events = {
            .on_endpoints = on_endpoints, .on_due = on_due};
        const struct sink_config *config = dispatcher->config;
        struct fanout *fanout = xcalloc(1, sizeof *fanout);

        fanout->dispatcher = dispatcher;
        fanout->table = endpoint_table_create(dispatcher->outbox, config->name, &events, fanout);
        dispatcher->owner_lane = create_owner_lane(fanout);
        fanout->page_cache = page_cache_create(dispatcher->owner_lane, &runner_page_cache_events);
        return fanout;
}

void fanout_destroy(struct fanout *fanout)
{
        if (fanout == NULL)
                return;
        page_cache_destroy(fanout->page_cache);
        lane_store_destroy(fanout->dispatcher->owner_lane);
        endpoint_table_destroy(fanout->table);
        free(fanout->routings);
        free(fanout);
}

/* Of receivers that are gone; but not of those whose lanes still write there. */
static void forget_gone(struct fanout *fanout)
{
        int32_t *served;
        size_t n = 0;

        list_for_each (link, &fanout->dispatcher->runners)
                n++;
        served = xcalloc(n + 1, sizeof *served);
        n = 0;
        list_for_each (runner_link, &fanout->dispatcher->runners)
                served[n++] = runner_of_link(runner_link)->lane_number;
        endpoint_table_forget_gone(fanout->table, served, n);
        free(served);
}

void fanout_owned(struct fanout *fanout)
{
        fanout->is_current = false;
        forget_gone(fanout);
        endpoint_table_read(fanout->table);
        list_for_each (link, &fanout->dispatcher->runners)
                runner_mark_dirty(runner_of_link(link));
}

void fanout_session_down(struct fanout *fanout)
{
        fanout->is_current = false;
        fanout->is_looking = false;
        page_cache_reset(fanout->page_cache);
        endpoint_table_session_down(fanout->table);
}

void fanout_ring(struct fanout *fanout)
{
        page_cache_ring(fanout->page_cache);
        list_for_each (link, &fanout->dispatcher->runners)
                runner_ring(runner_of_link(link));
}

void fanout_control(struct fanout *fanout)
{
        if (!fanout->dispatcher->is_owned)
                return;
        endpoint_table_read(fanout->table);
        endpoint_table_read_due(fanout->table);
        fanout->is_looking = true;
}

/* The owner_lane's cursor says how far the log has been read for anybody, for people to see. */
static void settle_owner_lane(struct fanout *fanout)
{
        struct settlement settlement = {.cursor = {.from = page_cache_newest(fanout->page_cache)}};
        struct list no_verdicts;

        if (!fanout->is_settling || settlement.cursor.from == NULL)
                return;
        list_init(&no_verdicts);
        settlement.verdicts = &no_verdicts;
        lane_store_settle(fanout->dispatcher->owner_lane, &settlement);
}

void fanout_serve(struct fanout *fanout)
{
        settle_owner_lane(fanout);
        fanout->is_settling = false;
        if (fanout->dispatcher->is_owned)
                page_cache_serve(fanout->page_cache);
}

void fanout_note_settling(struct fanout *fanout)
{
        fanout->is_settling = true;
}

void fanout_drop_idle_runner(struct fanout *fanout, struct runner *runner)
{
        runner_destroy(runner);
        collect_routings(fanout);
        forget_gone(fanout);
}

void fanout_note_health(
    struct fanout *fanout, struct runner *runner, enum health_news news, const char *reason)
{
        int32_t id = runner->endpoint->id;

        switch (news) {
        case HEALTH_NO_NEWS:
                return;
        case HEALTH_FAILING:
                log_warn(
                    "endpoint_failing", kv_text("sink", runner->label), kv_text("reason", reason));
                endpoint_table_note_failing(fanout->table, id,
                    dispatcher_now_ms() - runner->health.failing_since_ms, reason);
                return;
        case HEALTH_RECOVERED:
                log_info("endpoint_recovered", kv_text("sink", runner->label));
                endpoint_table_note_recovered(fanout->table, id);
                return;
        case HEALTH_HOPELESS:
                endpoint_table_disable(fanout->table, id, reason);
                runner_update_pause(runner);
                return;
        }
}

void fanout_give_up(struct fanout *fanout, struct runner *runner, const char *reason)
{
        runner->health.state = HEALTH_GIVEN_UP;
        fanout_note_health(fanout, runner, HEALTH_HOPELESS, reason);
}

void fanout_disable(struct fanout *fanout, struct runner *runner, const char *reason)
{
        endpoint_table_disable(fanout->table, runner->endpoint->id, reason);
}

bool fanout_is_idle(const struct fanout *fanout)
{
        return endpoint_table_is_idle(fanout->table) && page_cache_is_idle(fanout->page_cache);
}

bool fanout_is_caught_up(const struct fanout *fanout)
{
        return fanout->is_current && !fanout->is_looking;
}
