/*
 * Who takes an event: the sinks of a configuration, and of those that fan out
 * each receiver. The judgement is the relay's own (outbox/routing.h); what only
 * the database can judge, the filters, is left to the caller.
 */
#pragma once

#include "base/error.h"
#include "outbox/endpoint.h"
#include "outbox/routing.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct blocking_conn;
struct bytes;
struct config;
struct sink_config;

struct destination {
        const char *sink; /* borrowed from the configuration */
        bool is_email;
        int32_t lane;
        struct endpoint *endpoint; /* owned; NULL: the sink does not fan out */
        struct routing routing;    /* the sink's; borrows the configuration */
};

struct destinations {
        struct destination *destinations; /* owned */
        size_t n_destinations;
};

/* All there are; the configuration is borrowed. */
bool destinations_load(struct destinations *out_destinations, const struct config *config,
    struct blocking_conn *conn, struct error *error) __attribute__((warn_unused_result));
void destinations_deinit(struct destinations *destinations);

enum destination_verdict {
        DESTINATION_TAKES, /* unless a filter says no */
        DESTINATION_NOT_TOPIC,
        DESTINATION_NOT_TYPE,
        DESTINATION_NOT_HEADERS,
};
enum destination_verdict destination_judge(
    const struct destination *destination, const struct event *event);

bool destination_has_filter(const struct destination *destination);

/* Those of the sink and of its receiver, as an array literal of jsonpath. All must hold. */
void destination_append_filters(const struct destination *destination, struct bytes *out_array);

/* "sink mail", "sink hooks/acme"; free it. */
char *destination_name(const struct destination *destination);
