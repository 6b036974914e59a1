/*
 * Delivers past events to one sink again, at a rate that it can bear.
 *
 * The command hands over one second's worth of events at a time, and only while
 * the relay delivers the earlier ones. So an interrupt stops the replay, a sink
 * that is down does not collect copies, and the relay's rules (order of a key,
 * retries, dead letters) hold for every event.
 */
#include "base/alloc.h"
#include "base/clock.h"
#include "cli/commands.h"
#include "cli/connect.h"
#include "cli/destinations.h"
#include "cli/input.h"
#include "cli/replay_reader.h"
#include "config/config.h"
#include "config/units.h"
#include "operator/history.h"
#include "text/topic_pattern.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define DEFAULT_RATE 100
#define MAX_RATE     100000
#define SAY_EVERY_US 10000000
#define WAIT_MS      100

enum { SINK, RECEIVER, FROM, TO, TOPIC, KEY, RATE, DRY_RUN, YES, CONFIG };

static const struct command_option options[] = {
    [SINK] = {"sink", 0, "NAME", false, "the sink that gets the events again"},
    [RECEIVER] = {"receiver", 0, "NAME", false,
        "the receiver that gets them; one of both is required"},
    [FROM] = {"from", 0, "ID|TIME", false,
        "the first event: an id, 2026-11-21T08:00Z, 2h (ago)\nor beginning; required"},
    [TO] = {"to", 0, "ID|TIME", false, "the last event; default: the sink's position"},
    [TOPIC] = {"topic", 0, "PATTERN", false, "only those of these topics"},
    [KEY] = {"key", 0, "KEY", false, "only those of this key"},
    [RATE] = {"rate", 0, "N/s", false, "events a second; default: 100/s"},
    [DRY_RUN] = {"dry-run", 0, NULL, false, "only count"},
    [YES] = OPTION_YES,
    [CONFIG] = {"config", 'c', "FILE", false, "the relay's configuration; required"},
    {0},
};

struct replay {
        const struct arguments *arguments;
        struct blocking_conn *conn;
        struct destinations destinations;
        const struct destination *destination;
        struct history_range range;
        struct replay_reader reader;
        double rate; /* a second */
        int64_t n_total, n_sent, n_kept;
        int64_t last_id; /* up to here everything has been handed over */
        int64_t said_us;
};

static volatile sig_atomic_t is_interrupted;

static void on_signal(int number)
{
        (void)number;
        is_interrupted = 1;
}

/* Without SA_RESTART, so that they end a question that waits for its answer, too. */
static void watch_signals(void)
{
        const struct sigaction action = {.sa_handler = on_signal};

        sigaction(SIGINT, &action, NULL);
        sigaction(SIGTERM, &action, NULL);
}

static bool read_rate(const struct arguments *arguments, double *out_rate, struct error *error)
{
        const char *value = arguments_value(arguments, RATE);
        size_t length = value != NULL ? strcspn(value, "/") : 0;
        char *digits;
        bool ok;

        *out_rate = DEFAULT_RATE;
        if (value == NULL)
                return true;
        digits = xstrndup(value, length);
        ok = (value[length] == '\0' || strcmp(value + length, "/s") == 0) &&
             units_parse_number(digits, out_rate) && *out_rate >= 0.01 && *out_rate <= MAX_RATE;
        free(digits);
        return ok || error_set(error, ERROR_USAGE,
                         "--rate: \"%.64s\" is not a number of events a second, from 0.01/s to "
                         "100000/s",
                         value);
}

static bool read_words(struct replay *replay, struct error *error)
{
        const struct arguments *arguments = replay->arguments;
        const char *topic = arguments_value(arguments, TOPIC);
        const char *fault = NULL;

        if ((!arguments_has(arguments, SINK) && !arguments_has(arguments, RECEIVER)) ||
            !arguments_has(arguments, FROM) || arguments->config_path == NULL)
                return error_set(error, ERROR_USAGE,
                    "replay needs --sink NAME or --receiver NAME, --from ID|TIME and -c FILE, the "
                    "configuration that says what the sink takes");
        if (topic != NULL)
                fault = *topic == '!'
                            ? "excludes topics; only lists in the configuration may do that"
                            : topic_pattern_check(topic);
        if (fault != NULL)
                return error_set(error, ERROR_USAGE, "--topic: \"%.64s\" %s", topic, fault);
        replay->range.sink = arguments_value(arguments, SINK);
        replay->range.topic = topic;
        replay->range.key = arguments_value(arguments, KEY);
        return read_rate(arguments, &replay->rate, error) &&
               input_log_position(
                   &replay->range.from, "from", arguments_value(arguments, FROM), error) &&
               input_log_position(&replay->range.to, "to", arguments_value(arguments, TO), error);
}

static bool is_wanted(const struct destination *destination, const char *sink, const char *receiver)
{
        if (sink != NULL && strcmp(destination->sink, sink) != 0)
                return false;
        return destination->receiver == NULL
                   ? receiver == NULL
                   : receiver != NULL && strcmp(destination->receiver->name, receiver) == 0;
}

static bool find_destination(
    struct replay *replay, const struct config *config, struct error *error)
{
        const char *sink = replay->range.sink;
        const char *receiver = arguments_value(replay->arguments, RECEIVER);
        bool fans_out = false;
        bool exists = sink == NULL;

        for (unsigned i = 0; !exists && i < config->n_sinks; i++)
                if (strcmp(config->sinks[i].name, sink) == 0) {
                        exists = true;
                        fans_out = sink_config_fans_out(&config->sinks[i]);
                }
        if (!exists)
                return error_set(
                    error, ERROR_USAGE, "the configuration has no sink \"%.64s\"", sink);
        if (fans_out && receiver == NULL)
                return error_set(error, ERROR_USAGE,
                    "sink %s has several receivers; give --receiver NAME", sink);
        for (size_t i = 0; i < replay->destinations.n_destinations; i++)
                if (is_wanted(&replay->destinations.destinations[i], sink, receiver))
                        replay->destination = &replay->destinations.destinations[i];
        if (replay->destination != NULL) {
                replay->range.sink = replay->destination->sink;
                return true;
        }
        return sink != NULL
                   ? error_set(
                         error, ERROR_USAGE, "sink %s has no receiver \"%.64s\"", sink, receiver)
                   : error_set(error, ERROR_USAGE,
                         "no sink of the configuration has a receiver \"%.64s\"", receiver);
}

static void begin_reading(struct replay *replay, int n_rows)
{
        replay_reader_deinit(&replay->reader);
        replay_reader_init(
            &replay->reader, replay->conn, &replay->range, replay->destination, n_rows);
}

static bool count(struct replay *replay, struct error *error)
{
        bool is_end = false;

        begin_reading(replay, REPLAY_PAGE_ROWS);
        while (!is_end && !is_interrupted) {
                struct array_literal ids = {0};
                int64_t n_taken;
                bool ok = replay_reader_read(
                    &replay->reader, REPLAY_PAGE_ROWS, &ids, &n_taken, &is_end, error);
                array_deinit(&ids);
                if (!ok)
                        return false;
                replay->n_total += n_taken;
        }
        return !is_interrupted ||
               error_set(error, ERROR_TEMPORARY, "interrupted; nothing was replayed");
}

static void say_progress(struct replay *replay, const char *what)
{
        bool is_terminal = isatty(STDERR_FILENO) != 0;
        int64_t now_us = clock_monotonic_us();

        if (!is_terminal && now_us - replay->said_us < SAY_EVERY_US)
                return;
        replay->said_us = now_us;
        fprintf(stderr, "%s%" PRId64 " of %" PRId64 " events handed over%s%s",
            is_terminal ? "\r" : "", replay->n_sent, replay->n_total, what,
            is_terminal ? "\033[K" : "\n");
}

static void rest(int64_t ms)
{
        nanosleep(&(struct timespec){.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000}, NULL);
}

/* Until the relay has taken most of what was handed over. */
static bool await_relay(struct replay *replay, int batch, struct error *error)
{
        int64_t n_due = 0;

        do {
                if (!history_count_due(replay->conn, &replay->range, 2 * batch + 1, &n_due, error))
                        return false;
                if (n_due <= 2 * batch)
                        return true;
                say_progress(replay, "; waiting for the relay to deliver them: does it run, is the "
                                     "sink paused or down?");
                rest(WAIT_MS);
        } while (!is_interrupted);
        return true;
}

static bool hand_over(struct replay *replay, struct error *error)
{
        int batch = replay->rate < 1                  ? 1
                    : replay->rate < REPLAY_PAGE_ROWS ? (int)replay->rate
                                                      : REPLAY_PAGE_ROWS;
        int64_t interval_us = (int64_t)(1e6 / replay->rate);
        bool is_end = false;

        replay->said_us = clock_monotonic_us();
        begin_reading(replay, batch);
        replay->last_id = replay->reader.after_id;
        while (!is_end && !is_interrupted) {
                int64_t begun_us = clock_monotonic_us();
                struct array_literal ids = {0};
                int64_t n_taken, n_parked = 0;
                bool ok =
                    await_relay(replay, batch, error) && !is_interrupted &&
                    replay_reader_read(&replay->reader, batch, &ids, &n_taken, &is_end, error);
                if (ok && n_taken > 0)
                        ok = history_replay(replay->conn, &replay->range, array_end(&ids),
                            interval_us, &n_parked, error);
                array_deinit(&ids);
                if (is_interrupted && !ok)
                        return true;
                if (!ok)
                        return false;
                replay->last_id = replay->reader.after_id;
                replay->n_sent += n_parked;
                replay->n_kept += n_taken - n_parked;
                say_progress(replay, "");
                for (int64_t left_us;
                     !is_end && !is_interrupted &&
                     (left_us = begun_us + n_taken * interval_us - clock_monotonic_us()) > 0;)
                        rest(left_us / 1000 < WAIT_MS ? left_us / 1000 + 1 : WAIT_MS);
        }
        return true;
}

static void say_left_out(const struct replay *replay)
{
        int64_t n = replay->reader.n_left_out;

        if (n > 0)
                printf("%" PRId64 " event%s left out: the filter took longer than %d ms for %s\n",
                    n, n == 1 ? " was" : "s were", FILTERS_LIMIT_MS, n == 1 ? "it" : "each");
}

static bool conclude(const struct replay *replay, const char *name, struct error *error)
{
        if (isatty(STDERR_FILENO))
                fputc('\n', stderr);
        printf("%" PRId64 " event%s on %s way to %s once more\n", replay->n_sent,
            replay->n_sent == 1 ? " is" : "s are", replay->n_sent == 1 ? "its" : "their", name);
        if (replay->n_kept > 0)
                printf("%" PRId64 " %s parked for it already, and %s left alone\n", replay->n_kept,
                    replay->n_kept == 1 ? "is" : "are", replay->n_kept == 1 ? "was" : "were");
        say_left_out(replay);
        return !is_interrupted || error_set(error, ERROR_TEMPORARY,
                                      "interrupted; the rest begins at id %" PRId64
                                      ": give --from %" PRId64 " to go on",
                                      replay->last_id + 1, replay->last_id + 1);
}

static bool say_count(const struct replay *replay, const char *name)
{
        printf("%" PRId64 " event%s would be delivered to %s once more\n", replay->n_total,
            replay->n_total == 1 ? "" : "s", name);
        say_left_out(replay);
        return true;
}

static bool run_steps(struct replay *replay, const struct config *config, struct error *error)
{
        char *name;
        bool ok;

        if (!destinations_load(&replay->destinations, config, replay->conn, error) ||
            !find_destination(replay, config, error))
                return false;
        replay->range.lane = replay->destination->lane;
        if (!history_fix(replay->conn, &replay->range, error) || !count(replay, error))
                return false;
        name = destination_name(replay->destination);
        if (replay->n_total == 0 && replay->reader.n_left_out > 0)
                ok = error_set(error, ERROR_EMPTY,
                    "%s has got such events, but its filter takes longer than %d ms for each: "
                    "simplify it",
                    name, FILTERS_LIMIT_MS);
        else if (replay->n_total == 0)
                ok = error_set(error, ERROR_EMPTY,
                    "%s has got no such event, or the outbox does not hold it any more", name);
        else if (arguments_has(replay->arguments, DRY_RUN))
                ok = say_count(replay, name);
        else
                ok = input_confirm(replay->arguments, YES, "add --yes, or --dry-run to only count",
                         error, "deliver %" PRId64 " event%s to %s once more, %g a second",
                         replay->n_total, replay->n_total == 1 ? "" : "s", name, replay->rate) &&
                     hand_over(replay, error) && conclude(replay, name, error);
        free(name);
        return ok;
}

static bool run_replay(const struct arguments *arguments, struct error *error)
{
        struct replay replay = {.arguments = arguments};
        struct config *config;
        bool ok = false;

        if (!read_words(&replay, error))
                return false;
        config = config_load(arguments->config_path, error);
        if (config == NULL)
                return false;
        replay.conn = command_connect(arguments, error);
        watch_signals();
        if (replay.conn != NULL)
                ok = run_steps(&replay, config, error);
        destinations_deinit(&replay.destinations);
        replay_reader_deinit(&replay.reader);
        config_free(config);
        return ok;
}

const struct command replay_command = {
    .name = "replay",
    .summary = "deliver events to a sink once more",
    .usage = "[--sink NAME] [--receiver NAME] --from ID|TIME [--to ID|TIME] [--topic PATTERN]\n"
             "       [--key KEY] [--rate N/s] [--dry-run] [--yes] -c FILE",
    .details =
        "Sends events of the past, as far as the outbox still holds them, to one sink again: the\n"
        "same event_id and bytes, marked as redriven and with the header `replayed`. Only what\n"
        "the sink has passed and would take today. Its cursor does not move: new events go on\n"
        "being delivered meanwhile, and a replayed event comes after waiting events of its key.\n"
        "Events that the sink's filter takes too long for are left out and counted.\n"
        "\n"
        "Counts first and asks; without a terminal it needs --yes. Runs until the last\n"
        "event is handed over at this rate, and waits while the relay does not deliver. If it is\n"
        "interrupted, it ends with 75 and prints the --from to go on with. The role must be a\n"
        "member of courier_relay.\n",
    .options = options,
    .run = run_replay,
    .needs_schema = true,
    .refused = input_time_refused,
};
