/*
 * Writes a first configuration from options and, on a terminal, from questions
 * about the rest. On any error no file is left half written, and an existing
 * file stays as it was.
 */
#include "cli/init/cmd_init.h"

#include "base/alloc.h"
#include "base/bytes.h"
#include "cli/commands.h"
#include "config/config.h"
#include "pg/dsn.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

enum { DSN, SINK, TOPICS, FROM, OUTPUT, ADMIN, APPLY_SCHEMA, YES, FORCE };

static const struct command_option options[] = {
    [DSN] = {"dsn", 0, "DSN", false,
        "the database: postgresql://… or host=…; a password in it\ngoes into a file of its own"},
    [SINK] = {"sink", 0, "KIND=URL", true,
        "where events go: redis=redis://…, http=https://…,\nemail=smtp://…, nats=nats://…, "
        "rabbitmq=amqp://…,\nkafka=HOST:PORT, postgres=SCHEMA.FUNCTION or stdout; may be given "
        "more than once"},
    [TOPICS] = {"topics", 0, "A,B", false, "which events; all (**) by default"},
    [FROM] = {"from", 0, "ADDRESS", false, "the sender of e-mail"},
    [OUTPUT] = {"output", 'o', "FILE", false, "pgcourier.yaml by default"},
    [ADMIN] = {"admin", 0, NULL, false, "with the live page, health and metrics on 127.0.0.1:8477"},
    [APPLY_SCHEMA] = {"apply-schema", 0, NULL, false, "make the schema in the database now"},
    [YES] = {"yes", 'y', NULL, false, "ask nothing: what is not given is as it is by default"},
    [FORCE] = {"force", 0, NULL, false, "replace a file that is there"},
    {0},
};

/* Asks at a terminal. Without one, and for an empty answer or the end of input: `fallback`. */
static char *ask(const struct arguments *arguments, const char *question, const char *fallback)
{
        char *answer = NULL;
        size_t capacity = 0;

        if (arguments_has(arguments, YES) || !isatty(STDIN_FILENO) || !isatty(STDERR_FILENO))
                return xstrdup(fallback);
        fprintf(stderr, "%s [%s]: ", question, fallback);
        if (getline(&answer, &capacity, stdin) > 0)
                answer[strcspn(answer, "\r\n")] = '\0';
        if (answer != NULL && *answer != '\0')
                return answer;
        free(answer);
        return xstrdup(fallback);
}

static bool ask_whether(
    const struct arguments *arguments, const char *question, const char *fallback)
{
        char *answer = ask(arguments, question, fallback);
        const bool is_yes = strcasecmp(answer, "y") == 0 || strcasecmp(answer, "yes") == 0;

        free(answer);
        return is_yes;
}

static char *given_or_asked(
    const struct arguments *arguments, unsigned option, const char *question, const char *fallback)
{
        const char *given = arguments_value(arguments, option);

        return given != NULL ? xstrdup(given) : ask(arguments, question, fallback);
}

static const struct init_kind kinds[] = {
    {"redis", "redis://127.0.0.1:6379", "url: ", false,
        "      stream: \"events:{{topic}}\"\n"
        "      # password_file: /path   # a file with the password, which is not to stand here\n"},
    {"http", "http://127.0.0.1:8080/events", "url: ", false,
        "      # secret_file: /path     # signs each request, by Standard Webhooks\n"},
    {"email", "smtp://127.0.0.1:25", "url: ", false,
        "      # password_file: /path   # with user: NAME\n"},
    {"nats", "nats://127.0.0.1:4222", "servers: [", true,
        "      subject: \"events.{{topic}}\"\n"
        "      # creds_file: /path      # or nkey_file, token_file, user and password_file\n"},
    {"rabbitmq", "amqp://127.0.0.1:5672", "servers: [", true,
        "      exchange: amq.topic     # which each RabbitMQ has\n"
        "      routing_key: \"{{topic}}\"\n"
        "      # password_file: /path   # with user: NAME\n"},
    {"kafka", "127.0.0.1:9092", "brokers: [", true,
        "      topic: \"{{topic}}\"\n"
        "      # password_file: /path   # with sasl: plain and user: NAME\n"},
    {"postgres", "app.run_job", "call: ", false,
        "      # role: NAME             # whom the calls run as\n"},
    {"stdout", NULL, NULL, false, NULL},
};

static const struct init_kind *find_kind(const char *name, size_t length)
{
        for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
                if (strlen(kinds[i].name) == length && strncmp(kinds[i].name, name, length) == 0)
                        return &kinds[i];
        return NULL;
}

/* Kind and URL of "redis=redis://host". */
static bool add_sink(struct init *init, const char *word, struct error *error)
{
        const size_t length = strcspn(word, "=");
        const bool has_url = word[length] == '=' && word[length + 1] != '\0';
        const char *url = has_url ? word + length + 1 : "";
        const char *host = strstr(url, "://");
        const char *at = host != NULL ? strchr(host, '@') : NULL;
        struct init_sink *sink = &init->sinks[init->n_sinks];

        if (init->n_sinks == INIT_MAX_SINKS)
                return error_set(error, ERROR_USAGE, "init: more than %d sinks", INIT_MAX_SINKS);
        sink->kind = find_kind(word, length);
        if (sink->kind == NULL)
                return error_set(error, ERROR_USAGE,
                    "init: --sink \"%.64s\" is not redis=URL, http=URL, email=URL, nats=URL, "
                    "rabbitmq=URL, kafka=HOST:PORT, postgres=SCHEMA.FUNCTION or stdout",
                    word);
        if (has_url != (sink->kind->url != NULL))
                return error_set(error, ERROR_USAGE, "init: --sink %s%s", sink->kind->name,
                    has_url ? " takes no URL" : " needs a URL: --sink KIND=URL");
        if (at != NULL && memchr(host + 3, ':', (size_t)(at - host) - 3) != NULL)
                return error_set(error, ERROR_USAGE,
                    "init: the URL for %s holds a password, which is not to stand in the file: "
                    "leave it out, and write user and password_file there",
                    sink->kind->name);
        sink->url = has_url ? xstrdup(url) : NULL;
        init->n_sinks++;
        return true;
}

static bool ask_for_sink(const struct arguments *arguments, struct init *init, struct error *error)
{
        char *name = ask(arguments,
            "Where to: redis, http, email, nats, rabbitmq, kafka, postgres or stdout", "redis");
        const struct init_kind *kind = find_kind(name, strlen(name));
        char *url = NULL;
        char *word;
        bool ok;

        if (kind != NULL && kind->url != NULL)
                url = ask(arguments, "URL", kind->url);
        word = url != NULL ? xasprintf("%s=%s", name, url) : xstrdup(name);
        ok = add_sink(init, word, error);
        free(word);
        free(url);
        free(name);
        return ok;
}

static bool is_email(const struct init_sink *sink)
{
        return strcmp(sink->kind->name, "email") == 0;
}

static bool take_sinks(const struct arguments *arguments, struct init *init, struct error *error)
{
        const char *sink;
        unsigned at = 0;
        bool has_email = false;

        while ((sink = arguments_next(arguments, SINK, &at)) != NULL)
                if (!add_sink(init, sink, error))
                        return false;
        while (init->n_sinks == 0 ||
               (!arguments_has(arguments, SINK) && ask_whether(arguments, "One more? y or n", "n")))
                if (!ask_for_sink(arguments, init, error))
                        return false;
        init->topics = given_or_asked(
            arguments, TOPICS, "Which topics, with commas between; ** for all", "**");
        for (unsigned i = 0; i < init->n_sinks; i++)
                has_email |= is_email(&init->sinks[i]);
        if (has_email)
                init->from = given_or_asked(arguments, FROM, "The sender of e-mail", "");
        return !has_email || *init->from != '\0' ||
               error_set(error, ERROR_USAGE, "init: e-mail needs a sender: --from ADDRESS");
}

static bool take_database(const struct arguments *arguments, struct init *init, struct error *error)
{
        char *dsn = given_or_asked(
            arguments, DSN, "Which database: a libpq connection string or URI", "dbname=postgres");
        const bool ok = dsn_split(dsn, &init->dsn, &init->password, error);

        explicit_bzero(dsn, strlen(dsn));
        free(dsn);
        return ok && init_look_at_database(init, arguments_has(arguments, APPLY_SCHEMA), error);
}

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
                n_before += init->sinks[i].kind == sink->kind;
        bytes_printf(text, "  - name: %s", sink->kind->name);
        if (n_before > 0)
                bytes_printf(text, "-%u", n_before + 1);
        bytes_append_text(text, "\n");
        append_topics(text, init->topics);
        if (sink->url == NULL) {
                bytes_printf(text, "    %s: {}\n", sink->kind->name);
                return;
        }
        bytes_printf(text, "    %s:\n      %s", sink->kind->name, sink->kind->place);
        append_quoted(text, sink->url);
        bytes_append_text(text, sink->kind->is_list ? "]\n" : "\n");
        if (is_email(sink)) {
                bytes_append_text(text, "      from: ");
                append_quoted(text, init->from != NULL ? init->from : "");
                bytes_append_text(text, "\n");
        }
        bytes_append_text(text, sink->kind->rest);
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

/* The configuration, and beside it a file with the password, both for their owner alone; checked as
 * `pgcourier check` does before it is kept. */
static bool write_files(const struct init *init, struct error *error)
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

static bool take_all(const struct arguments *arguments, struct init *init, struct error *error)
{
        init->is_forced = arguments_has(arguments, FORCE);
        init->output = given_or_asked(arguments, OUTPUT, "Which file to write", "pgcourier.yaml");
        if (!init->is_forced && access(init->output, F_OK) == 0)
                return error_set(error, ERROR_USAGE,
                    "init: %.400s is there already; --force replaces it", init->output);
        if (!take_database(arguments, init, error) || !take_sinks(arguments, init, error))
                return false;
        init->has_admin = arguments_has(arguments, ADMIN) ||
                          ask_whether(arguments,
                              "The live page, health and metrics on 127.0.0.1:8477? y or n", "n");
        return write_files(init, error);
}

static void init_deinit(struct init *init)
{
        for (unsigned i = 0; i < init->n_sinks; i++)
                free(init->sinks[i].url);
        if (init->password != NULL)
                explicit_bzero(init->password, strlen(init->password));
        free(init->password);
        free(init->dsn);
        free(init->topics);
        free(init->from);
        free(init->output);
}

static bool run_init(const struct arguments *arguments, struct error *error)
{
        struct init init = {0};
        const bool ok = take_all(arguments, &init, error);

        if (ok)
                printf("\nNext:\n  pgcourier check -c %s --connect\n  pgcourier run -c %s\n",
                    init.output, init.output);
        init_deinit(&init);
        return ok;
}

const struct command init_command = {
    .name = "init",
    .summary = "write a first configuration, and say what the database lacks",
    .usage = "[--dsn DSN] [--sink KIND=URL]... [--topics A,B] [--from ADDRESS]\n"
             "                 [-o FILE] [--admin] [--apply-schema] [--yes] [--force]",
    .details =
        "On a terminal it asks for what is not given. Looks at the database and prints the\n"
        "SQL for what is missing there: schema, rights. Then writes a commented configuration\n"
        "that `pgcourier check` accepts, for its owner alone; a password of the dsn goes into\n"
        "FILE.password. Replaces no file without --force, and changes the database only with\n"
        "--apply-schema.\n",
    .options = options,
    .run = run_init,
};
