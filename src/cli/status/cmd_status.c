/* What is stuck, why, and what helps: of the relay's admin endpoint, or of the database. */
#include "admin/findings/findings.h"
#include "admin/status_document.h"
#include "base/clock.h"
#include "cli/admin_client.h"
#include "cli/commands.h"
#include "cli/connect.h"
#include "cli/remedy.h"
#include "cli/status/status_print.h"
#include "config/config.h"
#include "config/suggest.h"
#include "operator/status_query.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ANSWER_TIMEOUT_MS   15000 /* of the database */
#define RECEIVER_TIMEOUT_MS 2000
#define LIVE_MS             1000 /* between two looks at the receiver */
#define DATABASE_MS         2000 /* or at the database */

enum { WATCH, JSON, CHECK, COLOR, DSN, CONFIG };

static const struct command_option options[] = {
    [WATCH] = {"watch", 'w', NULL, false,
        "print it anew every second (of the database every\n2 s) until Ctrl-C; on a terminal"},
    [JSON] = {"json", 0, NULL, false, "print the whole status as one JSON document"},
    [CHECK] = {"check", 0, NULL, false, "end with 1 if something needs attention (not for notes)"},
    [COLOR] = {"color", 0, "WHEN", false,
        "auto (on a terminal, unless NO_COLOR is set), always\nor never"},
    [DSN] = {"dsn", 0, "DSN", false, "the database: postgresql://… or host=…"},
    [CONFIG] = {"config", 'c', "FILE", false,
        "the receiver, the database and the sinks of this\nconfiguration"},
    {0},
};

/* Where the document comes from: a running relay if its admin endpoint answers, else the
 * database. */
struct status_source {
        const char *dsn;            /* NULL: as the next says */
        const char *config_path;    /* NULL: as dsn or the environment says */
        struct config *config;      /* owned; NULL without config_path */
        struct blocking_conn *conn; /* owned; NULL until it is needed */
        struct error
            unanswered; /* why the receiver was not used; ERROR_NONE: it is not configured */
};

static bool open_source(
    struct status_source *source, const char *dsn, const char *config_path, struct error *error)
{
        *source = (struct status_source){.dsn = dsn, .config_path = config_path};
        if (dsn != NULL && config_path != NULL)
                return error_set(
                    error, ERROR_USAGE, "--dsn and --config both name a database: give one");
        if (config_path == NULL)
                return true;
        source->config = config_load(config_path, error);
        return source->config != NULL;
}

static void disconnect(struct status_source *source)
{
        blocking_conn_close(source->conn);
        source->conn = NULL;
}

static void close_source(struct status_source *source)
{
        disconnect(source);
        config_free(source->config);
        source->config = NULL;
}

/* NULL if there is no endpoint, or it does not answer: then `unanswered` says why. */
static json_t *ask_receiver(struct status_source *source)
{
        struct admin_client *client;
        struct bytes body = {0};
        json_error_t fault;
        json_t *document = NULL;
        bool is_answered;
        long status;

        source->unanswered.kind = ERROR_NONE;
        if (source->config == NULL || source->config->admin == NULL)
                return NULL;
        client = admin_client_create(source->config->admin, &source->unanswered);
        if (client == NULL)
                return NULL;
        is_answered = admin_client_ask(
            client, "/api/status", NULL, RECEIVER_TIMEOUT_MS, &status, &body, &source->unanswered);
        if (is_answered && status != 200) {
                admin_client_refused(status, &body, &source->unanswered);
        } else if (is_answered) {
                document = json_loadb(body.data, body.length, JSON_ALLOW_NUL, &fault);
                if (document == NULL)
                        error_set(&source->unanswered, ERROR_SINK,
                            "what the relay's admin endpoint %s answers is no status: %s",
                            source->config->admin->listen, fault.text);
        }
        bytes_deinit(&body);
        admin_client_close(client);
        return document;
}

static bool connect(struct status_source *source, struct error *error)
{
        if (source->conn != NULL)
                return true;
        source->conn =
            connect_to_schema(source->dsn, source->config_path, ANSWER_TIMEOUT_MS, error);
        if (source->conn == NULL)
                return false;
        if (blocking_conn_run(source->conn, look_session_sql, error))
                return true;
        disconnect(source);
        return false;
}

/* The caller's; NULL and *error if neither can be asked. */
static json_t *read_status(struct status_source *source, struct error *error)
{
        json_t *document = ask_receiver(source);
        json_t *found;

        if (document != NULL || !connect(source, error))
                return document;
        found = status_query_ask(source->conn, source->config, error);
        if (found == NULL) {
                command_refused(source->conn, NULL, error);
                disconnect(source); /* the next one begins anew */
                return NULL;
        }
        document = status_document(&(struct status_basis){.found = found,
            .config = source->config,
            .config_file = source->config_path != NULL ? remedy_config() : NULL});
        json_decref(found);
        return document;
}

static volatile sig_atomic_t is_interrupted;

static void on_interrupt(int number)
{
        (void)number;
        is_interrupted = 1;
}

static bool is_wanted(const struct arguments *arguments, const char *sink)
{
        for (unsigned i = 0; i < arguments->n_operands; i++)
                if (sink != NULL && strcmp(arguments->operands[i], sink) == 0)
                        return true;
        return arguments->n_operands == 0;
}

/* Keeps of a list what is about the sinks of the command line, by this member. */
static void keep_wanted(const struct arguments *arguments, json_t *list, const char *member)
{
        for (size_t i = json_array_size(list); i-- > 0;)
                if (!is_wanted(arguments,
                        json_string_value(json_object_get(json_array_get(list, i), member))))
                        json_array_remove(list, i);
}

static bool check_sink(const json_t *sinks, const char *name, struct error *error)
{
        const char *slash = strchr(name, '/');
        const char *meant = NULL;
        const json_t *sink;
        bool have_receivers = false;
        size_t i;

        if (slash != NULL) /* webhooks/acme, as the log has it */
                return error_set(error, ERROR_USAGE,
                    "status shows whole sinks; for the receiver %.100s: `pgcourier receiver "
                    "show "
                    "%.100s`",
                    slash + 1, slash + 1);
        json_array_foreach(sinks, i, sink)
        {
                const char *known = json_string_value(json_object_get(sink, "name"));

                if (strcmp(known, name) == 0)
                        return true;
                meant = suggest_nearer(name, meant, known);
                have_receivers |= json_is_object(json_object_get(sink, "receivers"));
        }
        if (meant == NULL && have_receivers)
                return error_set(error, ERROR_USAGE,
                    "there is no sink \"%.64s\"; see `pgcourier status`. For a receiver of that "
                    "name: `pgcourier receiver show %.64s`",
                    name, name);
        return error_set(error, ERROR_USAGE, "there is no sink \"%.64s\"%s%.64s%s", name,
            meant != NULL ? "; did you mean \"" : "; see `pgcourier status`",
            meant != NULL ? meant : "", meant != NULL ? "\"?" : "");
}

/* Taps and schedules are no sink's: who asks for sinks is told of them alone. */
static bool narrow(const struct arguments *arguments, json_t *status, struct error *error)
{
        json_t *sinks = json_object_get(status, "sinks");

        for (unsigned i = 0; i < arguments->n_operands; i++)
                if (!check_sink(sinks, arguments->operands[i], error))
                        return false;
        keep_wanted(arguments, sinks, "name");
        keep_wanted(arguments, json_object_get(status, "blocked_keys"), "sink");
        keep_wanted(arguments, json_object_get(status, "recent"), "sink");
        keep_wanted(arguments, json_object_get(status, "orphans"), "sink");
        if (arguments->n_operands > 0) {
                json_object_set_new(status, "schedules", json_null());
                json_object_set_new(status, "taps", json_null());
                json_object_set_new(status, "relays", json_null());
                json_object_set_new(status, "marks", json_null());
        }
        return true;
}

static bool print_json(json_t *status, struct error *error)
{
        char *text = json_dumps(status, JSON_COMPACT | JSON_ENSURE_ASCII | JSON_REAL_PRECISION(9));

        if (text == NULL)
                return error_set(error, ERROR_SYSTEM, "the status cannot be printed");
        puts(text);
        free(text);
        return true;
}

static bool has_colours(const struct arguments *arguments)
{
        const char *when = arguments_value(arguments, COLOR);
        const char *no_color = getenv("NO_COLOR");
        const char *term = getenv("TERM");

        if (when != NULL && strcmp(when, "auto") != 0)
                return strcmp(when, "always") == 0;
        return isatty(STDOUT_FILENO) && (no_color == NULL || *no_color == '\0') &&
               (term == NULL || strcmp(term, "dumb") != 0);
}

static bool print(const struct arguments *arguments, const struct status_source *source,
    json_t *status, unsigned *out_n_findings, struct error *error)
{
        const char *unanswered =
            source->unanswered.kind != ERROR_NONE ? source->unanswered.text : NULL;
        json_t *findings;
        bool ok;

        if (!narrow(arguments, status, error))
                return false;
        findings = findings_find(status);
        *out_n_findings = findings_count(findings);
        json_object_set(status, "attention", findings);
        if (arguments_has(arguments, JSON))
                ok = print_json(status, error);
        else
                ok = status_print(status, findings, unanswered, has_colours(arguments), error);
        json_decref(findings);
        return ok;
}

static bool print_once(
    const struct arguments *arguments, struct status_source *source, struct error *error)
{
        json_t *status = read_status(source, error);
        unsigned n_findings = 0;
        bool ok;

        if (status == NULL)
                return false;
        ok = print(arguments, source, status, &n_findings, error);
        json_decref(status);
        if (ok && n_findings > 0 && arguments_has(arguments, CHECK))
                return error_set(error, ERROR_SYSTEM, "%u thing%s attention", n_findings,
                    n_findings == 1 ? " needs" : "s need");
        return ok;
}

static void catch_interrupts(void)
{
        /* What is being written is written; only the pause, which is never restarted, ends at
         * once. */
        const struct sigaction action = {.sa_handler = on_interrupt, .sa_flags = SA_RESTART};

        sigaction(SIGINT, &action, NULL);
        sigaction(SIGTERM, &action, NULL);
}

/* One look; false if there is no sense in another. What cannot be reached now may be later. */
static bool redraw(const struct arguments *arguments, struct status_source *source,
    int64_t *out_pause_ms, struct error *error)
{
        json_t *status = read_status(source, error);
        unsigned n_findings;
        bool ok = true;

        *out_pause_ms = DATABASE_MS;
        if (is_interrupted) {
                json_decref(status);
                return true;
        }
        fputs("\x1b[H\x1b[J", stdout);
        if (status == NULL) {
                printf("pgcourier: %s\n", error->text);
                return error->kind == ERROR_DATABASE || error->kind == ERROR_LOGIN ||
                       error->kind == ERROR_TEMPORARY;
        }
        if (json_is_true(json_object_get(status, "is_live")))
                *out_pause_ms = LIVE_MS;
        ok = print(arguments, source, status, &n_findings, error);
        json_decref(status);
        fflush(stdout);
        return ok && !ferror(stdout);
}

static bool watch(
    const struct arguments *arguments, struct status_source *source, struct error *error)
{
        int64_t pause_ms = 0;
        bool goes_on = true;

        catch_interrupts();
        while (goes_on && !is_interrupted) {
                goes_on = redraw(arguments, source, &pause_ms, error);
                if (goes_on && !is_interrupted)
                        (void)poll(NULL, 0, (int)pause_ms);
        }
        if (goes_on)
                *error = (struct error){0};
        return goes_on;
}

static bool check_words(const struct arguments *arguments, struct error *error)
{
        const char *when = arguments_value(arguments, COLOR);

        if (when != NULL && strcmp(when, "auto") != 0 && strcmp(when, "always") != 0 &&
            strcmp(when, "never") != 0)
                return error_set(
                    error, ERROR_USAGE, "--color: \"%.64s\" is not auto, always or never", when);
        if (!arguments_has(arguments, WATCH))
                return true;
        if (arguments_has(arguments, JSON) || arguments_has(arguments, CHECK))
                return error_set(error, ERROR_USAGE,
                    "status: --watch cannot be combined with --json or --check");
        return isatty(STDOUT_FILENO) ||
               error_set(
                   error, ERROR_USAGE, "status: --watch needs a terminal; in scripts use --json");
}

static bool run_status(const struct arguments *arguments, struct error *error)
{
        struct status_source source;
        bool ok;

        if (!check_words(arguments, error))
                return false;
        ok = open_source(
            &source, arguments_value(arguments, DSN), arguments_value(arguments, CONFIG), error);
        if (ok)
                ok = arguments_has(arguments, WATCH) ? watch(arguments, &source, error)
                                                     : print_once(arguments, &source, error);
        close_source(&source);
        return ok;
}

const struct command status_command = {
    .name = "status",
    .summary = "show the state of each sink, what is stuck and the remedy",
    .usage = "[SINK]... [--watch | --json] [--check] [--color WHEN] [--dsn DSN | -c FILE]",
    .details =
        "Asks the admin endpoint of the relay, if FILE has the block admin, else (or if no relay\n"
        "answers there) the database, so it works while no relay runs. The database does not\n"
        "know rates, latencies and whether a destination is down; these are left empty.\n"
        "\n"
        "BACKLOG counts the events that a sink has not got yet (~: an estimate); OLDEST is the\n"
        "age of the oldest, parked deliveries included; RATE, P50 and P99 are those of the last\n"
        "minute, from publishing to delivery; with + there are more. Unless sinks are named, a\n"
        "second table has the relays, if there are several (see `relay list`), and another one\n"
        "the taps (attached and captured tables): UNMARKED counts the events whose rows the\n"
        "relay is still to mark or delete. Below comes what needs attention, with the command\n"
        "that helps. Without -c FILE every sink that has run in the database is shown, and its\n"
        "backlog counts events of all topics.\n"
        "\n"
        "The role must be a member of courier_relay. With neither --dsn nor -c the environment\n"
        "names the database (PGHOST, PGUSER …).\n",
    .options = options,
    .max_operands = UINT_MAX,
    .run = run_status,
};
