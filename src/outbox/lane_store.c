/* What a lane's store is made of; what it does is in claim.c, page.c and settle.c. */
#include "base/alloc.h"
#include "base/bytes.h"
#include "outbox/session.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

/* {"orders.%","a\\_b"}: '*' becomes '%', what LIKE would take as a wildcard is escaped, and each
 * backslash and quote once more for the array literal. */
static char *like_patterns(char *const *topics, unsigned n_topics)
{
        struct bytes literal = {0};

        bytes_append_text(&literal, "{");
        for (unsigned i = 0; i < n_topics; i++) {
                bytes_append_text(&literal, i > 0 ? ",\"" : "\"");
                for (const char *at = topics[i]; *at != '\0'; at++) {
                        if (*at == '*')
                                bytes_append_text(&literal, "%");
                        else if (*at == '%' || *at == '_')
                                bytes_printf(&literal, "\\\\%c", *at);
                        else if (*at == '\\')
                                bytes_append_text(&literal, "\\\\\\\\");
                        else if (*at == '"')
                                bytes_append_text(&literal, "\\\"");
                        else
                                bytes_append(&literal, at, 1);
                }
                bytes_append_text(&literal, "\"");
        }
        bytes_append_text(&literal, "}");
        return literal.data;
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
        store->topics = like_patterns(settings->topics, settings->n_topics);
        store->start = settings->start;
        return store;
}

void lane_store_destroy(struct lane_store *store)
{
        if (store == NULL)
                return;
        cursor_deinit(&store->request.start);
        free(store->topics);
        free(store);
}
