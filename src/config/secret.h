/* Texts that may be secrets: read from files, and cleared before they are freed. */
#pragma once

#include "base/error.h"

#include <stddef.h>

/*
 * The whole file, with a NUL behind it; release it with secret_free_bytes(). On failure returns
 * NULL and sets *error to a reason without the name of the file, which the caller adds:
 * ERROR_PERMISSION if the file may not be read, else ERROR_CONFIG.
 */
char *secret_read_bytes(
    const char *path, size_t max_bytes, size_t *out_length, struct error *error);

/* The one line of a file, without a trailing newline; never empty, never with NUL, CR or LF inside.
 * Release it with secret_free(). Fails as secret_read_bytes() does. */
char *secret_read_line(const char *path, struct error *error);

/* NULL is allowed. */
void secret_free(char *text);
void secret_free_bytes(char *data, size_t length);

/* Calls `on_exposed` for each file read from now on that every user of the machine may read. The
 * path is borrowed for the call. NULL: no more. */
void secret_watch_exposed(void (*on_exposed)(const char *path));
