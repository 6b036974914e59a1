/* `pgcourier check --connect` and `doctor`: whether PostgreSQL is as the relay needs it. */
#include "base/alloc.h"
#include "base/bytes.h"
#include "cli/doctor/report.h"
#include "config/config.h"
#include "operator/doctor_queries.h"
#include "outbox/schema.h"
#include "outbox/sink_settings.h"
#include "pg/blocking_conn.h"
#include "pg/pg_error.h"
#include "pg/pooling.h"

#include <stdlib.h>
#include <string.h>

#define OLDEST_SERVER 140000 /* 14 */

static void check_server(struct blocking_conn *conn, struct report *report)
{
        int version = blocking_conn_server_version(conn);

        if (version < OLDEST_SERVER)
                report_fail(report, ERROR_DATABASE, "postgres", "Use PostgreSQL 14 or newer",
                    "version %d.%d is too old (%s)", version / 10000, version % 10000,
                    blocking_conn_place(conn));
        else
                report_ok(report, "postgres", "version %d.%d (%s)", version / 10000,
                    version % 10000, blocking_conn_place(conn));
}

static void check_privacy(struct blocking_conn *conn, struct report *report)
{
        switch (blocking_conn_privacy(conn)) {
        case PRIVACY_LOCAL:
                break; /* nothing to encrypt */
        case PRIVACY_NONE:
                report_warn(report, "encryption", "Add sslmode=verify-full to the dsn",
                    "the connection is not encrypted: anyone on the network path can read it");
                break;
        case PRIVACY_ENCRYPTED:
                report_warn(report, "encryption",
                    "Add sslmode=verify-full to the dsn, and sslrootcert=FILE if the "
                    "certificate is from a private authority",
                    "the connection is encrypted, but the server's name is not verified");
                break;
        case PRIVACY_VERIFIED:
                report_ok(report, "encryption", "encrypted, the server's name is verified");
                break;
        }
}

/* Any query's failure that is not one of the things checked for. */
static void report_query(struct report *report, const char *what, const struct error *error)
{
        report_fail(report, error->kind, what, NULL, "%s", error->text);
}

static void check_pooling(const struct postgres_config *config, struct report *report)
{
        struct error error;

        if (pooling_check(config, &error))
                report_ok(report, "session",
                    "a connection pooler stands in between, in session mode: a session stays with "
                    "its server process");
        else
                report_fail(report, error.kind, "session", NULL, "%s", error.text);
}

static void check_encoding(struct blocking_conn *conn, struct report *report)
{
        struct error error;

        if (!schema_check_encoding(blocking_conn_encoding(conn), &error))
                report_query(report, "encoding", &error);
}

static void check_session(
    struct blocking_conn *conn, const struct postgres_config *config, struct report *report)
{
        struct error error;
        struct rows *rows = blocking_conn_query(conn,
            "SELECT pg_catalog.pg_backend_pid(), pg_catalog.pg_is_in_recovery()", NULL, 0, &error);

        if (rows == NULL) {
                report_query(report, "session", &error);
                return;
        }
        if (strtol(rows_text(rows, 0, 0), NULL, 10) != blocking_conn_backend_pid(conn))
                check_pooling(config, report);
        else
                report_ok(report, "session", "the connection is to the server itself");
        if (rows_bool(rows, 0, 1))
                report_fail(report, ERROR_DATABASE, "primary",
                    "Connect to the primary; with several hosts add "
                    "target_session_attrs=read-write to the dsn",
                    "this server is a standby: cursors cannot be written");
        rows_free(rows);
}

static void check_rights(struct blocking_conn *conn, struct report *report, const char *remedy)
{
        static const char sql[] =
            "SELECT what, granted FROM (VALUES"
            " ('SELECT on courier.outbox',"
            "  has_table_privilege('courier.outbox', 'SELECT')),"
            " ('SELECT on courier.outbox_id_seq',"
            "  has_sequence_privilege('courier.outbox_id_seq', 'SELECT')),"
            " ('SELECT on courier.cursor', has_table_privilege('courier.cursor', 'SELECT')),"
            " ('INSERT on courier.cursor', has_table_privilege('courier.cursor', 'INSERT')),"
            " ('UPDATE on courier.cursor', has_table_privilege('courier.cursor', 'UPDATE')),"
            " ('DELETE on courier.cursor', has_table_privilege('courier.cursor', 'DELETE')),"
            " ('SELECT on courier.receiver', has_table_privilege('courier.receiver', 'SELECT')),"
            " ('all on courier.parked', has_table_privilege('courier.parked',"
            "  'SELECT') AND has_table_privilege('courier.parked', 'INSERT')"
            "  AND has_table_privilege('courier.parked', 'UPDATE')"
            "  AND has_table_privilege('courier.parked', 'DELETE')),"
            " ('INSERT on courier.dead_letter',"
            "  has_table_privilege('courier.dead_letter', 'INSERT')),"
            " ('SELECT on courier.pause', has_table_privilege('courier.pause', 'SELECT')),"
            " ('INSERT on courier.pause', has_table_privilege('courier.pause', 'INSERT')),"
            " ('DELETE on courier.pause', has_table_privilege('courier.pause', 'DELETE')),"
            " ('all on courier.sink', has_table_privilege('courier.sink', 'SELECT')"
            "  AND has_table_privilege('courier.sink', 'INSERT')"
            "  AND has_table_privilege('courier.sink', 'UPDATE')"
            "  AND has_table_privilege('courier.sink', 'DELETE')),"
            " ('EXECUTE on courier.note_sink()', has_function_privilege("
            "  'courier.note_sink(text, boolean, jsonb, text[], text[])', 'EXECUTE')),"
            " ('all on courier.member', has_table_privilege('courier.member', 'SELECT')"
            "  AND has_table_privilege('courier.member', 'INSERT')"
            "  AND has_table_privilege('courier.member', 'UPDATE')"
            "  AND has_table_privilege('courier.member', 'DELETE')),"
            " ('EXECUTE on courier.agree_shards()', has_function_privilege("
            "  'courier.agree_shards(text, integer, boolean, boolean, text)', 'EXECUTE')),"
            " ('all on courier.unmarked', has_table_privilege('courier.unmarked', 'SELECT')"
            "  AND has_table_privilege('courier.unmarked', 'INSERT')"
            "  AND has_table_privilege('courier.unmarked', 'UPDATE')"
            "  AND has_table_privilege('courier.unmarked', 'DELETE')),"
            " ('EXECUTE on courier.mark()',"
            "  has_function_privilege('courier.mark(integer)', 'EXECUTE')),"
            " ('EXECUTE on courier.tick()', has_function_privilege('courier.tick()', 'EXECUTE')),"
            " ('EXECUTE on courier.true_filters()', has_function_privilege("
            "  'courier.true_filters(json, jsonpath[], bigint)', 'EXECUTE')),"
            " ('EXECUTE on pg_control_system()',"
            "  has_function_privilege('pg_catalog.pg_control_system()', 'EXECUTE'))"
            ") AS rights (what, granted) WHERE NOT granted";
        struct error error;
        struct rows *rows = blocking_conn_query(conn, sql, NULL, 0, &error);

        if (rows == NULL) {
                report_query(report, "rights", &error);
                return;
        }
        for (int i = 0; i < rows_count(rows); i++) {
                const char *what = rows_text(rows, i, 0);
                bool is_function = strstr(what, "pg_control_system") != NULL;
                report_fail(report, ERROR_PERMISSION, "rights",
                    is_function ? "GRANT EXECUTE ON FUNCTION pg_control_system() TO courier_relay"
                                : remedy,
                    "the role lacks %s", what);
        }
        if (rows_count(rows) == 0)
                report_ok(report, "rights", "%s may read events and move cursors",
                    blocking_conn_user(conn));
        rows_free(rows);
}

/* The same question as when a lane is claimed. */
static void check_cluster(struct blocking_conn *conn, struct report *report)
{
        struct error error;
        struct rows *rows = blocking_conn_query(conn,
            "SELECT EXISTS (SELECT FROM courier.cursor, pg_catalog.pg_control_system() AS here"
            " WHERE cursor.system_identifier <> here.system_identifier)"
            " OR EXISTS (SELECT FROM courier.outbox WHERE txid >="
            " pg_catalog.pg_snapshot_xmax(pg_catalog.pg_current_snapshot()))",
            NULL, 0, &error);

        if (rows == NULL) {
                report_query(report, "cluster", &error);
                return;
        }
        if (rows_bool(rows, 0, 0))
                report_fail(report, ERROR_SCHEMA, "cluster",
                    "Stop all relays and run: `pgcourier rebase`",
                    "the outbox and its cursors were written in another PostgreSQL cluster");
        else
                report_ok(report, "cluster", "the cursors were written in this cluster");
        rows_free(rows);
}

/* The same question as when a relay connects. */
static void check_sequence(struct blocking_conn *conn, struct report *report)
{
        struct error error;
        struct rows *rows = blocking_conn_query(conn,
            "SELECT trouble, remedy, last_id, maximum_value,"
            " maximum_value < 9223372036854775807"
            " FROM courier.outbox_sequence_trouble(courier.outbox_reached()),"
            " pg_catalog.pg_sequence_parameters('courier.outbox_id_seq'::regclass),"
            " coalesce(pg_catalog.pg_sequence_last_value('courier.outbox_id_seq'), 0) AS last_id",
            NULL, 0, &error);

        if (rows == NULL) {
                report_query(report, "sequence", &error);
                return;
        }
        if (rows_text(rows, 0, 0) != NULL)
                report_fail(report, ERROR_SCHEMA, "sequence", rows_text(rows, 0, 1), "%s",
                    rows_text(rows, 0, 0));
        else if (rows_bool(rows, 0, 4))
                report_warn(report, "sequence",
                    "ALTER SEQUENCE courier.outbox_id_seq AS bigint NO MAXVALUE",
                    "it is limited to %s, where publishing fails; it is at %s",
                    rows_text(rows, 0, 3), rows_text(rows, 0, 2));
        else
                report_ok(
                    report, "sequence", "gives each id once; it is at %s", rows_text(rows, 0, 2));
        rows_free(rows);
}

#define RING                                                                                       \
        "ALTER TABLE courier.outbox ALTER txid SET DEFAULT CASE "                                  \
        "WHEN pg_catalog.pg_try_advisory_xact_lock_shared(" LOCK_CLASS ", 0) "                     \
        "OR pg_catalog.current_setting('courier.has_rung', true) = 'yes' "                         \
        "THEN pg_catalog.pg_current_xact_id() ELSE courier.ring() END"

static void check_doorbell(
    struct blocking_conn *conn, const struct config *config, struct report *report)
{
        struct error error;
        struct rows *rows;

        if (config != NULL && config->relay.wakeup == WAKEUP_POLL) {
                report_ok(report, "doorbell", "not needed: wakeup is poll");
                return;
        }
        rows = blocking_conn_query(conn,
            "SELECT coalesce(words LIKE '%ring()%', false),"
            " coalesce(words LIKE '%lock_shared(" LOCK_CLASS ", 0)%', false)"
            " FROM (SELECT pg_catalog.pg_get_expr(adbin, adrelid) AS words"
            "  FROM pg_catalog.pg_attribute"
            "  LEFT JOIN pg_catalog.pg_attrdef ON adrelid = attrelid AND adnum = attnum"
            "  WHERE attrelid = 'courier.outbox'::pg_catalog.regclass AND attname = 'txid') AS it",
            NULL, 0, &error);
        if (rows == NULL) {
                report_query(report, "doorbell", &error);
                return;
        }
        if (!rows_bool(rows, 0, 0))
                report_warn(report, "doorbell", RING,
                    "the default of courier.outbox.txid does not ring: events wait for the sweep");
        else if (!rows_bool(rows, 0, 1))
                report_warn(report, "doorbell", RING,
                    "the default of courier.outbox.txid has no condition: every transaction "
                    "notifies");
        else
                report_ok(report, "doorbell", "publishing rings it");
        rows_free(rows);
}

static void check_schedules(struct blocking_conn *conn, struct report *report)
{
        struct error error;
        struct rows *rows = blocking_conn_query(conn,
            "SELECT name, last_error FROM courier.schedule WHERE last_error IS NOT NULL"
            " UNION ALL SELECT NULL, count(*)::text FROM courier.schedule ORDER BY name",
            NULL, 0, &error);
        int n_failing;

        if (rows == NULL) {
                report_query(report, "schedules", &error);
                return;
        }
        n_failing = rows_count(rows) - 1; /* the last row has no name, but their number */
        for (int i = 0; i < n_failing; i++) {
                struct bytes remedy = {0};
                bytes_append_text(&remedy,
                    "Correct it with courier.schedule(), or remove it: `pgcourier schedule remove");
                bytes_append_shell_word(&remedy, rows_text(rows, i, 0));
                bytes_append_text(&remedy, "`");
                report_warn(report, "schedules", remedy.data, "\"%s\" does not tick: %s",
                    rows_text(rows, i, 0), rows_text(rows, i, 1));
                bytes_deinit(&remedy);
        }
        if (n_failing == 0)
                report_ok(report, "schedules", "%s recurring event%s, no errors",
                    rows_text(rows, 0, 1), strcmp(rows_text(rows, 0, 1), "1") == 0 ? "" : "s");
        rows_free(rows);
}

/* Of a tap, as far as its type is a text and no column. */
#define UNKNOWN_TYPES                                                                              \
        "SELECT type, string_agg(DISTINCT made_by, ', ' ORDER BY made_by),"                        \
        " courier.are_types_strict()"                                                              \
        " FROM (SELECT type, 'schedule ' || name FROM courier.schedule"                            \
        "  UNION ALL SELECT op, 'tap ' || name FROM courier.attachment, unnest(ops) AS op"         \
        "   WHERE kind = 'capture' AND NOT expressions ? 'type'"                                   \
        "  UNION ALL SELECT replace(given[1], '''''', ''''), 'tap ' || name"                       \
        "   FROM courier.attachment, regexp_match(expressions ->> 'type',"                         \
        "    '^''((?:[^'']|'''')*)''$') AS given) AS made (type, made_by)"                         \
        " WHERE NOT starts_with(type, 'courier.')"                                                 \
        "  AND NOT EXISTS (SELECT FROM courier.event_type AS known WHERE known.name = type)"       \
        " GROUP BY type UNION ALL SELECT NULL, NULL, courier.are_types_strict() ORDER BY 1"

/* What publishing will refuse, before it does: the relay may not have made the rule yet. */
static void check_types(
    struct blocking_conn *conn, const struct config *config, struct report *report)
{
        struct error error;
        struct rows *rows = blocking_conn_query(conn, UNKNOWN_TYPES, NULL, 0, &error);
        int n_unknown;

        if (rows == NULL) {
                report_query(report, "types", &error);
                return;
        }
        n_unknown = rows_count(rows) - 1; /* the last row has no type */
        if (!rows_bool(rows, n_unknown, 2) &&
            (config == NULL || config->outbox.types != TYPES_STRICT))
                n_unknown = -1; /* nothing is refused */
        for (int i = 0; i < n_unknown; i++) {
                struct bytes remedy = {0};
                bytes_append_text(&remedy, "Add it to the catalogue: `pgcourier type set");
                bytes_append_shell_word(&remedy, rows_text(rows, i, 0));
                bytes_append_text(&remedy, "`");
                report_fail(report, ERROR_CONFIG, "types", remedy.data,
                    "outbox.types is strict, so publishing refuses the type \"%s\" of %s",
                    rows_text(rows, i, 0), rows_text(rows, i, 1));
                bytes_deinit(&remedy);
        }
        if (n_unknown == 0)
                report_ok(report, "types", "strict; the catalogue has those of schedules and taps");
        rows_free(rows);
}

/* False also if it is missing: that shows in the version. */
static bool may_not_use_schema(struct blocking_conn *conn)
{
        struct error ignored;
        struct rows *rows = blocking_conn_query(conn,
            "SELECT FROM pg_catalog.pg_namespace WHERE nspname = 'courier'"
            " AND NOT pg_catalog.has_schema_privilege(oid, 'USAGE')",
            NULL, 0, &ignored);
        bool may_not = rows != NULL && rows_count(rows) > 0;

        rows_free(rows);
        return may_not;
}

/* What only PostgreSQL can say about the configuration. */
static void check_filters(
    struct blocking_conn *conn, const struct config *config, struct report *report)
{
        for (unsigned i = 0; i < config->n_sinks; i++) {
                const struct sink_config *sink = &config->sinks[i];
                const struct parameter filter = {.value = sink->filter};
                struct error error;
                struct rows *rows;

                if (sink->filter == NULL)
                        continue;
                rows = blocking_conn_query(
                    conn, "SELECT courier.filter_error($1)", &filter, 1, &error);
                if (rows == NULL)
                        report_query(report, "filter", &error);
                else if (rows_text(rows, 0, 0) != NULL)
                        report_fail(report, ERROR_CONFIG, "filter",
                            "Correct the sink's filter; try it with: SELECT '{…}'::jsonb @@ '…'",
                            "sink %s: PostgreSQL does not accept it as a jsonpath predicate: %s",
                            sink->name, rows_text(rows, 0, 0));
                else
                        report_ok(report, "filter", "sink %s: is a jsonpath predicate", sink->name);
                rows_free(rows);
        }
}

/* Whether this relay would do what the one that delivers does: between two of them. */
static void check_settings(
    struct blocking_conn *conn, const struct config *config, struct report *report)
{
        struct error error;
        struct rows *rows = health_ask_settings(conn, &error);
        bool is_any = false, differs = false;

        if (rows == NULL) {
                report_fail(report, error.kind, "settings", NULL, "%s", error.text);
                return;
        }
        for (unsigned i = 0; i < config->n_sinks; i++) {
                const struct sink_config *sink = &config->sinks[i];
                for (int row = 0; row < rows_count(rows); row++) {
                        struct bytes words = {0};
                        char *ours;
                        if (strcmp(rows_text(rows, row, 0), sink->name) != 0)
                                continue;
                        ours = sink_settings(sink);
                        sink_settings_compare(&words, ours, rows_text(rows, row, 1));
                        if (words.data != NULL)
                                report_warn(report, "settings",
                                    "If the settings here are newer, reload that relay; otherwise "
                                    "correct this configuration before it is used",
                                    "the relay that delivers %s has other settings for it: %s",
                                    sink->name, words.data);
                        is_any = true;
                        differs |= words.data != NULL;
                        bytes_deinit(&words);
                        free(ours);
                }
        }
        if (is_any && !differs)
                report_ok(report, "settings", "the relays that deliver have the same settings");
        rows_free(rows);
}

static bool check_schema(struct blocking_conn *conn, struct report *report, const char *remedy)
{
        struct schema_status status;
        struct error error;

        if (may_not_use_schema(conn)) {
                report_fail(report, ERROR_PERMISSION, "rights", remedy,
                    "the role may not use schema courier");
                return false;
        }
        if (!schema_read_status(&outbox_schema, conn, &status, &error)) {
                report_fail(report, error.kind, "schema",
                    error.kind == ERROR_PERMISSION ? remedy : NULL, "%s", error.text);
                return false;
        }
        if (!schema_check(&outbox_schema, conn, status.version, &error)) {
                report_query(report, "schema", &error); /* it says what to do */
                schema_status_deinit(&status);
                return false;
        }
        report_ok(report, "schema", "version %d", status.version.number);
        schema_status_deinit(&status);
        return true;
}

void report_unreachable(struct report *report, const struct error *error)
{
        char *remedy = error->kind != ERROR_CONFIG ? connect_words_remedy(error) : NULL;

        report_fail(report, error->kind, "postgres", remedy, "%s", error->text);
        free(remedy);
}

struct blocking_conn *check_connection(const struct config *config, struct report *report)
{
        struct error error;
        struct blocking_conn *conn =
            blocking_conn_open(&(struct blocking_conn_settings){.dsn = config->postgres.dsn,
                                   .password = config->postgres.password,
                                   .connect_timeout_ms = config->postgres.connect_timeout_ms,
                                   .answer_timeout_ms = config->postgres.query_timeout_ms},
                &error);

        if (conn == NULL)
                report_unreachable(report, &error);
        return conn;
}

bool check_database(struct blocking_conn *conn, const struct postgres_config *postgres,
    const struct config *config, struct report *report)
{
        char *remedy = xasprintf("GRANT courier_relay TO \"%s\"", blocking_conn_user(conn));
        bool is_known;

        check_server(conn, report);
        check_privacy(conn, report);
        check_encoding(conn, report);
        check_session(conn, postgres, report);
        is_known = check_schema(conn, report, remedy);
        if (is_known) {
                check_rights(conn, report, remedy);
                check_cluster(conn, report);
                check_sequence(conn, report);
                check_doorbell(conn, config, report);
                check_schedules(conn, report);
                check_types(conn, config, report);
                if (config != NULL) {
                        check_filters(conn, config, report);
                        check_settings(conn, config, report);
                }
        }
        free(remedy);
        return is_known;
}
