/*
 * The portal: pages for the owners of receivers, on a listener of its own, which
 * may be reached from the internet through a proxy that speaks TLS. Who has a
 * link sees one receiver (docs/portal.md).
 *
 * It decides nothing about whose receiver that is: it hands the hash of the
 * token to the database with each question, and the statement finds link and
 * receiver by it.
 */
#pragma once

#include "admin/portal/portal_access.h"
#include "base/error.h"
#include "config/config.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

struct portal;

enum portal_question {
        PORTAL_RECEIVER, /* how it is */
        PORTAL_EVENTS,   /* below this event, or NULL */
        PORTAL_OPEN,     /* events that are not done, or given up */
        PORTAL_ATTEMPTS, /* three numbers that "next" was, or NULL; "true": failed ones */
        PORTAL_EVENT,    /* its number or id */
        PORTAL_LOOK,     /* nothing but whose link it is */
        /* Of these nothing is done unless the link can manage. */
        PORTAL_RESEND, /* the event's number */
        PORTAL_PAUSE,
        PORTAL_RESUME,
        PORTAL_URL, /* the new one */
        PORTAL_SECRET,
};
enum { PORTAL_PARAMETERS = 4 };

struct portal_answer {
        int64_t link; /* 0: there is no such link, or it has expired */
        bool can_manage;
        const char *receiver; /* its name, and that of its sink; all is borrowed */
        const char *sink;
        json_t *document; /* NULL: there is no such thing. {"refused": words}: nothing was done */
};

/* Exactly one of the two is not NULL. */
typedef void portal_done_fn(
    void *context, const struct portal_answer *answer, const struct error *error);

/* What is asked of the database, without waiting. on_done comes once for each call, perhaps inside
 * it; texts are borrowed until the call returns. */
typedef void portal_ask_fn(void *owner, enum portal_question question,
    const struct portal_hash *hash, const char *const parameters[PORTAL_PARAMETERS],
    portal_done_fn *on_done, void *context);

/* What the relay knows of the sink that delivers to the receiver. */
struct portal_sink {
        const char *signing;  /* standard, github, stripe or none */
        const char *attempts; /* which are kept: failures, all or none */
        bool is_gzip;         /* what is signed is compressed */
};

struct portal_options {
        const struct portal_config *config; /* borrowed */
        portal_ask_fn *ask;
        void *owner; /* of ask */
        /* False: the relay has no such sink. */
        bool (*tell_sink)(void *relay, const char *sink, struct portal_sink *out_sink);
        /* False, with words for its owner: the sink would not deliver to that URL. */
        bool (*permits_url)(
            void *relay, const char *sink, const char *url, char *words, size_t size);
        void *relay;
};

/* NULL and *error if it cannot listen. */
struct portal *portal_create(
    uv_loop_t *loop, const struct portal_options *options, struct error *error);

/* Another configuration is in force, with the same `listen`. */
void portal_take_config(struct portal *portal, const struct portal_config *config);

/* Nothing may be under way: what answers `ask` has ended first. NULL is allowed. */
void portal_destroy(struct portal *portal);
