/* What a lane's store is made of; what it does is in claim.c, page.c, parked.c and settle.c. */
#include "base/alloc.h"
#include "base/bytes.h"
#include "outbox/session.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

/* '*' becomes '%', and what LIKE would take as a wildcard or an escape is escaped. */
static void add_pattern(struct array_literal *patterns, const char *topic)
{
        struct bytes pattern = {0};

        for (const char *at = topic; *at != '\0'; at++) {
                if (*at == '*')
                        bytes_append_text(&pattern, "%");
                else if (*at == '%' || *at == '_' || *at == '\\')
                        bytes_printf(&pattern, "\\%c", *at);
                else
                        bytes_append(&pattern, at, 1);
        }
        array_add_text(patterns, pattern.length > 0 ? pattern.data : "");
        bytes_deinit(&pattern);
}

struct lane_store *lane_store_create(struct outbox *outbox,
    const struct lane_store_settings *settings, const struct lane_store_events *events, void *owner)
{
        struct lane_store *store = xcalloc(1, sizeof *store);

        store->outbox = outbox;
        store->events = *events;
        store->owner = owner;
        store->sink = settings->sink;
        snprintf(store->lane, sizeof store->lane, "%" PRId32, settings->lane);
        for (unsigned i = 0; i < settings->n_topics; i++)
                add_pattern(&store->topics, settings->topics[i]);
        (void)array_end(&store->topics);
        store->start = settings->start;
        return store;
}

void lane_store_destroy(struct lane_store *store)
{
        if (store == NULL)
                return;
        cursor_deinit(&store->request.start);
        cursor_deinit(&store->claimed);
        array_deinit(&store->topics);
        free(store);
}
