/*
 * The relay: everything that runs between a checked configuration and the end
 * of the process.
 */
#pragma once

#include "base/error.h"
#include "config/config.h"
#include "relay/config_reader.h"

struct relay_options {
        bool once; /* deliver what is there at the start, then end; without an admin endpoint */
        const char *config_path;
        config_load_fn *load; /* reads the configuration again */
        /* Prepares what may fail and does not belong to the relay. */
        bool (*prepare)(void *owner, const struct config *config, struct error *error);
        /* The configuration is in force: what belongs to the process, such as its log, follows
         * it. */
        void (*apply)(void *owner, const struct config *config);
        void *owner;
};

/*
 * Runs until SIGTERM or SIGINT, or, with `once`, until everything that was in the
 * outbox at the start is delivered and settled; then drains, settles and returns
 * true. SIGHUP reloads the configuration. Returns false with *error only if waiting
 * cannot help: a missing or unknown schema, another cluster, a sink whose options
 * are wrong; with `once` also a database that cannot be reached. Logs to stderr.
 * Takes the configuration.
 */
bool relay_run(struct config *config, const struct relay_options *options, struct error *error)
    __attribute__((warn_unused_result));
