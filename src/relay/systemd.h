/*
 * The relay as a service of systemd: notifies when it is ready, reloads and stops,
 * feeds the watchdog from a timer of the loop, so that a loop that hangs does not,
 * and writes one line for `systemctl status`:
 *
 *   delivering to 2 of 3 sinks; billing down; 12 events wait, the oldest for 40 s
 *
 * How many wait is known where the configuration has a block `admin`. Without
 * NOTIFY_SOCKET all of this does nothing.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

struct systemd;
struct telemetry;

/* The telemetry is borrowed. */
struct systemd *systemd_create(uv_loop_t *loop, struct telemetry *telemetry);
void systemd_destroy(struct systemd *systemd);

/* Not ready yet, or not any more, for this reason, which is borrowed for the call. */
void systemd_waiting(struct systemd *systemd, const char *reason);

/* Connected, and all is checked. May be called again. */
void systemd_ready(struct systemd *systemd);

/* A reload begins; it has ended, well or not. Both do nothing before systemd_ready(). */
void systemd_reloading(struct systemd *systemd);
void systemd_reloaded(struct systemd *systemd);

void systemd_stopping(struct systemd *systemd);

/*
 * What systemd wants to know of a service (Type=notify): datagrams of
 * "NAME=value" lines to the socket that $NOTIFY_SOCKET names. The protocol is
 * this small and stable, so there is no library between.
 */

/* $NOTIFY_SOCKET is set: the manager listens. */
bool sd_notify_is_wanted(void);

/* How long we may be silent before we count as hung, by $WATCHDOG_USEC and $WATCHDOG_PID; 0: for ever. */
int64_t sd_notify_watchdog_us(void);

/* One datagram, e.g. "READY=1\nSTATUS=3 sinks". False with errno if it could not be sent, also
 * without a manager that listens. */
bool sd_notify_send(const char *lines);
