#include "cli/matching_sinks.h"

#include "base/alloc.h"
#include "base/bytes.h"
#include "config/config.h"
#include "operator/endpoint_rows.h"
#include "pg/array_literal.h"
#include "pg/blocking_conn.h"

#include <stdlib.h>

static struct taker *add(struct takers *takers, const struct sink_config *sink)
{
        struct taker *taker;

        takers->takers = xrealloc(takers->takers, (takers->n_takers + 1) * sizeof *takers->takers);
        taker = &takers->takers[takers->n_takers++];
        *taker = (struct taker){.sink = sink->name,
            .is_email = sink->email != NULL,
            .routing = {.topics = sink->topics,
                .n_topics = sink->n_topics,
                .types = sink->types,
                .n_types = sink->n_types,
                .headers = sink->match_headers,
                .n_headers = sink->n_match_headers,
                .filter = sink->filter}};
        return taker;
}

static bool add_receivers(struct takers *takers, const struct sink_config *sink,
    struct blocking_conn *conn, struct error *error)
{
        struct rows *rows = endpoints_read_texts(conn, sink->name, error);

        if (rows == NULL)
                return false;
        for (int i = 0; i < rows_count(rows); i++) {
                struct taker *taker = add(takers, sink);

                taker->lane = (int32_t)strtol(rows_text(rows, i, ENDPOINT_TEXT_ID), NULL, 10);
                taker->endpoint = endpoint_read(taker->lane, 0, rows_text(rows, i, ENDPOINT_TEXT));
        }
        rows_free(rows);
        return true;
}

bool takers_load(struct takers *out_takers, const struct config *config, struct blocking_conn *conn,
    struct error *error)
{
        *out_takers = (struct takers){0};
        for (unsigned i = 0; i < config->n_sinks; i++) {
                if (!sink_config_fans_out(&config->sinks[i])) {
                        add(out_takers, &config->sinks[i]);
                } else if (!add_receivers(out_takers, &config->sinks[i], conn, error)) {
                        takers_deinit(out_takers);
                        return false;
                }
        }
        return true;
}

void takers_deinit(struct takers *takers)
{
        for (size_t i = 0; i < takers->n_takers; i++)
                endpoint_unref(takers->takers[i].endpoint);
        free(takers->takers);
        *takers = (struct takers){0};
}

/* Condition by condition, so that it can be said which one it was. */
static enum taker_verdict judge(const struct routing *whole, const struct event *event)
{
        struct routing part = *whole;

        part.n_types = 0;
        part.n_headers = 0;
        if (!routing_matches(&part, event))
                return TAKER_NOT_TOPIC;
        part.n_types = whole->n_types;
        if (!routing_matches(&part, event))
                return TAKER_NOT_TYPE;
        part.n_headers = whole->n_headers;
        return routing_matches(&part, event) ? TAKER_TAKES : TAKER_NOT_HEADERS;
}

enum taker_verdict taker_judge(const struct taker *taker, const struct event *event)
{
        enum taker_verdict verdict = judge(&taker->routing, event);

        if (verdict != TAKER_TAKES || taker->endpoint == NULL)
                return verdict;
        return judge(&taker->endpoint->routing, event);
}

bool taker_has_filter(const struct taker *taker)
{
        return taker->routing.filter != NULL ||
               (taker->endpoint != NULL && taker->endpoint->routing.filter != NULL);
}

void taker_append_filters(const struct taker *taker, struct bytes *out_array)
{
        struct array_literal filters = {0};

        if (taker->routing.filter != NULL)
                array_add_text(&filters, taker->routing.filter);
        if (taker->endpoint != NULL && taker->endpoint->routing.filter != NULL)
                array_add_text(&filters, taker->endpoint->routing.filter);
        bytes_append_text(out_array, array_end(&filters));
        array_deinit(&filters);
}

char *taker_name(const struct taker *taker)
{
        return taker->endpoint == NULL
                   ? xasprintf("sink %s", taker->sink)
                   : xasprintf("sink %s/%s", taker->sink, taker->endpoint->name);
}
