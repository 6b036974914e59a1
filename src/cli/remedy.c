#include "cli/remedy.h"

#include "base/alloc.h"
#include "base/bytes.h"
#include "cli/cli.h"
#include "pg/dsn_split.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MARK "`pgcourier "

/* For the life of the process; NULL: none. */
static char *config;
static char *dsn; /* without secrets */

/* Whether the command has the option, and where. */
static bool has_option(const struct command *command, const char *name, unsigned *out_index)
{
        const struct command_option *options = command->options;

        for (unsigned i = 0; options != NULL && options[i].name != NULL; i++)
                if (strcmp(options[i].name, name) == 0) {
                        *out_index = i;
                        return true;
                }
        return false;
}

static const char *given(const struct arguments *arguments, const char *name)
{
        unsigned index;

        return has_option(arguments->command, name, &index) ? arguments_value(arguments, index)
                                                            : NULL;
}

char *remedy_absolute(const char *path)
{
        char *folder, *absolute;

        /* Not realpath(): what is linked to may be replaced. */
        while (strncmp(path, "./", 2) == 0)
                path += 1 + strspn(path + 1, "/");
        folder = *path != '/' ? getcwd(NULL, 0) : NULL;
        absolute = folder != NULL ? xasprintf("%s/%s", folder, path) : xstrdup(path);
        free(folder);
        return absolute;
}

void remedy_init(const struct arguments *arguments)
{
        const char *path = given(arguments, "config");
        const char *given_dsn = given(arguments, "dsn");

        if (path != NULL)
                config = remedy_absolute(path);
        if (given_dsn != NULL)
                dsn = dsn_without_secrets(given_dsn);
}

const char *remedy_config(void)
{
        return config;
}

/* `at` is behind the mark, `length` up to the backtick. What the command lacks that this one was given. */
static void complete(struct bytes *out, const char *at, size_t length)
{
        char name[32];
        size_t name_length = strcspn(at, " `");
        const struct command *command;
        unsigned index;

        if (name_length >= sizeof name || memmem(at, length, " -c ", 4) != NULL ||
            memmem(at, length, " --dsn", 6) != NULL)
                return;
        memcpy(name, at, name_length);
        name[name_length] = '\0';
        command = command_find(name);
        if (command == NULL)
                return;
        if (config != NULL && has_option(command, "config", &index)) {
                bytes_append_shell_word(out, "-c");
                bytes_append_shell_word(out, config);
        } else if (dsn != NULL && *dsn != '\0' && has_option(command, "dsn", &index)) {
                bytes_append_shell_word(out, "--dsn");
                bytes_append_shell_word(out, dsn);
        }
}

char *remedy_complete(const char *text)
{
        struct bytes out = {0};
        const char *mark;

        bytes_append_text(&out, "");
        while ((mark = strstr(text, MARK)) != NULL) {
                const char *begin = mark + strlen(MARK);
                size_t length = strcspn(begin, "`");
                bytes_append(&out, text, (size_t)(begin - text) + length);
                text = begin + length;
                if (*text == '`')
                        complete(&out, begin, length);
        }
        bytes_append_text(&out, text);
        return out.data;
}

void remedy_print(const char *format, ...)
{
        va_list arguments;
        char *text, *completed;

        va_start(arguments, format);
        text = xvasprintf(format, arguments);
        va_end(arguments);
        completed = remedy_complete(text);
        puts(completed);
        fflush(stdout);
        free(completed);
        free(text);
}
