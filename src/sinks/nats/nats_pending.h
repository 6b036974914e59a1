/*
 * The attempts that a sink holds: those that wait to be sent, and those that are sent and await
 * their acknowledgement, both in order. Pure.
 *
 * The acknowledgement comes to a subject that ends in the attempt's token. A token is used once: an
 * answer to an attempt that is over already finds nothing, and never another event.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct attempt;

enum { NATS_TOKEN_BYTES = 16 };

struct nats_slot {
        struct attempt *attempt;
        bool is_sent;
        uint64_t token;
        uint64_t sent_ms;
        uint64_t ping; /* the number of the PING behind it */
        unsigned previous, next;
};

struct nats_pending {
        struct nats_slot *slots; /* owned; the first ones are the heads of the lists */
        unsigned n_slots;
        unsigned n_waiting;
        unsigned n_sent;
        uint64_t n_tokens;
};

void nats_pending_init(struct nats_pending *pending);
void nats_pending_deinit(struct nats_pending *pending); /* it is empty */

void nats_pending_add(struct nats_pending *pending, struct attempt *attempt);

/* The oldest that waits, or that was sent; 0: none. Valid until the next one is added. */
unsigned nats_pending_waiting(const struct nats_pending *pending);
unsigned nats_pending_sent(const struct nats_pending *pending);

/* The one that was sent next after this one; 0: none. */
unsigned nats_pending_next(const struct nats_pending *pending, unsigned slot);

struct nats_slot *nats_pending_at(const struct nats_pending *pending, unsigned slot);

/* One that waits gets a token, whose text is written to `out`; returns how long that is. */
size_t nats_pending_name(struct nats_pending *pending, unsigned slot, char out[NATS_TOKEN_BYTES]);

/* It was sent now. */
void nats_pending_note_sent(
    struct nats_pending *pending, unsigned slot, uint64_t now_ms, uint64_t ping);

/* Whose token it is, of those that were sent; 0: nobody's. */
unsigned nats_pending_find(const struct nats_pending *pending, const char *token, size_t length);

/* It is over. */
struct attempt *nats_pending_take(struct nats_pending *pending, unsigned slot);
