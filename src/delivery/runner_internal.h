/* The parts of a runner, among themselves: runner.c, runner_policy.c, attempts.c,
 * attempt_report.c, runner_targets.c and runner_settled.c. */
#pragma once

#include "delivery/runner.h"
#include "telemetry/telemetry.h"

/* runner.c */
void runner_set_label(struct runner *runner);

/* runner_policy.c */
struct lane_policy runner_policy(
    const struct dispatcher *dispatcher, const struct endpoint *endpoint);

/* attempts.c */
void runner_start_deliveries(struct runner *runner, int64_t now_ms);
/* What the lane leaves to us: where a dead letter was going. */
void runner_complete_verdicts(struct runner *runner, const struct list *verdicts);

/* page_filter.c: a page on its way to the lane, which gets it now or later. */
void runner_init_sift(struct runner *runner);
void runner_sift(struct runner *runner, struct page *page, bool is_old);
bool runner_has_filter(const struct runner *runner); /* the sink's or its own */
void runner_stop_sifting(struct runner *runner);     /* the lane gets what is known */
void runner_forget_sifting(struct runner *runner);   /* it was of a session that is lost */
void runner_open_filter(struct runner *runner);      /* the receiver's, if it has one */
void runner_close_filter(struct runner *runner);

/* runner_targets.c: the sink's side of a receiver. */
void runner_open_target(struct runner *runner); /* a receiver whose url is none is disabled */
void runner_close_targets(struct runner *runner);
const void *runner_target(const struct runner *runner); /* the newest, or NULL */
void *runner_borrow_target(struct runner *runner);      /* for an attempt; NULL: not a receiver's */
void runner_return_target(struct runner *runner, const void *handle);
bool targets_are_alike(const struct endpoint *a, const struct endpoint *b);

/* runner_settled.c: what is settled for good. */
void runner_note_delivered(struct runner *runner, const struct delivery *delivery, int64_t now_us);
void runner_note_settling(struct runner *runner, const struct list *verdicts);
void runner_tell_settled(struct runner *runner, int64_t now_us);
void runner_forget_delivered(struct runner *runner); /* they come again */

/*
 * attempt_report.c: what becomes of attempts, told to the telemetry. What is not
 * delivered is told when the lane has decided about it, and then its event may be
 * gone: what people want to see of it is kept until then.
 */
struct attempt_kept {
        struct attempt_seen seen;
        struct event event;
        char topic[160]; /* more than is shown */
        char key[160];
};
void runner_see_delivered(struct runner *runner, const struct delivery *delivery, int64_t now_us);
void runner_keep_attempt(
    struct attempt_kept *kept, const struct delivery *delivery, int64_t now_us);
void runner_see_failed(struct runner *runner, struct attempt_kept *kept,
    const struct outcome *outcome, const struct lane_result *result);
void runner_see_dead(struct runner *runner, const struct verdict *verdict, int64_t now_us);
