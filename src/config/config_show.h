/*
 * A config file as it takes effect: each key that there could be, its value, and
 * where that comes from.
 */
#pragma once

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>

enum config_origin {
        ORIGIN_NONE,     /* not set, and without a default */
        ORIGIN_DEFAULT,  /* of the key tables, or what follows from other keys */
        ORIGIN_FILE,     /* as it stands in the config file */
        ORIGIN_VARIABLE, /* with a variable of the environment filled in */
        ORIGIN_SECRET,   /* a file of its own holds it */
};

/* Borrowed for the call. */
struct config_shown {
        const char *path;  /* "sinks[0].http.timeout" */
        const char *value; /* as it could be written; NULL: none, or a list without entries */
        bool is_masked;    /* it is set, and secret or possibly so: `value` does not say it */
        enum config_origin origin;
        size_t line;      /* of the config file; 0: it is not there */
        const char *from; /* the variable, or the file */
};

typedef void config_visit_fn(void *owner, const struct config_shown *shown);

/* In the order of the key tables. False and *error as config_load(). */
bool config_walk(const char *path, config_visit_fn *visit, void *owner, struct error *error);
