/* `pgcourier receiver`: the receivers of sinks that fan out, by hand. Of its subcommands, those
 * that read are here: list and show. */
#include "cli/commands.h"
#include "cli/connect.h"
#include "cli/receiver/receiver_common.h"
#include "cli/table.h"
#include "config/suggest.h"
#include "operator/receiver_rows.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LIST_SINK, LIST_STATE, LIST_FAIL_EMPTY, LIST_JSON };

static const struct command_option list_options[] = {
    [LIST_SINK] = RECEIVER_OPTION_SINK,
    [LIST_STATE] = {"state", 0, "STATE", false, "only those active, paused or disabled"},
    [LIST_FAIL_EMPTY] = {"fail-empty", 0, NULL, false, "end with 8 if there are none"},
    [LIST_JSON] = OPTION_JSON,
    {0},
};

enum { SHOW_SECRETS, SHOW_JSON };

static const struct command_option show_options[] = {
    [SHOW_SECRETS] = {"secrets", 0, NULL, false, "show the secrets and header values too"},
    [SHOW_JSON] = OPTION_JSON,
    {0},
};

static const struct table_column columns[] = {
    {"NAME", RECEIVER_ROW_NAME, CELL_LONG},
    {"SINK", RECEIVER_ROW_SINK, CELL_WORD},
    {"STATE", RECEIVER_ROW_STATE, CELL_WORD},
    {"FAILING SINCE", RECEIVER_ROW_FAILING_SINCE, CELL_WORD},
    {"PARKED", RECEIVER_ROW_PARKED, CELL_NUMBER},
    {"DEAD", RECEIVER_ROW_DEAD, CELL_NUMBER},
    {"TOPICS", RECEIVER_ROW_TOPICS, CELL_LONG},
    {"URL", RECEIVER_ROW_URL, CELL_LONG},
    {"REASON", RECEIVER_ROW_REASON, CELL_LONG},
    {0},
};

static bool check_state(const char *state, struct error *error)
{
        static const char *const states[] = {"active", "paused", "disabled"};
        const char *meant = NULL;

        if (state == NULL)
                return true;
        for (size_t i = 0; i < sizeof states / sizeof *states; i++) {
                if (strcmp(state, states[i]) == 0)
                        return true;
                meant = suggest_nearer(state, meant, states[i]);
        }
        return error_set(error, ERROR_USAGE,
            "--state: \"%.64s\" is not one of active, paused, disabled%s%s%s", state,
            meant != NULL ? "; did you mean \"" : "", meant != NULL ? meant : "",
            meant != NULL ? "\"?" : "");
}

static bool print(
    const struct rows *rows, const struct arguments *arguments, bool is_any, struct error *error)
{
        const char *none = is_any ? "there are no receivers" : "no receiver matches";

        if (rows_count(rows) == 0 && arguments_has(arguments, LIST_FAIL_EMPTY))
                return error_set(error, ERROR_EMPTY, "%s", none);
        if (rows_count(rows) == 0)
                fprintf(stderr, "%s%s\n", none,
                    is_any ? "; `pgcourier receiver add NAME --url URL` makes one" : "");
        else if (arguments_has(arguments, LIST_JSON))
                table_print_json(rows, RECEIVER_ROW_JSON);
        else
                return table_print(columns, rows, error);
        return true;
}

static bool run_list(const struct arguments *arguments, struct error *error)
{
        const char *sink = arguments_value(arguments, LIST_SINK);
        const char *state = arguments_value(arguments, LIST_STATE);
        struct blocking_conn *conn =
            check_state(state, error) ? command_connect(arguments, error) : NULL;
        struct rows *rows = NULL;
        bool ok;

        if (conn != NULL)
                rows =
                    receivers_read(conn, sink, state, arguments_has(arguments, LIST_JSON), error);
        ok = rows != NULL && print(rows, arguments, sink == NULL && state == NULL, error);
        rows_free(rows);
        return ok;
}

static const struct command list_command = {
    .name = "list",
    .usage = "[--sink NAME] [--state STATE] [--fail-empty] [--json]",
    .options = list_options,
    .run = run_list,
};

static bool run_show(const struct arguments *arguments, struct error *error)
{
        const char *name = arguments->operands[0];
        bool as_json = arguments_has(arguments, SHOW_JSON);
        bool with_secrets = arguments_has(arguments, SHOW_SECRETS);
        struct blocking_conn *conn = command_connect(arguments, error);
        struct receiver_waiting waiting;
        struct rows *rows;
        char *text;
        bool ok = true;

        if (conn == NULL || !receiver_wait_count(conn, name, &waiting, error))
                return false;
        text = receiver_wait_text(&waiting);
        rows = as_json ? receiver_show_json(conn, name, with_secrets, waiting.n,
                             waiting.is_exact && !waiting.is_cut, error)
                       : receiver_show(conn, name, with_secrets, text, error);
        free(text);
        if (rows == NULL)
                return false;
        if (rows_count(rows) == 0)
                ok = receiver_missing(conn, name, error);
        else if (as_json)
                table_print_json(rows, 0);
        else
                table_print_fields(rows);
        rows_free(rows);
        return ok;
}

static const struct command show_command = {
    .name = "show",
    .usage = "NAME [--secrets] [--json]",
    .options = show_options,
    .min_operands = 1,
    .max_operands = 1,
    .run = run_show,
};

const struct command receiver_command = {
    .name = "receiver",
    .summary = "manage the receivers of an http sink with receivers: table",
    .usage = "each with [--dsn DSN | -c FILE]",
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
        "courier.receiver by SQL, which can change all other settings. The role must be a member\n"
        "of courier_relay.\n",
    .subcommands = (const struct command *const[]){&receiver_add_command, &list_command,
        &show_command, &receiver_pause_command, &receiver_resume_command, &receiver_remove_command,
        &receiver_rotate_secret_command, &receiver_test_command, NULL},
    .no_subcommand =
        "Other settings are changed by SQL: UPDATE courier.receiver SET … WHERE name = '…'",
    .database = DATABASE_AND_SINKS,
    .needs_schema = true,
    .answer_timeout_ms = 30000,
    .refused = receiver_refused,
};
