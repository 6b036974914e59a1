/* What becomes of a published event: who takes it, and how each delivery ends. */
#pragma once

#include "base/error.h"

#include <stdint.h>

struct blocking_conn;
struct destinations;
struct event;
struct followed;

/* Prints what happens until every destination that takes the event has it or gave it up, or none
 * can go on by itself, or the time is up. False: ERROR_EMPTY if no destination takes it,
 * ERROR_SINK if one gave it up, ERROR_TEMPORARY if one does not have it yet, or the database's
 * error. */
bool send_follow(struct blocking_conn *conn, const struct destinations *destinations,
    const struct event *event, const struct followed *followed, int64_t timeout_ms,
    struct error *error) __attribute__((warn_unused_result));
