#include "base/alloc.h"
#include "base/clock.h"
#include "loop/timer.h"
#include "outbox/filter_internal.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What takes longer is slow: for each event, and for a question as a whole. */
#define SLOW_US      1000
#define SLOW_FROM_US 20000

/* A filter by itself is asked about twice as many events after each answer that came in this
 * time. */
#define ALONE_US     20000
#define ALONE_EVENTS 256

/* So much of its time the connection for slow filters rests. */
#define REST_FACTOR  2
#define REST_FROM_US 20000

/* A filter that has been slow has to answer for 4, 16, … events in good time, up to 4096, before it
 * is asked together with others again. */
#define RECORD_MAX 6

/* What the server cannot answer is asked again after 1, 2, 4 and 8 s. */
#define REFUSALS   5
#define REFUSED_MS 1000

static bool is_done(const struct filter_request *ask)
{
        return ask->n_answered == ask->n_events;
}

static void tell_answered(struct list *done)
{
        while (!list_is_empty(done)) {
                struct filter_request *ask = filter_request_of(done->next);
                list_remove(&ask->link);
                ask->on_answered(ask);
        }
}

static void give_up(struct filter *filter, int64_t id, struct list *done)
{
        char words[250];

        filter->is_given_up = true;
        snprintf(words, sizeof words,
            "its filter takes too long: more than %d ms for each of %d events in a row, the last "
            "with the id %" PRId64 "; simplify it",
            FILTER_QUEUE_LIMIT_MS << (FILTER_QUEUE_TRIES - 1), FILTER_QUEUE_STRIKES, id);
        list_for_each (link, &filter->asks) {
                list_remove(link);
                list_push_back(done, link);
        }
        filter_queue_stand_in_line(filter);
        filter->on_given_up(filter->owner, words);
}

/* The event is not judged, and its filter has one chance less, unless `is_its_fault` is false. */
static void note_too_slow(struct filter *filter, int64_t id, bool is_its_fault, struct list *done)
{
        list_for_each (link, &filter->asks) {
                struct filter_request *ask = filter_request_of(link);
                if (filter_queue_next_id(ask) != id)
                        continue;
                ask->answers[ask->n_answered++] = FILTER_UNJUDGED;
                if (is_done(ask)) {
                        list_remove(link);
                        list_push_back(done, link);
                }
        }
        filter->n_tries = 0;
        filter->n_refusals = 0;
        filter->n_strikes += is_its_fault;
        if (filter->n_strikes == FILTER_QUEUE_STRIKES)
                give_up(filter, id, done);
}

struct answer {
        const struct filter_batch *batch;
        const struct filter_result *result;
        size_t *rows; /* of the result, in the order of the batch's ids; SIZE_MAX: none */
};

static size_t *order_rows(const struct filter_batch *batch, const struct filter_result *result)
{
        size_t *rows = xcalloc(batch->n_ids, sizeof *rows);

        for (size_t i = 0; i < batch->n_ids; i++)
                rows[i] = SIZE_MAX;
        for (size_t i = 0; i < filter_result_n_events(result); i++) {
                rows[filter_batch_find(batch, filter_result_event(result, i))] = i;
        }
        return rows;
}

static enum filter_answer answer_at(const struct answer *answer, size_t at, size_t filter)
{
        size_t row = answer->rows[at];

        if (row == SIZE_MAX)
                return FILTER_UNJUDGED;
        return filter_result_holds(answer->result, row, filter) ? FILTER_PASSED : FILTER_STOPPED;
}

/* As far as the answer goes. */
static void fill_in(struct filter_request *ask, const struct answer *answer, size_t filter)
{
        while (!is_done(ask)) {
                ptrdiff_t at = filter_batch_find(answer->batch, filter_queue_next_id(ask));

                if (at < 0)
                        return;
                ask->answers[ask->n_answered++] = answer_at(answer, (size_t)at, filter);
        }
}

static void take_answer(struct filter_bench *bench, const struct answer *answer, struct list *done)
{
        list_for_each (filter_link, &bench->waiting) {
                struct filter *filter = filter_of(filter_link);
                size_t place;
                if (!filter_batch_has(answer->batch, filter->text, &place))
                        continue;
                list_for_each (link, &filter->asks) {
                        fill_in(filter_request_of(link), answer, place);
                        if (!is_done(filter_request_of(link)))
                                continue;
                        list_remove(link);
                        list_push_back(done, link);
                }
        }
}

/* Calls it for each filter of the bench that was asked; these stand in line anew. */
static void for_each_asked(struct filter_bench *bench,
    void (*fn)(struct filter *filter, const void *context), const void *context)
{
        struct list asked;

        list_init(&asked);
        list_for_each (link, &bench->waiting) {
                size_t place;
                if (!filter_batch_has(&bench->batch, filter_of(link)->text, &place))
                        continue;
                list_remove(link);
                list_push_back(&asked, link);
        }
        while (!list_is_empty(&asked)) {
                struct filter *filter = filter_of(asked.next);
                if (fn != NULL)
                        fn(filter, context);
                filter_queue_stand_in_line(filter);
        }
}

static void become_unproven(struct filter *filter, const void *context)
{
        (void)context;
        filter->is_proven = false;
        filter->n_events = 1;
        filter->n_tries = 0;
}

static void note_on_record(struct filter *filter)
{
        if (filter->record < RECORD_MAX)
                filter->record++;
        filter->n_good = 0;
}

static void become_slow(struct filter *filter)
{
        if (!filter->is_slow)
                note_on_record(filter);
        filter->is_slow = true;
        filter->n_good = 0;
}

static int64_t slow_us(const struct filter_batch *batch)
{
        return SLOW_FROM_US + SLOW_US * (int64_t)(batch->n_ids * batch->n_filters) +
               filter_batch_reading_ms(batch) * 1000;
}

/* Taken together they were slow: each has to show by itself that it was not the one. */
static void note_time_together(struct filter_queue *queue, int64_t took_us)
{
        const struct filter_batch *batch = &queue->proven.batch;
        double each_us = (double)took_us / (double)(batch->n_ids * batch->n_filters);

        queue->n_tries = 0;
        queue->n_found_out = 0;
        if (queue->n_halved > 0)
                queue->n_halved--;
        queue->evaluation_us = (3 * queue->evaluation_us + each_us) / 4;
        for_each_asked(&queue->proven, took_us > slow_us(batch) ? become_unproven : NULL, NULL);
}

static void note_time_alone(struct filter *filter, const void *context)
{
        const struct filter_batch *batch = &filter->queue->unproven.batch;
        const int64_t *took_us = context;

        filter->n_tries = 0;
        filter->n_refusals = 0;
        filter->n_strikes = 0;
        if (*took_us > slow_us(batch))
                become_slow(filter);
        else
                filter->is_slow = false;
        if (*took_us <= slow_us(batch) / 2) {
                filter->n_good += batch->n_ids;
                filter->is_proven = filter->n_good >= (size_t)1 << 2 * filter->record;
        }
        if (*took_us < ALONE_US && filter->n_events < ALONE_EVENTS)
                filter->n_events *= 2;
        else if (*took_us > FILTER_QUEUE_LIMIT_MS * 1000 / 2 && filter->n_events > 1)
                filter->n_events /= 2;
}

/* However many slow filters there are, they have a part of one connection's time. */
static void rest(struct filter_bench *bench, int64_t took_us)
{
        if (bench == &bench->queue->unproven && took_us > REST_FROM_US &&
            !timer_is_armed(bench->rest))
                timer_arm(bench->rest, (uint64_t)(REST_FACTOR * took_us / 1000));
}

void filter_queue_take_result(struct filter_bench *bench, const struct filter_result *result)
{
        struct answer answer = {
            .batch = &bench->batch, .result = result, .rows = order_rows(&bench->batch, result)};
        int64_t took_us = clock_monotonic_us() - bench->batch.asked_us;
        struct list done;

        list_init(&done);
        bench->is_refused = false;
        take_answer(bench, &answer, &done);
        free(answer.rows);
        if (bench == &bench->queue->proven)
                note_time_together(bench->queue, took_us);
        else
                for_each_asked(bench, note_time_alone, &took_us);
        rest(bench, took_us);
        tell_answered(&done);
}

static void find_out(struct filter_queue *queue, const char *text)
{
        struct filter_bench *bench = &queue->proven;

        queue->n_found_out++;
        list_for_each (link, &bench->waiting) {
                struct filter *filter = filter_of(link);
                if (strcmp(filter->text, text) != 0)
                        continue;
                become_unproven(filter, NULL);
                note_on_record(filter);
                filter_queue_stand_in_line(filter);
        }
}

static void fail_proven(
    struct filter_queue *queue, const struct filter_query_failure *failure, struct list *done)
{
        struct filter_bench *bench = &queue->proven;
        const struct filter_batch *batch = &bench->batch;

        if (failure->filter >= 0) {
                find_out(queue, batch->filters[failure->filter]);
                return;
        }
        if (batch->n_ids > 1) {
                queue->n_halved++;
        } else if (!failure->is_time_up) { /* other filters are not to wait for the server */
                for_each_asked(bench, become_unproven, NULL);
                return;
        } else if (++queue->n_tries ==
                   FILTER_QUEUE_TRIES) { /* the event itself, whatever it is asked */
                queue->n_tries = 0;
                list_for_each (link, &bench->waiting)
                        note_too_slow(filter_of(link), batch->ids[0], false, done);
        }
        for_each_asked(bench, NULL, NULL);
}

struct slowness {
        const struct filter_query_failure *failure;
        struct list *done;
};

static void note_refusal(struct filter *filter, const struct slowness *slowness)
{
        struct filter_bench *bench = &filter->queue->unproven;
        uint64_t retry_ms = (uint64_t)REFUSED_MS << filter->n_refusals;

        filter->is_slow = true;
        if (++filter->n_refusals == REFUSALS) {
                note_too_slow(filter, bench->batch.ids[0], false, slowness->done);
                return;
        }
        timer_arm(bench->rest, retry_ms);
        bench->is_refused = true;
        filter_queue_note_trouble(bench, &slowness->failure->error, (int64_t)retry_ms);
}

static void note_failure_alone(struct filter *filter, const void *context)
{
        const struct slowness *slowness = context;
        const struct filter_batch *batch = &filter->queue->unproven.batch;
        const struct filter_query_failure *failure = slowness->failure;

        if (list_is_empty(&filter->asks) ||
            filter_queue_next_id(filter_request_of(filter->asks.next)) != batch->ids[0])
                return; /* withdrawn, or another one's filter, of the same words */
        if (failure->is_time_up)
                become_slow(filter);
        if (batch->n_ids > 1)
                filter->n_events = 1;
        else if (!failure->is_time_up)
                note_refusal(filter, slowness);
        else if (++filter->n_tries == FILTER_QUEUE_TRIES)
                note_too_slow(filter, batch->ids[0], failure->id == 0 || failure->filter >= 0,
                    slowness->done);
}

void filter_queue_take_failure(
    struct filter_bench *bench, const struct filter_query_failure *failure)
{
        int64_t took_us = clock_monotonic_us() - bench->batch.asked_us;
        struct list done;

        list_init(&done);
        bench->is_refused = false;
        if (bench == &bench->queue->proven) {
                fail_proven(bench->queue, failure, &done);
        } else {
                const struct slowness slowness = {.failure = failure, .done = &done};
                for_each_asked(bench, note_failure_alone, &slowness);
        }
        rest(bench, took_us);
        tell_answered(&done);
}
