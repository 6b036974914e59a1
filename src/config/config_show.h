/* The effective configuration: each possible key, its value, and where the value comes from. */
#pragma once

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>

enum config_origin {
        ORIGIN_NONE,     /* not set, and without a default */
        ORIGIN_DEFAULT,  /* from the key tables, or derived from other keys */
        ORIGIN_FILE,     /* as written in the config file */
        ORIGIN_VARIABLE, /* from a variable of the environment */
        ORIGIN_SECRET,   /* from a file of its own */
};

/* Borrowed for the call. */
struct config_shown {
        const char *path;  /* "sinks[0].http.timeout" */
        const char *value; /* as it could be written; NULL: none, masked, or an empty list */
        bool is_masked;    /* it is set, but is or may be secret: `value` is NULL */
        enum config_origin origin;
        size_t line;      /* in the config file; 0: the key is not there */
        const char *from; /* the variable, or the file */
};

typedef void config_visit_fn(void *owner, const struct config_shown *shown);

/* Visits the keys in the order of the key tables. Fails as config_load() does. */
bool config_walk(const char *path, config_visit_fn *visit, void *owner, struct error *error);
