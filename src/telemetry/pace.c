#include "telemetry/pace.h"

#include <stdlib.h>

#define MINUTE_US INT64_C(60000000)

/* Minutes that are over make room. */
static void move_on(struct pace *pace, int64_t now_us)
{
        int64_t minute = pace->newest_us / MINUTE_US, now = now_us / MINUTE_US;

        if (now - minute > PACE_MINUTES)
                minute = now - PACE_MINUTES;
        while (minute < now)
                pace->counts[++minute % PACE_MINUTES] = 0;
        if (now_us > pace->newest_us)
                pace->newest_us = now_us;
}

void pace_see(struct pace *pace, int64_t at_us, int64_t took_us)
{
        uint64_t i = pace->n_times++ % PACE_TIMES;

        move_on(pace, at_us);
        if (pace->first_us == 0)
                pace->first_us = at_us;
        pace->counts[at_us / MINUTE_US % PACE_MINUTES]++;
        pace->at_s[i] = (uint32_t)(at_us / 1000000);
        pace->took_us[i] = took_us > INT32_MAX ? INT32_MAX : (uint32_t)took_us;
}

static int compare(const void *a, const void *b)
{
        uint32_t left = *(const uint32_t *)a, right = *(const uint32_t *)b;

        return left < right ? -1 : left > right;
}

struct pace_figures pace_figures(struct pace *pace, int64_t now_us)
{
        struct pace_figures figures = {.p50_us = -1, .p99_us = -1};
        int64_t minute = now_us / MINUTE_US;
        int64_t since_us = minute >= PACE_MINUTES ? (minute - PACE_MINUTES + 1) * MINUTE_US : 0;
        uint32_t took_us[PACE_TIMES];
        uint64_t n_counted = 0;
        unsigned n = 0;

        move_on(pace, now_us);
        for (unsigned i = 0; i < PACE_MINUTES; i++)
                n_counted += pace->counts[i];
        for (unsigned i = 0; i < PACE_TIMES && i < pace->n_times; i++)
                if (pace->at_s[i] >= (uint32_t)(since_us / 1000000))
                        took_us[n++] = pace->took_us[i];
        if (n == 0)
                return figures;
        if (pace->first_us > since_us)
                since_us = pace->first_us;
        if (now_us - since_us < 1000000) /* the first second would tell too much */
                since_us = now_us - 1000000;
        qsort(took_us, n, sizeof *took_us, compare);
        figures.rate = (double)n_counted * 1e6 / (double)(now_us - since_us);
        figures.p50_us = (int32_t)took_us[(n - 1) / 2];
        figures.p99_us = (int32_t)took_us[(n * 99 - 1) / 100];
        return figures;
}
