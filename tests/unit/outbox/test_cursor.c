/* Cursors share frames; the sanitizer watches what the last reference leaves. */
#include "outbox/cursor.h"

#include <criterion/criterion.h>

Test(cursor, is_complete_when_all_of_its_frames_have_their_xid)
{
        struct cursor cursor = {.from = frame_create("1:1:", 5, 7)};

        cr_expect(cursor_is_complete(&cursor));
        cursor.until = frame_create("2:2:", 9, 0);
        cr_expect_not(cursor_is_complete(&cursor));
        cursor.until->xid = 8;
        cr_expect(cursor_is_complete(&cursor));
        cursor.from->xid = 0;
        cr_expect_not(cursor_is_complete(&cursor));
        cursor_deinit(&cursor);
}

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

Test(cursor, learns_of_an_xid_that_its_frame_gets_later)
{
        struct cursor first = {.from = frame_create("1:1:", 5, 0)};
        struct cursor second = {0};

        cursor_assign(&second, &first);
        first.from->xid = 7;

        cr_expect(cursor_is_complete(&second));
        cursor_deinit(&first);
        cursor_deinit(&second);
}
