/* What a lane reads and what it settles. */
#include "base/alloc.h"
#include "support/lane_steps.h"

#include <stdlib.h>

static void open_with(uint32_t max_in_flight, uint64_t max_in_flight_bytes)
{
        struct lane_policy policy = lane_rig_policy;

        policy.max_in_flight = max_in_flight;
        policy.max_in_flight_bytes = max_in_flight_bytes;
        lane_rig_open(&rig, &policy);
}

static void deliver_from_to(int64_t first, int64_t last)
{
        for (int64_t id = first; id <= last; id++)
                deliver(id);
}

TestSuite(lane_reading, .init = open_rig, .fini = close_rig);
TestSuite(lane_settling, .init = open_rig, .fini = close_rig);

Test(lane_reading, wants_a_page_as_soon_as_it_is_owned_and_one_at_a_time)
{
        cr_expect(lane_rig_wants_page(&rig));
        cr_expect_not(lane_rig_wants_page(&rig), "one is being read");
        lane_lose(&rig.lane);
        cr_expect_not(lane_rig_wants_page(&rig), "it is not owned");
}

Test(lane_reading, waits_for_the_bell_when_it_has_read_everything)
{
        lane_rig_read(&rig, "- -");
        cr_expect_not(lane_rig_wants_page(&rig));
        lane_ring(&rig.lane);
        cr_expect(lane_rig_wants_page(&rig));
}

Test(lane_reading, hears_the_bell_while_a_page_is_being_read)
{
        struct page_request request;
        struct cursor start;
        struct page *page;

        cr_assert(lane_wants_page(&rig.lane, &request));
        lane_ring(&rig.lane);
        start = (struct cursor){.from = request.start.from, .until = frame_create("2:2:", 0, 0)};
        page = pages_make(&rig.pages, &start);
        frame_unref(start.until);
        lane_take_page(&rig.lane, page, rig.now_ms);

        cr_expect(lane_rig_wants_page(&rig));
}

Test(lane_reading, goes_on_in_an_open_difference_without_being_rung)
{
        struct page_request request;
        struct cursor start;
        struct page *page;

        cr_assert(lane_wants_page(&rig.lane, &request));
        start = (struct cursor){.from = request.start.from, .until = frame_create("2:2:", 500, 2)};
        page = pages_make(&rig.pages, &start);
        frame_unref(start.until);
        page_add_event(page, 7, NULL, 10);
        page->upto = 7;
        lane_take_page(&rig.lane, page, rig.now_ms);

        cr_assert(lane_wants_page(&rig.lane, &request));
        cr_expect_eq(request.start.from->floor, 0);
        cr_expect_eq(request.start.until->floor, 500);
        cr_expect_eq(request.start.last_id, 7);
}

Test(lane_reading, begins_the_next_difference_where_the_last_one_ended)
{
        struct page_request request;

        lane_rig_read(&rig, "- - -");
        lane_ring(&rig.lane);
        cr_assert(lane_wants_page(&rig.lane, &request));

        cr_expect_eq(request.start.from->floor, 3);
        cr_expect_eq(request.start.from->xid, rig.xid);
        cr_expect_null(request.start.until);
        cr_expect_eq(request.start.last_id, 0);
}

Test(lane_reading, drops_a_page_with_nothing_new_and_settles_nothing_for_it)
{
        lane_rig_take_page(&rig, "", 0);

        cr_expect_eq(rig.pages.n_held, 0);
        cr_expect_eq(lane_next_due(&rig.lane), -1);
        rig.now_ms += 100000;
        cr_expect_eq(lane_rig_wants_settle(&rig), -1);
        cr_expect(lane_is_caught_up(&rig.lane, false, rig.now_ms));
}

Test(lane_reading, asks_for_half_of_the_window_so_that_two_pages_fit)
{
        struct page_request request;

        cr_assert(lane_wants_page(&rig.lane, &request));
        cr_expect_eq(request.max_events, 10);
        cr_expect_eq(request.max_event_bytes, (1 << 19) / 10);
}

Test(lane_reading, counts_delivered_events_in_the_window_until_they_are_settled)
{
        lane_rig_read(&rig, "- - - - - - - - - -");
        lane_rig_read(&rig, "- - - - - - - - - -");
        deliver_from_to(1, 20);
        lane_ring(&rig.lane);

        cr_expect_not(lane_rig_wants_page(&rig), "a crash now would repeat all 20");
        cr_assert_eq(lane_rig_wants_settle(&rig), 20);
        cr_expect_not(lane_rig_wants_page(&rig), "not yet durable");
        lane_rig_answer_settle(&rig);
        cr_expect(lane_rig_wants_page(&rig));
}

Test(lane_reading, frees_room_only_for_the_events_that_the_settle_covered)
{
        lane_rig_read(&rig, "- - - - - - - - - -");
        lane_rig_read(&rig, "- - - - - - - - - -");
        deliver_from_to(1, 9);
        rig.now_ms += 20;
        cr_assert_eq(lane_rig_wants_settle(&rig), 9);
        deliver_from_to(10, 20);
        lane_rig_answer_settle(&rig);
        lane_ring(&rig.lane);

        cr_expect_not(lane_rig_wants_page(&rig), "11 are unsettled, and a page has 10");
        cr_expect_eq(lane_rig_wants_settle(&rig), 20);
}

Test(lane_reading, stops_at_half_of_the_bytes_so_that_another_page_still_fits)
{
        lane_rig_take_page(&rig, "- - -", (1 << 19) / 3 + 1);
        lane_ring(&rig.lane);
        cr_expect_not(lane_rig_wants_page(&rig));

        deliver_from_to(1, 3);
        cr_expect(lane_rig_wants_page(&rig), "bytes are free when they are delivered");
}

Test(lane_reading, asks_for_fewer_events_when_they_are_large)
{
        struct page_request request;

        for (int64_t i = 1; i <= 20; i++) {
                lane_ring(&rig.lane);
                lane_rig_take_page(&rig, "-", 100000);
                deliver(i);
                if (lane_rig_wants_settle(&rig) >= 0)
                        lane_rig_answer_settle(&rig);
        }
        lane_ring(&rig.lane);
        cr_assert(lane_wants_page(&rig.lane, &request));

        cr_expect_eq(request.max_events, 1);
        cr_expect_eq(request.max_event_bytes, 1 << 19);
}

static void read_unkeyed(int n_events)
{
        char *keys = xcalloc((size_t)n_events + 1, 2);

        for (int i = 0; i < n_events; i++)
                keys[2 * i] = '-', keys[2 * i + 1] = ' ';
        lane_ring(&rig.lane);
        lane_rig_take_page(&rig, keys, 1);
        free(keys);
}

/* Else each page would be as small as the room that a few deliveries leave. */
Test(lane_limits, give_a_page_a_third_of_the_window_or_what_is_left_if_that_is_a_quarter)
{
        struct page_request request;

        open_with(1000, 1 << 24);
        read_unkeyed(333);
        read_unkeyed(333);
        read_unkeyed(84);
        lane_ring(&rig.lane);
        cr_assert(lane_wants_page(&rig.lane, &request), "250 are left");
        cr_expect_eq(request.max_events, 250);
        lane_lose(&rig.lane);
        lane_rig_own(&rig, 0);
        cr_assert(lane_wants_page(&rig.lane, &request));
        cr_expect_eq(request.max_events, 333);
        lane_lose(&rig.lane);
        lane_rig_own(&rig, 0);
        read_unkeyed(333);
        read_unkeyed(333);
        read_unkeyed(85);
        lane_ring(&rig.lane);
        cr_expect_not(lane_rig_wants_page(&rig), "249 are left");
        close_rig();
}

/* Else each event that a slow sink takes would be settled alone. */
Test(lane_limits, press_for_a_settle_when_that_makes_room_for_a_page)
{
        open_with(1000, 1 << 24);
        for (int i = 0; i < 3; i++)
                read_unkeyed(333);
        lane_ring(&rig.lane);
        deliver_from_to(1, 248);
        cr_expect_eq(lane_rig_wants_settle(&rig), -1, "then 249 would be left");
        cr_expect_eq(lane_next_due(&rig.lane), rig.now_ms + 20);
        deliver(249);
        cr_expect_eq(lane_rig_wants_settle(&rig), 249);
        lane_rig_answer_settle(&rig);
        cr_expect(lane_rig_wants_page(&rig));
        close_rig();
}

Test(lane_limits, allow_a_window_of_one_event)
{
        struct page_request request;

        open_with(1, 65536);
        cr_assert(lane_wants_page(&rig.lane, &request));
        cr_expect_eq(request.max_events, 1);
        lane_lose(&rig.lane);
        lane_rig_own(&rig, 0);
        lane_rig_read(&rig, "-");
        lane_ring(&rig.lane);
        cr_expect_not(lane_rig_wants_page(&rig));
        deliver(1);
        cr_expect_eq(lane_rig_wants_settle(&rig), 1, "nothing can be read before: at once");
        lane_rig_answer_settle(&rig);
        cr_expect(lane_rig_wants_page(&rig));
        close_rig();
}

Test(lane_settling, does_not_pass_a_hole)
{
        lane_rig_read(&rig, "- - -");
        start(1);
        deliver(2);
        deliver(3);
        rig.now_ms += 1000;
        cr_expect_eq(lane_rig_wants_settle(&rig), -1);

        lane_rig_finish(&rig, 1, OUTCOME_DELIVERED);
        rig.now_ms += 1000;
        cr_expect_eq(lane_rig_wants_settle(&rig), 3);
}

Test(lane_settling, gathers_the_outcomes_of_a_moment)
{
        lane_rig_read(&rig, "- - -");
        deliver(1);
        cr_expect_eq(lane_rig_wants_settle(&rig), -1);
        cr_expect_eq(lane_next_due(&rig.lane), rig.now_ms + 20);
        rig.now_ms += 19;
        deliver(2);
        cr_expect_eq(lane_rig_wants_settle(&rig), -1);
        cr_expect_eq(lane_next_due(&rig.lane), rig.now_ms + 1, "the first is not put off");

        rig.now_ms += 1;
        cr_expect_eq(lane_rig_wants_settle(&rig), 2);
}

/* Delivers an event and settles it as soon as the lane wants to; how long that took. */
static int64_t settle_one(enum cursor_room room)
{
        int64_t began_ms = rig.now_ms;

        lane_ring(&rig.lane);
        lane_rig_read(&rig, "-");
        deliver(rig.last_id);
        cr_assert_geq(lane_next_due(&rig.lane), rig.now_ms);
        rig.now_ms = lane_next_due(&rig.lane) - 1;
        cr_expect_eq(lane_rig_wants_settle(&rig), -1);
        rig.now_ms += 1;
        cr_assert_eq(lane_rig_wants_settle(&rig), rig.last_id);
        rig.room = room;
        lane_rig_answer_settle(&rig);
        return rig.now_ms - began_ms;
}

Test(lane_settling, becomes_rarer_while_the_cursors_former_versions_stay)
{
        cr_expect_eq(settle_one(ROOM_FULL), 20);
        cr_expect_eq(settle_one(ROOM_UNKNOWN), 20, "the first rest begins with the next settle");
        cr_expect_eq(settle_one(ROOM_UNKNOWN), 50);
        cr_expect_eq(settle_one(ROOM_FULL), 50);
        cr_expect_eq(settle_one(ROOM_UNKNOWN), 50);
        cr_expect_eq(settle_one(ROOM_UNKNOWN), 100);
        for (int i = 0; i < 10; i++)
                settle_one(ROOM_FULL);
        cr_expect_eq(settle_one(ROOM_FULL), 1000, "no rarer than this");

        settle_one(ROOM_REGAINED);
        cr_expect_eq(settle_one(ROOM_UNKNOWN), 20, "as before");
}

static void make_rare(void)
{
        for (int i = 0; i < 10; i++)
                settle_one(ROOM_FULL);
        rig.room = ROOM_UNKNOWN;
}

Test(lane_settling, is_never_too_rare_for_the_window)
{
        make_rare();
        lane_ring(&rig.lane);
        lane_rig_read(&rig, "- - - - - - - - - -");
        deliver_from_to(rig.last_id - 9, rig.last_id - 1);
        cr_expect_eq(lane_rig_wants_settle(&rig), -1);
        deliver(rig.last_id);
        cr_expect_eq(lane_rig_wants_settle(&rig), rig.last_id, "half of it is delivered");
}

Test(lane_settling, writes_verdicts_in_time_however_rare_it_is)
{
        make_rare();
        lane_ring(&rig.lane);
        lane_rig_read(&rig, "a -");
        start(rig.last_id - 1);
        lane_rig_finish(&rig, rig.last_id - 1, OUTCOME_RETRY);
        deliver(rig.last_id);
        rig.now_ms += 20;
        cr_expect_eq(lane_rig_wants_settle(&rig), rig.last_id);
}

Test(lane_settling, writes_one_cursor_at_a_time_and_then_the_next)
{
        lane_rig_read(&rig, "- -");
        deliver(1);
        rig.now_ms += 20;
        cr_assert_eq(lane_rig_wants_settle(&rig), 1);
        deliver(2);
        rig.now_ms += 1000;
        cr_expect_eq(lane_rig_wants_settle(&rig), -1);
        cr_expect_eq(lane_next_due(&rig.lane), -1);

        lane_rig_answer_settle(&rig);
        cr_expect_eq(lane_rig_wants_settle(&rig), 2);
        lane_rig_answer_settle(&rig);
        rig.now_ms += 1000;
        cr_expect_eq(lane_rig_wants_settle(&rig), -1, "nothing has moved");
}

Test(lane_settling, does_not_wait_while_draining)
{
        lane_rig_read(&rig, "- -");
        deliver(1);
        lane_drain(&rig.lane);
        cr_expect_eq(lane_rig_wants_settle(&rig), 1);
}

Test(lane_settling, takes_its_time_to_move_over_events_of_other_topics)
{
        lane_ring(&rig.lane);
        rig.last_id = 500;
        lane_rig_take_page(&rig, "", 0);

        cr_expect_eq(lane_next_due(&rig.lane), rig.now_ms + 1000);
        rig.now_ms += 999;
        cr_expect_eq(lane_rig_wants_settle(&rig), -1);
        rig.now_ms += 1;
        cr_expect_eq(lane_rig_wants_settle(&rig), 500);
}
