/*
 * References to the environment and to files inside a value of the config file:
 *   ${VAR}            its value; an error if it is not set
 *   ${VAR:-default}   the default if VAR is not set or empty
 *   ${VAR:?message}   an error with this message if VAR is not set or empty
 *   ${file:/path}     the file's text without one trailing newline
 *   $$                a literal $; a $ before anything else stands for itself
 * References are replaced after parsing, so that a value can never add keys. Replacements are not
 * searched for references again.
 */
#pragma once

#include "base/error.h"

#include <stdbool.h>

/* The text with its references replaced; release it with secret_free(). On failure returns NULL and
 * sets *error to a reason that holds no value of any variable or file. */
char *interpolate(const char *text, struct error *error);
