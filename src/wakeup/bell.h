/*
 * Decides whether writers ring. Pure: no I/O, no clock of its own. The doorbell
 * is a lock in the database, K. A writer that gets K shared does not NOTIFY, and
 * holds K until its transaction has ended. A relay that holds K exclusively, or
 * waits for it, makes every writer ring that comes from then on.
 *
 *   OFF     no lane is ours: neither polls nor rings are wanted
 *   AWAKE   K is free, and writers do not ring: the relay polls all the time
 *   DROWSY  K is asked for: new transactions ring; those that did not ring hold K, and the relay
 *           polls for them at growing intervals
 *   ASLEEP  K is ours: every transaction since the last poll has rung
 *
 *   OFF -a lane is ours-> DROWSY -granted-> ASLEEP -rung often-> AWAKE -little news-> DROWSY
 *   DROWSY -rung often-> AWAKE        ASLEEP -connection lost-> DROWSY
 *   any of these -no lane is ours-> OFF
 *
 * Why no wake-up is lost: docs/architecture.md.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum bell_state { BELL_OFF, BELL_AWAKE, BELL_DROWSY, BELL_ASLEEP };

/* K, as far as is known. */
enum bell_lock { BELL_LOCK_UNREACHABLE, BELL_LOCK_FREE, BELL_LOCK_AWAITED, BELL_LOCK_HELD };

enum bell_wish { BELL_NOTHING, BELL_CHECK_CROWD, BELL_AWAIT, BELL_GIVE_UP };

struct bell {
        int64_t sweep_us;         /* longest pause between two polls while drowsy */
        int64_t poll_interval_us; /* the same while K cannot be asked for: no writer rings */

        enum bell_state state;
        enum bell_lock lock;

        bool is_poll_wanted;
        int64_t poll_due_us; /* or -1 */
        int64_t polling_since_us;
        int64_t news_since_us;   /* AWAKE: since when n_news is counted */
        uint64_t n_news;         /* events found since then */
        int64_t ours_us;         /* AWAKE: since when all events were for others */
        int64_t drowsy_since_us; /* since when new transactions ring, as far as is known */
        int64_t wait_ms;         /* how long the next wait for K may take */
        int64_t rings_since_us;  /* since when n_rings is counted */
        unsigned n_rings;        /* rings since then */
        int64_t rung_us;         /* the last ring */
        int64_t crowd_asked_us;
        bool is_crowd_wanted;
};

/* The longest wait for K. */
#define BELL_WAIT_MAX_MS 10000

void bell_init(struct bell *bell, int64_t sweep_ms, int64_t poll_interval_ms);

/* From the next poll on. */
void bell_configure(struct bell *bell, int64_t sweep_ms, int64_t poll_interval_ms);

/* Some lane is ours, or none. May be repeated. */
void bell_own(struct bell *bell, bool is_any, int64_t now_us);

/* A writer has rung. */
void bell_rung(struct bell *bell, int64_t now_us);

/* The connection that holds K. */
void bell_connected(struct bell *bell, int64_t now_us);
void bell_lost(struct bell *bell, int64_t now_us);

/* Answers BELL_CHECK_CROWD: do writers queue in order to notify? */
void bell_crowded(struct bell *bell, bool is_crowded, int64_t now_us);

/* The wait for K has ended: K is ours; or the time was up. */
void bell_granted(struct bell *bell, int64_t now_us);
void bell_refused(struct bell *bell, int64_t now_us);

/* Lanes poll, because a poll was wanted or by themselves; and all of them have been answered.
 * `n_news`: the most events that one of them found, those for others included; `n_ours`: the most
 * that are for its sink. */
void bell_polling(struct bell *bell, int64_t now_us);
void bell_polled(struct bell *bell, uint64_t n_news, uint64_t n_ours, int64_t now_us);

/* What to do about K; asking marks it as done. *out_wait_ms: how long to wait at most. */
enum bell_wish bell_next_wish(struct bell *bell, int64_t *out_wait_ms);

/* Every lane is to poll, as soon as it can; asking marks it as done. */
bool bell_wants_poll(struct bell *bell, int64_t now_us);

/* When to poll again although nothing has happened, or -1. */
int64_t bell_next_due(const struct bell *bell);

const char *bell_state_name(enum bell_state state);
