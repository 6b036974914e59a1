/* The parts of a route, among themselves: route.c, route_policy.c, route_attempts.c,
 * route_seen.c, route_targets.c and route_settled.c. */
#pragma once

#include "delivery/runner.h"
#include "telemetry/telemetry.h"

/* route.c */
void route_set_label(struct route *route);

/* route_policy.c */
struct lane_policy route_policy(const struct carrier *carrier, const struct endpoint *endpoint);

/* route_attempts.c */
void route_start_deliveries(struct route *route, int64_t now_ms);
/* What the lane leaves to us: where a dead letter was going. */
void route_complete_verdicts(struct route *route, const struct list *verdicts);

/* route_sift.c: a page on its way to the lane, which gets it now or later. */
void route_init_sift(struct route *route);
void route_sift(struct route *route, struct page *page, bool is_old);
bool route_has_filter(const struct route *route); /* the sink's or its own */
void route_stop_sifting(struct route *route);     /* the lane gets what is known */
void route_forget_sifting(struct route *route);   /* it was of a session that is lost */
void route_open_filter(struct route *route);      /* the receiver's, if it has one */
void route_close_filter(struct route *route);

/* route_targets.c: the sink's side of a receiver. */
void route_open_target(struct route *route); /* a receiver whose url is none is disabled */
void route_close_targets(struct route *route);
const void *route_target(const struct route *route); /* the newest, or NULL */
void *route_borrow_target(struct route *route);      /* for an attempt; NULL: not a receiver's */
void route_return_target(struct route *route, const void *handle);
bool targets_are_alike(const struct endpoint *a, const struct endpoint *b);

/* route_settled.c: what is settled for good. */
void route_note_delivered(struct route *route, const struct delivery *delivery, int64_t now_us);
void route_note_settling(struct route *route, const struct list *verdicts);
void route_tell_settled(struct route *route, int64_t now_us);
void route_forget_delivered(struct route *route); /* they come again */

/*
 * route_seen.c: what becomes of attempts, told to the telemetry. What is not
 * delivered is told when the lane has decided about it, and then its event may be
 * gone: what people want to see of it is kept until then.
 */
struct attempt_kept {
        struct attempt_seen seen;
        struct event event;
        char topic[160]; /* more than is shown */
        char key[160];
};
void route_see_delivered(struct route *route, const struct delivery *delivery, int64_t now_us);
void route_keep_attempt(struct attempt_kept *kept, const struct delivery *delivery, int64_t now_us);
void route_see_failed(struct route *route, struct attempt_kept *kept, const struct outcome *outcome,
    const struct lane_result *result);
void route_see_dead(struct route *route, const struct verdict *verdict, int64_t now_us);
