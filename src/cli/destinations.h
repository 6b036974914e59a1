/*
 * Which destinations take an event: the sinks of a configuration, and each
 * receiver of a sink that fans out. The relay's own code judges topics, types
 * and headers (outbox/routing.h). Filters need the database: the caller asks it.
 */
#pragma once

#include "base/error.h"
#include "outbox/receiver.h"
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
        struct receiver *receiver; /* owned; NULL: the sink does not fan out */
        struct routing routing;    /* the sink's; borrows the configuration */
};

struct destinations {
        struct destination *destinations; /* owned */
        size_t n_destinations;
};

/* All of them; borrows the configuration. */
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

/* The filters of the sink and of its receiver, as an array literal of jsonpath. All must hold. */
void destination_append_filters(const struct destination *destination, struct bytes *out_array);

/* "sink mail", "sink hooks/acme"; free it. */
char *destination_name(const struct destination *destination);
