/*
 * What the program knows of itself, written out for the build and the documentation: each prints to
 * standard output and reads the tables of commands (cli/) and of keys (config/).
 */
#pragma once

#include "base/error.h"

/* A script that completes command lines in that shell: "bash", "zsh" or "fish". Else
 * ERROR_USAGE. */
bool completion_print(const char *shell, struct error *error);

/* Copies a manual page in the language of scdoc from standard input, and puts what the tables say
 * where a line asks for it:
 *
 *   @VERSION@  anywhere in a line
 *   @COMMANDS@, @EXIT_CODES@, @KEYS@  as a line
 */
bool manual_print(struct error *error);

/* The tables of docs/configuration.md. */
void config_docs_print(void);
