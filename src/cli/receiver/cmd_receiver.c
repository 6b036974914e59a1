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

enum { LIST_SINK, LIST_SEARCH, LIST_STATE, LIST_LIMIT, LIST_FAIL_EMPTY, LIST_JSON };

static const struct command_option list_options[] = {
    [LIST_SINK] = RECEIVER_OPTION_SINK,
    [LIST_SEARCH] = {"search", 0, "TEXT", false, "only those with it in name or description"},
    [LIST_STATE] = {"state", 0, "STATE", false, "only those active, failing, paused or disabled"},
    [LIST_LIMIT] = {"limit", 0, "N", false, "at most so many; 0: all; default: 100"},
    [LIST_FAIL_EMPTY] = {"fail-empty", 0, NULL, false, "end with 8 if there are none"},
    [LIST_JSON] = OPTION_JSON,
    {0},
};

enum { SHOW_ATTEMPTS, SHOW_SECRETS, SHOW_JSON };

static const struct command_option show_options[] = {
    [SHOW_ATTEMPTS] = {"attempts", 0, "N", false,
        "show so many of its newest attempts; default: 10"},
    [SHOW_SECRETS] = {"secrets", 0, NULL, false, "show the secrets and header values too"},
    [SHOW_JSON] = OPTION_JSON,
    {0},
};

static const struct table_column columns[] = {
    {"NAME", RECEIVER_ROW_NAME, CELL_LONG},
    {"SINK", RECEIVER_ROW_SINK, CELL_WORD},
    {"STATE", RECEIVER_ROW_STATE, CELL_WORD},
    {"SINCE", RECEIVER_ROW_SINCE, CELL_WORD},
    {"DELIVERED", RECEIVER_ROW_DELIVERED, CELL_WORD},
    {"WAITING", RECEIVER_ROW_WAITING, CELL_NUMBER},
    {"RETRYING", RECEIVER_ROW_RETRYING, CELL_NUMBER},
    {"DEAD", RECEIVER_ROW_DEAD, CELL_NUMBER},
    {"TOPICS", RECEIVER_ROW_TOPICS, CELL_LONG},
    {"URL", RECEIVER_ROW_URL, CELL_LONG},
    {"REASON", RECEIVER_ROW_REASON, CELL_LONG},
    {0},
};

static const struct table_column attempt_columns[] = {
    {"ATTEMPT", ATTEMPT_ROW_AT, CELL_WORD},
    {"EVENT", ATTEMPT_ROW_EVENT, CELL_NUMBER},
    {"NUMBER", ATTEMPT_ROW_NUMBER, CELL_NUMBER},
    {"OUTCOME", ATTEMPT_ROW_OUTCOME, CELL_WORD},
    {"TOOK", ATTEMPT_ROW_TOOK, CELL_NUMBER},
    {"STATUS", ATTEMPT_ROW_STATUS, CELL_NUMBER},
    {"ANSWER", ATTEMPT_ROW_ANSWER, CELL_LONG},
    {0},
};

#define DEFAULT_LIMIT    100
#define DEFAULT_ATTEMPTS 10

static bool check_state(const char *state, struct error *error)
{
        static const char *const states[] = {"active", "failing", "paused", "disabled"};
        const char *meant = NULL;

        if (state == NULL)
                return true;
        for (size_t i = 0; i < sizeof states / sizeof *states; i++) {
                if (strcmp(state, states[i]) == 0)
                        return true;
                meant = suggest_nearer(state, meant, states[i]);
        }
        return error_set(error, ERROR_USAGE,
            "--state: \"%.64s\" is not one of active, failing, paused, disabled%s%s%s", state,
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

/* On standard error, so that it gets in no program's way. */
static void say_left_out(const struct rows *rows)
{
        long total = strtol(rows_text(rows, 0, RECEIVER_ROW_TOTAL), NULL, 10);

        if (total > rows_count(rows))
                fprintf(stderr, "%ld more; add --limit 0, or --search TEXT\n",
                    total - rows_count(rows));
}

static bool run_list(const struct arguments *arguments, struct error *error)
{
        struct receivers_chosen chosen = {.sink = arguments_value(arguments, LIST_SINK),
            .search = arguments_value(arguments, LIST_SEARCH),
            .state = arguments_value(arguments, LIST_STATE),
            .limit = DEFAULT_LIMIT};
        bool is_any = chosen.sink == NULL && chosen.search == NULL && chosen.state == NULL;
        struct blocking_conn *conn = NULL;
        struct rows *rows = NULL;
        bool ok;

        if (check_state(chosen.state, error) &&
            arguments_count(arguments, LIST_LIMIT, 0, 1000000, &chosen.limit, error))
                conn = command_connect(arguments, error);
        if (conn != NULL)
                rows = receivers_read(conn, &chosen, error);
        ok = rows != NULL && print(rows, arguments, is_any, error);
        if (ok && rows_count(rows) > 0)
                say_left_out(rows);
        rows_free(rows);
        return ok;
}

static const struct command list_command = {
    .name = "list",
    .usage = "[--sink NAME] [--search TEXT] [--state STATE]\n"
             "                 [--limit N] [--fail-empty] [--json]",
    .options = list_options,
    .run = run_list,
};

static bool print_story(
    struct blocking_conn *conn, const char *name, const char *n_attempts, struct error *error)
{
        struct rows *rows = receiver_attempts(conn, name, n_attempts, error);
        bool ok = rows != NULL;

        if (ok && rows_count(rows) > 0) {
                putchar('\n');
                ok = table_print(attempt_columns, rows, error);
        }
        rows_free(rows);
        return ok;
}

static bool run_show(const struct arguments *arguments, struct error *error)
{
        const char *name = arguments->operands[0];
        bool as_json = arguments_has(arguments, SHOW_JSON);
        bool with_secrets = arguments_has(arguments, SHOW_SECRETS);
        unsigned n_attempts = DEFAULT_ATTEMPTS;
        struct blocking_conn *conn = NULL;
        struct rows *rows = NULL;
        char n[12];
        bool ok = true;

        if (arguments_count(arguments, SHOW_ATTEMPTS, 0, 10000, &n_attempts, error))
                conn = command_connect(arguments, error);
        snprintf(n, sizeof n, "%u", n_attempts);
        if (conn != NULL)
                rows = as_json ? receiver_story(conn, name, n, with_secrets, error)
                               : receiver_show(conn, name, with_secrets, error);
        if (rows == NULL)
                return false;
        if (rows_count(rows) == 0)
                ok = receiver_missing(conn, name, error);
        else if (as_json)
                table_print_json(rows, 0);
        else
                table_print_fields(rows);
        ok = ok && (as_json || print_story(conn, name, n, error));
        rows_free(rows);
        return ok;
}

static const struct command show_command = {
    .name = "show",
    .usage = "NAME [--attempts N] [--secrets] [--json]",
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
        "list           what there is, those in trouble first: state and since when, the last\n"
        "               delivery, how many events wait (~: about so many), are retried and dead\n"
        "show           one with all its settings, what waits for it, and its newest attempts,\n"
        "               as far as they are kept: attempts of the sink\n"
        "set            changes what is given; an empty --filter, --types or --description goes,\n"
        "               and so does a header without a value; with -c the sink checks it first\n"
        "recover        sends what was given up again: its dead letters. `pgcourier replay\n"
        "               --receiver NAME --from TIME` sends all events of a time again\n"
        "pause, resume  its events wait in the outbox, and go on; resume also ends disabled\n"
        "remove         what waits for it goes, its dead letters stay\n"
        "rotate-secret  prints a new secret; the old one signs too for a while\n"
        "test           posts one event from here and says what the receiver answered; nothing\n"
        "               is stored\n"
        "link           prints a link to the portal, for the receiver's owner: what he gets, and\n"
        "               what his server answers; needs -c FILE with a block portal\n"
        "links, unlink  the links that still work; and withdraws them\n"
        "\n"
        "Everything takes effect at once in a running relay, as do changes of the table\n"
        "courier.receiver by SQL. The role must be a member\n"
        "of courier_relay.\n",
    .subcommands = (const struct command *const[]){&receiver_add_command, &list_command,
        &show_command, &receiver_set_command, &receiver_recover_command, &receiver_pause_command,
        &receiver_resume_command, &receiver_remove_command, &receiver_rotate_secret_command,
        &receiver_test_command, &receiver_link_command, &receiver_links_command,
        &receiver_unlink_command, NULL},
    .database = DATABASE_AND_SINKS,
    .needs_schema = true,
    .answer_timeout_ms = 30000,
    .refused = receiver_refused,
};
