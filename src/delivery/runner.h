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
struct route_target {
        struct list link; /* route::targets, the newest first */
        void *handle;     /* of the sink */
        unsigned n_in_flight;
};

/* A page between the database and the lane, while filters are asked about its events. */
struct sift_state {
        struct page *page; /* owned; NULL: none */
        struct sieve_ask ask;
        enum sift *sifts; /* owned; of the ask */
        unsigned stage;   /* 0: the sink's filter, 1: the receiver's */
        bool is_old;      /* there may be more than it says */
};

struct route {
        struct carrier *carrier;  /* borrowed */
        struct list link;         /* carrier::routes, in order of their lanes' numbers */
        struct list dirty_link;   /* carrier::dirty */
        struct list starved_link; /* carrier::starved */
        char *label;              /* owned; "webhooks" or "webhooks/acme", for the log */
        int32_t lane_number;

        struct lane lane;
        struct lane_store *store; /* owned */
        struct timer *due;        /* the lane's next_due */
        bool is_claiming;

        struct sift_state sift;
        unsigned n_failed_pages; /* in a row */
        int64_t read_again_ms;   /* then, after one failed */

        /* Of a receiver; else NULL and empty. */
        struct endpoint *endpoint;   /* one reference */
        struct list targets;         /* route_target::link */
        struct sieve_filter *filter; /* owned; NULL: it has none */
        struct health health;
        struct page_ask ask;
        bool is_leaving; /* it is gone: ends as soon as nothing is under way */

        struct delivered *delivered; /* owned; from the stream, and not settled yet */
        size_t n_delivered, n_delivered_max;
        /* For a sink that is told what is settled. */
        int64_t *settling; /* owned; the events whose verdicts are being written */
        size_t n_settling;
};

/* `endpoint` NULL: the sink's only one. */
struct route *route_create(struct carrier *carrier, const struct endpoint *endpoint);

/* Nothing of it is under way, and the session is closed or never knew it. */
void route_destroy(struct route *route);

/* Something about it may be to be done: route_pump() is called before the loop waits. */
void route_mark_dirty(struct route *route);

/* For a route of its own sink: takes the lane whose lock covers it. */
void route_claim(struct route *route);

/* lane_store_events, for the sink's only route. */
extern const struct lane_store_events route_store_events;

void route_pump(struct route *route, int64_t now_ms);

void route_ring(struct route *route);
void route_ring_parked(struct route *route);
void route_session_down(struct route *route);
void route_drain(struct route *route);

/* Somebody paused or resumed the sink or the receiver. */
void route_update_pause(struct route *route);

/* The destination refuses us: what carrier_withhold() had this route wait with. */
void route_tell_refused(struct route *route, const struct outcome *outcome, bool was_closed);

/* The receiver has changed; the same row of courier.endpoint. */
void route_update(struct route *route, const struct endpoint *endpoint);

/* Nothing is under way: it may be destroyed while the sink goes on. */
bool route_is_idle(const struct route *route);

/* page_desk_events */
extern const struct page_desk_events route_desk_events;
