/*
 * Whether two configurations mean the same. Effective values are compared: a default that is
 * written out, another order of keys or a secret moved into a file make no difference. Another
 * secret in the same file does.
 */
#pragma once

#include "config/config.h"

#include <stdbool.h>
#include <stdint.h>

bool postgres_configs_are_equal(const struct postgres_config *a, const struct postgres_config *b);
/* The files that the sinks read by themselves must have been the same, too, when the settings were
 * read. */
bool sink_configs_are_equal(const struct sink_config *a, const struct sink_config *b);

/* A number for the files that the sink reads by itself (certificates, templates), as they are now.
 * It changes when one of them is replaced. */
uint64_t sink_config_fingerprint(const struct sink_config *sink);
