#include "support/sink_driver.h"

#include "base/alloc.h"
#include "base/error.h"
#include "sinks/sink.h"
#include "support/process.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DEADLINE_MS 30000

void sink_driver_init(struct sink_driver *driver, const struct sink_ops *ops, const void *options)
{
        struct error error = {0};

        *driver = (struct sink_driver){0};
        uv_loop_init(&driver->loop);
        driver->attempts = xcalloc(SINK_DRIVER_MAX_ATTEMPTS, sizeof *driver->attempts);
        driver->sink = ops->open(
            &(struct sink_settings){.name = "driven", .options = options, .loop = &driver->loop},
            &error);
        if (driver->sink == NULL)
                test_abort("the sink does not open: %s", error.text);
}

static void on_closed(void *owner)
{
        *(bool *)owner = true;
}

void sink_driver_deinit(struct sink_driver *driver)
{
        bool is_closed = false;

        sink_close(driver->sink, on_closed, &is_closed);
        if (is_closed)
                test_abort("the sink was closed inside the call");
        uv_run(&driver->loop, UV_RUN_DEFAULT);
        if (!is_closed || uv_loop_close(&driver->loop) != 0)
                test_abort("the sink did not close, or left a handle behind");
        free(driver->attempts);
}

static void on_finished(struct attempt *attempt, const struct outcome *outcome)
{
        struct driven_attempt *driven = (struct driven_attempt *)attempt;

        driven->is_finished = true;
        driven->outcome = *outcome;
        driven->place = driven->driver->n_finished++;
}

size_t sink_driver_start(struct sink_driver *driver, const struct event *event)
{
        struct driven_attempt *driven = &driver->attempts[driver->n_started];

        if (driver->n_started == SINK_DRIVER_MAX_ATTEMPTS)
                test_abort("too many attempts");
        driven->driver = driver;
        driven->event = *event;
        driven->attempt =
            (struct attempt){.event = &driven->event, .number = 1, .on_finished = on_finished};
        sink_deliver(driver->sink, &driven->attempt);
        return driver->n_started++;
}

void sink_driver_flush(struct sink_driver *driver)
{
        sink_flush(driver->sink);
}

static void on_deadline(uv_timer_t *timer)
{
        (void)timer;
        test_abort("waited %d ms in vain for the sink", DEADLINE_MS);
}

static void on_pulse(uv_timer_t *timer)
{
        (void)timer;
}

static void on_timer_gone(uv_handle_t *handle)
{
        *(bool *)handle->data = true;
}

void sink_driver_run_until(
    struct sink_driver *driver, bool (*condition)(void *context), void *context)
{
        uv_timer_t deadline;
        uv_timer_t pulse; /* so that a condition outside the loop is looked at, too */
        bool is_gone[2] = {false, false};

        uv_timer_init(&driver->loop, &deadline);
        uv_timer_init(&driver->loop, &pulse);
        uv_timer_start(&deadline, on_deadline, DEADLINE_MS, 0);
        uv_timer_start(&pulse, on_pulse, 5, 5);
        deadline.data = &is_gone[0];
        pulse.data = &is_gone[1];
        while (!condition(context))
                uv_run(&driver->loop, UV_RUN_ONCE);
        uv_close((uv_handle_t *)&deadline, on_timer_gone);
        uv_close((uv_handle_t *)&pulse, on_timer_gone);
        while (!is_gone[0] || !is_gone[1])
                uv_run(&driver->loop, UV_RUN_NOWAIT);
}

static bool are_all_finished(void *context)
{
        const struct sink_driver *driver = context;

        return driver->n_finished == driver->n_started;
}

void sink_driver_finish(struct sink_driver *driver)
{
        sink_driver_run_until(driver, are_all_finished, driver);
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
                test_abort("the sink answered the probe inside the call");
        sink_driver_run_until(driver, is_probed, driver);
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
