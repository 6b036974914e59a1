/*
 * References to the environment and to files inside a value of the config
 * file:
 *   ${VAR}            its value; an error if it is not set
 *   ${VAR:-default}   the default if VAR is not set or empty
 *   ${VAR:?message}   an error with this message if VAR is not set or empty
 *   ${file:/path}     the file's text without one trailing newline
 *   $$                a literal $; a $ before anything else stands for itself
 * It runs after parsing, so a value can never add keys, and what was put in is
 * never looked at again.
 */
#pragma once

#include "base/error.h"

#include <stdbool.h>

/*
 * The filled-in text; release it with secret_free(). On failure returns NULL
 * and sets *error to a reason that holds no value of any variable or file.
 */
char *interpolate(const char *text, struct error *error);
