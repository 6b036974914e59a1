#include "outbox/sieve.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "loop/timer.h"
#include "outbox/judge.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A question about proven filters is made so large that it is answered in this time, within bounds. It is
 * cut off by a limit that leaves room for a busy machine. */
#define TOGETHER_US       20000
#define TOGETHER_LIMIT_MS 250
#define EVENTS_MAX        1000
#define FILTERS_MAX       64

/* What takes longer is slow: for each event, and for a question as a whole. PostgreSQL reads so many bytes of
 * JSON in that time. */
#define SLOW_US      1000
#define SLOW_FROM_US 20000
#define BYTES_PER_MS 20000

/* A filter by itself: it begins with one event, and goes on with twice as many after each answer that came
 * in this time. */
#define ALONE_US     20000
#define ALONE_EVENTS 256

/* So much of its time the connection for slow filters rests. */
#define REST_FACTOR  2
#define REST_FROM_US 20000

/* And is there only while it is needed. */
#define IDLE_MS 10000

#define TRIES   3 /* for an event, each with twice the time of the last */
#define STRIKES 3 /* events in a row */

struct sieve_filter {
        struct list link; /* bench::waiting, while anything is asked */
        struct sieve *sieve;
        char *text;
        struct list asks; /* sieve_ask::link */
        bool is_proven, is_given_up;
        size_t n_events;    /* to be asked about at once while it is not proven */
        unsigned n_tries;   /* for the event it is at */
        unsigned n_strikes; /* events in a row that it took too long for */
        void (*on_given_up)(void *owner, const char *words);
        void *owner;
};

/* What is being asked, without pointers to what may be gone when the answer comes. */
struct batch {
        int64_t *ids;
        size_t n_ids, n_ids_max;
        size_t n_bytes;             /* of the payloads, about */
        char *filters[FILTERS_MAX]; /* owned; ascending, each once */
        size_t n_filters;
        int64_t asked_us;
};

/* One connection, with the filters that are asked there. */
struct bench {
        struct sieve *sieve;
        struct judge *judge;
        struct list waiting; /* sieve_filter::link */
        struct batch batch;
        struct timer *rest;
        struct timer *idle; /* armed while nothing waits */
        struct error trouble;
};

struct sieve {
        struct bench proven, unproven;
        char *server; /* owned; NULL: the session is down */
        struct sieve_events events;
        void *owner; /* borrowed */

        /* Of proven filters. */
        double evaluation_us; /* a moving average for one event and one filter */
        unsigned n_halved, n_tries;
};

static int64_t next_id(const struct sieve_ask *ask)
{
        return ask->events[ask->n_sifted].id;
}

static bool is_done(const struct sieve_ask *ask)
{
        return ask->n_sifted == ask->n_events;
}

static struct sieve_ask *ask_of(struct list *link)
{
        return list_owner(link, struct sieve_ask, link);
}

static struct sieve_filter *filter_of(struct list *link)
{
        return list_owner(link, struct sieve_filter, link);
}

static struct bench *bench_of(const struct sieve_filter *filter)
{
        return filter->is_proven ? &filter->sieve->proven : &filter->sieve->unproven;
}

/* ---- the question -------------------------------------------------------------------------- */

static void batch_clear(struct batch *batch)
{
        for (size_t i = 0; i < batch->n_filters; i++)
                free(batch->filters[i]);
        batch->n_filters = 0;
        batch->n_ids = 0;
        batch->n_bytes = 0;
}

/* Where the text is, or would be. */
static size_t batch_place(const struct batch *batch, const char *text, bool *out_is_there)
{
        size_t low = 0, high = batch->n_filters;

        while (low < high) {
                size_t middle = (low + high) / 2;
                int order = strcmp(text, batch->filters[middle]);

                if (order == 0) {
                        *out_is_there = true;
                        return middle;
                }
                if (order < 0)
                        high = middle;
                else
                        low = middle + 1;
        }
        *out_is_there = false;
        return low;
}

/* False if there is no room for it. */
static bool batch_add_filter(struct batch *batch, const char *text)
{
        bool is_there;
        size_t place = batch_place(batch, text, &is_there);

        if (is_there)
                return true;
        if (batch->n_filters == FILTERS_MAX)
                return false;
        memmove(&batch->filters[place + 1], &batch->filters[place],
            (batch->n_filters - place) * sizeof *batch->filters);
        batch->filters[place] = xstrdup(text);
        batch->n_filters++;
        return true;
}

/* What the ask still wants to know of these, from..to. */
static void batch_add_ids(
    struct batch *batch, const struct sieve_ask *ask, int64_t from, int64_t to, size_t n_max)
{
        for (size_t i = ask->n_sifted, n = 0; i < ask->n_events && n < n_max; i++) {
                int64_t id = ask->events[i].id;

                if (id < from || id > to)
                        continue;
                if (batch->n_ids == batch->n_ids_max) {
                        batch->n_ids_max = batch->n_ids_max == 0 ? 64 : 2 * batch->n_ids_max;
                        batch->ids = xrealloc(batch->ids, batch->n_ids_max * sizeof *batch->ids);
                }
                batch->ids[batch->n_ids++] = id;
                batch->n_bytes += ask->events[i].payload_bytes;
                n++;
        }
}

static int compare_ids(const void *a, const void *b)
{
        int64_t left = *(const int64_t *)a, right = *(const int64_t *)b;

        return left < right ? -1 : left > right;
}

static void batch_sort_ids(struct batch *batch)
{
        size_t n_all = batch->n_ids, n = 0;

        qsort(batch->ids, batch->n_ids, sizeof *batch->ids, compare_ids);
        for (size_t i = 0; i < batch->n_ids; i++)
                if (n == 0 || batch->ids[i] != batch->ids[n - 1])
                        batch->ids[n++] = batch->ids[i];
        batch->n_ids = n;
        batch->n_bytes = batch->n_bytes / n_all * n;
}

static void bench_send(struct bench *bench, int64_t limit_ms)
{
        struct batch *batch = &bench->batch;

        batch_sort_ids(batch);
        batch->asked_us = clock_monotonic_us();
        judge_ask(
            bench->judge, &(struct judge_question){.ids = batch->ids,
                              .n_ids = batch->n_ids,
                              .filters = (const char *const *)batch->filters,
                              .n_filters = batch->n_filters,
                              .limit_ms = limit_ms + (int64_t)(batch->n_bytes / BYTES_PER_MS)});
}

/* How many events may be asked about, if that many filters are. */
static size_t n_events_together(const struct sieve *sieve, size_t n_filters)
{
        double n = TOGETHER_US / (sieve->evaluation_us * (double)n_filters);
        size_t n_events = n < 1 ? 1 : n > EVENTS_MAX ? EVENTS_MAX : (size_t)n;

        n_events >>= sieve->n_halved;
        return n_events > 0 ? n_events : 1;
}

/* All that wait for events of the same stretch of the log, which most do. */
static void ask_proven(struct sieve *sieve)
{
        struct bench *bench = &sieve->proven;
        struct sieve_ask *first = ask_of(filter_of(bench->waiting.next)->asks.next);
        size_t n_filters = 0, n_left = first->n_events - first->n_sifted, n_events;
        int64_t from = next_id(first), to;

        list_for_each (link, &bench->waiting)
                if (++n_filters == FILTERS_MAX)
                        break;
        n_events = n_events_together(sieve, n_filters);
        if (n_events > n_left)
                n_events = n_left;
        to = first->events[first->n_sifted + n_events - 1].id;
        list_for_each (filter_link, &bench->waiting) {
                struct sieve_filter *filter = filter_of(filter_link);
                list_for_each (ask_link, &filter->asks) {
                        const struct sieve_ask *ask = ask_of(ask_link);
                        if (next_id(ask) > to || ask->events[ask->n_events - 1].id < from ||
                            bench->batch.n_ids >= 4 * EVENTS_MAX ||
                            !batch_add_filter(&bench->batch, filter->text))
                                continue;
                        batch_add_ids(&bench->batch, ask, from, to, n_events);
                }
        }
        bench_send(bench, TOGETHER_LIMIT_MS);
}

/* One filter, by itself. */
static void ask_unproven(struct sieve *sieve)
{
        struct bench *bench = &sieve->unproven;
        struct sieve_filter *filter = filter_of(bench->waiting.next);
        const struct sieve_ask *ask = ask_of(filter->asks.next);

        batch_add_filter(&bench->batch, filter->text);
        batch_add_ids(&bench->batch, ask, next_id(ask), INT64_MAX, filter->n_events);
        bench_send(bench, SIEVE_LIMIT_MS << filter->n_tries);
}

static void bench_serve(struct bench *bench)
{
        struct sieve *sieve = bench->sieve;

        list_for_each (link, &bench->waiting)
                if (list_is_empty(&filter_of(link)->asks)) /* withdrawn */
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
        if (!judge_is_ready(bench->judge) || timer_is_armed(bench->rest))
                return;
        batch_clear(&bench->batch);
        if (bench == &sieve->proven)
                ask_proven(sieve);
        else
                ask_unproven(sieve);
}

static void end_trouble(struct bench *bench)
{
        if (bench->trouble.kind == ERROR_NONE)
                return;
        bench->trouble.kind = ERROR_NONE;
        bench->sieve->events.on_back(bench->sieve->owner);
}

static void on_rested(void *owner)
{
        bench_serve(owner);
}

static void on_idle(void *owner)
{
        struct bench *bench = owner;

        judge_close(bench->judge);
        end_trouble(bench);
}

/* ---- the answer ---------------------------------------------------------------------------- */

/* Where it belongs now: behind those that wait. */
static void stand_in_line(struct sieve_filter *filter)
{
        list_remove(&filter->link);
        if (!list_is_empty(&filter->asks))
                list_push_back(&bench_of(filter)->waiting, &filter->link);
}

static void tell_sifted(struct list *done)
{
        while (!list_is_empty(done)) {
                struct sieve_ask *ask = ask_of(done->next);
                list_remove(&ask->link);
                ask->on_sifted(ask);
        }
}

static void give_up(struct sieve_filter *filter, int64_t id, struct list *done)
{
        char words[250];

        filter->is_given_up = true;
        snprintf(words, sizeof words,
            "its filter takes too long: more than %d ms for each of %d events in a row, the last "
            "with "
            "the id %" PRId64 "; simplify it",
            SIEVE_LIMIT_MS << (TRIES - 1), STRIKES, id);
        list_for_each (link, &filter->asks) {
                list_remove(link);
                list_push_back(done, link);
        }
        stand_in_line(filter);
        filter->on_given_up(filter->owner, words);
}

/* The event is not judged, and its filter has one chance less, unless `is_its_fault` is false. */
static void note_too_slow(
    struct sieve_filter *filter, int64_t id, bool is_its_fault, struct list *done)
{
        list_for_each (link, &filter->asks) {
                struct sieve_ask *ask = ask_of(link);
                if (next_id(ask) != id)
                        continue;
                ask->sifts[ask->n_sifted++] = SIFT_UNJUDGED;
                if (is_done(ask)) {
                        list_remove(link);
                        list_push_back(done, link);
                }
        }
        filter->n_tries = 0;
        filter->n_strikes += is_its_fault;
        if (filter->n_strikes == STRIKES)
                give_up(filter, id, done);
}

struct answer {
        const struct batch *batch;
        const struct judgement *judgement;
        size_t *
            rows; /* of the judgement, in the order of the batch's ids; SIZE_MAX: it is not there */
};

static size_t *order_rows(const struct batch *batch, const struct judgement *judgement)
{
        size_t *rows = xcalloc(batch->n_ids, sizeof *rows);

        for (size_t i = 0; i < batch->n_ids; i++)
                rows[i] = SIZE_MAX;
        for (size_t i = 0; i < judgement_n_events(judgement); i++) {
                int64_t id = judgement_event(judgement, i);
                const int64_t *at =
                    bsearch(&id, batch->ids, batch->n_ids, sizeof *batch->ids, compare_ids);
                rows[at - batch->ids] = i;
        }
        return rows;
}

static enum sift sift_of(const struct answer *answer, size_t at, size_t filter)
{
        size_t row = answer->rows[at];

        if (row == SIZE_MAX)
                return SIFT_UNJUDGED;
        return judgement_holds(answer->judgement, row, filter) ? SIFT_PASSED : SIFT_STOPPED;
}

/* As far as the answer goes. */
static void fill_in(struct sieve_ask *ask, const struct answer *answer, size_t filter)
{
        const struct batch *batch = answer->batch;

        while (!is_done(ask)) {
                int64_t id = next_id(ask);
                const int64_t *at =
                    bsearch(&id, batch->ids, batch->n_ids, sizeof *batch->ids, compare_ids);
                if (at == NULL)
                        return;
                ask->sifts[ask->n_sifted++] = sift_of(answer, (size_t)(at - batch->ids), filter);
        }
}

static void take_answer(struct bench *bench, const struct answer *answer, struct list *done)
{
        list_for_each (filter_link, &bench->waiting) {
                struct sieve_filter *filter = filter_of(filter_link);
                bool is_there;
                size_t place = batch_place(answer->batch, filter->text, &is_there);
                if (!is_there)
                        continue;
                list_for_each (link, &filter->asks) {
                        fill_in(ask_of(link), answer, place);
                        if (!is_done(ask_of(link)))
                                continue;
                        list_remove(link);
                        list_push_back(done, link);
                }
        }
}

/* Calls it for each filter of the bench that was asked; these stand in line anew. */
static void for_each_asked(struct bench *bench,
    void (*fn)(struct sieve_filter *filter, const void *context), const void *context)
{
        struct list asked;

        list_init(&asked);
        list_for_each (link, &bench->waiting) {
                bool is_there;
                (void)batch_place(&bench->batch, filter_of(link)->text, &is_there);
                if (!is_there)
                        continue;
                list_remove(link);
                list_push_back(&asked, link);
        }
        while (!list_is_empty(&asked)) {
                struct sieve_filter *filter = filter_of(asked.next);
                if (fn != NULL)
                        fn(filter, context);
                stand_in_line(filter);
        }
}

static void become_unproven(struct sieve_filter *filter, const void *context)
{
        (void)context;
        filter->is_proven = false;
        filter->n_events = 1;
        filter->n_tries = 0;
}

static int64_t slow_us(const struct batch *batch)
{
        return SLOW_FROM_US + SLOW_US * (int64_t)(batch->n_ids * batch->n_filters) +
               (int64_t)(batch->n_bytes / BYTES_PER_MS) * 1000;
}

/* Taken together they were slow: each has to show by itself that it was not the one. */
static void note_time_together(struct sieve *sieve, int64_t took_us)
{
        const struct batch *batch = &sieve->proven.batch;
        double each_us = (double)took_us / (double)(batch->n_ids * batch->n_filters);

        sieve->n_tries = 0;
        if (sieve->n_halved > 0)
                sieve->n_halved--;
        sieve->evaluation_us = (3 * sieve->evaluation_us + each_us) / 4;
        for_each_asked(&sieve->proven, took_us > slow_us(batch) ? become_unproven : NULL, NULL);
}

static void note_time_alone(struct sieve_filter *filter, const void *context)
{
        const int64_t *took_us = context;

        filter->n_tries = 0;
        filter->n_strikes = 0;
        filter->is_proven = *took_us <= slow_us(&filter->sieve->unproven.batch) / 2;
        if (*took_us < ALONE_US && filter->n_events < ALONE_EVENTS)
                filter->n_events *= 2;
        else if (*took_us > SIEVE_LIMIT_MS * 1000 / 2 && filter->n_events > 1)
                filter->n_events /= 2;
}

/* However many slow filters there are, they have a part of one connection's time. */
static void rest(struct bench *bench, int64_t took_us)
{
        if (bench == &bench->sieve->unproven && took_us > REST_FROM_US)
                timer_arm(bench->rest, (uint64_t)(REST_FACTOR * took_us / 1000));
}

static void on_judged(void *owner, const struct judgement *judgement)
{
        struct bench *bench = owner;
        struct answer answer = {.batch = &bench->batch,
            .judgement = judgement,
            .rows = order_rows(&bench->batch, judgement)};
        int64_t took_us = clock_monotonic_us() - bench->batch.asked_us;
        struct list done;

        list_init(&done);
        take_answer(bench, &answer, &done);
        free(answer.rows);
        if (bench == &bench->sieve->proven)
                note_time_together(bench->sieve, took_us);
        else
                for_each_asked(bench, note_time_alone, &took_us);
        rest(bench, took_us);
        tell_sifted(&done);
}

static void fail_proven(struct sieve *sieve, const struct judge_failure *failure, struct list *done)
{
        struct bench *bench = &sieve->proven;
        const struct batch *batch = &bench->batch;

        if (failure->filter >= 0) { /* found out */
                list_for_each (link, &bench->waiting) {
                        if (strcmp(filter_of(link)->text, batch->filters[failure->filter]) != 0)
                                continue;
                        become_unproven(filter_of(link), NULL);
                        stand_in_line(filter_of(link));
                }
                return;
        }
        if (batch->n_ids > 1) {
                sieve->n_halved++;
        } else if (++sieve->n_tries == TRIES) { /* the event itself, whatever it is asked */
                sieve->n_tries = 0;
                list_for_each (link, &bench->waiting)
                        note_too_slow(filter_of(link), batch->ids[0], false, done);
        }
        for_each_asked(bench, NULL, NULL);
}

struct slowness {
        const struct judge_failure *failure;
        struct list *done;
};

static void note_failure_alone(struct sieve_filter *filter, const void *context)
{
        const struct slowness *slowness = context;
        const struct batch *batch = &filter->sieve->unproven.batch;
        const struct judge_failure *failure = slowness->failure;

        if (list_is_empty(&filter->asks) || next_id(ask_of(filter->asks.next)) != batch->ids[0])
                return; /* withdrawn, or another one's filter, of the same words */
        if (batch->n_ids > 1)
                filter->n_events = 1;
        else if (++filter->n_tries == TRIES)
                note_too_slow(filter, batch->ids[0], failure->id == 0 || failure->filter >= 0,
                    slowness->done);
}

static void on_failed(void *owner, const struct judge_failure *failure)
{
        struct bench *bench = owner;
        int64_t took_us = clock_monotonic_us() - bench->batch.asked_us;
        struct list done;

        list_init(&done);
        if (bench == &bench->sieve->proven) {
                fail_proven(bench->sieve, failure, &done);
        } else {
                const struct slowness slowness = {.failure = failure, .done = &done};
                for_each_asked(bench, note_failure_alone, &slowness);
        }
        rest(bench, took_us);
        tell_sifted(&done);
}

static void on_ready(void *owner)
{
        struct bench *bench = owner;
        struct sieve *sieve = bench->sieve;

        end_trouble(bench);
        bench_serve(&sieve->proven); /* filters may have moved from one to the other */
        bench_serve(&sieve->unproven);
}

static void on_lost(void *owner, const struct error *error, int64_t retry_ms)
{
        struct bench *bench = owner;

        bench->trouble = *error;
        bench->sieve->events.on_lost(bench->sieve->owner, error, retry_ms);
}

/* ---- all of them --------------------------------------------------------------------------- */

static void bench_init(struct bench *bench, struct sieve *sieve, uv_loop_t *loop, const char *name,
    const struct postgres_config *config)
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

static void bench_deinit(struct bench *bench)
{
        assert(list_is_empty(&bench->waiting));
        judge_destroy(bench->judge);
        timer_destroy(bench->rest);
        timer_destroy(bench->idle);
        batch_clear(&bench->batch);
        free(bench->batch.ids);
}

static void bench_close(struct bench *bench)
{
        judge_close(bench->judge);
        timer_disarm(bench->rest);
        timer_disarm(bench->idle);
        bench->trouble.kind = ERROR_NONE;
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

const char *sieve_trouble(const struct sieve *sieve)
{
        if (sieve->proven.trouble.kind != ERROR_NONE)
                return sieve->proven.trouble.text;
        return sieve->unproven.trouble.kind != ERROR_NONE ? sieve->unproven.trouble.text : NULL;
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
                stand_in_line(filter);
        bench_serve(bench_of(filter));
}

void sieve_withdraw(struct sieve_ask *ask)
{
        list_remove(&ask->link);
}
