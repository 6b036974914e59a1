/* `pgcourier schedule add`: the words of the command line become the arguments of
 * courier.schedule(), which checks them. */
#include "cli/schedule/schedule_add.h"

#include "cli/connect.h"
#include "operator/schedule_rows.h"

#include <stdio.h>

enum {
        TOPIC,
        EVERY,
        AT,
        CRON,
        PAYLOAD,
        TIME_ZONE,
        DAYS,
        STARTING,
        UNTIL,
        TIMES,
        JITTER,
        MISSED,
        OVERLAP,
        KEY,
        TYPE,
        N_OPTIONS
};

static const struct command_option options[] = {
    [TOPIC] = {"topic", 0, "TOPIC", false, "of its events; required"},
    [EVERY] = {"every", 0, "INTERVAL", false, "tick so often: '90 seconds', '1 month'"},
    [AT] = {"at", 0, "TIME", false, "tick at this time of day: 06:30"},
    [CRON] = {"cron", 0, "LINE", false,
        "tick by a line of cron: '*/15 9-17 * * mon-fri',\n@daily; also L, friL and fri#2"},
    [PAYLOAD] = {"payload", 0, "JSON", false,
        "of its events; {{scheduled_for}} and {{tick}} in its\nstrings are filled in; default: {}"},
    [TIME_ZONE] = {"time-zone", 0, "NAME", false, "Europe/Berlin; default: UTC"},
    [DAYS] = {"days", 0, "A,B", false, "with --at: only on these days: mon,fri"},
    [STARTING] = {"starting", 0, "TIME", false, "no tick before; default: now"},
    [UNTIL] = {"until", 0, "TIME", false, "no tick after"},
    [TIMES] = {"times", 0, "N", false, "end after so many events"},
    [JITTER] = {"jitter", 0, "INTERVAL", false,
        "each event comes later than its tick, by less than\nthis"},
    [MISSED] = {"missed", 0, "one|all", false,
        "after a stop: one event for all the ticks that were\nmissed, or all; default: one"},
    [OVERLAP] = {"overlap", 0, "allow|skip|queue", false,
        "while the last event is not delivered: publish the\nnext tick all the same, leave it out, "
        "or let it wait;\ndefault: allow"},
    [KEY] = {"key", 0, "KEY", false, "of its events"},
    [TYPE] = {"type", 0, "TYPE", false, "of its events"},
    {0},
};

static const enum schedule_field fields[N_OPTIONS] = {
    [TOPIC] = SCHEDULE_FIELD_TOPIC,
    [EVERY] = SCHEDULE_FIELD_EVERY,
    [AT] = SCHEDULE_FIELD_AT,
    [CRON] = SCHEDULE_FIELD_CRON,
    [PAYLOAD] = SCHEDULE_FIELD_PAYLOAD,
    [TIME_ZONE] = SCHEDULE_FIELD_TIME_ZONE,
    [DAYS] = SCHEDULE_FIELD_DAYS,
    [STARTING] = SCHEDULE_FIELD_STARTING,
    [UNTIL] = SCHEDULE_FIELD_UNTIL,
    [TIMES] = SCHEDULE_FIELD_TIMES,
    [JITTER] = SCHEDULE_FIELD_JITTER,
    [MISSED] = SCHEDULE_FIELD_MISSED,
    [OVERLAP] = SCHEDULE_FIELD_OVERLAP,
    [KEY] = SCHEDULE_FIELD_KEY,
    [TYPE] = SCHEDULE_FIELD_TYPE,
};

static bool run_add(const struct arguments *arguments, struct error *error)
{
        const char *values[SCHEDULE_N_FIELDS] = {
            [SCHEDULE_FIELD_NAME] = arguments->operands[0],
            [SCHEDULE_FIELD_PAYLOAD] = "{}",
        };
        struct blocking_conn *conn;
        struct rows *rows;

        for (unsigned i = 0; i < N_OPTIONS; i++)
                if (arguments_has(arguments, i))
                        values[fields[i]] = arguments_value(arguments, i);
        if (values[SCHEDULE_FIELD_TOPIC] == NULL)
                return error_set(error, ERROR_USAGE, "schedule add needs --topic");
        conn = command_connect(arguments, error);
        rows = conn != NULL ? schedule_add(conn, values, error) : NULL;
        if (rows == NULL)
                return false;
        if (rows_text(rows, 0, 0) != NULL)
                printf("%s: next tick %s\n", arguments->operands[0], rows_text(rows, 0, 0));
        else
                printf("%s: has ended, there is no tick\n", arguments->operands[0]);
        rows_free(rows);
        return true;
}

const struct command schedule_add_command = {
    .name = "add",
    .usage = "NAME --topic TOPIC --every INTERVAL | --at TIME | --cron LINE [OPTION ...]",
    .options = options,
    .min_operands = 1,
    .max_operands = 1,
    .run = run_add,
};
