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
