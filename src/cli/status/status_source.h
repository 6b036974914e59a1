/*
 * The status document: of a running relay if its admin endpoint answers, else as
 * the database alone knows it. Both have one shape (docs/admin.md); what the
 * database does not know is null.
 */
#pragma once

#include "base/error.h"

#include <jansson.h>

struct blocking_conn;
struct config;

struct status_source {
        const char *dsn;            /* NULL: as the next says */
        const char *config_path;    /* NULL: as dsn or the environment says */
        struct config *config;      /* owned; NULL without config_path */
        struct blocking_conn *conn; /* owned; NULL until it is needed */
        struct error
            unanswered; /* why the endpoint was not used; ERROR_NONE: it is not configured */
};

bool status_source_open(struct status_source *source, const char *dsn, const char *config_path,
    struct error *error) __attribute__((warn_unused_result));
void status_source_close(struct status_source *source);

/* The caller's; NULL and *error if neither can be asked. */
json_t *status_source_read(struct status_source *source, struct error *error);
