/*
 * Writes a first configuration from options and, on a terminal, from questions
 * about the rest. On any error no file is left half written, and an existing
 * file stays as it was.
 */
#include "cli/init/cmd_init.h"
#include "base/alloc.h"
#include "cli/commands.h"
#include "pg/dsn.h"

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
        "where events go: redis=redis://…, http=https://…,\nemail=smtp://…, or stdout; may be "
        "given more than once"},
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

bool init_add_sink(struct init *init, const char *word, struct error *error)
{
        static const char *const kinds[] = {"redis", "http", "email", "stdout"};
        const size_t length = strcspn(word, "=");
        const bool has_url = word[length] == '=' && word[length + 1] != '\0';
        const char *url = has_url ? word + length + 1 : "";
        const char *host = strstr(url, "://");
        const char *at = host != NULL ? strchr(host, '@') : NULL;
        struct init_sink *sink = &init->sinks[init->n_sinks];

        for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
                if (strlen(kinds[i]) != length || strncmp(kinds[i], word, length) != 0)
                        continue;
                if (has_url != (strcmp(kinds[i], "stdout") != 0))
                        return error_set(error, ERROR_USAGE, "init: --sink %s%s", kinds[i],
                            has_url ? " takes no URL" : " needs a URL: --sink KIND=URL");
                if (at != NULL && memchr(host + 3, ':', (size_t)(at - host) - 3) != NULL)
                        return error_set(error, ERROR_USAGE,
                            "init: the URL for %s holds a password, which is not to stand in the "
                            "file: leave it out, and write user and password_file there",
                            kinds[i]);
                if (init->n_sinks == INIT_MAX_SINKS)
                        return error_set(
                            error, ERROR_USAGE, "init: more than %d sinks", INIT_MAX_SINKS);
                sink->kind = xstrdup(kinds[i]);
                sink->url = has_url ? xstrdup(url) : NULL;
                init->n_sinks++;
                return true;
        }
        return error_set(error, ERROR_USAGE,
            "init: --sink \"%.64s\" is not redis=URL, http=URL, email=URL or stdout", word);
}

static bool ask_for_sink(const struct arguments *arguments, struct init *init, struct error *error)
{
        static const struct {
                const char *kind;
                const char *url;
        } usual[] = {{"redis", "redis://127.0.0.1:6379"}, {"http", "http://127.0.0.1:8080/events"},
            {"email", "smtp://127.0.0.1:25"}};
        char *kind = ask(arguments, "Where to: redis, http, email or stdout", "redis");
        const char *fallback = NULL;
        char *url;
        char *word;
        bool ok;

        for (size_t i = 0; i < sizeof usual / sizeof *usual; i++)
                if (strcmp(usual[i].kind, kind) == 0)
                        fallback = usual[i].url;
        if (fallback == NULL) {
                ok = init_add_sink(init, kind, error);
                free(kind);
                return ok;
        }
        url = ask(arguments, "URL", fallback);
        word = xasprintf("%s=%s", kind, url);
        ok = init_add_sink(init, word, error);
        free(word);
        free(url);
        free(kind);
        return ok;
}

static bool take_sinks(const struct arguments *arguments, struct init *init, struct error *error)
{
        const char *sink;
        unsigned at = 0;
        bool has_email = false;

        while ((sink = arguments_next(arguments, SINK, &at)) != NULL)
                if (!init_add_sink(init, sink, error))
                        return false;
        while (init->n_sinks == 0 ||
               (!arguments_has(arguments, SINK) && ask_whether(arguments, "One more? y or n", "n")))
                if (!ask_for_sink(arguments, init, error))
                        return false;
        init->topics = given_or_asked(
            arguments, TOPICS, "Which topics, with commas between; ** for all", "**");
        for (unsigned i = 0; i < init->n_sinks; i++)
                has_email |= strcmp(init->sinks[i].kind, "email") == 0;
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
        return init_write(init, error);
}

static void init_deinit(struct init *init)
{
        for (unsigned i = 0; i < init->n_sinks; i++) {
                free(init->sinks[i].kind);
                free(init->sinks[i].url);
        }
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
