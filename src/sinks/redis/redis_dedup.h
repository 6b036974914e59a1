/*
 * What makes a sink deliver exactly once while nothing but pgcourier fails:
 * beside the stream, Redis keeps a ledger of the events that are delivered and
 * not yet durably settled in PostgreSQL.
 *
 *   {<stream>}:delivered:<sink>   the ledger: a set of "<outbox id>:<event id>"
 *   {<stream>}:owner:<sink>       "<epoch>:<token>" of the connection that may write
 *
 * A new connection claims the stream: it writes its own token, which shuts out
 * what older connections still have on the way, and reads the ledger. An event
 * in the ledger is answered without being sent. (But a redriven or replayed event
 * is always sent: its entry may be that of its first delivery, left behind by a
 * relay that was killed before it removed it.) Each burst is one script, executed
 * as a whole or not at all: it checks that the token is still ours, appends the
 * events, enters each that was taken, and removes the entries of events that have
 * been settled meanwhile.
 *
 * Why a script and not MULTI and EXEC: a command that fails inside EXEC does not
 * stop the next one, so an event that the stream refused would be entered as
 * delivered all the same, and be lost if the relay died just then.
 *
 * Why an epoch: PostgreSQL gives each owner of a lane a higher one. A relay that
 * was suspended, and does not know yet that it lost the lane, cannot claim the
 * stream back from its successor.
 *
 * Encodes and decodes; does no I/O.
 */
#pragma once

#include <hiredis/hiredis.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct bytes;
struct event;
struct redis_command;
struct redis_dedup;
struct redis_ring;

enum { REDIS_DEDUP_MAX_WORDS = 7000 /* of one event: Lua's stack takes a few more */ };

struct redis_dedup *redis_dedup_create(const char *stream, const char *sink);
void redis_dedup_destroy(struct redis_dedup *dedup); /* NULL is allowed */

/* The lane was taken, with this epoch: nothing of what was known holds any more. */
void redis_dedup_own(struct redis_dedup *dedup, uint64_t epoch);
bool redis_dedup_is_owned(const struct redis_dedup *dedup);

/* Appends the command that claims the stream for a new connection, and forgets the ledger: the
 * answer brings it. */
void redis_dedup_encode_claim(struct redis_dedup *dedup, struct bytes *out);

/* Takes the answer to a claim, unless that is an error. False if a later owner of the lane has
 * claimed the stream: `refusal` says so, and what to do if there is none. */
bool redis_dedup_take_claim(
    struct redis_dedup *dedup, const redisReply *reply, char *refusal, size_t size);

bool redis_dedup_has(const struct redis_dedup *dedup, const struct event *event);

/* The entries of these events are to go. Ids without an entry are ignored. */
void redis_dedup_settle(struct redis_dedup *dedup, const int64_t *event_ids, size_t n_events);
bool redis_dedup_has_settled(const struct redis_dedup *dedup); /* some are still to go */

/* Appends the command that delivers the first `n` requests of the ring, which may be none, and
 * removes entries that are to go. The answer is an array with the answer to each XADD, up to the
 * first error; or nil: the token is not ours, and nothing was done. */
void redis_dedup_encode_burst(struct redis_dedup *dedup, const struct redis_ring *ring, size_t n,
    struct redis_command *command, struct bytes *out);

/* The last burst was executed: its removals are done. */
void redis_dedup_note_executed(struct redis_dedup *dedup);

/* And this event of it was taken. */
void redis_dedup_note_delivered(struct redis_dedup *dedup, const struct event *event);
