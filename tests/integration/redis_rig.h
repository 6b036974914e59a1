/*
 * Stands for the relay in the tests of the redis sink: owns a loop, a sink and its attempts, hands
 * the attempts over in order, and checks that each is finished once. (That none is finished too
 * early is asserted by sinks/sink.c.) A watchdog aborts the test if the loop waits in vain.
 */
#pragma once

#include "config/config.h"
#include "pgcourier/sink.h"
#include "support/redis_server.h"

#include <criterion/criterion.h>
#include <stdbool.h>
#include <string.h>

extern const struct sink_ops redis_sink_ops;

struct delivery {
        struct attempt attempt;
        struct event event;
        struct rig *rig;
        struct outcome outcome;
        char payload[16]; /* its number, unless the test puts another into the event */
        bool is_finished;
};

struct rig {
        uv_loop_t loop;
        uv_timer_t watchdog;
        struct redis_config config; /* the test may change it before rig_open() */
        struct sink *sink;
        struct delivery *deliveries;
        unsigned n_started;
        unsigned n_finished;
        unsigned restart_below; /* each finish starts another delivery while fewer have started */
        bool cancels_on_finish; /* once */
        bool is_closed;
};

/* A config for the server's TCP port and the stream "events", and n deliveries to come. */
void rig_init(struct rig *rig, const struct redis_server *server, unsigned n_deliveries);
void rig_open(struct rig *rig);

/* Closes the sink, if rig_on_closed() has not been told so already, and checks that nothing of it
 * is left on the loop. */
void rig_destroy(struct rig *rig);
void rig_on_closed(void *rig); /* a sink_closed_fn */

/* Hands over the next n, and flushes. */
void rig_deliver(struct rig *rig, unsigned n);
void rig_run_until_finished(struct rig *rig, unsigned n_in_all);

/* Both. */
void rig_deliver_all(struct rig *rig, unsigned n);

/* How many ended so. */
unsigned rig_count(const struct rig *rig, enum outcome_kind kind);

bool reply_is(const redisReply *reply, const void *data, size_t length);

/* "events" holds exactly what was delivered so far, once and in order. */
void expect_stream_in_order(struct redis_server *server, const struct rig *rig);

#define expect_outcome(delivery, kind_, words)                                                     \
        do {                                                                                       \
                const struct outcome *outcome_ = &(delivery)->outcome;                             \
                cr_expect(outcome_->kind == (kind_), "%s: %s", outcome_name(outcome_->kind),       \
                    outcome_->reason);                                                             \
                cr_expect(strstr(outcome_->reason, (words)) != NULL, "no '%s' in '%s'", (words),   \
                    outcome_->reason);                                                             \
        } while (0)
