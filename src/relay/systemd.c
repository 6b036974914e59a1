/*
 *   STARTING -ready-> READY -stopping-> STOPPING
 *   READY -reloading-> RELOADING -ready-> READY
 *
 * A lost database does not take READY back: systemd has no word for that. It is
 * said in the status, as is everything that an operator wants to see first.
 */
#include "relay/systemd.h"

#include "base/alloc.h"
#include "base/bytes.h"
#include "base/clock.h"
#include "base/sd_notify.h"
#include "log/log.h"
#include "loop/timer.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* How old the status may be; a sign of life is due at least three times in the watchdog's interval. */
#define TICK_MS 5000

enum service_state { SERVICE_STARTING, SERVICE_READY, SERVICE_RELOADING, SERVICE_STOPPING };

struct service {
        enum service_state state;
        service_words_fn *words;
        void *owner;
        struct timer *tick; /* owned; NULL: nobody listens */
        uint64_t tick_ms;
        bool has_watchdog;
        bool is_told;      /* that it cannot be told */
        char *waiting_for; /* owned; NULL: nothing */
        struct bytes words_sent;
};

static void tell(struct service *service, const char *lines)
{
        if (sd_notify_send(lines) || service->is_told)
                return;
        service->is_told = true;
        log_warn("service_manager_unreachable", kv_text("error", strerror(errno)),
            kv_text("hint", "NOTIFY_SOCKET is set, but nobody takes messages there"));
}

/* One line whatever is in it: a line of a peer's could be taken for one of ours. */
static void append_words(struct service *service, struct bytes *message)
{
        struct bytes words = {0};

        if (service->state == SERVICE_STOPPING)
                bytes_append_text(&words, "stopping: finishing what is in flight");
        else if (service->waiting_for != NULL)
                bytes_printf(&words, "waiting: %s", service->waiting_for);
        else if (service->state == SERVICE_STARTING)
                bytes_append_text(&words, "connecting to the database");
        else
                service->words(service->owner, &words);
        for (size_t i = 0; i < words.length; i++)
                if ((unsigned char)words.data[i] < ' ')
                        words.data[i] = ' ';
        if (words.length > 0 &&
            (service->words_sent.data == NULL || strcmp(words.data, service->words_sent.data) != 0))
                bytes_printf(message, "STATUS=%s\n", words.data);
        bytes_deinit(&service->words_sent);
        service->words_sent = words;
}

static void say(struct service *service, const char *lines)
{
        struct bytes message = {0};

        bytes_append_text(&message, lines);
        append_words(service, &message);
        if (message.length > 0)
                tell(service, message.data);
        bytes_deinit(&message);
}

static void on_tick(void *owner)
{
        struct service *service = owner;

        say(service, service->has_watchdog ? "WATCHDOG=1\n" : "");
        timer_arm(service->tick, service->tick_ms);
}

struct service *service_create(uv_loop_t *loop, service_words_fn *words, void *owner)
{
        const int64_t watchdog_us = sd_notify_watchdog_us();
        struct service *service = xcalloc(1, sizeof *service);

        service->words = words;
        service->owner = owner;
        if (!sd_notify_is_wanted())
                return service;
        service->has_watchdog = watchdog_us > 0;
        service->tick_ms = TICK_MS;
        if (service->has_watchdog && watchdog_us / 3000 < TICK_MS)
                service->tick_ms = (uint64_t)(watchdog_us / 3000) + 1;
        service->tick = timer_create_on(loop, on_tick, service);
        on_tick(service);
        return service;
}

void service_destroy(struct service *service)
{
        timer_destroy(service->tick);
        bytes_deinit(&service->words_sent);
        free(service->waiting_for);
        free(service);
}

void service_waiting(struct service *service, const char *reason)
{
        if (service->tick == NULL)
                return;
        free(service->waiting_for);
        service->waiting_for = xstrdup(reason);
        say(service, "");
}

void service_ready(struct service *service)
{
        if (service->tick == NULL || service->state == SERVICE_STOPPING)
                return;
        service->state = SERVICE_READY;
        free(service->waiting_for);
        service->waiting_for = NULL;
        say(service, "READY=1\n");
}

void service_reloaded(struct service *service)
{
        if (service->state != SERVICE_RELOADING)
                return;
        service->state = SERVICE_READY;
        say(service, "READY=1\n");
}

void service_reloading(struct service *service)
{
        struct bytes message = {0};

        if (service->tick == NULL || service->state != SERVICE_READY)
                return;
        service->state = SERVICE_RELOADING;
        bytes_printf(
            &message, "RELOADING=1\nMONOTONIC_USEC=%lld\n", (long long)clock_monotonic_us());
        say(service, message.data);
        bytes_deinit(&message);
}

void service_stopping(struct service *service)
{
        if (service->tick == NULL)
                return;
        service->state = SERVICE_STOPPING;
        say(service, "STOPPING=1\n");
}
