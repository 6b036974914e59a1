#include "relay/window.h"

#include "base/alloc.h"

#include <stdlib.h>

void window_init(struct window *window)
{
        *window = (struct window){0};
        list_init(&window->pages);
}

static void drop_page(struct window *window, struct window_page *slot)
{
        list_remove(&slot->link);
        window->bytes -= slot->page->bytes;
        slot->page->release(slot->page);
        free(slot);
}

void window_deinit(struct window *window)
{
        list_for_each (link, &window->pages)
                drop_page(window, list_owner(link, struct window_page, link));
        cursor_deinit(&window->position);
}

void window_reset(struct window *window, const struct cursor *position)
{
        window_deinit(window);
        window_init(window);
        cursor_assign(&window->position, position);
}

struct window_page *window_add(struct window *window, struct page *page)
{
        struct window_page *slot =
            xcalloc(1, sizeof *slot + page->n_events * sizeof slot->deliveries[0]);

        slot->page = page;
        for (size_t i = 0; i < page->n_events; i++) {
                struct delivery *delivery = &slot->deliveries[i];
                delivery->event = &page->events[i];
                delivery->sequence = window->n_taken + i;
                list_init(&delivery->link);
                list_init(&delivery->chain_link);
        }
        list_push_back(&window->pages, &slot->link);
        window->bytes += page->bytes;
        window->n_taken += page->n_events;
        return slot;
}

/* Where a lane stands that has done everything in the page. */
static struct cursor page_end(const struct page *page)
{
        if (page_ends_difference(page))
                return (struct cursor){.from = page->start.until};
        return (struct cursor){
            .from = page->start.from, .until = page->start.until, .last_id = page->upto};
}

bool window_advance(struct window *window)
{
        bool moved = false;

        while (!list_is_empty(&window->pages)) {
                struct window_page *slot = list_owner(window->pages.next, struct window_page, link);
                const struct page *page = slot->page;
                size_t n_done = slot->n_done;
                struct cursor here;

                while (n_done < page->n_events && slot->deliveries[n_done].state == DELIVERY_DONE)
                        n_done++;
                window->n_done += n_done - slot->n_done;
                if (n_done < page->n_events) {
                        if (n_done == slot->n_done)
                                return moved;
                        here = page->start;
                        here.last_id = page->events[n_done - 1].id;
                        cursor_assign(&window->position, &here);
                        slot->n_done = n_done;
                        return true;
                }
                here = page_end(page);
                cursor_assign(&window->position, &here);
                drop_page(window, slot);
                moved = true;
        }
        return moved;
}
