/*
 * Do two configurations mean the same? By effective values, read off the key
 * tables: defaults that are spelled out, another order of the keys, a secret that
 * moved into a file are no difference; a file with another secret in it is one.
 */
#pragma once

#include "config/config.h"

#include <stdbool.h>
#include <stdint.h>

bool postgres_configs_are_equal(const struct postgres_config *a, const struct postgres_config *b);
/* That includes that the files which the sinks read by themselves were the same when the settings were
 * read. */
bool sink_configs_are_equal(const struct sink_config *a, const struct sink_config *b);

/* Of the files that the sink's settings name and the sink reads by itself (certificates, templates), as
 * they are now. Another number: some of them have been replaced. */
uint64_t sink_config_fingerprint(const struct sink_config *sink);
