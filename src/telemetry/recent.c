#include "telemetry/recent.h"

bool recent_admits(struct recent *recent, bool is_good, int64_t now_us)
{
        int64_t second = now_us / 1000000;
        unsigned *n = is_good ? &recent->n_good : &recent->n_failed;

        if (second != recent->second) {
                recent->second = second;
                recent->n_good = 0;
                recent->n_failed = 0;
        }
        if (*n >= (is_good ? RECENT_GOOD_PER_S : RECENT_FAILED_PER_S)) {
                recent->n_left_out++;
                return false;
        }
        ++*n;
        return true;
}

struct recent_delivery *recent_next(struct recent *recent)
{
        return &recent->entries[recent->n_noted % RECENT_MAX];
}

void recent_noted(struct recent *recent)
{
        const struct recent_delivery *delivery = recent_next(recent);

        recent->n_noted++;
        if (recent->on_noted != NULL)
                recent->on_noted(recent->owner, delivery);
}

unsigned recent_count(const struct recent *recent)
{
        return recent->n_noted < RECENT_MAX ? (unsigned)recent->n_noted : RECENT_MAX;
}

const struct recent_delivery *recent_get(const struct recent *recent, unsigned i)
{
        return &recent->entries[(recent->n_noted - 1 - i) % RECENT_MAX];
}
