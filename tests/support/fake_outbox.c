#include "support/fake_outbox.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void fake_outbox_init(struct fake_outbox *outbox, int64_t scan_ids)
{
        *outbox = (struct fake_outbox){.scan_ids = scan_ids};
        pages_init(&outbox->pages);
        outbox->durable.from = frame_create("0", 0, 1);
}

void fake_outbox_deinit(struct fake_outbox *outbox)
{
        cursor_deinit(&outbox->durable);
        pages_deinit(&outbox->pages);
}

bool fake_outbox_insert(struct fake_outbox *outbox, const char *key, size_t bytes, bool is_ours)
{
        if (outbox->n_events == FAKE_OUTBOX_MAX_EVENTS)
                return false;
        for (size_t i = 0; i < outbox->n_events && key != NULL; i++) {
                const struct fake_event *event = &outbox->events[i];
                if (event->n_commit == 0 && event->key != NULL && strcmp(event->key, key) == 0)
                        return false;
        }
        outbox->events[outbox->n_events] = (struct fake_event){
            .id = (int64_t)outbox->n_events + 1, .key = key, .bytes = bytes, .is_ours = is_ours};
        outbox->n_events++;
        return true;
}

void fake_outbox_end(struct fake_outbox *outbox, struct fake_event *event, bool commits)
{
        event->n_commit = commits ? ++outbox->n_commits : FAKE_NEVER;
}

static bool is_visible(const struct fake_event *event, const struct frame *frame)
{
        return event->n_commit != 0 && event->n_commit <= strtoull(frame->snapshot, NULL, 10);
}

bool fake_event_is_behind(const struct fake_event *event, const struct cursor *cursor)
{
        return is_visible(event, cursor->from) ||
               (cursor->until != NULL && is_visible(event, cursor->until) &&
                   event->id <= cursor->last_id);
}

static struct frame *open_frame(const struct fake_outbox *outbox)
{
        char snapshot[24];

        snprintf(snapshot, sizeof snapshot, "%" PRIu64, outbox->n_commits);
        return frame_create(snapshot, (int64_t)outbox->n_events, 0);
}

static int64_t scan_bound(const struct fake_outbox *outbox, const struct cursor *start)
{
        int64_t above = start->last_id > start->from->floor ? start->last_id : start->from->floor;

        return above + outbox->scan_ids < start->until->floor ? above + outbox->scan_ids
                                                              : start->until->floor;
}

struct page *fake_outbox_read(struct fake_outbox *outbox, const struct page_request *request)
{
        const struct cursor *asked = &request->start;
        struct cursor start = {.from = frame_ref(asked->from),
            .until = asked->until != NULL ? frame_ref(asked->until) : open_frame(outbox),
            .last_id = asked->last_id};
        struct page *page = pages_make(&outbox->pages, &start);
        bool is_cut = false;

        page->upto = scan_bound(outbox, &start);
        for (int64_t id = start.last_id + 1; id <= page->upto && !is_cut; id++) {
                const struct fake_event *event = &outbox->events[id - 1];
                bool is_large = event->bytes > request->max_event_bytes;
                if (!event->is_ours || is_visible(event, start.from) ||
                    !is_visible(event, start.until))
                        continue;
                is_cut = is_large || page->n_events + 1 == request->max_events;
                if (is_large && page->n_events > 0)
                        break;
                page_add_event(page, event->id, event->key, event->bytes);
        }
        if (is_cut)
                page->upto = page->events[page->n_events - 1].id;
        cursor_deinit(&start);
        return page;
}

static struct frame *copy_frame(const struct frame *frame)
{
        return frame != NULL ? frame_create(frame->snapshot, frame->floor, frame->xid) : NULL;
}

void fake_outbox_settle(struct fake_outbox *outbox, const struct cursor *cursor)
{
        struct cursor copy = {.from = copy_frame(cursor->from),
            .until = copy_frame(cursor->until),
            .last_id = cursor->last_id};

        cursor_assign(&outbox->durable, &copy);
        cursor_deinit(&copy);
}
