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
void bytes_append(struct bytes *bytes, const void *data, size_t length);
void bytes_append_text(struct bytes *bytes, const char *text);
void bytes_printf(struct bytes *bytes, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
