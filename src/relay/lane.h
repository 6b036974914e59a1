/*
 * What one lane does next. Pure: no I/O, no clock, no randomness of its own,
 * so that a simulator can run it through any history. The carrier asks what
 * is wanted, does it, and tells the lane how it went:
 *
 *   UNOWNED -own-> OWNED -lose-> LEAVING -nothing in flight-> UNOWNED
 *
 *   a page is wanted      -> read it           -> lane_take_page()
 *   an xid is wanted      -> draw it           -> lane_take_xid()
 *   a delivery may start  -> hand it to a sink -> lane_finish()
 *   a settle is wanted    -> write it          -> lane_settled()
 *
 * Whatever is asked must be done: asking marks it as under way.
 */
#pragma once

#include "base/backoff.h"
#include "outbox/page.h"
#include "relay/breaker.h"
#include "relay/delivery.h"
#include "relay/key_order.h"
#include "relay/turns.h"
#include "relay/window.h"

#include <stdbool.h>
#include <stdint.h>

struct lane_policy {
        bool by_key; /* keep the deliveries of one key in order */
        bool sink_keeps_order;
        uint32_t max_concurrent; /* attempts in flight; 0: as many as the window holds */
        uint32_t max_in_flight;  /* events claimed and not yet settled */
        uint64_t max_in_flight_bytes;
        struct backoff retry;
};

enum lane_state { LANE_UNOWNED, LANE_OWNED, LANE_LEAVING };

struct lane {
        struct lane_policy policy;
        enum lane_state state;
        bool is_draining; /* nothing new is read or started */

        struct window window;
        struct key_order order;
        struct breaker breaker;
        struct turns turns;
        uint32_t n_in_flight; /* attempts with the sink */

        /* Reading. */
        struct cursor next_page;     /* where it starts */
        struct frame *unfinished;    /* the frame that still needs its xid, or NULL */
        bool is_rung;                /* there may be something beyond what has been read */
        bool is_reading, is_drawing; /* under way */
        uint64_t mean_event_bytes;   /* a moving average, to guess how many fit a page */

        /* Settling. */
        bool is_moved;         /* the window's position is ahead of what was settled last */
        int64_t settle_due_ms; /* while is_moved */
        bool is_settling;      /* under way */
        uint64_t n_settling;   /* window.n_done when it was asked for */
        uint64_t n_settled;    /* events behind the durable cursor since it was owned */
};

void lane_init(struct lane *lane, const struct lane_policy *policy);
void lane_deinit(struct lane *lane);

/* It is ours, and durably stands at the cursor. Everything is read from there. */
void lane_own(struct lane *lane, const struct cursor *cursor);

/* It is no longer ours. What is in flight still finishes, and changes nothing. */
void lane_lose(struct lane *lane);

/* There may be something new in the outbox. */
void lane_ring(struct lane *lane);

/* Reads and starts nothing any more, so that it comes to rest. */
void lane_drain(struct lane *lane);

/* Nothing in flight, nothing that could be settled, nothing under way. */
bool lane_is_at_rest(const struct lane *lane);

/* Everything there was has been read, delivered and settled. */
bool lane_is_caught_up(const struct lane *lane);

/* The request's frames are borrowed from the lane until lane_take_page(). */
bool lane_wants_page(struct lane *lane, struct page_request *out_request);
void lane_take_page(struct lane *lane, struct page *page, int64_t now_ms);

bool lane_wants_xid(struct lane *lane);
void lane_take_xid(struct lane *lane, uint64_t xid);

/* The next delivery to hand to the sink, or NULL. Its attempt carries its event and number. */
struct delivery *lane_start_next(struct lane *lane, int64_t now_ms);

/* How it ended. `jitter` is any 32-bit value. Returns after how many milliseconds the delivery may
 * be tried again, 0 if it is delivered or only waits for the sink or its turn. */
int64_t lane_finish(struct lane *lane, struct delivery *delivery, const struct outcome *outcome,
    int64_t now_ms, uint32_t jitter);

/* The cursor is borrowed until the lane is asked anything else. */
bool lane_wants_settle(struct lane *lane, int64_t now_ms, struct cursor *out_cursor);
void lane_settled(struct lane *lane);

/* When to ask again although nothing has happened, or -1. */
int64_t lane_next_due(const struct lane *lane);
