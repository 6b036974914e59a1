#include "telemetry/recent.h"

#include <string.h>

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

static unsigned place(int64_t step)
{
        return (unsigned)(step % MINUTES_KEPT);
}

static unsigned minute_place(int64_t step)
{
        return (unsigned)(step % MINUTES_MINUTE);
}

static double in_seconds(double us)
{
        return us < 0 ? MINUTES_UNKNOWN : us / 1e6;
}

static struct quantiles quantiles_of(const struct log_histogram *times)
{
        return (struct quantiles){.p50 = in_seconds(log_histogram_quantile(times, 0.5)),
            .p99 = in_seconds(log_histogram_quantile(times, 0.99))};
}

/* Steps without counts are not written to: most sinks need little of this memory. */
static void clear_times(struct log_histogram *times)
{
        if (times->n_values > 0)
                memset(times, 0, sizeof *times);
}

static void clear_step(struct minutes *minutes, int64_t step, int64_t backlog)
{
        minutes->n_delivered[place(step)] = 0;
        minutes->latency[place(step)] = (struct quantiles){MINUTES_UNKNOWN, MINUTES_UNKNOWN};
        minutes->backlog[place(step)] = backlog;
        for (unsigned what = 0; what < MINUTES_TIMES; what++)
                clear_times(&minutes->times[what][minute_place(step)]);
}

static void enter_step(struct minutes *minutes, int64_t step)
{
        minutes->step = step;
        minutes->place = place(step);
        minutes->minute_place = minute_place(step);
}

void minutes_init(struct minutes *minutes, int64_t now_us)
{
        for (int64_t step = 0; step < MINUTES_KEPT; step++)
                clear_step(minutes, step, MINUTES_UNKNOWN);
        minutes->start_us = now_us;
        enter_step(minutes, 0);
        minutes->step_end_us = now_us + MINUTES_STEP_US;
}

static void next_step(struct minutes *minutes)
{
        int64_t step = minutes->step;

        minutes->latency[place(step)] =
            quantiles_of(&minutes->times[MINUTES_LATENCY][minute_place(step)]);
        clear_step(minutes, step + 1, minutes->backlog[place(step)]);
        enter_step(minutes, step + 1);
        minutes->step_end_us += MINUTES_STEP_US;
}

void minutes_move_on(struct minutes *minutes, int64_t now_us)
{
        int64_t n_missed;

        if (now_us < minutes->step_end_us)
                return;
        /* After a long time without news only the last steps matter, and all of them are alike. */
        n_missed = (now_us - minutes->step_end_us) / MINUTES_STEP_US - MINUTES_KEPT;
        if (n_missed > 0) {
                n_missed -= n_missed % MINUTES_KEPT; /* whole turns, of both rings */
                enter_step(minutes, minutes->step + n_missed);
                minutes->step_end_us += n_missed * MINUTES_STEP_US;
        }
        while (now_us >= minutes->step_end_us)
                next_step(minutes);
}

void minutes_set_backlog(struct minutes *minutes, int64_t n_events, int64_t now_us)
{
        minutes_move_on(minutes, now_us);
        minutes->backlog[place(minutes->step)] = n_events < 0 ? MINUTES_UNKNOWN : n_events;
}

static struct quantiles of_minute(const struct minutes *minutes, unsigned what)
{
        struct log_histogram sum = {.n_values = 0};

        for (unsigned i = 0; i < MINUTES_MINUTE; i++)
                log_histogram_merge(&sum, &minutes->times[what][i]);
        return quantiles_of(&sum);
}

void minutes_last_minute(struct minutes *minutes, int64_t now_us, struct last_minute *out)
{
        int64_t begin_us, covered_us;
        uint64_t n_delivered = 0;

        minutes_move_on(minutes, now_us);
        begin_us = minutes->step_end_us - MINUTES_MINUTE * MINUTES_STEP_US;
        covered_us = now_us - (begin_us > minutes->start_us ? begin_us : minutes->start_us);
        if (covered_us < 1000000) /* the first moment says little of a rate */
                covered_us = 1000000;
        for (int64_t i = 0; i < MINUTES_MINUTE && i <= minutes->step; i++)
                n_delivered += minutes->n_delivered[place(minutes->step - i)];

        out->rate = (double)n_delivered / ((double)covered_us / 1e6);
        out->latency = of_minute(minutes, MINUTES_LATENCY);
        for (unsigned stage = 0; stage < STAGES; stage++)
                out->stages[stage] = of_minute(minutes, stage);
}

void minutes_series(
    struct minutes *minutes, int64_t now_us, struct minutes_step out_steps[MINUTES_STEPS])
{
        minutes_move_on(minutes, now_us);
        for (int64_t i = 0; i < MINUTES_STEPS; i++) {
                int64_t step = minutes->step - MINUTES_STEPS + i;
                struct minutes_step *out = &out_steps[i];

                *out = (struct minutes_step){
                    .latency = {MINUTES_UNKNOWN, MINUTES_UNKNOWN}, .backlog = MINUTES_UNKNOWN};
                if (step < 0)
                        continue;
                out->rate =
                    (double)minutes->n_delivered[place(step)] / ((double)MINUTES_STEP_US / 1e6);
                out->latency = minutes->latency[place(step)];
                out->backlog = minutes->backlog[place(step)];
        }
}
