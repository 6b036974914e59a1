/* So many attempts a second and no more. */
#include "lane/rate.h"

#include <criterion/criterion.h>

static unsigned spend_all(struct rate *rate, int64_t now_ms)
{
        unsigned n = 0;

        for (; n < 1000 && rate_due_ms(rate) <= now_ms; n++)
                rate_spend(rate, now_ms);
        return n;
}

Test(rate, begins_with_a_full_burst_and_then_keeps_to_its_pace)
{
        struct rate rate;
        unsigned n = 0;

        rate_init(&rate, 10, 5);
        cr_expect_eq(spend_all(&rate, 1000), 5);
        cr_expect_eq(rate_due_ms(&rate), 1100);
        for (int64_t now_ms = 1000; now_ms <= 11000; now_ms++)
                n += spend_all(&rate, now_ms);
        cr_expect_eq(n, 100);
}

Test(rate, saves_no_more_than_the_burst)
{
        struct rate rate;

        rate_init(&rate, 10, 5);
        cr_expect_eq(spend_all(&rate, 1000), 5);
        cr_expect_eq(spend_all(&rate, 3600 * 1000), 5);
}

Test(rate, has_a_burst_of_one_second_by_default_and_of_one_token_at_least)
{
        struct rate rate;

        rate_init(&rate, 7, 0);
        cr_expect_eq(spend_all(&rate, 0), 7);
        rate_init(&rate, 0.25, 0);
        cr_expect_eq(spend_all(&rate, 0), 1);
        cr_expect_eq(rate_due_ms(&rate), 4000);
}

Test(rate, is_without_a_limit_at_zero)
{
        struct rate rate;

        rate_init(&rate, 0, 0);
        cr_expect_eq(spend_all(&rate, 0), 1000);
        cr_expect(rate_has_token(&rate));
        rate_give_back(&rate);
        cr_expect_eq(spend_all(&rate, 0), 1000);
}

Test(rate, takes_back_a_token_that_was_not_used)
{
        struct rate rate;

        rate_init(&rate, 1, 1);
        rate_spend(&rate, 1000);
        cr_expect_not(rate_has_token(&rate));
        rate_give_back(&rate);
        cr_expect(rate_has_token(&rate));
        cr_expect_eq(spend_all(&rate, 1000), 1);
        rate_give_back(&rate);
        rate_give_back(&rate);
        cr_expect_eq(spend_all(&rate, 60000), 1, "never more than the burst");
}

Test(rate, loses_nothing_to_rounding)
{
        struct rate rate;
        unsigned n = 0;

        rate_init(&rate, 3, 1);
        for (int64_t now_ms = 0; now_ms < 1000 * 1000; now_ms = rate_due_ms(&rate), n++)
                rate_spend(&rate, now_ms);
        cr_expect(n >= 2990 && n <= 3001, "%u", n);
}
