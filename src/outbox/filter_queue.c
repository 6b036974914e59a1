#include "base/alloc.h"
#include "base/clock.h"
#include "loop/timer.h"
#include "outbox/filter_internal.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* A question about proven filters is made so large that it is answered in this time, within bounds. It is
 * cut off by a limit that leaves room for a busy machine. */
#define TOGETHER_US       20000
#define TOGETHER_LIMIT_MS 250
#define LEAST_LIMIT_MS    40
#define EVENTS_MAX        1000

/* The connections are there only while they are needed. */
#define IDLE_MS 10000

static struct sieve_bench *bench_of(const struct sieve_filter *filter)
{
        return filter->is_proven ? &filter->sieve->proven : &filter->sieve->unproven;
}

/* One that had too little time for an event goes on with it, until that is decided; the others have turns. */
static bool keeps_its_place(const struct sieve_filter *filter)
{
        return !filter->is_proven && (filter->n_tries > 1 || filter->n_strikes > 0);
}

void sieve_stand_in_line(struct sieve_filter *filter)
{
        struct sieve_bench *bench = bench_of(filter);

        list_remove(&filter->link);
        if (list_is_empty(&filter->asks))
                return;
        if (keeps_its_place(filter))
                list_push_front(&bench->waiting, &filter->link);
        else
                list_push_back(&bench->waiting, &filter->link);
}

static void bench_send(struct sieve_bench *bench, int64_t limit_ms)
{
        struct sieve_batch *batch = &bench->batch;

        sieve_batch_close(batch);
        batch->asked_us = clock_monotonic_us();
        judge_ask(bench->judge, &(struct judge_question){.ids = batch->ids,
                                    .n_ids = batch->n_ids,
                                    .filters = (const char *const *)batch->filters,
                                    .n_filters = batch->n_filters,
                                    .limit_ms = limit_ms + sieve_batch_reading_ms(batch)});
}

/* How many events may be asked about, if that many filters are. */
static size_t n_events_together(const struct sieve *sieve, size_t n_filters)
{
        double n = TOGETHER_US / (sieve->evaluation_us * (double)n_filters);
        size_t n_events = n < 1 ? 1 : n > EVENTS_MAX ? EVENTS_MAX : (size_t)n;

        n_events >>= sieve->n_halved;
        return n_events > 0 ? n_events : 1;
}

/* Where one event makes many filters slow, the others wait for each to be found out: less and less. */
static int64_t together_limit_ms(const struct sieve *sieve)
{
        int64_t limit_ms = TOGETHER_LIMIT_MS >> (sieve->n_found_out < 8 ? sieve->n_found_out : 8);

        return limit_ms > LEAST_LIMIT_MS ? limit_ms : LEAST_LIMIT_MS;
}

/* All that wait for events of the same stretch of the log, which most do. */
static void ask_proven(struct sieve *sieve)
{
        struct sieve_bench *bench = &sieve->proven;
        struct sieve_ask *first = sieve_ask_of(sieve_filter_of(bench->waiting.next)->asks.next);
        size_t n_filters = 0, n_left = first->n_events - first->n_sifted, n_events;
        int64_t from = sieve_next_id(first), to;

        list_for_each (link, &bench->waiting)
                if (++n_filters == SIEVE_FILTERS_MAX)
                        break;
        n_events = n_events_together(sieve, n_filters);
        if (n_events > n_left)
                n_events = n_left;
        to = first->events[first->n_sifted + n_events - 1].id;
        list_for_each (filter_link, &bench->waiting) {
                struct sieve_filter *filter = sieve_filter_of(filter_link);
                list_for_each (ask_link, &filter->asks) {
                        const struct sieve_ask *ask = sieve_ask_of(ask_link);
                        if (sieve_next_id(ask) > to || ask->events[ask->n_events - 1].id < from ||
                            bench->batch.n_ids >= 4 * EVENTS_MAX ||
                            !sieve_batch_add_filter(&bench->batch, filter->text))
                                continue;
                        sieve_batch_add_ids(&bench->batch, ask, from, to, n_events);
                }
        }
        bench_send(bench, together_limit_ms(sieve));
}

/* After a rest it is the turn of a slow one, and while the connection rests, of the others: first of those
 * that have never been slow. So nobody waits for all of those that are. */
static struct sieve_filter *next_in_line(const struct sieve_bench *bench)
{
        bool is_rested = !timer_is_armed(bench->rest);
        struct sieve_filter *slow = NULL, *quick = NULL;

        list_for_each (link, &bench->waiting) {
                struct sieve_filter *filter = sieve_filter_of(link);
                if (filter->is_slow && slow == NULL)
                        slow = filter;
                if (!filter->is_slow && (quick == NULL || quick->record > filter->record))
                        quick = filter;
        }
        return is_rested && slow != NULL ? slow : quick;
}

/* One filter, by itself. */
static void ask_unproven(struct sieve *sieve)
{
        struct sieve_bench *bench = &sieve->unproven;
        struct sieve_filter *filter = next_in_line(bench);
        const struct sieve_ask *ask;

        if (filter == NULL)
                return;
        ask = sieve_ask_of(filter->asks.next);
        sieve_batch_add_filter(&bench->batch, filter->text);
        sieve_batch_add_ids(&bench->batch, ask, sieve_next_id(ask), INT64_MAX, filter->n_events);
        bench_send(bench, SIEVE_LIMIT_MS << filter->n_tries);
}

static void bench_serve(struct sieve_bench *bench)
{
        struct sieve *sieve = bench->sieve;

        list_for_each (link, &bench->waiting)
                if (list_is_empty(&sieve_filter_of(link)->asks)) /* withdrawn */
                        list_remove(link);
        if (sieve->server == NULL)
                return;
        if (list_is_empty(&bench->waiting)) {
                if (bench == &sieve->unproven && !timer_is_armed(bench->idle))
                        timer_arm(bench->idle, IDLE_MS);
                return;
        }
        timer_disarm(bench->idle);
        judge_open(bench->judge, sieve->server);
        if (!judge_is_ready(bench->judge))
                return;
        sieve_batch_clear(&bench->batch);
        if (bench == &sieve->proven)
                ask_proven(sieve);
        else
                ask_unproven(sieve);
}

void sieve_note_trouble(struct sieve_bench *bench, const struct error *error, int64_t retry_ms)
{
        bench->is_in_trouble = true;
        bench->sieve->events.on_trouble(bench->sieve->owner, error, retry_ms);
}

void sieve_end_trouble(struct sieve_bench *bench)
{
        if (!bench->is_in_trouble)
                return;
        bench->is_in_trouble = false;
        bench->sieve->events.on_back(bench->sieve->owner);
}

static void on_rested(void *owner)
{
        bench_serve(owner);
}

static void on_idle(void *owner)
{
        struct sieve_bench *bench = owner;

        judge_close(bench->judge);
        sieve_end_trouble(bench);
}

static void on_ready(void *owner)
{
        struct sieve_bench *bench = owner;
        struct sieve *sieve = bench->sieve;

        if (!bench->is_refused)
                sieve_end_trouble(bench);
        bench_serve(&sieve->proven); /* filters may have moved from one to the other */
        bench_serve(&sieve->unproven);
}

static void on_judged(void *owner, const struct judgement *judgement)
{
        sieve_take_judgement(owner, judgement);
}

static void on_failed(void *owner, const struct judge_failure *failure)
{
        sieve_take_failure(owner, failure);
}

static void on_lost(void *owner, const struct error *error, int64_t retry_ms)
{
        sieve_note_trouble(owner, error, retry_ms);
}

static void bench_init(struct sieve_bench *bench, struct sieve *sieve, uv_loop_t *loop,
    const char *name, const struct postgres_config *config)
{
        static const struct judge_events events = {.on_ready = on_ready,
            .on_judged = on_judged,
            .on_failed = on_failed,
            .on_lost = on_lost};

        bench->sieve = sieve;
        bench->judge = judge_create(loop, name, config, &events, bench);
        list_init(&bench->waiting);
        bench->rest = timer_create_on(loop, on_rested, bench);
        bench->idle = timer_create_on(loop, on_idle, bench);
}

static void bench_deinit(struct sieve_bench *bench)
{
        assert(list_is_empty(&bench->waiting));
        judge_destroy(bench->judge);
        timer_destroy(bench->rest);
        timer_destroy(bench->idle);
        sieve_batch_clear(&bench->batch);
        free(bench->batch.ids);
}

static void bench_close(struct sieve_bench *bench)
{
        judge_close(bench->judge);
        timer_disarm(bench->rest);
        timer_disarm(bench->idle);
        bench->is_in_trouble = false;
        bench->is_refused = false;
}

struct sieve *sieve_create(uv_loop_t *loop, const struct postgres_config *config,
    const struct sieve_events *events, void *owner)
{
        struct sieve *sieve = xcalloc(1, sizeof *sieve);

        sieve->events = *events;
        sieve->owner = owner;
        sieve->evaluation_us = 20;
        bench_init(&sieve->proven, sieve, loop, "filters", config);
        bench_init(&sieve->unproven, sieve, loop, "slow_filters", config);
        return sieve;
}

void sieve_destroy(struct sieve *sieve)
{
        if (sieve == NULL)
                return;
        bench_deinit(&sieve->proven);
        bench_deinit(&sieve->unproven);
        free(sieve->server);
        free(sieve);
}

void sieve_configure(struct sieve *sieve, const struct postgres_config *config)
{
        judge_configure(sieve->proven.judge, config);
        judge_configure(sieve->unproven.judge, config);
}

void sieve_session_up(struct sieve *sieve, const char *server)
{
        free(sieve->server);
        sieve->server = xstrdup(server);
}

void sieve_session_down(struct sieve *sieve)
{
        free(sieve->server);
        sieve->server = NULL;
        bench_close(&sieve->proven);
        bench_close(&sieve->unproven);
}

struct sieve_filter *sieve_filter_open(struct sieve *sieve, const char *text,
    void (*on_given_up)(void *owner, const char *words), void *owner)
{
        struct sieve_filter *filter = xcalloc(1, sizeof *filter);

        filter->sieve = sieve;
        filter->text = xstrdup(text);
        filter->n_events = 1;
        filter->on_given_up = on_given_up;
        filter->owner = owner;
        list_init(&filter->link);
        list_init(&filter->asks);
        return filter;
}

void sieve_filter_close(struct sieve_filter *filter)
{
        if (filter == NULL)
                return;
        assert(list_is_empty(&filter->asks));
        list_remove(&filter->link);
        free(filter->text);
        free(filter);
}

bool sieve_filter_is_given_up(const struct sieve_filter *filter)
{
        return filter->is_given_up;
}

bool sieve_filter_is_slow(const struct sieve_filter *filter)
{
        return filter->is_slow && !filter->is_given_up;
}

void sieve_ask_init(struct sieve_ask *ask, void (*on_sifted)(struct sieve_ask *ask))
{
        *ask = (struct sieve_ask){.on_sifted = on_sifted};
        list_init(&ask->link);
}

bool sieve_ask_is_under_way(const struct sieve_ask *ask)
{
        return !list_is_empty(&ask->link);
}

void sieve_ask(struct sieve_filter *filter, struct sieve_ask *ask)
{
        assert(!sieve_ask_is_under_way(ask) && ask->n_events > 0 && !filter->is_given_up);
        ask->n_sifted = 0;
        list_push_back(&filter->asks, &ask->link);
        if (list_is_empty(&filter->link))
                sieve_stand_in_line(filter);
        bench_serve(bench_of(filter));
}

void sieve_withdraw(struct sieve_ask *ask)
{
        list_remove(&ask->link);
}
