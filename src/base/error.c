#include "base/error.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

/* A text that was cut off may end within a character, and readers of UTF-8 refuse half a
 * character. */
static void end_with_whole_character(char *text, size_t length)
{
        size_t start = length;
        unsigned char first;
        size_t n_bytes;

        while (start > 0 && ((unsigned char)text[start - 1] & 0xc0) == 0x80)
                start--;
        if (start == 0)
                return;
        first = (unsigned char)text[--start];
        n_bytes = first < 0xc0 ? 1 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
        if (length - start < n_bytes)
                text[start] = '\0';
}

bool error_set(struct error *error, enum error_kind kind, const char *format, ...)
{
        const size_t room = sizeof error->text - 1;
        va_list arguments;
        int length;

        error->kind = kind;
        va_start(arguments, format);
        length = vsnprintf(error->text, sizeof error->text, format, arguments);
        va_end(arguments);
        if (length > (int)room)
                end_with_whole_character(error->text, room);
        return false;
}

int error_exit_code(enum error_kind kind)
{
        switch (kind) {
        case ERROR_NONE:
                return 0;
        case ERROR_SYSTEM:
                return 1;
        case ERROR_USAGE:
                return 2;
        case ERROR_CONFIG:
                return 3;
        case ERROR_DATABASE:
        case ERROR_LOGIN:
                return 4;
        case ERROR_SINK:
                return 5;
        case ERROR_SCHEMA:
                return 6;
        case ERROR_PERMISSION:
                return 7;
        case ERROR_EMPTY:
                return 8;
        case ERROR_TEMPORARY:
                return 75;
        }
        abort();
}
