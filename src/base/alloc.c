#include "base/alloc.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Plain stdio: the log itself may be what ran out of memory. */
static void *checked(void *block)
{
        if (block == NULL) {
                fputs("level=error event=out_of_memory\n", stderr);
                abort();
        }
        return block;
}

void *xcalloc(size_t count, size_t size)
{
        return checked(calloc(count > 0 ? count : 1, size > 0 ? size : 1));
}

void *xrealloc(void *block, size_t size)
{
        return checked(realloc(block, size > 0 ? size : 1));
}

char *xstrdup(const char *text)
{
        return checked(strdup(text));
}

char *xstrndup(const char *text, size_t max)
{
        return checked(strndup(text, max));
}

char *xasprintf(const char *format, ...)
{
        char *text = NULL;
        va_list arguments;

        va_start(arguments, format);
        if (vasprintf(&text, format, arguments) < 0)
                text = NULL;
        va_end(arguments);
        return checked(text);
}
