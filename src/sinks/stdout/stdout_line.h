/*
 * An event as one line of JSON (NDJSON). Pure.
 *
 *   {"id": event id, "topic": …, "key": … or null, "type": … or null,
 *    "time": "2026-11-20T10:00:00.123456Z"[, "redriven": true], "headers": {…},
 *    "payload": the JSON that was published | "data_base64": …}
 *
 * A payload on one line is embedded byte for byte: numbers keep their digits
 * and members their order. One on several lines loses its blanks, no more.
 */
#pragma once

#include "base/bytes.h"
#include "pgcourier/event.h"

#include <stdbool.h>

/* Appends the line and its newline. Without content, headers and payload are left out. */
void stdout_line_append(struct bytes *out, const struct event *event, bool with_content);
