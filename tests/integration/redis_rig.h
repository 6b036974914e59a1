/*
 * What the tests of the redis sink share: a config that points at a server, and events that are
 * handed to the sink in order. The attempt of events[i] is driver.attempts[i].
 */
#pragma once

#include "config/config.h"
#include "support/redis_server.h"
#include "support/sink_driver.h"

#include <criterion/criterion.h>
#include <stdbool.h>
#include <string.h>

extern const struct sink_ops redis_sink_ops;

struct rig {
        struct redis_server server; /* only of rig_start() */
        struct sink_driver driver;
        struct redis_config config; /* the test may change it before rig_open() */
        struct event *events;       /* and these until they are handed over */
        char (*payloads)[16];       /* the number of each, unless the test gives it another */
        size_t restart_below; /* each finish starts another attempt while fewer have started */
};

/* A config for the server's TCP port and the stream "events", and n events to come. */
void rig_init(struct rig *rig, const struct redis_server *server, unsigned n_events);
void rig_open(struct rig *rig);
void rig_destroy(struct rig *rig);

/* The same with a server of its own, which rig_stop() destroys with it. */
void rig_start(struct rig *rig, unsigned n_events);
void rig_stop(struct rig *rig);

/* Hands over the next n, and flushes. */
void rig_deliver(struct rig *rig, unsigned n);

/* The same, and waits until all are finished. */
void rig_deliver_all(struct rig *rig, unsigned n);

/* How many ended so. */
unsigned rig_count(const struct rig *rig, enum outcome_kind kind);

bool reply_is(const redisReply *reply, const void *data, size_t length);

/* "events" holds exactly what was delivered so far, once and in order. */
void expect_stream_in_order(struct redis_server *server, const struct rig *rig);

#define expect_outcome(rig, number, kind_, words)                                                  \
        do {                                                                                       \
                const struct outcome *outcome_ = &(rig)->driver.attempts[number].outcome;          \
                cr_expect((rig)->driver.attempts[number].is_finished);                             \
                cr_expect(outcome_->kind == (kind_), "%s: %s", outcome_name(outcome_->kind),       \
                    outcome_->reason);                                                             \
                cr_expect(strstr(outcome_->reason, (words)) != NULL, "no '%s' in '%s'", (words),   \
                    outcome_->reason);                                                             \
        } while (0)
