/*
 * Findings go to standard output as they come, or with --json as one object at
 * the end. What is wrong does not stop the checks that do not depend on it.
 */
#include "cli/check.h"

#include "base/alloc.h"
#include "cli/cli.h"
#include "config/config.h"
#include "outbox/pg_words.h"

#include <jansson.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

enum { CONFIG, CONNECT, JSON };

static const struct command_option options[] = {
    [CONFIG] = {"config", 'c', "FILE", false, "the configuration; required"},
    [CONNECT] = {"connect", 0, NULL, false,
        "connect to PostgreSQL and to each sink as well;\nsends no event"},
    [JSON] = {"json", 0, NULL, false, "print one JSON object"},
    {0},
};

struct report {
        json_t *findings; /* NULL: print lines */
        unsigned n_findings;
        unsigned n_failed;
        enum error_kind kind; /* of the first failure */
};

static void add_finding(struct report *report, const char *result, const char *what,
    const char *remedy, const char *format, va_list arguments)
{
        char *text = xvasprintf(format, arguments);

        report->n_findings++;
        if (report->findings != NULL) {
                json_t *finding = json_pack("{s:s, s:s, s:s+, s:s*}", "result", result, "check",
                    what, "text", text, "", "remedy", remedy);
                json_array_append_new(report->findings, finding);
        } else {
                printf("%-4s  %s: %s\n", result, what, text);
                if (remedy != NULL)
                        printf("      %s\n", remedy);
                fflush(stdout); /* the next may take a while */
        }
        free(text);
}

void report_ok(struct report *report, const char *what, const char *format, ...)
{
        va_list arguments;

        va_start(arguments, format);
        add_finding(report, "ok", what, NULL, format, arguments);
        va_end(arguments);
}

void report_warn(
    struct report *report, const char *what, const char *remedy, const char *format, ...)
{
        va_list arguments;

        va_start(arguments, format);
        add_finding(report, "warn", what, remedy, format, arguments);
        va_end(arguments);
}

void report_fail(struct report *report, enum error_kind kind, const char *what, const char *remedy,
    const char *format, ...)
{
        va_list arguments;

        if (report->n_failed++ == 0)
                report->kind = kind;
        va_start(arguments, format);
        add_finding(report, "fail", what, remedy, format, arguments);
        va_end(arguments);
}

static void check_config(const char *path, bool connects, struct report *report)
{
        struct error error = {0};
        struct config *config = config_load(path, &error);
        bool may_free = true;

        if (config == NULL) {
                report_fail(report, error.kind, "config",
                    "Correct the file or its path, then check again", "%s", error.text);
                return;
        }
        if (dsn_check(config->postgres.dsn, &error)) {
                report_ok(report, "config", "%s is valid", path);
                if (connects)
                        check_database(config, report);
        } else {
                report_fail(report, error.kind, "config", "Correct postgres.dsn", "%s", error.text);
        }
        may_free = check_sinks(config, connects, report);
        if (may_free)
                config_free(config);
}

static void print_json(struct report *report)
{
        json_t *whole = json_pack("{s:b, s:i, s:o}", "ok", report->n_failed == 0, "exit_code",
            error_exit_code(report->kind), "checks", report->findings);
        char *text = json_dumps(whole, JSON_COMPACT);

        puts(text != NULL ? text : "{}");
        free(text);
        json_decref(whole);
}

static bool run_check(const struct arguments *arguments, struct error *error)
{
        struct report report = {0};

        if (!arguments_has(arguments, CONFIG))
                return error_set(
                    error, ERROR_USAGE, "check needs a configuration: pgcourier check -c FILE");
        if (arguments_has(arguments, JSON))
                report.findings = json_array();
        check_config(
            arguments_value(arguments, CONFIG), arguments_has(arguments, CONNECT), &report);
        if (report.findings != NULL)
                print_json(&report);
        if (report.n_failed > 0)
                return error_set(error, report.kind, "%u of %u checks failed", report.n_failed,
                    report.n_findings);
        return true;
}

extern const struct command check_command;
const struct command check_command = {
    .name = "check",
    .summary = "check the configuration, and what it names",
    .usage = "-c FILE [--connect] [--json]",
    .details =
        "Checks the file alone; with --connect also what would keep `run` from working:\n"
        "PostgreSQL's version, the schema, the role's rights, the doorbell, and whether each\n"
        "sink can be reached. Prints a line for each finding: ok, warn or fail. The first\n"
        "failure decides on the exit code.\n",
    .options = options,
    .run = run_check,
};
