/* Dead letters, the deliveries that were given up: list, show, redrive and drop them. */
#include "cli/bulk.h"
#include "cli/commands.h"
#include "cli/connect.h"
#include "cli/table.h"
#include "operator/dead_letters.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>

#define PAGE_ROWS 1000

static const char *const reasons[] = {
    "rejected", "attempts", "age", "too_large", "unjudged", "skipped", NULL};

#define SELECTION                                                                                  \
        BULK_OPTIONS("reason", "REASON",                                                           \
            "only those given up for this: rejected,\nattempts, age, too_large, unjudged or "      \
            "skipped",                                                                             \
            "died")

static const struct command_option list_options[] = {SELECTION, {0}};
static const struct command_option change_options[] = {SELECTION, BULK_CHANGE_OPTIONS, {0}};

static const struct table_column columns[] = {
    {"ID", DEAD_ID, CELL_NUMBER},
    {"SINK", DEAD_SINK, CELL_WORD},
    {"RECEIVER", DEAD_RECEIVER, CELL_OPTIONAL},
    {"TOPIC", DEAD_TOPIC, CELL_LONG},
    {"KEY", DEAD_KEY, CELL_LONG},
    {"REASON", DEAD_REASON, CELL_WORD},
    {"ATTEMPTS", DEAD_ATTEMPTS, CELL_NUMBER},
    {"DIED", DEAD_DIED_AT, CELL_WORD},
    {"ERROR", DEAD_ERROR, CELL_LONG},
    {0},
};

static const struct bulk_subject subject = {"dead letter", "dead letters", reasons};

/* Page by page: there may be millions. */
static bool list(struct blocking_conn *conn, const struct bulk *bulk, struct error *error)
{
        bool as_json = arguments_has(bulk->arguments, BULK_JSON);
        int64_t n_left = bulk->selection.limit > 0 ? bulk->selection.limit : INT64_MAX;
        int64_t last_id = 0;
        int n_rows = PAGE_ROWS;
        bool ok = true;

        while (ok && n_left > 0 && n_rows == PAGE_ROWS && !ferror(stdout)) {
                struct rows *rows = dead_letters_read(conn, &bulk->selection, last_id,
                    n_left < PAGE_ROWS ? (int)n_left : PAGE_ROWS, as_json, error);
                if (rows == NULL)
                        return false;
                n_rows = rows_count(rows);
                n_left -= n_rows;
                if (n_rows > 0 && as_json)
                        table_print_json(rows, DEAD_JSON);
                else if (n_rows > 0)
                        ok = table_print(columns, rows, error);
                else if (last_id == 0)
                        ok = bulk_found_none(bulk, error);
                if (n_rows > 0)
                        last_id = strtoll(rows_text(rows, n_rows - 1, DEAD_ID), NULL, 10);
                rows_free(rows);
        }
        return ok;
}

static bool say_kept(const struct dead_letters_kept *kept, struct error *error)
{
        if (kept->parked.length > 0)
                return error_set(error, ERROR_TEMPORARY,
                    "kept, because that event is still parked for that sink: %.400s; redrive them "
                    "when `pgcourier parked list` no longer shows them",
                    kept->parked.data);
        return kept->orphaned.length == 0 ||
               error_set(error, ERROR_EMPTY,
                   "kept, because their receiver was removed: %.400s; they have no destination, "
                   "`pgcourier dead drop` drops them",
                   kept->orphaned.data);
}

static bool redrive_rows(struct blocking_conn *conn, const struct bulk *bulk,
    const struct dead_letters_count *count, struct error *error)
{
        struct dead_letters_kept kept = {0};
        int64_t n_redriven;
        bool ok = dead_letters_change(
            conn, DEAD_REDRIVE, &bulk->selection, count, &n_redriven, &kept, error);

        bulk_print_result(bulk, count->n, "redriven", n_redriven,
            "redriven; waiting events of the same key are delivered first");
        ok = ok && say_kept(&kept, error);
        dead_letters_kept_deinit(&kept);
        return ok;
}

static bool drop_rows(struct blocking_conn *conn, const struct bulk *bulk,
    const struct dead_letters_count *count, struct error *error)
{
        int64_t n_dropped;
        bool ok =
            dead_letters_change(conn, DEAD_DROP, &bulk->selection, count, &n_dropped, NULL, error);

        bulk_print_result(bulk, count->n, "dropped", n_dropped, "dropped");
        return ok;
}

static bool change(
    struct blocking_conn *conn, const struct bulk *bulk, bool is_drop, struct error *error)
{
        struct dead_letters_count count;

        if (!dead_letters_count(conn, &bulk->selection, &count, error))
                return false;
        if (count.n == 0 || arguments_has(bulk->arguments, BULK_DRY_RUN))
                bulk_print_result(bulk, count.n, is_drop ? "dropped" : "redriven", 0, "");
        else if (!bulk_confirm(bulk, count.n, error) ||
                 !(is_drop ? drop_rows : redrive_rows)(conn, bulk, &count, error))
                return false;
        if (!bulk_check_missing(bulk, count.missing, error))
                return false;
        return count.n > 0 || bulk_found_none(bulk, error);
}

static bool redrive(struct blocking_conn *conn, const struct bulk *bulk, struct error *error)
{
        return change(conn, bulk, false, error);
}

static bool drop(struct blocking_conn *conn, const struct bulk *bulk, struct error *error)
{
        return change(conn, bulk, true, error);
}

static bool run_list(const struct arguments *arguments, struct error *error)
{
        return bulk_read_rows(arguments, &subject, list, error);
}

static bool run_show(const struct arguments *arguments, struct error *error)
{
        const char *id = arguments->operands[0];
        bool as_json = arguments_has(arguments, ONLY_JSON);
        struct blocking_conn *conn;
        struct rows *rows;
        int64_t number;
        bool ok;

        if (!bulk_parse_id(id, &number, error))
                return false;
        conn = command_connect(arguments, error);
        rows = conn != NULL ? dead_letter_show(conn, id, as_json, error) : NULL;
        ok = rows != NULL && (rows_count(rows) > 0 ||
                                 error_set(error, ERROR_EMPTY, "no dead letter has the ID %s", id));
        if (ok && as_json)
                table_print_json(rows, 0);
        else if (ok)
                table_print_fields(rows);
        rows_free(rows);
        return ok;
}

static bool run_redrive(const struct arguments *arguments, struct error *error)
{
        return bulk_change_rows(arguments, &subject, redrive, error);
}

static bool run_drop(const struct arguments *arguments, struct error *error)
{
        return bulk_change_rows(arguments, &subject, drop, error);
}

static const struct command list_command = {
    .name = "list",
    .usage = "[ID]... [FILTERS] [--limit N] [--json]",
    .options = list_options,
    .max_operands = UINT_MAX,
    .run = run_list,
};

static const struct command show_command = {
    .name = "show",
    .usage = "ID [--json]",
    .options = only_json_options,
    .min_operands = 1,
    .max_operands = 1,
    .run = run_show,
};

#define CHANGE_USAGE                                                                               \
        "(ID... | FILTERS | --all) [--limit N]\n"                                                  \
        "                 [--dry-run] [--yes] [--json]"

static const struct command redrive_command = {
    .name = "redrive",
    .usage = CHANGE_USAGE,
    .options = change_options,
    .max_operands = UINT_MAX,
    .run = run_redrive,
};

static const struct command drop_command = {
    .name = "drop",
    .usage = CHANGE_USAGE,
    .options = change_options,
    .max_operands = UINT_MAX,
    .run = run_drop,
};

const struct command dead_command = {
    .name = "dead",
    .summary = "list, show, redrive and drop deliveries that were given up",
    .usage =
        "each with [--dsn DSN | -c FILE]; FILTERS: --sink --receiver --topic --key\n"
        "                 --reason --older-than --newer-than; a delivery must match all of them",
    .details =
        "list     the dead letters, oldest first\n"
        "show     one with its whole event; data that is not JSON as base64\n"
        "redrive  has them delivered again: same event_id, same bytes, marked as redriven, with\n"
        "         a new count of attempts, in the order in which they died and after the\n"
        "         waiting events of their keys\n"
        "drop     deletes them for good\n"
        "\n"
        "redrive and drop ask before they do it by filter or --all; without a terminal\n"
        "they need --yes. They work in batches, each in a transaction of its own: after an\n"
        "interruption the finished batches stay done. redrive ends with 75 if some were kept,\n"
        "because the same event is still parked for the same sink. The role must be a member of\n"
        "courier_relay. With neither --dsn nor -c the environment names the database (PGHOST,\n"
        "PGUSER …).\n",
    .subcommands = (const struct command *const[]){&list_command, &show_command, &redrive_command,
        &drop_command, NULL},
    .database = DATABASE,
    .needs_schema = true,
};
