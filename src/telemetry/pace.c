#include "telemetry/pace.h"

#include "base/alloc.h"

#include <stdlib.h>

#define MINUTE_US  INT64_C(60000000)
#define MINUTES    6
#define FEW_TIMES  8
#define MANY_TIMES 64

struct pace {
        int64_t first_us; /* monotonic clock, as newest_us; 0: nothing was delivered */
        int64_t newest_us;
        uint32_t counts[MINUTES]; /* by minute modulo MINUTES */
        uint32_t room;            /* of took_us */
        uint64_t n_times;         /* the newest is at (n_times - 1) % room */
        uint32_t *took_us;        /* owned */
};

struct pace *pace_create(void)
{
        struct pace *pace = xcalloc(1, sizeof *pace);

        pace->room = FEW_TIMES;
        pace->took_us = xcalloc(pace->room, sizeof *pace->took_us);
        return pace;
}

void pace_destroy(struct pace *pace)
{
        if (pace == NULL)
                return;
        free(pace->took_us);
        free(pace);
}

/* Minutes that are over make room. */
static void move_on(struct pace *pace, int64_t now_us)
{
        int64_t minute = pace->newest_us / MINUTE_US, now = now_us / MINUTE_US;

        if (now - minute > MINUTES)
                minute = now - MINUTES;
        while (minute < now)
                pace->counts[++minute % MINUTES] = 0;
        if (now_us > pace->newest_us)
                pace->newest_us = now_us;
}

static uint64_t count(const struct pace *pace)
{
        uint64_t n = 0;

        for (unsigned i = 0; i < MINUTES; i++)
                n += pace->counts[i];
        return n;
}

/* The oldest first, in more room. */
static void grow(struct pace *pace)
{
        uint32_t *more = xcalloc(MANY_TIMES, sizeof *more);

        for (uint32_t i = 0; i < pace->room; i++)
                more[i] = pace->took_us[(pace->n_times - pace->room + i) % pace->room];
        free(pace->took_us);
        pace->took_us = more;
        pace->n_times = pace->room;
        pace->room = MANY_TIMES;
}

void pace_see(struct pace *pace, int64_t at_us, int64_t took_us)
{
        move_on(pace, at_us);
        if (pace->room < MANY_TIMES && count(pace) >= pace->room)
                grow(pace);
        if (pace->first_us == 0)
                pace->first_us = at_us;
        pace->counts[at_us / MINUTE_US % MINUTES]++;
        pace->took_us[pace->n_times++ % pace->room] =
            took_us > INT32_MAX ? INT32_MAX : (uint32_t)took_us;
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
        int64_t since_us = minute >= MINUTES ? (minute - MINUTES + 1) * MINUTE_US : 0;
        uint32_t took_us[MANY_TIMES];
        uint64_t n_counted;
        uint32_t n;

        move_on(pace, now_us);
        n_counted = count(pace);
        n = n_counted < pace->room ? (uint32_t)n_counted : pace->room;
        if (n == 0)
                return figures;
        for (uint32_t i = 0; i < n; i++)
                took_us[i] = pace->took_us[(pace->n_times - 1 - i) % pace->room];
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
