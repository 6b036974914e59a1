/*
 * A limit to attempts per second: a token bucket. Pure.
 *
 * The bucket is full at first, and never holds more than `burst` tokens.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct rate {
        double per_second; /* 0: no limit */
        double burst;      /* at least 1 */
        double tokens;
        int64_t filled_ms; /* the tokens are those of this moment */
};

/* `burst` 0: the tokens of one second, but at least one. */
void rate_init(struct rate *rate, double per_second, uint32_t burst);

/* When the next attempt may start; it may be long past. */
int64_t rate_due_ms(const struct rate *rate);

/* The next attempt may start whatever the clock says. */
bool rate_has_token(const struct rate *rate);

/* An attempt has started. */
void rate_spend(struct rate *rate, int64_t now_ms);

/* The attempt that started last does not count after all. */
void rate_give_back(struct rate *rate);
