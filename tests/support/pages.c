#include "support/pages.h"

#include "base/alloc.h"

#include <criterion/criterion.h>
#include <stdlib.h>

struct made_page {
        union {
                struct page page; /* first, so that it is found from there */
                struct parked_batch batch;
        };
        struct pages *pages;
        struct list link;
        bool is_released;
};

static void release(struct page *page)
{
        struct made_page *made = (struct made_page *)(void *)page;

        if (made->is_released)
                cr_assert_fail("a page is released twice");
        made->is_released = true;
        made->pages->n_held--;
        for (size_t i = 0; i < page->n_events; i++)
                free((char *)(uintptr_t)page->events[i].key);
        free(page->events);
        free(page->is_delayed);
        free(page->is_unjudged);
        page->events = NULL;
        cursor_deinit(&page->start);
}

void pages_init(struct pages *pages)
{
        *pages = (struct pages){0};
        list_init(&pages->all);
}

void pages_deinit(struct pages *pages)
{
        if (pages->n_held > 0)
                cr_assert_fail("%u pages are not released", pages->n_held);
        list_for_each (link, &pages->all)
                free(list_owner(link, struct made_page, link));
        list_init(&pages->all);
}

struct page *pages_make(struct pages *pages, const struct cursor *start)
{
        struct made_page *made = xcalloc(1, sizeof *made);

        made->pages = pages;
        made->page.release = release;
        made->page.upto = start->until->floor;
        cursor_assign(&made->page.start, start);
        list_push_back(&pages->all, &made->link);
        pages->n_held++;
        return &made->page;
}

void page_add_event(struct page *page, int64_t id, const char *key, size_t payload_bytes)
{
        page->events = xrealloc(page->events, (page->n_events + 1) * sizeof *page->events);
        page->events[page->n_events++] = (struct event){.id = id,
            .topic = "orders",
            .key = key != NULL ? xstrdup(key) : NULL,
            .payload = "",
            .payload_bytes = payload_bytes};
        page->bytes += payload_bytes;
}

static void release_parked(struct parked_batch *batch)
{
        struct made_page *made = (struct made_page *)(void *)batch;

        if (made->is_released)
                cr_assert_fail("a parked batch is released twice");
        made->is_released = true;
        made->pages->n_held--;
        for (size_t i = 0; i < batch->n_rows; i++)
                free((char *)(uintptr_t)batch->rows[i].event.key);
        free(batch->rows);
        batch->rows = NULL;
}

struct parked_batch *pages_make_parked(struct pages *pages)
{
        struct made_page *made = xcalloc(1, sizeof *made);

        made->pages = pages;
        made->batch.release = release_parked;
        made->batch.next_due_ms = -1;
        list_push_back(&pages->all, &made->link);
        pages->n_held++;
        return &made->batch;
}

void parked_add_row(struct parked_batch *batch, const struct parked_row *row)
{
        struct parked_row *added;

        batch->rows = xrealloc(batch->rows, (batch->n_rows + 1) * sizeof *batch->rows);
        added = &batch->rows[batch->n_rows++];
        *added = *row;
        if (row->event.key != NULL)
                added->event.key = xstrdup(row->event.key);
        batch->bytes += row->event.payload_bytes;
}
