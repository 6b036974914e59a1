/*
 * Asks PostgreSQL which filters hold for which events: one question at a time, bounded in time, on
 * a connection that does nothing else. So a filter that takes for ever delays only the filters that
 * share this connection, and those no longer than the bound.
 *
 * It answers from the loop, never inside a call. A lost connection comes back by itself: on_ready.
 */
#pragma once

#include "base/error.h"
#include "config/config.h"

#include <libpq-fe.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

struct filter_query;

struct filter_query_question {
        const int64_t *ids; /* of events; ascending */
        size_t n_ids;
        const char *const *filters; /* jsonpath predicates */
        size_t n_filters;
        int64_t limit_ms;
};

/* Of the events that were found, in no order. */
struct filter_result {
        const PGresult *rows;
        size_t n_filters;
};
size_t filter_result_n_events(const struct filter_result *result);
int64_t filter_result_event(const struct filter_result *result, size_t i);
bool filter_result_holds(const struct filter_result *result, size_t i, size_t filter);

/* No answer: the time was up, or the server could not do it (memory, a disk). */
struct filter_query_failure {
        struct error error;
        bool is_time_up;
        /* What was being asked then. Not always known: then 0 and -1. */
        int64_t id;
        ptrdiff_t filter; /* -1 with an id: no filter was asked yet */
};

struct filter_query_events {
        void (*on_ready)(void *owner); /* may be asked; also after each answer */
        void (*on_judged)(void *owner, const struct filter_result *result);         /* borrowed */
        void (*on_failed)(void *owner, const struct filter_query_failure *failure); /* borrowed */
        void (*on_lost)(void *owner, const struct error *error, int64_t retry_ms);
};

/* `name` is for logs; borrowed. */
struct filter_query *filter_query_create(uv_loop_t *loop, const char *name,
    const struct postgres_config *config, const struct filter_query_events *events, void *owner);
void filter_query_destroy(struct filter_query *query); /* NULL is allowed */

void filter_query_configure(struct filter_query *query, const struct postgres_config *config);

/* `server` says since when the one runs that the events were read from: another one would have
 * others. Copied. Nothing happens if it is open. */
void filter_query_open(struct filter_query *query, const char *server);
void filter_query_close(struct filter_query *query);

/* Neither connecting nor at work. */
bool filter_query_is_ready(const struct filter_query *query);
void filter_query_ask(struct filter_query *query, const struct filter_query_question *question);
