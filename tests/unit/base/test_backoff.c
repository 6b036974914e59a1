/* Backoff with its randomness pinned. */
#include "base/backoff.h"

#include <criterion/criterion.h>

static const struct backoff backoff = {.first_ms = 100, .factor = 2, .max_ms = 1000};

Test(backoff, doubles_its_ceiling_up_to_the_maximum)
{
        static const int64_t ceilings_ms[] = {100, 200, 400, 800, 1000, 1000};

        for (uint32_t i = 0; i < 6; i++)
                cr_expect_eq(backoff_ms(&backoff, i + 1, UINT32_MAX), ceilings_ms[i]);
}

Test(backoff, spreads_evenly_between_one_millisecond_and_its_ceiling)
{
        cr_expect_eq(backoff_ms(&backoff, 1, 0), 1);
        cr_expect_eq(backoff_ms(&backoff, 1, UINT32_MAX / 2), 50);
        cr_expect_eq(backoff_ms(&backoff, 1, UINT32_MAX / 4 * 3), 75);
}

Test(backoff, is_never_zero)
{
        const struct backoff zero = {.first_ms = 0, .factor = 1, .max_ms = 0};

        cr_expect_eq(backoff_ms(&zero, 1, UINT32_MAX), 1);
}

Test(backoff, stays_at_its_first_delay_with_a_factor_of_one)
{
        const struct backoff steady = {.first_ms = 100, .factor = 1, .max_ms = 1000};

        cr_expect_eq(backoff_ms(&steady, 50, UINT32_MAX), 100);
}

Test(backoff, does_not_overflow_after_any_number_of_failures)
{
        const struct backoff steep = {.first_ms = 1000, .factor = 100, .max_ms = INT64_C(1) << 31};

        cr_expect_eq(backoff_ms(&steep, UINT32_MAX, UINT32_MAX), INT64_C(1) << 31);
}

Test(backoff, keeps_to_a_maximum_below_its_first_delay)
{
        const struct backoff odd = {.first_ms = 5000, .factor = 2, .max_ms = 1000};

        cr_expect_eq(backoff_ms(&odd, 1, UINT32_MAX), 1000);
}

Test(backoff, does_not_overflow_with_any_delay)
{
        const struct backoff endless = {.first_ms = INT64_MAX, .factor = 1, .max_ms = INT64_MAX};

        cr_expect_eq(backoff_ms(&endless, UINT32_MAX, 0), 1);
        cr_expect_eq(backoff_ms(&endless, UINT32_MAX, UINT32_C(1) << 31), INT64_C(1) << 62);
        cr_expect_geq(backoff_ms(&endless, UINT32_MAX, UINT32_MAX), INT64_MAX - (INT64_C(1) << 31));
}
