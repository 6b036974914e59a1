/*
 * Moves a sink's cursor back, so that everything from there on is delivered
 * again. rewind.sql says why nothing is lost. A relay that owns the lane keeps
 * its position in memory and would overwrite the cursor, so none may own it.
 */
#include "base/bytes.h"
#include "cli/commands.h"
#include "cli/connect.h"
#include "cli/input.h"
#include "cli/remedy.h"
#include "operator/sink_rows.h"

#include <inttypes.h>
#include <stdio.h>

enum { SINK, LANE, TO, YES };

static const struct command_option options[] = {
    [SINK] = {"sink", 0, "NAME", false, "the sink that goes back; required"},
    [LANE] = {"lane", 0, "N", false, "only this lane: that of an endpoint, see `cursor list`"},
    [TO] = {"to", 0, "ID|TIME", false,
        "the first event to come again: an id, 2026-11-21T08:00Z,\n2h (ago) or beginning; "
        "required"},
    [YES] = OPTION_YES,
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

        rewind->sink = arguments_value(arguments, SINK);
        if (rewind->sink == NULL || !arguments_has(arguments, TO))
                return error_set(error, ERROR_USAGE, "rewind needs --sink NAME and --to ID|TIME");
        return input_lane(
                   arguments_value(arguments, LANE), HISTORY_ALL_LANES, &rewind->lane, error) &&
               input_sink_name(rewind->sink, error) &&
               input_log_position(&rewind->to, "to", arguments_value(arguments, TO), error);
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
        bytes_append_shell_word(&from, arguments_value(rewind->arguments, TO));
        error_set(error, ERROR_TEMPORARY,
            "a relay is running and owns the lane of sink %s, and knows by itself where it stands: "
            "stop it (all of them, where several stand by), rewind, start it again. "
            "`pgcourier replay --sink %s --from %.200s%s` needs no stop",
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
                    "sink %s has passed no event from there on: there is nothing to go back to",
                    rewind->sink);
        if (!input_confirm(rewind->arguments, YES, "add --yes", error,
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
    .summary = "let a sink go back, and deliver everything from there on again",
    .usage = "--sink NAME [--lane N] --to ID|TIME [--yes] [--dsn DSN | -c FILE]",
    .details =
        "Moves a sink's cursor back: everything that the outbox still holds from there on is\n"
        "delivered again, in its order and unmarked, and then what is new. For a destination that\n"
        "was restored from a backup. While a relay owns the sink it is refused: stop it first.\n"
        "What is parked, and the dead letters, stay as they are. `pgcourier replay` repeats\n"
        "chosen events beside the running ones, at a rate.\n"
        "\n"
        "Nothing that has not been delivered is skipped, whatever transactions are in progress.\n"
        "The role must be a member of courier_relay.\n",
    .options = options,
    .run = run_rewind,
    .database = DATABASE,
    .needs_schema = true,
    .refused = input_time_refused,
};
