/*
 * Texts that may be secrets: read from files, and cleared before their memory
 * is given back.
 */
#pragma once

#include "base/error.h"

#include <stddef.h>

/*
 * The whole file, NUL-terminated beyond its length; release it with
 * secret_free_bytes(). On failure returns NULL and sets *error to a reason
 * that names neither the file nor the key, as the caller knows both:
 * ERROR_PERMISSION if it may not be read, else ERROR_CONFIG.
 */
char *secret_read_bytes(
    const char *path, size_t max_bytes, size_t *out_length, struct error *error);

/* The same for one line of text: without one trailing newline; never empty, never with NUL, CR or
 * LF inside. Release it with secret_free(). */
char *secret_read_line(const char *path, struct error *error);

/* NULL is allowed. */
void secret_free(char *text);
void secret_free_bytes(char *data, size_t length);

/* Calls `on_exposed` for each file read from now on that every user of the machine may read. The path
 * is borrowed for the call. NULL: no more. */
void secret_watch_exposed(void (*on_exposed)(const char *path));
