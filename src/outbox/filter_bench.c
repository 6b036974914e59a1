/*
 * One connection of the queue: the filters that stand in line there, what is asked at once, and
 * whether the owner was told of trouble.
 */
#include "base/alloc.h"
#include "outbox/filter_internal.h"

#include <stdlib.h>
#include <string.h>

void filter_batch_clear(struct filter_batch *batch)
{
        for (size_t i = 0; i < batch->n_filters; i++)
                free(batch->filters[i]);
        batch->n_filters = 0;
        batch->n_ids = 0;
        batch->n_bytes = 0;
}

/* Where the text is, or would be. */
bool filter_batch_has(const struct filter_batch *batch, const char *text, size_t *out_place)
{
        size_t low = 0, high = batch->n_filters;

        while (low < high) {
                size_t middle = (low + high) / 2;
                int order = strcmp(text, batch->filters[middle]);

                if (order == 0) {
                        *out_place = middle;
                        return true;
                }
                if (order < 0)
                        high = middle;
                else
                        low = middle + 1;
        }
        *out_place = low;
        return false;
}

bool filter_batch_add_filter(struct filter_batch *batch, const char *text)
{
        size_t place;

        if (filter_batch_has(batch, text, &place))
                return true;
        if (batch->n_filters == FILTER_QUEUE_FILTERS_MAX)
                return false;
        memmove(&batch->filters[place + 1], &batch->filters[place],
            (batch->n_filters - place) * sizeof *batch->filters);
        batch->filters[place] = xstrdup(text);
        batch->n_filters++;
        return true;
}

void filter_batch_add_ids(struct filter_batch *batch, const struct filter_request *ask,
    int64_t from, int64_t to, size_t n_max)
{
        for (size_t i = ask->n_answered, n = 0; i < ask->n_events && n < n_max; i++) {
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

void filter_batch_close(struct filter_batch *batch)
{
        size_t n_all = batch->n_ids, n = 0;

        qsort(batch->ids, batch->n_ids, sizeof *batch->ids, compare_ids);
        for (size_t i = 0; i < batch->n_ids; i++)
                if (n == 0 || batch->ids[i] != batch->ids[n - 1])
                        batch->ids[n++] = batch->ids[i];
        batch->n_ids = n;
        batch->n_bytes = batch->n_bytes / n_all * n;
}

ptrdiff_t filter_batch_find(const struct filter_batch *batch, int64_t id)
{
        const int64_t *at = bsearch(&id, batch->ids, batch->n_ids, sizeof *batch->ids, compare_ids);

        return at == NULL ? -1 : at - batch->ids;
}

int64_t filter_batch_reading_ms(const struct filter_batch *batch)
{
        return (int64_t)(batch->n_bytes / FILTER_QUEUE_BYTES_PER_MS);
}

struct filter_bench *filter_bench_of(const struct filter *filter)
{
        return filter->is_proven ? &filter->queue->proven : &filter->queue->unproven;
}

/* A filter that had too little time for an event goes on with it until that is decided; the others
 * take turns. */
static bool keeps_its_place(const struct filter *filter)
{
        return !filter->is_proven && (filter->n_tries > 1 || filter->n_strikes > 0);
}

void filter_queue_stand_in_line(struct filter *filter)
{
        struct filter_bench *bench = filter_bench_of(filter);

        list_remove(&filter->link);
        if (list_is_empty(&filter->asks))
                return;
        if (keeps_its_place(filter))
                list_push_front(&bench->waiting, &filter->link);
        else
                list_push_back(&bench->waiting, &filter->link);
}

void filter_queue_note_trouble(
    struct filter_bench *bench, const struct error *error, int64_t retry_ms)
{
        bench->is_in_trouble = true;
        bench->queue->events.on_trouble(bench->queue->owner, error, retry_ms);
}

void filter_queue_end_trouble(struct filter_bench *bench)
{
        if (!bench->is_in_trouble)
                return;
        bench->is_in_trouble = false;
        bench->queue->events.on_back(bench->queue->owner);
}
