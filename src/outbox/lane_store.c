/* What a lane's store is made of; what it does is in claim.c, page.c, parked.c and settle.c. */
#include "base/alloc.h"
#include "outbox/session.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

struct lane_store *lane_store_create(struct outbox *outbox,
    const struct lane_store_settings *settings, const struct lane_store_events *events, void *owner)
{
        struct lane_store *store = xcalloc(1, sizeof *store);

        store->outbox = outbox;
        store->events = *events;
        store->owner = owner;
        store->sink = settings->sink;
        store->filter = settings->filter;
        store->settings = settings->settings;
        snprintf(store->lane, sizeof store->lane, "%" PRId32, settings->lane);
        store->is_covered = settings->is_covered;
        store->is_owner_lane = settings->is_owner_lane;
        store->start = settings->start;
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
        free(store->start_snapshot);
        routing_params_deinit(&store->route);
        free(store);
}

uint64_t lane_store_epoch(const struct lane_store *store)
{
        return strtoull(store->epoch, NULL, 10);
}

void lane_store_note_place(struct lane_store *store, const char *place)
{
        snprintf(store->place, sizeof store->place, "%s", place);
}
