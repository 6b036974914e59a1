#include "sinks/email/email_server.h"

#include <criterion/criterion.h>

static struct email_relays relays;
static int64_t now;

static void start(unsigned n)
{
        now = 1000000;
        email_relays_init(&relays, n, 5000);
}

/* The relay that a new mail is tried at first, or -1; it has no answer yet. */
static int first(void)
{
        struct email_tour tour = {0};
        unsigned relay;

        return email_relays_next(&relays, &tour, now, &relay) ? (int)relay : -1;
}

static void fail(unsigned relay)
{
        email_relays_failed(&relays, relay, now);
}

/* How long the only relay of three that fails is left out after this failure. */
static int64_t left_out_ms(void)
{
        int64_t began = now;
        int relay;

        fail(0);
        while ((relay = first()) != 0) {
                cr_assert_eq(relay, 1);
                email_relays_worked(&relays, 1);
                now += 5;
        }
        return now - began;
}

Test(email_relays, gives_the_first_as_long_as_it_is_well)
{
        start(3);
        for (int i = 0; i < 10; i++) {
                cr_expect_eq(first(), 0);
                email_relays_worked(&relays, 0);
        }
}

Test(email_relays, gives_each_once_and_in_order)
{
        struct email_tour tour = {0};
        unsigned relay;

        start(3);
        for (unsigned i = 0; i < 3; i++) {
                cr_assert(email_relays_next(&relays, &tour, now, &relay));
                cr_expect_eq(relay, i);
                fail(relay);
        }
        cr_expect_not(email_relays_next(&relays, &tour, now, &relay));
}

Test(email_relays, leaves_out_one_that_failed_and_comes_back_to_it)
{
        start(2);
        cr_expect_eq(left_out_ms(), 5000);
        email_relays_worked(&relays, 0);
        cr_expect_eq(first(), 0);
}

Test(email_relays, leaves_it_out_for_twice_as_long_up_to_sixty_times)
{
        static const int64_t expected[] = {
            5000, 10000, 20000, 40000, 80000, 160000, 300000, 300000, 300000};

        start(2);
        for (size_t i = 0; i < sizeof expected / sizeof *expected; i++)
                cr_expect_eq(left_out_ms(), expected[i], "%zu", i);
        email_relays_worked(&relays, 0);
        cr_expect_eq(left_out_ms(), 5000, "all is forgiven");
}

Test(email_relays, counts_mails_that_failed_together_as_one_failure)
{
        start(2);
        for (int i = 0; i < 8; i++)
                fail(0);
        now += 5000;
        cr_expect_eq(first(), 0);
}

Test(email_relays, sends_one_mail_ahead_to_one_that_may_be_back)
{
        start(2);
        fail(0);
        now += 5000;
        cr_expect_eq(first(), 0);
        cr_expect_eq(first(), 1, "the trial is still under way");
        email_relays_unknown(&relays, 0);
        cr_expect_eq(first(), 0, "it came to nothing: another mail is the trial");
        email_relays_worked(&relays, 0);
        cr_expect_eq(first(), 0);
        cr_expect_eq(first(), 0);
}

Test(email_relays, tries_all_in_order_when_all_are_left_out)
{
        struct email_tour tour = {0};
        unsigned relay;

        start(3);
        for (unsigned i = 0; i < 3; i++)
                fail(i);
        for (unsigned i = 0; i < 3; i++) {
                cr_assert(email_relays_next(&relays, &tour, now, &relay));
                cr_expect_eq(relay, i);
                fail(relay);
        }
        cr_expect_not(email_relays_next(&relays, &tour, now, &relay));
}

Test(email_relays, does_not_go_back_to_one_left_out_when_the_others_fail)
{
        struct email_tour tour = {0};
        unsigned relay;

        start(2);
        fail(0);
        cr_assert(email_relays_next(&relays, &tour, now, &relay));
        cr_expect_eq(relay, 1);
        fail(1);
        cr_expect_not(email_relays_next(&relays, &tour, now, &relay));
}
