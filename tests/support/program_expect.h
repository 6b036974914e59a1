/* What one run of the program is expected to say, for tests of its commands. All free the run. */
#pragma once

#include "support/program.h"

#include <criterion/criterion.h>
#include <string.h>

/* Nothing but one line of complaint, in which that text occurs. */
#define expect_refusal(run, expected_code, expected_err)                                           \
        do {                                                                                       \
                struct program_run actual = (run);                                                 \
                cr_expect_eq(                                                                      \
                    actual.code, (expected_code), "exit code %d: %s", actual.code, actual.err);    \
                cr_expect_str_empty(actual.out);                                                   \
                cr_expect_not_null(strstr(actual.err, (expected_err)), "%s", actual.err);          \
                cr_expect_eq(strchr(actual.err, '\n'), actual.err + strlen(actual.err) - 1,        \
                    "more than one line: %s", actual.err);                                         \
                program_run_free(&actual);                                                         \
        } while (0)

/* Exactly that on standard output, and exit code 0. */
#define expect_output(run, expected_out)                                                           \
        do {                                                                                       \
                struct program_run actual = (run);                                                 \
                cr_expect_eq(actual.code, 0, "exit code %d: %s", actual.code, actual.err);         \
                cr_expect_str_eq(actual.out, (expected_out), "%s", actual.out);                    \
                program_run_free(&actual);                                                         \
        } while (0)

static inline void expect_each_text(struct program_run run, int code, const char *const *texts)
{
        cr_expect_eq(run.code, code, "exit code %d: %s%s", run.code, run.out, run.err);
        for (; *texts != NULL; texts++)
                cr_expect_not_null(
                    strstr(run.out, *texts), "%s not in:\n%s%s", *texts, run.out, run.err);
        program_run_free(&run);
}

/* Each of these texts on standard output, and that exit code. */
#define expect_texts(run, code, ...)                                                               \
        expect_each_text((run), (code), (const char *const[]){__VA_ARGS__, NULL})
