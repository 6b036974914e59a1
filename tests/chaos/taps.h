/*
 * An application with an outbox of its own, which is attached, and with a table whose inserts are
 * captured: writers use them beside courier.outbox, so their rows must arrive like all other
 * events. The rows of the outbox are marked when they are delivered. A session locks some of them
 * now and then, and looks whether any was marked too early.
 */
#pragma once

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct taps {
        const char *dsn; /* borrowed; of the superuser */
        pthread_t thread;
        atomic_bool is_stopping;
        uint64_t n_locked; /* rows that were locked for a while */
        uint64_t n_looks;
        uint64_t n_too_early; /* rows that were marked although a sink had not passed their event */

        /* After taps_judge(): */
        int64_t n_marked;
        int64_t n_marked_dead;
        int64_t n_unmarked;
        int64_t n_dead_marks; /* marks that were given up */
};

/* Where writers write in turns: the first is courier.outbox. They have the columns topic, key,
 * payload and deliver_at. */
enum { N_TAP_TABLES = 3, CAPTURED_TABLE = 2 };
extern const char *const tap_tables[N_TAP_TABLES];

/* Makes the tables; before relays and writers begin. */
void taps_begin(struct taps *taps, const char *dsn);
void taps_start(struct taps *taps);

/* Every row that was delivered is marked. */
bool taps_are_marked(const struct taps *taps);

void taps_stop(struct taps *taps);
void taps_judge(struct taps *taps);
