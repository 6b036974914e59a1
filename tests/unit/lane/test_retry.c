/* When a failed delivery comes again and when it is given up, with the randomness pinned. */
#include "lane/retry.h"

#include "outbox/parked.h"

#include <criterion/criterion.h>
#include <stdio.h>

#define MAX_JITTER UINT32_MAX
#define DAY_MS     INT64_C(86400000)
#define GIVES_UP   (-1)
#define NO_DELAY   OUTCOME_NO_DELAY

static const int64_t list_ms[] = {1000, 50, 7000};

/* One failed attempt: of which policy, as how many, after how much; and what follows. */
struct row {
        struct retry_policy policy;
        uint32_t outcome_max_attempts;
        int64_t peer_delay_ms;
        uint32_t n_attempts;
        int64_t retried_ms;
        uint32_t jitter;
        int64_t delay_ms; /* or GIVES_UP, */
        enum dead_reason reason;
};

#define BACKOFF .backoff = {.first_ms = 100, .factor = 3, .max_ms = 1000}
#define LIST    .delays_ms = list_ms, .n_delays = 3

static void expect_row(const struct row *row, size_t i)
{
        struct outcome outcome = {.kind = OUTCOME_RETRY,
            .delay_ms = row->peer_delay_ms,
            .max_attempts = row->outcome_max_attempts};
        struct retry_decision decision =
            retry_decide(&row->policy, &outcome, row->n_attempts, row->retried_ms, row->jitter);

        cr_expect_eq(decision.gives_up, row->delay_ms == GIVES_UP, "row %zu gives up: %d", i,
            decision.gives_up);
        if (decision.gives_up)
                cr_expect_eq(decision.reason, row->reason, "row %zu gives up for '%s'", i,
                    dead_reason_name(decision.reason));
        else
                cr_expect_eq(decision.delay_ms, row->delay_ms, "row %zu waits %jd ms", i,
                    (intmax_t)decision.delay_ms);
}

#define EXPECT_ROWS(rows)                                                                          \
        for (size_t i = 0; i < sizeof(rows) / sizeof *(rows); i++)                                 \
        expect_row(&(rows)[i], i)

Test(retry, waits_for_a_random_part_of_the_backoff)
{
        static const struct row rows[] = {
            {{BACKOFF}, 0, NO_DELAY, 1, 0, MAX_JITTER, 100, 0},
            {{BACKOFF}, 0, NO_DELAY, 1, 0, 0, 1, 0},
            {{BACKOFF}, 0, NO_DELAY, 2, 100, MAX_JITTER, 300, 0},
            {{BACKOFF}, 0, NO_DELAY, 2, 100, MAX_JITTER / 2, 150, 0},
            {{BACKOFF}, 0, NO_DELAY, 3, 400, MAX_JITTER, 900, 0},
            {{BACKOFF}, 0, NO_DELAY, 4, 1300, MAX_JITTER, 1000, 0},
            {{BACKOFF}, 0, NO_DELAY, 5, 2300, 0, 1, 0},
        };

        EXPECT_ROWS(rows);
}

Test(retry, gives_up_after_the_policys_attempts)
{
        static const struct row rows[] = {
            {{BACKOFF, .max_attempts = 3}, 0, NO_DELAY, 2, 0, MAX_JITTER, 300, 0},
            {{BACKOFF, .max_attempts = 3}, 0, NO_DELAY, 3, 0, MAX_JITTER, GIVES_UP, DEAD_ATTEMPTS},
            {{BACKOFF, .max_attempts = 3}, 0, NO_DELAY, 4, 0, MAX_JITTER, GIVES_UP, DEAD_ATTEMPTS},
            {{BACKOFF, .max_attempts = 1}, 0, NO_DELAY, 1, 0, MAX_JITTER, GIVES_UP, DEAD_ATTEMPTS},
            {{BACKOFF}, 0, NO_DELAY, UINT32_MAX, 0, MAX_JITTER, 1000, 0},
        };

        EXPECT_ROWS(rows);
}

Test(retry, gives_up_after_the_outcomes_attempts_if_the_policy_would_go_on)
{
        static const struct row rows[] = {
            {{BACKOFF}, 5, NO_DELAY, 4, 0, MAX_JITTER, 1000, 0},
            {{BACKOFF}, 5, NO_DELAY, 5, 0, MAX_JITTER, GIVES_UP, DEAD_ATTEMPTS},
            {{BACKOFF, .max_attempts = 9}, 5, NO_DELAY, 5, 0, 0, GIVES_UP, DEAD_ATTEMPTS},
            {{BACKOFF, .max_attempts = 3}, 5, NO_DELAY, 3, 0, 0, GIVES_UP, DEAD_ATTEMPTS},
            {{BACKOFF, .max_attempts = 9}, 5, NO_DELAY, 4, 0, 0, 1, 0},
            {{LIST}, 2, NO_DELAY, 2, 0, 0, GIVES_UP, DEAD_ATTEMPTS},
        };

        EXPECT_ROWS(rows);
}

Test(retry, gives_up_when_the_next_delay_would_exceed_the_age)
{
        static const struct row rows[] = {
            {{BACKOFF, .max_age_ms = 500}, 0, NO_DELAY, 2, 200, MAX_JITTER, 300, 0},
            {{BACKOFF, .max_age_ms = 500}, 0, NO_DELAY, 2, 201, MAX_JITTER, GIVES_UP, DEAD_AGE},
            {{BACKOFF, .max_age_ms = 500}, 0, NO_DELAY, 2, 499, 0, 1, 0},
            {{BACKOFF, .max_age_ms = 500}, 0, NO_DELAY, 2, 500, 0, GIVES_UP, DEAD_AGE},
            {{BACKOFF, .max_age_ms = 500}, 0, 501, 1, 0, 0, GIVES_UP, DEAD_AGE},
            {{BACKOFF, .max_age_ms = 500}, 0, 500, 1, 0, 0, 500, 0},
            {{BACKOFF}, 0, NO_DELAY, 2, INT64_MAX, MAX_JITTER, 300, 0},
            /* Both at once: what can be counted comes first. */
            {{BACKOFF, .max_attempts = 2, .max_age_ms = 500}, 0, NO_DELAY, 2, 500, 0, GIVES_UP,
                DEAD_ATTEMPTS},
        };

        EXPECT_ROWS(rows);
}

Test(retry, follows_an_explicit_list_to_its_end)
{
        static const struct row rows[] = {
            {{LIST}, 0, NO_DELAY, 1, 0, 0, 1000, 0},
            {{LIST}, 0, NO_DELAY, 1, 0, MAX_JITTER, 1000, 0},
            {{LIST}, 0, NO_DELAY, 2, 1000, 0, 50, 0},
            {{LIST}, 0, NO_DELAY, 3, 1050, 0, 7000, 0},
            {{LIST}, 0, NO_DELAY, 4, 8050, 0, GIVES_UP, DEAD_ATTEMPTS},
            {{LIST}, 0, NO_DELAY, UINT32_MAX, 8050, 0, GIVES_UP, DEAD_ATTEMPTS},
            {{LIST}, 0, 60, 2, 1000, 0, 60, 0},
            {{LIST, .max_attempts = 2}, 0, NO_DELAY, 1, 0, 0, 1000, 0},
            {{LIST, .max_attempts = 2}, 0, NO_DELAY, 2, 0, 0, GIVES_UP, DEAD_ATTEMPTS},
            {{LIST, .max_attempts = 9}, 0, NO_DELAY, 4, 0, 0, GIVES_UP, DEAD_ATTEMPTS},
            {{LIST, .max_age_ms = 8050}, 0, NO_DELAY, 3, 1050, 0, 7000, 0},
            {{LIST, .max_age_ms = 8049}, 0, NO_DELAY, 3, 1050, 0, GIVES_UP, DEAD_AGE},
        };

        EXPECT_ROWS(rows);
}

Test(retry, lets_the_larger_of_its_own_and_the_peers_delay_win)
{
        static const struct row rows[] = {
            {{BACKOFF}, 0, 99, 1, 0, MAX_JITTER, 100, 0},
            {{BACKOFF}, 0, 101, 1, 0, MAX_JITTER, 101, 0},
            {{BACKOFF}, 0, 0, 1, 0, 0, 1, 0},
            {{BACKOFF}, 0, DAY_MS - 1, 1, 0, 0, DAY_MS - 1, 0},
            {{BACKOFF}, 0, DAY_MS, 1, 0, 0, DAY_MS, 0},
            {{BACKOFF}, 0, DAY_MS + 1, 1, 0, 0, DAY_MS, 0},
            {{BACKOFF}, 0, INT64_MAX, 1, 0, 0, DAY_MS, 0},
            /* The bound is the peer's, not the policy's. */
            {{.backoff = {.first_ms = 3 * DAY_MS, .factor = 1, .max_ms = 3 * DAY_MS}}, 0,
                2 * DAY_MS, 1, 0, MAX_JITTER, 3 * DAY_MS, 0},
        };

        EXPECT_ROWS(rows);
}

Test(retry, does_not_overflow)
{
        static const int64_t forever_ms[] = {INT64_MAX};
        static const struct row rows[] = {
            {{.delays_ms = forever_ms, .n_delays = 1}, 0, NO_DELAY, 1, INT64_MAX, 0, INT64_MAX, 0},
            {{.delays_ms = forever_ms, .n_delays = 1, .max_age_ms = INT64_MAX}, 0, NO_DELAY, 1,
                INT64_MAX, 0, GIVES_UP, DEAD_AGE},
            {{.delays_ms = forever_ms, .n_delays = 1, .max_age_ms = INT64_MAX}, 0, NO_DELAY, 1, 0,
                0, INT64_MAX, 0},
            {{.backoff = {INT64_MAX, 10, INT64_MAX}, .max_age_ms = 1}, 0, INT64_MAX, UINT32_MAX,
                INT64_MAX, MAX_JITTER, GIVES_UP, DEAD_AGE},
        };

        EXPECT_ROWS(rows);
}

Test(retry, has_the_words_of_the_tables)
{
        cr_expect_str_eq(parked_state_name(PARKED_RETRY), "retry");
        cr_expect_str_eq(parked_state_name(PARKED_BLOCKED), "blocked");
        cr_expect_str_eq(parked_state_name(PARKED_DELAYED), "delayed");
        cr_expect_str_eq(dead_reason_name(DEAD_REJECTED), "rejected");
        cr_expect_str_eq(dead_reason_name(DEAD_ATTEMPTS), "attempts");
        cr_expect_str_eq(dead_reason_name(DEAD_AGE), "age");
        cr_expect_str_eq(dead_reason_name(DEAD_TOO_LARGE), "too_large");
        cr_expect_str_eq(dead_reason_name(DEAD_UNJUDGED), "unjudged");
        cr_expect_str_eq(dead_reason_name(DEAD_SKIPPED), "skipped");
}
