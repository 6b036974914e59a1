/* A relay in one line of words, for `systemctl status`. */
#pragma once

#include <stdint.h>

struct bytes;
struct telemetry;

/* "delivering to 2 of 3 sinks; billing down; 12 events wait, the oldest for 40 s". What waits is known
 * where the configuration has a block `admin`. */
void systemd_status_append(struct bytes *words, struct telemetry *telemetry, int64_t now_us);
