/*
 * A page on its way to a lane waits here for the answers of two filters: that of
 * the sink, then that of the receiver (outbox/filter_queue.h). If an answer cannot
 * be had, the page is cut: what is known goes to the lane, and the lane reads the
 * rest again.
 */
#pragma once

#include "outbox/filter_queue.h"

#include <stdbool.h>

struct page;
struct runner;

struct filtering {
        struct page *page; /* owned; NULL: none waits */
        struct filter_request request;
        enum filter_answer *answers; /* owned; of the request */
        unsigned stage;              /* 0: the sink's filter, 1: the receiver's */
        bool is_old;                 /* there may be more events than the page has */
};

void page_filter_init(struct runner *runner);

/* The sink or the receiver has a filter. */
bool page_filter_is_needed(const struct runner *runner);

/* Takes the page. The lane gets it now, or when its filters have answered. */
void page_filter_start(struct runner *runner, struct page *page, bool is_old);

/* The lane gets what is known by now. */
void page_filter_stop(struct runner *runner);

/* Drops the page: its session is lost. */
void page_filter_forget(struct runner *runner);
