#include "lane/rate.h"

#include <math.h>

void rate_init(struct rate *rate, double per_second, uint32_t burst)
{
        double size = burst > 0 ? burst : per_second;

        *rate = (struct rate){.per_second = per_second, .burst = size < 1 ? 1 : size};
        rate->tokens = rate->burst;
}

/* The sum of many small refills falls short of a whole token by less than this. */
#define ROUNDING 1e-9

bool rate_has_token(const struct rate *rate)
{
        return rate->per_second <= 0 || rate->tokens >= 1.0 - ROUNDING;
}

int64_t rate_due_ms(const struct rate *rate)
{
        if (rate_has_token(rate))
                return rate->filled_ms;
        return rate->filled_ms + (int64_t)ceil((1.0 - rate->tokens) * 1000.0 / rate->per_second);
}

static double tokens_at(const struct rate *rate, int64_t now_ms)
{
        double tokens =
            rate->tokens + rate->per_second * (double)(now_ms - rate->filled_ms) / 1000.0;

        return tokens > rate->burst ? rate->burst : tokens;
}

void rate_spend(struct rate *rate, int64_t now_ms)
{
        if (rate->per_second <= 0)
                return;
        rate->tokens = tokens_at(rate, now_ms) - 1.0;
        rate->filled_ms = now_ms;
}

void rate_give_back(struct rate *rate)
{
        if (rate->per_second > 0)
                rate->tokens += 1.0;
}
