/*
 * One lane of a sink, and what carries its events: the sink's only one, or that
 * of one receiver. Asks the lane what it wants and does it; all decisions are
 * the lane's.
 */
#pragma once

#include "delivery/dispatcher_internal.h"
#include "delivery/page_cache.h"
#include "delivery/receiver_health.h"
#include "lane/lane.h"
#include "outbox/endpoint.h"
#include "outbox/filter_queue.h"

/* What attempts in flight may still use after the receiver has changed. */
struct runner_target {
        struct list link; /* runner::targets, the newest first */
        void *handle;     /* of the sink */
        unsigned n_in_flight;
};

/* A page between the database and the lane, while filters are asked about its events. */
struct sift_state {
        struct page *page; /* owned; NULL: none */
        struct filter_request ask;
        enum sift *sifts; /* owned; of the ask */
        unsigned stage;   /* 0: the sink's filter, 1: the receiver's */
        bool is_old;      /* there may be more than it says */
};

struct runner {
        struct dispatcher *dispatcher; /* borrowed */
        struct list link;              /* dispatcher::runners, in order of their lanes' numbers */
        struct list dirty_link;        /* dispatcher::dirty */
        struct list starved_link;      /* dispatcher::starved */
        char *label;                   /* owned; "webhooks" or "webhooks/acme", for the log */
        int32_t lane_number;

        struct lane lane;
        struct lane_store *store; /* owned */
        struct timer *due;        /* the lane's next_due */
        bool is_claiming;

        struct sift_state sift;
        unsigned n_failed_pages; /* in a row */
        int64_t read_again_ms;   /* then, after one failed */

        /* Of a receiver; else NULL and empty. */
        struct endpoint *endpoint; /* one reference */
        struct list targets;       /* runner_target::link */
        struct filter *filter;     /* owned; NULL: it has none */
        struct health health;
        struct page_waiter ask;
        bool is_leaving; /* it is gone: ends as soon as nothing is under way */

        struct delivered *delivered; /* owned; from the stream, and not settled yet */
        size_t n_delivered, n_delivered_max;
        /* For a sink that is told what is settled. */
        int64_t *settling; /* owned; the events whose verdicts are being written */
        size_t n_settling;
};

/* `endpoint` NULL: the sink's only one. */
struct runner *runner_create(struct dispatcher *dispatcher, const struct endpoint *endpoint);

/* Nothing of it is under way, and the session is closed or never knew it. */
void runner_destroy(struct runner *runner);

/* Something about it may be to be done: runner_pump() is called before the loop waits. */
void runner_mark_dirty(struct runner *runner);

/* For a runner of its own sink: takes the lane whose lock covers it. */
void runner_claim(struct runner *runner);

/* lane_store_events, for the sink's only runner. */
extern const struct lane_store_events runner_store_events;

void runner_pump(struct runner *runner, int64_t now_ms);

void runner_ring(struct runner *runner);
void runner_ring_parked(struct runner *runner);
void runner_session_down(struct runner *runner);
void runner_drain(struct runner *runner);

/* Somebody paused or resumed the sink or the receiver. */
void runner_update_pause(struct runner *runner);

/* The destination refuses us: what dispatcher_withhold() had this runner wait with. */
void runner_tell_refused(struct runner *runner, const struct outcome *outcome, bool was_closed);

/* The receiver has changed; the same row of courier.endpoint. */
void runner_update(struct runner *runner, const struct endpoint *endpoint);

/* Nothing is under way: it may be destroyed while the sink goes on. */
bool runner_is_idle(const struct runner *runner);

/* page_cache_events */
extern const struct page_cache_events runner_page_cache_events;
