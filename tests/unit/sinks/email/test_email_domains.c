#include "sinks/email/email_domains.h"

#include "base/alloc.h"
#include "pgcourier/outcome.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#define SECOND INT64_C(1000)
#define MINUTE (60 * SECOND)
#define HOUR   (60 * MINUTE)

static struct email_domains *domains;
static int64_t now;

static void start(double rate, unsigned concurrency, int64_t backoff_ms, size_t max_domains)
{
        now = 5 * HOUR;
        domains = email_domains_create(&(struct email_domain_limits){.rate = rate,
            .concurrency = concurrency,
            .backoff_ms = backoff_ms,
            .max_domains = max_domains});
}

static void stop(void)
{
        email_domains_destroy(domains);
}

TestSuite(email_domains, .fini = stop);

/* To one recipient, or to several with commas in between. */
static struct email_domain_set set_of(const char *recipients)
{
        struct email_domain_set set;
        char *list[8];
        size_t n = 0;
        char *copy = xstrdup(recipients);

        for (char *at = strtok(copy, ","); at != NULL; at = strtok(NULL, ","))
                list[n++] = at;
        email_domain_set_init(&set, list, n);
        free(copy);
        return set;
}

static int64_t enter(const char *recipients)
{
        struct email_domain_set set = set_of(recipients);
        const char *name = NULL;
        int64_t wait_ms = email_domains_enter(domains, &set, now, &name);

        email_domain_set_deinit(&set);
        return wait_ms;
}

static void leave(const char *recipients, int64_t took_ms)
{
        struct email_domain_set set = set_of(recipients);

        email_domains_leave(domains, &set, took_ms);
        email_domain_set_deinit(&set);
}

static void take(const char *recipient, bool is_first_try)
{
        struct email_domain_set set = set_of(recipient);

        cr_assert_eq(enter(recipient), 0);
        email_domains_on_taken(domains, &set, is_first_try);
        leave(recipient, 10);
        email_domain_set_deinit(&set);
}

static void refuse(
    const char *recipient, enum smtp_refusal refusal, bool is_first_try, int64_t hint_ms)
{
        cr_assert_eq(enter(recipient), 0);
        email_domains_on_refused(domains, recipient, refusal, is_first_try, hint_ms, now);
        leave(recipient, 10);
}

/* What a mail to it has to wait; nothing is sent. */
static int64_t wait_for(const char *recipient)
{
        int64_t wait_ms = enter(recipient);

        if (wait_ms == 0)
                leave(recipient, 10);
        return wait_ms;
}

Test(email_domains, names_each_domain_once_in_lower_case)
{
        struct email_domain_set set = set_of("a@B.example,b@b.EXAMPLE,c@d.example");

        start(0, 0, 0, 10);
        cr_assert_eq(set.n, 2);
        cr_expect_str_eq(set.names[0], "b.example");
        cr_expect_str_eq(set.names[1], "d.example");
        email_domain_set_deinit(&set);
}

Test(email_domains, lets_everything_through_without_limits)
{
        start(0, 0, 0, 10);
        for (int i = 0; i < 100; i++)
                cr_expect_eq(enter("a@b.example"), 0);
        for (int i = 0; i < 100; i++)
                leave("a@b.example", 1);
        refuse("a@b.example", SMTP_REFUSAL_OF_DOMAIN, true, 5 * MINUTE);
        cr_expect_eq(wait_for("a@b.example"), 0, "domain_backoff: 0");
}

Test(email_domains, rests_after_a_refusal_and_leaves_others_alone)
{
        start(0, 0, 10 * SECOND, 10);
        refuse("a@b.example", SMTP_REFUSAL_OF_DOMAIN, true, OUTCOME_NO_DELAY);

        cr_expect_eq(wait_for("c@B.example"), 10 * SECOND);
        cr_expect_eq(wait_for("a@d.example"), 0);
        cr_expect_eq(wait_for("x@d.example,a@b.example"), 10 * SECOND);
        now += 10 * SECOND;
        cr_expect_eq(wait_for("c@b.example"), 0);
}

Test(email_domains, does_not_rest_for_a_refusal_of_one_mail)
{
        start(0, 0, 10 * SECOND, 10);
        refuse("a@b.example", SMTP_REFUSAL_OF_MAIL, true, OUTCOME_NO_DELAY);
        cr_expect_eq(wait_for("c@b.example"), 0);
}

Test(email_domains, rests_for_twice_as_long_each_time_up_to_sixty_times)
{
        static const int64_t seconds[] = {10, 20, 40, 80, 160, 320, 600, 600};

        start(0, 0, 10 * SECOND, 10);
        for (size_t i = 0; i < sizeof seconds / sizeof *seconds; i++) {
                refuse("a@b.example", SMTP_REFUSAL_OF_DOMAIN, false, OUTCOME_NO_DELAY);
                cr_expect_eq(wait_for("a@b.example"), seconds[i] * SECOND);
                now += seconds[i] * SECOND;
        }
        take("a@b.example", false);
        refuse("a@b.example", SMTP_REFUSAL_OF_DOMAIN, false, OUTCOME_NO_DELAY);
        cr_expect_eq(wait_for("a@b.example"), 10 * SECOND);
}

Test(email_domains, counts_mails_that_were_refused_together_as_one_refusal)
{
        start(0, 0, 10 * SECOND, 10);
        for (int i = 0; i < 3; i++)
                cr_assert_eq(enter("a@b.example"), 0);
        for (int i = 0; i < 3; i++)
                email_domains_on_refused(
                    domains, "a@b.example", SMTP_REFUSAL_OF_DOMAIN, true, OUTCOME_NO_DELAY, now);
        cr_expect_eq(enter("a@b.example"), 10 * SECOND);
}

Test(email_domains, rests_as_long_as_the_server_asks_if_that_is_longer)
{
        start(0, 0, 10 * SECOND, 10);
        refuse("a@b.example", SMTP_REFUSAL_GREYLISTED, true, 300 * SECOND);
        cr_expect_eq(wait_for("a@b.example"), 300 * SECOND);
        refuse("a@d.example", SMTP_REFUSAL_GREYLISTED, true, 3 * SECOND);
        cr_expect_eq(wait_for("a@d.example"), 10 * SECOND);
}

Test(email_domains, learns_that_a_domain_greylists_each_recipient_once)
{
        start(0, 0, 10 * SECOND, 10);
        refuse("a@b.example", SMTP_REFUSAL_GREYLISTED, true, OUTCOME_NO_DELAY);
        now += 10 * SECOND;
        take("a@b.example", false);

        /* New recipients are put off, which is no news; one that had waited is. */
        refuse("c@b.example", SMTP_REFUSAL_GREYLISTED, true, OUTCOME_NO_DELAY);
        cr_expect_eq(wait_for("d@b.example"), 0);
        refuse("c@b.example", SMTP_REFUSAL_GREYLISTED, false, OUTCOME_NO_DELAY);
        cr_expect_eq(wait_for("d@b.example"), 10 * SECOND);
        now += 10 * SECOND;
        refuse("d@b.example", SMTP_REFUSAL_OF_DOMAIN, true, OUTCOME_NO_DELAY);
        cr_expect_eq(wait_for("d@b.example"), 20 * SECOND);
}

Test(email_domains, does_not_learn_greylisting_from_a_first_try)
{
        start(0, 0, 10 * SECOND, 10);
        refuse("a@b.example", SMTP_REFUSAL_GREYLISTED, true, OUTCOME_NO_DELAY);
        now += 10 * SECOND;
        take("known@b.example", true);
        refuse("c@b.example", SMTP_REFUSAL_GREYLISTED, true, OUTCOME_NO_DELAY);
        cr_expect_eq(wait_for("d@b.example"), 10 * SECOND);
}

Test(email_domains, keeps_to_the_rate_with_a_second_s_worth_at_once)
{
        start(2, 0, 0, 10);
        cr_expect_eq(wait_for("a@b.example"), 0);
        cr_expect_eq(wait_for("a@b.example"), 0);
        cr_expect_eq(wait_for("a@b.example"), 500);
        cr_expect_eq(wait_for("a@d.example"), 0);
        now += 500;
        cr_expect_eq(wait_for("a@b.example"), 0);
        cr_expect_gt(wait_for("a@b.example"), 0);
}

Test(email_domains, keeps_to_a_rate_below_one)
{
        start(0.1, 0, 0, 10);
        cr_expect_eq(wait_for("a@b.example"), 0);
        cr_expect_eq(wait_for("a@b.example"), 10 * SECOND);
        now += 10 * SECOND;
        cr_expect_eq(wait_for("a@b.example"), 0);
}

Test(email_domains, lets_waiting_mails_come_back_one_after_the_other)
{
        start(10, 0, 0, 10);
        for (int i = 0; i < 10; i++)
                cr_assert_eq(wait_for("a@b.example"), 0);
        for (int i = 1; i <= 50; i++)
                cr_expect_eq(wait_for("a@b.example"), i * 100);
        for (int i = 1; i <= 50; i++) {
                now += 100;
                cr_expect_eq(wait_for("a@b.example"), 0, "the turn of number %d", i);
        }
}

Test(email_domains, never_makes_a_mail_wait_longer_than_ten_minutes)
{
        start(1, 0, 0, 10);
        wait_for("a@b.example");
        for (int i = 0; i < 5000; i++)
                cr_assert_leq(wait_for("a@b.example"), 10 * MINUTE);
}

Test(email_domains, keeps_to_so_many_at_a_time)
{
        start(0, 2, 0, 10);
        cr_expect_eq(enter("a@b.example"), 0);
        cr_expect_eq(enter("a@b.example"), 0);
        cr_expect_gt(wait_for("a@b.example"), 0);
        cr_expect_gt(wait_for("a@b.example,a@d.example"), 0);
        cr_expect_eq(enter("a@d.example"), 0);
        leave("a@b.example", 100);
        cr_expect_eq(wait_for("a@b.example,a@e.example"), 0);
}

Test(email_domains, remembers_a_bounded_number_the_oldest_forgotten_first)
{
        char name[32];

        start(0, 0, 10 * SECOND, 100);
        refuse("a@first.example", SMTP_REFUSAL_OF_DOMAIN, true, HOUR);
        refuse("a@used.example", SMTP_REFUSAL_OF_DOMAIN, true, HOUR);
        cr_assert_eq(enter("a@busy.example"), 0);
        for (int i = 0; i < 500; i++) {
                snprintf(name, sizeof name, "a@d%d.example", i);
                cr_expect_eq(wait_for(name), 0);
                cr_assert_leq(email_domains_count(domains), 100);
                cr_assert_gt(wait_for("a@used.example"), 0);
        }
        cr_expect_eq(wait_for("a@first.example"), 0, "forgotten");
        leave("a@busy.example", 10); /* asserts that it is still known */
}

Test(email_domains, forgets_what_was_not_used_for_an_hour)
{
        start(0, 0, 10 * SECOND, 100);
        cr_expect_eq(wait_for("a@b.example"), 0);
        cr_expect_eq(wait_for("a@c.example"), 0);
        now += HOUR;
        cr_expect_eq(wait_for("a@d.example"), 0);
        cr_expect_eq(email_domains_count(domains), 1);
}
