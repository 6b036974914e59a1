#include "support/pages.h"

#include "base/alloc.h"

#include <criterion/criterion.h>
#include <stdlib.h>

struct made_page {
        struct page page; /* first, so that it is found from there */
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
