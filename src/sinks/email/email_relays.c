#include "sinks/email/email_relays.h"

#include "base/backoff.h"

#include <assert.h>

#define MAX_TIMES_THE_FIRST 60

void email_relays_init(struct email_relays *relays, unsigned n, int64_t backoff_ms)
{
        assert(n > 0 && n <= EMAIL_MAX_RELAYS);
        *relays = (struct email_relays){.n = n, .backoff_ms = backoff_ms};
}

static bool is_left_out(const struct email_relays *relays, unsigned i, int64_t now_ms)
{
        return relays->relay[i].n_failures > 0 &&
               (relays->relay[i].is_on_trial || now_ms < relays->relay[i].out_until_ms);
}

static bool all_are_left_out(const struct email_relays *relays, int64_t now_ms)
{
        for (unsigned i = 0; i < relays->n; i++)
                if (!is_left_out(relays, i, now_ms))
                        return false;
        return true;
}

bool email_relays_next(
    struct email_relays *relays, struct email_tour *tour, int64_t now_ms, unsigned *out_relay)
{
        if (tour->tried == 0)
                tour->is_last_resort = all_are_left_out(relays, now_ms);
        for (unsigned i = 0; i < relays->n; i++) {
                if (tour->tried & 1u << i)
                        continue;
                if (!tour->is_last_resort && is_left_out(relays, i, now_ms))
                        continue;
                tour->tried |= 1u << i;
                relays->relay[i].is_on_trial = relays->relay[i].n_failures > 0;
                *out_relay = i;
                return true;
        }
        return false;
}

void email_relays_worked(struct email_relays *relays, unsigned relay)
{
        relays->relay[relay].is_on_trial = false;
        relays->relay[relay].n_failures = 0;
}

void email_relays_failed(struct email_relays *relays, unsigned relay, int64_t now_ms)
{
        struct backoff backoff = {
            .first_ms = relays->backoff_ms,
            .factor = 2,
            .max_ms = relays->backoff_ms * MAX_TIMES_THE_FIRST,
        };

        /* Mails that were under way together fail together: that is one failure. */
        if (!relays->relay[relay].is_on_trial && is_left_out(relays, relay, now_ms))
                return;
        relays->relay[relay].is_on_trial = false;
        relays->relay[relay].n_failures++;
        relays->relay[relay].out_until_ms =
            now_ms + backoff_ms(&backoff, relays->relay[relay].n_failures, UINT32_MAX);
}

void email_relays_unknown(struct email_relays *relays, unsigned relay)
{
        relays->relay[relay].is_on_trial = false;
}
