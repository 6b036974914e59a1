/*
 * The relay as a service of systemd: notifies when it is ready, reloads and stops,
 * feeds the watchdog from a timer of the loop, so that a loop that hangs does not,
 * and writes one line for `systemctl status`:
 *
 *   delivering to 2 of 3 sinks; billing down; 12 events wait, the oldest for 40 s
 *
 * How many events wait is known only where the configuration has a block `admin`. Without
 * NOTIFY_SOCKET all of this does nothing.
 */
#pragma once

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
