/* The relays of a database: which there are, and taking the shards from one of them. */
#include "base/bytes.h"
#include "cli/commands.h"
#include "cli/connect.h"
#include "cli/remedy.h"
#include "cli/table.h"
#include "operator/member_rows.h"

#include <stdio.h>

enum { ALL, FAIL_EMPTY, JSON };

static const struct command_option list_options[] = {
    [ALL] = {"all", 0, NULL, false, "those that have gone as well"},
    [FAIL_EMPTY] = {"fail-empty", 0, NULL, false, "end with 8 if there are none"},
    [JSON] = OPTION_JSON,
    {0},
};

static const struct table_column columns[] = {
    {"RELAY", MEMBER_NAME, CELL_WORD},
    {"STATE", MEMBER_STATE, CELL_WORD},
    {"HOST", MEMBER_HOST, CELL_LONG},
    {"VERSION", MEMBER_VERSION, CELL_WORD},
    {"SINCE", MEMBER_SINCE, CELL_WORD},
    {"WEIGHT", MEMBER_WEIGHT, CELL_NUMBER},
    {"SHARDS", MEMBER_SHARDS, CELL_LONG},
    {0},
};

static bool print_list(
    const struct rows *rows, const struct arguments *arguments, struct error *error)
{
        if (rows_count(rows) == 0 && arguments_has(arguments, FAIL_EMPTY))
                return error_set(error, ERROR_EMPTY, "no relay is running");
        if (rows_count(rows) == 0)
                fputs("no relay is running; `pgcourier run` starts one\n", stderr);
        else if (arguments_has(arguments, JSON))
                table_print_json(rows, MEMBER_JSON);
        else
                return table_print(columns, rows, error);
        return true;
}

static bool run_list(const struct arguments *arguments, struct error *error)
{
        struct blocking_conn *conn = command_connect(arguments, error);
        struct rows *rows =
            conn != NULL ? members_read(conn, arguments_has(arguments, ALL), error) : NULL;
        bool ok = rows != NULL && print_list(rows, arguments, error);

        rows_free(rows);
        return ok;
}

/* With the names that there are: they are few. */
static bool unknown(struct blocking_conn *conn, const char *name, struct error *error)
{
        struct rows *names = member_names(conn, error);
        struct bytes text = {0};

        if (names == NULL)
                return false;
        bytes_printf(&text, "there is no relay \"%.100s\"; ", name);
        if (rows_count(names) == 0)
                bytes_append_text(&text, "none has run here yet");
        for (int i = 0; i < rows_count(names) && i < 20; i++)
                bytes_printf(&text, "%s%s", i > 0 ? ", " : "there are: ", rows_text(names, i, 0));
        if (rows_count(names) > 20)
                bytes_printf(&text, " and %d more", rows_count(names) - 20);
        error_set(error, ERROR_EMPTY, "%s", text.data);
        bytes_deinit(&text);
        rows_free(names);
        return false;
}

/* Sets it, and says what it was. */
static bool set_drained(
    const struct arguments *arguments, bool is_drained, struct drained *out, struct error *error)
{
        const char *name = arguments->operands[0];
        struct blocking_conn *conn = command_connect(arguments, error);

        if (conn == NULL || !member_set_drained(conn, name, is_drained, out, error))
                return false;
        return out->existed || unknown(conn, name, error);
}

static bool run_drain(const struct arguments *arguments, struct error *error)
{
        const char *name = arguments->operands[0];
        struct drained drained;

        if (!set_drained(arguments, true, &drained, error))
                return false;
        if (drained.was_drained)
                printf("%s was already drained\n", name);
        else if (drained.is_live)
                remedy_print(
                    "%s gives its shards to the other relays; `pgcourier relay list` shows "
                    "how far it is",
                    name);
        else
                printf("%s does not run; when it does, it takes no shards\n", name);
        if (drained.n_others == 0)
                fputs(
                    "no other relay runs that could take shards: nothing is delivered meanwhile\n",
                    stderr);
        return true;
}

static bool run_undrain(const struct arguments *arguments, struct error *error)
{
        const char *name = arguments->operands[0];
        struct drained drained;

        if (!set_drained(arguments, false, &drained, error))
                return false;
        if (!drained.was_drained)
                fprintf(stderr, "%s is not drained\n", name);
        else if (drained.is_live)
                printf("%s takes its part of the shards again\n", name);
        else
                printf("%s does not run; when it does, it takes its part of the shards\n", name);
        return true;
}

static const struct command list_command = {
    .name = "list",
    .usage = "[--all] [--json] [--fail-empty] [--dsn DSN | -c FILE]",
    .options = list_options,
    .run = run_list,
};

static const struct command drain_command = {
    .name = "drain",
    .usage = "NAME [--dsn DSN | -c FILE]",
    .min_operands = 1,
    .max_operands = 1,
    .run = run_drain,
};

static const struct command undrain_command = {
    .name = "undrain",
    .usage = "NAME [--dsn DSN | -c FILE]",
    .min_operands = 1,
    .max_operands = 1,
    .run = run_undrain,
};

const struct command relay_command = {
    .name = "relay",
    .summary = "list the relays of a database, and take the shards from one",
    .details =
        "list     the relays that run: since when, with which weight, and of each sink how many "
        "of\n"
        "         its shards they own. A relay that is drained is listed even if it does not run,\n"
        "         and with --all every relay that ever ran here\n"
        "drain    the relay is to have no shards: it settles what is in flight, and gives them to\n"
        "         the others, so nothing comes twice. It runs on. That holds until undrain, also\n"
        "         for a relay of that name that starts later\n"
        "undrain  it takes its part of the shards again\n"
        "\n"
        "All of it is done in the database, so it works from any machine. The role must be a "
        "member\n"
        "of courier_relay. With neither --dsn nor -c the environment names the database (PGHOST,\n"
        "PGUSER …).\n",
    .subcommands =
        (const struct command *const[]){&list_command, &drain_command, &undrain_command, NULL},
    .database = DATABASE,
    .needs_schema = true,
    .answer_timeout_ms = 30000,
};
