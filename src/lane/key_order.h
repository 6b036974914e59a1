/*
 * Keeps the deliveries of one key in order. Pure.
 *
 * A key's chain holds those in memory, in the order in which they are to be
 * delivered, and counts those that are parked and not in memory:
 *
 *   [read back from where they were parked][from the stream][being parked]
 *                          ^ behind the first part: n_stored rows in the database
 *
 * Normally a key has one delivery in flight. Towards a sink that keeps order
 * by itself any number may be in flight, started in this order, until one of
 * them fails: from then on only the key's first may go, until all that failed
 * are through.
 *
 * One that is given up keeps its place until its dead letter is written: until
 * then whoever owns the lane next could still deliver it. So those behind it
 * wait for that, and for nothing more.
 *
 * A key is parked while rows of it are stored or being stored: whatever comes
 * then of that key has to be parked behind them.
 */
#pragma once

#include "base/list.h"
#include "lane/delivery.h"
#include "lane/ready_queue.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct key_order {
        bool sink_keeps_order;
        struct key_chain **buckets; /* owned; n_buckets of them, a power of two */
        size_t n_buckets;
        size_t n_chains;
        struct key_chain
            *spare; /* owned; those of short keys that are not in use, by next_in_bucket */
        struct list to_fetch; /* key_chain::fetch_link: stored rows whose turn it is */
};

struct key_chain {
        struct key_chain *next_in_bucket;
        struct list fetch_link; /* key_order::to_fetch */
        uint64_t hash;
        size_t key_bytes;       /* with its end */
        struct list deliveries; /* delivery::chain_link, in delivery order */
        size_t n_failed;        /* of them, those that have failed */
        size_t n_blocked;       /* of them, those that wait for their turn */
        size_t n_parking;       /* of them, those with a verdict to park them */
        uint64_t n_stored;      /* parked and not in memory */
        bool is_waiting;        /* the first of those comes back when it is due */
        bool is_fetching;       /* asked for */
        char key[];
};

void key_order_init(struct key_order *order, bool sink_keeps_order);
void key_order_deinit(struct key_order *order);

/* Behind all others of its key. Without a key: nothing happens. */
void key_order_join(struct key_order *order, struct delivery *delivery);

/* Whatever comes of its key has to be parked, and so has this one. */
bool key_order_has_joined_parked(const struct delivery *delivery);

/* It was stored: behind those that were read back before it, ahead of all others. Those may be read
 * back too, but have been under way since before it was stored. */
void key_order_rejoin(struct key_order *order, struct delivery *delivery);

bool key_order_may_start(const struct key_order *order, const struct delivery *delivery);

/* The first of its key (true without a key). */
bool key_order_is_first(const struct delivery *delivery);

/* Of those of its key that are parked or being parked, this is the one to be tried first. */
bool key_order_is_parked_first(const struct delivery *delivery);

/* One before it, of its key, is being parked. */
bool key_order_is_behind_parking(const struct delivery *delivery);

/* A row that is not in memory comes before it: any, if it came with the stream or has no place in
 * line yet; else only one that was stored while this one was under way. */
bool key_order_is_behind_stored(const struct delivery *delivery);

/* The one before it, of its key, is dead, and that may be written now; or it is itself dead, and
 * something of its key waits for it. */
bool key_order_awaits_dead(const struct delivery *delivery);
bool key_order_is_dead_awaited(const struct delivery *delivery);

/* It is not first, and waits until it is called out. */
void key_order_block(struct delivery *delivery);
void key_order_unblock(struct delivery *delivery);

/* It was tried and is not delivered. */
void key_order_note_failed(struct delivery *delivery);

/* It got a verdict to park it, and loses it by leaving or by key_order_note_kept(): it was stored and
 * is still under way, or has got another verdict. */
void key_order_note_parking(struct delivery *delivery);
void key_order_note_kept(struct delivery *delivery);

/* It leaves: delivered, stored, or a dead letter that is written. The blocked deliveries of its key
 * that may start now are resumed, in order. */
void key_order_leave(struct key_order *order, struct delivery *delivery, struct ready_queue *ready);

/* It is in flight now. Blocked deliveries behind it may be resumed. */
void key_order_note_started(
    struct key_order *order, const struct delivery *delivery, struct ready_queue *ready);

/* It leaves and is a row of the database, which is the first of its key and comes back when it is
 * due, or is not. */
void key_order_store(
    struct key_order *order, struct delivery *delivery, bool is_waiting, struct ready_queue *ready);

/* Rows that were there before the lane was ours. */
void key_order_note_stored(
    struct key_order *order, const char *key, uint64_t n_rows, bool is_waiting);

/* Without order: the waiting row is in memory now. */
void key_order_note_due(struct key_order *order, const char *key);

/* A row of the key is in memory now, or is gone. */
void key_order_note_unstored(struct key_order *order, const char *key, bool was_waiting);

/* The next keys whose stored rows are to be read back; they stay valid until
 * key_order_note_fetched(), which is to follow. */
size_t key_order_take_fetches(struct key_order *order, const char **keys, size_t max_keys);

/* The answer: so many rows of the key. Without any, although nothing else could be in their way,
 * there are none: somebody has removed them. */
void key_order_note_fetched(
    struct key_order *order, const char *key, size_t n_rows, bool is_certain);

bool key_order_has_fetches(const struct key_order *order);
