/*
 * The slots stand in one array that grows, and are linked by their numbers. A token is the number
 * of its slot and, above that, a number that counts up.
 */
#include "sinks/nats/nats_pending.h"

#include "base/alloc.h"

#include <assert.h>
#include <stdlib.h>

enum { FREE, WAITING, SENT, N_HEADS };
enum { FIRST_SLOTS = 64, SLOT_BITS = 24 };

static void unlink_slot(struct nats_pending *pending, unsigned slot)
{
        struct nats_slot *slots = pending->slots;

        slots[slots[slot].previous].next = slots[slot].next;
        slots[slots[slot].next].previous = slots[slot].previous;
}

static void push_back(struct nats_pending *pending, unsigned head, unsigned slot)
{
        struct nats_slot *slots = pending->slots;

        slots[slot].previous = slots[head].previous;
        slots[slot].next = head;
        slots[slots[head].previous].next = slot;
        slots[head].previous = slot;
}

static void grow(struct nats_pending *pending)
{
        unsigned n = pending->n_slots > 0 ? 2 * pending->n_slots : FIRST_SLOTS;

        assert(n <= 1U << SLOT_BITS); /* far beyond what a relay has in flight */
        pending->slots = xrealloc(pending->slots, n * sizeof *pending->slots);
        for (unsigned i = pending->n_slots; i < n; i++) {
                pending->slots[i] = (struct nats_slot){.previous = i, .next = i};
                if (i >= N_HEADS)
                        push_back(pending, FREE, i);
        }
        pending->n_slots = n;
}

void nats_pending_init(struct nats_pending *pending)
{
        *pending = (struct nats_pending){0};
        grow(pending);
}

void nats_pending_deinit(struct nats_pending *pending)
{
        assert(pending->n_waiting == 0 && pending->n_sent == 0);
        free(pending->slots);
        *pending = (struct nats_pending){0};
}

void nats_pending_add(struct nats_pending *pending, struct attempt *attempt)
{
        unsigned slot;

        if (pending->slots[FREE].next == FREE)
                grow(pending);
        slot = pending->slots[FREE].next;
        unlink_slot(pending, slot);
        pending->slots[slot].attempt = attempt;
        push_back(pending, WAITING, slot);
        pending->n_waiting++;
}

static unsigned first(const struct nats_pending *pending, unsigned head)
{
        unsigned slot = pending->slots[head].next;

        return slot != head ? slot : 0;
}

unsigned nats_pending_waiting(const struct nats_pending *pending)
{
        return first(pending, WAITING);
}

unsigned nats_pending_sent(const struct nats_pending *pending)
{
        return first(pending, SENT);
}

unsigned nats_pending_next(const struct nats_pending *pending, unsigned slot)
{
        unsigned next = pending->slots[slot].next;

        return next >= N_HEADS ? next : 0;
}

struct nats_slot *nats_pending_at(const struct nats_pending *pending, unsigned slot)
{
        assert(slot >= N_HEADS && slot < pending->n_slots);
        return &pending->slots[slot];
}

size_t nats_pending_name(struct nats_pending *pending, unsigned slot, char out[NATS_TOKEN_BYTES])
{
        static const char digits[] = "0123456789abcdef";
        uint64_t token = ++pending->n_tokens << SLOT_BITS | slot;
        char reversed[NATS_TOKEN_BYTES];
        size_t n = 0;

        pending->slots[slot].token = token;
        for (; token > 0; token >>= 4)
                reversed[n++] = digits[token & 15];
        for (size_t i = 0; i < n; i++)
                out[i] = reversed[n - 1 - i];
        return n;
}

void nats_pending_note_sent(
    struct nats_pending *pending, unsigned slot, uint64_t now_ms, uint64_t ping)
{
        unlink_slot(pending, slot);
        push_back(pending, SENT, slot);
        pending->slots[slot].is_sent = true;
        pending->slots[slot].sent_ms = now_ms;
        pending->slots[slot].ping = ping;
        pending->n_waiting--;
        pending->n_sent++;
}

unsigned nats_pending_find(const struct nats_pending *pending, const char *token, size_t length)
{
        uint64_t number = 0;
        uint64_t slot;

        if (length == 0 || length > NATS_TOKEN_BYTES)
                return 0;
        for (size_t i = 0; i < length; i++) {
                const char c = token[i];
                if (c >= '0' && c <= '9')
                        number = number << 4 | (uint64_t)(c - '0');
                else if (c >= 'a' && c <= 'f')
                        number = number << 4 | (uint64_t)(c - 'a' + 10);
                else
                        return 0;
        }
        slot = number & ((1U << SLOT_BITS) - 1);
        if (slot < N_HEADS || slot >= pending->n_slots || pending->slots[slot].token != number ||
            !pending->slots[slot].is_sent)
                return 0;
        return (unsigned)slot;
}

struct attempt *nats_pending_take(struct nats_pending *pending, unsigned slot)
{
        struct nats_slot *taken = &pending->slots[slot];
        struct attempt *attempt = taken->attempt;

        assert(attempt != NULL);
        unlink_slot(pending, slot);
        if (taken->is_sent)
                pending->n_sent--;
        else
                pending->n_waiting--;
        *taken = (struct nats_slot){0};
        /* In front: its memory is still at hand. */
        push_back(pending, pending->slots[FREE].next, slot);
        return attempt;
}
