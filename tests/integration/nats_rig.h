/*
 * What the tests of the nats sink share: a config that points at a server, and events that are
 * handed to the sink in order.
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

#include "sink_rig.h"

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

/* The stream S holds exactly the events that were delivered so far, each once. */
void expect_stream_has_delivered(struct nats_server *server, const struct rig *rig);
