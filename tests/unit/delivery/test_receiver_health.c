/* A receiver that fails: when it is told, when it is given up. */
#include "delivery/receiver_health.h"

#include <criterion/criterion.h>

#define DISABLE_MS (10 * HEALTH_NOTE_AFTER_MS)

static struct health health;

static enum health_news note(enum outcome_kind kind, int64_t now_ms)
{
        return health_note(&health, &(struct outcome){.kind = kind}, now_ms, DISABLE_MS);
}

static void begin(void)
{
        health_init(&health, -1, 0);
}

TestSuite(health, .init = begin);

Test(health, reports_a_failure_once_after_a_while_and_once_its_end)
{
        cr_expect_eq(note(OUTCOME_RETRY, 1000), HEALTH_NO_NEWS);
        cr_expect_eq(note(OUTCOME_SINK_DOWN, 1000 + HEALTH_NOTE_AFTER_MS - 1), HEALTH_NO_NEWS);
        cr_expect_eq(note(OUTCOME_RETRY, 1000 + HEALTH_NOTE_AFTER_MS), HEALTH_FAILING);
        cr_expect_eq(note(OUTCOME_RETRY, 2000 + HEALTH_NOTE_AFTER_MS), HEALTH_NO_NEWS);
        cr_expect_eq(note(OUTCOME_DELIVERED, 3000 + HEALTH_NOTE_AFTER_MS), HEALTH_RECOVERED);
        cr_expect_eq(note(OUTCOME_DELIVERED, 4000 + HEALTH_NOTE_AFTER_MS), HEALTH_NO_NEWS);
}

Test(health, says_nothing_about_a_short_failure)
{
        cr_expect_eq(note(OUTCOME_RETRY, 1000), HEALTH_NO_NEWS);
        cr_expect_eq(note(OUTCOME_DELIVERED, 2000), HEALTH_NO_NEWS);
        cr_expect_eq(note(OUTCOME_RETRY, 1000 + HEALTH_NOTE_AFTER_MS), HEALTH_NO_NEWS,
            "it began anew after the success");
}

Test(health, gives_up_after_its_time_and_says_so_once)
{
        cr_expect_eq(note(OUTCOME_RETRY, 0), HEALTH_NO_NEWS);
        cr_expect_eq(note(OUTCOME_RETRY, DISABLE_MS - 1), HEALTH_FAILING);
        cr_expect_eq(note(OUTCOME_RETRY, DISABLE_MS), HEALTH_HOPELESS);
        cr_expect_eq(note(OUTCOME_RETRY, DISABLE_MS + 1), HEALTH_NO_NEWS);
        cr_expect_eq(health.state, HEALTH_GIVEN_UP);
}

Test(health, is_never_given_up_by_time_without_a_limit)
{
        const struct outcome failure = {.kind = OUTCOME_RETRY};

        health_note(&health, &failure, 0, 0);
        cr_expect_eq(health_note(&health, &failure, 1000 * DISABLE_MS, 0), HEALTH_FAILING);
}

Test(health, gives_up_a_receiver_that_is_gone_at_once)
{
        const struct outcome gone = {
            .kind = OUTCOME_SINK_DOWN, .needs_operator = true, .is_gone = true};

        cr_expect_eq(health_note(&health, &gone, 5, 0), HEALTH_HOPELESS);
}

Test(health, ignores_outcomes_that_say_nothing_about_the_receiver)
{
        const struct outcome postponed = {
            .kind = OUTCOME_RETRY, .delay_ms = 5, .is_postponed = true};

        cr_expect_eq(note(OUTCOME_REJECTED, 0), HEALTH_NO_NEWS);
        cr_expect_eq(note(OUTCOME_CANCELLED, 0), HEALTH_NO_NEWS);
        cr_expect_eq(health_note(&health, &postponed, 0, DISABLE_MS), HEALTH_NO_NEWS);
        cr_expect_eq(health.state, HEALTH_WELL);
}

Test(health, continues_from_the_time_in_the_database)
{
        health_init(&health, DISABLE_MS - 1, 5000);
        cr_expect_eq(note(OUTCOME_RETRY, 5000), HEALTH_NO_NEWS, "it has been told");
        cr_expect_eq(note(OUTCOME_RETRY, 5001), HEALTH_HOPELESS);
        health_init(&health, 0, 5000);
        cr_expect_eq(note(OUTCOME_DELIVERED, 6000), HEALTH_RECOVERED);
}
