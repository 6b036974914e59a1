/*
 * The relay: everything that runs between a checked configuration and the end
 * of the process.
 */
#pragma once

#include "base/error.h"
#include "config/config.h"
#include "relay/config_reader.h"

struct relay_options {
        bool once; /* deliver what is there when it starts, then end; without an endpoint */
        const char *config_path;
        reading_load_fn *load; /* reads the configuration again */
        /* Whatever of it may fail and is no business of the relay. */
        bool (*prepare)(void *owner, const struct config *config, struct error *error);
        /* It is in force: what belongs to the process, as its log, follows it. */
        void (*apply)(void *owner, const struct config *config);
        void *owner;
};

/*
 * Runs until SIGTERM or SIGINT (or, with `once`, until everything that was in
 * the outbox at the start is delivered and settled), drains, settles and
 * returns true. Returns false with *error only for what waiting cannot mend: a
 * missing or unknown schema, another cluster, a sink whose options are wrong;
 * with `once` also for a database that cannot be reached. Logs to stderr. SIGHUP loads the
 * configuration anew. Takes the configuration.
 */
bool relay_run(struct config *config, const struct relay_options *options, struct error *error)
    __attribute__((warn_unused_result));
