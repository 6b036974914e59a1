/* The parts of the queue, among themselves: filter_queue.c asks, filter_answers.c takes the answers
 * and counts what each filter costs, filter_bench.c has what both work on. */
#pragma once

#include "base/list.h"
#include "outbox/filter_query.h"
#include "outbox/filter_queue.h"

enum {
        FILTER_QUEUE_FILTERS_MAX = 64, /* in a question */
};

struct filter {
        struct list link; /* filter_bench::waiting, while anything is asked */
        struct filter_queue *queue;
        char *text;
        struct list asks; /* filter_request::link */
        bool is_proven, is_given_up;
        bool is_slow;        /* it was, when it was asked by itself last */
        unsigned record;     /* so often it has been found to be slow */
        size_t n_good;       /* events since that were answered in good time */
        size_t n_events;     /* to be asked about at once while it is not proven */
        unsigned n_tries;    /* for the event it is at */
        unsigned n_refusals; /* for that event, by a server that could not answer */
        unsigned n_strikes;  /* events in a row that it took too long for */
        void (*on_given_up)(void *owner, const char *words);
        void *owner;
};

/* What is being asked, without pointers to what may be gone when the answer comes. */
struct filter_batch {
        int64_t *ids; /* ascending, each once */
        size_t n_ids, n_ids_max;
        size_t n_bytes;                          /* of the payloads, about */
        char *filters[FILTER_QUEUE_FILTERS_MAX]; /* owned; ascending, each once */
        size_t n_filters;
        int64_t asked_us;
};

/* One connection, with the filters that are asked there. */
struct filter_bench {
        struct filter_queue *queue;
        struct filter_query *query;
        struct list waiting; /* filter::link */
        struct filter_batch batch;
        struct timer *rest; /* armed: slow filters have to wait */
        struct timer *idle; /* armed while nothing waits */
        bool is_in_trouble; /* and that has been told */
        bool is_refused;    /* by the server, at the last question */
};

struct filter_queue {
        struct filter_bench proven, unproven;
        char *server; /* owned; NULL: the session is down */
        struct filter_queue_events events;
        void *owner; /* borrowed */

        /* Of proven filters. */
        double evaluation_us; /* a moving average for one event and one filter */
        unsigned n_halved, n_tries;
        unsigned n_found_out; /* slow ones in a row, without an answer between them */
};

/* filter_bench.c */
struct filter_bench *filter_bench_of(const struct filter *filter); /* where it belongs now */
void filter_queue_stand_in_line(struct filter *filter); /* there, if it is asked anything */
void filter_queue_note_trouble(
    struct filter_bench *bench, const struct error *error, int64_t retry_ms);
void filter_queue_end_trouble(struct filter_bench *bench);

void filter_batch_clear(struct filter_batch *batch);
bool filter_batch_has(const struct filter_batch *batch, const char *text, size_t *out_place);
bool filter_batch_add_filter(
    struct filter_batch *batch, const char *text); /* false: there is no room */
/* What the ask still wants to know of the events from..to; at most n_max of them. */
void filter_batch_add_ids(struct filter_batch *batch, const struct filter_request *ask,
    int64_t from, int64_t to, size_t n_max);
void filter_batch_close(struct filter_batch *batch); /* nothing more is added */
ptrdiff_t filter_batch_find(const struct filter_batch *batch, int64_t id); /* its place, or -1 */
int64_t filter_batch_reading_ms(
    const struct filter_batch *batch); /* for PostgreSQL to read the payloads */

/* filter_answers.c: what the query answers. */
void filter_queue_take_result(struct filter_bench *bench, const struct filter_result *result);
void filter_queue_take_failure(
    struct filter_bench *bench, const struct filter_query_failure *failure);

static inline int64_t filter_queue_next_id(const struct filter_request *ask)
{
        return ask->events[ask->n_answered].id;
}

static inline struct filter_request *filter_request_of(struct list *link)
{
        return list_owner(link, struct filter_request, link);
}

static inline struct filter *filter_of(struct list *link)
{
        return list_owner(link, struct filter, link);
}
