/* The built program at a terminal, with a person who types. */
#pragma once

#include "support/program.h"

/*
 * Runs it with a terminal of 80 columns as standard input, output and error. `typed` is typed once
 * the program has written `prompt`; both may be NULL. What it wrote is in `out`, with "\r\n" as
 * line ends; `err` is empty. The words end with NULL.
 */
struct program_run terminal_run(const char *prompt, const char *typed, ...)
    __attribute__((sentinel));
