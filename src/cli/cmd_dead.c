/* Deliveries given up: what they are, and back on their way or gone. */
#include "cli/bulk.h"
#include "cli/operate.h"
#include "cli/subcommand.h"
#include "cli/table.h"
#include "operator/dead_letters.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>

#define PAGE_ROWS 1000

static const char *const reasons[] = {
    "rejected", "attempts", "age", "too_large", "unjudged", "skipped", NULL};

static const struct command_option options[] = {
    BULK_OPTIONS("reason", "REASON",
        "only those given up for this: rejected,\nattempts, age, too_large, unjudged or skipped",
        "died"),
    {0},
};

static const struct table_column columns[] = {
    {"ID", DEAD_ID, CELL_NUMBER},
    {"SINK", DEAD_SINK, CELL_WORD},
    {"ENDPOINT", DEAD_ENDPOINT, CELL_OPTIONAL},
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
                        return operate_refused(conn, error);
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

static bool show(struct blocking_conn *conn, const struct bulk *bulk, struct error *error)
{
        const char *id = bulk->arguments->operands[1];
        bool as_json = arguments_has(bulk->arguments, BULK_JSON);
        struct rows *rows = dead_letter_show(conn, id, as_json, error);
        bool ok = true;

        if (rows == NULL)
                return operate_refused(conn, error);
        if (rows_count(rows) == 0)
                ok = bulk_check_missing(bulk, id, error);
        else if (as_json)
                table_print_json(rows, 0);
        else
                table_print_fields(rows);
        rows_free(rows);
        return ok;
}

static bool say_kept(const struct dead_letters_kept *kept, struct error *error)
{
        if (kept->parked.length > 0)
                return error_set(error, ERROR_TEMPORARY,
                    "kept, because that event is still parked for that sink: %.400s; redrive them "
                    "when `pgcourier parked list` shows them no more",
                    kept->parked.data);
        return kept->orphaned.length == 0 ||
               error_set(error, ERROR_EMPTY,
                   "kept, because their endpoint was removed: %.400s; nobody is left to take them, "
                   "`pgcourier dead drop` drops them",
                   kept->orphaned.data);
}

static bool redrive(struct blocking_conn *conn, const struct bulk *bulk,
    const struct dead_letters_count *count, struct error *error)
{
        struct dead_letters_kept kept = {0};
        int64_t n_redriven;
        bool ok = dead_letters_change(
            conn, DEAD_REDRIVE, &bulk->selection, count, &n_redriven, &kept, error);

        bulk_print_result(bulk, count->n, "redriven", n_redriven,
            "redriven; the relay delivers behind what waits of the same key");
        ok = ok && say_kept(&kept, error);
        dead_letters_kept_deinit(&kept);
        return ok;
}

static bool drop(struct blocking_conn *conn, const struct bulk *bulk,
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
        bool ok = true;

        if (!dead_letters_count(conn, &bulk->selection, &count, error))
                return operate_refused(conn, error);
        if (count.n == 0 || arguments_has(bulk->arguments, BULK_DRY_RUN))
                bulk_print_result(bulk, count.n, is_drop ? "dropped" : "redriven", 0, "");
        else if (!bulk_confirm(bulk, count.n, error))
                return false;
        else
                ok = is_drop ? drop(conn, bulk, &count, error) : redrive(conn, bulk, &count, error);
        if (!ok)
                return operate_refused(conn, error);
        if (!bulk_check_missing(bulk, count.missing, error))
                return false;
        return count.n > 0 || bulk_found_none(bulk, error);
}

static bool change_by_redrive(
    struct blocking_conn *conn, const struct bulk *bulk, struct error *error)
{
        return change(conn, bulk, false, error);
}

static bool change_by_drop(struct blocking_conn *conn, const struct bulk *bulk, struct error *error)
{
        return change(conn, bulk, true, error);
}

static bool run_list(const struct arguments *arguments, struct error *error)
{
        return bulk_read_rows(arguments, &subject, list, error);
}

static bool run_show(const struct arguments *arguments, struct error *error)
{
        return bulk_read_rows(arguments, &subject, show, error);
}

static bool run_redrive(const struct arguments *arguments, struct error *error)
{
        return bulk_change_rows(arguments, &subject, change_by_redrive, error);
}

static bool run_drop(const struct arguments *arguments, struct error *error)
{
        return bulk_change_rows(arguments, &subject, change_by_drop, error);
}

static const struct subcommand subcommands[] = {
    {"list", BULK_READ, 0, UINT_MAX, run_list},
    {"show", BULK_CONNECT | BULK_BIT(BULK_JSON), 1, 1, run_show},
    {"redrive", BULK_CHANGE, 0, UINT_MAX, run_redrive},
    {"drop", BULK_CHANGE, 0, UINT_MAX, run_drop},
    {0},
};

static bool run_dead(const struct arguments *arguments, struct error *error)
{
        return subcommands_run(arguments, error);
}

extern const struct command dead_command;
const struct command dead_command = {
    .name = "dead",
    .summary = "list, show, redrive and drop deliveries that were given up",
    .usage = "list [ID]... [FILTERS] [--limit N] [--json]\n"
             "       pgcourier dead show ID [--json]\n"
             "       pgcourier dead redrive|drop (ID... | FILTERS | --all) [--limit N]\n"
             "                 [--dry-run] [--yes] [--json]\n"
             "       each with [--dsn DSN | -c FILE]; FILTERS: --sink --endpoint --topic --key\n"
             "                 --reason --older-than --newer-than; all that are given must be true",
    .details =
        "list     the dead letters, oldest first\n"
        "show     one with its whole event; data that is not JSON as base64\n"
        "redrive  sends them on their way again: same event_id, same bytes, marked as redriven,\n"
        "         with a new count of attempts, in the order in which they died and behind\n"
        "         what waits of their keys\n"
        "drop     deletes them for good\n"
        "\n"
        "redrive and drop ask before they do it by filter or --all; where nobody can be asked\n"
        "they need --yes. They work in batches, each a transaction: if one is interrupted, what\n"
        "was done is done. redrive ends with 75 if some were kept, because the same event is\n"
        "still parked for the same sink. The role must be a member of courier_relay. With\n"
        "neither --dsn nor -c the environment names the database (PGHOST, PGUSER …).\n",
    .options = options,
    .subcommands = subcommands,
    .max_operands = UINT_MAX,
    .run = run_dead,
};
