/*
 * All kinds of sink: those of this program, which registry.c alone names, and modules, which are
 * shared objects of others (pgcourier/module.h). One is in between: kafka is ours, has a block of
 * its own in the file and gets that as its options, but comes as a module in a package of its own,
 * of the same version. What runs in a module has all of the program's
 * rights, so a file is loaded only from a place that other users cannot write to.
 */
#pragma once

#include "config/config.h"
#include "pgcourier/module.h"
#include "pgcourier/sink.h"

/* Ends with NULL. */
extern const struct sink_ops *const sink_kinds[];

/* Of the program's own; NULL if there is no such kind. */
const struct sink_ops *sink_kind_find(const char *kind);

struct sink_module {
        struct sink_module *next;
        char *file;
        const struct pgcourier_module *own; /* within the shared object */
        struct sink_ops ops;                /* the module's; what it is too old to have is NULL */
};

/* The folder of modules: `configured`, or if that is NULL the one of the installation. */
const char *sink_module_folder(const char *configured);

/*
 * Loads a file of that folder, for the life of the process; loaded before, it is the same again. On
 * failure returns NULL and sets *error.
 */
const struct sink_module *sink_module_load(
    const char *configured_folder, const char *file, struct error *error);

/* Among those loaded; NULL: none. */
const struct sink_module *sink_module_find(const char *file);

/* The file of the sink's module, whether it is loaded or not; NULL: it needs none. */
const char *sink_module_file(const struct sink_config *config);

/* The kind of a configured sink, loaded from the folder of modules if it is one. On failure returns
 * NULL and sets *error. */
const struct sink_ops *sink_kind_load(
    const char *folder, const struct sink_config *config, struct error *error);

/* For each sink of the file: `run` does this first. */
bool sink_kinds_load(const struct config *config, struct error *error);

/* The same once it is loaded. */
const struct sink_ops *sink_kind_of(const struct sink_config *config);

/* How many threads of libuv's pool an instance may keep busy; the kind is loaded. */
unsigned sink_kind_threads(const struct sink_config *config);
