/*
 * Publishes one event, for trials and for scripts. courier.publish() gets all
 * values as parameters and checks them; this file puts its refusals into the
 * words of the command line.
 */
#include "cli/cmd_publish.h"

#include "base/alloc.h"
#include "base/bytes.h"
#include "cli/commands.h"
#include "cli/connect.h"
#include "cli/input.h"
#include "outbox/schema.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PAYLOAD, DATA, KEY, TYPE, HEADER, DEDUP_KEY };

static const struct command_option options[] = {
    [PAYLOAD] = {"payload", 0, "JSON|@FILE|-", false,
        "the body as JSON; @FILE reads a file,\n- reads standard input"},
    [DATA] = {"data", 0, "@FILE|-", false, "the body as bytes; in place of --payload"},
    [KEY] = {"key", 0, "KEY", false, "events of one key are delivered in order"},
    [TYPE] = {"type", 0, "TYPE", false, "the kind of event, for receivers"},
    [HEADER] = {"header", 0, "NAME=VALUE", true, "for receivers; may be given several times"},
    [DEDUP_KEY] = {"dedup-key", 0, "KEY", false, "only the first event of this key is published"},
    {0},
};

bool publish_read_payload(const char *value, struct bytes *out_payload, struct error *error)
{
        struct bytes payload = {0};

        if (strcmp(value, "-") == 0) {
                if (!input_read("-", PUBLISH_MAX_BODY_BYTES, &payload, error))
                        return false;
        } else if (value[0] == '@') {
                if (!input_read(value + 1, PUBLISH_MAX_BODY_BYTES, &payload, error))
                        return false;
        } else {
                bytes_append_text(&payload, value);
        }
        if (payload.length > 0 && strlen(payload.data) < payload.length) {
                error_set(error, ERROR_USAGE,
                    "payload: NUL byte after %zu bytes, which JSON cannot contain; publish bytes "
                    "with --data",
                    strlen(payload.data));
                bytes_deinit(&payload);
                return false;
        }
        *out_payload = payload;
        return true;
}

static bool add_header(json_t *headers, const char *pair, struct error *error)
{
        const char *equals = strchr(pair, '=');
        char *name;
        bool ok = true;

        if (equals == NULL || equals == pair)
                return error_set(error, ERROR_USAGE, "header: \"%.64s\" is not NAME=VALUE", pair);
        name = xstrndup(pair, (size_t)(equals - pair));
        if (json_object_get(headers, name) != NULL)
                ok = error_set(error, ERROR_USAGE, "header: \"%.64s\" is given twice", name);
        else if (json_object_set_new(headers, name, json_string(equals + 1)) != 0)
                ok = error_set(error, ERROR_USAGE, "header: \"%.64s\" is not valid UTF-8", pair);
        free(name);
        return ok;
}

bool publish_make_headers(
    const struct arguments *arguments, unsigned option, char **out_json, struct error *error)
{
        const char *pair;
        json_t *headers;
        unsigned at = 0;
        bool ok = true;

        *out_json = NULL;
        if (!arguments_has(arguments, option))
                return true;
        headers = json_object();
        while (ok && (pair = arguments_next(arguments, option, &at)) != NULL)
                ok = add_header(headers, pair, error);
        if (ok)
                *out_json = json_dumps(headers, JSON_COMPACT);
        json_decref(headers);
        return ok;
}

/* The table's rules are named as sentences: topic_must_not_be_empty. */
static void broken_rule(const char *constraint, struct error *error)
{
        char *sentence = xstrdup(constraint);

        for (char *at = sentence; *at != '\0'; at++)
                if (*at == '_')
                        *at = ' ';
        error_set(error, ERROR_USAGE, "%s", sentence);
        free(sentence);
}

void publish_refused(
    struct blocking_conn *conn, const struct arguments *arguments, struct error *error)
{
        const char *sqlstate = blocking_conn_sqlstate(conn);
        const char *message = blocking_conn_message(conn);

        (void)arguments;
        if (strcmp(sqlstate, "23514") == 0 && *blocking_conn_constraint(conn) != '\0')
                broken_rule(blocking_conn_constraint(conn), error);
        else if (strcmp(sqlstate, "22P02") == 0)
                error_set(error, ERROR_USAGE, "payload: %s", message);
        else if (strncmp(sqlstate, "22", 2) == 0)
                error_set(error, ERROR_USAGE, "the event may not be published: %s", message);
        else if (error->kind == ERROR_PERMISSION)
                error_set(error, ERROR_PERMISSION,
                    "%s. An administrator can allow it: GRANT courier_publisher TO \"%s\"", message,
                    blocking_conn_user(conn));
        else if (strcmp(sqlstate, "3F000") == 0)
                (void)!schema_check(&outbox_schema, conn, (struct schema_version){0}, error);
        else if (error->kind == ERROR_SCHEMA)
                error_set(error, ERROR_SCHEMA, "%s. See `pgcourier migrate status`", message);
}

static bool read_data(const char *value, struct bytes *out_data, struct error *error)
{
        if (strcmp(value, "-") == 0)
                return input_read("-", PUBLISH_MAX_BODY_BYTES, out_data, error);
        if (value[0] == '@')
                return input_read(value + 1, PUBLISH_MAX_BODY_BYTES, out_data, error);
        return error_set(error, ERROR_USAGE,
            "data: write @FILE for the bytes of a file or - for those of standard input; JSON is "
            "given with --payload");
}

static bool read_body(
    const struct arguments *arguments, struct bytes *out_body, struct error *error)
{
        const char *payload = arguments_value(arguments, PAYLOAD);
        const char *data = arguments_value(arguments, DATA);

        if ((payload == NULL) == (data == NULL))
                return error_set(error, ERROR_USAGE,
                    "publish needs exactly one body: --payload JSON|@FILE|- or --data @FILE|-");
        return payload != NULL ? publish_read_payload(payload, out_body, error)
                               : read_data(data, out_body, error);
}

static struct parameter text(const char *value)
{
        return (struct parameter){.value = value};
}

static bool publish(struct blocking_conn *conn, const struct arguments *arguments,
    const struct bytes *body, const char *headers, struct error *error)
{
        bool is_json = arguments_has(arguments, PAYLOAD);
        const char *bytes = body->data != NULL ? body->data : "";
        const struct parameter parameters[] = {
            text(arguments->operands[0]),
            text(is_json ? bytes : NULL),
            text(arguments_value(arguments, KEY)),
            text(arguments_value(arguments, TYPE)),
            text(headers),
            {.value = is_json ? NULL : bytes, .n_bytes = body->length, .is_binary = true},
            text(arguments_value(arguments, DEDUP_KEY)),
        };
        /* An event_id that is not the one we chose is that of the key's first event. */
        struct rows *rows = blocking_conn_query(conn,
            "WITH chosen AS MATERIALIZED (SELECT pg_catalog.gen_random_uuid() AS id),"
            " published AS MATERIALIZED (SELECT chosen.id AS chosen_id, courier.publish("
            "$1::text, $2::json, key => $3::text, type => $4::text, headers => $5::jsonb,"
            " data => $6::bytea, event_id => chosen.id, dedup_key => $7::text) AS id FROM chosen)"
            " SELECT id, id = chosen_id FROM published",
            parameters, sizeof parameters / sizeof *parameters, error);

        if (rows == NULL)
                return false;
        printf("%s%s\n", rows_text(rows, 0, 0),
            !arguments_has(arguments, DEDUP_KEY) ? ""
            : rows_bool(rows, 0, 1)              ? " published"
                                                 : " published before");
        rows_free(rows);
        return true;
}

static bool run_publish(const struct arguments *arguments, struct error *error)
{
        struct bytes body = {0};
        char *headers = NULL;
        struct blocking_conn *conn = NULL;
        bool ok;

        if (publish_make_headers(arguments, HEADER, &headers, error) &&
            read_body(arguments, &body, error))
                conn = command_connect(arguments, error);
        ok = conn != NULL && publish(conn, arguments, &body, headers, error);
        bytes_deinit(&body);
        free(headers);
        return ok;
}

const struct command publish_command = {
    .name = "publish",
    .summary = "put one event into the outbox",
    .usage = "TOPIC (--payload JSON|@FILE|- | --data @FILE|-) [--key KEY] [--type TYPE]\n"
             "       [--header NAME=VALUE]... [--dedup-key KEY] [--dsn DSN | -c FILE]",
    .details = "Publishes one event in a transaction of its own and prints its event_id. The role\n"
               "must be a member of courier_publisher. With neither --dsn nor -c the environment\n"
               "names the database (PGHOST, PGUSER, PGDATABASE …).\n"
               "\n"
               "With --dedup-key it prints `EVENT_ID published`; or, if an event of that key was\n"
               "published within outbox.dedup_retention, that event's id and `published before`.\n",
    .options = options,
    .min_operands = 1,
    .max_operands = 1,
    .run = run_publish,
    .database = DATABASE,
    .answer_timeout_ms = 30000,
    .refused = publish_refused,
};
