/* What is given up, and that those behind it wait until that is written: before that the next owner
 * of the lane could still deliver it. */
#include "support/lane_steps.h"

static void reject(int64_t id)
{
        start(id);
        lane_rig_finish(&rig, id, OUTCOME_REJECTED);
}

/* Asked for at once: no time passes. */
static void settle_at_once(int64_t id)
{
        cr_assert_eq(lane_rig_wants_settle(&rig), id);
        start(0);
        lane_rig_answer_settle(&rig);
}

static void expect_dead(int64_t id, enum dead_reason reason)
{
        cr_assert_gt(rig.n_dead, 0);
        cr_expect_eq(rig.dead[rig.n_dead - 1].id, id);
        cr_expect_eq(rig.dead[rig.n_dead - 1].reason, reason);
}

TestSuite(lane_giving_up, .init = open_rig, .fini = close_rig);
TestSuite(lane_dead, .init = open_rig, .fini = close_rig);

Test(lane_giving_up, happens_to_an_event_that_is_too_large)
{
        rig.lane.policy.max_event_bytes = 100;
        lane_rig_take_page(&rig, "a", 101);
        start(0);
        lane_rig_settle(&rig);
        expect_dead(1, DEAD_TOO_LARGE);
        lane_ring(&rig.lane);
        lane_rig_take_page(&rig, "a", 100);
        deliver(2);
}

Test(lane_giving_up, happens_to_an_event_that_became_too_large_while_it_was_parked)
{
        park_a_key();
        rig.lane.policy.max_event_bytes = 9;
        rig.now_ms += 100;
        cr_assert_eq(lane_rig_read_parked(&rig), 1);
        start(0);
        cr_expect_eq(lane_rig_read_parked(&rig), -1, "those behind it wait");
        rig.lane.policy.max_event_bytes = 10;
        settle_at_once(3);
        expect_dead(1, DEAD_TOO_LARGE);
        cr_expect_eq(rig.dead[0].n_attempts, 1);
        cr_assert_gt(lane_rig_read_parked(&rig), 0);
        deliver(2);
}

Test(lane_giving_up, happens_to_rejected_events_in_the_order_of_the_stream)
{
        lane_rig_read(&rig, "a b a");
        reject(1);
        start(2);
        settle_at_once(1);
        expect_dead(1, DEAD_REJECTED);
        start(3);
        lane_rig_finish(&rig, 2, OUTCOME_DELIVERED);
        lane_rig_finish(&rig, 3, OUTCOME_DELIVERED);
}

Test(lane_giving_up, happens_to_an_event_that_its_filter_has_not_judged)
{
        rig.unjudged = 1;
        lane_rig_read(&rig, "a a");
        start(0);
        settle_at_once(1);
        expect_dead(1, DEAD_UNJUDGED);
        cr_expect_eq(rig.dead[0].n_attempts, 0);
        cr_expect_str_eq(rig.dead[0].words,
            "the filter could not be evaluated for this event (usually because it took too long)");
        deliver(2);
}

/* Its filter would not be asked when its time has come. */
Test(lane_giving_up, happens_to_a_delayed_event_that_its_filter_has_not_judged)
{
        rig.delayed = 3;
        rig.unjudged = 1;
        lane_rig_read(&rig, "- -");
        lane_rig_settle(&rig);
        expect_dead(1, DEAD_UNJUDGED);
        cr_expect_str_eq(lane_rig_rows(&rig), "2:delayed");
}

Test(lane_dead, does_not_hold_up_other_keys_or_events_without_a_key)
{
        lane_rig_read(&rig, "a - b - a");
        reject(1);
        reject(2);
        deliver(3);
        deliver(4);
        start(0);
        settle_at_once(4);
        deliver(5);
}

Test(lane_dead, is_settled_at_the_usual_time_when_no_follower_waits)
{
        lane_rig_read(&rig, "a b -");
        reject(1);
        reject(2);
        reject(3);
        cr_expect_eq(lane_rig_wants_settle(&rig), -1);
        rig.now_ms += 20;
        cr_expect_eq(lane_rig_wants_settle(&rig), 3);
        lane_rig_answer_settle(&rig);
}

Test(lane_dead, holds_back_followers_that_come_later)
{
        lane_rig_read(&rig, "a");
        reject(1);
        cr_assert_eq(lane_rig_wants_settle(&rig), -1);
        lane_rig_read(&rig, "a");
        start(0);
        settle_at_once(1);
        deliver(2);
}

Test(lane_dead, holds_back_followers_that_come_while_it_is_being_written)
{
        lane_rig_read(&rig, "a");
        reject(1);
        rig.now_ms += 20;
        cr_assert_eq(lane_rig_wants_settle(&rig), 1);
        lane_rig_read(&rig, "a");
        start(0);
        lane_rig_answer_settle(&rig);
        cr_expect_eq(lane_rig_wants_settle(&rig), -1, "it is written already");
        deliver(2);
}

/* It is written when the cursor can pass it. */
Test(lane_dead, holds_back_followers_while_another_key_holds_up_the_cursor)
{
        lane_rig_read(&rig, "b a a");
        start(1);
        reject(2);
        start(0);
        cr_expect_eq(lane_rig_wants_settle(&rig), -1, "nothing can be written yet");
        lane_rig_finish(&rig, 1, OUTCOME_DELIVERED);
        settle_at_once(2);
        deliver(3);
}

Test(lane_dead, holds_back_followers_only_until_a_slow_delivery_before_it_is_parked)
{
        lane_rig_read(&rig, "b a a");
        start(1);
        reject(2);
        rig.now_ms += 1000;
        settle_at_once(2);
        deliver(3);
        lane_rig_finish(&rig, 1, OUTCOME_DELIVERED);
}

Test(lane_dead, holds_back_followers_whatever_its_reason)
{
        struct outcome one_attempt = {.kind = OUTCOME_RETRY, .max_attempts = 1, .reason = "no"};

        lane_rig_read(&rig, "a a a");
        start(1);
        lane_rig_end(&rig, 1, &one_attempt);
        start(0);
        settle_at_once(1);
        expect_dead(1, DEAD_ATTEMPTS);
        rig.lane.policy.retry.max_age_ms = 1;
        start(2);
        lane_rig_finish(&rig, 2, OUTCOME_RETRY);
        start(0);
        settle_at_once(2);
        expect_dead(2, DEAD_AGE);
        deliver(3);
}

Test(lane_dead, holds_back_parked_followers)
{
        park_a_key();
        rig.now_ms += 100;
        cr_assert_eq(lane_rig_read_parked(&rig), 1);
        reject(1);
        cr_expect_eq(lane_rig_read_parked(&rig), -1);
        settle_at_once(3);
        expect_dead(1, DEAD_REJECTED);
        cr_assert_eq(lane_rig_read_parked(&rig), 2);
        deliver(2);
        deliver(3);
}

Test(lane_dead, holds_back_followers_when_it_was_skipped_by_hand)
{
        park_a_key();
        rig.rows[0].is_skipped = true;
        lane_ring_parked(&rig.lane);
        cr_assert_eq(lane_rig_read_parked(&rig), 1);
        cr_expect_eq(lane_rig_read_parked(&rig), -1);
        settle_at_once(3);
        expect_dead(1, DEAD_SKIPPED);
        cr_assert_eq(lane_rig_read_parked(&rig), 2);
        deliver(2);
        deliver(3);
}

/* One verdict takes the other's place. */
Test(lane_dead, holds_back_followers_when_its_parking_was_decided)
{
        decide_to_park_a_slow_one();
        lane_rig_finish(&rig, 1, OUTCOME_REJECTED);
        start(0);
        settle_at_once(3);
        cr_expect_eq(rig.n_dead, 1);
        cr_expect_str_eq(lane_rig_rows(&rig), "3:retry");
        cr_assert_eq(lane_rig_read_parked(&rig), 1);
        deliver(3);
}

/* One verdict follows the other. */
Test(lane_dead, holds_back_followers_while_its_parking_is_being_written)
{
        decide_to_park_a_slow_one();
        rig.now_ms += 20;
        cr_assert_eq(lane_rig_wants_settle(&rig), 3);
        lane_rig_finish(&rig, 1, OUTCOME_REJECTED);
        lane_rig_answer_settle(&rig);
        cr_expect_str_eq(lane_rig_rows(&rig), "1:retry 3:blocked");
        cr_expect_eq(lane_rig_read_parked(&rig), -1);
        settle_at_once(3);
        cr_expect_eq(rig.n_dead, 1);
        cr_assert_eq(lane_rig_read_parked(&rig), 1);
        deliver(3);
}

Test(lane_dead, leaves_its_followers_to_the_next_relay_when_this_one_stops)
{
        lane_rig_read(&rig, "a b a");
        reject(1);
        start(2);
        lane_drain(&rig.lane);
        lane_rig_finish(&rig, 2, OUTCOME_DELIVERED);
        start(0);
        settle_at_once(2);
        cr_expect_eq(rig.n_dead, 1);
        cr_expect(lane_is_at_rest(&rig.lane));
        cr_expect_str_eq(lane_rig_rows(&rig), "");
}

Test(lane_dead, is_forgotten_with_the_lane)
{
        lane_rig_read(&rig, "a a");
        reject(1);
        lane_lose(&rig.lane);
        lane_rig_own(&rig, 0);
        lane_rig_read_parked(&rig);
        lane_rig_read(&rig, "a a");
        deliver(1);
        deliver(2);
}

Test(lane_dead, is_written_while_the_sink_is_paused)
{
        lane_rig_read(&rig, "a a");
        reject(1);
        lane_pause(&rig.lane);
        settle_at_once(1);
        start(0);
        lane_resume(&rig.lane);
        deliver(2);
}
