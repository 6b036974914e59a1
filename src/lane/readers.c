#include "lane/readers.h"

#include "base/alloc.h"

#include <assert.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

void stream_reader_init(struct stream_reader *reader)
{
        *reader = (struct stream_reader){.mean_event_bytes = 1024};
}

void stream_reader_reset(struct stream_reader *reader, const struct cursor *position)
{
        cursor_assign(&reader->next_page, position);
        *reader = (struct stream_reader){.is_rung = true,
            .next_page = reader->next_page,
            .mean_event_bytes = reader->mean_event_bytes};
}

bool stream_reader_may_ask(const struct stream_reader *reader)
{
        return !reader->is_reading && (reader->next_page.until != NULL || reader->is_rung);
}

void stream_reader_ask(
    struct stream_reader *reader, uint32_t max_events, struct page_request *out_request)
{
        assert(stream_reader_may_ask(reader));
        if (reader->next_page.until == NULL)
                reader->is_rung = false; /* a ring from here on counts again */
        reader->is_reading = true;
        reader->n_reading = max_events;
        out_request->start = reader->next_page;
        out_request->max_events = max_events;
}

static void move(struct stream_reader *reader, const struct page *page)
{
        struct cursor next = {
            .from = page->start.from, .until = page->start.until, .last_id = page->upto};

        if (page_ends_difference(page))
                next = (struct cursor){.from = page->start.until};
        cursor_assign(&reader->next_page, &next);
}

static void stop_reading(struct stream_reader *reader)
{
        assert(reader->is_reading && reader->seen == NULL);
        reader->is_reading = false;
        reader->n_reading = 0;
}

void stream_reader_see(struct stream_reader *reader, const struct page *page)
{
        stop_reading(reader);
        reader->seen = page;
        reader->is_seen_for_nothing = page_is_nothing_new(page);
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

void parked_reader_init(struct parked_reader *reader)
{
        *reader = (struct parked_reader){.due_ms = -1};
        list_init(&reader->batches);
        list_init(&reader->claimed);
}

void parked_reader_deinit(struct parked_reader *reader)
{
        list_for_each (link, &reader->batches)
                batch_free(list_owner(link, struct batch, link));
        free(reader->excluded);
}

void parked_reader_reset(struct parked_reader *reader, uint64_t n_rows)
{
        parked_reader_deinit(reader);
        parked_reader_init(reader);
        reader->n_rows = n_rows;
        reader->is_rung = true;
}

void parked_reader_note_due(struct parked_reader *reader, int64_t due_ms)
{
        if (reader->due_ms < 0 || due_ms < reader->due_ms)
                reader->due_ms = due_ms;
}

void parked_reader_note_row(struct parked_reader *reader)
{
        reader->n_rows++;
}

void parked_reader_note_row_gone(struct parked_reader *reader)
{
        if (reader->n_rows > 0)
                reader->n_rows--;
}

bool parked_reader_may_ask(
    const struct parked_reader *reader, const struct key_order *order, int64_t now_ms)
{
        bool is_due = reader->due_ms >= 0 && reader->due_ms <= now_ms;

        return !reader->is_reading && (is_due || reader->is_rung || key_order_has_fetches(order));
}

static size_t list_excluded(struct parked_reader *reader)
{
        size_t n = 0;

        if (reader->n_claimed > reader->n_excluded_max) {
                reader->n_excluded_max = reader->n_claimed * 2;
                reader->excluded =
                    xrealloc(reader->excluded, reader->n_excluded_max * sizeof *reader->excluded);
        }
        list_for_each (link, &reader->claimed)
                reader->excluded[n++] = list_owner(link, struct delivery, claimed_link)->event->id;
        return n;
}

void parked_reader_ask(struct parked_reader *reader, struct key_order *order, uint32_t room,
    uint64_t max_bytes, struct parked_request *out_request)
{
        size_t n_excluded = list_excluded(reader);

        assert(!reader->is_reading);
        reader->n_fetching = key_order_take_fetches(
            order, reader->fetching, sizeof reader->fetching / sizeof reader->fetching[0]);
        reader->is_reading = true;
        reader->is_rung = false;
        reader->due_ms = -1; /* the answer says */
        *out_request = (struct parked_request){.keys = reader->fetching,
            .n_keys = reader->n_fetching,
            .claimed = reader->excluded,
            .n_claimed = n_excluded,
            .max_rows = reader->n_fetching > 0 ? (room + 1) / 2 : room,
            .max_bytes = max_bytes};
}

void parked_reader_note_answer(
    struct parked_reader *reader, const struct parked_batch *parked, int64_t now_ms)
{
        assert(reader->is_reading);
        reader->is_reading = false;
        if (parked->next_due_ms >= 0)
                parked_reader_note_due(reader, now_ms + parked->next_due_ms);
}

struct batch *parked_reader_add(struct parked_reader *reader, struct parked_batch *parked)
{
        struct batch *batch = batch_of_parked(parked);

        batch->n_held = batch->n_deliveries;
        list_push_back(&reader->batches, &batch->link);
        reader->bytes += batch->bytes;
        return batch;
}

void parked_reader_leave(struct delivery *delivery)
{
        delivery->batch->n_held--;
        delivery->batch = NULL;
}

void parked_reader_note_fetched(
    struct parked_reader *reader, struct key_order *order, const struct parked_batch *parked)
{
        for (size_t k = 0; k < reader->n_fetching; k++) {
                size_t n_rows = 0;
                for (size_t i = 0; i < parked->n_rows; i++) {
                        const char *key = parked->rows[i].event.key;
                        n_rows += key != NULL && strcmp(key, reader->fetching[k]) == 0;
                }
                /* A full answer leaves keys out, but never the first. */
                key_order_note_fetched(order, reader->fetching[k], n_rows, k == 0);
        }
        reader->n_fetching = 0;
}

void parked_reader_claim(struct parked_reader *reader, struct delivery *delivery)
{
        list_push_back(&reader->claimed, &delivery->claimed_link);
        reader->n_claimed++;
}

void parked_reader_unclaim(struct parked_reader *reader, struct delivery *delivery)
{
        if (list_is_empty(&delivery->claimed_link))
                return;
        list_remove(&delivery->claimed_link);
        reader->n_claimed--;
}

void parked_reader_let_go(struct parked_reader *reader, struct delivery *delivery)
{
        struct batch *batch = delivery->batch;

        if (--batch->n_held > 0)
                return;
        list_remove(&batch->link);
        reader->bytes -= batch->bytes;
        batch_free(batch);
}
