#include "base/bytes.h"

#include "base/alloc.h"

#include <assert.h>
#include <ctype.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void grow(struct bytes *bytes, size_t needed)
{
        size_t capacity = bytes->capacity > 0 ? bytes->capacity : 128;

        while (capacity < needed)
                capacity *= 2;
        bytes->data = xrealloc(bytes->data, capacity);
        bytes->capacity = capacity;
}

char *bytes_reserve(struct bytes *bytes, size_t more)
{
        size_t needed = bytes->length + more + 1;

        if (needed > bytes->capacity)
                grow(bytes, needed);
        return bytes->data + bytes->length;
}

void bytes_deinit(struct bytes *bytes)
{
        free(bytes->data);
        *bytes = (struct bytes){0};
}

void bytes_clear(struct bytes *bytes)
{
        bytes->length = 0;
        if (bytes->data != NULL)
                bytes->data[0] = '\0';
}

void bytes_append(struct bytes *bytes, const void *data, size_t length)
{
        char *at = bytes_reserve(bytes, length);

        if (length > 0)
                memcpy(at, data, length);
        bytes->length += length;
        bytes->data[bytes->length] = '\0';
}

void bytes_append_text(struct bytes *bytes, const char *text)
{
        bytes_append(bytes, text, strlen(text));
}

void bytes_printf(struct bytes *bytes, const char *format, ...)
{
        va_list arguments;
        int length;

        va_start(arguments, format);
        length = vsnprintf(NULL, 0, format, arguments);
        va_end(arguments);
        assert(length >= 0);

        (void)bytes_reserve(bytes, (size_t)length);
        va_start(arguments, format);
        vsnprintf(bytes->data + bytes->length, (size_t)length + 1, format, arguments);
        va_end(arguments);
        bytes->length += (size_t)length;
}

void bytes_append_shell_word(struct bytes *command, const char *word)
{
        bool is_plain = *word != '\0';

        for (const char *at = word; *at != '\0'; at++)
                if (!isalnum((unsigned char)*at) && strchr("_@%+=:,./-", *at) == NULL)
                        is_plain = false;
        if (command->length > 0)
                bytes_append_text(command, " ");
        if (is_plain) {
                bytes_append_text(command, word);
                return;
        }
        bytes_append_text(command, "'");
        for (const char *at = word; *at != '\0'; at++)
                if (*at == '\'')
                        bytes_append_text(command, "'\\''");
                else
                        bytes_append(command, at, 1);
        bytes_append_text(command, "'");
}
