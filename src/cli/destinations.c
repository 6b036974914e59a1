#include "cli/destinations.h"

#include "base/alloc.h"
#include "base/bytes.h"
#include "config/config.h"
#include "operator/receiver_rows.h"
#include "pg/array_literal.h"
#include "pg/blocking_conn.h"

#include <stdlib.h>

static struct destination *add(struct destinations *destinations, const struct sink_config *sink)
{
        struct destination *destination;

        destinations->destinations = xrealloc(destinations->destinations,
            (destinations->n_destinations + 1) * sizeof *destinations->destinations);
        destination = &destinations->destinations[destinations->n_destinations++];
        *destination = (struct destination){.sink = sink->name,
            .is_email = sink->email != NULL,
            .routing = {.topics = sink->topics,
                .n_topics = sink->n_topics,
                .types = sink->types,
                .n_types = sink->n_types,
                .headers = sink->match_headers,
                .n_headers = sink->n_match_headers,
                .filter = sink->filter}};
        return destination;
}

static bool add_receivers(struct destinations *destinations, const struct sink_config *sink,
    struct blocking_conn *conn, struct error *error)
{
        struct rows *rows = receivers_read_texts(conn, sink->name, error);

        if (rows == NULL)
                return false;
        for (int i = 0; i < rows_count(rows); i++) {
                struct destination *destination = add(destinations, sink);

                destination->lane = (int32_t)strtol(rows_text(rows, i, RECEIVER_TEXT_ID), NULL, 10);
                destination->receiver =
                    receiver_read(destination->lane, 0, rows_text(rows, i, RECEIVER_TEXT));
        }
        rows_free(rows);
        return true;
}

bool destinations_load(struct destinations *out_destinations, const struct config *config,
    struct blocking_conn *conn, struct error *error)
{
        *out_destinations = (struct destinations){0};
        for (unsigned i = 0; i < config->n_sinks; i++) {
                if (!sink_config_fans_out(&config->sinks[i])) {
                        add(out_destinations, &config->sinks[i]);
                } else if (!add_receivers(out_destinations, &config->sinks[i], conn, error)) {
                        destinations_deinit(out_destinations);
                        return false;
                }
        }
        return true;
}

void destinations_deinit(struct destinations *destinations)
{
        for (size_t i = 0; i < destinations->n_destinations; i++)
                receiver_unref(destinations->destinations[i].receiver);
        free(destinations->destinations);
        *destinations = (struct destinations){0};
}

/* Condition by condition, to tell which one fails. */
static enum destination_verdict judge(const struct routing *whole, const struct event *event)
{
        struct routing part = *whole;

        part.n_types = 0;
        part.n_headers = 0;
        if (!routing_matches(&part, event))
                return DESTINATION_NOT_TOPIC;
        part.n_types = whole->n_types;
        if (!routing_matches(&part, event))
                return DESTINATION_NOT_TYPE;
        part.n_headers = whole->n_headers;
        return routing_matches(&part, event) ? DESTINATION_TAKES : DESTINATION_NOT_HEADERS;
}

enum destination_verdict destination_judge(
    const struct destination *destination, const struct event *event)
{
        enum destination_verdict verdict = judge(&destination->routing, event);

        if (verdict != DESTINATION_TAKES || destination->receiver == NULL)
                return verdict;
        return judge(&destination->receiver->routing, event);
}

bool destination_has_filter(const struct destination *destination)
{
        return destination->routing.filter != NULL ||
               (destination->receiver != NULL && destination->receiver->routing.filter != NULL);
}

void destination_append_filters(const struct destination *destination, struct bytes *out_array)
{
        struct array_literal filters = {0};

        if (destination->routing.filter != NULL)
                array_add_text(&filters, destination->routing.filter);
        if (destination->receiver != NULL && destination->receiver->routing.filter != NULL)
                array_add_text(&filters, destination->receiver->routing.filter);
        bytes_append_text(out_array, array_end(&filters));
        array_deinit(&filters);
}

char *destination_name(const struct destination *destination)
{
        return destination->receiver == NULL
                   ? xasprintf("sink %s", destination->sink)
                   : xasprintf("sink %s/%s", destination->sink, destination->receiver->name);
}
