/*
 * Which lane of a sink starts an attempt next. The receivers or shards of a sink share its
 * attempts, and all sinks share the turns of the loop. Lanes that have to wait
 * stand in line. A free attempt goes to the lane with the fewest in flight, and
 * among those with as many to the one that has waited longest: it is called.
 */
#pragma once

#include "base/list.h"

#include <stdbool.h>
#include <stdint.h>

struct dispatcher;
struct runner;
struct timer;

#define N_LINES 64 /* the bits of starts::filled */

struct starts {
        struct list lines[N_LINES]; /* runner::line_link: lanes that wait, by how many they have */
        uint64_t filled;            /* bits of the lines in which any stands */
        unsigned n_called;          /* lanes that were called and have not come yet */
        uint64_t n_turn;            /* work::n_turn of the newest start */
        int64_t began_us;           /* the first start of that turn */
        bool are_over;              /* for that turn; */
        struct timer *due;          /* owned; armed: the line goes on in the next */
};

void starts_init(struct dispatcher *dispatcher);
void starts_deinit(struct dispatcher *dispatcher);

/* True: it was called, and an attempt is kept for it. Asking answers the call. */
bool starts_answer_call(struct runner *runner);

/* Whether the lane may start one now. */
bool starts_may(const struct runner *runner, bool is_called);

/* It has started one. */
void starts_spend(struct dispatcher *dispatcher, int64_t now_us);

/* It starts no more now: it gets in line if it would, and the next are called. */
void starts_end(struct runner *runner, int64_t now_ms);

/* It ends for good. */
void starts_leave(struct runner *runner);
