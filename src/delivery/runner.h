/*
 * Runs one lane: the only one of a shard, or that of one receiver. Asks the lane
 * what it wants and does it; all decisions are the lane's. What differs between
 * the two is in their runner_ops.
 */
#pragma once

#include "delivery/dispatcher_internal.h"
#include "delivery/page_cache.h"
#include "delivery/page_filter.h"
#include "delivery/receiver_health.h"
#include "lane/lane.h"
#include "outbox/receiver.h"

enum lane_word { LANE_IS_UP, LANE_ASKS_ANOTHER, LANE_IS_DOWN };

struct runner_ops {
        /* Reads a page; answered by runner_take_page() or runner_fail_page(). */
        void (*read)(struct runner *runner, struct page_request *request);
        /* An attempt ended so, and the lane has drawn its conclusions. */
        void (*on_outcome)(struct runner *runner, const struct outcome *outcome);
};

struct runner {
        struct dispatcher *dispatcher; /* borrowed, as its shard */
        struct shard *shard;           /* whose lock is its lane's, or covers it */
        const struct runner_ops *ops;
        struct list link;      /* dispatcher::runners, in order of their lanes' numbers */
        struct list work_link; /* work::runners */
        struct list line_link; /* starts::lines; of starts.c, as what follows */
        unsigned line;         /* which of them */
        bool is_called;        /* an attempt is kept for it */
        char *label;           /* owned; "webhooks", "webhooks#3" or "webhooks/acme", for the log */
        int32_t lane_number;

        struct lane lane;
        enum lane_word told;      /* of its destination, in the log */
        struct lane_store *store; /* owned */
        struct timer *due;        /* the lane's next_due */
        struct filtering filtering;
        unsigned n_failed_pages; /* in a row */
        int64_t read_again_ms;   /* after a failed page: not before this */

        /* For a receiver; else NULL and empty. */
        struct receiver *receiver; /* one reference */
        struct filter *filter;     /* owned; NULL: it has none */
        struct list targets;       /* attempt_target::link, the newest first */
        struct health health;
        struct page_waiter waiter;
        bool is_claiming; /* its lane */
        bool is_stopped;  /* it takes no events: paused, disabled, leaving, without a target */
        bool is_leaving;  /* its row is gone: ends as soon as nothing is under way */

        struct pace *pace;           /* owned; NULL: it has delivered nothing */
        int64_t delivered_us;        /* wall clock: when it did last */
        struct delivered *delivered; /* owned; from the stream, and not settled yet */
        size_t n_delivered, n_delivered_max;
        /* For a sink that is told what is settled. */
        int64_t *settling; /* owned; the events whose verdicts are being written */
        size_t n_settling;
};

/* The runner has no label and no store yet: the caller, who owns it, adds them. */
struct runner *runner_create(
    struct shard *shard, const struct runner_ops *ops, const struct lane_policy *policy);

/* No attempt of it is in flight, and the session is closed or never knew it. */
void runner_destroy(struct runner *runner);

/* As the configuration has it. */
struct lane_policy runner_policy(const struct dispatcher *dispatcher);

/* runner_pump() is called before the loop waits. Lanes without a backlog come first: all pages are
 * read over one connection, and a few new events must not wait for a full page of another lane. */
static inline void runner_wake(struct runner *runner)
{
        struct work *work = runner->dispatcher->set->work;

        work->is_pending = true;
        if (!list_is_empty(&runner->work_link))
                return;
        if (lane_has_backlog(&runner->lane))
                list_push_back(&work->runners, &runner->work_link);
        else
                list_push_front(&work->runners, &runner->work_link);
}

/* Asks the lane what it wants, and does it. */
void runner_pump(struct runner *runner, int64_t now_ms);

/* Something parked may be due, or changed by hand. */
void runner_ring_parked(struct runner *runner);

/* Something parked will be due then. */
void runner_note_parked_due(struct runner *runner, int64_t due_ms);

void runner_session_down(struct runner *runner);
void runner_drain(struct runner *runner);

/* Its lane was given back, or another relay has it: nothing is in flight. */
void runner_leave(struct runner *runner);

/* It has no use for a page any more: the lane gets what is known by now. */
void runner_stop_reading(struct runner *runner);

/* The sink, or is_stopped, has changed. */
void runner_update_pause(struct runner *runner);

/* As lane_is_caught_up(). */
bool runner_is_caught_up(const struct runner *runner, int64_t now_ms);

/* Nothing is under way: it may be destroyed while the sink goes on. */
bool runner_is_idle(const struct runner *runner);

/* Answers of ops->read. `is_old`: it was read before the last ring, so there may be more. */
void runner_take_page(struct runner *runner, struct page *page, bool is_old);
void runner_fail_page(void *runner, const struct error *error);

/* lane_store_events of its store; `runner` is a struct runner. */
void runner_own(void *runner, const struct cursor *cursor, const struct parked_keys *parked);
void runner_note_page_end(void *runner, const struct page *page);
void runner_take_parked(void *runner, struct parked_batch *batch);
void runner_note_missing(void *runner, uint64_t n_verdicts);
void runner_note_settled(void *runner, enum cursor_room room);
