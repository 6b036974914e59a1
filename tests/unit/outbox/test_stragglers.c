#include "outbox/cursor.h"
#include "pg/array_literal.h"

#include <criterion/criterion.h>
#include <string.h>

static void expect(const char *snapshot, uint64_t xid, const char *ids, bool are_all)
{
        struct frame *frame = frame_create(snapshot, 0, xid);
        struct array_literal list = {0};

        cr_assert_eq(stragglers_list(frame, UINT64_MAX, &list), are_all, "%s", snapshot);
        cr_assert_str_eq(array_end(&list), ids, "%s", snapshot);
        array_deinit(&list);
        frame_unref(frame);
}

Test(stragglers, are_those_in_progress)
{
        expect("10:20:10,14", 20, "{10,14}", true);
}

Test(stragglers, are_also_transactions_that_began_after_the_last_completed_one)
{
        expect("10:20:10", 23, "{10,20,21,22}", true);
}

Test(stragglers, are_none_where_no_transaction_was_in_progress)
{
        expect("20:20:", 20, "{}", true);
}

Test(stragglers, are_none_before_the_first_transaction)
{
        expect("1:1:", 3, "{}", true);
}

Test(stragglers, are_not_listed_when_the_xid_was_drawn_much_later)
{
        expect("10:20:10", 20 + 64,
            "{10,20,21,22,23,24,25,26,27,28,29,30,31,32,33,34,35,36,37,38,39,40,41,42,43,44,45,46,"
            "47,48,49,50,51,52,53,54,55,56,57,58,59,60,61,62,63,64,65,66,67,68,69,70,71,72,73,74,"
            "75,76,77,78,79,80,81,82,83}",
            true);
        expect("10:20:10", 20 + 65, "{10}", false);
}

/* ---- where their rows can be ---------------------------------------------------------------- */

static void note(struct frame_marks *marks, int64_t floor, uint64_t xid)
{
        struct frame *frame = frame_create("1:1:", floor, xid);

        frame_marks_note(marks, frame);
        frame_unref(frame);
}

Test(frame_marks, give_the_floor_of_the_newest_frame_that_is_not_younger)
{
        struct frame_marks marks = {0};

        cr_expect_eq(frame_marks_below(&marks, 1000).floor, 0);
        note(&marks, 100000, 50);
        note(&marks, 200000, 70);
        cr_expect_eq(frame_marks_below(&marks, 49).floor, 0);
        cr_expect_eq(frame_marks_below(&marks, 50).floor, 100000);
        cr_expect_eq(frame_marks_below(&marks, 69).floor, 100000);
        cr_expect_eq(frame_marks_below(&marks, 70).floor, 200000);
}

Test(frame_marks, are_not_confused_by_lanes_that_are_behind)
{
        struct frame_marks marks = {0};

        note(&marks, 200000, 70);
        note(&marks, 100000, 50);
        note(&marks, 400000, 60);
        cr_expect_eq(frame_marks_below(&marks, 65).floor, 0);
        cr_expect_eq(frame_marks_below(&marks, 75).floor, 200000);
}

Test(frame_marks, forget_the_oldest)
{
        struct frame_marks marks = {0};

        for (int i = 1; i <= 10 * FRAME_MARKS; i++)
                note(&marks, i * 100000, (uint64_t)i * 10);
        cr_expect_eq(frame_marks_below(&marks, 10).floor, 0);
        cr_expect_eq(
            frame_marks_below(&marks, 100 * FRAME_MARKS + 5).floor, 1000000 * (int64_t)FRAME_MARKS);
        cr_expect_eq(frame_marks_below(&marks, 100 * FRAME_MARKS - 95).floor,
            1000000 * (int64_t)FRAME_MARKS - 1000000);
}

Test(stragglers, are_no_older_than_the_oldest_transaction_in_progress)
{
        struct frame *frame = frame_create("10:20:10,14", 0, 23);

        cr_expect_eq(stragglers_oldest(frame), 10);
        frame_unref(frame);
}

Test(stragglers, are_listed_below_an_id_only)
{
        struct frame *frame = frame_create("10:20:10,14", 0, 23);
        struct array_literal list = {0};

        cr_assert(stragglers_list(frame, 14, &list));
        cr_assert_str_eq(array_end(&list), "{10}");
        array_deinit(&list);
        list = (struct array_literal){0};
        cr_assert(stragglers_list(frame, 22, &list));
        cr_assert_str_eq(array_end(&list), "{10,14,20,21}");
        array_deinit(&list);
        frame_unref(frame);
}

Test(stragglers, may_be_there_if_one_is_in_progress_or_hidden)
{
        struct frame *none = frame_create("20:20:", 0, 20), *hidden = frame_create("20:20:", 0, 21);
        struct frame *listed = frame_create("10:20:10", 0, 20);

        cr_expect_not(stragglers_are_any(none));
        cr_expect(stragglers_are_any(hidden) && stragglers_are_any(listed));
        frame_unref(none);
        frame_unref(hidden);
        frame_unref(listed);
}

/* ---- from where on a page looks at each row ------------------------------------------------- */

static struct frame_mark near(const struct frame_marks *marks, const char *snapshot)
{
        struct frame *frame = frame_create(snapshot, 5000, 120);
        struct frame_mark mark = frame_marks_near(marks, frame);

        frame_unref(frame);
        return mark;
}

Test(near_marks, are_before_all_stragglers_of_a_frame)
{
        struct frame_marks marks = {0};

        note(&marks, 4900, 90);
        note(&marks, 4950, 100);
        note(&marks, 4980, 110);
        cr_expect_eq(near(&marks, "110:118:110").floor, 4980);
        cr_expect_eq(near(&marks, "109:118:109,111").floor, 4950);
        cr_expect_eq(near(&marks, "109:118:109,111").xid, 100);
        cr_expect_eq(near(&marks, "80:118:80").floor, 4900, "the oldest there is");
}

Test(near_marks, are_not_far_below_their_frame)
{
        struct frame_marks marks = {0};

        note(&marks, 3900, 60);
        note(&marks, 4100, 70);
        note(&marks, 4980, 110);
        cr_expect_eq(near(&marks, "60:118:60").floor, 4100);
        cr_expect_eq(near(&marks, "60:118:60").xid, 70);
}

Test(near_marks, are_not_above_their_frame)
{
        struct frame_marks marks = {0};

        cr_expect_eq(near(&marks, "110:118:110").xid, 120, "its own, where there is no other");
        note(&marks, 6000, 130);
        cr_expect_eq(near(&marks, "110:118:110").xid, 120);
        cr_expect_eq(near(&marks, "110:118:110").floor, 5000);
}

/* The xid of a receiver's first frame is drawn long after its floor was read. */
Test(near_marks, are_not_above_the_floor_of_a_frame_with_a_late_xid)
{
        struct frame_marks marks = {0};

        note(&marks, 4950, 100);
        note(&marks, 6000, 115);
        cr_expect_eq(near(&marks, "109:118:109").floor, 4950);
        marks = (struct frame_marks){0};
        note(&marks, 6000, 115);
        cr_expect_eq(near(&marks, "109:118:109").floor, 5000);
}

/* A transaction with an id that looks at a snapshot is its xmin, and is shown by it. */
Test(near_marks, are_not_asked_for_where_there_is_no_straggler)
{
        struct frame_marks marks = {0};

        note(&marks, 4980, 110);
        cr_expect_eq(near(&marks, "110:120:").floor, 5000);
        cr_expect_eq(near(&marks, "110:120:").xid, 120);
}
