/*
 * What the tests of the nats sink share: a config that points at a server, and events that are
 * handed to the sink in order. The attempt of events[i] is driver.attempts[i].
 */
#pragma once

#include "config/config.h"
#include "support/nats_server.h"
#include "support/sink_driver.h"

#include <criterion/criterion.h>
#include <stdbool.h>
#include <string.h>

extern const struct sink_ops nats_sink_ops;

struct rig {
        struct nats_server server; /* only of rig_start() */
        struct sink_driver driver;
        struct nats_config config; /* the test may change it before rig_open() */
        char *servers[4];
        struct event *events; /* and these until they are handed over */
        char (*payloads)[16]; /* the number of each, unless the test gives it another */
        size_t restart_below; /* each finish starts another attempt while fewer have started */
};

/* A config for the server and the subject "events.orders", and n events to come. */
void rig_init(struct rig *rig, const struct nats_server *server, unsigned n_events);
void rig_open(struct rig *rig);
void rig_destroy(struct rig *rig);

/* The same with a server of its own, whose stream S takes events.>, and which rig_stop() destroys
 * with it. `config` as in nats_server_start(). */
void rig_start(struct rig *rig, unsigned n_events, const char *config);
void rig_stop(struct rig *rig);

/* One more server for the list of `servers`. */
void rig_add_server(struct rig *rig, const struct nats_server *server);

/* Hands over the next n, and flushes. */
void rig_deliver(struct rig *rig, unsigned n);

/* The same, and waits until all are finished. */
void rig_deliver_all(struct rig *rig, unsigned n);

/* How many ended so. */
unsigned rig_count(const struct rig *rig, enum outcome_kind kind);

/* The stream S holds exactly the events that were delivered so far, each once. */
void expect_stream_has_delivered(struct nats_server *server, const struct rig *rig);

#define expect_outcome_is(given, kind_, words)                                                     \
        do {                                                                                       \
                const struct outcome *outcome_ = (given);                                          \
                cr_expect(outcome_->kind == (kind_), "%s: %s", outcome_name(outcome_->kind),       \
                    outcome_->reason);                                                             \
                cr_expect(strstr(outcome_->reason, (words)) != NULL, "no '%s' in '%s'", (words),   \
                    outcome_->reason);                                                             \
        } while (0)

#define expect_outcome(rig, number, kind_, words)                                                  \
        do {                                                                                       \
                cr_expect((rig)->driver.attempts[number].is_finished);                             \
                expect_outcome_is(&(rig)->driver.attempts[number].outcome, kind_, words);          \
        } while (0)
