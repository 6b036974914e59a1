/*
 * The one table of what SQLSTATE means. Most errors that a function raises concern its event: they
 * are tried again, as often as the sink's `retry` says. Those of the statement that calls it have
 * no context: nothing in an event can cause them.
 */
#include "sinks/postgres/postgres_answers.h"

#include "base/utf8.h"
#include "config/units.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_DELAY_MS INT64_C(86400000)

enum meaning {
        REJECTED,  /* the function says: never */
        LATER,     /* the function says: not yet */
        CONFLICT,  /* with another transaction, which will be over */
        TIMED_OUT, /* the server has cancelled it */
        DOWN,
        STANDBY, /* the server accepts no writes any more */
        STALE,   /* what the session prepared is not what is there */
        OPERATOR,
        FAULT, /* of the event, or of the function with this event */
};

/* The first that the SQLSTATE begins with. */
static const struct {
        const char *sqlstate;
        enum meaning meaning;
} meanings[] = {
    {"PC001", REJECTED},
    {"PC002", LATER},
    {"40", CONFLICT},    /* serialization_failure, deadlock_detected … */
    {"55P03", CONFLICT}, /* lock_not_available */
    {"57014", TIMED_OUT},
    {"57P", DOWN}, /* admin_shutdown, crash_shutdown, cannot_connect_now … */
    {"08", DOWN},  /* connection exceptions */
    {"53", DOWN},  /* too_many_connections, disk_full, out_of_memory … */
    {"58", DOWN},  /* errors of the system the server runs on */
    {"25006", STANDBY},
    {"26000", STALE}, /* the prepared statement does not exist */
    {"0A000", STALE}, /* its result has changed; within a function: not supported */
    {"28", OPERATOR}, /* who logs in */
    {"3F", OPERATOR}, /* the schema does not exist */
    {"42", OPERATOR}, /* undefined_function, undefined_table, insufficient_privilege … */
    {"", FAULT},
};

static enum meaning meaning_of(const char *sqlstate)
{
        size_t i = 0;

        while (strncmp(sqlstate, meanings[i].sqlstate, strlen(meanings[i].sqlstate)) != 0)
                i++;
        return meanings[i].meaning;
}

/* "01:02:03.5" */
static bool parse_interval(const char *text, int64_t *out_ms)
{
        unsigned hours, minutes;
        double seconds;
        int length = 0;

        if (!isdigit((unsigned char)*text) ||
            sscanf(text, "%3u:%2u:%lf%n", &hours, &minutes, &seconds, &length) != 3 ||
            text[length] != '\0' || !(seconds >= 0 && seconds < 61)) /* nor "nan" */
                return false;
        *out_ms = (int64_t)(hours * 60 + minutes) * 60000 + (int64_t)(seconds * 1000);
        return true;
}

bool postgres_delay_parse(const char *detail, int64_t *out_ms)
{
        uint64_t seconds;
        int64_t ms;

        if (detail == NULL)
                return false;
        if (units_parse_integer(detail, &seconds) && seconds <= (uint64_t)MAX_DELAY_MS / 1000)
                ms = (int64_t)seconds * 1000;
        else if (!units_parse_duration(detail, &ms) && !parse_interval(detail, &ms))
                return false;
        if (ms < 0 || ms > MAX_DELAY_MS)
                return false;
        *out_ms = ms;
        return true;
}

/* What it says, and in which function: the first line of the context. */
static struct outcome make(enum outcome_kind kind, const struct postgres_error *error)
{
        const char *context = error->context != NULL ? error->context : "";
        char message[180];
        char where[120];
        struct outcome outcome;

        utf8_copy(message, sizeof message, error->message != NULL ? error->message : "an error");
        snprintf(where, sizeof where, "%.*s", (int)strcspn(context, "\n"), context);
        outcome = outcome_make(
            kind, "%s (%s)%s%s", message, error->sqlstate, *where != '\0' ? "; " : "", where);
        outcome.fault = OUTCOME_FAULT_POSTGRES;
        return outcome;
}

static struct outcome postpone(const struct postgres_error *error)
{
        struct outcome outcome = make(OUTCOME_RETRY, error);
        int64_t delay_ms;

        if (postgres_delay_parse(error->detail, &delay_ms)) {
                outcome.is_postponed = true;
                outcome.delay_ms = delay_ms;
                return outcome;
        }
        outcome = outcome_make(OUTCOME_RETRY,
            "PC002 without a delay of up to a day in its DETAIL: USING ERRCODE = 'PC002', DETAIL = "
            "'30s'");
        outcome.fault = OUTCOME_FAULT_POSTGRES;
        return outcome;
}

static struct outcome for_operator(const struct postgres_error *error)
{
        struct outcome outcome = make(OUTCOME_SINK_DOWN, error);

        outcome.needs_operator = true;
        if (strncmp(error->sqlstate, "28", 2) == 0 || strcmp(error->sqlstate, "42501") == 0)
                outcome.fault = OUTCOME_FAULT_AUTH;
        return outcome;
}

struct postgres_verdict postgres_error_judge(const struct postgres_error *error)
{
        enum meaning meaning = meaning_of(error->sqlstate);
        struct postgres_verdict verdict = {0};

        if (meaning == STALE && error->context != NULL)
                meaning = FAULT;
        switch (meaning) {
        case REJECTED:
                verdict.outcome = make(OUTCOME_REJECTED, error);
                verdict.outcome.fault = OUTCOME_FAULT_EVENT;
                verdict.is_of_event = true;
                break;
        case LATER:
                verdict.outcome = postpone(error);
                verdict.is_of_event = true;
                break;
        case CONFLICT:
                verdict.outcome = make(OUTCOME_RETRY, error);
                break;
        case TIMED_OUT:
                verdict.outcome = make(OUTCOME_RETRY, error);
                verdict.outcome.fault = OUTCOME_FAULT_TIMEOUT;
                verdict.is_of_event = true;
                break;
        case DOWN:
        case STANDBY:
        case STALE:
                verdict.outcome = make(OUTCOME_SINK_DOWN, error);
                verdict.is_of_event = error->context != NULL;
                verdict.ends_session = meaning != DOWN && error->context == NULL;
                break;
        case OPERATOR:
                verdict.outcome = for_operator(error);
                verdict.is_of_event = error->context != NULL;
                break;
        case FAULT:
                verdict.outcome = make(OUTCOME_RETRY, error);
                verdict.is_of_event = true;
                break;
        }
        return verdict;
}
