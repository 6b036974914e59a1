/*
 * What one lane does next. Pure: no I/O, no clock, no randomness of its own,
 * so that a simulator can run it through any history. The dispatcher asks what
 * is wanted, does it, and tells the lane how it went:
 *
 *   UNOWNED -own-> OWNED -lose-> LEAVING -nothing in flight-> UNOWNED
 *
 *   a page is wanted      -> read it           -> lane_take_page()
 *   parked ones wanted    -> read them         -> lane_take_parked()
 *   an xid is wanted      -> draw it           -> lane_take_xid()
 *   a delivery may start  -> hand it to a sink -> lane_finish()
 *   a settle is wanted    -> write it          -> lane_settled()
 *
 * Whatever is asked must be done: asking marks it as under way.
 */
#pragma once

#include "lane/breaker.h"
#include "lane/delivery.h"
#include "lane/key_order.h"
#include "lane/parked_reader.h"
#include "lane/rate.h"
#include "lane/ready_queue.h"
#include "lane/retry.h"
#include "lane/settler.h"
#include "lane/stream_reader.h"
#include "lane/window.h"
#include "outbox/page.h"
#include "outbox/parked.h"
#include "outbox/settlement.h"

#include <stdbool.h>
#include <stdint.h>

struct lane_policy {
        bool by_key; /* keep the deliveries of one key in order */
        bool sink_keeps_order;
        uint32_t max_concurrent; /* attempts in flight; 0: as many as the window holds */
        uint32_t max_in_flight;  /* events claimed and not yet settled; at least 2 */
        uint64_t max_in_flight_bytes;
        uint64_t max_event_bytes; /* a larger payload is a dead letter; 0: any size */
        uint64_t max_parked;   /* with so many parked for others than their time, no more is read */
        int64_t park_after_ms; /* a slow one that holds up the cursor is parked then */
        double rate_per_s;     /* attempts a second; 0: any number */
        uint32_t rate_burst;   /* so many may start at once after a pause; 0: those of a second */
        /* Progress is made durable soon, but not at every single event: one write for what a moment
         * brings. Moving over events of others is worth a write only now and then. */
        int64_t settle_delay_ms;
        int64_t settle_idle_ms;
        int64_t settle_step_ms; /* on multiples of this, so that many lanes go together; 0: any */
        struct retry_policy retry;
};

enum lane_state { LANE_UNOWNED, LANE_OWNED, LANE_LEAVING };

/* What became of a delivery whose attempt ended. */
enum lane_decision {
        LANE_DELIVERED,
        LANE_PARKED,    /* to be tried again in retry_ms */
        LANE_DEAD,      /* given up, with a reason */
        LANE_AGAIN,     /* it was not its fault: as if it had not been started */
        LANE_FORGOTTEN, /* the lane is not ours any more */
};

struct lane_result {
        enum lane_decision decision;
        int64_t retry_ms;        /* PARKED */
        enum dead_reason reason; /* DEAD */
};

struct lane {
        struct lane_policy policy;
        enum lane_state state;
        bool is_draining;     /* nothing new is read or started */
        bool is_paused;       /* the same, until it is resumed */
        uint32_t n_in_flight; /* attempts with the sink */
        uint64_t n_answers;   /* attempts that prove the destination to be up */

        /* Each is changed by the functions of its own header only. */
        struct stream_reader stream;
        struct window window; /* what came with the stream */
        struct parked_reader parked;
        struct key_order order;
        struct ready_queue ready;
        struct breaker breaker;
        struct rate rate;
        struct settler settler;
};

void lane_init(struct lane *lane, const struct lane_policy *policy);
void lane_deinit(struct lane *lane);

/* Takes effect with the next decision; a new rate starts with a full burst. */
void lane_set_policy(struct lane *lane, const struct lane_policy *policy);

/* It is ours, and durably stands at the cursor. Everything is read from there. */
void lane_own(struct lane *lane, const struct cursor *cursor, const struct parked_keys *parked);

/* It is no longer ours. What is in flight still finishes, and changes nothing. */
void lane_lose(struct lane *lane);

/* There may be something new in the outbox. */
void lane_ring(struct lane *lane);

/* Somebody else may have changed what is parked, or some of it may be due. */
void lane_ring_parked(struct lane *lane);

/* Nothing is read or started until it is resumed; what is in flight goes on. */
void lane_pause(struct lane *lane);
void lane_resume(struct lane *lane);

/* Somebody says that the destination is well again: it is tried at once. */
void lane_probe_now(struct lane *lane, int64_t now_ms);

/* Reads and starts nothing any more, so that it comes to rest. What was not started but stands
 * before something that is done gets parked, so that nothing is delivered twice. */
void lane_drain(struct lane *lane);

/* Nothing in flight, nothing that could be settled, no progress under way. What is being read does not count:
 * a lane that drains has no use for it. */
bool lane_is_at_rest(const struct lane *lane);

/* A page, parked rows, an xid or a settle is under way. */
bool lane_is_asking(const struct lane *lane);

/* Everything there was has been read and settled, and nothing parked is due. Or it is paused. */
bool lane_is_caught_up(const struct lane *lane, int64_t now_ms);

/* The request's frames are borrowed from the lane until lane_take_page(). */
bool lane_wants_page(struct lane *lane, struct page_request *out_request);
void lane_take_page(struct lane *lane, struct page *page, int64_t now_ms);

/* In place of lane_take_page(): it could not be read. It is wanted again at once; whoever asks may wait. */
void lane_fail_page(struct lane *lane);

/* It has come, and where it ends is known: from here on the next one may be wanted. To be followed by
 * lane_take_page(), which does this if it was not done. */
void lane_see_page(struct lane *lane, const struct page *page);

/* The request is borrowed from the lane until lane_take_parked(). */
bool lane_wants_parked(struct lane *lane, int64_t now_ms, struct parked_request *out_request);
void lane_take_parked(struct lane *lane, struct parked_batch *batch, int64_t now_ms);

bool lane_wants_xid(struct lane *lane);
void lane_take_xid(struct lane *lane, uint64_t xid);

/* Something is ready to start, but for the breaker and the rate. */
bool lane_may_start(const struct lane *lane);

/* The next delivery to hand to the sink, or NULL. Its attempt carries its event and number. */
struct delivery *lane_start_next(struct lane *lane, int64_t now_ms);

/* How it ended. `jitter` is any 32-bit value. The delivery may be gone when this returns. */
struct lane_result lane_finish(struct lane *lane, struct delivery *delivery,
    const struct outcome *outcome, int64_t now_ms, uint32_t jitter);

/* The settlement is borrowed until the lane is asked anything else, its verdicts until
 * lane_settled(). Whoever asks may fill in their targets. */
bool lane_wants_settle(struct lane *lane, int64_t now_ms, struct settlement *out_settlement);
void lane_settled(struct lane *lane, int64_t now_ms);

/* When to ask again although nothing has happened, or -1. */
int64_t lane_next_due(const struct lane *lane);

/* The same while nothing may be started for a reason that the lane does not know. */
int64_t lane_next_due_without_starts(const struct lane *lane);
