/*
 * The receivers of a sink that fans out: rows of courier.endpoint.
 *
 * Known to the relay, so no libpq here.
 */
#pragma once

#include "outbox/routing.h"
#include "pgcourier/event.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum endpoint_state { ENDPOINT_ACTIVE, ENDPOINT_PAUSED, ENDPOINT_DISABLED };

struct endpoint {
        int32_t id; /* also the number of its lane */
        const char *name;
        int64_t version; /* differs whenever something about the receiver differs */
        const char *url;
        const char *const *secrets; /* to sign with, the newest first */
        size_t n_secrets;
        const struct event_header *headers;
        size_t n_headers;
        struct routing routing;
        /* Its first event is the first that is not visible here; NULL: all that the outbox has. */
        const char *start_snapshot;
        int64_t start_floor;
        uint32_t concurrency;
        double rate_per_s;
        uint32_t rate_burst;
        enum endpoint_state state;
        const char *state_reason; /* or NULL */
        int64_t failing_for_ms;   /* -1: it is not known to fail */

        int n_references;
        void *row; /* owns what the above points at */
};

struct endpoint_list {
        size_t n_endpoints;
        const struct endpoint *const *endpoints; /* in order of id */
};

/* With one reference, from the JSON text that the relay's statement makes of its row: it cannot be
 * misshapen. */
struct endpoint *endpoint_read(int32_t id, int64_t version, const char *row);

struct endpoint *endpoint_ref(const struct endpoint *endpoint);
void endpoint_unref(struct endpoint *endpoint); /* NULL is allowed; clears secrets */
