/*
 * So many attempts a second and no more: a token bucket. Pure.
 *
 * The bucket is full at first; what is not used in time is lost beyond `burst`.
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

/* `burst` 0: what comes in a second, but at least one. */
void rate_init(struct rate *rate, double per_second, uint32_t burst);

/* When the next attempt may start; it may be long past. */
int64_t rate_due_ms(const struct rate *rate);

/* It may start whatever the clock says. */
bool rate_has_token(const struct rate *rate);

/* One has started. */
void rate_spend(struct rate *rate, int64_t now_ms);

/* It was not worth an attempt after all. */
void rate_give_back(struct rate *rate);
