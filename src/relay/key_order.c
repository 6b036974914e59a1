#include "relay/key_order.h"

#include "base/alloc.h"

#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* The undelivered deliveries of one key. */
struct key_chain {
        struct key_chain *next_in_bucket;
        uint64_t hash;
        const char *key;        /* borrowed from the first delivery's event */
        struct list deliveries; /* delivery::chain_link, in delivery order */
        size_t n_failed;        /* of them, those that have failed */
        size_t n_blocked;       /* of them, those that wait for their turn */
};

/* FNV-1a, 64 bit (Fowler, Noll, Vo): short keys, no adversary worth a slower hash: whoever chooses
 * keys may already write the outbox. */
static uint64_t hash_key(const char *key)
{
        uint64_t hash = 0xcbf29ce484222325u;

        for (const unsigned char *at = (const unsigned char *)key; *at != '\0'; at++)
                hash = (hash ^ *at) * 0x100000001b3u;
        return hash;
}

static struct key_chain **bucket_of(const struct key_order *order, uint64_t hash)
{
        return &order->buckets[(hash ^ (hash >> 32)) & (order->n_buckets - 1)];
}

static void grow(struct key_order *order)
{
        struct key_chain **old = order->buckets;
        size_t n_old = order->n_buckets;

        order->n_buckets = n_old > 0 ? n_old * 2 : 64;
        order->buckets = xcalloc(order->n_buckets, sizeof *order->buckets);
        for (size_t i = 0; i < n_old; i++) {
                for (struct key_chain *chain = old[i], *next; chain != NULL; chain = next) {
                        struct key_chain **bucket = bucket_of(order, chain->hash);
                        next = chain->next_in_bucket;
                        chain->next_in_bucket = *bucket;
                        *bucket = chain;
                }
        }
        free(old);
}

static struct key_chain *find_or_make_chain(struct key_order *order, const char *key)
{
        uint64_t hash = hash_key(key);
        struct key_chain *chain;

        if (order->n_chains >= order->n_buckets)
                grow(order);
        for (chain = *bucket_of(order, hash); chain != NULL; chain = chain->next_in_bucket)
                if (chain->hash == hash && strcmp(chain->key, key) == 0)
                        return chain;

        chain = xcalloc(1, sizeof *chain);
        chain->hash = hash;
        chain->key = key;
        list_init(&chain->deliveries);
        chain->next_in_bucket = *bucket_of(order, hash);
        *bucket_of(order, hash) = chain;
        order->n_chains++;
        return chain;
}

static void remove_chain(struct key_order *order, struct key_chain *chain)
{
        struct key_chain **link = bucket_of(order, chain->hash);

        while (*link != chain)
                link = &(*link)->next_in_bucket;
        *link = chain->next_in_bucket;
        order->n_chains--;
        free(chain);
}

static struct delivery *first_of(const struct key_chain *chain)
{
        return list_owner(chain->deliveries.next, struct delivery, chain_link);
}

void key_order_init(struct key_order *order, bool sink_keeps_order)
{
        *order = (struct key_order){.sink_keeps_order = sink_keeps_order};
}

void key_order_deinit(struct key_order *order)
{
        for (size_t i = 0; i < order->n_buckets; i++) {
                for (struct key_chain *chain = order->buckets[i], *next; chain != NULL;
                     chain = next) {
                        next = chain->next_in_bucket;
                        free(chain);
                }
        }
        free(order->buckets);
        key_order_init(order, order->sink_keeps_order);
}

void key_order_join(struct key_order *order, struct delivery *delivery)
{
        if (delivery->event->key == NULL)
                return;
        delivery->chain = find_or_make_chain(order, delivery->event->key);
        list_push_back(&delivery->chain->deliveries, &delivery->chain_link);
}

bool key_order_is_first(const struct delivery *delivery)
{
        return delivery->chain == NULL || first_of(delivery->chain) == delivery;
}

bool key_order_may_start(const struct key_order *order, const struct delivery *delivery)
{
        return key_order_is_first(delivery) ||
               (order->sink_keeps_order && delivery->chain->n_failed == 0);
}

void key_order_block(struct delivery *delivery)
{
        delivery->state = DELIVERY_BLOCKED;
        delivery->chain->n_blocked++;
}

void key_order_note_failed(struct delivery *delivery)
{
        if (delivery->chain == NULL || delivery->has_failed)
                return;
        delivery->has_failed = true;
        delivery->chain->n_failed++;
}

void key_order_leave(struct key_order *order, struct delivery *delivery,
    key_order_released_fn *on_released, void *owner)
{
        struct key_chain *chain = delivery->chain;

        if (chain == NULL)
                return;
        delivery->chain = NULL;
        list_remove(&delivery->chain_link);
        if (delivery->has_failed)
                chain->n_failed--;
        if (list_is_empty(&chain->deliveries)) {
                remove_chain(order, chain);
                return;
        }
        chain->key = first_of(chain)->event->key; /* the old one may go with its page */
        for (struct list *link = chain->deliveries.next;
             chain->n_blocked > 0 && link != &chain->deliveries; link = link->next) {
                struct delivery *follower = list_owner(link, struct delivery, chain_link);
                if (!key_order_may_start(order, follower))
                        break;
                if (follower->state == DELIVERY_BLOCKED) {
                        chain->n_blocked--;
                        on_released(owner, follower);
                }
        }
}
