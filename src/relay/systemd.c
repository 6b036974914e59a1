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

enum systemd_state { SERVICE_STARTING, SERVICE_READY, SERVICE_RELOADING, SERVICE_STOPPING };

struct systemd {
        enum systemd_state state;
        systemd_status_fn *words;
        void *owner;
        struct timer *tick; /* owned; NULL: nobody listens */
        uint64_t tick_ms;
        bool has_watchdog;
        bool is_told;      /* that it cannot be told */
        char *waiting_for; /* owned; NULL: nothing */
        struct bytes words_sent;
};

static void tell(struct systemd *systemd, const char *lines)
{
        if (sd_notify_send(lines) || systemd->is_told)
                return;
        systemd->is_told = true;
        log_warn("service_manager_unreachable", kv_text("error", strerror(errno)),
            kv_text("hint", "NOTIFY_SOCKET is set, but nobody takes messages there"));
}

/* One line whatever is in it: a line of a peer's could be taken for one of ours. */
static void append_words(struct systemd *systemd, struct bytes *message)
{
        struct bytes words = {0};

        if (systemd->state == SERVICE_STOPPING)
                bytes_append_text(&words, "stopping: finishing what is in flight");
        else if (systemd->waiting_for != NULL)
                bytes_printf(&words, "waiting: %s", systemd->waiting_for);
        else if (systemd->state == SERVICE_STARTING)
                bytes_append_text(&words, "connecting to the database");
        else
                systemd->words(systemd->owner, &words);
        for (size_t i = 0; i < words.length; i++)
                if ((unsigned char)words.data[i] < ' ')
                        words.data[i] = ' ';
        if (words.length > 0 &&
            (systemd->words_sent.data == NULL || strcmp(words.data, systemd->words_sent.data) != 0))
                bytes_printf(message, "STATUS=%s\n", words.data);
        bytes_deinit(&systemd->words_sent);
        systemd->words_sent = words;
}

static void say(struct systemd *systemd, const char *lines)
{
        struct bytes message = {0};

        bytes_append_text(&message, lines);
        append_words(systemd, &message);
        if (message.length > 0)
                tell(systemd, message.data);
        bytes_deinit(&message);
}

static void on_tick(void *owner)
{
        struct systemd *systemd = owner;

        say(systemd, systemd->has_watchdog ? "WATCHDOG=1\n" : "");
        timer_arm(systemd->tick, systemd->tick_ms);
}

struct systemd *systemd_create(uv_loop_t *loop, systemd_status_fn *words, void *owner)
{
        const int64_t watchdog_us = sd_notify_watchdog_us();
        struct systemd *systemd = xcalloc(1, sizeof *systemd);

        systemd->words = words;
        systemd->owner = owner;
        if (!sd_notify_is_wanted())
                return systemd;
        systemd->has_watchdog = watchdog_us > 0;
        systemd->tick_ms = TICK_MS;
        if (systemd->has_watchdog && watchdog_us / 3000 < TICK_MS)
                systemd->tick_ms = (uint64_t)(watchdog_us / 3000) + 1;
        systemd->tick = timer_create_on(loop, on_tick, systemd);
        on_tick(systemd);
        return systemd;
}

void systemd_destroy(struct systemd *systemd)
{
        timer_destroy(systemd->tick);
        bytes_deinit(&systemd->words_sent);
        free(systemd->waiting_for);
        free(systemd);
}

void systemd_waiting(struct systemd *systemd, const char *reason)
{
        if (systemd->tick == NULL)
                return;
        free(systemd->waiting_for);
        systemd->waiting_for = xstrdup(reason);
        say(systemd, "");
}

void systemd_ready(struct systemd *systemd)
{
        if (systemd->tick == NULL || systemd->state == SERVICE_STOPPING)
                return;
        systemd->state = SERVICE_READY;
        free(systemd->waiting_for);
        systemd->waiting_for = NULL;
        say(systemd, "READY=1\n");
}

void systemd_reloaded(struct systemd *systemd)
{
        if (systemd->state != SERVICE_RELOADING)
                return;
        systemd->state = SERVICE_READY;
        say(systemd, "READY=1\n");
}

void systemd_reloading(struct systemd *systemd)
{
        struct bytes message = {0};

        if (systemd->tick == NULL || systemd->state != SERVICE_READY)
                return;
        systemd->state = SERVICE_RELOADING;
        bytes_printf(
            &message, "RELOADING=1\nMONOTONIC_USEC=%lld\n", (long long)clock_monotonic_us());
        say(systemd, message.data);
        bytes_deinit(&message);
}

void systemd_stopping(struct systemd *systemd)
{
        if (systemd->tick == NULL)
                return;
        systemd->state = SERVICE_STOPPING;
        say(systemd, "STOPPING=1\n");
}
