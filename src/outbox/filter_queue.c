#include "base/alloc.h"
#include "base/clock.h"
#include "loop/timer.h"
#include "outbox/filter_internal.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* A question about proven filters is made so large that it is answered in this time, within bounds.
 * It is cut off by a limit that leaves room for a busy machine. */
#define TOGETHER_US       20000
#define TOGETHER_LIMIT_MS 250
#define LEAST_LIMIT_MS    40
#define EVENTS_MAX        1000

/* The connections are there only while they are needed. */
#define IDLE_MS 10000

static void bench_send(struct filter_bench *bench, int64_t limit_ms)
{
        struct filter_batch *batch = &bench->batch;

        filter_batch_close(batch);
        batch->asked_us = clock_monotonic_us();
        filter_query_ask(bench->query, &(struct filter_query_question){.ids = batch->ids,
                                           .n_ids = batch->n_ids,
                                           .filters = (const char *const *)batch->filters,
                                           .n_filters = batch->n_filters,
                                           .limit_ms = limit_ms + filter_batch_reading_ms(batch)});
}

/* How many events may be asked about, if that many filters are. */
static size_t n_events_together(const struct filter_queue *queue, size_t n_filters)
{
        double n = TOGETHER_US / (queue->evaluation_us * (double)n_filters);
        size_t n_events = n < 1 ? 1 : n > EVENTS_MAX ? EVENTS_MAX : (size_t)n;

        n_events >>= queue->n_halved;
        return n_events > 0 ? n_events : 1;
}

/* Where one event makes many filters slow, the others wait for each to be found out: less and
 * less. */
static int64_t together_limit_ms(const struct filter_queue *queue)
{
        int64_t limit_ms = TOGETHER_LIMIT_MS >> (queue->n_found_out < 8 ? queue->n_found_out : 8);

        return limit_ms > LEAST_LIMIT_MS ? limit_ms : LEAST_LIMIT_MS;
}

/* All that wait for events of the same stretch of the log, which most do. */
static void ask_proven(struct filter_queue *queue)
{
        struct filter_bench *bench = &queue->proven;
        struct filter_request *first = filter_request_of(filter_of(bench->waiting.next)->asks.next);
        size_t n_filters = 0, n_left = first->n_events - first->n_answered, n_events;
        int64_t from = filter_queue_next_id(first), to;

        list_for_each (link, &bench->waiting)
                if (++n_filters == FILTER_QUEUE_FILTERS_MAX)
                        break;
        n_events = n_events_together(queue, n_filters);
        if (n_events > n_left)
                n_events = n_left;
        to = first->events[first->n_answered + n_events - 1].id;
        list_for_each (filter_link, &bench->waiting) {
                struct filter *filter = filter_of(filter_link);
                list_for_each (ask_link, &filter->asks) {
                        const struct filter_request *ask = filter_request_of(ask_link);
                        if (filter_queue_next_id(ask) > to ||
                            ask->events[ask->n_events - 1].id < from ||
                            bench->batch.n_ids >= 4 * EVENTS_MAX ||
                            !filter_batch_add_filter(&bench->batch, filter->text))
                                continue;
                        filter_batch_add_ids(&bench->batch, ask, from, to, n_events);
                }
        }
        bench_send(bench, together_limit_ms(queue));
}

/* After a rest it is the turn of a slow one, and while the connection rests, of the others: first
 * of those that have never been slow. So no filter waits for all slow ones. */
static struct filter *next_in_line(const struct filter_bench *bench)
{
        bool is_rested = !timer_is_armed(bench->rest);
        struct filter *slow = NULL, *quick = NULL;

        list_for_each (link, &bench->waiting) {
                struct filter *filter = filter_of(link);
                if (filter->is_slow && slow == NULL)
                        slow = filter;
                if (!filter->is_slow && (quick == NULL || quick->record > filter->record))
                        quick = filter;
        }
        return is_rested && slow != NULL ? slow : quick;
}

/* One filter, by itself. */
static void ask_unproven(struct filter_queue *queue)
{
        struct filter_bench *bench = &queue->unproven;
        struct filter *filter = next_in_line(bench);
        const struct filter_request *ask;

        if (filter == NULL)
                return;
        ask = filter_request_of(filter->asks.next);
        filter_batch_add_filter(&bench->batch, filter->text);
        filter_batch_add_ids(
            &bench->batch, ask, filter_queue_next_id(ask), INT64_MAX, filter->n_events);
        bench_send(bench, FILTER_QUEUE_LIMIT_MS << filter->n_tries);
}

static void bench_serve(struct filter_bench *bench)
{
        struct filter_queue *queue = bench->queue;

        list_for_each (link, &bench->waiting)
                if (list_is_empty(&filter_of(link)->asks)) /* withdrawn */
                        list_remove(link);
        if (queue->server == NULL)
                return;
        if (list_is_empty(&bench->waiting)) {
                if (bench == &queue->unproven && !timer_is_armed(bench->idle))
                        timer_arm(bench->idle, IDLE_MS);
                return;
        }
        timer_disarm(bench->idle);
        filter_query_open(bench->query, queue->server);
        if (!filter_query_is_ready(bench->query))
                return;
        filter_batch_clear(&bench->batch);
        if (bench == &queue->proven)
                ask_proven(queue);
        else
                ask_unproven(queue);
}

static void on_rested(void *owner)
{
        bench_serve(owner);
}

static void on_idle(void *owner)
{
        struct filter_bench *bench = owner;

        filter_query_close(bench->query);
        filter_queue_end_trouble(bench);
}

static void on_ready(void *owner)
{
        struct filter_bench *bench = owner;
        struct filter_queue *queue = bench->queue;

        if (!bench->is_refused)
                filter_queue_end_trouble(bench);
        bench_serve(&queue->proven); /* filters may have moved from one to the other */
        bench_serve(&queue->unproven);
}

static void on_judged(void *owner, const struct filter_result *result)
{
        filter_queue_take_result(owner, result);
}

static void on_failed(void *owner, const struct filter_query_failure *failure)
{
        filter_queue_take_failure(owner, failure);
}

static void on_lost(void *owner, const struct error *error, int64_t retry_ms)
{
        filter_queue_note_trouble(owner, error, retry_ms);
}

static void bench_init(struct filter_bench *bench, struct filter_queue *queue, uv_loop_t *loop,
    const char *name, const struct postgres_config *config)
{
        static const struct filter_query_events events = {.on_ready = on_ready,
            .on_judged = on_judged,
            .on_failed = on_failed,
            .on_lost = on_lost};

        bench->queue = queue;
        bench->query = filter_query_create(loop, name, config, &events, bench);
        list_init(&bench->waiting);
        bench->rest = timer_create_on(loop, on_rested, bench);
        bench->idle = timer_create_on(loop, on_idle, bench);
}

static void bench_deinit(struct filter_bench *bench)
{
        assert(list_is_empty(&bench->waiting));
        filter_query_destroy(bench->query);
        timer_destroy(bench->rest);
        timer_destroy(bench->idle);
        filter_batch_clear(&bench->batch);
        free(bench->batch.ids);
}

static void bench_close(struct filter_bench *bench)
{
        filter_query_close(bench->query);
        timer_disarm(bench->rest);
        timer_disarm(bench->idle);
        bench->is_in_trouble = false;
        bench->is_refused = false;
}

struct filter_queue *filter_queue_create(uv_loop_t *loop, const struct postgres_config *config,
    const struct filter_queue_events *events, void *owner)
{
        struct filter_queue *queue = xcalloc(1, sizeof *queue);

        queue->events = *events;
        queue->owner = owner;
        queue->evaluation_us = 20;
        bench_init(&queue->proven, queue, loop, "filters", config);
        bench_init(&queue->unproven, queue, loop, "slow_filters", config);
        return queue;
}

void filter_queue_destroy(struct filter_queue *queue)
{
        if (queue == NULL)
                return;
        bench_deinit(&queue->proven);
        bench_deinit(&queue->unproven);
        free(queue->server);
        free(queue);
}

void filter_queue_configure(struct filter_queue *queue, const struct postgres_config *config)
{
        filter_query_configure(queue->proven.query, config);
        filter_query_configure(queue->unproven.query, config);
}

void filter_queue_session_up(struct filter_queue *queue, const char *server)
{
        free(queue->server);
        queue->server = xstrdup(server);
}

void filter_queue_session_down(struct filter_queue *queue)
{
        free(queue->server);
        queue->server = NULL;
        bench_close(&queue->proven);
        bench_close(&queue->unproven);
}

struct filter *filter_open(struct filter_queue *queue, const char *text,
    void (*on_given_up)(void *owner, const char *words), void *owner)
{
        struct filter *filter = xcalloc(1, sizeof *filter);

        filter->queue = queue;
        filter->text = xstrdup(text);
        filter->n_events = 1;
        filter->on_given_up = on_given_up;
        filter->owner = owner;
        list_init(&filter->link);
        list_init(&filter->asks);
        return filter;
}

void filter_close(struct filter *filter)
{
        if (filter == NULL)
                return;
        assert(list_is_empty(&filter->asks));
        list_remove(&filter->link);
        free(filter->text);
        free(filter);
}

bool filter_is_given_up(const struct filter *filter)
{
        return filter->is_given_up;
}

bool filter_is_slow(const struct filter *filter)
{
        return filter->is_slow && !filter->is_given_up;
}

void filter_request_init(
    struct filter_request *ask, void (*on_answered)(struct filter_request *ask))
{
        *ask = (struct filter_request){.on_answered = on_answered};
        list_init(&ask->link);
}

bool filter_request_is_under_way(const struct filter_request *ask)
{
        return !list_is_empty(&ask->link);
}

void filter_queue_ask(struct filter *filter, struct filter_request *ask)
{
        assert(!filter_request_is_under_way(ask) && ask->n_events > 0 && !filter->is_given_up);
        ask->n_answered = 0;
        list_push_back(&filter->asks, &ask->link);
        if (list_is_empty(&filter->link))
                filter_queue_stand_in_line(filter);
        bench_serve(filter_bench_of(filter));
}

void filter_queue_withdraw(struct filter_request *ask)
{
        list_remove(&ask->link);
}
