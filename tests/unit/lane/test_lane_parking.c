/* What is taken out of the stream, and how it comes back. */
#include "support/lane_steps.h"

TestSuite(lane_parking, .init = open_rig, .fini = close_rig);
TestSuite(lane_slow, .init = open_rig, .fini = close_rig);

Test(lane_parking, parks_only_events_behind_a_parked_key)
{
        park_a_key();
        lane_rig_read(&rig, "a b");
        deliver(5);
        lane_rig_settle(&rig);
        cr_expect_eq(rig.settled, 5);
        cr_expect_str_eq(lane_rig_rows(&rig), "1:retry 2:blocked 3:blocked 4:blocked");
}

Test(lane_parking, lets_a_key_go_on_in_order_when_its_first_delivery_is_done)
{
        park_a_key();
        lane_rig_read(&rig, "a");
        rig.now_ms += 100;
        cr_assert_eq(lane_rig_read_parked(&rig), 1);
        cr_expect_eq(lane_rig_read_parked(&rig), -1, "the others wait for it");
        deliver(1);
        cr_assert_gt(lane_rig_read_parked(&rig), 0);
        deliver(2);
        deliver(3);
        lane_rig_settle(&rig);
        cr_expect_gt(lane_rig_read_parked(&rig), 0);
        deliver(4);
        lane_rig_settle(&rig);
        cr_expect_str_eq(lane_rig_rows(&rig), "");
        lane_rig_read(&rig, "a");
        deliver(5);
}

Test(lane_parking, tries_the_first_delivery_of_a_key_again_and_leaves_the_others_parked)
{
        park_a_key();
        rig.now_ms += 100;
        lane_rig_read_parked(&rig);
        start(1);
        lane_rig_finish(&rig, 1, OUTCOME_RETRY);
        lane_rig_settle(&rig);
        cr_expect_str_eq(lane_rig_rows(&rig), "1:retry 2:blocked 3:blocked");
        cr_expect_eq(rig.rows[0].n_attempts, 2);
        cr_expect_eq(rig.rows[0].retried_ms, 300);
        cr_expect_eq(lane_next_due(&rig.lane), rig.rows[0].due_ms);
}

Test(lane_parking, is_remembered_by_the_next_owner)
{
        park_a_key();
        lane_lose(&rig.lane);
        lane_rig_own(&rig, 3);
        lane_rig_read(&rig, "a b");
        cr_expect_eq(lane_rig_read_parked(&rig), 0);
        deliver(5);
        rig.now_ms += 100;
        cr_expect_eq(lane_rig_read_parked(&rig), 1);
        deliver(1);
        lane_rig_settle(&rig);
        cr_expect_str_eq(lane_rig_rows(&rig), "2:blocked 3:blocked 4:blocked");
}

Test(lane_parking, goes_on_with_a_key_whose_first_event_the_last_owner_delivered)
{
        park_a_key();
        rig.now_ms += 100;
        lane_rig_read_parked(&rig);
        deliver(1);
        lane_rig_settle(&rig);
        lane_lose(&rig.lane);
        lane_rig_own(&rig, 3);
        cr_expect_gt(lane_rig_read_parked(&rig), 0);
        deliver(2);
}

Test(lane_parking, leaves_delayed_events_until_they_are_due_and_then_puts_them_behind_their_key)
{
        rig.delayed = 1;
        lane_rig_read(&rig, "a b");
        deliver(2);
        lane_rig_settle(&rig);
        cr_expect_str_eq(lane_rig_rows(&rig), "1:delayed");
        rig.rows[0].due_ms = rig.now_ms + 5000;
        cr_expect_eq(lane_rig_read_parked(&rig), 0, "it asks when");
        cr_expect_eq(lane_next_due(&rig.lane), rig.rows[0].due_ms);

        lane_rig_read(&rig, "a a");
        start(3);
        lane_rig_finish(&rig, 3, OUTCOME_RETRY);
        lane_rig_settle(&rig);
        cr_expect_str_eq(lane_rig_rows(&rig), "1:delayed 3:retry 4:blocked");
        rig.rows[1].due_ms = rig.now_ms + 60000;
        rig.now_ms += 5000;
        lane_ring_parked(&rig.lane);
        cr_expect_gt(lane_rig_read_parked(&rig), 0);
        lane_rig_settle(&rig);
        cr_expect_str_eq(lane_rig_rows(&rig), "3:retry 4:blocked 1:blocked");
}

Test(lane_parking, reads_no_more_when_too_many_are_parked)
{
        rig.lane.policy.max_parked = 3;
        park_a_key();
        lane_ring(&rig.lane);
        cr_expect_not(lane_rig_wants_page(&rig));
        rig.now_ms += 100;
        lane_rig_read_parked(&rig);
        deliver(1);
        lane_rig_settle(&rig);
        cr_expect(lane_rig_wants_page(&rig));
}

Test(lane_parking, counts_the_rows_that_it_reads_back_in_the_window)
{
        struct parked_request request;

        for (int i = 0; i < 4; i++) {
                lane_rig_read(&rig, "- - - -");
                for (int64_t id = 4 * i + 1; id <= 4 * i + 4; id++) {
                        start(id);
                        lane_rig_finish(&rig, id, id == 8 ? OUTCOME_DELIVERED : OUTCOME_RETRY);
                }
                lane_rig_settle(&rig);
        }
        rig.now_ms += 100000;
        cr_assert(lane_wants_parked(&rig.lane, rig.now_ms, &request));
        cr_expect_eq(request.max_rows, 5, "a quarter of the window");
}

Test(lane_parking, does_not_read_while_paused_and_goes_on_when_resumed)
{
        park_a_key();
        lane_pause(&rig.lane);
        lane_ring(&rig.lane);
        rig.now_ms += 100;
        cr_expect_eq(lane_rig_read_parked(&rig), -1);
        cr_expect_not(lane_rig_wants_page(&rig));
        cr_expect_eq(lane_next_due(&rig.lane), -1);
        cr_expect(lane_is_caught_up(&rig.lane, false, rig.now_ms), "as far as it may");
        lane_resume(&rig.lane);
        cr_expect_eq(lane_rig_read_parked(&rig), 1);
        deliver(1);
}

Test(lane_parking, leaves_rows_parked_that_it_read_back_when_it_drains)
{
        park_a_key();
        rig.now_ms += 100;
        lane_rig_read_parked(&rig);
        lane_drain(&rig.lane);
        cr_expect(lane_is_at_rest(&rig.lane));
        cr_expect_eq(rig.pages.n_held, 0);
        cr_expect_str_eq(lane_rig_rows(&rig), "1:retry 2:blocked 3:blocked");
}

Test(lane_parking, hears_of_changes_by_hand_while_rows_are_being_read)
{
        struct parked_request request;

        lane_ring_parked(&rig.lane);
        cr_assert(lane_wants_parked(&rig.lane, rig.now_ms, &request));
        lane_ring_parked(&rig.lane);
        lane_take_parked(&rig.lane, pages_make_parked(&rig.pages), rig.now_ms);
        cr_expect_eq(lane_rig_read_parked(&rig), 0, "it looks once more");
        cr_expect_eq(lane_rig_read_parked(&rig), -1);
}

/* As a dead letter that is dropped, or rows that are deleted, behind the lane's back. */
Test(lane_parking, lets_a_key_go_on_whose_rows_were_deleted_by_hand)
{
        park_a_key();
        rig.now_ms += 100;
        lane_rig_read_parked(&rig);
        rig.n_rows = 1;
        deliver(1);
        cr_expect_eq(lane_rig_read_parked(&rig), 0);
        lane_rig_settle(&rig);
        cr_expect_eq(lane_rig_read_parked(&rig), -1, "it does not ask for ever");
        lane_rig_read(&rig, "a");
        deliver(4);
}

Test(lane_slow, is_parked_in_flight_together_with_its_key)
{
        lane_rig_read(&rig, "a b a");
        start(1);
        deliver(2);
        cr_expect_eq(lane_next_due(&rig.lane), rig.now_ms + 1000);
        rig.now_ms += 999;
        cr_expect_eq(lane_rig_wants_settle(&rig), -1);
        rig.now_ms += 1;
        lane_rig_settle(&rig);
        cr_expect_eq(rig.settled, 3);
        cr_expect_str_eq(lane_rig_rows(&rig), "1:retry 3:blocked");
        cr_expect_eq(rig.rows[0].n_attempts, 0);
        cr_expect_eq(lane_rig_read_parked(&rig) <= 0, true, "it is under way");

        lane_rig_finish(&rig, 1, OUTCOME_DELIVERED);
        cr_expect_eq(lane_rig_read_parked(&rig), 1);
        deliver(3);
        lane_rig_settle(&rig);
        cr_expect_str_eq(lane_rig_rows(&rig), "");
}

Test(lane_slow, is_charged_when_it_fails_after_it_was_parked)
{
        lane_rig_read(&rig, "a b a");
        start(1);
        deliver(2);
        rig.now_ms += 1000;
        lane_rig_settle(&rig);
        lane_rig_finish(&rig, 1, OUTCOME_RETRY);
        lane_rig_settle(&rig);
        cr_expect_str_eq(lane_rig_rows(&rig), "1:retry 3:blocked");
        cr_expect_eq(rig.rows[0].n_attempts, 1);
        cr_expect_eq(lane_rig_read_parked(&rig) <= 0, true);
        cr_expect_eq(lane_rig_start(&rig), 0);
}

Test(lane_slow, may_end_while_it_is_being_parked)
{
        lane_rig_read(&rig, "a b");
        start(1);
        deliver(2);
        rig.now_ms += 1000;
        cr_assert_eq(lane_rig_wants_settle(&rig), -1, "in a moment");
        rig.now_ms += 20;
        cr_assert_eq(lane_rig_wants_settle(&rig), 2);
        lane_rig_finish(&rig, 1, OUTCOME_DELIVERED);
        lane_rig_answer_settle(&rig);
        lane_rig_settle(&rig);
        cr_expect_str_eq(lane_rig_rows(&rig), "");
        cr_expect_eq(rig.pages.n_held, 0);
}

Test(lane_slow, is_charged_when_it_fails_before_its_parking_is_written)
{
        decide_to_park_a_slow_one();
        cr_expect_eq(lane_rig_finish(&rig, 1, OUTCOME_RETRY), 100);
        lane_rig_settle(&rig);
        cr_expect_eq(rig.settled, 3);
        cr_expect_str_eq(lane_rig_rows(&rig), "1:retry 3:blocked");
        cr_expect_eq(rig.rows[0].n_attempts, 1);
        cr_expect_eq(rig.rows[0].retried_ms, 100);
        cr_expect_leq(lane_rig_read_parked(&rig), 0, "it is not due");
}

Test(lane_slow, is_read_back_when_it_is_cancelled_while_parked)
{
        decide_to_park_a_slow_one();
        lane_rig_finish(&rig, 1, OUTCOME_CANCELLED);
        cr_expect_eq(lane_rig_start(&rig), 0, "it has no row to come back from yet");
        cr_expect(lane_rig_delivery(&rig, 1)->state == DELIVERY_DECIDED);
        lane_rig_settle(&rig);
        cr_expect_str_eq(lane_rig_rows(&rig), "1:retry 3:blocked");
        cr_expect_eq(rig.rows[0].n_attempts, 0);
        cr_assert_gt(lane_rig_read_parked(&rig), 0);
        deliver(1);
        cr_assert_gt(lane_rig_read_parked(&rig), 0);
        deliver(3);
}

Test(lane_slow, has_later_events_of_its_key_parked_that_hold_up_others)
{
        lane_rig_read(&rig, "a b");
        start(1);
        deliver(2);
        rig.now_ms += 1000;
        lane_rig_settle(&rig);
        lane_rig_read(&rig, "a b a");
        deliver(4);
        lane_rig_settle(&rig);
        cr_expect_eq(rig.settled, 5);
        cr_expect_str_eq(lane_rig_rows(&rig), "1:retry 3:blocked 5:blocked");
        lane_rig_finish(&rig, 1, OUTCOME_DELIVERED);
        cr_assert_gt(lane_rig_read_parked(&rig), 0);
        deliver(3);
        deliver(5);
}

Test(lane_slow, is_not_parked_when_it_holds_up_no_other_delivery)
{
        lane_rig_read(&rig, "a b");
        start(1);
        start(2);
        rig.now_ms += 5000;
        cr_expect_eq(lane_rig_wants_settle(&rig), -1);
        cr_expect_eq(lane_next_due(&rig.lane), -1);
        lane_rig_finish(&rig, 1, OUTCOME_DELIVERED);
        lane_rig_finish(&rig, 2, OUTCOME_DELIVERED);
}

Test(lane_slow, is_not_parked_in_an_outage)
{
        lane_rig_read(&rig, "a b c");
        start(1);
        start(2);
        start(3);
        lane_rig_finish(&rig, 2, OUTCOME_DELIVERED);
        lane_rig_finish(&rig, 3, OUTCOME_SINK_DOWN);
        rig.now_ms += 5000;
        cr_expect_eq(lane_rig_wants_settle(&rig), -1);
        rig.now_ms += 5000;
        cr_expect_eq(lane_rig_wants_settle(&rig), -1);
        lane_rig_finish(&rig, 1, OUTCOME_DELIVERED);
}
