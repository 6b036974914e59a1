/* Sinks that stand still until `resume`, across restarts of the relay. */
#include "base/bytes.h"
#include "cli/commands.h"
#include "cli/connect.h"
#include "cli/input.h"
#include "cli/table.h"
#include "config/config.h"
#include "config/suggest.h"
#include "operator/sink_rows.h"

#include <stdio.h>
#include <string.h>

enum { REASON, FORCE, LIST, JSON, FAIL_EMPTY };

static const struct command_option pause_options[] = {
    [REASON] = {"reason", 0, "TEXT", false, "the reason, shown with the pause"},
    [FORCE] = {"force", 0, NULL, false, "even if no sink of that name is known"},
    [LIST] = {"list", 0, NULL, false, "print what is paused, and change nothing"},
    [JSON] = {"json", 0, NULL, false, "for --list: print JSON, one object a line"},
    [FAIL_EMPTY] = {"fail-empty", 0, NULL, false, "for --list: end with 8 if nothing is paused"},
    {0},
};

static const struct table_column columns[] = {
    {"SINK", PAUSE_SINK, CELL_WORD},
    {"BY", PAUSE_BY, CELL_WORD},
    {"SINCE", PAUSE_PAUSED_AT, CELL_WORD},
    {"REASON", PAUSE_REASON, CELL_LONG},
    {0},
};

static bool check_in_config(const struct config *config, const char *name, struct error *error)
{
        const char *meant = NULL;
        struct bytes text = {0};

        for (unsigned i = 0; i < config->n_sinks; i++) {
                if (strcmp(config->sinks[i].name, name) == 0)
                        return true;
                meant = suggest_nearer(name, meant, config->sinks[i].name);
        }
        bytes_printf(&text, "the configuration has no sink \"%.64s\"", name);
        if (meant != NULL)
                bytes_printf(&text, "; did you mean \"%s\"?", meant);
        else
                bytes_append_text(&text, ".");
        bytes_append_text(&text, " Sinks:");
        for (unsigned i = 0; i < config->n_sinks; i++)
                bytes_printf(&text, "%s %s", i > 0 ? "," : "", config->sinks[i].name);
        error_set(error, ERROR_USAGE, "%s", text.data);
        bytes_deinit(&text);
        return false;
}

static bool check_in_database(struct blocking_conn *conn, const char *name, struct error *error)
{
        bool is_known;

        if (!pauses_knows_sink(conn, name, &is_known, error))
                return false;
        return is_known ||
               error_set(error, ERROR_USAGE,
                   "no relay has run a sink \"%.64s\" here so far; check the name with -c FILE, or "
                   "add --force",
                   name);
}

static bool check_sink(
    struct blocking_conn *conn, const char *name, const char *config_path, struct error *error)
{
        struct config *config;
        bool ok;

        if (config_path == NULL)
                return check_in_database(conn, name, error);
        config = config_load(config_path, error);
        ok = config != NULL && check_in_config(config, name, error);
        config_free(config);
        return ok;
}

static bool list(struct blocking_conn *conn, const struct arguments *arguments, struct error *error)
{
        const char *sink = arguments->n_operands > 0 ? arguments->operands[0] : NULL;
        bool as_json = arguments_has(arguments, JSON);
        struct rows *rows = pauses_read(conn, sink, as_json, error);
        bool ok = true;

        if (rows == NULL)
                return false;
        if (rows_count(rows) == 0 && arguments_has(arguments, FAIL_EMPTY))
                ok = error_set(error, ERROR_EMPTY, "nothing is paused");
        else if (rows_count(rows) == 0)
                fputs("nothing is paused\n", stderr);
        else if (as_json)
                table_print_json(rows, PAUSE_JSON);
        else
                ok = table_print(columns, rows, error);
        rows_free(rows);
        return ok;
}

static bool pause_sink(
    struct blocking_conn *conn, const struct arguments *arguments, struct error *error)
{
        const char *sink = arguments->operands[0];
        bool was_paused;

        if (!arguments_has(arguments, FORCE) &&
            !check_sink(conn, sink, arguments->config_path, error))
                return false;
        if (!pauses_add(conn, sink, arguments_value(arguments, REASON), &was_paused, error))
                return false;
        printf("%s %s paused\n", sink, was_paused ? "was already" : "is");
        return true;
}

static bool check_words(const struct arguments *arguments, struct error *error)
{
        bool is_list = arguments_has(arguments, LIST);

        if (is_list && (arguments_has(arguments, REASON) || arguments_has(arguments, FORCE)))
                return error_set(error, ERROR_USAGE,
                    "pause: --list cannot be combined with --reason or --force");
        if (!is_list && (arguments_has(arguments, JSON) || arguments_has(arguments, FAIL_EMPTY)))
                return error_set(error, ERROR_USAGE, "pause: --json and --fail-empty need --list");
        if (!is_list && arguments->n_operands == 0)
                return error_set(error, ERROR_USAGE,
                    "pause needs a sink: pgcourier pause SINK, or pgcourier pause --list");
        if (!is_list && !input_sink_name(arguments->operands[0], error))
                return false;
        return pause_check_reason(arguments_value(arguments, REASON), "--reason", error);
}

static bool run_pause(const struct arguments *arguments, struct error *error)
{
        struct blocking_conn *conn =
            check_words(arguments, error) ? command_connect(arguments, error) : NULL;

        if (conn == NULL)
                return false;
        return arguments_has(arguments, LIST) ? list(conn, arguments, error)
                                              : pause_sink(conn, arguments, error);
}

const struct command pause_command = {
    .name = "pause",
    .summary = "pause a sink, or list what is paused",
    .usage = "SINK [--reason TEXT] [--force] [--dsn DSN | -c FILE]\n"
             "       pgcourier pause --list [SINK] [--json] [--fail-empty] [--dsn DSN | -c FILE]",
    .details =
        "Stops the deliveries to a sink until `pgcourier resume SINK`. The pause is stored in\n"
        "the database: it holds for every relay, and across restarts. A running relay obeys at\n"
        "once; attempts in flight are finished. The sink's events wait in the outbox.\n"
        "\n"
        "--list also shows the pauses that the relay made because a destination refuses it\n"
        "until settings change, there or here. With -c FILE the sink must be in that file;\n"
        "otherwise a relay must have run it in this database. --force skips this check. The\n"
        "role must be a member of courier_relay.\n",
    .options = pause_options,
    .max_operands = 1,
    .run = run_pause,
    .database = DATABASE_AND_SINKS,
    .needs_schema = true,
    .answer_timeout_ms = 30000,
};

enum { RESUME_FAIL_EMPTY };

static const struct command_option resume_options[] = {
    [RESUME_FAIL_EMPTY] = {"fail-empty", 0, NULL, false, "end with 8 if the sink is not paused"},
    {0},
};

/* A misspelt name is an error; the name of a sink that is not paused is none. */
static bool was_not_paused(
    struct blocking_conn *conn, const struct arguments *arguments, struct error *error)
{
        const char *sink = arguments->operands[0];
        const char *config_path = arguments->config_path;

        if (config_path != NULL && !check_sink(conn, sink, config_path, error))
                return false;
        if (arguments_has(arguments, RESUME_FAIL_EMPTY))
                return error_set(error, ERROR_EMPTY, "%.64s is not paused", sink);
        fprintf(stderr, "%s is not paused\n", sink);
        return true;
}

static bool resume(
    struct blocking_conn *conn, const struct arguments *arguments, struct error *error)
{
        const char *sink = arguments->operands[0];
        struct rows *rows = pauses_remove(conn, sink, error);
        bool ok = true;

        if (rows == NULL)
                return false;
        if (rows_count(rows) == 0)
                ok = was_not_paused(conn, arguments, error);
        else
                printf("%s goes on\n", sink);
        rows_free(rows);
        return ok;
}

static bool run_resume(const struct arguments *arguments, struct error *error)
{
        struct blocking_conn *conn = input_sink_name(arguments->operands[0], error)
                                         ? command_connect(arguments, error)
                                         : NULL;

        return conn != NULL && resume(conn, arguments, error);
}

const struct command resume_command = {
    .name = "resume",
    .summary = "end the pause of a sink",
    .usage = "SINK [--fail-empty] [--dsn DSN | -c FILE]",
    .details =
        "Removes every pause of the sink, whether an operator or the relay made it. If the relay\n"
        "paused it because its destination refused it, the relay tries again at once: change\n"
        "the settings first. The role must be a member of courier_relay.\n",
    .options = resume_options,
    .min_operands = 1,
    .max_operands = 1,
    .run = run_resume,
    .database = DATABASE_AND_SINKS,
    .needs_schema = true,
    .answer_timeout_ms = 30000,
};
