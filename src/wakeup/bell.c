#include "wakeup/bell.h"

#include <assert.h>

/* The pause between two polls while awake, and so about what an event waits then. */
#define POLL_US 2000

/* After a poll that finds nothing, pause at least four times as long as it took, so that such polls
 * take no more than a fifth of the session's time. After a poll that finds a few events, poll again
 * sooner, so that the events of a stream do not wait for each other. Where many come, a poll costs
 * each of them the less the more it finds. */
#define PAUSE_PER_POLL 4
#define NEWS_POLL_US   1000
#define MANY_NEWS      4

/* While all events are for others, a poll only costs the writers. The pause grows with the time
 * since the last event of ours: by that the next one comes late by some hundredths of the time
 * between them. */
#define OTHERS_PER_PAUSE   10
#define OTHERS_POLL_MAX_US 10000

/* Wake up after 8 rings within 20 ms (400/s). Below that, a NOTIFY per transaction is cheap and
 * gives the lowest latency. */
#define OFTEN     8
#define MOMENT_US 20000

/* With slow commits NOTIFY serialises the writers, so few rings arrive. If a ring follows another
 * within CROWD_RING_US, check pg_locks for writers that queue, but only once in CROWD_PAUSE_US. */
#define CROWD_RING_US  500000
#define CROWD_PAUSE_US 100000

/* Fall asleep if fewer than 15 events came in 100 ms. Commits come in groups, so the time is not
 * shorter. */
#define LITTLE   15
#define WHILE_US 100000

/* While the relay waits for K, which a long transaction may keep, all other writers ring. The first
 * wait is no longer than the quiet before it, WHILE_US, so that it ends soon if many writers come
 * meanwhile. */
#define WAIT_MIN_MS 100

static const char *const state_names[] = {"off", "awake", "drowsy", "asleep"};

const char *bell_state_name(enum bell_state state)
{
        return state_names[state];
}

void bell_init(struct bell *bell, int64_t sweep_ms, int64_t poll_interval_ms)
{
        *bell = (struct bell){.sweep_us = sweep_ms * 1000,
            .poll_interval_us = poll_interval_ms * 1000,
            .state = BELL_OFF,
            .lock = BELL_LOCK_UNREACHABLE,
            .poll_due_us = -1,
            .rung_us = -CROWD_RING_US,
            .crowd_asked_us = -CROWD_PAUSE_US};
}

void bell_configure(struct bell *bell, int64_t sweep_ms, int64_t poll_interval_ms)
{
        bell->sweep_us = sweep_ms * 1000;
        bell->poll_interval_us = poll_interval_ms * 1000;
}

/* From here on new transactions ring, or will soon; older ones may still end without ringing. */
static void begin_drowsing(struct bell *bell, int64_t now_us)
{
        bell->drowsy_since_us = now_us;
        bell->is_poll_wanted = true;
}

/* The only function that assigns bell->state. Each state but OFF begins with a poll. */
static void enter(struct bell *bell, enum bell_state next, int64_t now_us)
{
        bell->state = next;
        bell->is_poll_wanted = next != BELL_OFF;
        bell->poll_due_us = -1;
        bell->news_since_us = now_us;
        bell->n_news = 0;
        bell->ours_us = now_us;
        bell->n_rings = 0;
        bell->is_crowd_wanted = false;
        bell->wait_ms = WAIT_MIN_MS;
        if (next == BELL_DROWSY)
                begin_drowsing(bell, now_us);
}

static void fall_asleep(struct bell *bell, int64_t now_us)
{
        /* K may still be ours, from a wait that was granted after the relay had woken up. */
        enter(bell, bell->lock == BELL_LOCK_HELD ? BELL_ASLEEP : BELL_DROWSY, now_us);
}

void bell_own(struct bell *bell, bool is_any, int64_t now_us)
{
        if (is_any && bell->state == BELL_OFF)
                fall_asleep(bell, now_us);
        else if (!is_any && bell->state != BELL_OFF)
                enter(bell, BELL_OFF, now_us);
}

static bool is_rung_often(struct bell *bell, int64_t now_us)
{
        if (bell->n_rings == 0 || now_us - bell->rings_since_us > MOMENT_US) {
                bell->rings_since_us = now_us;
                bell->n_rings = 0;
        }
        return ++bell->n_rings >= OFTEN;
}

static void watch_crowd(struct bell *bell, int64_t now_us)
{
        if (now_us - bell->rung_us < CROWD_RING_US &&
            now_us - bell->crowd_asked_us > CROWD_PAUSE_US)
                bell->is_crowd_wanted = true;
        bell->rung_us = now_us;
}

void bell_rung(struct bell *bell, int64_t now_us)
{
        switch (bell->state) {
        case BELL_OFF:
        case BELL_AWAKE:
                return;
        case BELL_DROWSY:
        case BELL_ASLEEP:
                bell->is_poll_wanted = true;
                watch_crowd(bell, now_us);
                if (is_rung_often(bell, now_us))
                        enter(bell, BELL_AWAKE, now_us);
                return;
        }
}

void bell_crowded(struct bell *bell, bool is_crowded, int64_t now_us)
{
        if (is_crowded && (bell->state == BELL_DROWSY || bell->state == BELL_ASLEEP))
                enter(bell, BELL_AWAKE, now_us);
}

void bell_connected(struct bell *bell, int64_t now_us)
{
        bell->lock = BELL_LOCK_FREE;
        if (bell->state == BELL_DROWSY)
                begin_drowsing(bell, now_us);
}

void bell_lost(struct bell *bell, int64_t now_us)
{
        bell->lock = BELL_LOCK_UNREACHABLE;
        if (bell->state == BELL_DROWSY || bell->state == BELL_ASLEEP)
                enter(bell, BELL_DROWSY, now_us);
}

void bell_granted(struct bell *bell, int64_t now_us)
{
        assert(bell->lock == BELL_LOCK_AWAITED);
        bell->lock = BELL_LOCK_HELD;
        if (bell->state == BELL_DROWSY)
                enter(bell, BELL_ASLEEP, now_us);
}

void bell_refused(struct bell *bell, int64_t now_us)
{
        assert(bell->lock == BELL_LOCK_AWAITED);
        bell->lock = BELL_LOCK_FREE;
        if (bell->state != BELL_DROWSY)
                return;
        /* Until K is asked for again, new transactions do not ring. */
        begin_drowsing(bell, now_us);
        bell->wait_ms = bell->wait_ms * 2 < BELL_WAIT_MAX_MS ? bell->wait_ms * 2 : BELL_WAIT_MAX_MS;
}

void bell_polling(struct bell *bell, int64_t now_us)
{
        bell->polling_since_us = now_us;
}

static int64_t longer(int64_t a_us, int64_t b_us)
{
        return a_us > b_us ? a_us : b_us;
}

static void poll_after(struct bell *bell, int64_t pause_us, int64_t now_us)
{
        int64_t took_us = now_us - bell->polling_since_us;

        bell->poll_due_us = now_us + longer(longer(pause_us, POLL_US), PAUSE_PER_POLL * took_us);
}

static void poll_soon(struct bell *bell, uint64_t n_news, int64_t now_us)
{
        int64_t pause_us = n_news < MANY_NEWS ? NEWS_POLL_US : POLL_US;

        bell->poll_due_us = now_us + longer(pause_us, now_us - bell->polling_since_us);
}

static int64_t others_pause_us(const struct bell *bell, int64_t now_us)
{
        int64_t pause_us = (now_us - bell->ours_us) / OTHERS_PER_PAUSE;

        return pause_us < OTHERS_POLL_MAX_US ? pause_us : OTHERS_POLL_MAX_US;
}

static void poll_again(struct bell *bell, uint64_t n_news, uint64_t n_ours, int64_t now_us)
{
        if (n_ours == 0) {
                poll_after(bell, n_news > 0 ? others_pause_us(bell, now_us) : POLL_US, now_us);
                return;
        }
        bell->ours_us = now_us;
        poll_soon(bell, n_news, now_us);
}

/* As long as it has been drowsy, so that no event waits longer than its transaction was open. */
static int64_t drowsy_pause_us(const struct bell *bell, int64_t now_us)
{
        int64_t most_us =
            bell->lock == BELL_LOCK_UNREACHABLE ? bell->poll_interval_us : bell->sweep_us;
        int64_t so_far_us = now_us - bell->drowsy_since_us;

        return so_far_us < most_us ? so_far_us : most_us;
}

static bool is_little(struct bell *bell, uint64_t n_news, int64_t now_us)
{
        bool is_over = now_us - bell->news_since_us > WHILE_US, is_enough;

        bell->n_news += n_news;
        is_enough = bell->n_news >= LITTLE;
        if (is_over) {
                bell->news_since_us = now_us;
                bell->n_news = 0;
        }
        return is_over && !is_enough;
}

void bell_polled(struct bell *bell, uint64_t n_news, uint64_t n_ours, int64_t now_us)
{
        switch (bell->state) {
        case BELL_OFF:
        case BELL_ASLEEP:
                return;
        case BELL_AWAKE:
                if (is_little(bell, n_news, now_us))
                        fall_asleep(bell, now_us);
                else
                        poll_again(bell, n_news, n_ours, now_us);
                return;
        case BELL_DROWSY:
                if (n_news > 0 && bell->lock == BELL_LOCK_UNREACHABLE)
                        enter(bell, BELL_AWAKE, now_us);
                else
                        poll_after(bell, drowsy_pause_us(bell, now_us), now_us);
                return;
        }
}

enum bell_wish bell_next_wish(struct bell *bell, int64_t *out_wait_ms)
{
        bool is_wanted = bell->state == BELL_DROWSY || bell->state == BELL_ASLEEP;

        if (bell->is_crowd_wanted &&
            (bell->lock == BELL_LOCK_FREE || bell->lock == BELL_LOCK_HELD)) {
                bell->is_crowd_wanted = false;
                bell->crowd_asked_us = bell->rung_us;
                return BELL_CHECK_CROWD;
        }
        if (bell->lock == BELL_LOCK_FREE && is_wanted) {
                bell->lock = BELL_LOCK_AWAITED;
                *out_wait_ms = bell->wait_ms;
                return BELL_AWAIT;
        }
        if (bell->lock == BELL_LOCK_HELD && !is_wanted) {
                bell->lock = BELL_LOCK_FREE;
                return BELL_GIVE_UP;
        }
        return BELL_NOTHING;
}

bool bell_wants_poll(struct bell *bell, int64_t now_us)
{
        bool is_due = bell->poll_due_us >= 0 && bell->poll_due_us <= now_us;

        if (!bell->is_poll_wanted && !is_due)
                return false;
        bell->is_poll_wanted = false;
        bell->poll_due_us = -1;
        return true;
}

int64_t bell_next_due(const struct bell *bell)
{
        return bell->poll_due_us;
}
