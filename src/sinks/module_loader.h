/*
 * Modules: kinds of sink in shared objects of others (pgcourier/module.h). What runs here has all of
 * the program's rights, so a file is loaded only where nobody else could have put it.
 */
#pragma once

#include "base/error.h"
#include "pgcourier/module.h"

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
