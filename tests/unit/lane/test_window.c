/* The window: how far a lane has come without a gap, and whose pages are let go. */
#include "lane/window.h"

#include "base/alloc.h"
#include "support/pages.h"

#include <criterion/criterion.h>

struct rig {
        struct pages pages;
        struct window window;
        struct settler settler;
        struct cursor difference; /* what the pages are of: ids 1 to 10 */
};

static struct rig *held_by; /* the one that is open */

static void open_rig(struct rig *rig)
{
        struct cursor start;

        held_by = rig;
        pages_init(&rig->pages);
        window_init(&rig->window);
        settler_init(&rig->settler);
        rig->difference = (struct cursor){
            .from = frame_create("1:1:", 0, 1), .until = frame_create("2:2:", 10, 2)};
        start = (struct cursor){.from = rig->difference.from};
        window_reset(&rig->window, &start);
}

static void close_rig(struct rig *rig)
{
        window_deinit(&rig->window);
        cursor_deinit(&rig->difference);
        pages_deinit(&rig->pages);
}

/* A page with the events first to last that has looked up to `upto`. */
static struct batch *add(struct rig *rig, int64_t first, int64_t last, int64_t upto)
{
        struct page *page = pages_make(&rig->pages, &rig->difference);

        for (int64_t id = first; id <= last; id++)
                page_add_event(page, id, NULL, 100);
        page->upto = upto;
        return window_add(&rig->window, page);
}

static void be_done(struct batch *slot, size_t index)
{
        slot->deliveries[index].state = DELIVERY_DECIDED;
        window_note_decided(&held_by->window);
}

Test(window, moves_only_over_decided_deliveries_without_a_gap)
{
        struct rig rig;
        struct batch *slot;

        open_rig(&rig);
        slot = add(&rig, 1, 4, 4);
        be_done(slot, 1);
        cr_expect_not(window_advance(&rig.window, &rig.settler));
        cr_expect_eq(rig.window.n_passed, 0);

        be_done(slot, 0);
        cr_expect(window_advance(&rig.window, &rig.settler));
        cr_expect_eq(rig.window.position.last_id, 2);
        cr_expect_eq(rig.window.position.until, rig.difference.until);
        cr_expect_eq(rig.window.n_passed, 2);
        cr_expect_not(window_advance(&rig.window, &rig.settler), "nothing more is done");
        close_rig(&rig);
}

Test(window, goes_to_the_end_of_a_decided_page_even_beyond_its_last_event)
{
        struct rig rig;

        open_rig(&rig);
        be_done(add(&rig, 1, 1, 7), 0);

        cr_expect(window_advance(&rig.window, &rig.settler));
        cr_expect_eq(rig.window.position.last_id, 7);
        cr_expect_eq(rig.window.position.from, rig.difference.from);
        cr_expect_eq(rig.window.position.until, rig.difference.until);
        close_rig(&rig);
}

Test(window, adopts_the_frame_of_a_difference_that_is_done)
{
        struct rig rig;

        open_rig(&rig);
        be_done(add(&rig, 10, 10, 10), 0);

        cr_expect(window_advance(&rig.window, &rig.settler));
        cr_expect_eq(rig.window.position.from, rig.difference.until);
        cr_expect_null(rig.window.position.until);
        cr_expect_eq(rig.window.position.last_id, 0);
        close_rig(&rig);
}

Test(window, lets_go_of_a_page_when_it_is_behind_and_not_before)
{
        struct rig rig;
        struct batch *first, *second;

        open_rig(&rig);
        first = add(&rig, 1, 2, 2);
        second = add(&rig, 3, 4, 4);
        be_done(second, 0);
        be_done(second, 1);
        be_done(first, 0);
        window_advance(&rig.window, &rig.settler);
        cr_expect_eq(rig.pages.n_held, 2, "the second waits for the first");
        cr_expect_eq(rig.window.bytes, 400);

        be_done(first, 1);
        window_advance(&rig.window, &rig.settler);
        cr_expect_eq(rig.pages.n_held, 0);
        cr_expect_eq(rig.window.bytes, 0);
        cr_expect_eq(rig.window.position.last_id, 4);
        close_rig(&rig);
}

Test(window, passes_pages_without_events)
{
        struct rig rig;
        struct batch *first;

        open_rig(&rig);
        first = add(&rig, 1, 1, 1);
        add(&rig, 1, 0, 10);
        cr_expect_not(window_advance(&rig.window, &rig.settler));

        be_done(first, 0);
        cr_expect(window_advance(&rig.window, &rig.settler));
        cr_expect_eq(rig.window.position.from, rig.difference.until);
        cr_expect(list_is_empty(&rig.window.batches));
        close_rig(&rig);
}

Test(window, releases_each_page_once_when_it_is_emptied)
{
        struct rig rig;
        struct cursor start;

        open_rig(&rig);
        add(&rig, 1, 3, 3);
        be_done(add(&rig, 4, 4, 4), 0);
        start = (struct cursor){.from = rig.difference.from};

        window_reset(&rig.window, &start);

        cr_expect_eq(rig.pages.n_held, 0);
        cr_expect_eq(rig.window.n_taken, 0);
        cr_expect_eq(rig.window.position.from, rig.difference.from);
        close_rig(&rig);
}

Test(window, numbers_deliveries_across_pages_in_the_order_in_which_they_were_read)
{
        struct rig rig;

        open_rig(&rig);
        cr_expect_eq(add(&rig, 1, 3, 3)->deliveries[2].sequence, 2);
        cr_expect_eq(add(&rig, 4, 5, 5)->deliveries[1].sequence, 4);
        cr_expect_eq(rig.window.n_taken, 5);
        close_rig(&rig);
}

Test(window, keeps_a_page_that_it_has_passed_while_a_verdict_needs_it)
{
        struct rig rig;
        struct batch *batch;
        struct verdict *verdict;

        open_rig(&rig);
        batch = add(&rig, 1, 2, 10);
        verdict = xcalloc(1, sizeof *verdict);
        list_init(&verdict->link);
        batch->deliveries[0].verdict = verdict;
        be_done(batch, 0);
        be_done(batch, 1);
        cr_expect(window_advance(&rig.window, &rig.settler));
        cr_expect_eq(rig.settler.verdicts.next, &verdict->link);
        cr_expect_eq(rig.window.position.from, rig.difference.until);
        cr_expect_eq(rig.pages.n_held, 1);
        cr_expect_eq(rig.window.bytes, 200);

        window_let_go(&rig.window, &batch->deliveries[0]);
        cr_expect_eq(rig.pages.n_held, 0);
        cr_expect_eq(rig.window.bytes, 0);
        close_rig(&rig);
}

Test(window, knows_its_head_and_whether_it_holds_up_others)
{
        struct rig rig;
        struct batch *first, *second;

        open_rig(&rig);
        cr_expect_null(window_head(&rig.window));
        first = add(&rig, 1, 2, 2);
        second = add(&rig, 3, 3, 3);
        cr_expect_eq(window_head(&rig.window), &first->deliveries[0]);
        cr_expect_not(window_is_held_up(&rig.window));
        be_done(second, 0);
        cr_expect(window_is_held_up(&rig.window));
        be_done(first, 0);
        window_advance(&rig.window, &rig.settler);
        cr_expect_eq(window_head(&rig.window), &first->deliveries[1]);
        be_done(first, 1);
        window_advance(&rig.window, &rig.settler);
        cr_expect_null(window_head(&rig.window));
        cr_expect_not(window_is_held_up(&rig.window));
        close_rig(&rig);
}
