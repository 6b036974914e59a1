#include "sinks/postgres/postgres_answers.h"

#include <criterion/criterion.h>
#include <string.h>

/* What an error means within a function, and of the statement that calls it. */
static const struct {
        const char *sqlstate;
        enum outcome_kind within;
        enum outcome_kind outside;
        bool operator_within;
        bool operator_outside;
        bool ends_session; /* outside */
} meanings[] = {
    {"PC001", OUTCOME_REJECTED, OUTCOME_REJECTED, false, false, false},
    {"40001", OUTCOME_RETRY, OUTCOME_RETRY, false, false, false},
    {"40P01", OUTCOME_RETRY, OUTCOME_RETRY, false, false, false},
    {"55P03", OUTCOME_RETRY, OUTCOME_RETRY, false, false, false},
    {"57014", OUTCOME_RETRY, OUTCOME_RETRY, false, false, false},
    {"57P01", OUTCOME_SINK_DOWN, OUTCOME_SINK_DOWN, false, false, false},
    {"08006", OUTCOME_SINK_DOWN, OUTCOME_SINK_DOWN, false, false, false},
    {"53300", OUTCOME_SINK_DOWN, OUTCOME_SINK_DOWN, false, false, false},
    {"58030", OUTCOME_SINK_DOWN, OUTCOME_SINK_DOWN, false, false, false},
    {"25006", OUTCOME_SINK_DOWN, OUTCOME_SINK_DOWN, false, false, true},
    {"26000", OUTCOME_RETRY, OUTCOME_SINK_DOWN, false, false, true},
    {"0A000", OUTCOME_RETRY, OUTCOME_SINK_DOWN, false, false, true},
    {"28000", OUTCOME_SINK_DOWN, OUTCOME_SINK_DOWN, true, true, false},
    {"3F000", OUTCOME_SINK_DOWN, OUTCOME_SINK_DOWN, true, true, false},
    {"42883", OUTCOME_SINK_DOWN, OUTCOME_SINK_DOWN, true, true, false},
    {"42501", OUTCOME_SINK_DOWN, OUTCOME_SINK_DOWN, true, true, false},
    {"42P01", OUTCOME_SINK_DOWN, OUTCOME_SINK_DOWN, true, true, false},
    {"22012", OUTCOME_RETRY, OUTCOME_RETRY, false, false, false},
    {"23505", OUTCOME_RETRY, OUTCOME_RETRY, false, false, false},
    {"P0001", OUTCOME_RETRY, OUTCOME_RETRY, false, false, false},
    {"PC003", OUTCOME_RETRY, OUTCOME_RETRY, false, false, false},
    {"XX000", OUTCOME_RETRY, OUTCOME_RETRY, false, false, false},
};

static struct postgres_verdict judge(const char *sqlstate, const char *context)
{
        return postgres_error_judge(
            &(struct postgres_error){.sqlstate = sqlstate, .message = "words", .context = context});
}

Test(postgres_answers, mean_what_the_table_says)
{
        for (size_t i = 0; i < sizeof meanings / sizeof *meanings; i++) {
                const char *sqlstate = meanings[i].sqlstate;
                struct postgres_verdict within = judge(sqlstate, "PL/pgSQL function f() line 1");
                struct postgres_verdict outside = judge(sqlstate, NULL);

                cr_expect_eq(within.outcome.kind, meanings[i].within, "%s", sqlstate);
                cr_expect_eq(outside.outcome.kind, meanings[i].outside, "%s", sqlstate);
                cr_expect_eq(
                    within.outcome.needs_operator, meanings[i].operator_within, "%s", sqlstate);
                cr_expect_eq(
                    outside.outcome.needs_operator, meanings[i].operator_outside, "%s", sqlstate);
                cr_expect_eq(outside.ends_session, meanings[i].ends_session, "%s", sqlstate);
        }
}

/* Others are tried in its place: a batch is divided. */
Test(postgres_answers, know_what_is_the_fault_of_one_event)
{
        cr_expect(judge("22012", NULL).is_of_event);
        cr_expect(judge("23514", NULL).is_of_event);
        cr_expect(judge("57014", NULL).is_of_event);
        cr_expect(judge("42P01", "PL/pgSQL function f() line 1").is_of_event);
        cr_expect(!judge("42P01", NULL).is_of_event);
        cr_expect(!judge("40001", NULL).is_of_event);
        cr_expect(!judge("57P01", NULL).is_of_event);
        cr_expect(judge("53100", "PL/pgSQL function f() line 1").is_of_event);
        cr_expect(judge("25006", "PL/pgSQL function f() line 1").is_of_event);
        cr_expect(!judge("25006", "PL/pgSQL function f() line 1").ends_session);
}

/* Each answers a call, so another call may be answered otherwise. */
Test(postgres_answers, concern_all_events_in_no_case)
{
        for (size_t i = 0; i < sizeof meanings / sizeof *meanings; i++)
                cr_expect_not(judge(meanings[i].sqlstate, NULL).outcome.concerns_all);
}

Test(postgres_answers, say_what_and_where)
{
        struct outcome outcome = judge("22012", "f() line 3\nSQL statement \"x\"").outcome;

        cr_expect_str_eq(outcome.reason, "words (22012); f() line 3");
        cr_expect_eq(outcome.fault, OUTCOME_FAULT_POSTGRES);
        cr_expect_str_eq(judge("22012", NULL).outcome.reason, "words (22012)");
        cr_expect_eq(judge("57014", NULL).outcome.fault, OUTCOME_FAULT_TIMEOUT);
        cr_expect_eq(judge("28P01", NULL).outcome.fault, OUTCOME_FAULT_AUTH);
}

static const struct {
        const char *text;
        int64_t ms; /* -1: none */
} delays[] = {
    {"30", 30000},
    {"0", 0},
    {"30s", 30000},
    {"250ms", 250},
    {"2h", 7200000},
    {"00:00:30", 30000},
    {"01:02:03.5", 3723500},
    {"1d", 86400000},
    {"24:00:00", 86400000},
    {NULL, -1},
    {"", -1},
    {"soon", -1},
    {"-5", -1},
    {"1 day", -1},
    {"24:00:01", -1},
    {"1 day 00:00:00", -1},
    {"2d", -1},
    {"00:00:30 ", -1},
    {"-00:00:30", -1},
    {"99999999999999999999", -1},
    {"400d", -1},
    {"00:00:nan", -1},
};

Test(postgres_answers, read_a_delay)
{
        for (size_t i = 0; i < sizeof delays / sizeof *delays; i++) {
                int64_t ms = -1;
                cr_expect_eq(postgres_delay_parse(delays[i].text, &ms), delays[i].ms >= 0, "%s",
                    delays[i].text);
                cr_expect_eq(ms, delays[i].ms, "%s", delays[i].text);
        }
}
