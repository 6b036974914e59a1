/*
 * Opens a sink that fans out for a moment, to let it judge a receiver, or deliver
 * to it, exactly as it would in a relay.
 */
#pragma once

#include "base/error.h"
#include "pgcourier/sink.h"

struct sink_config;

/* Whether the sink would take that receiver (its URL, its headers, its secrets). Does not
 * connect. */
bool receiver_delivery_check(const struct sink_config *config, const struct target_settings *target,
    struct error *error) __attribute__((warn_unused_result));

/* One attempt to deliver one event to it. False and *error only if there was none. */
bool receiver_delivery_try(const struct sink_config *config, const struct target_settings *target,
    const struct event *event, struct outcome *out_outcome, int64_t *out_ms, struct error *error)
    __attribute__((warn_unused_result));
