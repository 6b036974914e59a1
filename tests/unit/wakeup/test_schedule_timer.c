/* The ticker asks when it should, and never twice at a time. The outbox is this test. */
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
        struct ticker *ticker;
};

static void begin(struct rig *rig)
{
        uv_loop_init(&rig->loop);
        rig->ticker = ticker_create(&rig->loop, NULL);
}

static void end(struct rig *rig)
{
        ticker_destroy(rig->ticker);
        uv_run(&rig->loop, UV_RUN_DEFAULT);
        cr_expect_eq(uv_loop_close(&rig->loop), 0);
}

Test(ticker, asks_when_the_session_is_up_and_when_the_time_has_come)
{
        struct rig rig;

        begin(&rig);
        cr_expect_eq(n_asked, 0);
        ticker_session_up(rig.ticker);
        cr_expect_eq(n_asked, 1);
        cr_expect_not(ticker_is_caught_up(rig.ticker));
        ticker_answer(rig.ticker, 2);
        cr_expect_eq(n_asked, 1);
        cr_expect(ticker_is_caught_up(rig.ticker));
        uv_run(&rig.loop, UV_RUN_DEFAULT);
        cr_expect_eq(n_asked, 2);
        cr_expect_not(ticker_is_caught_up(rig.ticker));
        end(&rig);
}

Test(ticker, asks_at_once_while_more_is_due)
{
        struct rig rig;

        begin(&rig);
        ticker_session_up(rig.ticker);
        ticker_answer(rig.ticker, 0);
        cr_expect_eq(n_asked, 2);
        cr_expect_not(ticker_is_caught_up(rig.ticker));
        end(&rig);
}

Test(ticker, waits_for_a_look_while_there_is_no_next_tick)
{
        struct rig rig;

        begin(&rig);
        ticker_session_up(rig.ticker);
        ticker_answer(rig.ticker, -1);
        cr_expect_not(uv_loop_alive(&rig.loop), "a timer is armed");
        cr_expect(ticker_is_caught_up(rig.ticker));
        ticker_look(rig.ticker);
        cr_expect_eq(n_asked, 2);
        ticker_answer(rig.ticker, INT64_MAX);
        cr_expect(uv_loop_alive(&rig.loop));
        uv_run(&rig.loop, UV_RUN_NOWAIT);
        cr_expect_eq(n_asked, 2);
        end(&rig);
}

Test(ticker, asks_again_after_the_answer_that_a_change_made_old)
{
        struct rig rig;

        begin(&rig);
        ticker_session_up(rig.ticker);
        ticker_look(rig.ticker);
        ticker_look(rig.ticker);
        cr_expect_eq(n_asked, 1);
        ticker_answer(rig.ticker, 50000);
        cr_expect_eq(n_asked, 2);
        ticker_answer(rig.ticker, 50000);
        cr_expect_eq(n_asked, 2);
        cr_expect(ticker_is_caught_up(rig.ticker));
        end(&rig);
}

Test(ticker, asks_nobody_without_a_session)
{
        struct rig rig;

        begin(&rig);
        ticker_look(rig.ticker);
        cr_expect_eq(n_asked, 0);
        ticker_session_up(rig.ticker);
        ticker_answer(rig.ticker, 1);
        ticker_session_down(rig.ticker);
        ticker_look(rig.ticker);
        cr_expect_not(uv_loop_alive(&rig.loop), "a timer is armed");
        uv_run(&rig.loop, UV_RUN_DEFAULT);
        cr_expect_eq(n_asked, 1);
        ticker_session_up(rig.ticker);
        cr_expect_eq(n_asked, 2);
        end(&rig);
}

Test(ticker, asks_nothing_after_it_was_stopped)
{
        struct rig rig;

        begin(&rig);
        ticker_session_up(rig.ticker);
        ticker_stop(rig.ticker);
        ticker_answer(rig.ticker, 0);
        ticker_look(rig.ticker);
        ticker_session_down(rig.ticker);
        ticker_session_up(rig.ticker);
        uv_run(&rig.loop, UV_RUN_DEFAULT);
        cr_expect_eq(n_asked, 1);
        end(&rig);
}
