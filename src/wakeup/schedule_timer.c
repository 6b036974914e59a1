/*
 * One question at a time, and a timer for the next one:
 *
 *   DOWN -session up-> ASKING -answer-> WAITING -due or asked to look-> ASKING
 *   ASKING -asked to look-> STALE -answer-> ASKING
 *   any of these -session down-> DOWN, -stop-> STOPPED
 *
 * STALE: what the answer will say may already be wrong.
 */
#include "wakeup/schedule_timer.h"

#include "base/alloc.h"
#include "loop/timer.h"
#include "outbox/outbox.h"

#include <stdlib.h>

enum schedule_timer_state {
        SCHEDULE_DOWN,
        SCHEDULE_ASKING,
        SCHEDULE_STALE,
        SCHEDULE_WAITING,
        SCHEDULE_STOPPED
};

struct schedule_timer {
        struct outbox *outbox; /* borrowed */
        enum schedule_timer_state state;
        struct timer *due; /* owned; armed while WAITING for a tick */
};

static void enter(struct schedule_timer *schedule_timer, enum schedule_timer_state state)
{
        if (schedule_timer->state == SCHEDULE_STOPPED)
                return;
        schedule_timer->state = state;
        if (state != SCHEDULE_WAITING)
                timer_disarm(schedule_timer->due);
        if (state == SCHEDULE_ASKING)
                outbox_tick(schedule_timer->outbox);
}

static void on_due(void *owner)
{
        enter(owner, SCHEDULE_ASKING);
}

struct schedule_timer *schedule_timer_create(uv_loop_t *loop, struct outbox *outbox)
{
        struct schedule_timer *schedule_timer = xcalloc(1, sizeof *schedule_timer);

        schedule_timer->outbox = outbox;
        schedule_timer->due = timer_create_on(loop, on_due, schedule_timer);
        return schedule_timer;
}

void schedule_timer_destroy(struct schedule_timer *schedule_timer)
{
        if (schedule_timer == NULL)
                return;
        timer_destroy(schedule_timer->due);
        free(schedule_timer);
}

void schedule_timer_session_up(struct schedule_timer *schedule_timer)
{
        enter(schedule_timer, SCHEDULE_ASKING);
}

void schedule_timer_session_down(struct schedule_timer *schedule_timer)
{
        enter(schedule_timer, SCHEDULE_DOWN);
}

void schedule_timer_look(struct schedule_timer *schedule_timer)
{
        switch (schedule_timer->state) {
        case SCHEDULE_ASKING:
                enter(schedule_timer, SCHEDULE_STALE);
                break;
        case SCHEDULE_WAITING:
                enter(schedule_timer, SCHEDULE_ASKING);
                break;
        case SCHEDULE_DOWN:
        case SCHEDULE_STALE:
        case SCHEDULE_STOPPED:
                break;
        }
}

void schedule_timer_answer(struct schedule_timer *schedule_timer, int64_t next_ms)
{
        bool is_stale = schedule_timer->state == SCHEDULE_STALE;

        if (schedule_timer->state == SCHEDULE_STOPPED)
                return;
        enter(schedule_timer, is_stale || next_ms == 0 ? SCHEDULE_ASKING : SCHEDULE_WAITING);
        if (schedule_timer->state == SCHEDULE_WAITING && next_ms > 0)
                timer_arm(schedule_timer->due, (uint64_t)next_ms);
}

void schedule_timer_stop(struct schedule_timer *schedule_timer)
{
        enter(schedule_timer, SCHEDULE_STOPPED);
}

bool schedule_timer_is_caught_up(const struct schedule_timer *schedule_timer)
{
        return schedule_timer->state == SCHEDULE_WAITING;
}
