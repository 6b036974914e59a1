#include "base/alloc.h"

#include "base/error.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Neither the log nor stdio, which may be what ran out of memory; no exit handlers either. */
void out_of_memory(void)
{
        static const char words[] = "pgcourier: out of memory\n";
        ssize_t written = write(STDERR_FILENO, words, sizeof words - 1);

        (void)written;
        _exit(error_exit_code(ERROR_TEMPORARY));
}

static void *checked(void *block)
{
        if (block == NULL)
                out_of_memory();
        return block;
}

void *xmalloc(size_t size)
{
        return checked(malloc(size > 0 ? size : 1));
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

char *xvasprintf(const char *format, va_list arguments)
{
        char *text = NULL;

        return checked(vasprintf(&text, format, arguments) < 0 ? NULL : text);
}

char *xasprintf(const char *format, ...)
{
        va_list arguments;
        char *text;

        va_start(arguments, format);
        text = xvasprintf(format, arguments);
        va_end(arguments);
        return text;
}
