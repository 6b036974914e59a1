/* The receivers of sinks that fan out: all that can be done with them by hand. */
#include "cli/endpoint/cmd_endpoint.h"

#include "base/bytes.h"
#include "cli/commands.h"
#include "cli/operate.h"
#include "cli/subcommand.h"
#include "config/config.h"
#include "config/secret.h"
#include "config/suggest.h"
#include "operator/endpoint_rows.h"
#include "pg/blocking_conn.h"
#include "sinks/registry.h"

#include <limits.h>
#include <string.h>

#define ANSWER_TIMEOUT_MS 30000

#define BIT(option) (UINT32_C(1) << (option))
#define CONNECT     (BIT(OPTION_DSN) | BIT(OPTION_CONFIG))

static const struct command_option options[] = {
    [OPTION_SINK] = {"sink", 0, "NAME", false,
        "the sink that delivers to it; for list: only\nthose of this sink"},
    [OPTION_URL] = {"url", 0, "URL", false, "where its events are posted to"},
    [OPTION_TOPICS] = {"topics", 0, "A,B", true,
        "patterns: * is any characters up to the next\ndot, ** any at all, ! excludes;\n"
        "default: **,!courier.**"},
    [OPTION_TYPES] = {"types", 0, "A,B", true, "the same for types; default: any"},
    [OPTION_FILTER] = {"filter", 0, "JSONPATH", false,
        "a predicate that the payload must meet:\n'$.total > 100'"},
    [OPTION_HEADER] = {"header", 0, "'NAME: VALUE'", true,
        "send this along; may be given several times"},
    [OPTION_CONCURRENCY] = {"concurrency", 0, "N", false,
        "requests under way at the same time; default: 8"},
    [OPTION_RATE] = {"rate", 0, "N", false, "events a second; default: 0, unlimited"},
    [OPTION_BURST] = {"burst", 0, "N", false,
        "events that may go at once within the rate;\ndefault: those of one second"},
    [OPTION_DESCRIPTION] = {"description", 0, "TEXT", false, "for people"},
    [OPTION_SECRET_FILE] = {"secret-file", 0, "FILE", false,
        "the secret to sign with, instead of a new one"},
    [OPTION_START] = {"start", 0, "now|beginning", false,
        "whether it gets what the outbox still has;\ndefault: now, only what is published from now "
        "on"},
    [OPTION_STATE] = {"state", 0, "STATE", false, "only those active, paused or disabled"},
    [OPTION_REASON] = {"reason", 0, "TEXT", false, "why, for people"},
    [OPTION_OVERLAP] = {"overlap", 0, "DURATION", false,
        "how long the old secret signs too: 90s, 12h, 7d;\n0 ends it at once; default: 24h"},
    [OPTION_TOPIC] = {"topic", 0, "TOPIC", false,
        "of the test event; default: courier.endpoint.test"},
    [OPTION_PAYLOAD] = {"payload", 0, "JSON", false, "of the test event"},
    [OPTION_SECRETS] = {"secrets", 0, NULL, false, "show the secrets and header values too"},
    [OPTION_YES] = {"yes", 'y', NULL, false, "do not ask"},
    [OPTION_FAIL_EMPTY] = {"fail-empty", 0, NULL, false, "end with 8 if there are none"},
    [OPTION_JSON] = {"json", 0, NULL, false, "print JSON, one object a line"},
    [OPTION_DSN] = {"dsn", 0, "DSN", false, "the database: postgresql://… or host=…"},
    [OPTION_CONFIG] = {"config", 'c', "FILE", false,
        "the database and the sinks of this configuration"},
    {0},
};

struct blocking_conn *endpoint_connect(const struct arguments *arguments, struct error *error)
{
        return operate_connect(arguments_value(arguments, OPTION_DSN),
            arguments_value(arguments, OPTION_CONFIG), ANSWER_TIMEOUT_MS, error);
}

/* The table's rules are named as sentences: url_must_be_at_most_2048_bytes. */
static bool broken_rule(const char *name, const char *constraint, struct error *error)
{
        struct bytes sentence = {0};

        bytes_append_text(&sentence, *constraint != '\0' ? constraint : "a rule is broken");
        for (char *at = sentence.data; *at != '\0'; at++)
                if (*at == '_')
                        *at = ' ';
        error_set(error, ERROR_USAGE, "endpoint %.100s: %s", name, sentence.data);
        bytes_deinit(&sentence);
        return false;
}

bool endpoint_refused(struct blocking_conn *conn, const char *name, struct error *error)
{
        const char *sqlstate = blocking_conn_sqlstate(conn);

        if (strcmp(sqlstate, "23505") == 0)
                return error_set(error, ERROR_USAGE,
                    "there is an endpoint \"%.100s\" already; see `pgcourier endpoint show %.100s`",
                    name, name);
        if (strcmp(sqlstate, "P0002") == 0) /* rotate_secret()'s no_data_found */
                return endpoint_missing(conn, name, error);
        /* What check_endpoint() says is a sentence already. */
        if (strcmp(sqlstate, "23503") == 0)
                return error_set(error, ERROR_USAGE,
                    "%s; here it is enough to add -c FILE with its configuration",
                    blocking_conn_message(conn));
        if (strcmp(blocking_conn_constraint(conn), "filter_must_be_a_predicate") == 0)
                return error_set(error, ERROR_USAGE, "%s", blocking_conn_message(conn));
        if (strncmp(sqlstate, "23", 2) == 0)
                return broken_rule(name, blocking_conn_constraint(conn), error);
        if (strcmp(sqlstate, "22003") == 0)
                return error_set(
                    error, ERROR_USAGE, "endpoint %.100s: %s", name, blocking_conn_message(conn));
        /* syntax_error, invalid_regular_expression: our statements have none, a JSON path may. */
        if (strcmp(sqlstate, "42601") == 0 || strcmp(sqlstate, "2201B") == 0)
                return error_set(error, ERROR_USAGE,
                    "--filter: %s. Write a JSON path predicate such as '$.total > 100'",
                    blocking_conn_message(conn));
        return operate_refused(conn, error);
}

bool endpoint_missing(struct blocking_conn *conn, const char *name, struct error *error)
{
        struct rows *rows = endpoint_names(conn, error);
        const char *meant = NULL;

        if (rows == NULL)
                return operate_refused(conn, error);
        for (int i = 0; i < rows_count(rows); i++)
                meant = suggest_nearer(name, meant, rows_text(rows, i, 0));
        if (meant != NULL)
                error_set(error, ERROR_EMPTY,
                    "there is no endpoint \"%.100s\"; did you mean \"%s\"?", name, meant);
        else
                error_set(error, ERROR_EMPTY,
                    "there is no endpoint \"%.100s\"; see `pgcourier endpoint list`", name);
        rows_free(rows);
        return false;
}

bool endpoint_read_secret(const struct arguments *arguments, char **out_secret, struct error *error)
{
        const char *path = arguments_value(arguments, OPTION_SECRET_FILE);
        struct error why = {0};

        *out_secret = NULL;
        if (path == NULL)
                return true;
        *out_secret = secret_read_line(path, &why);
        return *out_secret != NULL ||
               error_set(error, why.kind, "--secret-file: %.200s %s", path, why.text);
}

static bool no_such_sink(const struct config *config, const char *name, struct error *error)
{
        struct bytes text = {0};
        const char *separator = "";

        for (unsigned i = 0; i < config->n_sinks; i++) {
                if (!sink_config_fans_out(&config->sinks[i]))
                        continue;
                bytes_printf(&text, "%s%s", separator, config->sinks[i].name);
                separator = ", ";
        }
        if (text.length == 0)
                error_set(error, ERROR_USAGE,
                    "the configuration has no sink with endpoints: table, which is what "
                    "delivers to endpoints");
        else if (name == NULL)
                error_set(error, ERROR_USAGE,
                    "which sink? Add --sink NAME, one of those that deliver to endpoints: %s",
                    text.data);
        else
                error_set(error, ERROR_USAGE,
                    "--sink: the configuration has no sink \"%.64s\" that delivers to endpoints. "
                    "Those that do: %s",
                    name, text.data);
        bytes_deinit(&text);
        return false;
}

const struct sink_config *endpoint_find_sink(
    const struct config *config, const char *name, struct error *error)
{
        const struct sink_config *found = NULL;
        unsigned n_found = 0;

        for (unsigned i = 0; i < config->n_sinks; i++) {
                const struct sink_config *sink = &config->sinks[i];
                if (!sink_config_fans_out(sink) || (name != NULL && strcmp(sink->name, name) != 0))
                        continue;
                found = sink;
                n_found++;
        }
        if (n_found == 1)
                return sink_kind_load(config->relay.modules, found, error) != NULL ? found : NULL;
        (void)!no_such_sink(config, name, error);
        return NULL;
}

static const struct subcommand subcommands[] = {
    {"add",
        CONNECT | BIT(OPTION_SINK) | BIT(OPTION_URL) | BIT(OPTION_TOPICS) | BIT(OPTION_TYPES) |
            BIT(OPTION_FILTER) | BIT(OPTION_HEADER) | BIT(OPTION_CONCURRENCY) | BIT(OPTION_RATE) |
            BIT(OPTION_BURST) | BIT(OPTION_DESCRIPTION) | BIT(OPTION_SECRET_FILE) |
            BIT(OPTION_START) | BIT(OPTION_JSON),
        1, 1, endpoint_run_add},
    {"list",
        CONNECT | BIT(OPTION_SINK) | BIT(OPTION_STATE) | BIT(OPTION_FAIL_EMPTY) | BIT(OPTION_JSON),
        0, 0, endpoint_run_list},
    {"show", CONNECT | BIT(OPTION_SECRETS) | BIT(OPTION_JSON), 1, 1, endpoint_run_show},
    {"pause", CONNECT | BIT(OPTION_REASON), 1, 1, endpoint_run_pause},
    {"resume", CONNECT, 1, 1, endpoint_run_resume},
    {"remove", CONNECT | BIT(OPTION_YES), 1, 1, endpoint_run_remove},
    {"rotate-secret", CONNECT | BIT(OPTION_OVERLAP) | BIT(OPTION_SECRET_FILE), 1, 1,
        endpoint_run_rotate_secret},
    {"test", CONNECT | BIT(OPTION_TOPIC) | BIT(OPTION_PAYLOAD), 1, 1, endpoint_run_test},
    {0},
};

static bool run_endpoint(const struct arguments *arguments, struct error *error)
{
        return subcommands_run(arguments, error);
}

const struct command endpoint_command = {
    .name = "endpoint",
    .summary = "manage the receivers of an http sink with endpoints: table",
    .usage =
        "add NAME --url URL [--sink NAME] [--topics A,B] [--types A,B]\n"
        "                 [--filter JSONPATH] [--header 'NAME: VALUE']... [--concurrency N]\n"
        "                 [--rate N] [--burst N] [--description TEXT] [--secret-file FILE]\n"
        "                 [--start now|beginning] [--json]\n"
        "       pgcourier endpoint list [--sink NAME] [--state STATE] [--fail-empty] [--json]\n"
        "       pgcourier endpoint show NAME [--secrets] [--json]\n"
        "       pgcourier endpoint pause NAME [--reason TEXT]\n"
        "       pgcourier endpoint resume NAME\n"
        "       pgcourier endpoint remove NAME [--yes]\n"
        "       pgcourier endpoint rotate-secret NAME [--overlap DURATION]\n"
        "                 [--secret-file FILE]\n"
        "       pgcourier endpoint test NAME [--topic TOPIC] [--payload JSON] -c FILE\n"
        "       each with [--dsn DSN | -c FILE]",
    .details =
        "add            makes a receiver and prints its new secret, with which it verifies what\n"
        "               it gets; with -c the sink checks the URL and the headers first\n"
        "list           what there is: state, since when it fails, how many deliveries are\n"
        "               parked and dead\n"
        "show           one with all its settings, and how many events wait for it\n"
        "pause, resume  its events wait in the outbox, and go on; resume also ends disabled\n"
        "remove         what waits for it goes, its dead letters stay\n"
        "rotate-secret  prints a new secret; the old one signs too for a while\n"
        "test           posts one event from here and says what the receiver answered; nothing\n"
        "               is stored\n"
        "\n"
        "Everything takes effect at once in a running relay, as do changes of the table\n"
        "courier.endpoint by SQL, which can change all other settings. The role must be a member\n"
        "of courier_relay.\n",
    .options = options,
    .subcommands = subcommands,
    .no_subcommand =
        "Other settings are changed by SQL: UPDATE courier.endpoint SET … WHERE name = '…'",
    .max_operands = UINT_MAX,
    .run = run_endpoint,
};
