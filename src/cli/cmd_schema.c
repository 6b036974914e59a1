/* The schema: made and brought up to date, fitted to another cluster, and its partitions and dedup
 * keys maintained. */
#include "cli/commands.h"
#include "cli/connect.h"
#include "config/units.h"
#include "operator/maintenance.h"
#include "operator/rebase.h"
#include "outbox/schema.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { INBOX, PRINT };

#define OPTION_INBOX                                                                               \
        {                                                                                          \
                "inbox", 0, NULL, false, "schema courier_inbox, in a consumer's database, instead" \
        }

static const struct command_option status_options[] = {
    [INBOX] = OPTION_INBOX,
    {0},
};

static const struct command_option migrate_options[] = {
    [INBOX] = OPTION_INBOX,
    [PRINT] = {"print", 0, NULL, false,
        "print the SQL of all migrations, for another\ntool; does not connect"},
    {0},
};

static const struct schema *chosen_schema(const struct arguments *arguments)
{
        return arguments_has(arguments, INBOX) ? &inbox_schema : &outbox_schema;
}

static void print_migrations(const struct schema *schema)
{
        for (const struct migration *at = schema->migrations; at->version != 0; at++)
                fputs(at->sql, stdout);
}

static bool apply_missing(const struct schema *schema, struct blocking_conn *conn,
    const struct schema_status *status, struct error *error)
{
        const int known = schema_known_version(schema);
        bool applied_one = false;

        for (const struct migration *at = schema->migrations; at->version != 0; at++) {
                bool applied;
                if (schema_status_has(status, at->version))
                        continue;
                if (!schema_apply(schema, conn, at, &applied, error))
                        return false;
                if (applied)
                        printf("applied %04d_%s\n", at->version, at->name);
                else
                        printf("%04d_%s was applied by another session meanwhile\n", at->version,
                            at->name);
                applied_one = true;
        }
        if (!applied_one)
                puts("nothing to do");
        printf("schema %s is at version %d\n", schema->name,
            status->version.number > known ? status->version.number : known);
        return true;
}

/* The missing migrations, then the applied ones, including those that this program does not
 * know. */
static void print_status(const struct schema *schema, const struct schema_status *status)
{
        for (const struct migration *at = schema->migrations; at->version != 0; at++)
                if (!schema_status_has(status, at->version))
                        printf("%04d_%s missing\n", at->version, at->name);
        for (size_t i = 0; i < status->n_applied; i++) {
                const struct applied_migration *applied = &status->applied[i];
                printf("%04d_%s applied %s%s\n", applied->version, applied->name,
                    applied->applied_at,
                    applied->version > schema_known_version(schema) ? " (unknown to this pgcourier)"
                                                                    : "");
        }
        printf("schema version %d, this pgcourier knows %d\n", status->version.number,
            schema_known_version(schema));
}

static bool run_status(const struct arguments *arguments, struct error *error)
{
        const struct schema *schema = chosen_schema(arguments);
        struct blocking_conn *conn = command_connect(arguments, error);
        struct schema_status status;
        bool ok;

        if (conn == NULL || !schema_read_status(schema, conn, &status, error))
                return false;
        print_status(schema, &status);
        ok = schema_check(schema, conn, status.version, error);
        schema_status_deinit(&status);
        return ok;
}

static bool run_migrate(const struct arguments *arguments, struct error *error)
{
        const struct schema *schema = chosen_schema(arguments);
        struct blocking_conn *conn;
        struct schema_status status;
        bool ok;

        if (arguments_has(arguments, PRINT)) {
                if (arguments->dsn != NULL || arguments->config_path != NULL)
                        return error_set(error, ERROR_USAGE,
                            "migrate: --print does not connect, so it takes neither --dsn nor -c");
                print_migrations(schema);
                return true;
        }
        conn = command_connect(arguments, error);
        if (conn == NULL || !schema_read_status(schema, conn, &status, error))
                return false;
        ok = (status.version.number <= schema_known_version(schema) ||
                 schema_check(schema, conn, status.version, error)) &&
             apply_missing(schema, conn, &status, error);
        schema_status_deinit(&status);
        return ok;
}

static const struct command migrate_status_command = {
    .name = "status",
    .usage = "[--dsn DSN | -c FILE] [--inbox]",
    .options = status_options,
    .run = run_status,
};

const struct command migrate_command = {
    .name = "migrate",
    .summary = "make or update schema courier, or courier_inbox, in a database",
    .usage = "[--dsn DSN | -c FILE] [--inbox] [--print]",
    .details =
        "Applies the migrations that are missing, each in a transaction of its own, and says so.\n"
        "It can be run at any time, also by several at once. With neither --dsn nor -c the\n"
        "environment names the database (PGHOST, PGUSER, PGDATABASE …).\n"
        "\n"
        "`migrate status` changes nothing: it lists the migrations and ends with 6 unless this\n"
        "pgcourier can use the schema: it is of the same version, or of a later version that "
        "serves\n"
        "this one as well.\n"
        "\n"
        "--inbox: schema courier_inbox, with which consumers recognise events that come again\n"
        "(docs/inbox.md). It belongs into their database, and needs no schema courier there.\n",
    .options = migrate_options,
    .run = run_migrate,
    .subcommands = (const struct command *const[]){&migrate_status_command, NULL},
    .database = DATABASE,
};

static bool run_rebase(const struct arguments *arguments, struct error *error)
{
        struct blocking_conn *conn = command_connect(arguments, error);
        struct rebase_result result;

        if (conn == NULL || !rebase(conn, &result, error))
                return false;
        puts(result.was_rewritten
                 ? "the transaction ids of the outbox and its cursors were written anew"
                 : "this cluster is past all transaction ids of the outbox: they stay as they are");
        for (int i = 0; i < result.n_lanes; i++)
                printf("%s: events of all topics not yet passed: %lld\n", result.lanes[i].sink,
                    result.lanes[i].n_waiting);
        if (result.n_lanes == 0)
                puts("there are no cursors; the events belong to this cluster now");
        rebase_result_deinit(&result);
        return true;
}

const struct command rebase_command = {
    .name = "rebase",
    .summary = "correct the cursors after a restore to another cluster, or pg_upgrade",
    .usage = "[--dsn DSN | -c FILE]",
    .details =
        "Cursors hold transaction ids. In another cluster, to which a dump was restored or\n"
        "pg_upgrade has led, they may mean other transactions, and the relay refuses to run. With\n"
        "this command every sink goes on exactly where it stood: after pg_upgrade, or when the\n"
        "dump was made. It also corrects the sequence of ids if it was set back.\n"
        "\n"
        "Stop all relays first. It needs the owner of schema courier. If the cluster is past all\n"
        "ids that the outbox and its cursors name, as after pg_upgrade, they stay. Otherwise it\n"
        "rewrites the whole outbox in one transaction and keeps publishers waiting meanwhile.\n",
    .run = run_rebase,
    .database = DATABASE,
};

enum { RETENTION, RETENTION_MAX, DEDUP_RETENTION, TYPES };

static const struct command_option maintain_options[] = {
    [RETENTION] = {"retention", 0, "TIME", false,
        "keep events this long; default: outbox.retention of the\nconfiguration, or 7d"},
    [RETENTION_MAX] = {"retention-max", 0, "TIME", false,
        "drop events of this age even if a sink has not read\nthem (0: never); default: "
        "outbox.retention_max of the\nconfiguration, or 0"},
    [DEDUP_RETENTION] = {"dedup-retention", 0, "TIME", false,
        "a dedup key stands for its event for so long;\ndefault: outbox.dedup_retention of the\n"
        "configuration, or what the database has"},
    [TYPES] = {"types", 0, "RULE", false,
        "strict: publishing refuses types that are not in the\ncatalogue; any: it does not; "
        "default: outbox.types of\nthe configuration, or as the database has it"},
    {0},
};

static bool read_duration(
    const struct arguments *arguments, int option, int64_t *out_ms, struct error *error)
{
        const char *text = arguments_value(arguments, option);

        if (text == NULL || units_parse_duration(text, out_ms))
                return true;
        return error_set(error, ERROR_USAGE, "--%s: \"%.64s\" is not %s",
            maintain_options[option].name, text, UNITS_DURATION);
}

static bool read_types_rule(
    const struct arguments *arguments, enum types_rule *out_rule, struct error *error)
{
        const char *text = arguments_value(arguments, TYPES);

        if (text == NULL)
                return true;
        *out_rule = strcmp(text, "strict") == 0 ? TYPES_STRICT : TYPES_ANY;
        return *out_rule == TYPES_STRICT || strcmp(text, "any") == 0 ||
               error_set(error, ERROR_USAGE, "--types: \"%.64s\" is neither any nor strict", text);
}

static bool read_settings(
    const struct arguments *arguments, struct outbox_config *settings, struct error *error)
{
        const char *path = arguments->config_path;
        struct config *config;

        *settings = (struct outbox_config){
            .retention_ms = INT64_C(7) * 24 * 60 * 60 * 1000, .types = TYPES_AS_BEFORE};
        if (path != NULL) {
                config = config_load(path, error);
                if (config == NULL)
                        return false;
                *settings = config->outbox;
                config_free(config);
        }
        if (!read_duration(arguments, RETENTION, &settings->retention_ms, error) ||
            !read_duration(arguments, RETENTION_MAX, &settings->retention_max_ms, error) ||
            !read_duration(arguments, DEDUP_RETENTION, &settings->dedup_retention_ms, error) ||
            !read_types_rule(arguments, &settings->types, error))
                return false;
        if (arguments_has(arguments, DEDUP_RETENTION) && settings->dedup_retention_ms < 60000)
                return error_set(error, ERROR_USAGE,
                    "--dedup-retention: \"%.64s\" is shorter than 1m, the least that is allowed",
                    arguments_value(arguments, DEDUP_RETENTION));
        if (settings->retention_max_ms != 0 && settings->retention_max_ms < settings->retention_ms)
                return error_set(error, ERROR_USAGE,
                    "retention-max is shorter than retention: allowed: 0, retention or longer");
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
                puts("cannot make or drop partitions while the outbox is in use: try again");
        else
                printf("%s holds events whose ids were not drawn in order: it stays as it is\n",
                    partition);
}

/* Prints what was done about it, if anything was. */
static bool check_types(struct blocking_conn *conn, const struct outbox_config *settings,
    bool *out_did, struct error *error)
{
        const char *answer;
        struct rows *rows;

        *out_did = false;
        if (settings->types == TYPES_AS_BEFORE)
                return true;
        rows = maintenance_check_types_now(conn, settings, error);
        if (rows == NULL)
                return false;
        answer = rows_text(rows, 0, 0);
        *out_did = answer != NULL;
        if (*out_did && strcmp(answer, "waits") == 0)
                puts("cannot change the rule of types while the outbox is in use: try again");
        else if (*out_did)
                printf("publishing %s types that are not in the catalogue\n",
                    settings->types == TYPES_STRICT ? "refuses" : "takes");
        rows_free(rows);
        return true;
}

static bool run_maintain(const struct arguments *arguments, struct error *error)
{
        struct outbox_config settings;
        struct blocking_conn *conn;
        struct rows *rows;
        int64_t n_keys;
        bool did, ok;

        if (!read_settings(arguments, &settings, error))
                return false;
        conn = command_connect(arguments, error);
        rows = conn != NULL ? maintenance_run_now(conn, &settings, error) : NULL;
        if (rows == NULL)
                return false;
        for (int row = 0; row < rows_count(rows); row++)
                print_row(rows, row);
        ok = maintenance_forget_keys_now(conn, &settings, &n_keys, error);
        if (ok && n_keys > 0)
                printf("removed expired dedup keys: %" PRId64 "\n", n_keys);
        ok = ok && check_types(conn, &settings, &did, error);
        if (ok && n_keys == 0 && !did && rows_count(rows) == 0)
                puts("nothing to do");
        rows_free(rows);
        return ok;
}

const struct command maintain_command = {
    .name = "maintain",
    .summary = "make partitions of the outbox and drop old ones",
    .usage = "[--dsn DSN | -c FILE] [--retention TIME] [--retention-max TIME]\n"
             "       [--dedup-retention TIME] [--types RULE]",
    .details =
        "Does once what a running relay does every half minute: partitions of courier.outbox are\n"
        "made ahead, and those are dropped that are older than the retention and that no sink\n"
        "needs any more. Expired dedup keys are removed, some thousands in each transaction.\n"
        "Publishing is made to check types, or not. For databases in which no relay runs; safe\n"
        "beside one that does.\n"
        "\n"
        "Run by cron without any relay, it keeps events that no sink has had, unless\n"
        "--retention-max is given.\n",
    .options = maintain_options,
    .run = run_maintain,
    .database = DATABASE_AND_SETTINGS,
};
