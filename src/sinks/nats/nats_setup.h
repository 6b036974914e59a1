/*
 * What is asked of JetStream's API: whether the stream is there (and if not, and it is configured,
 * to make it), and what it is like, for a probe. Pure: which question comes next, and what an
 * answer means.
 *
 *   a connection   LOOK -there is none-> CREATE -> DONE
 *   a probe        NAME -> EXAMINE -> DONE
 */
#pragma once

#include "pgcourier/outcome.h"

#include <stdbool.h>
#include <stddef.h>

struct bytes;
struct nats_config;
struct nats_frame;
struct nats_subject;

enum nats_setup_step { SETUP_DONE, SETUP_LOOK, SETUP_CREATE, SETUP_NAME, SETUP_EXAMINE };

struct nats_setup {
        const struct nats_config *config;   /* borrowed */
        const struct nats_subject *subject; /* borrowed */
        enum nats_setup_step step;
        char stream[256];  /* the one of `stream`, or the one that NAME found */
        bool is_elsewhere; /* the one of `stream` does not take the subject */

        /* DONE: a SINK_DOWN, or DELIVERED; its reason as sink_probed_fn has it. */
        struct outcome outcome;
};

/* DONE at once if there is nothing to ask. */
void nats_setup_begin(struct nats_setup *setup);
void nats_setup_begin_probe(struct nats_setup *setup);

/* Not DONE: appends the API's subject and the JSON object to publish there. */
void nats_setup_ask(const struct nats_setup *setup, struct bytes *subject, struct bytes *body);

/* Goes on with the answer. */
void nats_setup_take(struct nats_setup *setup, const struct nats_frame *answer);

/* We may not ask: `words` are the server's. */
void nats_setup_refuse(struct nats_setup *setup, const char *words);
