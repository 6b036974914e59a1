/*
 * An outbox in memory, as the relay's pure core sees it: transactions draw ids
 * and commit in another order or never, a snapshot is the number of commits
 * that it sees, and a page is cut as src/outbox cuts it.
 *
 * Two events of one key conflict, as they would on their aggregate's row: the
 * second is drawn only after the first has committed. So in the outbox the
 * order of a key is the order of its ids.
 */
#pragma once

#include "outbox/page.h"
#include "support/pages.h"

#define FAKE_OUTBOX_MAX_EVENTS 64
#define FAKE_NEVER             UINT64_MAX

struct fake_event {
        int64_t id; /* its index plus one */
        const char *key;
        size_t bytes;
        bool is_ours;      /* its topic is one that the lane reads */
        uint64_t n_commit; /* it was the nth to commit; 0: not yet; FAKE_NEVER: rolled back */
};

struct fake_outbox {
        struct pages pages;
        struct fake_event events[FAKE_OUTBOX_MAX_EVENTS];
        size_t n_events;
        uint64_t n_commits;
        int64_t scan_ids;      /* how many ids one page looks at */
        struct cursor durable; /* a copy of what was settled last */
};

void fake_outbox_init(struct fake_outbox *outbox, int64_t scan_ids);
void fake_outbox_deinit(struct fake_outbox *outbox); /* checks that each page was released */

/* Inserts an event without committing; false if its key is locked or the outbox is full. */
bool fake_outbox_insert(struct fake_outbox *outbox, const char *key, size_t bytes, bool is_ours);
void fake_outbox_end(struct fake_outbox *outbox, struct fake_event *event, bool commits);

struct page *fake_outbox_read(struct fake_outbox *outbox, const struct page_request *request);
void fake_outbox_settle(struct fake_outbox *outbox, const struct cursor *cursor);

/* A lane that stands there will not read it again. */
bool fake_event_is_behind(const struct fake_event *event, const struct cursor *cursor);
