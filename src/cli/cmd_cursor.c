/*
 * Cursors: how far each sink has come, dropping those of removed sinks, and moving them back.
 *
 * A sink that was removed from the configuration leaves its cursor behind, and
 * the outbox keeps every event for it. Only a configuration can tell, so without
 * a file no cursor is called an orphan, and none is dropped.
 */
#include "base/alloc.h"
#include "cli/commands.h"
#include "cli/connect.h"
#include "cli/input.h"
#include "cli/remedy.h"
#include "cli/table.h"
#include "config/config.h"
#include "operator/sink_rows.h"
#include "pg/array_literal.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { JSON, FAIL_EMPTY };

static const struct command_option list_options[] = {
    [JSON] = OPTION_JSON,
    [FAIL_EMPTY] = {"fail-empty", 0, NULL, false, "end with 8 if there is no cursor"},
    {0},
};

enum { LANE, PARKED, FORCE, YES };

static const struct command_option drop_options[] = {
    [LANE] = {"lane", 0, "N", false, "only this lane: that of a receiver, see `cursor list`"},
    [PARKED] = {"parked", 0, NULL, false, "drop its parked deliveries as well, undelivered"},
    [FORCE] = {"force", 0, NULL, false,
        "even if the sink is in the configuration, or no\nconfiguration is given"},
    [YES] = OPTION_YES,
    {0},
};

static const struct table_column columns[] = {
    {"SINK", CURSOR_ROW_SINK, CELL_WORD},
    {"LANE", CURSOR_ROW_LANE, CELL_NUMBER},
    {"RECEIVER", CURSOR_ROW_RECEIVER, CELL_OPTIONAL},
    {"SHARD", CURSOR_ROW_SHARD, CELL_OPTIONAL},
    {"REACHED", CURSOR_ROW_REACHED, CELL_NUMBER},
    {"BEHIND", CURSOR_ROW_BEHIND, CELL_NUMBER},
    {"SETTLED", CURSOR_ROW_SETTLED_AT, CELL_WORD},
    {"OWNER", CURSOR_ROW_OWNER, CELL_LONG},
    {"CONFIG", CURSOR_ROW_IN_CONFIG, CELL_OPTIONAL},
    {0},
};

/* False only on error; without -c *out_config is NULL. */
static bool load_config(
    const struct arguments *arguments, struct config **out_config, struct error *error)
{
        const char *path = arguments->config_path;

        *out_config = path != NULL ? config_load(path, error) : NULL;
        return path == NULL || *out_config != NULL;
}

static struct rows *read_cursors(struct blocking_conn *conn, const struct config *config,
    const char *sink, bool as_json, struct error *error)
{
        struct array_literal sinks = {0};
        const char *names = NULL;
        struct rows *rows;

        for (unsigned i = 0; config != NULL && i < config->n_sinks; i++)
                array_add_text(&sinks, config->sinks[i].name);
        if (config != NULL)
                names = array_end(&sinks);
        rows = cursors_read(conn, sink, names, as_json, error);
        array_deinit(&sinks);
        return rows;
}

static bool print_list(
    const struct rows *rows, const struct arguments *arguments, struct error *error)
{
        if (rows_count(rows) == 0 && arguments_has(arguments, FAIL_EMPTY))
                return error_set(error, ERROR_EMPTY, "there is no cursor");
        if (rows_count(rows) == 0)
                fputs("there is no cursor: no relay has run here yet\n", stderr);
        else if (arguments_has(arguments, JSON))
                table_print_json(rows, CURSOR_ROW_JSON);
        else
                return table_print(columns, rows, error);
        return true;
}

static bool run_list(const struct arguments *arguments, struct error *error)
{
        struct config *config;
        struct blocking_conn *conn;
        struct rows *rows = NULL;
        bool ok = false;

        if (!load_config(arguments, &config, error))
                return false;
        conn = command_connect(arguments, error);
        if (conn != NULL)
                rows = read_cursors(conn, config, NULL, arguments_has(arguments, JSON), error);
        if (rows != NULL)
                ok = print_list(rows, arguments, error);
        rows_free(rows);
        config_free(config);
        return ok;
}

static bool is_in_config(const struct config *config, const char *sink)
{
        for (unsigned i = 0; i < config->n_sinks; i++)
                if (strcmp(config->sinks[i].name, sink) == 0)
                        return true;
        return false;
}

/* The configuration says whether the sink is still in use. */
static bool check_unused(
    const struct arguments *arguments, const struct config *config, struct error *error)
{
        const char *sink = arguments->operands[0];

        if (arguments_has(arguments, FORCE))
                return true;
        if (config == NULL)
                return error_set(error, ERROR_USAGE,
                    "cursor drop cannot tell whether sink %s is still in use; give -c FILE, the "
                    "configuration of the relay, or add --force",
                    sink);
        return !is_in_config(config, sink) ||
               error_set(error, ERROR_USAGE,
                   "sink %s is in that configuration: without its cursor it would start again "
                   "where "
                   "its `start` says, and events that wait for it would be lost or delivered "
                   "again. Take it out of the file first, or add --force",
                   sink);
}

/* "1 parked delivery", "2 parked deliveries"; free it. */
static char *counted(int64_t n, const char *noun, const char *nouns)
{
        return xasprintf("%" PRId64 " %s", n, n == 1 ? noun : nouns);
}

static char *counted_parked(const struct cursor_belongings *belongings)
{
        return counted(belongings->n_parked, "parked delivery", "parked deliveries");
}

static bool refuse_parked(
    const char *sink, const struct cursor_belongings *belongings, struct error *error)
{
        char *parked = counted_parked(belongings);

        error_set(error, ERROR_USAGE,
            "sink %s has %s that would never be delivered; see `pgcourier parked list --sink %s`, "
            "and add --parked to drop them too",
            sink, parked, sink);
        free(parked);
        return false;
}

static bool check_belongings(const struct arguments *arguments,
    const struct cursor_belongings *belongings, struct error *error)
{
        const char *sink = arguments->operands[0];

        if (belongings->n_cursors == 0)
                return error_set(error, ERROR_EMPTY,
                    "there is no such cursor of sink %s; `pgcourier cursor list` shows all", sink);
        if (belongings->n_owned > 0)
                return error_set(error, ERROR_TEMPORARY,
                    "a running relay owns the lane of sink %s: remove the sink from its "
                    "configuration and reload it, or stop the relay",
                    sink);
        return belongings->n_parked == 0 || arguments_has(arguments, PARKED) ||
               refuse_parked(sink, belongings, error);
}

static bool confirm(const struct arguments *arguments, const struct cursor_belongings *belongings,
    struct error *error)
{
        char *cursors = counted(belongings->n_cursors, "cursor", "cursors");
        char *parked = counted_parked(belongings);
        bool is_yes = input_confirm(arguments, YES, "add --yes", error,
            "drop %s and %s of sink %s for good", cursors, parked, arguments->operands[0]);

        free(cursors);
        free(parked);
        return is_yes;
}

static void print_dropped(const char *sink, const struct cursor_belongings *belongings)
{
        char *cursors = counted(belongings->n_cursors, "cursor", "cursors");
        char *parked = counted_parked(belongings);
        char *dead = counted(belongings->n_dead, "dead letter stays", "dead letters stay");

        printf("%s of sink %s dropped%s%s\n", cursors, sink,
            belongings->n_parked > 0 ? ", and " : "", belongings->n_parked > 0 ? parked : "");
        if (belongings->n_dead > 0)
                remedy_print("%s: `pgcourier dead drop --sink %s`", dead, sink);
        if (belongings->n_pauses > 0)
                remedy_print("the sink is still paused; end that with `pgcourier resume %s`", sink);
        free(cursors);
        free(parked);
        free(dead);
}

static bool drop(
    struct blocking_conn *conn, const struct arguments *arguments, int lane, struct error *error)
{
        const char *sink = arguments->operands[0];
        struct cursor_belongings belongings;

        if (!cursors_hold(conn, sink, lane, &belongings, error) ||
            !check_belongings(arguments, &belongings, error) ||
            !confirm(arguments, &belongings, error) || !cursors_drop(conn, sink, lane, error))
                return false;
        print_dropped(sink, &belongings);
        return true;
}

static bool run_drop(const struct arguments *arguments, struct error *error)
{
        struct config *config;
        struct blocking_conn *conn = NULL;
        int lane;
        bool ok;

        if (!input_sink_name(arguments->operands[0], error) ||
            !input_lane(arguments_value(arguments, LANE), CURSOR_ALL_LANES, &lane, error) ||
            !load_config(arguments, &config, error))
                return false;
        ok = check_unused(arguments, config, error);
        if (ok)
                conn = command_connect(arguments, error);
        ok = conn != NULL && drop(conn, arguments, lane, error);
        config_free(config);
        return ok;
}

static const struct command list_command = {
    .name = "list",
    .usage = "[--json] [--fail-empty] [--dsn DSN | -c FILE]",
    .options = list_options,
    .run = run_list,
};

static const struct command drop_command = {
    .name = "drop",
    .usage = "SINK [--lane N] [--parked] [--force] [--yes]\n"
             "                 [--dsn DSN | -c FILE]",
    .options = drop_options,
    .min_operands = 1,
    .max_operands = 1,
    .run = run_drop,
};

const struct command cursor_command = {
    .name = "cursor",
    .summary = "list how far each sink has come, and drop unused cursors",
    .details =
        "list  every sink that has ever run here: the id that it has reached, how many ids were\n"
        "      drawn since (events of all topics, so no more than that wait for it), when that\n"
        "      was last noted, and which session owns it. With -c FILE a sink that is not in the\n"
        "      file is called ORPHAN: the outbox keeps events for it that will never be delivered\n"
        "drop  removes the cursor of a sink that is not in use any more. Refused while a relay\n"
        "      owns it, while the sink is in the configuration, and while deliveries are parked\n"
        "      for it; --force and --parked say that this is meant. Dead letters stay\n"
        "\n"
        "The role must be a member of courier_relay. With neither --dsn nor -c the environment\n"
        "names the database (PGHOST, PGUSER …).\n",
    .subcommands = (const struct command *const[]){&list_command, &drop_command, NULL},
    .database = DATABASE_AND_SINKS,
    .needs_schema = true,
    .answer_timeout_ms = 30000,
};

/*
 * rewind moves a sink's cursor back, so that everything from there on is delivered again.
 * rewind.sql says why nothing is lost. A relay that owns the lane keeps its position in memory and
 * would overwrite the cursor, so none may own it.
 */
enum { REWIND_SINK, REWIND_LANE, REWIND_TO, REWIND_YES };

static const struct command_option rewind_options[] = {
    [REWIND_SINK] = {"sink", 0, "NAME", false, "the sink that goes back; required"},
    [REWIND_LANE] = {"lane", 0, "N", false,
        "only this lane: that of a receiver, see `cursor list`"},
    [REWIND_TO] = {"to", 0, "ID|TIME", false,
        "the first event to deliver again: an id, 2026-11-21T08:00Z,\n2h (ago) or beginning; "
        "required"},
    [REWIND_YES] = OPTION_YES,
    {0},
};

struct rewind {
        const struct arguments *arguments;
        const char *sink;
        int lane;
        struct log_position to;
};

static bool read_words(struct rewind *rewind, struct error *error)
{
        const struct arguments *arguments = rewind->arguments;

        rewind->sink = arguments_value(arguments, REWIND_SINK);
        if (rewind->sink == NULL || !arguments_has(arguments, REWIND_TO))
                return error_set(error, ERROR_USAGE, "rewind needs --sink NAME and --to ID|TIME");
        return input_lane(arguments_value(arguments, REWIND_LANE), HISTORY_ALL_LANES, &rewind->lane,
                   error) &&
               input_sink_name(rewind->sink, error) &&
               input_log_position(&rewind->to, "to", arguments_value(arguments, REWIND_TO), error);
}

static bool check_held(
    const struct rewind *rewind, const struct cursor_belongings *belongings, struct error *error)
{
        struct bytes from = {0};

        if (belongings->n_cursors == 0)
                return error_set(error, ERROR_EMPTY,
                    "no relay has run sink %s here so far: there is no cursor to move",
                    rewind->sink);
        if (belongings->n_owned == 0)
                return true;
        bytes_append_shell_word(&from, arguments_value(rewind->arguments, REWIND_TO));
        error_set(error, ERROR_TEMPORARY,
            "a running relay owns the lane of sink %s; stop all relays, rewind, and start them "
            "again. "
            "`pgcourier replay --sink %s --from %.200s%s` works without a stop",
            rewind->sink, rewind->sink, from.data, remedy_config() != NULL ? "" : " -c FILE");
        bytes_deinit(&from);
        return false;
}

static bool go_back(struct blocking_conn *conn, const struct rewind *rewind, struct error *error)
{
        struct cursor_belongings belongings;
        int64_t id, n_events, n_lanes;

        if (!history_find(conn, &rewind->to, &id, error) ||
            !cursors_hold(conn, rewind->sink, rewind->lane, &belongings, error) ||
            !check_held(rewind, &belongings, error))
                return false;
        if (id != 0 &&
            !history_count_rewind(conn, rewind->sink, rewind->lane, id, &n_events, error))
                return false;
        if (id == 0 || n_events == 0)
                return error_set(error, ERROR_EMPTY,
                    "sink %s has not passed any event from there on; nothing to rewind",
                    rewind->sink);
        if (!input_confirm(rewind->arguments, REWIND_YES, "add --yes", error,
                "let sink %s deliver up to %" PRId64 " events again, from id %" PRId64 " on",
                rewind->sink, n_events, id) ||
            !history_rewind(conn, rewind->sink, rewind->lane, id, &n_lanes, error))
                return false;
        printf("sink %s: %" PRId64 " of %" PRId64 " cursors moved back to id %" PRId64
               "; up to %" PRId64 " events are delivered again\n",
            rewind->sink, n_lanes, belongings.n_cursors, id, n_events);
        return true;
}

static bool run_rewind(const struct arguments *arguments, struct error *error)
{
        struct rewind rewind = {.arguments = arguments};
        struct blocking_conn *conn =
            read_words(&rewind, error) ? command_connect(arguments, error) : NULL;

        return conn != NULL && go_back(conn, &rewind, error);
}

const struct command rewind_command = {
    .name = "rewind",
    .summary = "move a sink back, and deliver everything from there on again",
    .usage = "--sink NAME [--lane N] --to ID|TIME [--yes] [--dsn DSN | -c FILE]",
    .details =
        "Moves a sink's cursor back: everything that the outbox still holds from there on is\n"
        "delivered again, in its order and unmarked, and then what is new. For a destination that\n"
        "was restored from a backup. While a relay owns the sink it is refused: stop it first.\n"
        "What is parked, and the dead letters, stay as they are. `pgcourier replay` repeats\n"
        "chosen events beside the running ones, at a rate.\n"
        "\n"
        "No undelivered event is skipped, even while transactions are in progress.\n"
        "The role must be a member of courier_relay.\n",
    .options = rewind_options,
    .run = run_rewind,
    .database = DATABASE,
    .needs_schema = true,
    .refused = input_time_refused,
};
