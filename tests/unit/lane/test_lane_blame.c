/* An answer that blames the destination: is it down, or is it this event, or its target? */
#include "lane/suspects.h"

#include "support/lane_steps.h"

static const struct outcome down = {
    .kind = OUTCOME_SINK_DOWN, .delay_ms = OUTCOME_NO_DELAY, .reason = "503"};
static const struct outcome refused = {.kind = OUTCOME_SINK_DOWN,
    .delay_ms = OUTCOME_NO_DELAY,
    .needs_operator = true,
    .reason = "404"};
static const struct outcome unreached = {.kind = OUTCOME_SINK_DOWN,
    .delay_ms = OUTCOME_NO_DELAY,
    .needs_operator = true,
    .concerns_all = true,
    .reason = "no login"};
static const struct outcome unanswered = {.kind = OUTCOME_RETRY,
    .delay_ms = OUTCOME_NO_DELAY,
    .is_unanswered = true,
    .reason = "silence"};

/* The target is the first letter of the key. */
static uint64_t hash_target(const void *owner, const struct event *event)
{
        (void)owner;
        return (uint64_t)event->key[0];
}

static void open_with_targets(void)
{
        struct lane_policy policy = lane_rig_policy;

        policy.hash_target = hash_target;
        lane_rig_open(&rig, &policy);
}

static void expect_end(int64_t id, const struct outcome *outcome, enum lane_decision decision)
{
        enum lane_decision decided = lane_rig_end(&rig, id, outcome).decision;

        cr_assert_eq(decided, decision, "%lld: %d", (long long)id, (int)decided);
}

static void fail(int64_t id, const struct outcome *outcome, enum lane_decision decision)
{
        start(id);
        expect_end(id, outcome, decision);
}

static void wait_for_the_next_to_be_asked(void)
{
        cr_assert_eq(lane_rig_start(&rig), 0);
        rig.now_ms += 200;
}

/* 1 has been answered so twice, and 2 was taken in between. */
static void find_guilty(const struct outcome *outcome)
{
        fail(1, outcome, LANE_AGAIN);
        wait_for_the_next_to_be_asked();
        deliver(2);
        fail(1, outcome, LANE_PARKED);
        cr_assert_eq(rig.lane.breaker.state, BREAKER_CLOSED);
}

TestSuite(lane_blame, .init = open_rig, .fini = close_rig);
TestSuite(lane_blame_targets, .init = open_with_targets, .fini = close_rig);

Test(lane_blame, falls_on_the_event_when_another_is_taken)
{
        lane_rig_read(&rig, "a b a");
        find_guilty(&down);
        lane_rig_read(&rig, "c");
        deliver(4);
        lane_rig_settle(&rig);
        cr_expect_str_eq(lane_rig_rows(&rig), "1:retry 3:blocked");
        cr_expect_eq(rig.rows[0].n_attempts, 1);
}

Test(lane_blame, falls_on_an_event_that_is_never_answered)
{
        lane_rig_read(&rig, "a b");
        find_guilty(&unanswered);
}

Test(lane_blame, falls_on_the_event_when_another_is_refused_for_itself)
{
        lane_rig_read(&rig, "a b");
        fail(1, &down, LANE_AGAIN);
        wait_for_the_next_to_be_asked();
        start(2);
        lane_rig_finish(&rig, 2, OUTCOME_RETRY);
        fail(1, &down, LANE_PARKED);
}

Test(lane_blame, falls_on_the_destination_when_another_is_answered_so_too)
{
        lane_rig_read(&rig, "a b c");
        fail(1, &refused, LANE_AGAIN);
        cr_expect_not(lane_is_down(&rig.lane), "3 is asked first");
        wait_for_the_next_to_be_asked();
        fail(3, &refused, LANE_AGAIN);
        cr_expect(lane_is_down(&rig.lane));
        rig.now_ms += 9999;
        start(0);
        rig.now_ms += 10001;
        deliver(2);
        deliver(1);
        deliver(3);
        lane_rig_settle(&rig);
        cr_expect_eq(rig.n_rows, 0, "nothing was charged");
}

Test(lane_blame, of_the_only_event_is_believed_until_another_comes)
{
        lane_rig_read(&rig, "a");
        fail(1, &refused, LANE_AGAIN);
        cr_expect(lane_is_down(&rig.lane));
        rig.now_ms += 10000;
        fail(1, &refused, LANE_AGAIN);
        rig.now_ms += 5000;
        start(0);
        lane_rig_read(&rig, "b");
        cr_expect(lane_wants_start(&rig.lane, rig.now_ms));
        deliver(2);
        cr_expect_not(lane_is_down(&rig.lane));
        fail(1, &refused, LANE_PARKED);
}

Test(lane_blame, of_the_only_event_is_no_more_believed_when_the_lane_is_owned_anew)
{
        lane_rig_read(&rig, "a");
        fail(1, &refused, LANE_AGAIN);
        lane_lose(&rig.lane);
        lane_rig_own(&rig, 0);
        rig.last_id = 0;
        lane_rig_read(&rig, "a");
        rig.now_ms += 10000;
        fail(1, &refused, LANE_AGAIN);
        lane_rig_read(&rig, "b");
        wait_for_the_next_to_be_asked();
        deliver(2);
}

Test(lane_blame, is_believed_at_once_if_it_concerns_all)
{
        lane_rig_read(&rig, "a b");
        fail(1, &unreached, LANE_AGAIN);
        cr_expect(lane_is_down(&rig.lane));
        rig.now_ms += 9999;
        start(0);
        rig.now_ms += 1;
        deliver(1);
        deliver(2);
}

Test(lane_blame, of_several_that_were_in_flight_together_is_not_believed)
{
        lane_rig_read(&rig, "a b c");
        start(1);
        start(2);
        expect_end(1, &refused, LANE_AGAIN);
        expect_end(2, &refused, LANE_AGAIN);
        cr_expect_not(lane_is_down(&rig.lane));
        wait_for_the_next_to_be_asked();
        deliver(3);
        fail(1, &refused, LANE_PARKED);
        fail(2, &refused, LANE_PARKED);
}

Test(lane_blame, is_not_confirmed_by_one_that_is_known_to_fail)
{
        lane_rig_read(&rig, "a b");
        find_guilty(&refused);
        lane_rig_read(&rig, "c");
        fail(3, &refused, LANE_AGAIN);
        lane_rig_settle(&rig);
        rig.now_ms += 10000;
        cr_assert_eq(lane_rig_read_parked(&rig), 1);
        fail(3, &refused, LANE_AGAIN);
        rig.now_ms += 100000;
        fail(1, &refused, LANE_AGAIN);
        lane_rig_read(&rig, "d");
        wait_for_the_next_to_be_asked();
        deliver(4);
        fail(1, &refused, LANE_PARKED);
        fail(3, &refused, LANE_PARKED);
}

Test(lane_blame, is_not_confirmed_by_one_that_failed_before_the_lane_was_owned)
{
        lane_rig_read(&rig, "a b");
        for (int64_t id = 1; id <= 2; id++) {
                start(id);
                lane_rig_finish(&rig, id, OUTCOME_RETRY);
        }
        lane_rig_settle(&rig);
        lane_lose(&rig.lane);
        lane_rig_own(&rig, 2);
        rig.now_ms += 1000;
        cr_assert_eq(lane_rig_read_parked(&rig), 2);
        fail(1, &refused, LANE_AGAIN);
        rig.now_ms += 100000;
        fail(2, &refused, LANE_AGAIN);
        lane_rig_read(&rig, "c");
        wait_for_the_next_to_be_asked();
        deliver(3);
        fail(1, &refused, LANE_PARKED);
}

Test(lane_blame, outlives_parking)
{
        lane_rig_read(&rig, "a b");
        find_guilty(&down);
        lane_rig_settle(&rig);
        lane_rig_read(&rig, "c");
        deliver(3);
        rig.now_ms += 1000;
        cr_assert_eq(lane_rig_read_parked(&rig), 1);
        fail(1, &down, LANE_PARKED);
        cr_expect_eq(rig.lane.breaker.state, BREAKER_CLOSED);
}

Test(lane_blame, of_a_guilty_event_is_not_charged_when_no_other_was_taken_since)
{
        lane_rig_read(&rig, "a b");
        find_guilty(&down);
        lane_rig_settle(&rig);
        rig.now_ms += 1000;
        cr_assert_eq(lane_rig_read_parked(&rig), 1);
        fail(1, &down, LANE_AGAIN);
        cr_expect_eq(rig.lane.breaker.state, BREAKER_OPEN);
}

Test(lane_blame, of_a_guilty_event_is_not_charged_in_an_outage)
{
        lane_rig_read(&rig, "a b");
        find_guilty(&down);
        lane_rig_settle(&rig);
        lane_rig_read(&rig, "c d");
        deliver(3);
        fail(4, &down, LANE_AGAIN);
        rig.now_ms += 1000;
        cr_assert_eq(lane_rig_read_parked(&rig), 1);
        fail(4, &down, LANE_AGAIN);
        rig.now_ms += 1000;
        fail(1, &down, LANE_AGAIN);
}

Test(lane_blame, ends_in_a_dead_letter_after_five_tries_where_an_operator_is_wanted)
{
        struct lane_policy policy = lane_rig_policy;

        policy.retry.max_attempts = 100;
        lane_set_policy(&rig.lane, &policy);
        lane_rig_read(&rig, "a b");
        find_guilty(&refused);
        for (int64_t id = 3; id <= 6; id++) {
                lane_rig_settle(&rig);
                lane_rig_read(&rig, "b");
                deliver(id);
                rig.now_ms += 10000;
                cr_assert_eq(lane_rig_read_parked(&rig), 1);
                fail(1, &refused, id < 6 ? LANE_PARKED : LANE_DEAD);
        }
        lane_rig_settle(&rig);
        cr_expect_eq(rig.dead[0].n_attempts, 5);
        cr_expect_str_eq(rig.dead[0].words, "404");
}

Test(lane_blame, asks_for_a_pause_of_the_sink_once_and_of_its_event_later)
{
        struct outcome later = down;

        later.delay_ms = 60000;
        lane_rig_read(&rig, "a b c");
        fail(1, &later, LANE_AGAIN);
        rig.now_ms += 59999;
        start(0);
        rig.now_ms += 1;
        deliver(3);
        start(1);
        cr_expect_eq(lane_rig_end(&rig, 1, &later).retry_ms, 60000);
        deliver(2);
}

Test(lane_blame, asks_the_newest_as_neighbours_may_share_a_fault)
{
        lane_rig_read(&rig, "a b c d");
        fail(1, &refused, LANE_AGAIN);
        wait_for_the_next_to_be_asked();
        deliver(4);
        fail(1, &refused, LANE_PARKED);
        fail(2, &refused, LANE_AGAIN);
        cr_expect_eq(rig.lane.breaker.state, BREAKER_CLOSED, "3 is ready");
        deliver(3);
        fail(2, &refused, LANE_PARKED);
}

Test(lane_blame, is_believed_of_ten_if_it_was_one_events_fault_lately)
{
        lane_rig_read(&rig, "- -");
        find_guilty(&refused);
        lane_rig_read(&rig, "- - - - - - -");
        lane_rig_read(&rig, "- - - - - -");
        for (int64_t id = 3; id <= 11; id++) {
                fail(id, &refused, LANE_AGAIN);
                cr_assert_eq(rig.lane.breaker.state, BREAKER_CLOSED, "%lld", (long long)id);
        }
        fail(12, &refused, LANE_AGAIN);
        cr_expect_not(lane_is_down(&rig.lane));
        wait_for_the_next_to_be_asked();
        fail(15, &refused, LANE_AGAIN);
        cr_expect(lane_is_down(&rig.lane));
        rig.now_ms += 19999;
        start(0);
        rig.now_ms += 1;
        deliver(14);
        fail(3, &refused, LANE_PARKED);
}

Test(lane_blame, is_believed_of_ten_even_if_they_come_one_by_one)
{
        struct lane_policy policy = lane_rig_policy;

        policy.max_in_flight = 40;
        lane_set_policy(&rig.lane, &policy);
        lane_rig_read(&rig, "- -");
        find_guilty(&refused);
        for (int64_t id = 3; id <= 12; id++) {
                lane_rig_read(&rig, "-");
                fail(id, &refused, LANE_AGAIN);
                cr_assert_eq(rig.lane.breaker.state, BREAKER_OPEN);
                rig.now_ms += 200;
        }
        lane_rig_read(&rig, "-");
        fail(13, &refused, LANE_AGAIN);
        lane_rig_read(&rig, "-");
        rig.now_ms += 9999;
        start(0);
}

static void expect_belief_in_two(void)
{
        lane_rig_read(&rig, "- -");
        int64_t id = rig.last_id;

        fail(id - 1, &refused, LANE_AGAIN);
        wait_for_the_next_to_be_asked();
        fail(id, &refused, LANE_AGAIN);
        cr_expect(lane_is_down(&rig.lane));
}

Test(lane_blame, is_believed_of_two_again_after_ten_minutes)
{
        lane_rig_read(&rig, "- -");
        find_guilty(&refused);
        rig.now_ms += 600000;
        expect_belief_in_two();
}

Test(lane_blame, is_believed_of_two_again_when_it_has_proved_true)
{
        lane_rig_read(&rig, "- -");
        find_guilty(&down);
        lane_rig_read(&rig, "- -");
        fail(3, &down, LANE_AGAIN);
        deliver(4);
        deliver(3);
        expect_belief_in_two();
}

Test(lane_blame, holds_up_all_when_it_asks_for_a_pause)
{
        struct outcome later = down;

        later.delay_ms = 60000;
        lane_rig_read(&rig, "- -");
        find_guilty(&down);
        lane_rig_read(&rig, "- -");
        fail(3, &later, LANE_AGAIN);
        rig.now_ms += 59999;
        start(0);
}

Test(lane_blame, of_many_guilty_events_at_once_holds_up_no_other)
{
        lane_rig_read(&rig, "- - - - - - -");
        lane_rig_read(&rig, "- - - - - -");
        for (int64_t id = 1; id <= 12; id++)
                start(id);
        for (int64_t id = 1; id <= 12; id++)
                expect_end(id, &refused, LANE_AGAIN);
        wait_for_the_next_to_be_asked();
        deliver(13);
        for (int64_t id = 1; id <= 12; id++)
                fail(id, &refused, LANE_PARKED);
        cr_expect_eq(rig.lane.breaker.state, BREAKER_CLOSED);
}

Test(lane_blame, of_a_large_event_does_not_keep_it_in_memory)
{
        lane_ring(&rig.lane);
        lane_rig_take_page(&rig, "a", (1 << 18) + 1);
        fail(1, &down, LANE_AGAIN);
        lane_rig_settle(&rig);
        cr_expect_str_eq(lane_rig_rows(&rig), "1:retry");
        cr_expect_eq(rig.rows[0].n_attempts, 0, "and costs nothing");
        cr_expect_eq(rig.rows[0].due_ms, rig.now_ms - 20 + 5000);
}

Test(lane_blame, does_not_keep_the_lane_from_what_stands_behind_its_key)
{
        struct lane_policy policy = lane_rig_policy;

        policy.max_in_flight = 4;
        lane_set_policy(&rig.lane, &policy);
        lane_rig_read(&rig, "a a");
        lane_rig_read(&rig, "a a");
        lane_ring(&rig.lane);
        fail(1, &down, LANE_AGAIN);
        lane_rig_settle(&rig);
        cr_expect_str_eq(lane_rig_rows(&rig), "1:retry 2:blocked 3:blocked 4:blocked");
        lane_rig_read(&rig, "b");
        rig.now_ms += 200;
        deliver(5);
}

Test(lane_blame, does_not_keep_the_cursor_from_events_that_are_to_be_parked)
{
        lane_rig_read(&rig, "a b");
        start(1);
        start(2);
        lane_rig_finish(&rig, 2, OUTCOME_RETRY);
        expect_end(1, &down, LANE_AGAIN);
        lane_rig_settle(&rig);
        cr_expect_str_eq(lane_rig_rows(&rig), "1:retry 2:retry");
        cr_expect_eq(rig.rows[0].n_attempts, 0);
}

Test(lane_blame_targets, falls_on_all_events_of_a_target)
{
        lane_rig_read(&rig, "xa xb y xc");
        start(1);
        start(2);
        expect_end(1, &refused, LANE_AGAIN);
        expect_end(2, &refused, LANE_AGAIN);
        wait_for_the_next_to_be_asked();
        deliver(3);
        fail(1, &refused, LANE_PARKED);
        fail(2, &refused, LANE_PARKED);
        fail(4, &refused, LANE_PARKED);
        cr_expect_eq(rig.lane.breaker.state, BREAKER_CLOSED);
}

Test(lane_blame_targets, asks_another_target_before_the_destination_is_down)
{
        lane_rig_read(&rig, "xa xb y");
        fail(1, &refused, LANE_AGAIN);
        wait_for_the_next_to_be_asked();
        deliver(3);
}

Test(lane_blame_targets, ends_when_the_target_takes_an_event)
{
        lane_rig_read(&rig, "xa xb y");
        fail(1, &down, LANE_AGAIN);
        wait_for_the_next_to_be_asked();
        deliver(3);
        fail(1, &down, LANE_PARKED);
        deliver(2);
        lane_rig_read(&rig, "xc");
        fail(4, &down, LANE_AGAIN);
        cr_expect_eq(rig.lane.breaker.state, BREAKER_OPEN, "it is no news of the target");
}

Test(lane_blame_targets, charges_each_event_once_until_others_are_answered)
{
        lane_rig_read(&rig, "xa y");
        find_guilty(&down);
        lane_rig_read(&rig, "xb");
        fail(3, &down, LANE_PARKED);
        lane_rig_settle(&rig);
        rig.now_ms += 10000;
        cr_assert_eq(lane_rig_read_parked(&rig), 2);
        fail(1, &down, LANE_AGAIN);
        rig.now_ms += 10000;
        fail(3, &down, LANE_AGAIN);
        cr_expect_eq(rig.lane.breaker.state, BREAKER_OPEN);
}

Test(lane_blame_targets, is_told_by_another_event_of_the_target_if_there_is_no_other)
{
        lane_rig_read(&rig, "xa xb");
        fail(1, &down, LANE_AGAIN);
        wait_for_the_next_to_be_asked();
        deliver(2);
        fail(1, &down, LANE_PARKED);
}

Test(suspects, are_bounded)
{
        struct suspects suspects = {0};

        suspects_note(&suspects, 0, 1);
        cr_expect_eq(suspects.n, 0);
        for (uint64_t key = 1; key <= 5000; key++) {
                suspects_note(&suspects, key, 2 * key);
                cr_assert_eq(suspects_since(&suspects, key), 2 * key);
        }
        cr_expect_eq(suspects.n, 1024);
        suspects_note(&suspects, 5000, 7);
        cr_expect_eq(suspects.n, 1024);
        cr_expect_eq(suspects_since(&suspects, 5000), 7);
        suspects_forget(&suspects, 5000);
        cr_expect_eq(suspects_since(&suspects, 5000), 0);
        cr_expect_eq(suspects.n, 1023);
        suspects_forget_all(&suspects);
        cr_expect_eq(suspects.n, 0);
}
