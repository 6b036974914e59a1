/* What `pgcourier init` is to write, and its look at the database. */
#pragma once

#include "base/error.h"

#include <stdbool.h>

#define INIT_MAX_SINKS 16

struct init_kind {
        const char *name;
        const char *url;   /* the usual one; NULL: it has none */
        const char *place; /* what stands before the URL */
        bool is_list;      /* which ends behind it */
        const char *rest;  /* further keys, and hints */
};

struct init_sink {
        const struct init_kind *kind;
        char *url; /* owned; NULL with stdout */
};

/* What is to be written. All owned. */
struct init {
        char *dsn; /* without a password */
        char *password;
        char *topics; /* "orders.*,refunds.*" */
        char *from;   /* of e-mail; NULL: none given */
        char *output;
        struct init_sink sinks[INIT_MAX_SINKS];
        unsigned n_sinks;
        bool has_admin;
        bool is_forced;
};

/*
 * Looks at the database and prints a line for each finding: what is there, or
 * what is missing and the SQL that mends it. With `applies_schema` the schema
 * is made. False only if something that was asked for could not be done; a
 * database that is not there is a finding.
 */
bool init_look_at_database(const struct init *init, bool applies_schema, struct error *error);
