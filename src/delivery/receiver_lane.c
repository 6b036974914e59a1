#include "delivery/receiver_lane.h"

#include "base/alloc.h"
#include "delivery/attempts.h"
#include "delivery/fanout.h"
#include "delivery/reading.h"
#include "delivery/runner.h"
#include "log/log.h"
#include "outbox/receiver.h"

#include <stdlib.h>
#include <string.h>

/* A receiver's window holds four times what it may have in flight, and at least this: a slow
 * receiver must not hold many pages in memory, a fast one must not wait for the next page. */
#define RECEIVER_WINDOW    64
#define RECEIVER_BYTES_MAX (UINT64_C(1) << 20)

/* The receivers of a sink are settled together, ten times a second. Their windows bound what a
 * crash repeats. */
#define RECEIVER_SETTLE_MS      100
#define RECEIVER_SETTLE_IDLE_MS 5000

/* A receiver's limit counts requests, each of which may carry several events. */
static uint32_t receiver_concurrency(
    const struct sink_config *config, const struct receiver *receiver)
{
        const struct http_batch *batch = config->http != NULL ? config->http->batch : NULL;

        return receiver->concurrency * (batch != NULL ? batch->events : 1);
}

static uint32_t receiver_window(const struct sink_config *config, uint32_t concurrency)
{
        uint32_t size = 4 * concurrency;

        if (size < RECEIVER_WINDOW)
                size = RECEIVER_WINDOW;
        return size < config->max_in_flight ? size : config->max_in_flight;
}

static struct lane_policy receiver_policy(
    const struct dispatcher *dispatcher, const struct receiver *receiver)
{
        struct lane_policy policy = runner_policy(dispatcher);

        policy.max_concurrent = receiver_concurrency(dispatcher->config, receiver);
        policy.max_in_flight = receiver_window(dispatcher->config, policy.max_concurrent);
        if (policy.max_in_flight_bytes > RECEIVER_BYTES_MAX)
                policy.max_in_flight_bytes = RECEIVER_BYTES_MAX;
        policy.rate_per_s = receiver->rate_per_s;
        policy.rate_burst = receiver->rate_burst;
        policy.settle_delay_ms = RECEIVER_SETTLE_MS;
        policy.settle_idle_ms = RECEIVER_SETTLE_IDLE_MS;
        policy.settle_step_ms = RECEIVER_SETTLE_MS;
        return policy;
}

/* It takes events unless its row, its url, its filter or its health says otherwise. */
static void update_pause(struct runner *runner)
{
        if (runner->is_leaving)
                runner_stop_reading(runner);
        runner->is_stopped = runner->receiver->state != RECEIVER_ACTIVE || runner->is_leaving ||
                             list_is_empty(&runner->targets) ||
                             runner->health.state == HEALTH_GIVEN_UP;
        runner_update_pause(runner);
}

static void note_health(struct runner *runner, enum health_news news, const char *reason)
{
        struct receiver_table *table = runner->dispatcher->fanout->table;
        int32_t id = runner->receiver->id;

        switch (news) {
        case HEALTH_NO_NEWS:
                return;
        case HEALTH_FAILING:
                log_warn(
                    "receiver_failing", kv_text("sink", runner->label), kv_text("reason", reason));
                receiver_table_note_failing(
                    table, id, dispatcher_now_ms() - runner->health.failing_since_ms, reason);
                return;
        case HEALTH_RECOVERED:
                log_info("receiver_recovered", kv_text("sink", runner->label));
                receiver_table_note_recovered(table, id);
                return;
        case HEALTH_HOPELESS:
                receiver_table_disable(table, id, reason);
                update_pause(runner);
                return;
        }
}

static int64_t disable_after_ms(const struct sink_config *config)
{
        return config->http != NULL ? config->http->disable_after_ms
                                    : config->module->disable_after_ms;
}

static void on_outcome(struct runner *runner, const struct outcome *outcome)
{
        enum health_news news = health_note(&runner->health, outcome, dispatcher_now_ms(),
            disable_after_ms(runner->dispatcher->config));

        note_health(runner, news, outcome->reason);
}

static void on_filter_given_up(void *owner, const char *words)
{
        struct runner *runner = owner;

        runner->health.state = HEALTH_GIVEN_UP;
        note_health(runner, HEALTH_HOPELESS, words);
}

static void open_filter(struct runner *runner)
{
        const char *filter = runner->receiver->routing.filter;

        if (filter != NULL)
                runner->filter = filter_open(outbox_filter_queue(runner->dispatcher->set->outbox),
                    filter, on_filter_given_up, runner);
}

/* The receiver's filter is another one, or is given another chance. */
static void renew_filter(struct runner *runner)
{
        page_filter_stop(runner);
        filter_close(runner->filter);
        runner->filter = NULL;
        open_filter(runner);
}

/* A receiver whose url the sink does not accept is disabled. */
static void open_target(struct runner *runner)
{
        struct error error;

        if (!attempts_open_target(runner, &error))
                receiver_table_disable(
                    runner->dispatcher->fanout->table, runner->receiver->id, error.text);
}

static void set_label(struct runner *runner)
{
        free(runner->label);
        runner->label = xasprintf("%s/%s", runner->dispatcher->name, runner->receiver->name);
}

void receiver_lane_add(struct fanout *fanout, const struct receiver *receiver, struct shard *shard,
    struct list *before)
{
        static const struct runner_ops ops = {.read = reading_ask, .on_outcome = on_outcome};
        static const struct lane_store_events events = {.on_owned = runner_own,
            .on_parked = runner_take_parked,
            .on_missing = runner_note_missing,
            .on_settled = runner_note_settled};
        struct dispatcher *dispatcher = fanout->dispatcher;
        const struct lane_store_settings settings = {.sink = dispatcher->name,
            .lane = receiver->id,
            .is_covered = true,
            .is_durable = dispatcher->sink->remembers,
            .start_snapshot = receiver->start_snapshot,
            .start_floor = receiver->start_floor};
        const struct lane_policy policy = receiver_policy(dispatcher, receiver);
        struct runner *runner = runner_create(shard, &ops, &policy);

        list_remove(&runner->link);
        list_insert_before(before, &runner->link);
        runner->lane_number = receiver->id;
        runner->receiver = receiver_ref(receiver);
        health_init(&runner->health, receiver->failing_for_ms, dispatcher_now_ms());
        set_label(runner);
        runner->store = lane_store_create(dispatcher->set->outbox, &settings, &events, runner);
        open_filter(runner);
        open_target(runner);
        update_pause(runner);
        log_debug("receiver_added", kv_text("sink", runner->label));
}

void receiver_lane_remove(struct runner *runner)
{
        if (runner->is_leaving)
                return;
        log_info("receiver_removed", kv_text("sink", runner->label));
        runner->is_leaving = true;
        update_pause(runner);
}

static bool filters_are_equal(const struct receiver *a, const struct receiver *b)
{
        const char *of_a = a->routing.filter, *of_b = b->routing.filter;

        return of_a == NULL || of_b == NULL ? of_a == of_b : strcmp(of_a, of_b) == 0;
}

static bool texts_are_alike(const char *const *a, size_t n_a, const char *const *b, size_t n_b)
{
        if (n_a != n_b)
                return false;
        for (size_t i = 0; i < n_a; i++)
                if (strcmp(a[i], b[i]) != 0)
                        return false;
        return true;
}

static bool targets_are_alike(const struct receiver *a, const struct receiver *b)
{
        if (strcmp(a->url, b->url) != 0 || strcmp(a->name, b->name) != 0 ||
            a->n_headers != b->n_headers ||
            !texts_are_alike(a->secrets, a->n_secrets, b->secrets, b->n_secrets))
                return false;
        for (size_t i = 0; i < a->n_headers; i++)
                if (strcmp(a->headers[i].name, b->headers[i].name) != 0 ||
                    strcmp(a->headers[i].value, b->headers[i].value) != 0)
                        return false;
        return true;
}

static void update_runner(struct runner *runner, const struct receiver *receiver)
{
        struct receiver *before = runner->receiver;

        /* It may have been resumed, or the session was lost before it was disabled. */
        if (receiver->state == RECEIVER_ACTIVE &&
            (before->state != RECEIVER_ACTIVE || runner->health.state == HEALTH_GIVEN_UP)) {
                health_init(&runner->health, receiver->failing_for_ms, dispatcher_now_ms());
                renew_filter(runner);
                update_pause(runner);
        }
        if (before->version == receiver->version)
                return;
        /* What has passed by meanwhile is behind it, whatever it takes from now on. */
        page_cache_call_off(runner->dispatcher->page_cache, &runner->waiter);
        runner->receiver = receiver_ref(receiver);
        if (!filters_are_equal(before, receiver))
                renew_filter(runner);
        if (before->concurrency != receiver->concurrency ||
            before->rate_per_s != receiver->rate_per_s ||
            before->rate_burst != receiver->rate_burst) {
                struct lane_policy policy = receiver_policy(runner->dispatcher, receiver);
                lane_set_policy(&runner->lane, &policy);
        }
        if (strcmp(before->name, receiver->name) != 0)
                set_label(runner);
        if (list_is_empty(&runner->targets) || !targets_are_alike(before, receiver))
                open_target(runner);
        receiver_unref(before);
        update_pause(runner);
        lane_probe_now(&runner->lane, dispatcher_now_ms());
}

void receiver_lane_update(struct runner *runner, const struct receiver *receiver)
{
        enum receiver_state before = runner->receiver->state;

        update_runner(runner, receiver);
        if (before == receiver->state)
                return;
        if (receiver->state == RECEIVER_ACTIVE)
                log_info("receiver_resumed", kv_text("sink", runner->label));
        else
                log_warn(
                    receiver->state == RECEIVER_PAUSED ? "receiver_paused" : "receiver_disabled",
                    kv_text("sink", runner->label),
                    kv_text(
                        "reason", receiver->state_reason != NULL ? receiver->state_reason : ""));
}
