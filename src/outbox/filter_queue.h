/*
 * Which events the filters of sinks and receivers let through. A filter may be written by a
 * customer, and its cost depends on the events: so it is asked on connections of its own
 * (filter_query.h), and its time is bounded.
 *
 *   UNPROVEN  -answers in good time-> PROVEN    asked together with the other proven ones
 *   PROVEN    -is slow-> UNPROVEN               asked by itself, on another connection
 *   UNPROVEN  -is slow then, too-> SLOW         asked there after rests twice as long as the work;
 *                                               meanwhile filters that are not slow have their turn
 *   SLOW      -too slow for 3 events in a row-> GIVEN UP
 *
 * A filter is too slow for an event if it had FILTER_QUEUE_LIMIT_MS, then twice and then four times
 * as long for this event alone; a large payload may take longer, because PostgreSQL has to read it
 * first. Such an event is not judged. So a slow filter delays only its own sink or receiver; a
 * proven filter that becomes slow delays the others once, until it is found out.
 */
#pragma once

#include "base/error.h"
#include "base/list.h"
#include "config/config.h"
#include "pgcourier/event.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

#define FILTER_QUEUE_LIMIT_MS     100
#define FILTER_QUEUE_TRIES        3     /* for an event, each with twice the time of the last */
#define FILTER_QUEUE_STRIKES      3     /* events in a row */
#define FILTER_QUEUE_BYTES_PER_MS 20000 /* of JSON: PostgreSQL reads so many in that time */

struct filter_queue;
struct filter;

enum filter_answer {
        FILTER_STOPPED, /* by the filter: not for its owner */
        FILTER_PASSED,
        FILTER_UNJUDGED, /* it took too long, or its row is gone */
};

/* A question about one filter; embedded in the object that asks. */
struct filter_request {
        struct list link;            /* of the filter's, while under way */
        const struct event *events;  /* in the order of their ids; borrowed */
        enum filter_answer *answers; /* for each, once it is known; borrowed */
        size_t n_events;
        size_t n_answered; /* so many are known, the first ones */
        /* All are known, or the filter has been given up. Not inside a call; the ask may be used
         * again. */
        void (*on_answered)(struct filter_request *ask);
};

struct filter_queue_events {
        /* Filters cannot be asked: a connection is lost, or the server cannot answer. It is tried
         * again. */
        void (*on_trouble)(void *owner, const struct error *error, int64_t retry_ms);
        void (*on_back)(void *owner);
};

/* The strings of the configuration are borrowed. */
struct filter_queue *filter_queue_create(uv_loop_t *loop, const struct postgres_config *config,
    const struct filter_queue_events *events, void *owner);
void filter_queue_destroy(struct filter_queue *queue); /* no filter is open; NULL is allowed */
void filter_queue_configure(struct filter_queue *queue, const struct postgres_config *config);

/* The database can be reached; `server`: see filter_query_open(). Connections are made when they
 * are first needed. */
void filter_queue_session_up(struct filter_queue *queue, const char *server);

/* No answer comes any more; asks that are under way are to be withdrawn. */
void filter_queue_session_down(struct filter_queue *queue);

/* A jsonpath predicate (courier.filter_error()); copied. on_given_up says why, and then every
 * request ends at once. It comes from the loop, before the on_answered of the requests, and may
 * close nothing. */
struct filter *filter_open(struct filter_queue *queue, const char *text,
    void (*on_given_up)(void *owner, const char *words), void *owner);
void filter_close(struct filter *filter); /* nothing is asked; NULL is allowed */
bool filter_is_given_up(const struct filter *filter);
bool filter_is_slow(const struct filter *filter); /* was, when it was asked last */

void filter_request_init(
    struct filter_request *ask, void (*on_answered)(struct filter_request *ask));

/* At least one event; the filter has not been given up. */
void filter_queue_ask(struct filter *filter, struct filter_request *ask);
bool filter_request_is_under_way(const struct filter_request *ask);

/* What is known stays known. */
void filter_queue_withdraw(struct filter_request *ask);
