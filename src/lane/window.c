#include "lane/window.h"

void window_init(struct window *window)
{
        *window = (struct window){0};
        list_init(&window->batches);
        list_init(&window->held);
}

static void drop_batch(struct window *window, struct batch *batch)
{
        list_remove(&batch->link);
        window->bytes -= batch->bytes;
        batch_free(batch);
}

void window_deinit(struct window *window)
{
        list_for_each (link, &window->batches)
                drop_batch(window, list_owner(link, struct batch, link));
        list_for_each (link, &window->held)
                drop_batch(window, list_owner(link, struct batch, link));
        cursor_deinit(&window->position);
}

void window_reset(struct window *window, const struct cursor *position)
{
        window_deinit(window);
        window_init(window);
        cursor_assign(&window->position, position);
}

struct batch *window_add(struct window *window, struct page *page)
{
        struct batch *batch = batch_of_page(page);

        for (size_t i = 0; i < batch->n_deliveries; i++)
                batch->deliveries[i].sequence = window->n_taken + i;
        list_push_back(&window->batches, &batch->link);
        window->bytes += batch->bytes;
        window->n_taken += batch->n_deliveries;
        return batch;
}

void window_note_decided(struct window *window)
{
        window->n_decided++;
}

/* Where a lane stands that has done everything in the page. */
static struct cursor page_end(const struct page *page)
{
        if (page_ends_difference(page))
                return (struct cursor){.from = page->start.until};
        return (struct cursor){
            .from = page->start.from, .until = page->start.until, .last_id = page->upto};
}

static void pass(struct window *window, struct delivery *delivery, struct settler *settler)
{
        window->n_passed++;
        delivery->batch->n_done++;
        if (delivery->verdict == NULL)
                return;
        delivery->batch->n_held++;
        settler_add(settler, delivery);
}

static bool pass_decided(struct window *window, struct batch *batch, struct settler *settler)
{
        size_t n_before = batch->n_done;

        while (batch->n_done < batch->n_deliveries &&
               delivery_is_decided(&batch->deliveries[batch->n_done]))
                pass(window, &batch->deliveries[batch->n_done], settler);
        return batch->n_done > n_before;
}

bool window_advance(struct window *window, struct settler *settler)
{
        bool moved = false;

        while (!list_is_empty(&window->batches)) {
                struct batch *batch = list_owner(window->batches.next, struct batch, link);
                const struct page *page = batch->page;
                bool moved_here = pass_decided(window, batch, settler);
                struct cursor here;

                if (batch->n_done < batch->n_deliveries) {
                        if (!moved_here)
                                return moved;
                        here = page->start;
                        here.last_id = page->events[batch->n_done - 1].id;
                        cursor_assign(&window->position, &here);
                        return true;
                }
                here = page_end(page);
                cursor_assign(&window->position, &here);
                moved = true;
                if (batch->n_held == 0) {
                        drop_batch(window, batch);
                } else {
                        list_remove(&batch->link);
                        list_push_back(&window->held, &batch->link);
                }
        }
        return moved;
}

void window_let_go(struct window *window, struct delivery *delivery)
{
        struct batch *batch = delivery->batch;

        batch->n_held--;
        if (batch->n_held == 0 && batch->n_done == batch->n_deliveries)
                drop_batch(window, batch);
}

struct delivery *window_head(const struct window *window)
{
        struct batch *first;

        if (list_is_empty(&window->batches))
                return NULL;
        first = list_owner(window->batches.next, struct batch, link);
        return first->n_done < first->n_deliveries ? &first->deliveries[first->n_done] : NULL;
}

bool window_is_held_up(const struct window *window)
{
        return window->n_decided > window->n_passed;
}
