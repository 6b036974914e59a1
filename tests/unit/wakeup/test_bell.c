/* Whether writers need to ring, and when the relay polls by itself. */
#include "wakeup/bell.h"

#include <criterion/criterion.h>

#define MS INT64_C(1000)

static struct bell begin(void)
{
        struct bell bell;

        bell_init(&bell, 5000, 250);
        return bell;
}

static bool wishes(struct bell *bell, enum bell_wish wish)
{
        int64_t wait_ms;

        return bell_next_wish(bell, &wait_ms) == wish;
}

static int64_t awaits(struct bell *bell)
{
        int64_t wait_ms = -1;

        cr_expect_eq(bell_next_wish(bell, &wait_ms), BELL_AWAIT);
        return wait_ms;
}

/* A poll that takes that long. */
static void take_poll(struct bell *bell, int64_t now_us, int64_t took_us, uint64_t n_news)
{
        cr_expect(bell_wants_poll(bell, now_us), "a poll is wanted at %lld us", (long long)now_us);
        cr_expect_not(bell_wants_poll(bell, now_us), "asking marks it as done");
        bell_polling(bell, now_us);
        bell_polled(bell, n_news, n_news, now_us + took_us);
}

static struct bell drowsy(void)
{
        struct bell bell = begin();

        bell_connected(&bell, 0);
        bell_own(&bell, true, 0);
        awaits(&bell);
        return bell;
}

static struct bell asleep(void)
{
        struct bell bell = drowsy();

        bell_granted(&bell, 0);
        cr_expect(bell_wants_poll(&bell, 0));
        return bell;
}

static void ring(struct bell *bell, int n, int64_t from_us, int64_t each_us)
{
        for (int i = 0; i < n; i++)
                bell_rung(bell, from_us + i * each_us);
}

static struct bell awake(void)
{
        struct bell bell = asleep();

        ring(&bell, 8, 0, 0);
        cr_expect_eq(bell.state, BELL_AWAKE);
        return bell;
}

Test(bell, wants_nothing_while_the_relay_has_no_lane)
{
        struct bell bell = begin();

        bell_connected(&bell, 0);
        bell_own(&bell, false, 0);
        bell_rung(&bell, 0);
        bell_polling(&bell, 0);
        bell_polled(&bell, true, true, 1);
        cr_expect(wishes(&bell, BELL_NOTHING));
        cr_expect_not(bell_wants_poll(&bell, 1));
        cr_expect_eq(bell_next_due(&bell), -1);
}

Test(bell, sleeps_only_when_the_lock_is_granted_and_looks_once_more)
{
        struct bell bell = drowsy();

        take_poll(&bell, 0, 10, false);
        cr_expect_eq(bell.state, BELL_DROWSY);
        bell_granted(&bell, 1 * MS);
        cr_expect_eq(bell.state, BELL_ASLEEP);
        take_poll(&bell, 1 * MS, 10, true);
        cr_expect_eq(bell_next_due(&bell), -1, "it sleeps, whatever it found");
        cr_expect(wishes(&bell, BELL_NOTHING));
}

Test(bell, looks_at_each_ring_while_it_sleeps)
{
        struct bell bell = asleep();

        for (int i = 1; i <= 20; i++) {
                bell_rung(&bell, i * 10 * MS);
                take_poll(&bell, i * 10 * MS, 100, true);
                cr_expect_eq(bell.state, BELL_ASLEEP, "100 rings a second do no harm");
        }
}

Test(bell, wakes_up_when_it_is_rung_often)
{
        struct bell bell = asleep();

        ring(&bell, 7, 100 * MS, 2 * MS);
        cr_expect_eq(bell.state, BELL_ASLEEP);
        bell_rung(&bell, 114 * MS);
        cr_expect_eq(bell.state, BELL_AWAKE);
        cr_expect(wishes(&bell, BELL_GIVE_UP));
        cr_expect(wishes(&bell, BELL_NOTHING));
        take_poll(&bell, 114 * MS, 10, true);
}

Test(bell, takes_no_slow_rings_for_frequent_ones)
{
        struct bell bell = asleep();

        ring(&bell, 100, 0, 3 * MS);
        cr_expect_eq(bell.state, BELL_ASLEEP);
}

Test(bell, looks_every_other_millisecond_while_it_finds_many)
{
        struct bell bell = awake();

        take_poll(&bell, 0, 100, 3);
        cr_expect_eq(bell_next_due(&bell), 100 + MS);
        take_poll(&bell, 2 * MS, 100, 4);
        cr_expect_eq(bell_next_due(&bell), 2 * MS + 100 + 2 * MS);
        take_poll(&bell, 5 * MS, 5 * MS, 4);
        cr_expect_eq(bell_next_due(&bell), 15 * MS, "and leaves the database as long as it took");
}

Test(bell, looks_every_millisecond_while_awake_and_finding_something)
{
        struct bell bell = awake();
        int64_t now_us = 0;

        for (int i = 0; i < 10; i++) {
                take_poll(&bell, now_us, 100, true);
                cr_expect_eq(bell_next_due(&bell), now_us + 100 + MS);
                cr_expect_not(bell_wants_poll(&bell, bell_next_due(&bell) - 1));
                now_us = bell_next_due(&bell);
                bell_rung(&bell, now_us); /* by a writer who came before the lock was given up */
        }
        cr_expect_eq(bell.state, BELL_AWAKE);
}

static int64_t pause_after_others(struct bell *bell, int64_t now_us)
{
        bell_polling(bell, now_us);
        bell_polled(bell, 100, 0, now_us);
        return bell_next_due(bell) - now_us;
}

Test(bell, looks_the_rarer_the_longer_all_events_are_for_others)
{
        struct bell bell = awake();

        cr_expect(bell_wants_poll(&bell, 0));
        cr_expect_eq(pause_after_others(&bell, 10 * MS), 2 * MS);
        cr_expect_eq(pause_after_others(&bell, 50 * MS), 5 * MS);
        cr_expect_eq(pause_after_others(&bell, 90 * MS), 9 * MS);
        cr_expect_eq(pause_after_others(&bell, 3000 * MS), 10 * MS);
        take_poll(&bell, 3010 * MS, 0, 1);
        cr_expect_eq(bell_next_due(&bell), 3011 * MS);
        cr_expect_eq(
            pause_after_others(&bell, 3030 * MS), 2 * MS, "they count from its last own one");
        cr_expect_eq(bell.state, BELL_AWAKE, "their writers are spared notifications");
}

Test(bell, looks_every_other_millisecond_while_most_events_are_for_others)
{
        struct bell bell = awake();

        cr_expect(bell_wants_poll(&bell, 0));
        bell_polling(&bell, 0);
        bell_polled(&bell, 100, 1, 0);
        cr_expect_eq(bell_next_due(&bell), 2 * MS);
}

Test(bell, looks_every_two_milliseconds_when_there_is_nothing)
{
        struct bell bell = awake();

        take_poll(&bell, 0, 100, false);
        cr_expect_eq(bell_next_due(&bell), 100 + 2 * MS);
}

Test(bell, rests_four_times_as_long_as_a_look_without_news_took)
{
        struct bell bell = awake();

        take_poll(&bell, 0, 5 * MS, false);
        cr_expect_eq(bell_next_due(&bell), 5 * MS + 20 * MS);
}

Test(bell, rests_as_long_as_a_look_with_news_took)
{
        struct bell bell = awake();

        take_poll(&bell, 0, 5 * MS, true);
        cr_expect_eq(bell_next_due(&bell), 5 * MS + 5 * MS);
}

Test(bell, orders_no_look_before_the_last_one_is_answered)
{
        struct bell bell = awake();

        cr_expect(bell_wants_poll(&bell, 0));
        cr_expect_eq(bell_next_due(&bell), -1);
        cr_expect_not(bell_wants_poll(&bell, 3600 * 1000 * MS));
}

/* Looks every two milliseconds for as long. */
static int64_t stay_awake(struct bell *bell, int64_t from_us, int64_t for_us, unsigned n_news_each)
{
        int64_t now_us = from_us;

        for (; now_us < from_us + for_us && bell->state == BELL_AWAKE; now_us += 2 * MS)
                take_poll(bell, now_us, 0, n_news_each);
        return now_us;
}

Test(bell, gets_drowsy_when_there_is_little_news)
{
        struct bell bell = awake();
        int64_t now_us;

        cr_expect(wishes(&bell, BELL_GIVE_UP));
        now_us = stay_awake(&bell, 0, 1000 * MS, 1);
        cr_expect_eq(bell.state, BELL_AWAKE, "500 a second are not little");
        cr_expect(wishes(&bell, BELL_NOTHING));
        now_us = stay_awake(&bell, now_us, 99 * MS, 0);
        cr_expect_eq(bell.state, BELL_AWAKE, "commits may come in groups");
        take_poll(&bell, now_us, 0, 16);
        now_us = stay_awake(&bell, now_us + 2 * MS, 1000 * MS, 0);
        cr_expect_eq(bell.state, BELL_DROWSY);
        cr_expect_leq(now_us, 1400 * MS);
        cr_expect(wishes(&bell, BELL_AWAIT));
}

Test(bell, gets_drowsy_when_only_a_hundred_events_come_in_a_second)
{
        struct bell bell = awake();

        cr_expect(wishes(&bell, BELL_GIVE_UP));
        for (int64_t i = 0; i < 100 && bell.state == BELL_AWAKE; i++)
                take_poll(&bell, i * 2 * MS, 0, i % 5 == 0);
        cr_expect_eq(bell.state, BELL_DROWSY);
}

/* Where commits are slow, those who ring wait for each other, and few rings arrive. */
Test(bell, looks_for_a_crowd_when_one_ring_follows_another)
{
        struct bell bell = asleep();

        bell_rung(&bell, 1000 * MS);
        cr_expect(wishes(&bell, BELL_NOTHING), "after a long silence there can be none");
        bell_rung(&bell, 1200 * MS);
        cr_expect(wishes(&bell, BELL_CHECK_CROWD));
        cr_expect(wishes(&bell, BELL_NOTHING));
        bell_rung(&bell, 1299 * MS);
        cr_expect(wishes(&bell, BELL_NOTHING), "not so soon again");
        bell_crowded(&bell, false, 1300 * MS);
        cr_expect_eq(bell.state, BELL_ASLEEP);

        bell_rung(&bell, 1301 * MS);
        cr_expect(wishes(&bell, BELL_CHECK_CROWD));
        bell_crowded(&bell, true, 1302 * MS);
        cr_expect_eq(bell.state, BELL_AWAKE);
        bell_crowded(&bell, true, 1303 * MS);
        bell_own(&bell, false, 1304 * MS);
        bell_crowded(&bell, true, 1305 * MS);
        cr_expect_eq(bell.state, BELL_OFF);
}

Test(bell, looks_for_a_crowd_between_two_waits)
{
        struct bell bell = drowsy();

        bell_rung(&bell, 1000 * MS);
        bell_rung(&bell, 1100 * MS);
        cr_expect(wishes(&bell, BELL_NOTHING), "the connection waits");
        bell_refused(&bell, 1200 * MS);
        cr_expect(wishes(&bell, BELL_CHECK_CROWD));
        cr_expect(wishes(&bell, BELL_AWAIT));
        bell_crowded(&bell, true, 1201 * MS);
        cr_expect_eq(bell.state, BELL_AWAKE);
}

/* Who skipped the bell a moment ago and has ended since is found a moment later; who needs an
 * hour may wait for an hour, but for the sweep. */
Test(bell, looks_at_growing_intervals_while_drowsy)
{
        struct bell bell = drowsy();
        int64_t now_us = 0;
        unsigned n_looks = 0;

        for (; now_us < 60000 * MS; n_looks++) {
                take_poll(&bell, now_us, 0, false);
                cr_expect_leq(bell_next_due(&bell), 2 * now_us + 2 * MS);
                cr_expect_leq(bell_next_due(&bell), now_us + 5000 * MS);
                now_us = bell_next_due(&bell);
        }
        cr_expect_lt(n_looks, 30u);
}

Test(bell, is_rung_while_drowsy)
{
        struct bell bell = drowsy();

        take_poll(&bell, 0, 0, false);
        bell_rung(&bell, 1 * MS);
        take_poll(&bell, 1 * MS, 0, true);
        cr_expect_eq(bell.state, BELL_DROWSY);
}

/* Rings order polls of their own; the pauses between the others depend on the time alone. */
Test(bell, keeps_its_intervals_when_it_is_rung_while_drowsy)
{
        struct bell bell = drowsy();

        for (int i = 0; i < 20; i++) {
                take_poll(&bell, i * 3 * MS, 0, true);
                bell_rung(&bell, (i + 1) * 3 * MS);
        }
        take_poll(&bell, 60 * MS, 0, true);
        cr_expect_eq(bell.state, BELL_DROWSY);
        cr_expect_leq(bell_next_due(&bell), 120 * MS);
}

Test(bell, wakes_up_when_it_is_rung_often_while_drowsy_and_gives_up_a_late_lock)
{
        struct bell bell = drowsy();

        ring(&bell, 8, 0, 1 * MS);
        cr_expect_eq(bell.state, BELL_AWAKE);
        cr_expect(wishes(&bell, BELL_NOTHING), "the wait goes on");
        bell_granted(&bell, 10 * MS);
        cr_expect_eq(bell.state, BELL_AWAKE);
        cr_expect(wishes(&bell, BELL_GIVE_UP));
}

Test(bell, sleeps_at_once_if_the_lock_was_granted_while_it_was_awake)
{
        struct bell bell = drowsy();

        ring(&bell, 8, 0, 0);
        stay_awake(&bell, 0, 100 * MS, 0);
        bell_granted(&bell, 101 * MS);
        take_poll(&bell, 102 * MS, 0, 0);
        cr_expect_eq(bell.state, BELL_ASLEEP);
        cr_expect(bell_wants_poll(&bell, 102 * MS));
        cr_expect(wishes(&bell, BELL_NOTHING));
}

Test(bell, asks_again_and_looks_often_when_its_wait_timed_out)
{
        struct bell bell = drowsy();
        int64_t now_us = 0, wait_ms = 100;

        for (int i = 0; i < 12; i++) {
                bell_refused(&bell, now_us);
                wait_ms = wait_ms * 2 < 10000 ? wait_ms * 2 : 10000;
                cr_expect_eq(awaits(&bell), wait_ms);
                take_poll(&bell, now_us, 0, false);
                cr_expect_eq(bell_next_due(&bell), now_us + 2 * MS);
                now_us += wait_ms * MS;
        }
        cr_expect_eq(bell.state, BELL_DROWSY);
}

Test(bell, waits_for_a_short_time_again_after_it_was_awake)
{
        struct bell bell = drowsy();

        bell_refused(&bell, 0);
        cr_expect_eq(awaits(&bell), 200);
        ring(&bell, 8, 0, 0);
        bell_refused(&bell, 0);
        cr_expect(wishes(&bell, BELL_NOTHING), "awake it wants no lock");
        stay_awake(&bell, 0, 200 * MS, 0);
        cr_expect_eq(awaits(&bell), 100);
}

Test(bell, is_drowsy_when_it_loses_the_lock_while_asleep)
{
        struct bell bell = asleep();

        bell_lost(&bell, 1000 * MS);
        cr_expect_eq(bell.state, BELL_DROWSY);
        cr_expect(wishes(&bell, BELL_NOTHING));
        take_poll(&bell, 1000 * MS, 0, false);
        cr_expect_eq(bell_next_due(&bell), 1002 * MS);

        bell_connected(&bell, 2000 * MS);
        cr_expect_eq(awaits(&bell), 100);
        take_poll(&bell, 2000 * MS, 0, false);
        cr_expect_eq(bell_next_due(&bell), 2002 * MS, "newcomers could skip the bell until now");
}

Test(bell, looks_often_when_the_connection_is_lost_during_its_wait)
{
        struct bell bell = drowsy();

        take_poll(&bell, 0, 0, false);
        take_poll(&bell, 1000 * MS, 0, false);
        bell_lost(&bell, 1001 * MS);
        take_poll(&bell, 1001 * MS, 0, false);
        cr_expect_eq(bell_next_due(&bell), 1003 * MS);
}

Test(bell, polls_while_no_writer_can_be_made_to_ring)
{
        struct bell bell = begin();
        int64_t now_us = 0;

        bell_own(&bell, true, 0);
        for (int i = 0; i < 30; i++, now_us = bell_next_due(&bell)) {
                take_poll(&bell, now_us, 0, false);
                cr_expect_leq(bell_next_due(&bell), now_us + 250 * MS);
        }
        cr_expect_gt(now_us, 1000 * MS);
        take_poll(&bell, now_us, 0, true);
        cr_expect_eq(bell.state, BELL_AWAKE);
}

Test(bell, uses_new_intervals_from_the_next_look_on)
{
        struct bell polling = begin(), sweeping = drowsy();

        bell_own(&polling, true, 0);
        take_poll(&polling, 60000 * MS, 0, false);
        bell_configure(&polling, 1000, 40);
        cr_expect_eq(bell_next_due(&polling), 60250 * MS, "as it was when it polled");
        take_poll(&polling, 60250 * MS, 0, false);
        cr_expect_eq(bell_next_due(&polling), 60290 * MS);

        take_poll(&sweeping, 60000 * MS, 0, false);
        bell_configure(&sweeping, 1000, 40);
        take_poll(&sweeping, 65000 * MS, 0, false);
        cr_expect_eq(bell_next_due(&sweeping), 66000 * MS);
}

Test(bell, gives_up_the_lock_with_the_last_lane)
{
        struct bell bell = asleep();

        bell_rung(&bell, 0);
        bell_own(&bell, false, 0);
        cr_expect_eq(bell.state, BELL_OFF);
        cr_expect(wishes(&bell, BELL_GIVE_UP));
        cr_expect_not(bell_wants_poll(&bell, 0));

        bell_own(&bell, true, 1 * MS);
        cr_expect_eq(bell.state, BELL_DROWSY);
        cr_expect(wishes(&bell, BELL_AWAIT));
}

Test(bell, gives_up_a_lock_that_is_granted_after_the_last_lane_went)
{
        struct bell bell = drowsy();

        bell_own(&bell, false, 0);
        bell_granted(&bell, 1 * MS);
        cr_expect_eq(bell.state, BELL_OFF);
        cr_expect(wishes(&bell, BELL_GIVE_UP));
}

Test(bell, has_a_name_for_each_state)
{
        cr_expect_str_eq(bell_state_name(BELL_OFF), "off");
        cr_expect_str_eq(bell_state_name(BELL_AWAKE), "awake");
        cr_expect_str_eq(bell_state_name(BELL_DROWSY), "drowsy");
        cr_expect_str_eq(bell_state_name(BELL_ASLEEP), "asleep");
}
