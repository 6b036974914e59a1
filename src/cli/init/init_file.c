/* `pgcourier init`: the file, which is checked like `pgcourier check` does before it is kept. */
#include "base/alloc.h"
#include "base/bytes.h"
#include "cli/init/cmd_init.h"
#include "config/config.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* In YAML's double quotes; `$` is doubled, because it begins a variable. */
static void append_quoted(struct bytes *text, const char *value)
{
        bytes_append_text(text, "\"");
        for (; *value != '\0'; value++)
                if (*value == '$')
                        bytes_append_text(text, "$$");
                else if (*value == '"' || *value == '\\')
                        bytes_printf(text, "\\%c", *value);
                else
                        bytes_append(text, value, 1);
        bytes_append_text(text, "\"");
}

static void append_topics(struct bytes *text, const char *topics)
{
        bytes_append_text(text, "    topics: [");
        for (const char *at = topics;;) {
                const size_t length = strcspn(at, ",");
                char *topic = xstrndup(at, length);
                append_quoted(text, topic);
                free(topic);
                if (at[length] == '\0')
                        break;
                bytes_append_text(text, ", ");
                at += length + 1;
        }
        bytes_append_text(text, "]\n");
}

static void append_sink(struct bytes *text, const struct init *init, unsigned index)
{
        const struct init_sink *sink = &init->sinks[index];
        unsigned n_before = 0;

        for (unsigned i = 0; i < index; i++)
                n_before += strcmp(init->sinks[i].kind, sink->kind) == 0;
        bytes_printf(text, "  - name: %s", sink->kind);
        if (n_before > 0)
                bytes_printf(text, "-%u", n_before + 1);
        bytes_append_text(text, "\n");
        append_topics(text, init->topics);
        if (sink->url == NULL) {
                bytes_printf(text, "    %s: {}\n", sink->kind);
                return;
        }
        bytes_printf(text, "    %s:\n      url: ", sink->kind);
        append_quoted(text, sink->url);
        if (strcmp(sink->kind, "redis") == 0) {
                bytes_append_text(text, "\n      stream: \"events:{{topic}}\"\n"
                                        "      # password_file: /path   # a file with the "
                                        "password, which is not to stand here\n");
        } else if (strcmp(sink->kind, "http") == 0) {
                bytes_append_text(text, "\n      # secret_file: /path     # signs each request, by "
                                        "Standard Webhooks\n");
        } else {
                bytes_append_text(text, "\n      from: ");
                append_quoted(text, init->from != NULL ? init->from : "");
                bytes_append_text(text, "\n      # password_file: /path   # with user: NAME\n");
        }
}

static char *password_path(const struct init *init)
{
        return xasprintf("%s.password", init->output);
}

static void compose(const struct init *init, const char *password_file, struct bytes *text)
{
        bytes_append_text(text, "# pgcourier: all keys are in pgcourier.yaml(5). Check it with\n"
                                "#   pgcourier check -c FILE --connect\n\n"
                                "postgres:\n  dsn: ");
        append_quoted(text, init->dsn);
        if (init->password != NULL) {
                bytes_append_text(text, "\n  password_file: ");
                append_quoted(text, password_file);
        }
        bytes_append_text(text,
            "\n\n# Where events go. topics: * stands for any run of characters without a dot, ** "
            "for\n"
            "# any run at all. A new sink gets what is published from its first start on;\n"
            "# start: beginning would give it what is there already.\n"
            "sinks:\n");
        for (unsigned i = 0; i < init->n_sinks; i++)
                append_sink(text, init, i);
        if (init->has_admin)
                bytes_append_text(text, "\n# The live page, health and metrics. To pause, resume, "
                                        "redrive and reload there "
                                        "as well:\n"
                                        "# make a token (umask 077; openssl rand -hex 32 > FILE), "
                                        "name its file below, and "
                                        "send the\n# relay SIGHUP once.\n"
                                        "admin:\n  listen: 127.0.0.1:8477\n  # token_file: FILE\n");
        else
                bytes_append_text(text, "\n# The live page, health and metrics:\n"
                                        "# admin:\n#   listen: 127.0.0.1:8477\n"
                                        "#   token_file: FILE   # to change something there, too; "
                                        "openssl rand -hex 32\n");
}

/* Writes a file that only its owner can ever read; --force replaces an existing one. */
static bool write_private(
    const struct init *init, const char *path, const char *text, struct error *error)
{
        char *draft = xasprintf("%s.new", path);
        int file;
        bool ok;

        unlink(draft); /* left by an interrupted init */
        file = open(draft, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
        ok = file >= 0 && write(file, text, strlen(text)) == (ssize_t)strlen(text) &&
             fsync(file) == 0;
        if (file >= 0)
                ok = close(file) == 0 && ok;
        /* link() fails if the file exists, rename() replaces it. */
        if (ok)
                ok = init->is_forced ? rename(draft, path) == 0 : link(draft, path) == 0;
        if (!ok) {
                const int why = errno;
                error_set(error, why == EACCES || why == EROFS ? ERROR_PERMISSION : ERROR_USAGE,
                    "%.400s cannot be written: %s%s", path, strerror(why),
                    why == EEXIST ? "; --force replaces it" : "");
        }
        unlink(draft);
        free(draft);
        return ok;
}

static bool check_written(const struct init *init, struct error *error)
{
        struct config *config = config_load(init->output, error);

        if (config == NULL) {
                unlink(init->output);
                return false;
        }
        config_free(config);
        return true;
}

bool init_write(const struct init *init, struct error *error)
{
        char *path = password_path(init);
        char *absolute;
        struct bytes text = {0};
        bool ok = true;

        if (init->password != NULL) {
                char *line = xasprintf("%s\n", init->password);
                ok = write_private(init, path, line, error);
                explicit_bzero(line, strlen(line));
                free(line);
        }
        absolute = init->password != NULL && ok ? realpath(path, NULL) : NULL;
        if (ok) {
                compose(init, absolute != NULL ? absolute : path, &text);
                ok = write_private(init, init->output, text.data, error) &&
                     check_written(init, error);
                if (!ok && init->password != NULL)
                        unlink(path);
        }
        if (ok) {
                printf("ok    file: %s\n", init->output);
                if (init->password != NULL)
                        printf("ok    file: %s, which holds the password\n", path);
        }
        bytes_deinit(&text);
        free(absolute);
        free(path);
        return ok;
}
