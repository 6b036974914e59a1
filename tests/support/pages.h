/*
 * Pages and parked batches without a database. Each is remembered until the end, so that one that
 * is released twice, or never, is found; what its events point at is freed when
 * it is released, so that the sanitizer finds who still looks.
 */
#pragma once

#include "base/list.h"
#include "outbox/page.h"
#include "outbox/parked.h"

struct pages {
        struct list all; /* made_page::link */
        unsigned n_held; /* made and not yet released */
};

void pages_init(struct pages *pages);

/* Fails the test unless each page was released. */
void pages_deinit(struct pages *pages);

/* An empty page that ends the difference; takes its own references to the frames. */
struct page *pages_make(struct pages *pages, const struct cursor *start);

/* In the order of ids. `key` is copied and may be NULL. */
void page_add_event(struct page *page, int64_t id, const char *key, size_t payload_bytes);

/* The same for what is read back from where it was parked: an empty batch, never due again. */
struct parked_batch *pages_make_parked(struct pages *pages);
void parked_add_row(
    struct parked_batch *batch, const struct parked_row *row); /* its event's key is copied */
