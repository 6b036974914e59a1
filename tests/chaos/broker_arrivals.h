/* What NATS and Kafka have stored since the last time, with the time at which they did. */
#pragma once

#include "chaos/brokers.h"

void arrivals_read_nats(struct arrivals *arrivals, struct brokers *brokers);
void arrivals_read_kafka(struct arrivals *arrivals, struct brokers *brokers);
