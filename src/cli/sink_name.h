/* The sink that a command names: those of the configuration if there is one, else of the database. */
#pragma once

#include "base/error.h"

struct blocking_conn;

/* ERROR_USAGE if no sink can have that name. */
bool sink_name_check_form(const char *name, struct error *error)
    __attribute__((warn_unused_result));

/* ERROR_USAGE if there is none of that name: did you mean. config_path may be NULL. */
bool sink_name_check(struct blocking_conn *conn, const char *name, const char *config_path,
    struct error *error) __attribute__((warn_unused_result));
