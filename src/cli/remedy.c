#include "cli/remedy.h"

#include "base/alloc.h"
#include "base/bytes.h"
#include "cli/cli.h"
#include "pg/dsn.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MARK "`pgcourier "

/* For the life of the process; NULL: none. */
static const struct command *const *commands;
static char *config;
static char *dsn; /* without secrets */

static bool has_option(const struct command *command, const char *name)
{
        const struct command_option **options = command_options(command, command);
        bool has = false;

        for (size_t i = 0; options[i] != NULL; i++)
                has |= strcmp(options[i]->name, name) == 0;
        free(options);
        return has;
}

char *remedy_absolute(const char *path)
{
        char *folder, *absolute;

        /* Not realpath(): the target of a link may be replaced. */
        while (strncmp(path, "./", 2) == 0)
                path += 1 + strspn(path + 1, "/");
        folder = *path != '/' ? getcwd(NULL, 0) : NULL;
        absolute = folder != NULL ? xasprintf("%s/%s", folder, path) : xstrdup(path);
        free(folder);
        return absolute;
}

void remedy_init(const struct command *const all[], const struct arguments *arguments)
{
        commands = all;
        if (arguments->config_path != NULL)
                config = remedy_absolute(arguments->config_path);
        if (arguments->dsn != NULL)
                dsn = dsn_without_secrets(arguments->dsn);
}

const char *remedy_config(void)
{
        return config;
}

static const struct command *find_command(const char *name, size_t length)
{
        for (size_t i = 0; commands != NULL && commands[i] != NULL; i++)
                if (strlen(commands[i]->name) == length &&
                    strncmp(commands[i]->name, name, length) == 0)
                        return commands[i];
        return NULL;
}

/* Adds the option that the command in the text lacks. `at` is behind the mark, `length` ends at the
 * backtick. */
static void complete(struct bytes *out, const char *at, size_t length)
{
        const struct command *command = find_command(at, strcspn(at, " `"));

        if (command == NULL || memmem(at, length, " -c ", 4) != NULL ||
            memmem(at, length, " --dsn", 6) != NULL)
                return;
        if (config != NULL && has_option(command, "config")) {
                bytes_append_shell_word(out, "-c");
                bytes_append_shell_word(out, config);
        } else if (dsn != NULL && *dsn != '\0' && has_option(command, "dsn")) {
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
