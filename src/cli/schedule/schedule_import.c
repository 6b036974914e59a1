/*
 * `pgcourier schedule import`: makes schedules of the lines of a crontab, or of the jobs of
 * pg_cron. Each is made in one transaction, which is rolled back without --apply: so the server has
 * checked all that is printed.
 */
#include "base/alloc.h"
#include "base/bytes.h"
#include "cli/connect.h"
#include "cli/input.h"
#include "cli/schedule/crontab.h"
#include "cli/schedule/schedule_add.h"
#include "operator/schedule_rows.h"

#include <ctype.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_CRONTAB_BYTES (1024 * 1024)

enum { PG_CRON, SYSTEM, TIME_ZONE, APPLY };

static const struct command_option options[] = {
    [PG_CRON] = {"pg-cron", 0, NULL, false,
        "the jobs of pg_cron in the database, instead of a\nfile"},
    [SYSTEM] = {"system", 0, NULL, false,
        "each line has a user before its command; so have\n/etc/crontab and /etc/cron.d without "
        "it"},
    [TIME_ZONE] = {"time-zone", 0, "NAME", false,
        "of lines before which there is no CRON_TZ;\ndefault: UTC"},
    [APPLY] = {"apply", 0, NULL, false, "make the schedules; without it nothing is changed"},
    {0},
};

struct import {
        struct blocking_conn *conn; /* borrowed */
        const char *source;         /* borrowed; for messages */
        json_t *names;              /* owned; those that were given */
        unsigned n_made;
        unsigned n_refused;
};

struct job {
        const char *place; /* "7", "job 3" */
        const char *name;
        const char *times;
        const char *command;
        const char *time_zone; /* NULL: UTC */
};

/* The text may quote anything of the crontab: nothing that a terminal obeys is written. */
static void note(const struct import *import, const char *place, const char *text)
{
        fprintf(stderr, "%s:%s: ", import->source, place);
        for (; *text != '\0'; text++)
                fputc(iscntrl((unsigned char)*text) ? '?' : *text, stderr);
        fputc('\n', stderr);
}

/* What the server says of a refused line begins a paragraph of its own. */
static void note_refusal(struct import *import, const char *place, const struct error *error)
{
        const char *end = strstr(error->text, ": The caret shows where:");
        char *text =
            end != NULL ? xstrndup(error->text, (size_t)(end - error->text)) : xstrdup(error->text);

        note(import, place, text);
        free(text);
        import->n_refused++;
}

/* The second of a name is name-2. Takes the name over; to be freed. */
static char *numbered(struct import *import, char *name)
{
        char *free_name = xstrdup(name);

        for (unsigned n = 2; json_object_get(import->names, free_name) != NULL; n++) {
                free(free_name);
                free_name = xasprintf("%s-%u", name, n);
        }
        json_object_set_new(import->names, free_name, json_true());
        free(name);
        return free_name;
}

/* The command's first word without its folder, of letters, digits, _ and -. To be freed. */
static char *name_of(const char *command)
{
        size_t length = strcspn(command, " \t;|&<>");
        const char *begin = command;
        char *name;

        for (const char *at = command; at < command + length; at++)
                if (*at == '/' && at + 1 < command + length)
                        begin = at + 1;
        name = xstrndup(begin, length - (size_t)(begin - command));
        for (char *at = name; *at != '\0'; at++)
                if (!isalnum((unsigned char)*at) && *at != '_')
                        *at = '-';
        if (*name != '\0' && strlen(name) <= 100)
                return name;
        free(name);
        return xstrdup("job");
}

/* "30 seconds", as pg_cron has it, is an interval. */
static bool is_interval(const char *times)
{
        return strspn(times, "0123456789") > 0 && strstr(times, "second") != NULL;
}

/* Makes one, as far as the transaction goes, and prints it. False if the connection fails. */
static bool make(
    struct import *import, const struct job *job, const char *payload, struct error *error)
{
        char *topic = xasprintf("cron.%s", job->name);
        const char *values[SCHEDULE_N_FIELDS] = {
            [SCHEDULE_FIELD_NAME] = job->name,
            [SCHEDULE_FIELD_TOPIC] = topic,
            [SCHEDULE_FIELD_PAYLOAD] = payload,
            [SCHEDULE_FIELD_TIME_ZONE] = job->time_zone,
        };
        bool is_refused = false;
        struct rows *rows;

        values[is_interval(job->times) ? SCHEDULE_FIELD_EVERY : SCHEDULE_FIELD_CRON] = job->times;
        rows = schedule_import(import->conn, values, &is_refused, error);
        if (rows != NULL) {
                puts(rows_text(rows, 0, 0));
                import->n_made++;
        } else if (is_refused)
                note_refusal(import, job->place, error);
        rows_free(rows);
        free(topic);
        return rows != NULL || is_refused;
}

static bool import_job(struct import *import, const struct job *job, struct error *error)
{
        json_t *payload = json_pack("{s:s}", "command", job->command);
        char *text;
        bool ok;

        if (payload == NULL) {
                note(import, job->place, "the command is not valid UTF-8");
                import->n_refused++;
                return true;
        }
        text = json_dumps(payload, 0);
        ok = make(import, job, text, error);
        free(text);
        json_decref(payload);
        return ok;
}

static bool import_lines(
    struct import *import, struct crontab *crontab, const char *time_zone, struct error *error)
{
        struct crontab_line line;
        bool ok = true;

        while (ok && crontab_next(crontab, &line)) {
                char place[16];

                snprintf(place, sizeof place, "%u", crontab->number);
                if (line.note != NULL)
                        note(import, place, line.note);
                if (line.times != NULL) {
                        char *name = numbered(import, name_of(line.command));

                        ok = import_job(import,
                            &(struct job){place, name, line.times, line.command,
                                crontab->time_zone != NULL ? crontab->time_zone : time_zone},
                            error);
                        free(name);
                }
                crontab_line_deinit(&line);
        }
        return ok;
}

static bool import_file(
    struct import *import, const struct arguments *arguments, struct error *error)
{
        const char *path = arguments->operands[0];
        struct bytes text = {0};
        struct crontab crontab;
        bool ok;

        if (!input_read(path, MAX_CRONTAB_BYTES, &text, error))
                return false;
        if (text.length > 0 && memchr(text.data, '\0', text.length) != NULL) {
                bytes_deinit(&text);
                return error_set(error, ERROR_USAGE,
                    "%s holds a NUL byte, so it is no crontab; nothing is changed", import->source);
        }
        crontab_init(&crontab, text.data != NULL ? text.data : "",
            arguments_has(arguments, SYSTEM) || strncmp(path, "/etc/cron", 9) == 0);
        ok = import_lines(import, &crontab, arguments_value(arguments, TIME_ZONE), error);
        crontab_deinit(&crontab);
        bytes_deinit(&text);
        return ok;
}

static bool import_pg_cron(struct import *import, struct error *error)
{
        struct rows *rows = schedule_pg_cron_jobs(import->conn, error);
        bool ok = rows != NULL;

        for (int i = 0; ok && i < rows_count(rows); i++) {
                const char *given = rows_text(rows, i, PG_CRON_NAME);
                const char *why = rows_text(rows, i, PG_CRON_NOTE);
                char *place = xasprintf("job %s", rows_text(rows, i, PG_CRON_ID));
                char *name = numbered(import,
                    given != NULL ? xstrdup(given) : name_of(rows_text(rows, i, PG_CRON_COMMAND)));

                if (why != NULL)
                        note(import, place, why);
                else
                        ok = import_job(import,
                            &(struct job){place, name, rows_text(rows, i, PG_CRON_TIMES),
                                rows_text(rows, i, PG_CRON_COMMAND),
                                rows_text(rows, i, PG_CRON_TIME_ZONE)},
                            error);
                free(name);
                free(place);
        }
        rows_free(rows);
        return ok;
}

static bool finish(const struct import *import, bool applies, struct error *error)
{
        if (import->n_refused > 0)
                return error_set(error, ERROR_USAGE, "%u %s refused, so nothing is changed",
                    import->n_refused, import->n_refused == 1 ? "is" : "are");
        if (!blocking_conn_run(import->conn, applies ? "COMMIT" : "ROLLBACK", error))
                return false;
        fprintf(stderr,
            applies ? "made %u schedule%s\n"
                    : "%u schedule%s, and nothing is changed; --apply makes them\n",
            import->n_made, import->n_made == 1 ? "" : "s");
        return true;
}

static bool run_import(const struct arguments *arguments, struct error *error)
{
        bool is_pg_cron = arguments_has(arguments, PG_CRON);
        struct import import = {.source = is_pg_cron ? "pg_cron" : NULL};
        bool ok;

        if (is_pg_cron == (arguments->n_operands > 0))
                return error_set(
                    error, ERROR_USAGE, "schedule import needs either a file or --pg-cron");
        if (!is_pg_cron)
                import.source = strcmp(arguments->operands[0], "-") == 0 ? "standard input"
                                                                         : arguments->operands[0];
        import.conn = command_connect(arguments, error);
        if (import.conn == NULL)
                return false;
        import.names = json_object();
        ok = blocking_conn_run(import.conn, "BEGIN", error) &&
             (is_pg_cron ? import_pg_cron(&import, error)
                         : import_file(&import, arguments, error)) &&
             finish(&import, arguments_has(arguments, APPLY), error);
        json_decref(import.names);
        return ok;
}

const struct command schedule_import_command = {
    .name = "import",
    .usage = "CRONTAB|- | --pg-cron [--system] [--time-zone NAME] [--apply]",
    .options = options,
    .max_operands = 1,
    .run = run_import,
};
