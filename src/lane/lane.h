/*
 * What one lane does next. Pure: no I/O, no clock, no randomness of its own,
 * so that a simulator can run it through any history. The runner asks what the
 * lane wants, does it, and tells the lane how it went:
 *
 *   UNOWNED -own-> OWNED -lose-> LEAVING -nothing in flight-> UNOWNED
 *
 *   a page is wanted      -> read it           -> lane_take_page()
 *   rows are wanted back  -> read them         -> lane_take_parked()
 *   a delivery may start  -> hand it to a sink -> lane_finish()
 *   a settle is wanted    -> write it          -> lane_settled()
 *
 * The runner must do what it asked for: asking marks it as under way.
 *
 * Times are in ms of one local clock, `now_ms`. What holds between any two
 * calls is written in consistency.h.
 */
#pragma once

#include "lane/breaker.h"
#include "lane/delivery.h"
#include "lane/key_order.h"
#include "lane/rate.h"
#include "lane/readers.h"
#include "lane/retry.h"
#include "lane/settler.h"
#include "lane/suspects.h"
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
        uint64_t max_parked;      /* at so many rows, delayed ones not counted, no page is read */
        int64_t park_after_ms;    /* an attempt that holds up the cursor for so long is parked */
        double rate_per_s;        /* attempts a second; 0: any number */
        uint32_t rate_burst; /* attempts that may start at once after a pause; 0: of a second */
        /* Progress is made durable soon, but not event by event: one settle carries what a moment
         * brings. A cursor that only moved over events of other lanes is settled now and then; so
         * is, in the end, any cursor while its former versions cannot be removed (settler.h). */
        int64_t settle_delay_ms;
        int64_t settle_idle_ms;
        int64_t settle_step_ms; /* at multiples of this, so that many lanes go together; 0: any */
        struct retry_policy retry;
        /* For a sink where each event names its target: a hash of that. NULL: all have one. */
        uint64_t (*hash_target)(const void *owner, const struct event *event);
        const void *owner; /* of hash_target(); borrowed */
};

/* The breaker is open because of one event, or of events to one target: another is to be asked. */
struct doubt {
        bool is_open;
        int64_t ask_ms;        /* so soon, if one is ready */
        uint32_t n_blaming;    /* different events in a row blamed the destination */
        int64_t wary_until_ms; /* an event was charged that did, so ten of them are wanted */
};

enum lane_state { LANE_UNOWNED, LANE_OWNED, LANE_LEAVING };

/* What became of a delivery whose attempt ended. */
enum lane_decision {
        LANE_DELIVERED,
        LANE_PARKED,    /* to be tried again in retry_ms */
        LANE_DEAD,      /* given up, with a reason */
        LANE_AGAIN,     /* not the event's fault: as if the attempt had not been started */
        LANE_FORGOTTEN, /* the lane is not owned any more */
};

struct lane_result {
        enum lane_decision decision;
        int64_t retry_ms;        /* PARKED */
        enum dead_reason reason; /* DEAD */
};

struct lane {
        struct lane_policy policy;
        enum lane_state state;
        bool is_draining;     /* nothing new is read or started, until the lane is owned anew */
        bool is_paused;       /* the same, until the lane is resumed */
        uint32_t n_in_flight; /* attempts with the sink */
        uint64_t n_started;   /* attempts so far */
        uint64_t n_answered;  /* delivery::n_started of the last of them that was answered: whose
                               * event was taken, or refused for itself */

        /* Each has its own file. No other one changes it, but for a ring, which lane.c notes. */
        struct stream_reader stream;
        struct window window; /* what came with the stream */
        struct parked_reader parked;
        struct key_order order;
        struct ready_queue ready;
        struct breaker breaker;
        struct doubt doubt;
        struct suspects suspects;
        struct rate rate;
        struct settler settler;
};

void lane_init(struct lane *lane, const struct lane_policy *policy);
void lane_deinit(struct lane *lane);

/* Takes effect with the next decision; a new rate starts with a full burst. */
void lane_set_policy(struct lane *lane, const struct lane_policy *policy);

/* The lane is owned, and stands durably at the cursor: everything is read from there. `parked` is
 * what it has in courier.parked; both are borrowed for the call. */
void lane_own(struct lane *lane, const struct cursor *cursor, const struct parked_keys *parked);

/* The lane is not owned any more. Attempts in flight still finish, and change nothing. */
void lane_lose(struct lane *lane);

/* There may be something new in the outbox. */
void lane_ring(struct lane *lane);

/* The difference that the lane reads has more pages. */
bool lane_has_backlog(const struct lane *lane);

/* Another session may have changed rows of courier.parked, or some may be due. */
void lane_ring_parked(struct lane *lane);

/* A row of courier.parked, which another session may have moved, is due then. True if that is
 * sooner than what the lane knew of. */
bool lane_note_parked_due(struct lane *lane, int64_t due_ms);

/* Nothing is read or started until the lane is resumed; attempts in flight go on. */
void lane_pause(struct lane *lane);
void lane_resume(struct lane *lane);

/* An operator says that the destination is well again: it is tried at once. */
void lane_probe_now(struct lane *lane, int64_t now_ms);

/* Reads and starts nothing any more, so that the lane comes to rest. What was not started and
 * stands before something that is done is parked, so that nothing is delivered twice. */
void lane_drain(struct lane *lane);

/* Nothing is in flight, to be settled, or being settled. A page or rows that are being read do not
 * count: a lane that drains has no use for them. */
bool lane_is_at_rest(const struct lane *lane);

/* A page, parked rows or a settle is under way. */
bool lane_is_asking(const struct lane *lane);

/* Everything has been read and settled, and no parked row is due; or the lane is paused.
 * `waits_at_end`: the page that is under way comes only when there is something new. */
bool lane_is_caught_up(const struct lane *lane, bool waits_at_end, int64_t now_ms);

/* The request's frames are borrowed from the lane until lane_take_page(), which takes ownership of
 * the page. */
bool lane_wants_page(struct lane *lane, struct page_request *out_request);
void lane_take_page(struct lane *lane, struct page *page, int64_t now_ms);

/* In place of lane_take_page(): the page could not be read. It is wanted again at once; the caller
 * may wait before it asks. */
void lane_fail_page(struct lane *lane);

/* The page has come, so it is known where it ends: the next one may be wanted from here on.
 * lane_take_page() is to follow once its events are filtered; it does this if it was not done. */
void lane_see_page(struct lane *lane, const struct page *page);

/* The request is borrowed from the lane until lane_take_parked(), which takes ownership of the
 * batch. */
bool lane_wants_parked(struct lane *lane, int64_t now_ms, struct parked_request *out_request);
void lane_take_parked(struct lane *lane, struct parked_batch *batch, int64_t now_ms);

/* lane_start_next() has one, unless all that are ready have to wait for their keys. */
bool lane_wants_start(const struct lane *lane, int64_t now_ms);

/* The breaker is open, and no other event is ready that is to be asked before that is believed. */
bool lane_is_down(const struct lane *lane);

/* The next delivery to hand to the sink, or NULL. Its attempt carries its event and number. */
struct delivery *lane_start_next(struct lane *lane, int64_t now_ms);

/* How an attempt ended. `jitter` is any 32-bit value. The delivery may be gone afterwards. */
struct lane_result lane_finish(struct lane *lane, struct delivery *delivery,
    const struct outcome *outcome, int64_t now_ms, uint32_t jitter);

/* The settlement is borrowed until the next call, its verdicts until lane_settled(). The caller may
 * fill in their targets. */
bool lane_wants_settle(struct lane *lane, int64_t now_ms, struct settlement *out_settlement);

/* It is durable. */
void lane_settled(struct lane *lane, enum cursor_room room, int64_t now_ms);

/* When to ask again although nothing has happened, or -1. */
int64_t lane_next_due(const struct lane *lane);

/* The same while nothing may start for a reason that the lane does not know. */
int64_t lane_next_due_without_starts(const struct lane *lane);
