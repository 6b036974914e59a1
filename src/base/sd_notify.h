/*
 * What systemd wants to know of a service (Type=notify): datagrams of
 * "NAME=value" lines to the socket that $NOTIFY_SOCKET names. The protocol is
 * this small and stable, so there is no library between.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* $NOTIFY_SOCKET is set: the manager listens. */
bool sd_notify_is_wanted(void);

/* How long we may be silent before we count as hung, by $WATCHDOG_USEC and $WATCHDOG_PID; 0: for ever. */
int64_t sd_notify_watchdog_us(void);

/* One datagram, e.g. "READY=1\nSTATUS=3 sinks". False with errno if it could not be sent, also
 * without a manager that listens. */
bool sd_notify_send(const char *lines);
