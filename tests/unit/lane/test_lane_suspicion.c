/* Whose fault it is that an attempt failed: the event's, or the destination's? */
#include "support/lane_steps.h"

TestSuite(lane_suspicion, .init = open_rig, .fini = close_rig);

static const struct outcome unanswered = {.kind = OUTCOME_RETRY,
    .delay_ms = OUTCOME_NO_DELAY,
    .is_unanswered = true,
    .reason = "silence"};

Test(lane_suspicion, charges_nothing_when_no_delivery_is_answered)
{
        lane_rig_read(&rig, "a b");
        start(1);
        start(2);
        cr_expect_eq(lane_rig_end(&rig, 1, &unanswered).decision, LANE_AGAIN);
        cr_expect_eq(lane_rig_end(&rig, 2, &unanswered).decision, LANE_AGAIN);
        for (int i = 0; i < 20; i++) {
                rig.now_ms += 10000;
                start(i % 2 + 1);
                cr_expect_eq(lane_rig_end(&rig, i % 2 + 1, &unanswered).decision, LANE_AGAIN);
        }
        cr_expect_eq(lane_rig_wants_settle(&rig), -1);
}

Test(lane_suspicion, charges_an_unanswered_delivery_while_others_are_answered)
{
        lane_rig_read(&rig, "a b");
        start(1);
        deliver(2);
        cr_expect_eq(lane_rig_end(&rig, 1, &unanswered).decision, LANE_PARKED);
}

Test(lane_suspicion, tries_another_delivery_first_and_then_charges_the_suspect)
{
        lane_rig_read(&rig, "a b c");
        start(1);
        cr_expect_eq(lane_rig_end(&rig, 1, &unanswered).decision, LANE_AGAIN);
        rig.now_ms += 10000;
        deliver(3);
        start(1);
        cr_expect_eq(lane_rig_end(&rig, 1, &unanswered).decision, LANE_PARKED);
        deliver(2);
}

Test(lane_suspicion, falls_on_the_sink_when_ten_deliveries_in_a_row_fail)
{
        lane_rig_read(&rig, "- - - - - - - - - -");
        lane_rig_read(&rig, "- -");
        for (int64_t id = 1; id <= 12; id++)
                start(id);
        for (int64_t id = 1; id <= 10; id++)
                cr_expect_eq(
                    lane_rig_end(&rig, id,
                        &(struct outcome){.kind = OUTCOME_RETRY, .delay_ms = OUTCOME_NO_DELAY})
                        .decision,
                    LANE_PARKED);
        cr_expect_eq(rig.lane.breaker.state, BREAKER_OPEN);
        lane_rig_finish(&rig, 11, OUTCOME_RETRY);
        lane_rig_finish(&rig, 12, OUTCOME_RETRY);
        lane_rig_settle(&rig);
        cr_expect_eq(rig.n_rows, 10);
        rig.now_ms += 10000;
        start(11);
        lane_rig_finish(&rig, 11, OUTCOME_DELIVERED);
        deliver(12);
}

Test(lane_suspicion, gives_up_refused_events_when_nothing_else_is_left)
{
        static const struct outcome refused = {
            .kind = OUTCOME_RETRY, .delay_ms = OUTCOME_NO_DELAY, .max_attempts = 5};

        lane_rig_read(&rig, "- - - - - - - - - -");
        lane_rig_read(&rig, "-");
        for (int64_t id = 1; id <= 10; id++) {
                start(id);
                lane_rig_end(&rig, id, &refused);
        }
        cr_expect_eq(rig.lane.breaker.state, BREAKER_OPEN);
        rig.now_ms += 10000;
        start(11);
        cr_expect_eq(lane_rig_end(&rig, 11, &refused).decision, LANE_PARKED);
        cr_expect_eq(rig.lane.breaker.state, BREAKER_OPEN);
        cr_expect_eq(lane_rig_start(&rig), 0);
}
