/*
 * What the tests of the redis sink share: a config that points at a server, and events that are
 * handed to the sink in order.
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

#include "sink_rig.h"

/* A config for the server's TCP port and the stream "events", and n events to come. */
void rig_init(struct rig *rig, const struct redis_server *server, unsigned n_events);
void rig_open(struct rig *rig);
void rig_destroy(struct rig *rig);

/* The same with a server of its own, which rig_stop() destroys with it. */
void rig_start(struct rig *rig, unsigned n_events);
void rig_stop(struct rig *rig);

bool reply_is(const redisReply *reply, const void *data, size_t length);

/* "events" holds exactly what was delivered so far, once and in order. */
void expect_stream_in_order(struct redis_server *server, const struct rig *rig);
