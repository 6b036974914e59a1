/*
 * Evaluates filters for commands, which have one connection and wait for the answer. A filter has the
 * time that the relay gives it in its last try (filter_queue.h): a command judges no event that a relay
 * would leave unjudged, and does not keep the server busy without end.
 */
#pragma once

#include "base/error.h"
#include "outbox/filter_queue.h"
#include "pg/blocking_conn.h"

#define FILTERS_LIMIT_MS (FILTER_QUEUE_LIMIT_MS << (FILTER_QUEUE_TRIES - 1))

/* Which of these events all of these filters are true of: a row for each, its id, in order. Both are
 * array literals: of ids, which are in order, and of jsonpath. *out_rows is to be freed; it is NULL if
 * they took longer than FILTERS_LIMIT_MS for all the events together (longer for large payloads, see
 * filter_queue.h). After false a transaction may be open. */
bool filters_ask(struct blocking_conn *conn, const char *ids, const char *filters,
    struct rows **out_rows, struct error *error) __attribute__((warn_unused_result));
