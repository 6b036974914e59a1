/* Cursors share frames; the sanitizer watches what the last reference leaves. */
#include "outbox/cursor.h"

#include <criterion/criterion.h>

Test(cursor, holds_its_own_references)
{
        struct cursor first = {.from = frame_create("1:1:", 5, 7), .last_id = 3};
        struct cursor second = {0};

        cursor_assign(&second, &first);
        cr_expect_eq(first.from->n_references, 2);
        cursor_deinit(&first);

        cr_expect_eq(second.from->n_references, 1);
        cr_expect_str_eq(second.from->snapshot, "1:1:");
        cr_expect_eq(second.last_id, 3);
        cursor_deinit(&second);
}

Test(cursor, may_be_assigned_to_itself)
{
        struct cursor cursor = {.from = frame_create("1:1:", 5, 7)};

        cursor_assign(&cursor, &cursor);

        cr_expect_eq(cursor.from->n_references, 1);
        cr_expect_eq(cursor.from->floor, 5);
        cursor_deinit(&cursor);
}

static bool is_older(const char *snapshot, const char *than)
{
        struct frame *a = frame_create(snapshot, 9, 9), *b = frame_create(than, 5, 5);
        bool result = frame_is_older(a, b);

        frame_unref(a);
        frame_unref(b);
        return result;
}

Test(frame, is_older_if_its_snapshot_shows_less)
{
        cr_expect(is_older("5:9:5", "9:10:"), "more have completed since");
        cr_expect_not(is_older("9:10:", "5:9:5"));
        cr_expect(is_older("5:9:5,7", "7:9:7"), "one of its transactions has ended");
        cr_expect_not(is_older("7:9:7", "5:9:5,7"));
        cr_expect(is_older("5:9:5", "9:9:"));
        cr_expect_not(is_older("5:9:5", "5:9:5"), "whatever its floor");
        cr_expect(is_older("1:1:", "750:750:"), "before all");
}
