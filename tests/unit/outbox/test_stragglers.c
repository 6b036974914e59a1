#include "outbox/cursor.h"
#include "pg/array_literal.h"

#include <criterion/criterion.h>
#include <string.h>

static void expect(const char *snapshot, uint64_t xid, const char *ids, bool are_all)
{
        struct frame *frame = frame_create(snapshot, 0, xid);
        struct array_literal list = {0};

        cr_assert_eq(stragglers_list(frame, &list), are_all, "%s", snapshot);
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

        cr_expect_eq(frame_marks_floor(&marks, 1000), 0);
        note(&marks, 100000, 50);
        note(&marks, 200000, 70);
        cr_expect_eq(frame_marks_floor(&marks, 49), 0);
        cr_expect_eq(frame_marks_floor(&marks, 50), 100000);
        cr_expect_eq(frame_marks_floor(&marks, 69), 100000);
        cr_expect_eq(frame_marks_floor(&marks, 70), 200000);
}

Test(frame_marks, are_not_confused_by_lanes_that_are_behind)
{
        struct frame_marks marks = {0};

        note(&marks, 200000, 70);
        note(&marks, 100000, 50);
        note(&marks, 400000, 60);
        cr_expect_eq(frame_marks_floor(&marks, 65), 0);
        cr_expect_eq(frame_marks_floor(&marks, 75), 200000);
}

Test(frame_marks, forget_the_oldest)
{
        struct frame_marks marks = {0};

        for (int i = 1; i <= 10 * FRAME_MARKS; i++)
                note(&marks, i * 100000, (uint64_t)i * 10);
        cr_expect_eq(frame_marks_floor(&marks, 10), 0);
        cr_expect_eq(
            frame_marks_floor(&marks, 100 * FRAME_MARKS + 5), 1000000 * (int64_t)FRAME_MARKS);
        cr_expect_eq(frame_marks_floor(&marks, 100 * FRAME_MARKS - 95),
            1000000 * (int64_t)FRAME_MARKS - 1000000);
}

Test(stragglers, are_no_older_than_the_oldest_transaction_in_progress)
{
        struct frame *frame = frame_create("10:20:10,14", 0, 23);

        cr_expect_eq(stragglers_oldest(frame), 10);
        frame_unref(frame);
}
