/* What is done with a receiver that there is: stand still, go on, go away, a new secret. */
#include "base/alloc.h"
#include "cli/endpoint/cmd_endpoint.h"
#include "config/secret.h"
#include "config/units.h"
#include "operator/endpoint_rows.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define DEFAULT_OVERLAP_MS (INT64_C(24) * 60 * 60 * 1000)
#define MAX_OVERLAP_MS     (INT64_C(365) * 24 * 60 * 60 * 1000)

typedef bool step_fn(
    struct blocking_conn *conn, const struct arguments *arguments, struct error *error);

static bool with_connection(const struct arguments *arguments, step_fn *step, struct error *error)
{
        struct blocking_conn *conn = endpoint_connect(arguments, error);
        bool ok = conn != NULL && step(conn, arguments, error);

        blocking_conn_close(conn);
        return ok;
}

static bool pause_one(
    struct blocking_conn *conn, const struct arguments *arguments, struct error *error)
{
        const char *name = arguments->operands[1];
        struct rows *rows = endpoint_set_state(
            conn, name, "paused", arguments_value(arguments, OPTION_REASON), error);
        bool ok = true;

        if (rows == NULL)
                return endpoint_refused(conn, name, error);
        if (rows_count(rows) == 0)
                ok = endpoint_missing(conn, name, error);
        else
                printf("%s %s paused\n", name,
                    strcmp(rows_text(rows, 0, 0), "paused") == 0 ? "was already" : "is");
        rows_free(rows);
        return ok;
}

static bool resume_one(
    struct blocking_conn *conn, const struct arguments *arguments, struct error *error)
{
        const char *name = arguments->operands[1];
        struct rows *rows = endpoint_set_state(conn, name, "active", NULL, error);
        bool ok = true;

        if (rows == NULL)
                return endpoint_refused(conn, name, error);
        if (rows_count(rows) == 0)
                ok = endpoint_missing(conn, name, error);
        else if (strcmp(rows_text(rows, 0, 0), "active") == 0)
                fprintf(stderr, "%s is neither paused nor disabled\n", name);
        else
                printf("%s goes on\n", name);
        rows_free(rows);
        return ok;
}

static bool ask(const char *name)
{
        char *answer = NULL;
        size_t capacity = 0;
        bool is_yes = false;

        fprintf(stderr, "remove %s, its secret and its place in the outbox? [y/N] ", name);
        if (getline(&answer, &capacity, stdin) > 0) {
                answer[strcspn(answer, "\r\n")] = '\0';
                is_yes = strcasecmp(answer, "y") == 0 || strcasecmp(answer, "yes") == 0;
        }
        free(answer);
        return is_yes;
}

/* "1 dead letter", "up to 7 undelivered events": the subcommand's form is the caller's. Free it. */
static char *counted(const char *n, const char *noun, const char *nouns)
{
        return xasprintf("%s %s", n, strcmp(n, "1") == 0 ? noun : nouns);
}

/* What of it goes, and what stays. */
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
        if (arguments_has(arguments, OPTION_YES))
                return true;
        if (!isatty(STDIN_FILENO) || !isatty(STDERR_FILENO))
                return error_set(error, ERROR_USAGE,
                    "endpoint remove: %s has %s and %s, which would go, and %s, which would stay; "
                    "add --yes",
                    name, belongings->events, belongings->parked, belongings->dead);
        fprintf(stderr, "%s has %s and %s, which go, and %s, which stay\n", name,
            belongings->events, belongings->parked, belongings->dead);
        return ask(name) || error_set(error, ERROR_SYSTEM, "nothing was changed");
}

static bool count_belongings(struct blocking_conn *conn, const char *name,
    struct belongings *out_belongings, struct error *error)
{
        struct endpoint_waiting waiting;
        struct rows *rows;
        char *n_events;

        if (!endpoint_wait_count(conn, name, &waiting, error))
                return false;
        rows = endpoint_count(conn, name, error);
        if (rows == NULL)
                return endpoint_refused(conn, name, error);
        if (rows_count(rows) == 0) {
                rows_free(rows);
                return endpoint_missing(conn, name, error);
        }
        n_events = endpoint_wait_text(&waiting);
        *out_belongings = (struct belongings){
            .events = counted(n_events, "undelivered event", "undelivered events"),
            .parked = counted(
                rows_text(rows, 0, ENDPOINT_COUNT_PARKED), "parked delivery", "parked deliveries"),
            .dead =
                counted(rows_text(rows, 0, ENDPOINT_COUNT_DEAD), "dead letter", "dead letters")};
        free(n_events);
        rows_free(rows);
        return true;
}

/* The parked deliveries are left to the relay: it may be about to write to them. */
static bool remove_one(
    struct blocking_conn *conn, const struct arguments *arguments, struct error *error)
{
        const char *name = arguments->operands[1];
        struct belongings belongings = {0};
        bool existed = false;
        bool ok;

        if (!count_belongings(conn, name, &belongings, error))
                return false;
        ok = confirm(arguments, name, &belongings, error);
        if (ok && !endpoint_remove(conn, name, &existed, error))
                ok = endpoint_refused(conn, name, error);
        else if (ok && !existed) /* somebody else was faster */
                ok = endpoint_missing(conn, name, error);
        else if (ok)
                printf("removed %s; with it go %s and %s; what stays: %s\n", name,
                    belongings.events, belongings.parked, belongings.dead);
        belongings_deinit(&belongings);
        return ok;
}

static bool read_overlap(
    const struct arguments *arguments, int64_t *out_overlap_ms, struct error *error)
{
        const char *value = arguments_value(arguments, OPTION_OVERLAP);

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
        const char *name = arguments->operands[1];
        struct rows *rows = endpoint_rotate_secret(conn, name, overlap_ms, secret, error);

        if (rows == NULL)
                return endpoint_refused(conn, name, error);
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

bool endpoint_run_pause(const struct arguments *arguments, struct error *error)
{
        return with_connection(arguments, pause_one, error);
}

bool endpoint_run_resume(const struct arguments *arguments, struct error *error)
{
        return with_connection(arguments, resume_one, error);
}

bool endpoint_run_remove(const struct arguments *arguments, struct error *error)
{
        return with_connection(arguments, remove_one, error);
}

bool endpoint_run_rotate_secret(const struct arguments *arguments, struct error *error)
{
        struct blocking_conn *conn = NULL;
        char *secret = NULL;
        int64_t overlap_ms;
        bool ok = false;

        if (read_overlap(arguments, &overlap_ms, error) &&
            endpoint_read_secret(arguments, &secret, error))
                conn = endpoint_connect(arguments, error);
        if (conn != NULL)
                ok = rotate(conn, arguments, overlap_ms, secret, error);
        blocking_conn_close(conn);
        secret_free(secret);
        return ok;
}
