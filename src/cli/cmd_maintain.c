#include "cli/commands.h"
#include "cli/connect.h"
#include "config/units.h"
#include "operator/maintenance.h"

#include <stdio.h>
#include <string.h>

enum { RETENTION, RETENTION_MAX };

static const struct command_option options[] = {
    [RETENTION] = {"retention", 0, "TIME", false,
        "keep events for so long (7d); else as\noutbox.retention of the configuration"},
    [RETENTION_MAX] = {"retention-max", 0, "TIME", false,
        "drop events after so long, even if a sink has\nnot had them (0: never); else as\n"
        "outbox.retention_max of the configuration"},
    {0},
};

static bool read_duration(
    const struct arguments *arguments, int option, int64_t *out_ms, struct error *error)
{
        const char *text = arguments_value(arguments, option);

        if (text == NULL || units_parse_duration(text, out_ms))
                return true;
        return error_set(error, ERROR_USAGE, "--%s: \"%.64s\" is not %s", options[option].name,
            text, UNITS_DURATION);
}

static bool read_settings(
    const struct arguments *arguments, struct outbox_config *settings, struct error *error)
{
        const char *path = arguments->config_path;
        struct config *config;

        *settings = (struct outbox_config){.retention_ms = INT64_C(7) * 24 * 60 * 60 * 1000};
        if (path != NULL) {
                config = config_load(path, error);
                if (config == NULL)
                        return false;
                *settings = config->outbox;
                config_free(config);
        }
        if (!read_duration(arguments, RETENTION, &settings->retention_ms, error) ||
            !read_duration(arguments, RETENTION_MAX, &settings->retention_max_ms, error))
                return false;
        if (settings->retention_max_ms != 0 && settings->retention_max_ms < settings->retention_ms)
                return error_set(error, ERROR_USAGE,
                    "retention-max is shorter than retention: allowed is that or longer, or 0");
        return true;
}

static void print_row(const struct rows *rows, int row)
{
        const char *action = rows_text(rows, row, MAINTENANCE_ACTION);
        const char *partition = rows_text(rows, row, MAINTENANCE_PARTITION);
        const char *bytes = rows_text(rows, row, MAINTENANCE_BYTES);

        if (strcmp(action, "made") == 0)
                printf("made %s\n", partition);
        else if (strcmp(action, "dropped") == 0 || strcmp(action, "emptied") == 0)
                printf("%s %s: %s bytes\n", action, partition, bytes);
        else if (strcmp(action, "held") == 0)
                printf("%s has expired, but is needed by: %s\n", partition,
                    rows_text(rows, row, MAINTENANCE_HELD_BY));
        else if (strcmp(action, "lost") == 0)
                printf("LOST for %s: %s events of %s\n", rows_text(rows, row, MAINTENANCE_SINK),
                    rows_text(rows, row, MAINTENANCE_EVENTS), partition);
        else if (strcmp(action, "waits") == 0)
                puts("partitions are to be made or dropped, but the outbox is in use: try again");
        else
                printf("%s holds events whose ids were not drawn in order: it stays as it is\n",
                    partition);
}

static bool run_maintain(const struct arguments *arguments, struct error *error)
{
        struct outbox_config settings;
        struct blocking_conn *conn;
        struct rows *rows;

        if (!read_settings(arguments, &settings, error))
                return false;
        conn = command_connect(arguments, error);
        rows = conn != NULL ? maintenance_run_now(conn, &settings, error) : NULL;
        if (rows == NULL)
                return false;
        for (int row = 0; row < rows_count(rows); row++)
                print_row(rows, row);
        if (rows_count(rows) == 0)
                puts("nothing to do");
        rows_free(rows);
        return true;
}

const struct command maintain_command = {
    .name = "maintain",
    .summary = "make partitions of the outbox and drop old ones",
    .usage = "[--dsn DSN | -c FILE] [--retention TIME] [--retention-max TIME]",
    .details =
        "Does once what a running relay does every half minute: partitions of courier.outbox are\n"
        "made ahead, and those are dropped that are older than the retention and that no sink\n"
        "needs any more. For databases in which no relay runs; safe beside one that does.\n"
        "\n"
        "Run by cron without any relay, it keeps events that no sink has had, unless\n"
        "--retention-max is given.\n",
    .options = options,
    .run = run_maintain,
    .database = DATABASE_AND_SETTINGS,
};
