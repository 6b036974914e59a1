#include "outbox/page_text.h"
#include "outbox/routing.h"

#include <criterion/criterion.h>
#include <string.h>

static struct page_text render(const struct page_shape *shape)
{
        struct page_text text;

        page_text_render(&text, shape);
        return text;
}

static bool has_param(const struct page_text *text, enum page_param param)
{
        for (int i = 0; i < text->n_params; i++)
                if (text->params[i] == param)
                        return true;
        return false;
}

static bool has(const struct page_text *text, const char *words)
{
        return strstr(text->sql, words) != NULL;
}

Test(page_text, asks_new_rows_for_nothing)
{
        struct page_text text = render(&(struct page_shape){.is_any_topic = true});

        cr_assert(!has(&text, "UNION") && !has(&text, "topic =") && !has(&text, "WITH"));
        cr_assert(!has(&text, "NOT pg_visible"));
        cr_assert(!has_param(&text, PAGE_STRAGGLERS) && !has_param(&text, PAGE_FROM_FLOOR));
        cr_assert(has_param(&text, PAGE_UNTIL_SNAPSHOT));
        page_text_deinit(&text);
}

Test(page_text, has_neither_comments_nor_names_left)
{
        for (unsigned bits = 0; bits < 12; bits++) {
                struct page_text text = render(&(struct page_shape){.is_opening = bits & 1,
                    .is_any_topic = (bits & 2) != 0,
                    .rows = (enum page_rows)(bits >> 2),
                    .conditions = (UINT32_C(1) << N_ROUTE_PARAMS) - 1});

                cr_assert(!has(&text, "--") && strpbrk(text.sql, "$") != NULL);
                for (const char *at = text.sql; (at = strchr(at, '$')) != NULL; at++)
                        cr_assert(at[1] >= '1' && at[1] <= '9');
                page_text_deinit(&text);
        }
}

Test(page_text, opens_with_a_frame_and_sees_by_the_statement_itself)
{
        struct page_text text =
            render(&(struct page_shape){.is_opening = true, .is_any_topic = true});

        cr_assert(has(&text, "pg_current_snapshot()") && has(&text, "age(pg_snapshot_xmax("));
        cr_assert(!has_param(&text, PAGE_UNTIL_SNAPSHOT));
        page_text_deinit(&text);
}

Test(page_text, goes_on_with_what_its_difference_shows)
{
        struct page_text text =
            render(&(struct page_shape){.rows = PAGE_ROWS_AND_STRAGGLERS, .is_any_topic = true});

        cr_assert(!has(&text, "pg_current_snapshot()"));
        cr_assert(has(&text, "pg_visible_in_snapshot(txid, $"));
        cr_assert(has(&text, "pg_visible_in_snapshot(straggler.txid, $"));
        page_text_deinit(&text);
}

Test(page_text, asks_the_snapshot_about_each_row_where_there_may_be_stragglers)
{
        struct page_text text =
            render(&(struct page_shape){.rows = PAGE_ROWS_DEFINED, .is_any_topic = true});

        cr_assert(has(&text, "NOT pg_visible_in_snapshot(txid, $"));
        cr_assert(!has(&text, "UNION"));
        page_text_deinit(&text);
}

Test(page_text, wants_nothing_without_topics)
{
        struct page_text text = render(&(struct page_shape){.is_opening = true});

        cr_assert(has(&text, "AND false"));
        page_text_deinit(&text);
}

Test(page_text, repeats_the_conditions_for_stragglers_with_the_same_parameters)
{
        struct page_text text = render(&(struct page_shape){
            .rows = PAGE_ROWS_AND_STRAGGLERS, .conditions = UINT32_C(1) << ROUTE_TOPICS});
        const char *first = strstr(text.sql, "topic = ANY ("), *second;

        cr_assert_not_null(first);
        second = strstr(first + 1, "topic = ANY (");
        cr_assert_not_null(second);
        cr_assert_eq(strncmp(first, second, strcspn(first, ")")), 0);
        page_text_deinit(&text);
}

Test(page_text, names_its_cell_by_constants)
{
        struct page_text text = render(&(struct page_shape){.is_any_topic = true, .cell = 2});

        cr_assert(has(&text, "AND id >= 524289 AND id <= 786432"));
        page_text_deinit(&text);
        text = render(&(struct page_shape){.is_any_topic = true, .cell = -1});
        cr_assert(!has(&text, "AND id >= "));
        page_text_deinit(&text);
}

Test(page_text, divides_the_ids_into_cells)
{
        cr_expect_eq(page_cell(0), 0);
        cr_expect_eq(page_cell(262143), 0, "the id behind it is the last of the first cell");
        cr_expect_eq(page_cell_end(0), 262144);
        cr_expect_eq(page_cell(262144), 1);
}
