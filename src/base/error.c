#include "base/error.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

bool error_set(struct error *error, enum error_kind kind, const char *format, ...)
{
        va_list arguments;

        error->kind = kind;
        va_start(arguments, format);
        vsnprintf(error->text, sizeof error->text, format, arguments);
        va_end(arguments);
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
