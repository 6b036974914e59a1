/* Findings go to standard output as they come, or with --json as one object at the end. */
#include "cli/doctor/report.h"

#include "base/alloc.h"
#include "cli/remedy.h"
#include "pg/blocking_conn.h"

#include <jansson.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct report {
        json_t *findings; /* NULL: print lines */
        unsigned n_findings;
        unsigned n_failed;
        enum error_kind kind; /* of the first failure */
};

struct report *report_create(bool as_json)
{
        struct report *report = xcalloc(1, sizeof *report);

        if (as_json)
                report->findings = json_array();
        return report;
}

static void add_finding(struct report *report, const char *result, const char *what,
    const char *remedy, const char *format, va_list arguments)
{
        char *said = xvasprintf(format, arguments);
        char *text = remedy_complete(said);
        char *completed = remedy != NULL ? remedy_complete(remedy) : NULL;

        remedy = completed;
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
        free(said);
        free(text);
        free(completed);
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

static void print_json(struct report *report)
{
        json_t *whole = json_pack("{s:b, s:i, s:o}", "ok", report->n_failed == 0, "exit_code",
            error_exit_code(report->kind), "checks", report->findings);
        char *text = json_dumps(whole, JSON_COMPACT);

        puts(text != NULL ? text : "{}");
        free(text);
        json_decref(whole);
}

bool report_finish(struct report *report, struct error *error)
{
        bool ok = report->n_failed == 0;

        if (report->findings != NULL)
                print_json(report);
        if (!ok)
                error_set(error, report->kind, "%u of %u checks failed", report->n_failed,
                    report->n_findings);
        free(report);
        return ok;
}
