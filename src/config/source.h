/*
 * The config file while it is being loaded: its text, where its keys stand,
 * and the one way in which everything that is wrong with it is said.
 */
#pragma once

#include "base/error.h"
#include "config/locate.h"

#include <stddef.h>

enum { KEY_PATH_SIZE = 512 };

struct source {
        const char *path; /* borrowed */
        char *text;       /* owned; may hold secrets */
        size_t length;
        struct places *places; /* owned */
        struct error *error;   /* borrowed: the caller's */
};

/* Reads and indexes the file; on failure *error is set. Close it in either case. */
bool source_open(struct source *source, const char *path, struct error *error);
/* The same with a text that was read from there; copied. */
bool source_open_text(
    struct source *source, const char *path, const char *text, size_t length, struct error *error);
void source_close(struct source *source);

/*
 * Sets the error to "FILE:LINE:COLUMN: key.path: reason" and returns false. The
 * position is that of the key, or of the nearest block around it that is in the
 * file. Control characters in the text become '?'. Quote values only as they
 * stand in the file, and none of a secret key: what a variable or a file
 * filled in may be a secret anywhere.
 */
bool source_fail(const struct source *source, const char *key_path, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* The same with a kind other than ERROR_CONFIG. */
bool source_fail_as(const struct source *source, enum error_kind kind, const char *key_path,
    const char *format, ...) __attribute__((format(printf, 4, 5)));

/* "FILE:LINE:COLUMN: key.path", for complaints after the file is closed; free it. */
char *source_where(const struct source *source, const char *key_path);

/* "parent.name", or "name" at the top. */
void key_path_join(char out[KEY_PATH_SIZE], const char *parent, const char *name);
void key_path_item(char out[KEY_PATH_SIZE], const char *parent, size_t item);
