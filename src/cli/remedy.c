#include "cli/remedy.h"

#include "base/alloc.h"
#include "base/bytes.h"
#include "base/shell_word.h"
#include "cli/cli.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MARK "`pgcourier "

static char *config; /* for the life of the process; NULL: none */

static bool takes_config(const struct command *command, unsigned *out_index)
{
        const struct command_option *options = command->options;

        for (unsigned i = 0; options != NULL && options[i].name != NULL; i++)
                if (strcmp(options[i].name, "config") == 0) {
                        *out_index = i;
                        return true;
                }
        return false;
}

void remedy_init(const struct arguments *arguments)
{
        unsigned index;
        const char *path =
            takes_config(arguments->command, &index) ? arguments_value(arguments, index) : NULL;
        char *folder;

        if (path == NULL)
                return;
        /* Not realpath(): what is linked to may be replaced. */
        while (strncmp(path, "./", 2) == 0)
                path += 1 + strspn(path + 1, "/");
        folder = *path != '/' ? getcwd(NULL, 0) : NULL;
        config = folder != NULL ? xasprintf("%s/%s", folder, path) : xstrdup(path);
        free(folder);
}

const char *remedy_config(void)
{
        return config;
}

/* `at` is behind the mark, `length` up to the backtick. */
static bool is_to_complete(const char *at, size_t length)
{
        char name[32];
        size_t name_length = strcspn(at, " `");
        const struct command *command;
        unsigned index;

        if (name_length >= sizeof name)
                return false;
        memcpy(name, at, name_length);
        name[name_length] = '\0';
        command = command_find(name);
        return command != NULL && takes_config(command, &index) &&
               memmem(at, length, " -c ", 4) == NULL && memmem(at, length, " --dsn", 6) == NULL;
}

char *remedy_complete(const char *text)
{
        struct bytes out = {0};
        const char *mark;

        bytes_append_text(&out, "");
        while (config != NULL && (mark = strstr(text, MARK)) != NULL) {
                const char *begin = mark + strlen(MARK);
                size_t length = strcspn(begin, "`");
                bytes_append(&out, text, (size_t)(begin - text) + length);
                text = begin + length;
                if (*text == '`' && is_to_complete(begin, length)) {
                        shell_word_append(&out, "-c");
                        shell_word_append(&out, config);
                }
        }
        bytes_append_text(&out, text);
        return out.data != NULL ? out.data : xstrdup("");
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
