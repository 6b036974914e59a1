/* How a lane is owned, lost and brought to rest. */
#include "base/alloc.h"
#include "support/lane_steps.h"

TestSuite(lane_ownership, .init = open_rig, .fini = close_rig);

Test(lane_ownership, begins_anew_at_the_durable_cursor)
{
        struct page_request request;

        lane_rig_read(&rig, "a a b");
        deliver(1);
        lane_lose(&rig.lane);
        cr_expect_eq(rig.lane.state, LANE_UNOWNED);
        cr_expect_eq(rig.pages.n_held, 0);

        lane_rig_own(&rig, 42);
        cr_assert(lane_wants_page(&rig.lane, &request));
        cr_expect_eq(request.start.from->floor, 42);
        cr_expect_eq(lane_rig_start(&rig), 0);
        cr_expect_eq(lane_rig_wants_settle(&rig), -1);
}

Test(lane_ownership, waits_for_what_is_in_flight_when_it_is_lost)
{
        lane_rig_read(&rig, "a b c");
        start(1);
        start(2);

        lane_lose(&rig.lane);
        cr_expect_eq(rig.lane.state, LANE_LEAVING);
        cr_expect_eq(rig.pages.n_held, 1, "the sink still reads its events");
        cr_expect_eq(lane_rig_start(&rig), 0);
        cr_expect_eq(lane_next_due(&rig.lane), -1);
        cr_expect_not(lane_is_at_rest(&rig.lane));
        lane_rig_finish(&rig, 1, OUTCOME_DELIVERED);
        cr_expect_eq(lane_rig_wants_settle(&rig), -1);
        cr_expect_eq(rig.lane.state, LANE_LEAVING);

        lane_rig_finish(&rig, 2, OUTCOME_CANCELLED);
        cr_expect_eq(rig.lane.state, LANE_UNOWNED);
        cr_expect_eq(rig.pages.n_held, 0);
        cr_expect(lane_is_at_rest(&rig.lane));
        lane_rig_own(&rig, 0);
        lane_rig_read(&rig, "a b c");
        cr_expect_eq(lane_rig_start(&rig), 1, "it is delivered again");
        lane_rig_finish(&rig, 1, OUTCOME_DELIVERED);
}

Test(lane_ownership, forgets_its_requests_when_it_is_lost)
{
        lane_rig_take_page(&rig, "-", 10);
        lane_lose(&rig.lane);
        lane_rig_own(&rig, 0);

        cr_expect(lane_rig_wants_page(&rig));
        lane_lose(&rig.lane);
        lane_rig_own(&rig, 0);
        cr_expect(lane_rig_wants_page(&rig));
}

Test(lane_ownership, may_be_lost_when_it_is_not_owned)
{
        lane_lose(&rig.lane);
        lane_lose(&rig.lane);
        cr_expect_eq(rig.lane.state, LANE_UNOWNED);
        cr_expect(lane_is_at_rest(&rig.lane));
        cr_expect_not(lane_is_caught_up(&rig.lane, false, rig.now_ms));
}

Test(lane_ownership, starts_nothing_while_draining_and_comes_to_rest)
{
        lane_rig_read(&rig, "- - -");
        start(1);
        start(2);
        lane_drain(&rig.lane);
        lane_ring(&rig.lane);
        cr_expect_not(lane_rig_wants_page(&rig));
        cr_expect_eq(lane_rig_start(&rig), 0);
        cr_expect_not(lane_is_at_rest(&rig.lane));

        lane_rig_finish(&rig, 2, OUTCOME_RETRY);
        lane_rig_finish(&rig, 1, OUTCOME_DELIVERED);
        cr_expect_not(lane_is_at_rest(&rig.lane), "the first is not settled");
        cr_assert_eq(lane_rig_wants_settle(&rig), 2);
        cr_expect_not(lane_is_at_rest(&rig.lane), "not yet durable");
        lane_rig_answer_settle(&rig);
        cr_expect(lane_is_at_rest(&rig.lane));
        cr_expect_str_eq(lane_rig_rows(&rig), "2:retry");
}

Test(lane_ownership, parks_undecided_deliveries_before_decided_ones_when_it_drains)
{
        lane_rig_read(&rig, "a a b c d");
        for (int64_t id = 1; id <= 4; id++)
                cr_assert_eq(lane_rig_start(&rig), id == 1 ? 1 : id == 4 ? 5 : id + 1);
        lane_rig_finish(&rig, 4, OUTCOME_DELIVERED);
        lane_drain(&rig.lane);
        cr_expect_eq(lane_rig_wants_settle(&rig), -1, "some are under way");
        lane_rig_finish(&rig, 1, OUTCOME_CANCELLED);
        lane_rig_finish(&rig, 3, OUTCOME_SINK_DOWN);
        lane_rig_finish(&rig, 5, OUTCOME_CANCELLED);

        cr_expect_eq(lane_rig_wants_settle(&rig), 4, "what comes last is simply read again");
        lane_rig_answer_settle(&rig);
        cr_expect(lane_is_at_rest(&rig.lane));
        cr_expect_str_eq(lane_rig_rows(&rig), "1:retry 2:blocked 3:retry");
        cr_expect_eq(rig.rows[0].n_attempts, 0);
}

Test(lane_ownership, wants_a_page_again_that_could_not_be_read)
{
        struct page_request request;

        cr_assert(lane_wants_page(&rig.lane, &request));
        lane_fail_page(&rig.lane);
        cr_expect_not(lane_is_caught_up(&rig.lane, false, rig.now_ms));
        cr_assert(
            lane_wants_page(&rig.lane, &request), "no second ring comes for what it was rung for");
        cr_expect_null(request.start.until);
        lane_fail_page(&rig.lane);
        lane_rig_take_page(&rig, "-", 10);
        deliver(1);
}

Test(lane_ownership, leaves_a_page_that_comes_while_it_drains_to_the_next_relay)
{
        struct page_request request;
        struct cursor start;
        struct page *page;

        cr_assert(lane_wants_page(&rig.lane, &request));
        lane_drain(&rig.lane);
        cr_expect(lane_is_at_rest(&rig.lane), "it does not count");
        start = (struct cursor){.from = request.start.from, .until = frame_create("2:2:", 1, 9)};
        page = pages_make(&rig.pages, &start);
        frame_unref(start.until);
        page_add_event(page, 1, NULL, 10);
        page->is_delayed = xcalloc(1, sizeof *page->is_delayed);
        page->is_delayed[0] = true;
        lane_take_page(&rig.lane, page, rig.now_ms);

        cr_expect_eq(lane_rig_start(&rig), 0);
        cr_expect_eq(lane_rig_wants_settle(&rig), -1, "it is not parked");
        cr_expect(lane_is_at_rest(&rig.lane));
        lane_lose(&rig.lane);
        cr_expect_eq(rig.pages.n_held, 0);
}

Test(lane_ownership, settles_what_was_delivered_while_draining)
{
        lane_rig_take_page(&rig, "-", 10);
        deliver(1);
        lane_drain(&rig.lane);
        cr_expect_not(lane_is_at_rest(&rig.lane));
        cr_expect_eq(lane_rig_wants_settle(&rig), 1);
        lane_rig_answer_settle(&rig);
        cr_expect(lane_is_at_rest(&rig.lane));
}

Test(lane_ownership, is_caught_up_when_everything_is_settled)
{
        cr_expect_not(lane_is_caught_up(&rig.lane, false, rig.now_ms), "it has not looked");
        lane_rig_read(&rig, "-");
        cr_expect_not(lane_is_caught_up(&rig.lane, false, rig.now_ms));
        deliver(1);
        cr_expect_not(lane_is_caught_up(&rig.lane, false, rig.now_ms));
        rig.now_ms += 20;
        cr_assert_eq(lane_rig_wants_settle(&rig), 1);
        cr_expect_not(lane_is_caught_up(&rig.lane, false, rig.now_ms));
        lane_rig_answer_settle(&rig);
        cr_expect(lane_is_caught_up(&rig.lane, false, rig.now_ms));
        lane_ring(&rig.lane);
        cr_expect_not(lane_is_caught_up(&rig.lane, false, rig.now_ms));
}
