/*
 * Which events a sink, or one receiver of a sink that fans out, takes. All that
 * is given must hold: topics, types and headers are judged here as well as in
 * the database, the filter in the database alone (page.sql).
 */
#pragma once

#include "pgcourier/event.h"

#include <stdbool.h>
#include <stddef.h>

/* Everything is borrowed, and checked where it comes from: patterns by topic_pattern_check(), the
 * filter by PostgreSQL (courier.filter_error()). */
struct routing {
        char *const *topics; /* patterns, see text/topic_pattern.h; none: no event */
        size_t n_topics;
        char *const *types; /* patterns; none: any type, or no type at all */
        size_t n_types;
        char *const *headers; /* conditions: "name=value", or "name" for any value; none: any */
        size_t n_headers;
        const char *filter; /* a jsonpath predicate on the payload; NULL: none */
        /* It belongs to one of several receivers, which must not see news about the others: topics that
         * begin with "courier." are matched only by patterns that begin with it, too. */
        bool is_receiver;
};

/* All but the filter. */
bool routing_matches(const struct routing *routing, const struct event *event);

/* The part of it that looks at the topic alone. */
bool routing_matches_topic(const struct routing *routing, const char *topic);
