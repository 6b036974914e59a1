/*
 * What the tests of the rabbitmq sink share: a virtual host of the shared RabbitMQ with a topic
 * exchange "events", a config that points at it, and events that are handed to the sink in order.
 */
#pragma once

#include "config/config.h"
#include "support/rabbitmq_server.h"
#include "support/sink_driver.h"

#include <criterion/criterion.h>
#include <jansson.h>
#include <stdbool.h>
#include <string.h>

extern const struct sink_ops rabbitmq_sink_ops;

struct rig {
        struct rabbitmq_server *server; /* borrowed */
        struct sink_driver driver;
        struct rabbitmq_config config; /* the test may change it before rig_open() */
        char vhost[32];
        char address[32];
        char *addresses[3];
        struct event *events; /* and these until they are handed over */
        char (*payloads)[16]; /* the number of each, unless the test gives it another */
};

#include "sink_rig.h"

/* A config for a server on this port, and n events to come, whose topic is "orders". */
void rig_init(struct rig *rig, uint16_t port, unsigned n_events);

/* The same on a virtual host without queues of the shared RabbitMQ. */
void rig_start(struct rig *rig, unsigned n_events);

/* A quorum queue for all that is published to the exchange. */
void rig_add_queue(struct rig *rig, const char *name, const char *routing_key);

void rig_open(struct rig *rig);
void rig_stop(struct rig *rig);

/* The messages of a queue, as rabbitmq_drain(): an array. json_decref() it. */
json_t *rig_drain(const struct rig *rig, const char *queue, unsigned n);

/* The queue holds the events from `first` on, n of them, once and in order. */
void expect_events(const struct rig *rig, const char *queue, unsigned first, unsigned n);
