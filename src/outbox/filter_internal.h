/* The parts of the sieve, among themselves: sieve.c, whose turn it is; sieve_batch.c, what is asked at once;
 * sieve_answers.c, what the answer says of the events, and the time that it took of the filters. */
#pragma once

#include "base/list.h"
#include "outbox/filter_query.h"
#include "outbox/filter_queue.h"

enum {
        SIEVE_FILTERS_MAX = 64, /* in a question */
};

struct sieve_filter {
        struct list link; /* sieve_bench::waiting, while anything is asked */
        struct sieve *sieve;
        char *text;
        struct list asks; /* sieve_ask::link */
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
struct sieve_batch {
        int64_t *ids; /* ascending, each once */
        size_t n_ids, n_ids_max;
        size_t n_bytes;                   /* of the payloads, about */
        char *filters[SIEVE_FILTERS_MAX]; /* owned; ascending, each once */
        size_t n_filters;
        int64_t asked_us;
};

/* One connection, with the filters that are asked there. */
struct sieve_bench {
        struct sieve *sieve;
        struct judge *judge;
        struct list waiting; /* sieve_filter::link */
        struct sieve_batch batch;
        struct timer *rest; /* armed: slow filters have to wait */
        struct timer *idle; /* armed while nothing waits */
        bool is_in_trouble; /* and that has been told */
        bool is_refused;    /* by the server, at the last question */
};

struct sieve {
        struct sieve_bench proven, unproven;
        char *server; /* owned; NULL: the session is down */
        struct sieve_events events;
        void *owner; /* borrowed */

        /* Of proven filters. */
        double evaluation_us; /* a moving average for one event and one filter */
        unsigned n_halved, n_tries;
        unsigned n_found_out; /* slow ones in a row, without an answer between them */
};

/* sieve.c */
void sieve_stand_in_line(
    struct sieve_filter *filter); /* where it belongs now, if it is asked anything */

void sieve_note_trouble(struct sieve_bench *bench, const struct error *error, int64_t retry_ms);
void sieve_end_trouble(struct sieve_bench *bench);

/* sieve_batch.c */
void sieve_batch_clear(struct sieve_batch *batch);
bool sieve_batch_has(const struct sieve_batch *batch, const char *text, size_t *out_place);
bool sieve_batch_add_filter(
    struct sieve_batch *batch, const char *text); /* false: there is no room */
/* What the ask still wants to know of the events from..to; at most n_max of them. */
void sieve_batch_add_ids(
    struct sieve_batch *batch, const struct sieve_ask *ask, int64_t from, int64_t to, size_t n_max);
void sieve_batch_close(struct sieve_batch *batch);                       /* nothing more is added */
ptrdiff_t sieve_batch_find(const struct sieve_batch *batch, int64_t id); /* its place, or -1 */
int64_t sieve_batch_reading_ms(
    const struct sieve_batch *batch); /* for PostgreSQL to read the payloads */

/* sieve_answers.c: events of the judge. */
void sieve_take_judgement(struct sieve_bench *bench, const struct judgement *judgement);
void sieve_take_failure(struct sieve_bench *bench, const struct judge_failure *failure);

static inline int64_t sieve_next_id(const struct sieve_ask *ask)
{
        return ask->events[ask->n_sifted].id;
}

static inline struct sieve_ask *sieve_ask_of(struct list *link)
{
        return list_owner(link, struct sieve_ask, link);
}

static inline struct sieve_filter *sieve_filter_of(struct list *link)
{
        return list_owner(link, struct sieve_filter, link);
}
