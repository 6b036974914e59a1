/* The schedule_timer asks when it should, and never twice at a time. The outbox is this test. */
#include "outbox/outbox.h"
#include "wakeup/schedule_timer.h"

#include <criterion/criterion.h>

static unsigned n_asked;

void outbox_tick(struct outbox *outbox)
{
        (void)outbox;
        n_asked++;
}

struct rig {
        uv_loop_t loop;
        struct schedule_timer *schedule_timer;
};

static void begin(struct rig *rig)
{
        uv_loop_init(&rig->loop);
        rig->schedule_timer = schedule_timer_create(&rig->loop, NULL);
}

static void end(struct rig *rig)
{
        schedule_timer_destroy(rig->schedule_timer);
        uv_run(&rig->loop, UV_RUN_DEFAULT);
        cr_expect_eq(uv_loop_close(&rig->loop), 0);
}

Test(schedule_timer, asks_when_the_session_is_up_and_when_the_time_has_come)
{
        struct rig rig;

        begin(&rig);
        cr_expect_eq(n_asked, 0);
        schedule_timer_session_up(rig.schedule_timer);
        cr_expect_eq(n_asked, 1);
        cr_expect_not(schedule_timer_is_caught_up(rig.schedule_timer));
        schedule_timer_answer(rig.schedule_timer, 2);
        cr_expect_eq(n_asked, 1);
        cr_expect(schedule_timer_is_caught_up(rig.schedule_timer));
        uv_run(&rig.loop, UV_RUN_DEFAULT);
        cr_expect_eq(n_asked, 2);
        cr_expect_not(schedule_timer_is_caught_up(rig.schedule_timer));
        end(&rig);
}

Test(schedule_timer, asks_at_once_while_more_is_due)
{
        struct rig rig;

        begin(&rig);
        schedule_timer_session_up(rig.schedule_timer);
        schedule_timer_answer(rig.schedule_timer, 0);
        cr_expect_eq(n_asked, 2);
        cr_expect_not(schedule_timer_is_caught_up(rig.schedule_timer));
        end(&rig);
}

Test(schedule_timer, waits_for_a_look_while_there_is_no_next_tick)
{
        struct rig rig;

        begin(&rig);
        schedule_timer_session_up(rig.schedule_timer);
        schedule_timer_answer(rig.schedule_timer, -1);
        cr_expect_not(uv_loop_alive(&rig.loop), "a timer is armed");
        cr_expect(schedule_timer_is_caught_up(rig.schedule_timer));
        schedule_timer_look(rig.schedule_timer);
        cr_expect_eq(n_asked, 2);
        schedule_timer_answer(rig.schedule_timer, INT64_MAX);
        cr_expect(uv_loop_alive(&rig.loop));
        uv_run(&rig.loop, UV_RUN_NOWAIT);
        cr_expect_eq(n_asked, 2);
        end(&rig);
}

Test(schedule_timer, asks_again_when_a_change_came_before_the_answer)
{
        struct rig rig;

        begin(&rig);
        schedule_timer_session_up(rig.schedule_timer);
        schedule_timer_look(rig.schedule_timer);
        schedule_timer_look(rig.schedule_timer);
        cr_expect_eq(n_asked, 1);
        schedule_timer_answer(rig.schedule_timer, 50000);
        cr_expect_eq(n_asked, 2);
        schedule_timer_answer(rig.schedule_timer, 50000);
        cr_expect_eq(n_asked, 2);
        cr_expect(schedule_timer_is_caught_up(rig.schedule_timer));
        end(&rig);
}

Test(schedule_timer, asks_nothing_without_a_session)
{
        struct rig rig;

        begin(&rig);
        schedule_timer_look(rig.schedule_timer);
        cr_expect_eq(n_asked, 0);
        schedule_timer_session_up(rig.schedule_timer);
        schedule_timer_answer(rig.schedule_timer, 1);
        schedule_timer_session_down(rig.schedule_timer);
        schedule_timer_look(rig.schedule_timer);
        cr_expect_not(uv_loop_alive(&rig.loop), "a timer is armed");
        uv_run(&rig.loop, UV_RUN_DEFAULT);
        cr_expect_eq(n_asked, 1);
        schedule_timer_session_up(rig.schedule_timer);
        cr_expect_eq(n_asked, 2);
        end(&rig);
}

Test(schedule_timer, asks_nothing_after_it_was_stopped)
{
        struct rig rig;

        begin(&rig);
        schedule_timer_session_up(rig.schedule_timer);
        schedule_timer_stop(rig.schedule_timer);
        schedule_timer_answer(rig.schedule_timer, 0);
        schedule_timer_look(rig.schedule_timer);
        schedule_timer_session_down(rig.schedule_timer);
        schedule_timer_session_up(rig.schedule_timer);
        uv_run(&rig.loop, UV_RUN_DEFAULT);
        cr_expect_eq(n_asked, 1);
        end(&rig);
}
