/* The breaker with its clock and its randomness pinned: it waits as long as it can. */
#include "relay/breaker.h"

#include <criterion/criterion.h>

#define NOW_MS   1000000
#define NO_DELAY (-1)

static void go_down(struct breaker *breaker, int64_t now_ms, int64_t delay_ms)
{
        breaker_note_down(breaker, now_ms, delay_ms, UINT32_MAX);
}

Test(breaker, admits_any_number_while_closed)
{
        struct breaker breaker = {0};

        cr_expect(breaker_admits(&breaker, NOW_MS, 0));
        cr_expect(breaker_admits(&breaker, NOW_MS, 1000));
}

Test(breaker, admits_nothing_while_open)
{
        struct breaker breaker = {0};

        go_down(&breaker, NOW_MS, NO_DELAY);

        cr_expect_eq(breaker.until_ms, NOW_MS + 200);
        cr_expect_not(breaker_admits(&breaker, NOW_MS, 0));
        cr_expect_not(breaker_admits(&breaker, breaker.until_ms - 1, 0));
}

Test(breaker, admits_a_single_probe_when_its_time_is_up)
{
        struct breaker breaker = {0};

        go_down(&breaker, NOW_MS, NO_DELAY);

        cr_expect(breaker_admits(&breaker, breaker.until_ms, 0));
        cr_expect_eq(breaker.state, BREAKER_HALF_OPEN);
        cr_expect_not(breaker_admits(&breaker, breaker.until_ms, 1));
}

Test(breaker, closes_when_the_probe_is_answered)
{
        struct breaker breaker = {0};

        go_down(&breaker, NOW_MS, NO_DELAY);
        breaker_admits(&breaker, breaker.until_ms, 0);
        breaker_note_up(&breaker);

        cr_expect_eq(breaker.state, BREAKER_CLOSED);
        cr_expect(breaker_admits(&breaker, NOW_MS, 1000));
}

Test(breaker, waits_longer_after_each_probe_that_fails_and_forgets_it_when_closed)
{
        static const int64_t waits_ms[] = {200, 400, 800, 1600, 3200, 5000, 5000};
        struct breaker breaker = {0};
        int64_t now_ms = NOW_MS;

        for (int i = 0; i < 7; i++) {
                go_down(&breaker, now_ms, NO_DELAY);
                cr_expect_eq(breaker.until_ms, now_ms + waits_ms[i]);
                now_ms = breaker.until_ms;
                cr_expect(breaker_admits(&breaker, now_ms, 0));
        }
        breaker_note_up(&breaker);
        go_down(&breaker, now_ms, NO_DELAY);

        cr_expect_eq(breaker.until_ms, now_ms + 200);
}

Test(breaker, counts_many_refusals_at_once_as_one)
{
        struct breaker breaker = {0};

        go_down(&breaker, NOW_MS, NO_DELAY);
        for (int i = 1; i < 100; i++)
                go_down(&breaker, NOW_MS + i, NO_DELAY);

        cr_expect_eq(breaker.until_ms, NOW_MS + 200);
        cr_expect_eq(breaker.n_failures, 1);
}

Test(breaker, waits_as_long_as_the_peer_asks_for_but_no_shorter_than_its_own_backoff)
{
        struct breaker breaker = {0};

        go_down(&breaker, NOW_MS, 60000);
        cr_expect_eq(breaker.until_ms, NOW_MS + 60000);

        breaker = (struct breaker){0};
        go_down(&breaker, NOW_MS, 10);
        cr_expect_eq(breaker.until_ms, NOW_MS + 200);
}

Test(breaker, hears_from_those_that_were_in_flight_for_how_long)
{
        struct breaker breaker = {0};

        go_down(&breaker, NOW_MS, NO_DELAY);
        go_down(&breaker, NOW_MS + 5, 60000);

        cr_expect_eq(breaker.until_ms, NOW_MS + 60005);
}

Test(breaker, is_not_talked_into_waiting_less_by_those_that_were_in_flight)
{
        struct breaker breaker = {0};

        go_down(&breaker, NOW_MS, 60000);
        go_down(&breaker, NOW_MS + 5, 1000);
        cr_expect_eq(breaker.until_ms, NOW_MS + 60000);

        breaker_note_up(&breaker);
        cr_expect_eq(breaker.state, BREAKER_OPEN);
        cr_expect_not(breaker_admits(&breaker, NOW_MS + 59999, 0));
}
