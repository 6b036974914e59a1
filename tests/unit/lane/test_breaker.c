/* The breaker with its clock and its randomness pinned: it waits as long as it can. */
#include "lane/breaker.h"

#include <criterion/criterion.h>

#define NOW_MS   1000000
#define NO_DELAY (-1)

static void go_down(struct breaker *breaker, int64_t now_ms, int64_t delay_ms)
{
        breaker_note_down(breaker, now_ms, delay_ms, false, UINT32_MAX);
}

static void go_down_for_the_operator(struct breaker *breaker, int64_t now_ms, uint32_t jitter)
{
        breaker_note_down(breaker, now_ms, NO_DELAY, true, jitter);
}

/* Its time is up, and a probe is under way. */
static void half_open(struct breaker *breaker)
{
        cr_assert(breaker_admits(breaker, breaker->until_ms, 0));
        cr_assert_eq(breaker->state, BREAKER_HALF_OPEN);
}

/* A breaker that has just closed after an outage. */
static struct breaker closed_again(void)
{
        struct breaker breaker = {0};

        go_down(&breaker, NOW_MS, NO_DELAY);
        half_open(&breaker);
        breaker_note_up(&breaker);
        return breaker;
}

/* So many different events fail; returns how many of them opened it. */
static int fail(struct breaker *breaker, int n_events)
{
        int n_opened = 0;

        for (int i = 0; i < n_events; i++)
                n_opened += breaker_note_failed(breaker, 100 + i, NOW_MS, UINT32_MAX);
        return n_opened;
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
        cr_expect(breaker_admits(&breaker, NOW_MS, 0));
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

Test(breaker, takes_a_longer_delay_from_attempts_that_were_in_flight)
{
        struct breaker breaker = {0};

        go_down(&breaker, NOW_MS, NO_DELAY);
        go_down(&breaker, NOW_MS + 5, 60000);

        cr_expect_eq(breaker.until_ms, NOW_MS + 60005);
}

Test(breaker, takes_no_shorter_delay_from_attempts_that_were_in_flight)
{
        struct breaker breaker = {0};

        go_down(&breaker, NOW_MS, 60000);
        go_down(&breaker, NOW_MS + 5, 1000);
        cr_expect_eq(breaker.until_ms, NOW_MS + 60000);

        breaker_note_up(&breaker);
        cr_expect_eq(breaker.state, BREAKER_OPEN);
        cr_expect_not(breaker_admits(&breaker, NOW_MS + 59999, 0));
}

Test(breaker, rarely_asks_a_destination_that_needs_an_operator)
{
        static const int64_t waits_s[] = {10, 20, 40, 80, 160, 300, 300};
        struct breaker longest = {0};
        struct breaker shortest = {0};

        for (int i = 0; i < 7; i++) {
                go_down_for_the_operator(&longest, NOW_MS, UINT32_MAX);
                go_down_for_the_operator(&shortest, NOW_MS, 0);
                cr_expect_eq(longest.until_ms, NOW_MS + waits_s[i] * 1000);
                cr_expect_eq(shortest.until_ms, NOW_MS + waits_s[i] * 500 + 1);
                half_open(&longest);
                half_open(&shortest);
        }
}

Test(breaker, remembers_that_it_needs_an_operator_until_it_closes)
{
        struct breaker breaker = {0};

        go_down_for_the_operator(&breaker, NOW_MS, UINT32_MAX);
        cr_expect(breaker.needs_operator);
        half_open(&breaker);
        cr_expect(breaker.needs_operator);
        go_down(&breaker, NOW_MS, NO_DELAY);
        cr_expect(breaker.needs_operator);
        cr_expect_eq(breaker.until_ms, NOW_MS + 20000);

        half_open(&breaker);
        breaker_note_up(&breaker);
        cr_expect_not(breaker.needs_operator);
        go_down(&breaker, NOW_MS, NO_DELAY);
        cr_expect_eq(breaker.until_ms, NOW_MS + 200);
}

Test(breaker, begins_anew_when_an_outage_turns_out_to_need_an_operator)
{
        struct breaker breaker = {0};

        for (int i = 0; i < 20; i++) {
                go_down(&breaker, NOW_MS, NO_DELAY);
                half_open(&breaker);
        }
        go_down_for_the_operator(&breaker, NOW_MS, UINT32_MAX);

        cr_expect_eq(breaker.until_ms, NOW_MS + 10000);
}

Test(breaker, learns_from_attempts_that_were_in_flight_that_it_needs_an_operator)
{
        struct breaker breaker = {0};

        go_down(&breaker, NOW_MS, NO_DELAY);
        go_down_for_the_operator(&breaker, NOW_MS + 5, UINT32_MAX);
        go_down_for_the_operator(&breaker, NOW_MS + 6, UINT32_MAX);

        cr_expect(breaker.needs_operator);
        cr_expect_eq(breaker.until_ms, NOW_MS + 10005);
}

Test(breaker, waits_as_long_as_the_peer_asks_for_when_it_needs_an_operator)
{
        struct breaker breaker = {0};

        breaker_note_down(&breaker, NOW_MS, 86400000, true, 0);

        cr_expect_eq(breaker.until_ms, NOW_MS + 86400000);
}

Test(breaker, opens_when_ten_different_events_fail_in_a_row)
{
        struct breaker breaker = {0};

        cr_expect_eq(fail(&breaker, BREAKER_SUSPICION - 1), 0);
        cr_expect_eq(breaker.state, BREAKER_CLOSED);
        cr_expect(breaker_note_failed(&breaker, 500, NOW_MS, UINT32_MAX));
        cr_expect_eq(breaker.state, BREAKER_OPEN);
        cr_expect_eq(breaker.until_ms, NOW_MS + 200);
        cr_expect_not(breaker.needs_operator);
}

Test(breaker, does_not_suspect_the_destination_because_of_one_event)
{
        struct breaker breaker = {0};

        for (int i = 0; i < 1000; i++)
                cr_expect_not(breaker_note_failed(&breaker, 7, NOW_MS, UINT32_MAX));

        cr_expect_eq(breaker.state, BREAKER_CLOSED);
        cr_expect_eq(breaker.n_failed, 1);
}

Test(breaker, forgets_its_suspicion_when_an_event_gets_through)
{
        struct breaker breaker = {0};

        fail(&breaker, BREAKER_SUSPICION - 1);
        breaker_note_up(&breaker);

        cr_expect_eq(fail(&breaker, BREAKER_SUSPICION - 1), 0);
        cr_expect_eq(breaker.state, BREAKER_CLOSED);
        /* An event is different from the one before only if there was one. */
        breaker_note_up(&breaker);
        cr_expect_eq(breaker.n_failed, 0);
        breaker_note_failed(&breaker, breaker.last_failed_id, NOW_MS, UINT32_MAX);
        cr_expect_eq(breaker.n_failed, 1);
}

Test(breaker, waits_longer_while_its_probes_confirm_the_suspicion)
{
        static const int64_t waits_ms[] = {400, 800, 1600, 3200, 5000};
        struct breaker breaker = {0};

        fail(&breaker, BREAKER_SUSPICION);
        for (int i = 0; i < 5; i++) {
                half_open(&breaker);
                cr_expect(breaker_note_failed(&breaker, i, NOW_MS, UINT32_MAX));
                cr_expect_eq(breaker.state, BREAKER_OPEN);
                cr_expect_eq(breaker.until_ms, NOW_MS + waits_ms[i]);
        }
        half_open(&breaker);
        breaker_note_up(&breaker);
        cr_expect_eq(breaker.state, BREAKER_CLOSED);
}

Test(breaker, closes_after_an_outage_although_the_probe_fails_for_its_event)
{
        struct breaker breaker = {0};

        go_down_for_the_operator(&breaker, NOW_MS, UINT32_MAX);
        half_open(&breaker);

        cr_expect_not(breaker_note_failed(&breaker, 7, NOW_MS, UINT32_MAX));
        cr_expect_eq(breaker.state, BREAKER_CLOSED);
        cr_expect_not(breaker.needs_operator);
        cr_expect_eq(breaker.n_failed, 1);
        cr_expect_not(breaker_admits(&breaker, NOW_MS, BREAKER_SLOW_START));
}

Test(breaker, turns_a_suspicion_into_an_outage_when_a_probe_finds_one)
{
        struct breaker breaker = {0};

        fail(&breaker, BREAKER_SUSPICION);
        half_open(&breaker);
        go_down(&breaker, NOW_MS, NO_DELAY);
        half_open(&breaker);

        cr_expect_not(breaker_note_failed(&breaker, 7, NOW_MS, UINT32_MAX));
        cr_expect_eq(breaker.state, BREAKER_CLOSED);
}

Test(breaker, learns_nothing_from_events_that_fail_while_it_is_open)
{
        struct breaker breaker = {0};

        go_down(&breaker, NOW_MS, NO_DELAY);

        cr_expect_eq(fail(&breaker, 100), 0);
        cr_expect_eq(breaker.until_ms, NOW_MS + 200);
        cr_expect_eq(breaker.n_failures, 1);
}

Test(breaker, starts_slowly_after_it_was_open)
{
        struct breaker breaker = closed_again();

        cr_expect(breaker_admits(&breaker, NOW_MS, 1));
        cr_expect_not(breaker_admits(&breaker, NOW_MS, 2));
        breaker_note_up(&breaker);
        cr_expect(breaker_admits(&breaker, NOW_MS, 2));
        cr_expect_not(breaker_admits(&breaker, NOW_MS, 3));
        breaker_note_up(&breaker);
        cr_expect(breaker_admits(&breaker, NOW_MS, 3));
        cr_expect_not(breaker_admits(&breaker, NOW_MS, 4));
}

Test(breaker, has_no_limit_after_enough_successes)
{
        struct breaker breaker = closed_again();
        int n_successes = BREAKER_FULL_SPEED - BREAKER_SLOW_START;

        for (int i = 0; i < n_successes - 1; i++)
                breaker_note_up(&breaker);
        cr_expect_not(breaker_admits(&breaker, NOW_MS, BREAKER_FULL_SPEED - 1));
        breaker_note_up(&breaker);
        cr_expect(breaker_admits(&breaker, NOW_MS, UINT32_MAX));
        breaker_note_up(&breaker);
        cr_expect(breaker_admits(&breaker, NOW_MS, UINT32_MAX));
}

Test(breaker, starts_slowly_again_after_each_outage)
{
        struct breaker breaker = closed_again();

        for (int i = 0; i < 50; i++)
                breaker_note_up(&breaker);
        go_down(&breaker, NOW_MS, NO_DELAY);
        half_open(&breaker);
        breaker_note_up(&breaker);

        cr_expect_not(breaker_admits(&breaker, NOW_MS, BREAKER_SLOW_START));
}

Test(breaker, is_due_at_once_when_a_probe_is_requested)
{
        struct breaker breaker = {0};

        breaker_note_down(&breaker, NOW_MS, 86400000, true, 0);
        breaker_probe_now(&breaker, NOW_MS + 3);

        cr_expect_eq(breaker.until_ms, NOW_MS + 3);
        cr_expect(breaker.needs_operator);
        cr_expect(breaker_admits(&breaker, NOW_MS + 3, 0));
        cr_expect_not(breaker_admits(&breaker, NOW_MS + 3, 1));
        go_down_for_the_operator(&breaker, NOW_MS + 3, UINT32_MAX);
        cr_expect_eq(breaker.until_ms, NOW_MS + 20003);
}

Test(breaker, ignores_a_probe_request_while_it_is_closed_or_due_already)
{
        struct breaker breaker = {0};

        breaker_probe_now(&breaker, NOW_MS);
        cr_expect_eq(breaker.state, BREAKER_CLOSED);
        cr_expect(breaker_admits(&breaker, NOW_MS, 1000));

        go_down(&breaker, NOW_MS, NO_DELAY);
        breaker_probe_now(&breaker, NOW_MS + 1000);
        cr_expect_eq(breaker.until_ms, NOW_MS + 200);
}
