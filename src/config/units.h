/*
 * Numbers as people write them in the config file. A text must be a number as a whole. Where it is
 * not, the function returns false and leaves *out alone. Defaults and ranges are the caller's.
 */
#pragma once

#include "base/bytes.h"

#include <stdbool.h>
#include <stdint.h>

#define UNITS_DURATION "a whole number with a unit: 250ms, 5s, 1m, 2h or 3d"
#define UNITS_SIZE                                                                                 \
        "a whole number of bytes, or one with a unit: 512B, 64kB, 64KiB, 16MB, 16MiB, 1GB, 1GiB"

/* "250ms", "5s", "1m", "2h", "3d"; of numbers without a unit only "0". */
bool units_parse_duration(const char *text, int64_t *out_ms);

/* "4096", "512B", "64kB" (1000), "64KiB" (1024), "MB", "MiB", "GB", "GiB". */
bool units_parse_size(const char *text, uint64_t *out_bytes);

/* Decimal digits without sign or leading zeros, which elsewhere would mean octal. */
bool units_parse_integer(const char *text, uint64_t *out);

/* Decimal digits with an optional fraction, behind a point in every locale. */
bool units_parse_number(const char *text, double *out);

/* The shortest way to write it: "1d", "90s", "0"; "64KiB", "1000B", "0". */
void units_append_duration(struct bytes *text, int64_t ms);
void units_append_size(struct bytes *text, uint64_t bytes);
