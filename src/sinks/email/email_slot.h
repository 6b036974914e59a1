/*
 * One attempt at a time to deliver one mail, on a thread of libuv's pool: the
 * mail is composed there, and sent. What a slot points at belongs to the worker
 * while it runs, but for the one atomic flag that hurries it. All decisions are
 * made in between, on the loop's thread: whether the recipients' domains may be
 * sent to now, by which relay the mail goes, and what the answer means.
 *
 *   FREE -send-> COMPOSING -composed-> SENDING -answered-> FREE
 *   COMPOSING -no mail, or not its turn-> FREE;  SENDING -relay failed-> SENDING, by the next one
 *   FREE -probe-> PROBING -> FREE
 */
#pragma once

#include "pgcourier/sink.h"
#include "sinks/email/email_domains.h"
#include "sinks/email/email_mailer.h"
#include "sinks/email/email_message.h"
#include "sinks/email/email_server.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

/* What the slots of one sink share. */
struct email_post {
        uv_loop_t *loop;
        const struct email_config *config; /* borrowed */
        struct email_sender sender;
        struct email_servers servers;
        struct email_relays relays;
        struct email_domains *domains; /* owned */
};

enum email_slot_state { EMAIL_SLOT_FREE, EMAIL_COMPOSING, EMAIL_SENDING, EMAIL_PROBING };

struct email_slot {
        enum email_slot_state state;
        uv_work_t work;
        struct email_post *post;     /* borrowed */
        struct email_mailer *mailer; /* owned */
        atomic_bool is_hurried;
        struct outcome outcome;

        /* Of the attempt. */
        struct attempt *attempt; /* lent by the relay */
        bool has_message;
        struct email_message message;
        struct email_domain_set domains; /* of the message's recipients */
        struct email_tour tour;
        unsigned relay; /* the one it is being sent by */
        uint64_t began_ms;
        bool down_needs_operator; /* all of those that did not take it */
        struct outcome down;      /* what they said */

        /* Of the probe. */
        sink_probed_fn *on_probed;
        void *owner;
};

/* Checks the configuration; on failure *error names the key, and there is nothing to deinit. */
bool email_post_init(struct email_post *post, uv_loop_t *loop, const struct email_config *config,
    struct error *error);
void email_post_deinit(struct email_post *post);

/* False if libcurl has no memory or is not initialised. */
bool email_slot_init(struct email_slot *slot, struct email_post *post);
/* Of a free slot, or of one full of zeros. Blocks for a moment: belongs on a worker's thread. */
void email_slot_deinit(struct email_slot *slot);

/* Of a free slot. The attempt is finished in a later turn of the loop. */
void email_slot_send(struct email_slot *slot, struct attempt *attempt);

/* Hurries an attempt under way; anything else is left alone. */
void email_slot_cancel(struct email_slot *slot);

/* Of a free slot: DELIVERED if each relay would take mail. */
void email_slot_probe(struct email_slot *slot, sink_probed_fn *on_probed, void *owner);
