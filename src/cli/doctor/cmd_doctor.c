/*
 * `check` says what would keep `run` from working. `doctor` finds all that `check --connect` finds,
 * and beyond that what makes a running relay slow, silent or unsafe. Neither changes anything, and
 * a fault stops only the checks that depend on what is wrong.
 */
#include "cli/doctor/cmd_doctor.h"
#include "admin/status_document.h"
#include "base/alloc.h"
#include "base/bytes.h"
#include "base/clock.h"
#include "cli/admin_client.h"
#include "cli/commands.h"
#include "cli/connect.h"
#include "cli/doctor/report.h"
#include "cli/remedy.h"
#include "config/config.h"
#include "config/secret.h"
#include "operator/doctor_queries.h"
#include "operator/status_query.h"
#include "pg/array_literal.h"
#include "pg/dsn.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#define ANSWER_TIMEOUT_MS  30000
#define CONNECT_TIMEOUT_MS 10000
#define RELAY_TIMEOUT_MS   2000
#define MAX_SKEW_MS        1000

enum { CHECK_CONFIG, CHECK_CONNECT, CHECK_JSON };

static const struct command_option check_options[] = {
    [CHECK_CONFIG] = {"config", 'c', "FILE", false, "the configuration; required"},
    [CHECK_CONNECT] = {"connect", 0, NULL, false,
        "connect to PostgreSQL and to each sink as well;\nsends no event"},
    [CHECK_JSON] = {"json", 0, NULL, false, "print one JSON object"},
    {0},
};

static void check_configured_database(const struct config *config, struct report *report)
{
        struct blocking_conn *conn = check_connection(config, report);

        if (conn != NULL)
                check_database(conn, &config->postgres, config, report);
        blocking_conn_close(conn);
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
                        check_configured_database(config, report);
        } else {
                report_fail(report, error.kind, "config", "Correct postgres.dsn", "%s", error.text);
        }
        may_free = check_sinks(config, connects, report);
        if (may_free)
                config_free(config);
}

static bool run_check(const struct arguments *arguments, struct error *error)
{
        struct report *report;

        if (!arguments_has(arguments, CHECK_CONFIG))
                return error_set(
                    error, ERROR_USAGE, "check needs a configuration: pgcourier check -c FILE");
        report = report_create(arguments_has(arguments, CHECK_JSON));
        check_config(arguments_value(arguments, CHECK_CONFIG),
            arguments_has(arguments, CHECK_CONNECT), report);
        return report_finish(report, error);
}

const struct command check_command = {
    .name = "check",
    .summary = "check the configuration, and what it names",
    .usage = "-c FILE [--connect] [--json]",
    .details =
        "Checks the file alone; with --connect also what would keep `run` from working:\n"
        "PostgreSQL's version, the schema, the role's rights, the doorbell, and whether each\n"
        "sink can be reached. Prints a line for each finding: ok, warn or fail. The first\n"
        "failure decides on the exit code.\n",
    .options = check_options,
    .run = run_check,
};

enum { DSN, CONFIG, JSON };

static const struct command_option doctor_options[] = {
    [DSN] = {"dsn", 0, "DSN", false, "only the database: postgresql://… or host=…"},
    [CONFIG] = {"config", 'c', "FILE", false, "the relay's configuration, with all that it names"},
    [JSON] = {"json", 0, NULL, false, "print one JSON object"},
    {0},
};

static void report_row(struct report *report, const char *name, const struct rows *rows, int row)
{
        const char *level = rows_text(rows, row, HEALTH_LEVEL);
        const char *text = rows_text(rows, row, HEALTH_TEXT);
        const char *remedy = rows_text(rows, row, HEALTH_REMEDY);

        if (strcmp(level, "fail") == 0)
                report_fail(report, ERROR_DATABASE, name, remedy, "%s", text);
        else if (strcmp(level, "warn") == 0)
                report_warn(report, name, remedy, "%s", text);
        else
                report_ok(report, name, "%s", text);
}

/* A question that this role may not ask is no failure of the relay's. */
static void ask_all(struct blocking_conn *conn, const struct health_check *checks,
    const char *sinks, struct report *report)
{
        for (; checks->name != NULL; checks++) {
                struct error error;
                struct rows *rows = health_ask(conn, checks, sinks, &error);

                if (rows == NULL)
                        report_warn(report, checks->name,
                            "Ask as a member of courier_relay, or as the owner", "%s", error.text);
                for (int i = 0; rows != NULL && i < rows_count(rows); i++)
                        report_row(report, checks->name, rows, i);
                rows_free(rows);
        }
}

/* Half of the round trip is a fair guess of when the server looked. */
static void check_clock(struct blocking_conn *conn, struct report *report)
{
        struct error error;
        int64_t before_us = clock_wall_us();
        struct rows *rows = blocking_conn_query(conn,
            "SELECT (extract(epoch FROM pg_catalog.clock_timestamp()) * 1000)::bigint", NULL, 0,
            &error);
        int64_t middle_ms = (before_us + clock_wall_us()) / 2000;
        int64_t ahead_ms;

        if (rows == NULL) {
                report_warn(report, "clock", NULL, "%s", error.text);
                return;
        }
        ahead_ms = strtoll(rows_text(rows, 0, 0), NULL, 10) - middle_ms;
        rows_free(rows);
        if (llabs(ahead_ms) > MAX_SKEW_MS)
                report_warn(report, "clock",
                    "Synchronise both clocks by NTP (chrony, systemd-timesyncd)",
                    "the server's clock is %" PRId64
                    " ms %s ours: latencies and the times in signatures are wrong by as much",
                    (int64_t)llabs(ahead_ms), ahead_ms > 0 ? "ahead of" : "behind");
        else
                report_ok(report, "clock", "the server's and ours differ by %" PRId64 " ms",
                    (int64_t)llabs(ahead_ms));
}

/* Of these the checks above say more: they see other databases, the configuration, and whether a
 * tap compiles. */
static bool is_said_above(const char *kind)
{
        static const char *const kinds[] = {"queue", "xmin", "sequence", "settings", NULL};
        size_t i = 0;

        while (kinds[i] != NULL && strcmp(kinds[i], kind) != 0)
                i++;
        return kinds[i] != NULL || strncmp(kind, "tap_", strlen("tap_")) == 0;
}

static const char *member_of(const json_t *finding, const char *name)
{
        const char *text = json_string_value(json_object_get(finding, name));

        return text != NULL ? text : "";
}

/* In the words of `status` and the page. A sink that stands still keeps no relay from its work,
 * and none may be meant to run: that is a warning. */
static void report_finding(struct report *report, const char *kind, const json_t *finding)
{
        const char *why = member_of(finding, "why");
        const char *command = member_of(finding, "command");
        const bool is_failure = strcmp(member_of(finding, "level"), "error") == 0 &&
                                *member_of(finding, "sink") == '\0';
        struct bytes text = {0}, remedy = {0};

        bytes_printf(&text, "%s%s%s", member_of(finding, "title"), *why != '\0' ? ". " : "", why);
        bytes_append_text(&remedy, member_of(finding, "remedy"));
        if (*command != '\0' &&
            strncmp(command, "pgcourier doctor", strlen("pgcourier doctor")) != 0)
                bytes_printf(&remedy, "%s`%s`", remedy.length > 0 ? " " : "", command);
        if (is_failure)
                report_fail(report, ERROR_DATABASE, kind, remedy.data, "%s", text.data);
        else
                report_warn(report, kind, remedy.data, "%s", text.data);
        bytes_deinit(&remedy);
        bytes_deinit(&text);
}

static void report_findings(struct report *report, const json_t *status)
{
        const json_t *finding;
        bool is_any = false;
        size_t i;

        json_array_foreach(json_object_get(status, "attention"), i, finding)
        {
                const char *id = member_of(finding, "id");
                char *kind = xstrndup(id, strcspn(id, ":"));

                if (!is_said_above(kind)) {
                        report_finding(report, kind, finding);
                        is_any = true;
                }
                free(kind);
        }
        if (!is_any)
                report_ok(report, "sinks", "%zu, nothing needs attention",
                    json_array_size(json_object_get(status, "sinks")));
}

/* What the database says of the sinks, as `status` and the page show it while no relay answers.
 * Leaves the session with settings of its own. */
static void check_status(
    struct blocking_conn *conn, const struct config *config, struct report *report)
{
        struct error error = {0};
        int64_t began_us = clock_monotonic_us();
        json_t *found = NULL;
        json_t *status;

        if (blocking_conn_run(conn, look_session_sql, &error))
                found = status_query_ask(conn, config, &error);
        if (found == NULL) {
                report_warn(report, "status",
                    "Deliveries do not depend on it. If it timed out: VACUUM (ANALYZE) the tables "
                    "of courier that the finding `tables` names, or end the sessions that lock "
                    "them. If permission was denied: ask as a member of courier_relay",
                    "the query for `status` and the page failed: %s", error.text);
                return;
        }
        report_ok(report, "status", "the query for `status` and the page took %" PRId64 " ms",
            (clock_monotonic_us() - began_us) / 1000);
        status = status_document(&(struct status_basis){.found = found,
            .config = config,
            .config_file = config != NULL ? remedy_config() : NULL});
        report_findings(report, status);
        json_decref(status);
        json_decref(found);
}

static void examine_database(struct blocking_conn *conn, const struct postgres_config *postgres,
    const struct config *config, struct report *report)
{
        struct array_literal sinks = {0};
        bool is_known = check_database(conn, postgres, config, report);

        doctor_check_session_certificate(conn, report);
        check_clock(conn, report);
        ask_all(conn, health_server_checks, NULL, report);
        for (unsigned i = 0; config != NULL && i < config->n_sinks; i++)
                array_add_text(&sinks, config->sinks[i].name);
        if (is_known) {
                ask_all(
                    conn, health_schema_checks, config != NULL ? array_end(&sinks) : NULL, report);
                check_status(conn, config, report);
        }
        array_deinit(&sinks);
}

/* What is wrong is in its words, and mostly here as well; its connection is its own. */
static void report_relay_down(
    const json_t *status, const json_t *source, bool is_reachable, struct report *report)
{
        const json_t *sequence = json_object_get(source, "sequence");
        const char *error = json_string_value(json_object_get(source, "error"));
        const char *remedy = json_string_value(json_object_get(sequence, "remedy"));
        const bool has_no_way = json_is_string(json_object_get(source, "login_refused_since")) ||
                                (error != NULL && strstr(error, "cannot connect") != NULL);

        if (remedy == NULL && is_reachable && has_no_way)
                remedy = "Compare what it reads (its own user, host and environment) with what "
                         "this command reads, and reload it: `pgcourier reload`";
        report_fail(report, ERROR_DATABASE, "relay", remedy,
            "the relay %s is not connected to PostgreSQL%s: %s",
            json_string_value(json_object_get(status, "instance")),
            is_reachable && has_no_way ? ", but this command is" : "",
            error != NULL ? error : "it has not been yet");
}

/* Another process, with what it read from the files when it did, and where it runs. */
static void check_relay(const struct config *config, bool is_reachable, struct report *report)
{
        struct error error;
        struct admin_client *client = admin_client_create(config->admin, &error);
        struct bytes body = {0};
        json_t *status = NULL;
        const json_t *source;
        long code;

        /* A relay that does not answer is no failure: none may be meant to run. */
        if (client != NULL &&
            admin_client_ask(client, "/api/status", NULL, RELAY_TIMEOUT_MS, &code, &body, &error) &&
            code == 200)
                status = json_loadb(body.data, body.length, JSON_ALLOW_NUL, NULL);
        source = json_object_get(status, "source");
        if (json_is_false(json_object_get(source, "up")))
                report_relay_down(status, source, is_reachable, report);
        else if (source != NULL)
                report_ok(report, "relay", "%s runs and is connected",
                    json_string_value(json_object_get(status, "instance")));
        json_decref(status);
        bytes_deinit(&body);
        admin_client_close(client);
}

static void examine_config(const char *path, struct report *report)
{
        struct error error = {0};
        struct blocking_conn *conn = NULL;
        struct config *config;

        doctor_watch_secrets();
        config = config_load(path, &error);
        if (config == NULL) {
                report_fail(report, error.kind, "config",
                    "Correct the file or its path, then ask again", "%s", error.text);
                return;
        }
        doctor_check_host(path, config, report);
        if (dsn_check(config->postgres.dsn, &error)) {
                report_ok(report, "config", "%s is valid", path);
                conn = check_connection(config, report);
        } else {
                report_fail(report, error.kind, "config", "Correct postgres.dsn", "%s", error.text);
        }
        if (config->admin != NULL)
                check_relay(config, conn != NULL, report);
        if (conn != NULL)
                examine_database(conn, &config->postgres, config, report);
        blocking_conn_close(conn);
        doctor_check_certificates(config, report);
        if (check_sinks(config, true, report))
                config_free(config);
}

/* `dsn` NULL: what the environment says. */
static void examine_dsn(const char *dsn, struct report *report)
{
        char *own_dsn = dsn != NULL ? xstrdup(dsn) : NULL;
        const struct postgres_config postgres = {.dsn = own_dsn,
            .connect_timeout_ms = CONNECT_TIMEOUT_MS,
            .query_timeout_ms = ANSWER_TIMEOUT_MS};
        struct error cause;
        struct blocking_conn *conn = connect_for_command(dsn, NULL, ANSWER_TIMEOUT_MS, &cause);

        if (conn != NULL)
                examine_database(conn, &postgres, NULL, report);
        else
                report_unreachable(report, &cause);
        blocking_conn_close(conn);
        secret_free(own_dsn);
}

static bool run_doctor(const struct arguments *arguments, struct error *error)
{
        const char *path = arguments_value(arguments, CONFIG);
        const char *dsn = arguments_value(arguments, DSN);
        struct report *report;
        bool ok;

        if (path != NULL && dsn != NULL)
                return error_set(
                    error, ERROR_USAGE, "--dsn and --config both name a database: give one");
        report = report_create(arguments_has(arguments, JSON));
        if (path != NULL)
                examine_config(path, report);
        else
                examine_dsn(dsn, report);
        ok = report_finish(report, error);
        if (!ok)
                error->kind = ERROR_SYSTEM; /* many things are looked at: one code for all */
        return ok;
}

const struct command doctor_command = {
    .name = "doctor",
    .summary = "find what makes deliveries slow, silent or unsafe",
    .usage = "[-c FILE | --dsn DSN] [--json]",
    .details =
        "Everything that `check --connect` looks at, and beyond that: the server's release and\n"
        "settings, rights that the role does not need, the notification queue and the oldest\n"
        "snapshot with who holds them, sessions idle in a transaction, clocks, certificates and\n"
        "when they end, sinks without a relay and cursors without a sink, dead letters, parked\n"
        "deliveries, pauses, receivers, taps, dead rows, files that others may read. Each finding\n"
        "that is not ok has its remedy below it, an exact command where there is one. Nothing is\n"
        "changed, and no event is sent.\n"
        "\n"
        "Ends with 1 if anything is a `fail`. With --dsn, or the environment (PGHOST …), only the\n"
        "database is looked at. What other users' sessions do is visible to members of\n"
        "pg_read_all_stats only.\n",
    .options = doctor_options,
    .run = run_doctor,
};
