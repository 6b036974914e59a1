/* What the simulator once found broken, each as the shortest history that shows it. */
#include "support/lane_steps.h"

static void read_back(int n_rows)
{
        lane_ring_parked(&rig.lane);
        cr_assert_eq(lane_rig_read_parked(&rig), n_rows);
}

static void put_row(int64_t id, const char *key, enum parked_state state)
{
        struct rig_row row = {.id = id, .state = state, .due_ms = rig.now_ms};

        snprintf(row.key, sizeof row.key, "%s", key);
        rig.rows[rig.n_rows++] = row;
}

/* The next owner, with what is in the rows. */
static void own_anew(void)
{
        lane_lose(&rig.lane);
        lane_rig_own(&rig, 100);
}

TestSuite(lane_regressions, .init = open_rig, .fini = close_rig);
TestSuite(lane_regressions_in_order, .init = open_keeping_order, .fini = close_rig);

/* 101 was never started before, so it came to be its turn before that of 1. */
Test(lane_regressions_in_order, starts_rows_that_were_read_back_before_their_followers)
{
        put_row(1, "a", PARKED_DELAYED);
        own_anew();
        read_back(1);
        lane_rig_read(&rig, "a");
        deliver(1);
        deliver(101);
}

/* 1 is under way and late, and its row written; then an outage ends its attempt. */
Test(lane_regressions, keeps_a_slow_head_before_later_deliveries)
{
        lane_rig_read(&rig, "a b");
        start(1);
        deliver(2);
        rig.now_ms += 1000;
        lane_rig_settle(&rig);
        cr_assert_str_eq(lane_rig_rows(&rig), "1:retry");
        lane_rig_read(&rig, "a");
        lane_rig_finish(&rig, 1, OUTCOME_SINK_DOWN);
        rig.now_ms += 10000;
        deliver(1);
        deliver(3);
}

/* 1, delayed, was read back behind 101 and has no place among the rows of its key. */
Test(lane_regressions_in_order, places_a_delayed_event_that_fails_behind_its_key)
{
        lane_rig_read(&rig, "a");
        start(1);
        put_row(9, "a", PARKED_DELAYED);
        read_back(1);
        start(9);
        lane_rig_finish(&rig, 1, OUTCOME_RETRY);
        lane_rig_finish(&rig, 9, OUTCOME_RETRY);
        lane_rig_settle(&rig);
        cr_expect_str_eq(lane_rig_rows(&rig), "1:retry 9:blocked");
}

Test(lane_regressions_in_order, counts_a_delayed_event_that_goes_back_as_delayed)
{
        lane_rig_read(&rig, "a");
        start(1);
        put_row(9, "a", PARKED_DELAYED);
        read_back(1);
        start(9);
        lane_rig_finish(&rig, 1, OUTCOME_RETRY);
        lane_rig_finish(&rig, 9, OUTCOME_CANCELLED);
        lane_rig_settle(&rig);
        cr_assert_str_eq(lane_rig_rows(&rig), "9:delayed 1:retry");
        cr_expect_eq(rig.lane.parked.n_rows, 1);
        read_back(1);
        lane_rig_settle(&rig);
        cr_expect_str_eq(lane_rig_rows(&rig), "1:retry 9:blocked");
}

/* 3 is under way since before 1 and 2 were stored. */
Test(lane_regressions_in_order, parks_a_delivery_in_flight_behind_rows_that_were_stored_since)
{
        put_row(1, "a", PARKED_BLOCKED);
        put_row(2, "a", PARKED_BLOCKED);
        put_row(3, "a", PARKED_BLOCKED);
        own_anew();
        read_back(3);
        start(1);
        start(2);
        start(3);
        lane_rig_finish(&rig, 1, OUTCOME_RETRY);
        lane_rig_finish(&rig, 2, OUTCOME_CANCELLED);
        lane_rig_settle(&rig);
        rig.now_ms += 100;
        read_back(1);
        deliver(1);
        lane_rig_finish(&rig, 3, OUTCOME_RETRY);
        lane_rig_settle(&rig);
        cr_expect_str_eq(lane_rig_rows(&rig), "2:blocked 3:blocked");
        read_back(2);
        deliver(2);
        deliver(3);
}

/* 1 was read back while 3 was still under way: it comes before it. */
Test(lane_regressions_in_order, goes_on_with_the_first_although_a_later_delivery_is_in_flight)
{
        put_row(1, "a", PARKED_BLOCKED);
        put_row(2, "a", PARKED_BLOCKED);
        own_anew();
        read_back(2);
        start(1);
        start(2);
        lane_rig_finish(&rig, 1, OUTCOME_RETRY);
        lane_rig_settle(&rig);
        rig.now_ms += 100;
        read_back(1);
        start(1);
        lane_rig_finish(&rig, 2, OUTCOME_CANCELLED);
        cr_expect_eq(lane_rig_start(&rig), 0, "2 waits for 1");
        lane_rig_finish(&rig, 1, OUTCOME_DELIVERED);
        deliver(2);
}

/* Each time that 1 was read back it was taken for one of those that are blocked. */
Test(lane_regressions, reads_blocked_rows_when_the_sink_no_longer_keeps_order)
{
        struct lane_policy policy = lane_rig_policy;

        lane_rig_close(&rig);
        policy.by_key = false;
        policy.max_in_flight = 4;
        lane_rig_open(&rig, &policy);
        put_row(1, "a", PARKED_RETRY);
        put_row(2, "a", PARKED_BLOCKED);
        own_anew();
        for (int i = 0; i < 3; i++) {
                read_back(1);
                start(1);
                lane_rig_finish(&rig, 1, OUTCOME_RETRY);
                lane_rig_settle(&rig);
                rig.now_ms += 1000;
        }
        read_back(1);
        deliver(1);
        lane_rig_settle(&rig);
        read_back(1);
        deliver(2);
        lane_rig_settle(&rig);
        cr_expect_str_eq(lane_rig_rows(&rig), "");
}

Test(lane_regressions, leaves_the_page_under_way_its_room_in_the_window)
{
        put_row(1, "", PARKED_DELAYED);
        own_anew();
        lane_rig_read(&rig, "- - - - - - - - - -");
        lane_ring(&rig.lane);
        cr_assert(lane_rig_wants_page(&rig), "for ten more, which is all of the window");
        cr_expect_eq(lane_rig_read_parked(&rig), -1);
}

Test(lane_regressions, reads_back_no_more_than_a_share_of_the_windows_bytes)
{
        struct lane_policy policy = lane_rig_policy;

        lane_rig_close(&rig);
        policy.max_in_flight_bytes = 60;
        lane_rig_open(&rig, &policy);
        put_row(1, "", PARKED_RETRY);
        put_row(2, "", PARKED_RETRY);
        own_anew();
        read_back(2);
        put_row(3, "", PARKED_RETRY);
        lane_ring_parked(&rig.lane);
        cr_expect_eq(lane_rig_read_parked(&rig), -1, "20 bytes are more than a quarter of 60");
        deliver(1);
        deliver(2);
        lane_rig_settle(&rig);
        read_back(1);
}

Test(lane_regressions, forgets_the_page_under_way_when_it_loses_the_lane)
{
        lane_ring(&rig.lane);
        cr_assert(lane_rig_wants_page(&rig));
        put_row(1, "", PARKED_DELAYED);
        own_anew();
        cr_expect_eq(rig.lane.stream.n_reading, 0);
        read_back(1);
        deliver(1);
}

/* Its sink may still hold others of the key that it is about to give back. */
Test(lane_regressions_in_order, goes_on_one_by_one_after_the_sink_gave_a_key_back)
{
        lane_rig_read(&rig, "a a a");
        start(1);
        start(2);
        start(3);
        lane_rig_finish(&rig, 1, OUTCOME_CANCELLED);
        start(1);
        cr_expect_eq(lane_rig_start(&rig), 0);
        lane_rig_finish(&rig, 2, OUTCOME_CANCELLED);
        lane_rig_finish(&rig, 3, OUTCOME_CANCELLED);
        cr_expect_eq(lane_rig_start(&rig), 0);
        lane_rig_finish(&rig, 1, OUTCOME_DELIVERED);
        start(2);
        cr_expect_eq(lane_rig_start(&rig), 0);
        lane_rig_finish(&rig, 2, OUTCOME_DELIVERED);
        deliver(3);
}

/* Killed here, the next owner could have delivered 1, which takes what it gets now, behind 2. */
Test(lane_regressions, starts_no_follower_before_a_dead_letter_is_written)
{
        lane_rig_read(&rig, "a a");
        start(1);
        lane_rig_finish(&rig, 1, OUTCOME_REJECTED);
        start(0);
        cr_assert_eq(lane_rig_wants_settle(&rig), 1, "at once");
        start(0);
        lane_rig_answer_settle(&rig);
        deliver(2);
}

/* 2 was sent with it; but 3, which was not, waits. */
Test(lane_regressions_in_order, starts_no_more_of_a_key_before_its_dead_letter_is_written)
{
        lane_rig_read(&rig, "a a");
        start(1);
        start(2);
        lane_rig_finish(&rig, 1, OUTCOME_REJECTED);
        lane_rig_read(&rig, "a");
        start(0);
        cr_assert_eq(lane_rig_wants_settle(&rig), 1, "at once");
        lane_rig_answer_settle(&rig);
        start(3);
        lane_rig_finish(&rig, 2, OUTCOME_DELIVERED);
        lane_rig_finish(&rig, 3, OUTCOME_DELIVERED);
}

static void open_with_a_rate(void)
{
        struct lane_policy policy = lane_rig_policy;

        policy.rate_per_s = 1;
        policy.rate_burst = 1;
        lane_rig_open(&rig, &policy);
}

TestSuite(lane_regressions_with_a_rate, .init = open_with_a_rate, .fini = close_rig);

Test(lane_regressions_with_a_rate, waits_for_the_rate_when_the_breaker_would_probe)
{
        lane_rig_read(&rig, "a b");
        start(1);
        lane_rig_finish(&rig, 1, OUTCOME_SINK_DOWN);
        lane_probe_now(&rig.lane, rig.now_ms);

        start(0);
        cr_assert_eq(lane_next_due(&rig.lane), rig.now_ms + 1000);
        rig.now_ms += 1000;
        start(1);
        lane_rig_finish(&rig, 1, OUTCOME_DELIVERED);
}

Test(lane_regressions_with_a_rate, is_not_due_while_a_probe_has_to_end_first)
{
        lane_rig_read(&rig, "a b");
        start(1);
        lane_rig_finish(&rig, 1, OUTCOME_SINK_DOWN);
        rig.now_ms += 60000;
        start(1);
        rig.now_ms += 60000;
        start(0);
        /* Not even its slow head: that has been parked. */
        cr_expect(lane_next_due_without_starts(&rig.lane) == lane_next_due(&rig.lane));
        lane_rig_finish(&rig, 1, OUTCOME_DELIVERED);
}

Test(lane_regressions_with_a_rate, is_due_for_a_start_only_where_starts_are_possible)
{
        lane_rig_read(&rig, "a b");
        start(1);
        lane_rig_finish(&rig, 1, OUTCOME_SINK_DOWN);
        cr_expect(lane_next_due(&rig.lane) > 0);
        cr_expect_eq(lane_next_due_without_starts(&rig.lane), -1);
}

Test(lane_regressions_with_a_rate, gets_back_the_token_of_a_postponed_delivery)
{
        const struct outcome postponed = {
            .kind = OUTCOME_RETRY, .delay_ms = 5000, .is_postponed = true};

        lane_rig_read(&rig, "a b");
        start(1);
        cr_expect_eq(lane_rig_end(&rig, 1, &postponed).retry_ms, 5000);
        start(2);
        lane_rig_finish(&rig, 2, OUTCOME_DELIVERED);
}

/* A relay without order has parked 1, 2 and 3, so each comes back when it is due. 3 is read before
 * 1 is parked again, and starts; 1 and 2, which stand before it, come then. */
Test(lane_regressions, starts_no_row_beside_a_later_one_of_its_key)
{
        for (int64_t id = 1; id <= 3; id++)
                put_row(id, "a", PARKED_RETRY);
        rig.rows[1].due_ms += 2000;
        rig.rows[2].due_ms += 1000;
        own_anew();
        read_back(1);
        start(1);
        rig.now_ms += 1000;
        lane_rig_finish(&rig, 1, OUTCOME_RETRY);
        read_back(1);
        lane_rig_settle(&rig);
        start(3);
        rig.now_ms += 1000;
        read_back(2);
        start(0);
        lane_rig_finish(&rig, 3, OUTCOME_DELIVERED);
        deliver(1);
        deliver(2);
}
