/* The rate of the last minutes, and how long deliveries took. */
#include "telemetry/pace.h"

#include <criterion/criterion.h>

#define S INT64_C(1000000)

static struct pace *pace;

static void begin(void)
{
        pace = pace_create();
}

static void end(void)
{
        pace_destroy(pace);
}

TestSuite(pace, .init = begin, .fini = end);

Test(pace, has_no_figures_of_nothing)
{
        struct pace_figures figures = pace_figures(pace, 1000 * S);

        cr_expect_eq(figures.rate, 0);
        cr_expect_eq(figures.p50_us, -1);
        cr_expect_eq(figures.p99_us, -1);
}

Test(pace, tells_the_rate_since_the_first_and_the_times_of_the_newest)
{
        struct pace_figures figures;

        for (int i = 1; i <= 100; i++)
                pace_see(pace, 1000 * S + i * S / 10, i);
        figures = pace_figures(pace, 1010 * S);
        cr_expect_float_eq(figures.rate, 10, 0.2);
        cr_expect_eq(figures.p50_us, 68); /* of 37 to 100 */
        cr_expect_eq(figures.p99_us, 100);
}

Test(pace, says_no_more_than_there_was_within_the_first_second)
{
        pace_see(pace, 1000 * S, 7);
        cr_expect_eq(pace_figures(pace, 1000 * S + 1).rate, 1);
}

/* A lane that delivers seldom keeps little, and never something of an hour ago. */
Test(pace, forgets_what_is_older_than_six_minutes)
{
        struct pace_figures figures;

        for (int i = 0; i < 60; i++)
                pace_see(pace, (1000 + 60 * i) * S, 1000 + i);
        figures = pace_figures(pace, (1000 + 60 * 59) * S);
        cr_expect_eq(figures.p99_us, 1059);
        cr_expect_eq(figures.p50_us, 1056); /* of 1054 to 1059 */
        cr_expect_float_eq(figures.rate, 1 / 60.0, 0.005);
        cr_expect_eq(pace_figures(pace, (1000 + 60 * 59 + 400) * S).p50_us, -1);
}

/* More room is made in the midst of a round, and the oldest go first. */
Test(pace, keeps_the_newest_when_a_slow_lane_becomes_quick)
{
        struct pace_figures figures;

        for (int i = 0; i < 13; i++)
                pace_see(pace, (1000 + 300 * i) * S, 5000);
        for (int i = 1; i <= 66; i++)
                pace_see(pace, 10000 * S + i, i <= 2 ? 5000 : i);
        figures = pace_figures(pace, 10001 * S);
        cr_expect_eq(figures.p50_us, 34); /* of 3 to 66 */
        cr_expect_eq(figures.p99_us, 66);
        cr_expect_float_eq(figures.rate, 66 / 341.0, 0.001); /* since 9660 s */
}
