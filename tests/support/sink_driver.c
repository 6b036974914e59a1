#include "support/sink_driver.h"

#include "base/alloc.h"
#include "base/error.h"
#include "base/list.h"
#include "sinks/sink_contract.h"
#include "support/process.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DEADLINE_MS = 120 * 1000, PULSE_MS = 2 };

static void on_deadline(uv_timer_t *timer)
{
        const struct sink_driver *driver = timer->data;

        test_abort("waited %d ms in vain for %s; %zu of %zu attempts are finished", DEADLINE_MS,
            driver->awaited, driver->n_finished, driver->n_started);
}

static void on_pulse(uv_timer_t *timer)
{
        (void)timer;
}

static void start_deadline(struct sink_driver *driver, const char *awaited)
{
        driver->awaited = awaited;
        uv_update_time(&driver->loop); /* the test may have been busy elsewhere */
        uv_timer_start(&driver->deadline, on_deadline, DEADLINE_MS, 0);
}

void sink_driver_init(struct sink_driver *driver, const struct sink_ops *ops, const void *options)
{
        sink_driver_init_for(driver, ops, options, 0);
}

void sink_driver_init_for(struct sink_driver *driver, const struct sink_ops *ops,
    const void *options, unsigned concurrency)
{
        const struct sink_settings settings = {.name = "driven",
            .options = options,
            .loop = &driver->loop,
            .by_key = true,
            .concurrency = concurrency};
        struct error error = {.kind = ERROR_NONE};

        signal(SIGPIPE, SIG_IGN);
        *driver = (struct sink_driver){0};
        uv_loop_init(&driver->loop);
        uv_timer_init(&driver->loop, &driver->deadline);
        uv_timer_init(&driver->loop, &driver->pulse);
        driver->deadline.data = driver;
        uv_unref((uv_handle_t *)&driver->deadline);
        driver->attempts = xcalloc(SINK_DRIVER_MAX_ATTEMPTS, sizeof *driver->attempts);
        driver->sink = ops->open(&settings, &error);
        if (driver->sink == NULL)
                test_abort("the sink does not open: %s", error.text);
}

static void on_closed(void *owner)
{
        struct sink_driver *driver = owner;

        if (driver->is_closed)
                test_abort("the sink says twice that it is closed");
        driver->is_closed = true;
}

static bool is_closed(void *context)
{
        return ((const struct sink_driver *)context)->is_closed;
}

void sink_driver_start_close(struct sink_driver *driver)
{
        struct sink *sink = driver->sink;

        driver->sink = NULL;
        sink_close(sink, on_closed, driver);
        if (driver->is_closed)
                test_abort("the sink says inside close() that it is closed");
}

void sink_driver_close(struct sink_driver *driver)
{
        if (driver->sink != NULL)
                sink_driver_start_close(driver);
        sink_driver_run_until(driver, is_closed, driver, "the sink's end");
}

void sink_driver_deinit(struct sink_driver *driver)
{
        sink_driver_close(driver);
        /* What was cancelled in the thread pool still ends, in its own time. */
        start_deadline(driver, "the loop to run dry");
        uv_run(&driver->loop, UV_RUN_DEFAULT);
        uv_close((uv_handle_t *)&driver->deadline, NULL);
        uv_close((uv_handle_t *)&driver->pulse, NULL);
        uv_run(&driver->loop, UV_RUN_DEFAULT);
        if (uv_loop_close(&driver->loop) != 0) {
                uv_print_all_handles(&driver->loop, stderr);
                test_abort("the sink left a handle on the loop");
        }
        free(driver->attempts);
}

static void on_finished(struct attempt *attempt, const struct outcome *outcome)
{
        struct driven_attempt *driven = list_owner(attempt, struct driven_attempt, attempt);
        struct sink_driver *driver = driven->driver;

        if (driven->is_finished)
                test_abort("attempt %td was finished twice", driven - driver->attempts);
        driven->is_finished = true;
        driven->outcome = *outcome;
        driven->place = driver->n_finished++;
        if (driver->on_finished != NULL)
                driver->on_finished(driver);
}

size_t sink_driver_start(struct sink_driver *driver, const struct event *event)
{
        size_t number = driver->n_started;
        struct driven_attempt *driven = &driver->attempts[number];

        if (number == SINK_DRIVER_MAX_ATTEMPTS)
                test_abort("more than %d attempts", SINK_DRIVER_MAX_ATTEMPTS);
        driver->n_started++;
        driven->driver = driver;
        driven->event = *event;
        driven->attempt = (struct attempt){.event = &driven->event,
            .number = 1,
            .target = driver->target,
            .on_finished = on_finished};
        sink_deliver(driver->sink, &driven->attempt);
        return number;
}

void sink_driver_flush(struct sink_driver *driver)
{
        sink_flush(driver->sink);
}

void sink_driver_run_until(struct sink_driver *driver, bool (*condition)(void *context),
    void *context, const char *awaited)
{
        start_deadline(driver, awaited);
        uv_timer_start(&driver->pulse, on_pulse, PULSE_MS, PULSE_MS);
        while (!condition(context))
                uv_run(&driver->loop, UV_RUN_ONCE);
        uv_timer_stop(&driver->deadline);
        uv_timer_stop(&driver->pulse);
}

static bool are_all_finished(void *context)
{
        const struct sink_driver *driver = context;

        return driver->n_finished == driver->n_started;
}

void sink_driver_finish(struct sink_driver *driver)
{
        sink_driver_run_until(driver, are_all_finished, driver, "answers to all attempts");
}

struct outcome sink_driver_deliver(struct sink_driver *driver, const struct event *event)
{
        size_t number = sink_driver_start(driver, event);

        sink_driver_flush(driver);
        sink_driver_finish(driver);
        return driver->attempts[number].outcome;
}

static void on_probed(void *owner, const struct outcome *outcome)
{
        struct sink_driver *driver = owner;

        if (driver->is_probed)
                test_abort("the sink was probed once and answers twice");
        driver->is_probed = true;
        driver->probe_outcome = *outcome;
}

static bool is_probed(void *context)
{
        return ((const struct sink_driver *)context)->is_probed;
}

struct outcome sink_driver_probe(struct sink_driver *driver)
{
        driver->is_probed = false;
        sink_probe(driver->sink, on_probed, driver);
        if (driver->is_probed)
                test_abort("the sink answers inside probe()");
        sink_driver_run_until(driver, is_probed, driver, "the answer to a probe");
        return driver->probe_outcome;
}

struct event sample_event(int64_t number, const char *json)
{
        struct event event = {.id = number,
            .topic = "orders",
            .key = "42",
            .type = "order.paid",
            .payload = json,
            .payload_bytes = strlen(json),
            .is_json = true,
            .created_us = 1793620800123456};

        snprintf(event.event_id, sizeof event.event_id, "00000000-0000-4000-8000-%012llx",
            (unsigned long long)number);
        return event;
}
