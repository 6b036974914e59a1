/*
 * Watches a queue of RabbitMQ while it fills: RabbitMQ does not say when a message came, so its
 * length is asked for all the time. What is in it is read when all is well, and not before: a
 * queue whose server is killed gives what was being read to the next reader in another order.
 */
#pragma once

#include "chaos/arrivals.h"

struct rabbit_watch;

/* On 127.0.0.1:port, as guest. The queue is empty. */
struct rabbit_watch *rabbit_watch_start(
    uint16_t port, const char *queue, struct arrivals *arrivals);

/* From now on what is in it is read, and what comes, at once. The server runs until the end. */
void rabbit_watch_read(struct rabbit_watch *watch);
void rabbit_watch_stop(struct rabbit_watch *watch); /* NULL is allowed */
