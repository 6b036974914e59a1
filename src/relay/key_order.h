/*
 * Keeps the deliveries of one key in order. Pure.
 *
 * Normally a key has one delivery in flight. Towards a sink that keeps order
 * by itself any number may be in flight, until one of them fails: from then on
 * only the key's first may go, until all that failed are delivered.
 */
#pragma once

#include "base/list.h"
#include "relay/delivery.h"

#include <stdbool.h>
#include <stddef.h>

struct key_order {
        bool sink_keeps_order;
        struct key_chain **buckets; /* owned; n_buckets of them, a power of two */
        size_t n_buckets;
        size_t n_chains;
};

void key_order_init(struct key_order *order, bool sink_keeps_order);
void key_order_deinit(struct key_order *order);

/* Deliveries join in the order in which they are to be delivered. Without a key: nothing happens. */
void key_order_join(struct key_order *order, struct delivery *delivery);

bool key_order_may_start(const struct key_order *order, const struct delivery *delivery);

/* The first of its key (true without a key). */
bool key_order_is_first(const struct delivery *delivery);

/* It is not first, and waits until it is called out by key_order_leave(). */
void key_order_block(struct delivery *delivery);

/* It was tried and is not delivered. */
void key_order_note_failed(struct delivery *delivery);

/* It is delivered and leaves. Those of its key that are blocked and may start now are called out,
 * in order; whoever is called gives them another state. */
typedef void key_order_released_fn(void *owner, struct delivery *delivery);
void key_order_leave(struct key_order *order, struct delivery *delivery,
    key_order_released_fn *on_released, void *owner);
