/*
 * Random short lives of one lane. At the end of each the weather clears, and
 * everything must have been delivered and settled.
 *
 * HISTORY_SEED=n runs one history alone; n is what a failure prints.
 */
#include "support/lane_history.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#define N_HISTORIES 20000
#define FIRST_SEED  1

static uint64_t running_seed;

/* An assertion in the core or a sanitizer's complaint has a seed as well. */
const char *__asan_default_options(void);
const char *__asan_default_options(void)
{
        return "abort_on_error=1";
}

static void on_abort(int number)
{
        (void)number;
        fprintf(stderr, "HISTORY_SEED=%" PRIu64 ": aborted\n", running_seed);
}

static void write_any(struct history *history)
{
        static const char *const keys[] = {NULL, "a", "a", "b", "c"};
        struct fake_outbox *outbox = &history->outbox;
        size_t bytes = history_one_in(history, 10) ? 3000 : 10;

        if (history_one_in(history, 2)) {
                fake_outbox_insert(outbox, keys[history_roll_below(history, 5)], bytes,
                    !history_one_in(history, 5));
                return;
        }
        for (size_t i = 0; i < outbox->n_events; i++) {
                if (outbox->events[i].n_commit == 0 && history_one_in(history, 2)) {
                        fake_outbox_end(outbox, &outbox->events[i], !history_one_in(history, 10));
                        lane_ring(&history->lane);
                        return;
                }
        }
}

static void pass_time(struct history *history)
{
        int64_t due_ms = lane_next_due(&history->lane);

        if (due_ms > 0 && history_one_in(history, 2))
                history->now_ms = due_ms;
        else
                history->now_ms += history_roll_below(history, 50);
}

static void step(struct history *history)
{
        uint32_t dice = history_roll_below(history, 100);

        if (dice < 30)
                write_any(history);
        else if (dice < 55)
                history_answer(history);
        else if (dice < 80 && history->n_in_flight > 0)
                history_finish_any(history);
        else if (dice < 97)
                pass_time(history);
        else if (dice < 99)
                history_lose(history);
        else
                history_restart(history);
}

static bool is_waiting_for_answer(const struct history *history)
{
        return history->is_reading || history->is_drawing || history->is_settling;
}

/* Everything commits, everything succeeds, and the clock moves only when nothing else does. */
static void calm_down(struct history *history)
{
        int64_t due_ms = 0;

        history->is_calm = true;
        for (size_t i = 0; i < history->outbox.n_events; i++)
                if (history->outbox.events[i].n_commit == 0)
                        fake_outbox_end(&history->outbox, &history->outbox.events[i], true);
        lane_ring(&history->lane);
        for (int i = 0; i < 5000 && due_ms >= 0; i++) {
                history_pump(history);
                if (is_waiting_for_answer(history)) {
                        history_answer(history);
                } else if (history->n_in_flight > 0) {
                        history_finish_any(history);
                } else {
                        due_ms = lane_next_due(&history->lane);
                        history->now_ms = due_ms;
                }
        }
        must(history, due_ms < 0);
        must(history, lane_is_caught_up(&history->lane));
        for (size_t i = 0; i < history->outbox.n_events; i++) {
                const struct fake_event *event = &history->outbox.events[i];
                if (!event->is_ours || event->n_commit == FAKE_NEVER)
                        continue;
                must(history, history->fates[i].n_delivered > 0);
                must(history, fake_event_is_behind(event, &history->outbox.durable));
        }
}

static struct lane_policy roll_policy(struct history *history)
{
        return (struct lane_policy){.by_key = !history_one_in(history, 4),
            .sink_keeps_order = history_one_in(history, 3),
            .max_concurrent = history_roll_below(history, 4),
            .max_in_flight = 1 + history_roll_below(history, 12),
            .max_in_flight_bytes = 1000u << history_roll_below(history, 6),
            .retry = {.first_ms = 50, .factor = 2, .max_ms = 400}};
}

static void run(uint64_t seed)
{
        struct history *history = calloc(1, sizeof *history);
        struct lane_policy policy;
        unsigned n_steps;

        running_seed = seed;
        history_init(history, seed);
        policy = roll_policy(history);
        n_steps = 20 + history_roll_below(history, 200);
        history_start(history, &policy, 3 + history_roll_below(history, 30));

        for (unsigned i = 0; i < n_steps; i++) {
                history_pump(history);
                step(history);
        }
        calm_down(history);

        history_deinit(history);
        free(history);
}

Test(lane_histories, deliver_everything_in_order_and_repeat_no_more_than_the_window)
{
        const char *seed = getenv("HISTORY_SEED");

        signal(SIGABRT, on_abort);
        if (seed != NULL) {
                run(strtoull(seed, NULL, 10));
                return;
        }
        for (uint64_t i = 0; i < N_HISTORIES; i++)
                run(FIRST_SEED + i);
}
