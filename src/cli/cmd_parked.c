/* Parked deliveries: list them, skip them, retry them at once. The relay owns them; these
 * commands only mark them. */
#include "cli/bulk.h"
#include "cli/commands.h"
#include "cli/table.h"
#include "operator/parked_rows.h"

#include <limits.h>
#include <stdio.h>

#define PAGE_ROWS 1000

enum { BLOCKED = BULK_N_READ };

static const char *const states[] = {"retry", "blocked", "delayed", NULL};

#define SELECTION                                                                                  \
        BULK_OPTIONS("state", "STATE",                                                             \
            "only those in this state: retry (failed),\nblocked (behind their key) or delayed",    \
            "were parked")

static const struct command_option change_options[] = {SELECTION, BULK_CHANGE_OPTIONS, {0}};
static const struct command_option list_options[] = {
    SELECTION,
    [BLOCKED] = {"blocked", 0, NULL, false,
        "list keys: how many wait, and behind which\ndelivery; the longest first"},
    {0},
};

static const struct table_column columns[] = {
    {"ID", PARKED_ROW_ID, CELL_NUMBER},
    {"SINK", PARKED_ROW_SINK, CELL_WORD},
    {"RECEIVER", PARKED_ROW_RECEIVER, CELL_OPTIONAL},
    {"TOPIC", PARKED_ROW_TOPIC, CELL_LONG},
    {"KEY", PARKED_ROW_KEY, CELL_LONG},
    {"STATE", PARKED_ROW_STATE, CELL_WORD},
    {"ATTEMPTS", PARKED_ROW_ATTEMPTS, CELL_NUMBER},
    {"DUE", PARKED_ROW_DUE_AT, CELL_WORD},
    {"ERROR", PARKED_ROW_ERROR, CELL_LONG},
    {0},
};

static const struct table_column blocked_columns[] = {
    {"SINK", BLOCKED_SINK, CELL_WORD},
    {"RECEIVER", BLOCKED_RECEIVER, CELL_OPTIONAL},
    {"KEY", BLOCKED_KEY, CELL_LONG},
    {"WAITING", BLOCKED_WAITING, CELL_NUMBER},
    {"BEHIND", BLOCKED_BEHIND, CELL_NUMBER},
    {"ATTEMPTS", BLOCKED_ATTEMPTS, CELL_NUMBER},
    {"DUE", BLOCKED_DUE_AT, CELL_WORD},
    {"ERROR", BLOCKED_ERROR, CELL_LONG},
    {0},
};

static const struct bulk_subject subject = {"parked delivery", "parked deliveries", states};
static const struct bulk_subject key_subject = {"blocked key", "blocked keys", states};

static bool print_page(const struct bulk *bulk, const struct table_column *table, int json_column,
    const struct rows *rows, struct error *error)
{
        if (!arguments_has(bulk->arguments, BULK_JSON))
                return table_print(table, rows, error);
        table_print_json(rows, json_column);
        return true;
}

/* Page by page: there may be millions. */
static bool list(struct blocking_conn *conn, const struct bulk *bulk, struct error *error)
{
        int64_t n_left = bulk->selection.limit > 0 ? bulk->selection.limit : INT64_MAX;
        struct rows *page_before = NULL;
        int n_rows = PAGE_ROWS;
        bool ok = true;

        while (ok && n_left > 0 && n_rows == PAGE_ROWS && !ferror(stdout)) {
                bool is_first = page_before == NULL;
                struct rows *page = parked_rows_read(conn, &bulk->selection, page_before,
                    n_left < PAGE_ROWS ? (int)n_left : PAGE_ROWS,
                    arguments_has(bulk->arguments, BULK_JSON), error);
                rows_free(page_before);
                page_before = page;
                if (page == NULL)
                        return false;
                n_rows = rows_count(page);
                n_left -= n_rows;
                if (n_rows > 0)
                        ok = print_page(bulk, columns, PARKED_ROW_JSON, page, error);
                else if (is_first)
                        ok = bulk_found_none(bulk, error);
        }
        rows_free(page_before);
        return ok;
}

static bool list_blocked(struct blocking_conn *conn, const struct bulk *bulk, struct error *error)
{
        struct rows *rows = parked_rows_read_blocked(
            conn, &bulk->selection, arguments_has(bulk->arguments, BULK_JSON), error);
        bool ok;

        if (rows == NULL)
                return false;
        ok = rows_count(rows) > 0 ? print_page(bulk, blocked_columns, 0, rows, error)
                                  : bulk_found_none(bulk, error);
        rows_free(rows);
        return ok;
}

/* The ID is that of the event, which several sinks and receivers may have parked. */
static bool check_ids_have_sink(const struct arguments *arguments, struct error *error)
{
        if (arguments->n_operands == 0 || arguments_has(arguments, BULK_SINK) ||
            arguments_has(arguments, BULK_RECEIVER))
                return true;
        return error_set(error, ERROR_USAGE,
            "%s: the same ID may be parked for several sinks: add --sink NAME or --receiver NAME",
            arguments->name);
}

static bool mark(struct blocking_conn *conn, const struct bulk *bulk, enum parked_mark kind,
    const struct parked_count *count, struct error *error)
{
        int64_t n_triable = count->n - count->n_blocked;
        int64_t n_marked;
        bool ok = parked_rows_mark(conn, kind, &bulk->selection,
            kind == MARK_SKIP ? count->n : n_triable, &n_marked, error);

        if (kind == MARK_SKIP)
                bulk_print_result(
                    bulk, count->n, "marked", n_marked, "will be skipped by the relay");
        else
                bulk_print_result(
                    bulk, count->n, "marked", n_marked, "will be tried at once by the relay");
        if (ok && kind == MARK_RETRY && count->n_blocked > 0)
                fprintf(stderr,
                    "%lld blocked: the relay delivers them when the events before them are done\n",
                    (long long)count->n_blocked);
        return ok;
}

static bool change(
    struct blocking_conn *conn, const struct bulk *bulk, enum parked_mark kind, struct error *error)
{
        struct parked_count count;

        if (!parked_rows_count(conn, &bulk->selection, &count, error))
                return false;
        if (count.n == 0 || arguments_has(bulk->arguments, BULK_DRY_RUN)) {
                bulk_print_result(bulk, count.n, "marked", 0, "");
        } else if (!bulk_confirm(bulk, count.n, error) || !mark(conn, bulk, kind, &count, error)) {
                return false;
        }
        if (!bulk_check_missing(bulk, count.missing, error))
                return false;
        return count.n > 0 || bulk_found_none(bulk, error);
}

static bool skip(struct blocking_conn *conn, const struct bulk *bulk, struct error *error)
{
        return change(conn, bulk, MARK_SKIP, error);
}

static bool retry(struct blocking_conn *conn, const struct bulk *bulk, struct error *error)
{
        return change(conn, bulk, MARK_RETRY, error);
}

static bool run_list(const struct arguments *arguments, struct error *error)
{
        if (!arguments_has(arguments, BLOCKED))
                return bulk_read_rows(arguments, &subject, list, error);
        if (arguments_has(arguments, BULK_WORD))
                return error_set(
                    error, ERROR_USAGE, "parked list: --blocked and --state do not go together");
        return bulk_read_rows(arguments, &key_subject, list_blocked, error);
}

static bool run_skip(const struct arguments *arguments, struct error *error)
{
        return check_ids_have_sink(arguments, error) &&
               bulk_change_rows(arguments, &subject, skip, error);
}

static bool run_retry(const struct arguments *arguments, struct error *error)
{
        return check_ids_have_sink(arguments, error) &&
               bulk_change_rows(arguments, &subject, retry, error);
}

static const struct command list_command = {
    .name = "list",
    .usage = "[ID]... [FILTERS] [--blocked] [--limit N] [--json]",
    .options = list_options,
    .max_operands = UINT_MAX,
    .run = run_list,
};

#define CHANGE_USAGE                                                                               \
        "(--sink NAME ID... | FILTERS | --all)\n"                                                  \
        "                 [--limit N] [--dry-run] [--yes] [--json]"

static const struct command skip_command = {
    .name = "skip",
    .usage = CHANGE_USAGE,
    .options = change_options,
    .max_operands = UINT_MAX,
    .run = run_skip,
};

static const struct command retry_command = {
    .name = "retry",
    .usage = CHANGE_USAGE,
    .options = change_options,
    .max_operands = UINT_MAX,
    .run = run_retry,
};

const struct command parked_command = {
    .name = "parked",
    .summary = "list, skip and retry deliveries that wait for another attempt",
    .usage =
        "each with [--dsn DSN | -c FILE]; FILTERS: --sink --receiver --topic --key\n"
        "                 --state --older-than --newer-than; a delivery must match all of them",
    .details =
        "list   what waits, by sink; with --blocked, the keys that wait behind a failed delivery\n"
        "skip   gives up deliveries: the relay makes them dead letters with the reason skipped,\n"
        "       and then delivers the events that waited behind them\n"
        "retry  has the relay try them at once instead of when they are due\n"
        "\n"
        "An ID is the event's (courier.outbox.id), so it goes with --sink or --receiver; for a\n"
        "sink with receivers, --sink means all of them. skip and retry only mark the deliveries:\n"
        "the relay that runs the sink acts on the marks, at once if it is up. Both ask first if\n"
        "they have a filter or --all; without a terminal they need --yes. The role must be a\n"
        "member of courier_relay. With neither --dsn nor -c the environment names the database\n"
        "(PGHOST, PGUSER …).\n",
    .subcommands =
        (const struct command *const[]){&list_command, &skip_command, &retry_command, NULL},
    .database = DATABASE,
    .needs_schema = true,
};
