/*
 * Who takes an event: the sinks of a configuration, and of those that fan out
 * each receiver. The judgement is the relay's own (outbox/match.h); what only
 * the database can judge, the filters, is left to the caller.
 */
#pragma once

#include "base/error.h"
#include "outbox/endpoint.h"
#include "outbox/match.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct blocking_conn;
struct bytes;
struct config;
struct sink_config;

struct taker {
        const char *sink; /* borrowed from the configuration */
        bool is_email;
        int32_t lane;
        struct endpoint *endpoint; /* owned; NULL: the sink does not fan out */
        struct routing routing;    /* the sink's; borrows the configuration */
};

struct takers {
        struct taker *takers; /* owned */
        size_t n_takers;
};

/* All there are; the configuration is borrowed. */
bool takers_load(struct takers *out_takers, const struct config *config, struct blocking_conn *conn,
    struct error *error) __attribute__((warn_unused_result));
void takers_deinit(struct takers *takers);

enum taker_verdict {
        TAKER_TAKES, /* unless a filter says no */
        TAKER_NOT_TOPIC,
        TAKER_NOT_TYPE,
        TAKER_NOT_HEADERS,
};
enum taker_verdict taker_judge(const struct taker *taker, const struct event *event);

bool taker_has_filter(const struct taker *taker);

/* Those of the sink and of its receiver, as an array literal of jsonpath. All must hold. */
void taker_append_filters(const struct taker *taker, struct bytes *out_array);

/* "sink mail", "sink hooks/acme"; free it. */
char *taker_name(const struct taker *taker);
