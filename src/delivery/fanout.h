/*
 * A sink with many receivers: one runner for each row of courier.receiver, made,
 * changed and dropped while the relay runs. They share the reading of the log
 * (page_cache.h) and the writing of their progress.
 */
#pragma once

#include "base/error.h"

#include <stdbool.h>
#include <stdint.h>

struct dispatcher;
struct receiver_table;
struct page;
struct page_cache;
struct page_waiter;
struct runner;
struct timer;

struct fanout {
        struct dispatcher *dispatcher; /* borrowed */
        struct receiver_table *table;  /* owned */
        struct page_cache *page_cache; /* owned */
        struct page_waiter **waiters;  /* owned; of all receivers that stay */
        struct timer *due;             /* page_cache_next_due() */
        bool is_current;               /* the receivers have been read since the lanes were taken */
        bool is_looking;               /* for lanes with something parked that is due */
};

/* The dispatcher has its owner lane. */
struct fanout *fanout_create(struct dispatcher *dispatcher);
void fanout_destroy(struct fanout *fanout); /* its runners are gone */

/* The sink's lanes are ours, or the session is lost. */
void fanout_owned(struct fanout *fanout);
void fanout_session_down(struct fanout *fanout);

/* What is parked, or the receivers, may have been changed by hand. */
void fanout_control(struct fanout *fanout);

/* lane_store_events of the owner lane; `dispatcher` is a struct dispatcher. */
void fanout_take_page(void *dispatcher, struct page *page);
void fanout_fail_page(void *dispatcher, const struct error *error);

/* Before a runner is pumped: claims its lane, if that is not ours. False: its receiver is gone and
 * nothing is under way, so it was destroyed. */
bool fanout_prepare(struct fanout *fanout, struct runner *runner);

/* After the runners have been pumped, with the lanes ours: does what they asked for together. */
void fanout_serve(struct fanout *fanout);

/* Nothing that is answered is asked of the database, except by the runners. */
bool fanout_is_idle(const struct fanout *fanout);

bool fanout_is_caught_up(const struct fanout *fanout);
