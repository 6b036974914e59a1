/*
 * One question at a time, and a timer for the next one:
 *
 *   DOWN -session up-> ASKING -answer-> WAITING -due or looked at-> ASKING
 *   ASKING -looked at-> STALE -answer-> ASKING
 *   any of these -session down-> DOWN, -stop-> STOPPED
 *
 * STALE: what the answer will say may already be wrong.
 */
#include "wakeup/schedule_timer.h"

#include "base/alloc.h"
#include "loop/timer.h"
#include "outbox/outbox.h"

#include <stdlib.h>

enum ticker_state { TICKER_DOWN, TICKER_ASKING, TICKER_STALE, TICKER_WAITING, TICKER_STOPPED };

struct ticker {
        struct outbox *outbox; /* borrowed */
        enum ticker_state state;
        struct timer *due; /* owned; armed while WAITING for a tick */
};

static void enter(struct ticker *ticker, enum ticker_state state)
{
        if (ticker->state == TICKER_STOPPED)
                return;
        ticker->state = state;
        if (state != TICKER_WAITING)
                timer_disarm(ticker->due);
        if (state == TICKER_ASKING)
                outbox_tick(ticker->outbox);
}

static void on_due(void *owner)
{
        enter(owner, TICKER_ASKING);
}

struct ticker *ticker_create(uv_loop_t *loop, struct outbox *outbox)
{
        struct ticker *ticker = xcalloc(1, sizeof *ticker);

        ticker->outbox = outbox;
        ticker->due = timer_create_on(loop, on_due, ticker);
        return ticker;
}

void ticker_destroy(struct ticker *ticker)
{
        if (ticker == NULL)
                return;
        timer_destroy(ticker->due);
        free(ticker);
}

void ticker_session_up(struct ticker *ticker)
{
        enter(ticker, TICKER_ASKING);
}

void ticker_session_down(struct ticker *ticker)
{
        enter(ticker, TICKER_DOWN);
}

void ticker_look(struct ticker *ticker)
{
        switch (ticker->state) {
        case TICKER_ASKING:
                enter(ticker, TICKER_STALE);
                break;
        case TICKER_WAITING:
                enter(ticker, TICKER_ASKING);
                break;
        case TICKER_DOWN:
        case TICKER_STALE:
        case TICKER_STOPPED:
                break;
        }
}

void ticker_answer(struct ticker *ticker, int64_t next_ms)
{
        bool is_stale = ticker->state == TICKER_STALE;

        if (ticker->state == TICKER_STOPPED)
                return;
        enter(ticker, is_stale || next_ms == 0 ? TICKER_ASKING : TICKER_WAITING);
        if (ticker->state == TICKER_WAITING && next_ms > 0)
                timer_arm(ticker->due, (uint64_t)next_ms);
}

void ticker_stop(struct ticker *ticker)
{
        enter(ticker, TICKER_STOPPED);
}

bool ticker_is_caught_up(const struct ticker *ticker)
{
        return ticker->state == TICKER_WAITING;
}
