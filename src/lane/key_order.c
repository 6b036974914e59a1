#include "lane/key_order.h"

#include "base/alloc.h"
#include "base/hash.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum { SHORT_KEY_BYTES = 64 };

static struct key_chain **bucket_of(const struct key_order *order, uint64_t hash)
{
        return &order->buckets[(hash ^ (hash >> 32)) & (order->n_buckets - 1)];
}

static void grow(struct key_order *order)
{
        struct key_chain **old = order->buckets;
        size_t n_old = order->n_buckets;

        order->n_buckets = n_old > 0 ? n_old * 2 : 8;
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

static struct key_chain *find_chain(const struct key_order *order, const char *key, uint64_t hash)
{
        if (order->n_buckets == 0)
                return NULL;
        for (struct key_chain *at = *bucket_of(order, hash); at != NULL; at = at->next_in_bucket)
                if (at->hash == hash && strcmp(at->key, key) == 0)
                        return at;
        return NULL;
}

/* Most keys come and go with each page, so their memory is kept. */
static struct key_chain *make_chain(struct key_order *order, const char *key, size_t key_bytes)
{
        struct key_chain *chain = order->spare;

        if (key_bytes > SHORT_KEY_BYTES) {
                chain = xcalloc(1, sizeof *chain + key_bytes);
        } else if (chain != NULL) {
                order->spare = chain->next_in_bucket;
                *chain = (struct key_chain){0};
        } else {
                chain = xcalloc(1, sizeof *chain + SHORT_KEY_BYTES);
        }
        chain->key_bytes = key_bytes;
        memcpy(chain->key, key, key_bytes);
        return chain;
}

static void discard_chain(struct key_order *order, struct key_chain *chain)
{
        if (chain->key_bytes > SHORT_KEY_BYTES) {
                free(chain);
                return;
        }
        chain->next_in_bucket = order->spare;
        order->spare = chain;
}

static struct key_chain *find_or_make_chain(struct key_order *order, const char *key)
{
        uint64_t hash = hash_text(key);
        struct key_chain *chain = find_chain(order, key, hash);

        if (chain != NULL)
                return chain;
        if (order->n_chains >= order->n_buckets)
                grow(order);
        chain = make_chain(order, key, strlen(key) + 1);
        chain->hash = hash;
        list_init(&chain->deliveries);
        list_init(&chain->fetch_link);
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
        list_remove(&chain->fetch_link);
        discard_chain(order, chain);
}

static struct delivery *first_of(const struct key_chain *chain)
{
        return list_owner(chain->deliveries.next, struct delivery, chain_link);
}

static bool is_parking(const struct delivery *delivery)
{
        return delivery->verdict != NULL && delivery->verdict->kind == VERDICT_PARK;
}

static bool is_dead(const struct delivery *delivery)
{
        return (delivery->verdict != NULL && delivery->verdict->kind == VERDICT_DEAD) ||
               (delivery->next_verdict != NULL && delivery->next_verdict->kind == VERDICT_DEAD);
}

/* Stored rows are next when no delivery in memory stands before them. */
static bool is_turn_of_stored(const struct key_chain *chain)
{
        if (chain->n_stored == 0 || chain->is_waiting)
                return false;
        return list_is_empty(&chain->deliveries) ||
               (first_of(chain)->state == DELIVERY_DECIDED && first_of(chain)->row == ROW_NONE);
}

/* Something has changed: the chain may be empty, or its stored rows next. */
static void review(struct key_order *order, struct key_chain *chain)
{
        if (chain->is_fetching)
                return;
        list_remove(&chain->fetch_link);
        if (list_is_empty(&chain->deliveries) && chain->n_stored == 0)
                remove_chain(order, chain);
        else if (is_turn_of_stored(chain))
                list_push_back(&order->to_fetch, &chain->fetch_link);
}

void key_order_init(struct key_order *order, bool sink_keeps_order)
{
        *order = (struct key_order){.sink_keeps_order = sink_keeps_order};
        list_init(&order->to_fetch);
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
        while (order->spare != NULL) {
                struct key_chain *chain = order->spare;
                order->spare = chain->next_in_bucket;
                free(chain);
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

bool key_order_has_joined_parked(const struct delivery *delivery)
{
        const struct key_chain *chain = delivery->chain;

        return chain != NULL && (chain->n_stored > 0 || chain->n_parking > 0);
}

/* Its row stands before the rows of its key that are not in memory. */
static bool is_before_stored(const struct delivery *delivery)
{
        return delivery->row == ROW_IN_LINE && !delivery->is_overtaken;
}

/* A row that was parked without order comes back when it is due by itself. Such a row may be in
 * flight when one that stands before it comes back; that one waits for it. */
static bool stays_ahead(const struct key_order *order, const struct delivery *delivery)
{
        return is_before_stored(delivery) ||
               (delivery->state == DELIVERY_IN_FLIGHT && !order->sink_keeps_order);
}

void key_order_rejoin(struct key_order *order, struct delivery *delivery)
{
        struct list *place;

        if (delivery->event->key == NULL)
                return;
        delivery->chain = find_or_make_chain(order, delivery->event->key);
        place = delivery->chain->deliveries.next;
        while (place != &delivery->chain->deliveries &&
               stays_ahead(order, list_owner(place, struct delivery, chain_link)))
                place = place->next;
        list_insert_before(place, &delivery->chain_link);
}

bool key_order_is_first(const struct delivery *delivery)
{
        return delivery->chain == NULL || first_of(delivery->chain) == delivery;
}

bool key_order_may_start(const struct key_order *order, const struct delivery *delivery)
{
        if (key_order_is_first(delivery))
                return true;
        return order->sink_keeps_order && delivery->chain->n_failed == 0 &&
               list_owner(delivery->chain_link.prev, struct delivery, chain_link)->state ==
                   DELIVERY_IN_FLIGHT;
}

bool key_order_is_behind_stored(const struct delivery *delivery)
{
        const struct key_chain *chain = delivery->chain;

        if (chain == NULL || chain->n_stored == 0)
                return false;
        return chain->is_waiting || !is_before_stored(delivery);
}

/* All before it are dead: they are written with it, or sooner. */
static bool is_first_alive(const struct delivery *delivery)
{
        const struct list *link = &delivery->chain_link;

        if (delivery->chain == NULL)
                return true;
        while (link->prev != &delivery->chain->deliveries &&
               is_dead(list_owner(link->prev, struct delivery, chain_link)))
                link = link->prev;
        return link->prev == &delivery->chain->deliveries;
}

bool key_order_is_parked_first(const struct delivery *delivery)
{
        return is_first_alive(delivery) && !key_order_is_behind_stored(delivery);
}

bool key_order_is_behind_parking(const struct delivery *delivery)
{
        if (delivery->chain == NULL || delivery->chain->n_parking == 0)
                return false;
        for (struct list *link = delivery->chain_link.prev; link != &delivery->chain->deliveries;
             link = link->prev)
                if (is_parking(list_owner(link, struct delivery, chain_link)))
                        return true;
        return false;
}

bool key_order_awaits_dead(const struct delivery *delivery)
{
        const struct delivery *before =
            list_owner(delivery->chain_link.prev, struct delivery, chain_link);

        return !key_order_is_first(delivery) && is_dead(before) && !before->verdict->is_sent &&
               !list_is_empty(&before->verdict->link);
}

bool key_order_is_dead_awaited(const struct delivery *delivery)
{
        return delivery->chain != NULL && is_dead(delivery) &&
               (delivery->chain_link.next != &delivery->chain->deliveries ||
                   delivery->chain->n_stored > 0);
}

void key_order_block(struct delivery *delivery)
{
        delivery->state = DELIVERY_BLOCKED;
        delivery->chain->n_blocked++;
}

void key_order_unblock(struct delivery *delivery)
{
        assert(delivery->state == DELIVERY_BLOCKED);
        delivery->chain->n_blocked--;
}

void key_order_note_failed(struct delivery *delivery)
{
        if (delivery->chain == NULL || delivery->has_failed)
                return;
        delivery->has_failed = true;
        delivery->chain->n_failed++;
}

void key_order_note_parking(struct delivery *delivery)
{
        if (delivery->chain != NULL)
                delivery->chain->n_parking++;
}

void key_order_note_kept(struct delivery *delivery)
{
        if (delivery->chain != NULL)
                delivery->chain->n_parking--;
}

/* From this place in the chain on. */
static void resume_blocked(
    struct key_order *order, struct key_chain *chain, struct list *link, struct ready_queue *ready)
{
        for (; chain->n_blocked > 0 && link != &chain->deliveries; link = link->next) {
                struct delivery *follower = list_owner(link, struct delivery, chain_link);
                if (!key_order_may_start(order, follower))
                        break;
                if (follower->state == DELIVERY_BLOCKED) {
                        chain->n_blocked--;
                        ready_queue_resume(ready, follower);
                }
        }
}

void key_order_note_started(
    struct key_order *order, const struct delivery *delivery, struct ready_queue *ready)
{
        if (delivery->chain != NULL && order->sink_keeps_order)
                resume_blocked(order, delivery->chain, delivery->chain_link.next, ready);
}

static struct key_chain *take_out(struct delivery *delivery)
{
        struct key_chain *chain = delivery->chain;

        assert(delivery->state != DELIVERY_BLOCKED);
        delivery->chain = NULL;
        list_remove(&delivery->chain_link);
        if (delivery->has_failed)
                chain->n_failed--;
        if (is_parking(delivery))
                chain->n_parking--;
        delivery->has_failed = false;
        delivery->is_overtaken = false;
        return chain;
}

void key_order_leave(struct key_order *order, struct delivery *delivery, struct ready_queue *ready)
{
        struct key_chain *chain;

        if (delivery->chain == NULL)
                return;
        chain = take_out(delivery);
        resume_blocked(order, chain, chain->deliveries.next, ready);
        review(order, chain);
}

void key_order_store(
    struct key_order *order, struct delivery *delivery, bool is_waiting, struct ready_queue *ready)
{
        struct key_chain *chain;

        if (delivery->chain == NULL)
                return;
        for (struct list *link = delivery->chain_link.next; link != &delivery->chain->deliveries;
             link = link->next)
                list_owner(link, struct delivery, chain_link)->is_overtaken = true;
        chain = take_out(delivery);
        chain->n_stored++;
        if (is_waiting)
                chain->is_waiting = true;
        resume_blocked(order, chain, chain->deliveries.next, ready);
        review(order, chain);
}

void key_order_note_stored(
    struct key_order *order, const char *key, uint64_t n_rows, bool is_waiting)
{
        struct key_chain *chain = find_or_make_chain(order, key);

        chain->n_stored += n_rows;
        chain->is_waiting = is_waiting;
        review(order, chain);
}

void key_order_note_due(struct key_order *order, const char *key)
{
        struct key_chain *chain = key != NULL ? find_chain(order, key, hash_text(key)) : NULL;

        if (chain == NULL)
                return;
        chain->is_waiting = false;
        review(order, chain);
}

void key_order_note_unstored(struct key_order *order, const char *key, bool was_waiting)
{
        struct key_chain *chain = key != NULL ? find_chain(order, key, hash_text(key)) : NULL;

        if (chain == NULL)
                return;
        if (chain->n_stored > 0)
                chain->n_stored--;
        if (was_waiting)
                chain->is_waiting = false;
        review(order, chain);
}

size_t key_order_take_fetches(struct key_order *order, const char **keys, size_t max_keys)
{
        size_t n_keys = 0;

        while (n_keys < max_keys && !list_is_empty(&order->to_fetch)) {
                struct key_chain *chain =
                    list_owner(order->to_fetch.next, struct key_chain, fetch_link);
                list_remove(&chain->fetch_link);
                chain->is_fetching = true;
                keys[n_keys++] = chain->key;
        }
        return n_keys;
}

void key_order_note_fetched(
    struct key_order *order, const char *key, size_t n_rows, bool is_certain)
{
        struct key_chain *chain = find_chain(order, key, hash_text(key));

        assert(chain != NULL && chain->is_fetching);
        chain->is_fetching = false;
        if (n_rows == 0 && is_certain)
                chain->n_stored = 0;
        review(order, chain);
}

bool key_order_has_fetches(const struct key_order *order)
{
        return !list_is_empty(&order->to_fetch);
}
