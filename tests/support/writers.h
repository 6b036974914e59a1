/*
 * Applications at work: threads that publish in transactions of every kind (short, long, bulk, with
 * savepoints, rolled back) and remember what they committed. They outlive the server: after a lost
 * connection they connect again and go on.
 *
 * Event n of writer w has the topic "test.w", the key "w" and the payload "[w, n]", unless the
 * options say otherwise; a writer is one session, so its committed events are to be delivered in
 * the order of n.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct writers;

struct writer_options {
        unsigned n_writers;
        unsigned n_transactions; /* of each; 0: until writers_stop() */
        unsigned pause_us;       /* between two transactions, so that the load has a measure */
        unsigned long_ms;        /* how long one may be open; 0: 30 ms */
        unsigned seed;
        /* Columns of courier.outbox, and SQL expressions for them in terms of w and n, both
         * separated by commas; borrowed. NULL: as above. */
        const char *columns;
        const char *event_sql;
        /* Tables that have these columns: writer w uses tables[w % n_tables]; borrowed. None:
         * courier.outbox. */
        const char *const *tables;
        unsigned n_tables;
};

enum published {
        PUBLISHED_NOT,      /* rolled back, or its transaction was cut off before COMMIT */
        PUBLISHED,          /* COMMIT was answered */
        PUBLISHED_IN_DOUBT, /* the connection was lost between COMMIT and its answer */
};

/* `dsn` is borrowed. */
struct writers *writers_start(const char *dsn, const struct writer_options *options);

/* True once all have done their transactions; takes a struct writers. */
bool writers_have_ended(void *writers);

/* Also for those that pause just now. */
void writers_set_pause(struct writers *writers, unsigned pause_us);

/* Waits for their transactions at hand, or for all they were to do. From here on: */
void writers_stop(struct writers *writers);

unsigned writers_count(const struct writers *writers);
unsigned writers_n_events(const struct writers *writers, unsigned writer);
enum published writers_outcome(const struct writers *writers, unsigned writer, unsigned number);

/* The wall clock when its COMMIT was answered; 0 if it was not. */
int64_t writers_committed_us(const struct writers *writers, unsigned writer, unsigned number);

void writers_destroy(struct writers *writers); /* NULL is allowed */
