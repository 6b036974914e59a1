/* Changes of an existing receiver: pause, resume, recover, remove, rotate-secret. */
#include "base/alloc.h"
#include "cli/connect.h"
#include "cli/input.h"
#include "cli/receiver/receiver_common.h"
#include "config/secret.h"
#include "config/units.h"
#include "operator/dead_letters.h"
#include "operator/receiver_rows.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DEFAULT_OVERLAP_MS (INT64_C(24) * 60 * 60 * 1000)
#define MAX_OVERLAP_MS     (INT64_C(365) * 24 * 60 * 60 * 1000)

enum { PAUSE_REASON };

static const struct command_option pause_options[] = {
    [PAUSE_REASON] = {"reason", 0, "TEXT", false, "the reason, for operators"}, {0}};

enum { RECOVER_SINCE, RECOVER_DRY_RUN };

static const struct command_option recover_options[] = {
    [RECOVER_SINCE] = {"since", 0, "DURATION", false,
        "what was given up less long ago than this: 90m, 2d;\ndefault: all"},
    [RECOVER_DRY_RUN] = {"dry-run", 0, NULL, false, "change nothing, only count"},
    {0},
};

enum { REMOVE_YES };

static const struct command_option remove_options[] = {[REMOVE_YES] = OPTION_YES, {0}};

enum { ROTATE_OVERLAP, ROTATE_SECRET_FILE };

static const struct command_option rotate_options[] = {
    [ROTATE_OVERLAP] = {"overlap", 0, "DURATION", false,
        "how long the old secret signs too: 90s, 12h, 7d;\n0 ends it at once; default: 24h"},
    [ROTATE_SECRET_FILE] = RECEIVER_OPTION_SECRET_FILE,
    {0},
};

static bool run_pause(const struct arguments *arguments, struct error *error)
{
        const char *name = arguments->operands[0];
        struct blocking_conn *conn = command_connect(arguments, error);
        struct rows *rows = NULL;
        bool ok = true;

        if (conn != NULL)
                rows = receiver_set_state(
                    conn, name, "paused", arguments_value(arguments, PAUSE_REASON), error);
        if (rows == NULL)
                return false;
        if (rows_count(rows) == 0)
                ok = receiver_missing(conn, name, error);
        else
                printf("%s %s paused\n", name,
                    strcmp(rows_text(rows, 0, 0), "paused") == 0 ? "was already" : "is");
        rows_free(rows);
        return ok;
}

static bool run_resume(const struct arguments *arguments, struct error *error)
{
        const char *name = arguments->operands[0];
        struct blocking_conn *conn = command_connect(arguments, error);
        struct rows *rows =
            conn != NULL ? receiver_set_state(conn, name, "active", NULL, error) : NULL;
        bool ok = true;

        if (rows == NULL)
                return false;
        if (rows_count(rows) == 0)
                ok = receiver_missing(conn, name, error);
        else if (strcmp(rows_text(rows, 0, 0), "active") == 0)
                fprintf(stderr, "%s is neither paused nor disabled\n", name);
        else
                printf("%s goes on\n", name);
        rows_free(rows);
        return ok;
}

/* What it did not get are its dead letters: everything else has been delivered, or waits. */
static bool recover(struct blocking_conn *conn, const struct arguments *arguments,
    const struct selection *selection, struct error *error)
{
        const char *name = selection->receiver;
        struct dead_letters_count count = {0};
        int64_t n_redriven = 0;

        if (!dead_letters_count(conn, selection, &count, error))
                return false;
        if (arguments_has(arguments, RECOVER_DRY_RUN)) {
                printf("%" PRId64 " event%s would be sent to %s again\n", count.n,
                    count.n == 1 ? "" : "s", name);
                return true;
        }
        if (count.n > 0 &&
            !dead_letters_change(conn, DEAD_REDRIVE, selection, &count, &n_redriven, NULL, error))
                return false;
        printf("%" PRId64 " event%s on %s way to %s again\n", n_redriven,
            n_redriven == 1 ? " is" : "s are", n_redriven == 1 ? "its" : "their", name);
        return n_redriven == count.n ||
               error_set(error, ERROR_TEMPORARY,
                   "%" PRId64 " stay: the same event is under way to it already",
                   count.n - n_redriven);
}

static bool run_recover(const struct arguments *arguments, struct error *error)
{
        struct selection selection = {
            .receiver = arguments->operands[0], .older_than_ms = -1, .newer_than_ms = -1};
        const char *since = arguments_value(arguments, RECOVER_SINCE);
        struct blocking_conn *conn;
        struct rows *rows;
        bool ok;

        if (since != NULL && !units_parse_duration(since, &selection.newer_than_ms))
                return error_set(
                    error, ERROR_USAGE, "--since: \"%.64s\" is not " UNITS_DURATION, since);
        conn = command_connect(arguments, error);
        rows = conn != NULL ? receiver_count(conn, selection.receiver, error) : NULL;
        if (rows == NULL)
                return false;
        ok = rows_count(rows) > 0 ? recover(conn, arguments, &selection, error)
                                  : receiver_missing(conn, selection.receiver, error);
        rows_free(rows);
        return ok;
}

/* "1 dead letter", "up to 7 undelivered events"; free it. */
static char *counted(const char *n, const char *noun, const char *nouns)
{
        return xasprintf("%s %s", n, strcmp(n, "1") == 0 ? noun : nouns);
}

/* What is removed with it, and the dead letters, which stay. */
struct belongings {
        char *events; /* owned */
        char *parked;
        char *dead;
};

static void belongings_deinit(struct belongings *belongings)
{
        free(belongings->events);
        free(belongings->parked);
        free(belongings->dead);
}

static bool confirm(const struct arguments *arguments, const char *name,
    const struct belongings *belongings, struct error *error)
{
        char *question;
        bool is_yes;

        if (arguments_has(arguments, REMOVE_YES))
                return true;
        if (!input_can_ask())
                return error_set(error, ERROR_USAGE,
                    "receiver remove: %s has %s and %s, which would go, and %s, which would stay; "
                    "add --yes",
                    name, belongings->events, belongings->parked, belongings->dead);
        fprintf(stderr, "%s has %s and %s, which go, and %s, which stay\n", name,
            belongings->events, belongings->parked, belongings->dead);
        question = xasprintf("remove %s, its secret and its place in the outbox", name);
        is_yes = input_ask(question) || error_set(error, ERROR_SYSTEM, "nothing was changed");
        free(question);
        return is_yes;
}

static bool count_belongings(struct blocking_conn *conn, const char *name,
    struct belongings *out_belongings, struct error *error)
{
        struct rows *rows = receiver_count(conn, name, error);

        if (rows == NULL)
                return false;
        if (rows_count(rows) == 0) {
                rows_free(rows);
                return receiver_missing(conn, name, error);
        }
        *out_belongings = (struct belongings){
            .events = counted(rows_text(rows, 0, RECEIVER_COUNT_WAITING), "undelivered event",
                "undelivered events"),
            .parked = counted(
                rows_text(rows, 0, RECEIVER_COUNT_PARKED), "parked delivery", "parked deliveries"),
            .dead =
                counted(rows_text(rows, 0, RECEIVER_COUNT_DEAD), "dead letter", "dead letters")};
        rows_free(rows);
        return true;
}

/* The relay removes the parked deliveries: it may be about to write to them. */
static bool run_remove(const struct arguments *arguments, struct error *error)
{
        const char *name = arguments->operands[0];
        struct blocking_conn *conn = command_connect(arguments, error);
        struct belongings belongings = {0};
        bool existed = false;
        bool ok;

        if (conn == NULL || !count_belongings(conn, name, &belongings, error))
                return false;
        ok = confirm(arguments, name, &belongings, error) &&
             receiver_remove(conn, name, &existed, error);
        if (ok && !existed) /* another session was faster */
                ok = receiver_missing(conn, name, error);
        else if (ok)
                printf("removed %s; with it go %s and %s; what stays: %s\n", name,
                    belongings.events, belongings.parked, belongings.dead);
        belongings_deinit(&belongings);
        return ok;
}

static bool read_overlap(
    const struct arguments *arguments, int64_t *out_overlap_ms, struct error *error)
{
        const char *value = arguments_value(arguments, ROTATE_OVERLAP);

        *out_overlap_ms = DEFAULT_OVERLAP_MS;
        if (value == NULL)
                return true;
        if (!units_parse_duration(value, out_overlap_ms))
                return error_set(
                    error, ERROR_USAGE, "--overlap: \"%.64s\" is not " UNITS_DURATION, value);
        return *out_overlap_ms <= MAX_OVERLAP_MS ||
               error_set(error, ERROR_USAGE, "--overlap: \"%.64s\" is more than 365d", value);
}

static bool rotate(struct blocking_conn *conn, const struct arguments *arguments,
    int64_t overlap_ms, const char *secret, struct error *error)
{
        const char *name = arguments->operands[0];
        struct rows *rows = receiver_rotate_secret(conn, name, overlap_ms, secret, error);

        if (rows == NULL)
                return false;
        if (secret == NULL)
                puts(rows_text(rows, 0, ROTATED_SECRET));
        if (rows_text(rows, 0, ROTATED_UNTIL) != NULL)
                fprintf(stderr, "%s: signed with the new secret, and with the old one until %s\n",
                    name, rows_text(rows, 0, ROTATED_UNTIL));
        else
                fprintf(stderr, "%s: signed with the new secret only\n", name);
        rows_free(rows);
        return true;
}

static bool run_rotate_secret(const struct arguments *arguments, struct error *error)
{
        struct blocking_conn *conn = NULL;
        char *secret = NULL;
        int64_t overlap_ms;
        bool ok;

        if (read_overlap(arguments, &overlap_ms, error) &&
            receiver_read_secret(arguments_value(arguments, ROTATE_SECRET_FILE), &secret, error))
                conn = command_connect(arguments, error);
        ok = conn != NULL && rotate(conn, arguments, overlap_ms, secret, error);
        secret_free(secret);
        return ok;
}

const struct command receiver_pause_command = {
    .name = "pause",
    .usage = "NAME [--reason TEXT]",
    .options = pause_options,
    .min_operands = 1,
    .max_operands = 1,
    .run = run_pause,
};

const struct command receiver_resume_command = {
    .name = "resume",
    .usage = "NAME",
    .min_operands = 1,
    .max_operands = 1,
    .run = run_resume,
};

const struct command receiver_recover_command = {
    .name = "recover",
    .usage = "NAME [--since DURATION] [--dry-run]",
    .options = recover_options,
    .min_operands = 1,
    .max_operands = 1,
    .run = run_recover,
};

const struct command receiver_remove_command = {
    .name = "remove",
    .usage = "NAME [--yes]",
    .options = remove_options,
    .min_operands = 1,
    .max_operands = 1,
    .run = run_remove,
};

const struct command receiver_rotate_secret_command = {
    .name = "rotate-secret",
    .usage = "NAME [--overlap DURATION]\n"
             "                 [--secret-file FILE]",
    .options = rotate_options,
    .min_operands = 1,
    .max_operands = 1,
    .run = run_rotate_secret,
};
