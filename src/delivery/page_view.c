#include "delivery/page_view.h"

#include "base/alloc.h"

#include <stdlib.h>

struct view {
        struct page page; /* what the receiver holds; first, so that it can be freed from there */
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

struct page *page_view_create(struct shared_page *shared, size_t max_events, uint64_t max_bytes,
    page_takes_fn *takes, void *owner)
{
        struct view *view = xcalloc(1, sizeof *view);
        const struct page *page = shared->page;
        size_t n_max = page->n_events < max_events ? page->n_events : max_events;

        shared->n_references++;
        view->shared = shared;
        view->page.release = release_view;
        view->page.asked_us = page->asked_us;
        view->page.arrived_us = page->arrived_us;
        cursor_assign(&view->page.start, &page->start);
        for (size_t i = 0; i < page->n_events; i++) {
                if (!takes(owner, page, i))
                        continue;
                if (view->page.n_events == n_max ||
                    (view->page.n_events > 0 &&
                        view->page.bytes + page->events[i].payload_bytes > max_bytes))
                        return &view->page;
                add_event(&view->page, page, i, n_max);
        }
        view->page.upto = page->upto;
        return &view->page;
}
