/*
 * Which events a sink, or one receiver of a sink that fans out, takes. All that is given must hold:
 * topics, types and headers are judged here as well as in the database, the filter in the database
 * alone (page.sql).
 */
#pragma once

#include "pg/array_literal.h"
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
        /* It belongs to one of several receivers, which must not see news about the others: topics
         * that begin with "courier." are matched only by patterns that begin with it, too. */
        bool is_receiver;
};

/* All but the filter. */
bool routing_matches(const struct routing *routing, const struct event *event);

/* The same for the topic alone. */
bool routing_matches_topic(const struct routing *routing, const char *topic);

/*
 * The parameters of page.sql, so that hardly any unwanted event leaves the database. Each pattern
 * becomes what is cheapest there: an equality, a LIKE of a prefix (and another, of what goes on
 * behind a dot, if it ends in one `*`), or a part of one regular expression.
 *
 * Of several routings the union is asked for: topics that any of them names, types if all name
 * some. Where that would cost more than reading everything (thousands of receivers), everything is
 * read. Filters are asked later, and apart (filter_queue.h).
 */
enum route_param {
        ROUTE_TOPICS, /* five that make a set of patterns, see enum pattern_param */
        ROUTE_NOT_TOPICS = ROUTE_TOPICS + 5, /* another */
        ROUTE_TYPES = ROUTE_NOT_TOPICS + 5,
        ROUTE_TYPE_REGEX,
        ROUTE_NOT_TYPE_REGEX,
        ROUTE_HEADER_NAMES,
        ROUTE_HEADER_VALUES,
        N_ROUTE_PARAMS,
};

struct routing_params {
        const char *values[N_ROUTE_PARAMS]; /* borrowed from `texts`; NULL: no such condition */
        struct array_literal texts[N_ROUTE_PARAMS];
        bool is_any_topic; /* but for those that are left out */
        bool is_exact;     /* what passes is just what one of the routings takes */
};

void routing_params_init(
    struct routing_params *params, const struct routing *const *routings, size_t n_routings);
void routing_params_deinit(struct routing_params *params);
