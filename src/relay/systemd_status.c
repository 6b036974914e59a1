#include "relay/systemd_status.h"

#include "base/bytes.h"
#include "telemetry/telemetry.h"

#include <inttypes.h>
#include <stdbool.h>

#define MAX_NAMED 3

/* Somebody may want to do something about it. */
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
        case SINK_DISCONNECTED: /* is said for all of them */
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

void systemd_status_append(struct bytes *words, struct telemetry *telemetry, int64_t now_us)
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
