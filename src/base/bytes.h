/* A growing byte buffer. Always NUL-terminated beyond its length once it holds anything. */
#pragma once

#include <stddef.h>

struct bytes {
        char *data; /* owned; NULL while empty and never used */
        size_t length;
        size_t capacity;
};

void bytes_deinit(struct bytes *bytes);
void bytes_clear(struct bytes *bytes); /* keeps the storage */

/* Makes room for `more` bytes, and returns where they go. The caller writes them, adds their number
 * to `length`, and puts a NUL behind them. */
char *bytes_reserve(struct bytes *bytes, size_t more);

void bytes_append(struct bytes *bytes, const void *data, size_t length);
void bytes_append_text(struct bytes *bytes, const char *text);
void bytes_printf(struct bytes *bytes, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Appends a word of a command that people paste into a shell: quoted if it has to be, after a space
 * if the buffer is not empty. */
void bytes_append_shell_word(struct bytes *command, const char *word);
