/*
 *   STARTING -ready-> READY -stopping-> STOPPING
 *   READY -reloading-> RELOADING -reloaded-> READY
 *
 * A lost database does not take READY back, because systemd knows no such message. The status tells
 * it. Messages are datagrams of "NAME=value" lines to the socket that $NOTIFY_SOCKET names
 * (Type=notify): a protocol so small and stable that it needs no library.
 */
#include "relay/systemd.h"

#include "base/alloc.h"
#include "base/bytes.h"
#include "base/clock.h"
#include "log/log.h"
#include "loop/timer.h"
#include "telemetry/telemetry.h"

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

/* How often the status is renewed and the watchdog fed; the latter three times in its interval at
 * least. */
#define TICK_MS 5000

/* Of the sinks in trouble so many are named in the status. */
#define MAX_NAMED 3

enum systemd_state { SYSTEMD_STARTING, SYSTEMD_READY, SYSTEMD_RELOADING, SYSTEMD_STOPPING };

struct systemd {
        enum systemd_state state;
        struct telemetry *telemetry; /* borrowed */
        struct timer *tick;          /* owned; NULL: there is no service manager */
        uint64_t tick_ms;
        bool has_watchdog;
        bool is_warned;    /* that the service manager is unreachable */
        char *waiting_for; /* owned; NULL: nothing */
        struct bytes words_sent;
};

static bool manager_listens(void)
{
        const char *name = getenv("NOTIFY_SOCKET");

        return name != NULL && *name != '\0';
}

static int64_t number_in(const char *variable)
{
        const char *text = getenv(variable);
        char *end;
        long long number;

        if (text == NULL)
                return -1;
        errno = 0;
        number = strtoll(text, &end, 10);
        return *text != '\0' && *end == '\0' && errno == 0 ? number : -1;
}

/* How long we may be silent before we count as hung; 0: for ever. */
static int64_t watchdog_interval_us(void)
{
        const int64_t interval_us = number_in("WATCHDOG_USEC");

        if (interval_us <= 0)
                return 0;
        /* The variables are inherited: they may be meant for our parent. */
        if (getenv("WATCHDOG_PID") != NULL && number_in("WATCHDOG_PID") != getpid())
                return 0;
        return interval_us;
}

/* The length of the address, or 0 and errno. A name with a leading '@' is in the abstract name
 * space, where the first byte of the address is NUL. */
static socklen_t find_address(struct sockaddr_un *address)
{
        const char *name = getenv("NOTIFY_SOCKET");
        size_t length = name != NULL ? strlen(name) : 0;

        if (length == 0 || (name[0] != '/' && name[0] != '@') ||
            length >= sizeof address->sun_path) {
                errno = length == 0 ? ENOENT : EINVAL;
                return 0;
        }
        *address = (struct sockaddr_un){.sun_family = AF_UNIX};
        memcpy(address->sun_path, name, length);
        if (name[0] == '@')
                address->sun_path[0] = '\0';
        return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + length);
}

/* One datagram, e.g. "READY=1\nSTATUS=3 sinks". False and errno if it cannot be sent. Each opens a
 * socket of its own: they are seconds apart, and a manager that was executed anew has a new one. */
static bool send_lines(const char *lines)
{
        const struct timeval patience = {.tv_sec = 1}; /* with a manager whose queue is full */
        const size_t length = strlen(lines);
        struct sockaddr_un address;
        const socklen_t address_length = find_address(&address);
        ssize_t n_sent;
        int kept_errno;
        int file;

        if (address_length == 0)
                return false;
        file = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
        if (file < 0)
                return false;
        setsockopt(file, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
        n_sent =
            sendto(file, lines, length, MSG_NOSIGNAL, (struct sockaddr *)&address, address_length);
        kept_errno = errno;
        close(file);
        errno = kept_errno;
        return n_sent == (ssize_t)length;
}

static void tell(struct systemd *systemd, const char *lines)
{
        if (send_lines(lines) || systemd->is_warned)
                return;
        systemd->is_warned = true;
        log_warn("service_manager_unreachable", kv_text("error", strerror(errno)),
            kv_text("hint", "NOTIFY_SOCKET is set, but no service manager takes messages there"));
}

/* An operator may want to act. */
static bool is_trouble(enum sink_state state)
{
        switch (state) {
        case SINK_PAUSED:
        case SINK_REFUSED:
        case SINK_DOWN:
        case SINK_STALLED:
                return true;
        case SINK_STARTING:
        case SINK_RUNNING:
        case SINK_STANDBY:
        case SINK_DRAINING:
        case SINK_DISCONNECTED: /* systemd_waiting() tells why */
                break;
        }
        return false;
}

static void append_troubles(struct bytes *words, const struct telemetry *telemetry)
{
        unsigned n_troubles = 0;

        list_for_each (link, &telemetry->sinks) {
                const struct sink_telemetry *sink = list_owner(link, struct sink_telemetry, link);
                if (!is_trouble(sink->state))
                        continue;
                if (++n_troubles <= MAX_NAMED)
                        bytes_printf(words, "; %s %s", sink->name, sink_state_name(sink->state));
        }
        if (n_troubles > MAX_NAMED)
                bytes_printf(words, "; %u more in trouble", n_troubles - MAX_NAMED);
}

static void append_backlog(struct bytes *words, struct telemetry *telemetry, int64_t now_us)
{
        struct minutes_step steps[MINUTES_STEPS];
        int64_t n_waiting = 0;
        double oldest_s = 0;

        list_for_each (link, &telemetry->sinks) {
                struct sink_telemetry *sink = list_owner(link, struct sink_telemetry, link);
                minutes_series(&sink->minutes, now_us, steps);
                if (steps[MINUTES_STEPS - 1].backlog > 0)
                        n_waiting += steps[MINUTES_STEPS - 1].backlog;
                if (sink->oldest_age_s > oldest_s)
                        oldest_s = sink->oldest_age_s;
        }
        if (n_waiting > 0)
                bytes_printf(
                    words, "; %" PRId64 " events wait, the oldest for %.0f s", n_waiting, oldest_s);
}

static void append_deliveries(struct bytes *words, struct telemetry *telemetry, int64_t now_us)
{
        unsigned n_sinks = 0;
        unsigned n_owned = 0;
        unsigned n_standby = 0;

        telemetry_refresh(telemetry, now_us);
        list_for_each (link, &telemetry->sinks) {
                const struct sink_telemetry *sink = list_owner(link, struct sink_telemetry, link);
                n_sinks++;
                n_owned += sink->is_owned;
                n_standby += sink->state == SINK_STANDBY;
        }
        bytes_printf(words, "delivering to %u of %u sinks", n_owned, n_sinks);
        if (n_standby > 0)
                bytes_printf(words, ", standing by for %u", n_standby);
        append_troubles(words, telemetry);
        append_backlog(words, telemetry, now_us);
}

/* Always one line: a line break in a peer's words could make systemd take them for ours. */
static void append_words(struct systemd *systemd, struct bytes *message)
{
        struct bytes words = {0};

        if (systemd->state == SYSTEMD_STOPPING)
                bytes_append_text(&words, "stopping: finishing what is in flight");
        else if (systemd->waiting_for != NULL)
                bytes_printf(&words, "waiting: %s", systemd->waiting_for);
        else if (systemd->state == SYSTEMD_STARTING)
                bytes_append_text(&words, "connecting to the database");
        else
                append_deliveries(&words, systemd->telemetry, clock_monotonic_us());
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

struct systemd *systemd_create(uv_loop_t *loop, struct telemetry *telemetry)
{
        const int64_t watchdog_us = watchdog_interval_us();
        struct systemd *systemd = xcalloc(1, sizeof *systemd);

        systemd->telemetry = telemetry;
        if (!manager_listens())
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
        if (systemd->tick == NULL || systemd->state == SYSTEMD_STOPPING)
                return;
        systemd->state = SYSTEMD_READY;
        free(systemd->waiting_for);
        systemd->waiting_for = NULL;
        say(systemd, "READY=1\n");
}

void systemd_reloaded(struct systemd *systemd)
{
        if (systemd->state != SYSTEMD_RELOADING)
                return;
        systemd->state = SYSTEMD_READY;
        say(systemd, "READY=1\n");
}

void systemd_reloading(struct systemd *systemd)
{
        struct bytes message = {0};

        if (systemd->tick == NULL || systemd->state != SYSTEMD_READY)
                return;
        systemd->state = SYSTEMD_RELOADING;
        bytes_printf(
            &message, "RELOADING=1\nMONOTONIC_USEC=%lld\n", (long long)clock_monotonic_us());
        say(systemd, message.data);
        bytes_deinit(&message);
}

void systemd_stopping(struct systemd *systemd)
{
        if (systemd->tick == NULL)
                return;
        systemd->state = SYSTEMD_STOPPING;
        say(systemd, "STOPPING=1\n");
}
