/*
 * Whether a request was meant for us. A web page of somebody else can have its
 * own name resolved to 127.0.0.1 and then read, from the visitor's browser, what
 * only this machine may read (DNS rebinding). Such a request names that page's
 * host. An IP address cannot be rebound, so any is good: probes and Prometheus
 * address a pod by one that nobody knows beforehand.
 */
#pragma once

#include "config/config.h"

#include <stdbool.h>

/* `host` is the header's value, with or without a port; NULL is refused. */
bool host_is_ours(const struct admin_config *config, const char *host);
