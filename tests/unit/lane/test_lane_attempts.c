/* Which attempt a lane starts next, and what it makes of how one ended. */
#include "support/lane_steps.h"

/* Starts all that may start; they are exactly first to last, in this order. */
static void expect_starts(int64_t first, int64_t last)
{
        for (int64_t id = first; id <= last; id++)
                start(id);
        start(0);
}

static void deliver_all_in_flight(int64_t first, int64_t last)
{
        for (int64_t id = first; id <= last; id++)
                lane_rig_finish(&rig, id, OUTCOME_DELIVERED);
}

/* Time passes, and what is due then is read back. */
static void read_back_after(int64_t ms)
{
        rig.now_ms += ms;
        cr_assert_gt(lane_rig_read_parked(&rig), 0);
}

TestSuite(lane_keys, .init = open_rig, .fini = close_rig);
TestSuite(lane_ordered_sink, .init = open_keeping_order, .fini = close_rig);
TestSuite(lane_retry, .init = open_rig, .fini = close_rig);
TestSuite(lane_outage, .init = open_rig, .fini = close_rig);

Test(lane_keys, have_one_attempt_in_flight_each)
{
        lane_rig_read(&rig, "a b a b");
        expect_starts(1, 2);

        lane_rig_finish(&rig, 2, OUTCOME_DELIVERED);
        expect_starts(4, 4);
        lane_rig_finish(&rig, 1, OUTCOME_DELIVERED);
        expect_starts(3, 3);
        deliver_all_in_flight(3, 4);
}

Test(lane_keys, go_on_over_the_border_of_pages)
{
        lane_rig_read(&rig, "a");
        lane_rig_read(&rig, "a");
        expect_starts(1, 1);
        lane_rig_finish(&rig, 1, OUTCOME_DELIVERED);
        lane_rig_read(&rig, "a");
        expect_starts(2, 2);
        lane_rig_finish(&rig, 2, OUTCOME_DELIVERED);
        expect_starts(3, 3);
        lane_rig_finish(&rig, 3, OUTCOME_DELIVERED);
}

Test(lane_keys, do_not_concern_events_without_one)
{
        lane_rig_read(&rig, "- - -");
        expect_starts(1, 3);
        lane_rig_finish(&rig, 1, OUTCOME_RETRY);
        lane_rig_read(&rig, "-");
        expect_starts(4, 4);
        deliver_all_in_flight(2, 4);
}

Test(lane_order_none, starts_everything_whatever_its_key)
{
        struct lane_policy policy = lane_rig_policy;

        policy.by_key = false;
        lane_rig_open(&rig, &policy);
        lane_rig_read(&rig, "a a a");
        expect_starts(1, 3);
        lane_rig_finish(&rig, 1, OUTCOME_RETRY);
        lane_rig_finish(&rig, 2, OUTCOME_SINK_DOWN);
        lane_rig_settle(&rig);
        lane_rig_read(&rig, "a");
        rig.now_ms += 200;
        lane_rig_finish(&rig, 3, OUTCOME_DELIVERED);
        cr_expect_eq(lane_rig_start(&rig), 2);
        lane_rig_finish(&rig, 2, OUTCOME_DELIVERED);
        cr_expect_eq(lane_rig_read_parked(&rig), 1);
        cr_expect_eq(lane_rig_start(&rig), 1);
        cr_expect_eq(lane_rig_start(&rig), 4);
        deliver_all_in_flight(1, 1);
        deliver_all_in_flight(4, 4);
        close_rig();
}

Test(lane_concurrency, is_bounded)
{
        struct lane_policy policy = lane_rig_policy;

        policy.max_concurrent = 2;
        lane_rig_open(&rig, &policy);
        lane_rig_read(&rig, "a b c d");
        expect_starts(1, 2);
        lane_rig_finish(&rig, 1, OUTCOME_DELIVERED);
        expect_starts(3, 3);
        cr_expect_eq(lane_rig_start(&rig), 0);
        lane_rig_finish(&rig, 2, OUTCOME_DELIVERED);
        expect_starts(4, 4);
        deliver_all_in_flight(3, 4);
        close_rig();
}

Test(lane_concurrency, follows_a_new_policy_from_the_next_attempt_on)
{
        struct lane_policy policy = lane_rig_policy;

        policy.max_concurrent = 1;
        lane_rig_open(&rig, &policy);
        lane_rig_read(&rig, "a b c d e");
        expect_starts(1, 1);
        policy.max_concurrent = 4;
        policy.rate_per_s = 2;
        policy.rate_burst = 2;
        lane_set_policy(&rig.lane, &policy);
        expect_starts(2, 3);
        cr_expect_eq(lane_next_due(&rig.lane), rig.now_ms + 500, "the burst is used up");
        rig.now_ms += 500;
        expect_starts(4, 4);

        policy.max_concurrent = 1;
        policy.rate_per_s = 0;
        lane_set_policy(&rig.lane, &policy);
        cr_expect_eq(lane_rig_start(&rig), 0, "what is in flight stays, and nothing joins it");
        deliver_all_in_flight(1, 4);
        expect_starts(5, 5);
        deliver_all_in_flight(5, 5);
        close_rig();
}

Test(lane_ordered_sink, has_many_of_a_key_in_flight)
{
        lane_rig_read(&rig, "a a a b");
        expect_starts(1, 4);
        deliver_all_in_flight(1, 4);
}

Test(lane_ordered_sink, gets_one_delivery_at_a_time_after_a_failure_and_then_many_again)
{
        lane_rig_read(&rig, "a a a a");
        start(1);
        start(2);
        lane_rig_finish(&rig, 1, OUTCOME_RETRY);
        lane_rig_finish(&rig, 2, OUTCOME_RETRY);
        cr_expect_eq(lane_rig_start(&rig), 0);
        lane_rig_settle(&rig);
        cr_expect_str_eq(lane_rig_rows(&rig), "1:retry 2:blocked 3:blocked 4:blocked");

        read_back_after(100);
        expect_starts(1, 1);
        lane_rig_finish(&rig, 1, OUTCOME_DELIVERED);
        read_back_after(0);
        expect_starts(2, 3);
        deliver_all_in_flight(2, 3);
        read_back_after(0);
        expect_starts(4, 4);
        deliver_all_in_flight(4, 4);
        lane_rig_settle(&rig);
        cr_expect_str_eq(lane_rig_rows(&rig), "");
}

Test(lane_ordered_sink, keeps_a_failed_delivery_behind_an_earlier_one_in_flight)
{
        lane_rig_read(&rig, "a a");
        expect_starts(1, 2);
        lane_rig_finish(&rig, 2, OUTCOME_RETRY);
        rig.now_ms += 500;
        cr_expect_eq(lane_rig_wants_settle(&rig), -1, "the first is on its way");
        lane_rig_finish(&rig, 1, OUTCOME_RETRY);
        lane_rig_settle(&rig);
        cr_expect_str_eq(lane_rig_rows(&rig), "1:retry 2:blocked");
}

Test(lane_ordered_sink, parks_a_delivery_that_comes_back_behind_a_failed_one)
{
        lane_rig_read(&rig, "a a");
        expect_starts(1, 2);
        lane_rig_finish(&rig, 1, OUTCOME_RETRY);
        lane_rig_finish(&rig, 2, OUTCOME_CANCELLED);
        cr_expect_eq(lane_rig_start(&rig), 0);
        lane_rig_settle(&rig);
        cr_expect_eq(rig.settled, 2);
        cr_expect_str_eq(lane_rig_rows(&rig), "1:retry 2:blocked");
        cr_expect_eq(rig.rows[1].n_attempts, 0);
}

Test(lane_ordered_sink, resumes_all_in_order_after_an_outage)
{
        lane_rig_read(&rig, "a a b b");
        expect_starts(1, 4);
        for (int64_t id = 4; id >= 1; id--)
                lane_rig_finish(&rig, id, OUTCOME_SINK_DOWN);
        rig.now_ms += 200;

        expect_starts(1, 1);
        lane_rig_finish(&rig, 1, OUTCOME_DELIVERED);
        expect_starts(2, 3);
        lane_rig_finish(&rig, 3, OUTCOME_DELIVERED);
        expect_starts(4, 4);
        lane_rig_finish(&rig, 4, OUTCOME_DELIVERED);
        lane_rig_finish(&rig, 2, OUTCOME_DELIVERED);
}

Test(lane_retry, waits_for_its_backoff_and_is_given_up_after_so_many_attempts)
{
        static const int64_t delays_ms[] = {100, 200, 400, 800};

        lane_rig_read(&rig, "a");
        for (int i = 0; i < 4; i++) {
                expect_starts(1, 1);
                cr_expect_eq(lane_rig_delivery(&rig, 1)->attempt.number, i + 1);
                cr_expect_eq(lane_rig_finish(&rig, 1, OUTCOME_RETRY), delays_ms[i]);
                lane_rig_settle(&rig);
                cr_expect_eq(rig.rows[0].n_attempts, i + 1);
                cr_expect_eq(lane_next_due(&rig.lane), rig.rows[0].due_ms);
                rig.now_ms = rig.rows[0].due_ms - 1;
                cr_expect_eq(lane_rig_read_parked(&rig) <= 0, true);
                read_back_after(1);
        }
        expect_starts(1, 1);
        lane_rig_finish(&rig, 1, OUTCOME_RETRY);
        lane_rig_settle(&rig);
        cr_expect_str_eq(lane_rig_rows(&rig), "");
        cr_assert_eq(rig.n_dead, 1);
        cr_expect_eq(rig.dead[0].reason, DEAD_ATTEMPTS);
        cr_expect_eq(rig.dead[0].n_attempts, 5);
        cr_expect_str_eq(rig.dead[0].words, "no");
}

Test(lane_retry, waits_as_long_as_the_peer_asks_for_but_no_shorter_than_its_backoff)
{
        lane_rig_read(&rig, "- -");
        expect_starts(1, 2);
        cr_expect_eq(lane_rig_finish_delayed(&rig, 1, OUTCOME_RETRY, 60000), 60000);
        cr_expect_eq(lane_rig_finish_delayed(&rig, 2, OUTCOME_RETRY, 1), 100);
        lane_rig_settle(&rig);
        cr_expect_eq(lane_next_due(&rig.lane), rig.rows[1].due_ms, "the earliest");
        read_back_after(59000);
        expect_starts(2, 2);
        deliver_all_in_flight(2, 2);
        lane_rig_settle(&rig);
        read_back_after(1000);
        expect_starts(1, 1);
        deliver_all_in_flight(1, 1);
}

Test(lane_retry, blocks_only_its_key)
{
        lane_rig_read(&rig, "a b a b");
        expect_starts(1, 2);
        lane_rig_finish(&rig, 1, OUTCOME_RETRY);
        lane_rig_finish(&rig, 2, OUTCOME_DELIVERED);
        expect_starts(4, 4);
        lane_rig_finish(&rig, 4, OUTCOME_DELIVERED);
        lane_rig_settle(&rig);
        cr_expect_eq(rig.settled, 4, "the cursor does not wait");
        cr_expect_str_eq(lane_rig_rows(&rig), "1:retry 3:blocked");
}

Test(lane_retry, takes_turns_with_deliveries_that_were_never_started)
{
        lane_rig_read(&rig, "a b");
        expect_starts(1, 2);
        lane_rig_finish(&rig, 1, OUTCOME_RETRY);
        lane_rig_finish(&rig, 2, OUTCOME_RETRY);
        lane_rig_settle(&rig);
        lane_rig_read(&rig, "c d");
        read_back_after(100);
        cr_expect_eq(lane_rig_start(&rig), 1);
        cr_expect_eq(lane_rig_start(&rig), 3);
        cr_expect_eq(lane_rig_start(&rig), 2);
        cr_expect_eq(lane_rig_start(&rig), 4);
        deliver_all_in_flight(1, 4);
}

Test(lane_outage, costs_no_attempt)
{
        lane_rig_read(&rig, "a");
        for (int i = 0; i < 5; i++) {
                expect_starts(1, 1);
                cr_expect_eq(lane_rig_delivery(&rig, 1)->attempt.number, 1);
                cr_expect_eq(lane_rig_finish(&rig, 1, OUTCOME_SINK_DOWN), 0);
                rig.now_ms += 5000;
        }
        expect_starts(1, 1);
        cr_expect_eq(lane_rig_finish(&rig, 1, OUTCOME_RETRY), 100, "as after a first failure");
        lane_rig_settle(&rig);
        cr_expect_eq(rig.rows[0].n_attempts, 1);
}

Test(lane_outage, stops_the_lane_until_a_single_probe_succeeds)
{
        lane_rig_read(&rig, "- - - -");
        start(1);
        lane_rig_finish(&rig, 1, OUTCOME_SINK_DOWN);
        cr_expect_eq(lane_rig_start(&rig), 0);
        cr_expect_eq(lane_next_due(&rig.lane), rig.now_ms + 200);

        rig.now_ms += 200;
        expect_starts(1, 1);
        cr_expect_eq(lane_next_due(&rig.lane), -1, "the probe's answer comes by itself");
        lane_rig_finish(&rig, 1, OUTCOME_SINK_DOWN);
        rig.now_ms += 399;
        cr_expect_eq(lane_rig_start(&rig), 0, "longer than before");
        rig.now_ms += 1;
        expect_starts(1, 1);
        lane_rig_finish(&rig, 1, OUTCOME_DELIVERED);
        expect_starts(2, 3); /* and not more at first */
        lane_rig_finish(&rig, 2, OUTCOME_DELIVERED);
        expect_starts(4, 4);
        deliver_all_in_flight(3, 4);
}

Test(lane_outage, probes_only_when_nothing_is_in_flight)
{
        lane_rig_read(&rig, "- -");
        expect_starts(1, 2);
        lane_rig_finish(&rig, 1, OUTCOME_SINK_DOWN);
        rig.now_ms += 1000;

        cr_expect_eq(lane_rig_start(&rig), 0);
        cr_expect_eq(lane_next_due(&rig.lane), -1, "no timer needed for the answer");
        lane_rig_finish(&rig, 2, OUTCOME_SINK_DOWN);
        cr_expect_eq(lane_rig_start(&rig), 0, "it is still down");
        cr_expect_eq(lane_next_due(&rig.lane), rig.now_ms + 400);
}

Test(lane_outage, lasts_at_least_as_long_as_the_peer_asked_for)
{
        lane_rig_read(&rig, "- - -");
        expect_starts(1, 3);
        lane_rig_finish_delayed(&rig, 1, OUTCOME_SINK_DOWN, 60000);
        lane_rig_finish(&rig, 2, OUTCOME_DELIVERED);
        lane_rig_finish(&rig, 3, OUTCOME_SINK_DOWN);

        rig.now_ms += 59999;
        cr_expect_eq(lane_rig_start(&rig), 0);
        cr_expect_eq(lane_next_due(&rig.lane), rig.now_ms + 1);
        rig.now_ms += 1;
        expect_starts(1, 1);
        lane_rig_finish(&rig, 1, OUTCOME_DELIVERED);
        expect_starts(3, 3);
        lane_rig_finish(&rig, 3, OUTCOME_DELIVERED);
}

Test(lane_outage, is_followed_by_everything_in_delivery_order)
{
        lane_rig_read(&rig, "a b c d");
        expect_starts(1, 4);
        lane_rig_finish(&rig, 3, OUTCOME_SINK_DOWN);
        lane_rig_finish(&rig, 1, OUTCOME_SINK_DOWN);
        lane_rig_finish(&rig, 4, OUTCOME_SINK_DOWN);
        lane_rig_finish(&rig, 2, OUTCOME_SINK_DOWN);
        rig.now_ms += 200;

        expect_starts(1, 1);
        lane_rig_finish(&rig, 1, OUTCOME_DELIVERED);
        expect_starts(2, 3); /* and not more at first */
        lane_rig_finish(&rig, 2, OUTCOME_DELIVERED);
        expect_starts(4, 4);
        deliver_all_in_flight(3, 4);
}

Test(lane_outage, does_not_keep_the_timer_busy_with_rows_that_fall_due)
{
        lane_rig_read(&rig, "a b");
        expect_starts(1, 2);
        lane_rig_finish(&rig, 1, OUTCOME_RETRY);
        lane_rig_settle(&rig);
        lane_rig_finish_delayed(&rig, 2, OUTCOME_SINK_DOWN, 60000);
        rig.now_ms += 30000;

        cr_expect_eq(lane_rig_start(&rig), 0);
        cr_expect_eq(lane_rig_read_parked(&rig), -1, "it is well where it is");
        cr_expect_eq(lane_next_due(&rig.lane), rig.now_ms + 30000);
}

Test(lane_outage, is_ended_by_any_answer_of_the_peer)
{
        lane_rig_read(&rig, "a b");
        expect_starts(1, 2);
        lane_rig_finish(&rig, 1, OUTCOME_SINK_DOWN);
        lane_rig_finish(&rig, 2, OUTCOME_SINK_DOWN);
        rig.now_ms += 200;
        expect_starts(1, 1);
        lane_rig_finish(&rig, 1, OUTCOME_REJECTED);
        expect_starts(2, 2);
        lane_rig_finish(&rig, 2, OUTCOME_DELIVERED);
}

Test(lane_retry, does_not_wait_after_a_cancelled_attempt)
{
        lane_rig_read(&rig, "a a -");
        start(1);
        cr_expect_eq(lane_rig_finish(&rig, 1, OUTCOME_CANCELLED), 0);
        cr_expect_eq(rig.lane.breaker.state, BREAKER_CLOSED);

        cr_expect_eq(lane_rig_start(&rig), 1);
        cr_expect_eq(lane_rig_delivery(&rig, 1)->attempt.number, 1);
        cr_expect_eq(lane_rig_start(&rig), 3);
        lane_rig_finish(&rig, 1, OUTCOME_CANCELLED);
        lane_rig_finish(&rig, 3, OUTCOME_CANCELLED);
}
