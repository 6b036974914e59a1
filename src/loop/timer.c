#include "loop/timer.h"

#include "base/alloc.h"

#include <stdlib.h>

struct timer {
        uv_timer_t uv;
        timer_fn *on_due;
        void *owner;            /* borrowed */
        bool waits_for_sockets; /* once it is due, the sockets come before the callback */
};

static void on_timer_closed(uv_handle_t *handle)
{
        free(handle->data);
}

static void on_timer(uv_timer_t *uv)
{
        struct timer *timer = uv->data;

        if (timer->waits_for_sockets) {
                timer_arm(timer, 1); /* the rest of this turn is the sockets' */
                return;
        }
        timer->on_due(timer->owner);
}

struct timer *timer_create_on(uv_loop_t *loop, timer_fn *on_due, void *owner)
{
        struct timer *timer = xcalloc(1, sizeof *timer);

        uv_timer_init(loop, &timer->uv);
        timer->uv.data = timer;
        timer->on_due = on_due;
        timer->owner = owner;
        return timer;
}

void timer_arm(struct timer *timer, uint64_t delay_ms)
{
        timer->waits_for_sockets = false;
        /* libuv counts from the start of the loop's turn; a long turn would shorten the delay. */
        uv_update_time(timer->uv.loop);
        uv_timer_start(&timer->uv, on_timer, delay_ms, 0);
}

void timer_arm_behind_sockets(struct timer *timer, uint64_t delay_ms)
{
        timer_arm(timer, delay_ms);
        timer->waits_for_sockets = true;
}

void timer_disarm(struct timer *timer)
{
        uv_timer_stop(&timer->uv);
}

bool timer_is_armed(const struct timer *timer)
{
        return uv_is_active((const uv_handle_t *)&timer->uv);
}

void timer_destroy(struct timer *timer)
{
        if (timer == NULL)
                return;
        uv_timer_stop(&timer->uv);
        uv_close((uv_handle_t *)&timer->uv, on_timer_closed);
}
