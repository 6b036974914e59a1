#include "lane/stream_reader.h"

#include <assert.h>
#include <stddef.h>

void stream_reader_init(struct stream_reader *reader)
{
        *reader = (struct stream_reader){.mean_event_bytes = 1024};
}

void stream_reader_reset(struct stream_reader *reader, const struct cursor *position)
{
        cursor_assign(&reader->next_page, position);
        frame_unref(reader->unfinished);
        *reader = (struct stream_reader){.is_rung = true,
            .next_page = reader->next_page,
            .mean_event_bytes = reader->mean_event_bytes};
}

bool stream_reader_may_ask(const struct stream_reader *reader)
{
        return reader->state == STREAM_IDLE && (reader->next_page.until != NULL || reader->is_rung);
}

void stream_reader_ask(
    struct stream_reader *reader, uint32_t max_events, struct page_request *out_request)
{
        assert(stream_reader_may_ask(reader));
        if (reader->next_page.until == NULL)
                reader->is_rung = false; /* a ring from here on counts again */
        reader->state = STREAM_READING;
        reader->n_reading = max_events;
        out_request->start = reader->next_page;
        out_request->max_events = max_events;
}

/* An opened difference in which no id was drawn and that let nothing through is not worth a
 * transaction id. But if its frame has one, the reader may as well go on from there. */
static bool is_nothing_new(const struct stream_reader *reader, const struct page *page)
{
        return reader->next_page.until == NULL && page->start.until->xid == 0 &&
               page->n_events == 0 && page->start.until->floor == reader->next_page.from->floor;
}

static void move(struct stream_reader *reader, const struct page *page)
{
        struct cursor next = {
            .from = page->start.from, .until = page->start.until, .last_id = page->upto};

        if (page_ends_difference(page))
                next = (struct cursor){.from = page->start.until};
        if (page->start.until->xid == 0) {
                reader->unfinished = frame_ref(page->start.until);
                reader->state = STREAM_NEEDS_XID;
        }
        cursor_assign(&reader->next_page, &next);
}

static void stop_reading(struct stream_reader *reader)
{
        assert(reader->state == STREAM_READING && reader->seen == NULL);
        reader->state = STREAM_IDLE;
        reader->n_reading = 0;
}

void stream_reader_see(struct stream_reader *reader, const struct page *page)
{
        stop_reading(reader);
        reader->seen = page;
        reader->is_seen_for_nothing = is_nothing_new(reader, page);
        if (!reader->is_seen_for_nothing)
                move(reader, page);
}

void stream_reader_fail(struct stream_reader *reader)
{
        stop_reading(reader);
        if (reader->next_page.until == NULL)
                reader->is_rung = true; /* what it was rung for has not been looked for */
}

bool stream_reader_take(struct stream_reader *reader, const struct page *page)
{
        assert(reader->seen == page);
        reader->seen = NULL;
        if (page->n_events > 0)
                reader->mean_event_bytes =
                    (3 * reader->mean_event_bytes + page->bytes / page->n_events) / 4;
        return !reader->is_seen_for_nothing;
}

bool stream_reader_ask_xid(struct stream_reader *reader)
{
        if (reader->state != STREAM_NEEDS_XID)
                return false;
        reader->state = STREAM_DRAWING;
        return true;
}

void stream_reader_take_xid(struct stream_reader *reader, uint64_t xid)
{
        assert(reader->state == STREAM_DRAWING);
        reader->state = STREAM_IDLE;
        reader->unfinished->xid = xid;
        frame_unref(reader->unfinished);
        reader->unfinished = NULL;
}
