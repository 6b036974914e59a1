/*
 * Keeps the deliveries of one key in order. Pure.
 *
 * A key's chain holds its deliveries in memory, in the order in which they are
 * to be delivered, and counts the rows that are not in memory:
 *
 *   [read back from courier.parked][from the stream][being parked]
 *                                  ^ here: n_stored rows that are not in memory
 *
 * Normally a key has one delivery in flight. To a sink that keeps order by
 * itself any number may be in flight, started in this order, until one of them
 * fails. From then on only the first of the key may start, until all that
 * failed are through.
 *
 * A delivery that is given up keeps its place until its dead letter is written:
 * before that the next owner of the lane could still deliver it. Those behind
 * it wait for that, and for nothing more.
 *
 * A key is parked while rows of it are stored or being stored. Each delivery of
 * the key that comes then has to be parked behind them.
 */
#pragma once

#include "base/list.h"
#include "lane/delivery.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct key_order {
        bool sink_keeps_order;
        struct key_chain **buckets; /* owned; n_buckets of them, a power of two */
        size_t n_buckets;
        size_t n_chains;
        /* Owned; chains of short keys that are not in use, by next_in_bucket. */
        struct key_chain *spare;
        struct list to_fetch; /* key_chain::fetch_link: keys whose stored rows are next */
};

struct key_chain {
        struct key_chain *next_in_bucket;
        struct list fetch_link; /* key_order::to_fetch */
        uint64_t hash;
        size_t key_bytes;       /* with the terminating NUL */
        struct list deliveries; /* delivery::chain_link, in delivery order */
        size_t n_failed;        /* of them, those that have failed */
        size_t n_blocked;       /* of them, those that are blocked */
        size_t n_parking;       /* of them, those with a verdict to park them */
        uint64_t n_stored;      /* rows that are not in memory */
        bool is_waiting;        /* the first of those comes back when it is due */
        bool is_fetching;       /* they are asked for */
        char key[];
};

void key_order_init(struct key_order *order, bool sink_keeps_order);
void key_order_deinit(struct key_order *order);

/* Behind all others of its key. Without a key: nothing happens. */
void key_order_join(struct key_order *order, struct delivery *delivery);

/* Its key is parked, so it has to be parked too. */
bool key_order_has_joined_parked(const struct delivery *delivery);

/* The same for a row that was read back. Its place is behind rows that were read back before it,
 * and before all other deliveries: those from the stream, and rows that stood behind it when it was
 * stored and have been in memory since. But one delivery of the key that is in flight stays first,
 * unless the sink keeps order by itself. */
void key_order_rejoin(struct key_order *order, struct delivery *delivery);

bool key_order_may_start(const struct key_order *order, const struct delivery *delivery);

/* The first of its key (true without a key). */
bool key_order_is_first(const struct delivery *delivery);

/* Of the deliveries and rows of its key it is the one to be tried first. Those that are dead do not
 * count. */
bool key_order_is_parked_first(const struct delivery *delivery);

/* A delivery before it, of its key, is being parked. */
bool key_order_is_behind_parking(const struct delivery *delivery);

/* A row of its key that is not in memory comes before it. For a delivery that has no place in line
 * in courier.parked that is any row, else only one that was stored while it was in memory. */
bool key_order_is_behind_stored(const struct delivery *delivery);

/* The delivery before it, of its key, is dead, and that may be written now. */
bool key_order_awaits_dead(const struct delivery *delivery);

/* It is dead, and a delivery or row of its key waits for that. */
bool key_order_is_dead_awaited(const struct delivery *delivery);

/* It is not the first of its key, and waits until it is resumed, or unblocked by the caller. */
void key_order_block(struct delivery *delivery);
void key_order_unblock(struct delivery *delivery);

/* An attempt ended, and it is not delivered. */
void key_order_note_failed(struct delivery *delivery);

/* It got a verdict to park it. That ends when it leaves, or with key_order_note_kept(): it is
 * stored and still under way, or has got another verdict. */
void key_order_note_parking(struct delivery *delivery);
void key_order_note_kept(struct delivery *delivery);

/* It leaves: delivered, stored, or a dead letter that is written. The blocked deliveries of its key
 * that may start now are resumed, in order. */
void key_order_leave(struct key_order *order, struct delivery *delivery, struct ready_queue *ready);

/* It is in flight now. Blocked deliveries behind it may be resumed. */
void key_order_note_started(
    struct key_order *order, const struct delivery *delivery, struct ready_queue *ready);

/* It leaves and is a row of the database. `is_waiting`: the row is the first of its key, and comes
 * back when it is due. */
void key_order_store(
    struct key_order *order, struct delivery *delivery, bool is_waiting, struct ready_queue *ready);

/* Rows that were there before the lane was owned. */
void key_order_note_stored(
    struct key_order *order, const char *key, uint64_t n_rows, bool is_waiting);

/* Without order: the waiting row is in memory now. */
void key_order_note_due(struct key_order *order, const char *key);

/* A row of the key is in memory now. */
void key_order_note_unstored(struct key_order *order, const char *key, bool was_waiting);

/* The next keys whose stored rows are to be read back; they stay valid until
 * key_order_note_fetched(), which is to follow. */
size_t key_order_take_fetches(struct key_order *order, const char **keys, size_t max_keys);

/* The answer had so many rows of the key. With `is_certain` none of them was left out, so if there
 * is none, an operator has removed them. */
void key_order_note_fetched(
    struct key_order *order, const char *key, size_t n_rows, bool is_certain);

bool key_order_has_fetches(const struct key_order *order);
