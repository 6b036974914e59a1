/*
 * What the parts of the outbox share: what a lane's store is made of, and what becomes of the
 * session.
 */
#include "outbox/session.h"

#include "base/alloc.h"
#include "outbox/filter_queue.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

void session_note_polling(struct outbox *outbox)
{
        if (outbox->n_polling++ > 0)
                return;
        outbox->n_news = 0;
        outbox->n_ours = 0;
        if (outbox->is_listening)
                outbox->news.on_polling(outbox->news_owner);
}

void session_note_polled(struct outbox *outbox, const struct page *page)
{
        uint64_t n_ids, n_news;

        if (page != NULL) {
                /* Events for other sinks count, too: their writers are to be spared notifications
                 * as well. */
                n_ids = (uint64_t)(page->start.until->floor - page->start.from->floor);
                n_news = page->n_events > n_ids ? page->n_events : n_ids;
                if (n_news > outbox->n_news)
                        outbox->n_news = n_news;
                if (page->n_events > outbox->n_ours)
                        outbox->n_ours = page->n_events;
        }
        if (--outbox->n_polling == 0 && outbox->is_listening)
                outbox->news.on_polled(outbox->news_owner, outbox->n_news, outbox->n_ours);
}

/* Nothing that was asked is answered any more. */
void session_forget(struct outbox *outbox)
{
        pooling_forget(outbox->pooling);
        outbox->pooling = NULL;
        session_drop_settle_batches(outbox);
        filter_queue_session_down(outbox->queue);
        outbox->n_polling = 0;
}

void session_refuse(struct outbox *outbox, const struct error *error)
{
        pg_conn_close(outbox->conn);
        session_forget(outbox);
        outbox->events.on_refused(outbox->owner, error);
}

/* A page that is empty, and waits for what comes behind it, when the session is lost. */
void lane_store_forget_page(struct lane_store *store)
{
        if (store->page != NULL)
                store->page->release(store->page);
        store->page = NULL;
}

struct lane_store *lane_store_create(struct outbox *outbox,
    const struct lane_store_settings *settings, const struct lane_store_events *events, void *owner)
{
        struct lane_store *store = xcalloc(1, sizeof *store);

        store->outbox = outbox;
        store->events = *events;
        store->owner = owner;
        store->sink = settings->sink;
        store->settings = settings->settings;
        store->topics = settings->topics;
        store->types = settings->types;
        snprintf(store->lane, sizeof store->lane, "%" PRId32, settings->lane);
        store->is_covered = settings->is_covered;
        store->is_owner_lane = settings->is_owner_lane;
        snprintf(store->n_shards, sizeof store->n_shards, "%" PRIu32, settings->n_shards);
        if (settings->start_snapshot != NULL)
                store->start_snapshot = xstrdup(settings->start_snapshot);
        snprintf(store->start_floor, sizeof store->start_floor, "%" PRId64, settings->start_floor);
        store->is_durable = settings->is_durable;
        return store;
}

void lane_store_destroy(struct lane_store *store)
{
        if (store == NULL)
                return;
        lane_store_forget_page(store);
        cursor_deinit(&store->request.start);
        cursor_deinit(&store->claimed);
        attempt_log_leave(&store->pack_open);
        free(store->start_snapshot);
        free(store->shards);
        frame_unref(store->newest_end);
        routing_params_deinit(&store->route);
        free(store);
}

uint64_t lane_store_epoch(const struct lane_store *store)
{
        return strtoull(store->epoch, NULL, 10);
}
