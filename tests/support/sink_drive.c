#include "support/sink_drive.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/list.h"
#include "sinks/sink.h"
#include "support/process.h"

#define PATIENCE_MS 20000

static void on_finished(struct attempt *attempt, const struct outcome *outcome)
{
        struct try *try = list_owner(attempt, struct try, attempt);

        try->n_answers++;
        try->outcome = *outcome;
}

void sink_drive_begin(
    struct sink_drive *drive, const struct sink_ops *ops, const char *name, const void *options)
{
        struct error error = {.kind = ERROR_NONE};

        *drive = (struct sink_drive){.settings = {.name = name, .options = options}};
        uv_loop_init(&drive->loop);
        drive->settings.loop = &drive->loop;
        drive->sink = ops->open(&drive->settings, &error);
        if (drive->sink == NULL)
                test_abort("the sink does not open: %s", error.text);
}

static void on_closed(void *owner)
{
        struct sink_drive *drive = owner;

        drive->is_closed = true;
}

static bool is_closed(void *context)
{
        const struct sink_drive *drive = context;

        return drive->is_closed;
}

void sink_drive_close(struct sink_drive *drive)
{
        sink_close(drive->sink, on_closed, drive);
        if (drive->is_closed)
                test_abort("the sink reports its end inside close()");
        sink_drive_until(drive, is_closed, drive, "the sink's end");
        drive->sink = NULL;
}

void sink_drive_end(struct sink_drive *drive)
{
        if (drive->sink != NULL)
                sink_drive_close(drive);
        /* Look-ups that were cancelled still end, in their own time. */
        uv_run(&drive->loop, UV_RUN_DEFAULT);
        if (uv_loop_close(&drive->loop) != 0) {
                uv_print_all_handles(&drive->loop, stderr);
                test_abort("the sink left handles on the loop");
        }
}

static void on_wake_up(uv_timer_t *timer)
{
        (void)timer;
}

void sink_drive_until(
    struct sink_drive *drive, bool (*condition)(void *context), void *context, const char *what)
{
        int64_t deadline_us = clock_monotonic_us() + PATIENCE_MS * 1000;
        uv_timer_t wake_up; /* conditions may change outside the loop */

        uv_timer_init(&drive->loop, &wake_up);
        uv_timer_start(&wake_up, on_wake_up, 2, 2);
        while (!condition(context)) {
                uv_run(&drive->loop, UV_RUN_ONCE);
                if (clock_monotonic_us() > deadline_us)
                        test_abort("waited %d ms in vain: %s", PATIENCE_MS, what);
        }
        uv_close((uv_handle_t *)&wake_up, NULL);
        uv_run(&drive->loop, UV_RUN_NOWAIT);
}

void sink_drive_start(struct sink_drive *drive, struct try *try, const struct event *event)
{
        *try = (struct try){.attempt = {.event = event, .number = 1, .on_finished = on_finished}};
        sink_deliver(drive->sink, &try->attempt);
}

struct tries {
        struct try *tries;
        unsigned n;
};

static bool are_answered(void *context)
{
        const struct tries *all = context;

        for (unsigned i = 0; i < all->n; i++)
                if (all->tries[i].n_answers == 0)
                        return false;
        return true;
}

void sink_drive_wait(struct sink_drive *drive, struct try *tries, unsigned n_tries)
{
        struct tries all = {.tries = tries, .n = n_tries};

        sink_drive_until(drive, are_answered, &all, "answers to all attempts");
        for (unsigned i = 0; i < n_tries; i++)
                if (tries[i].n_answers != 1)
                        test_abort("an attempt was answered %u times", tries[i].n_answers);
}

struct outcome sink_drive_deliver(struct sink_drive *drive, const struct event *event)
{
        struct try try;

        sink_drive_start(drive, &try, event);
        sink_drive_wait(drive, &try, 1);
        return try.outcome;
}

static void on_probed(void *owner, const struct outcome *outcome)
{
        struct sink_drive *drive = owner;

        if (drive->is_probed)
                test_abort("the sink was probed once and answers twice");
        drive->is_probed = true;
        drive->probe_outcome = *outcome;
}

static bool is_probed(void *context)
{
        const struct sink_drive *drive = context;

        return drive->is_probed;
}

struct outcome sink_drive_probe(struct sink_drive *drive)
{
        drive->is_probed = false;
        sink_probe(drive->sink, on_probed, drive);
        if (drive->is_probed)
                test_abort("the sink answers inside probe()");
        sink_drive_until(drive, is_probed, drive, "the answer of a probe");
        return drive->probe_outcome;
}
