/*
 * What this relay does next about shards: which to claim, which to give up. Pure:
 * no I/O and no clock. The caller shows it each view, asks what to do until there
 * is nothing, and says how each ended. Ask after each view and each answer.
 *
 *   ELSEWHERE -claim-> CLAIMING -granted-> OURS -give-> GIVING -unlocked-> GIVEN -taken-> ELSEWHERE
 *   CLAIMING -refused-> ELSEWHERE      GIVEN -claim-> CLAIMING      any -session lost-> ELSEWHERE
 *
 * A shard is claimed as soon as nobody has it, by the member that should own it
 * among all that are in the view (placement.h). If this one does not take it, the
 * nearest of the others does, after TURNS_LATE_MS; if that one neither, the next,
 * after as much again.
 *
 * A shard is given to another member only if that is no hurry of the moment:
 *   - the taker was seen for TURNS_READY_MS, and longer the more often it has left of late
 *   - for as long, no member that others count on has come, gone or changed
 *   - it is the right owner with and without the members that are not ready
 *   - the taker took the last shard that it should take; if not, it is tried again later, with one
 * A member that drains gives to any that was seen for TURNS_READY_MS, without further ado. Few
 * shards are under way at a time.
 *
 * The relay that ends does not ask any more once it has given what it could.
 */
#pragma once

#include "members/view.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TURNS_READY_MS       1000
#define TURNS_READY_MAX_MS   32000  /* doubled each time it has left … */
#define TURNS_LEFT_MS        300000 /* … within this time */
#define TURNS_LATE_MS        2000
#define TURNS_LATE_PAUSE_MS  10000  /* before a member that was late is tried again, doubled … */
#define TURNS_LATE_MAX_MS    160000 /* … up to this */
#define TURNS_GIVES          4      /* at a time; or, if that is more, … */
#define TURNS_GIVES_PART     8      /* … this part of ours */
#define TURNS_MAX_DEPARTURES 256

enum turn_kind { TURN_NOTHING, TURN_CLAIM, TURN_GIVE };

/* The names are borrowed until the next view. */
struct turn {
        enum turn_kind kind;
        const char *sink;
        uint32_t number; /* of the shard, within its sink */
        const char *to;  /* GIVE: who is to take it */
};

struct turns;

/* `name` is that of this relay's member. */
struct turns *turns_create(const char *name);
void turns_destroy(struct turns *turns);

/* A view, read in the present session. A shard that it does not list any more is forgotten. */
void turns_see(struct turns *turns, const struct view *view, int64_t now_ms);

/* The session is lost, and with it every shard and what was under way. */
void turns_lose(struct turns *turns);

/* What to do next; asking marks it as under way. */
enum turn_kind turns_next(struct turns *turns, int64_t now_ms, struct turn *out_turn);

/* Answers TURN_CLAIM. Nothing, if it was not asked for: a shard that is ours was given back and
 * taken again within this relay. */
void turns_claimed(struct turns *turns, const char *sink, uint32_t number, bool is_granted);

/* Answers TURN_GIVE: it is drained, settled and unlocked. */
void turns_given(struct turns *turns, const char *sink, uint32_t number);

/* It is not ours, or not any more, for another reason: a claim that was not made, a sink that is
 * gone. Answers what was asked of it. */
void turns_lost(struct turns *turns, const char *sink, uint32_t number);

/* It is ours, and is to stay so. */
bool turns_is_ours(const struct turns *turns, const char *sink, uint32_t number);

/* Nothing is being given, and no other member could take what is left. */
bool turns_has_left(const struct turns *turns);

/* How many shards are ours, those being given included. */
size_t turns_owned(const struct turns *turns);
