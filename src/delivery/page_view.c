#include "delivery/page_view.h"

#include "base/alloc.h"

#include <stdlib.h>

struct view {
        struct page page; /* first, so that release_view() finds the rest */
        struct shared_page *shared;
};

struct shared_page *shared_page_create(struct page *page)
{
        struct shared_page *shared = xcalloc(1, sizeof *shared);

        list_init(&shared->link);
        shared->n_references = 1;
        shared->page = page;
        return shared;
}

struct shared_page *shared_page_ref(struct shared_page *shared)
{
        shared->n_references++;
        return shared;
}

void shared_page_unref(struct shared_page *shared)
{
        if (--shared->n_references > 0)
                return;
        shared->page->release(shared->page);
        free(shared);
}

static void release_view(struct page *page)
{
        struct view *view = (struct view *)(void *)page;

        shared_page_unref(view->shared);
        cursor_deinit(&page->start);
        free(page->events);
        free(page->is_delayed);
        free(page->is_unjudged);
        free(view);
}

static void add_event(struct page *view, const struct page *page, size_t i, size_t n_max)
{
        if (view->events == NULL)
                view->events = xcalloc(n_max, sizeof *view->events);
        if (page->is_delayed != NULL && page->is_delayed[i]) {
                if (view->is_delayed == NULL)
                        view->is_delayed = xcalloc(n_max, sizeof *view->is_delayed);
                view->is_delayed[view->n_events] = true;
        }
        view->events[view->n_events++] = page->events[i];
        view->bytes += page->events[i].payload_bytes;
        view->upto = page->events[i].id;
}

size_t page_wish_find(const struct page_wish *wish, const struct page *page)
{
        size_t i = wish->first;

        while (i < page->n_events && !wish->takes(wish->owner, page, i))
                i++;
        return i;
}

struct page *page_view_create(struct shared_page *shared, const struct page_wish *wish)
{
        struct view *view = xcalloc(1, sizeof *view);
        const struct page *page = shared->page;
        size_t n_left = page->n_events - wish->first;
        size_t n_max = n_left < wish->max_events ? n_left : wish->max_events;

        view->shared = shared_page_ref(shared);
        view->page.release = release_view;
        view->page.asked_us = page->asked_us;
        view->page.arrived_us = page->arrived_us;
        cursor_assign(&view->page.start, &page->start);
        for (size_t i = wish->first; i < page->n_events; i++) {
                if (!wish->takes(wish->owner, page, i))
                        continue;
                if (view->page.n_events == n_max ||
                    (view->page.n_events > 0 &&
                        view->page.bytes + page->events[i].payload_bytes > wish->max_bytes))
                        return &view->page;
                add_event(&view->page, page, i, n_max);
        }
        view->page.upto = page->upto;
        return &view->page;
}

static void release_passed(struct page *page)
{
        cursor_deinit(&page->start);
        free(page);
}

struct page *page_create_passed(const struct cursor *from, const struct cursor *to)
{
        struct page *page = xcalloc(1, sizeof *page);
        const struct cursor ended = {.from = from->from, .until = to->from};

        page->release = release_passed;
        cursor_assign(&page->start, to->until != NULL ? to : &ended);
        page->upto = to->until != NULL ? to->last_id : to->from->floor;
        return page;
}
