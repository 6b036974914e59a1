/* The status document for people. */
#pragma once

#include "base/error.h"

#include <jansson.h>
#include <stdbool.h>

/* `findings`: findings_find(). `unanswered`: why the receiver was not asked, or NULL. */
bool status_print(const json_t *status, const json_t *findings, const char *unanswered,
    bool has_colours, struct error *error) __attribute__((warn_unused_result));
