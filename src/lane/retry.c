#include "lane/retry.h"

/* While others are taken, an event whose answers call for an operator is tried so often. */
enum { MOST_LIKELY_PERMANENT = 5 };

/* 0: any number. An outcome may only ask for fewer attempts than the policy allows. */
static uint32_t max_attempts(const struct retry_policy *policy, const struct outcome *outcome)
{
        uint32_t max = outcome->max_attempts;

        if (max == 0 && outcome->needs_operator)
                max = MOST_LIKELY_PERMANENT;
        if (policy->max_attempts == 0)
                return max;
        return max == 0 || max > policy->max_attempts ? policy->max_attempts : max;
}

static bool is_last_attempt(
    const struct retry_policy *policy, const struct outcome *outcome, uint32_t n_attempts)
{
        uint32_t max = max_attempts(policy, outcome);

        if (max != 0 && n_attempts >= max)
                return true;
        return policy->delays_ms != NULL && n_attempts > policy->n_delays;
}

static int64_t peer_delay_ms(const struct outcome *outcome)
{
        return outcome->delay_ms < RETRY_MAX_PEER_DELAY_MS ? outcome->delay_ms
                                                           : RETRY_MAX_PEER_DELAY_MS;
}

static bool exceeds_age(const struct retry_policy *policy, int64_t retried_ms, int64_t delay_ms)
{
        int64_t age_ms;

        if (policy->max_age_ms == 0)
                return false;
        return __builtin_add_overflow(retried_ms, delay_ms, &age_ms) || age_ms > policy->max_age_ms;
}

struct retry_decision retry_decide(const struct retry_policy *policy, const struct outcome *outcome,
    uint32_t n_attempts, int64_t retried_ms, uint32_t jitter)
{
        int64_t delay_ms;

        if (is_last_attempt(policy, outcome, n_attempts))
                return (struct retry_decision){.gives_up = true, .reason = DEAD_ATTEMPTS};
        if (policy->delays_ms != NULL)
                delay_ms = policy->delays_ms[n_attempts - 1];
        else
                delay_ms = backoff_ms(&policy->backoff, n_attempts, jitter);
        if (peer_delay_ms(outcome) > delay_ms)
                delay_ms = peer_delay_ms(outcome);
        if (exceeds_age(policy, retried_ms, delay_ms))
                return (struct retry_decision){.gives_up = true, .reason = DEAD_AGE};
        return (struct retry_decision){.delay_ms = delay_ms};
}
