/*
 * One event from the command line: for trying out a setup, and for scripts.
 * Everything reaches the server as a parameter of courier.publish(), which
 * checks it; here its refusals are put into the words of the command line.
 */
#include "base/alloc.h"
#include "base/bytes.h"
#include "cli/cli.h"
#include "outbox/blocking_conn.h"
#include "outbox/schema.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ANSWER_TIMEOUT_MS 30000
#define MAX_BODY_BYTES    ((size_t)64 << 20) /* held whole here, in the server and in the relay */

enum { PAYLOAD, DATA, KEY, TYPE, HEADER, DSN, CONFIG };

static const struct command_option options[] = {
    [PAYLOAD] = {"payload", 0, "JSON|@FILE|-", false,
        "the body as JSON; @FILE reads a file,\n- reads standard input"},
    [DATA] = {"data", 0, "@FILE|-", false, "the body as bytes; in place of --payload"},
    [KEY] = {"key", 0, "KEY", false, "events of one key are delivered in order"},
    [TYPE] = {"type", 0, "TYPE", false, "the kind of event, for receivers"},
    [HEADER] = {"header", 0, "NAME=VALUE", true, "for receivers; may be given several times"},
    [DSN] = {"dsn", 0, "DSN", false, "the database: postgresql://… or host=…"},
    [CONFIG] = {"config", 'c', "FILE", false, "the database of this configuration"},
    {0},
};

static bool read_payload(const char *value, struct bytes *out_payload, struct error *error)
{
        struct bytes payload = {0};

        if (strcmp(value, "-") == 0) {
                if (!read_input("-", MAX_BODY_BYTES, &payload, error))
                        return false;
        } else if (value[0] == '@') {
                if (!read_input(value + 1, MAX_BODY_BYTES, &payload, error))
                        return false;
        } else {
                bytes_append_text(&payload, value);
        }
        if (payload.length > 0 && strlen(payload.data) < payload.length) {
                error_set(error, ERROR_USAGE,
                    "payload: JSON has no NUL byte, here is one after %zu bytes; "
                    "--data publishes bytes",
                    strlen(payload.data));
                bytes_deinit(&payload);
                return false;
        }
        *out_payload = payload;
        return true;
}

static bool read_data(const char *value, struct bytes *out_data, struct error *error)
{
        if (strcmp(value, "-") == 0)
                return read_input("-", MAX_BODY_BYTES, out_data, error);
        if (value[0] == '@')
                return read_input(value + 1, MAX_BODY_BYTES, out_data, error);
        return error_set(error, ERROR_USAGE,
            "data: write @FILE for the bytes of a file or - for those of standard input");
}

static bool read_body(
    const struct arguments *arguments, struct bytes *out_body, struct error *error)
{
        const char *payload = arguments_value(arguments, PAYLOAD);
        const char *data = arguments_value(arguments, DATA);

        if ((payload == NULL) == (data == NULL))
                return error_set(error, ERROR_USAGE,
                    "publish: give the body, once: --payload JSON|@FILE|- or --data @FILE|-");
        return payload != NULL ? read_payload(payload, out_body, error)
                               : read_data(data, out_body, error);
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

/* *out_json becomes a JSON object as text, or NULL if there is no header. */
static bool make_headers(const struct arguments *arguments, char **out_json, struct error *error)
{
        json_t *headers;
        bool ok = true;

        *out_json = NULL;
        if (!arguments_has(arguments, HEADER))
                return true;
        headers = json_object();
        for (unsigned i = 0; ok && i < arguments->n_given; i++)
                if (arguments->given[i].index == HEADER)
                        ok = add_header(headers, arguments->given[i].value, error);
        if (ok)
                *out_json = json_dumps(headers, JSON_COMPACT);
        json_decref(headers);
        return ok;
}

/* The table's rules are named as sentences: topic_must_not_be_empty. */
static bool broken_rule(const char *constraint, struct error *error)
{
        char *sentence = xstrdup(constraint);

        for (char *at = sentence; *at != '\0'; at++)
                if (*at == '_')
                        *at = ' ';
        error_set(error, ERROR_USAGE, "%s", sentence);
        free(sentence);
        return false;
}

static bool refused(struct blocking_conn *conn, struct error *error)
{
        const char *sqlstate = blocking_conn_sqlstate(conn);
        const char *message = blocking_conn_message(conn);

        if (strcmp(sqlstate, "23514") == 0 && *blocking_conn_constraint(conn) != '\0')
                return broken_rule(blocking_conn_constraint(conn), error);
        if (strcmp(sqlstate, "22P02") == 0)
                return error_set(error, ERROR_USAGE, "payload: %s", message);
        if (strncmp(sqlstate, "22", 2) == 0)
                return error_set(error, ERROR_USAGE, "the event may not be published: %s", message);
        if (error->kind == ERROR_PERMISSION)
                return error_set(error, ERROR_PERMISSION,
                    "%s. An administrator can allow it: GRANT courier_publisher TO \"%s\"", message,
                    blocking_conn_user(conn));
        if (strcmp(sqlstate, "3F000") == 0)
                return schema_check_version(0, error);
        if (error->kind == ERROR_SCHEMA)
                return error_set(
                    error, ERROR_SCHEMA, "%s. See `pgcourier migrate status`", message);
        return false;
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
        };
        struct rows *rows = blocking_conn_query(conn,
            "SELECT courier.publish($1::text, $2::json, key => $3::text, type => $4::text, "
            "headers => $5::jsonb, data => $6::bytea)",
            parameters, sizeof parameters / sizeof *parameters, error);

        if (rows == NULL)
                return refused(conn, error);
        puts(rows_text(rows, 0, 0));
        rows_free(rows);
        return true;
}

static bool run_publish(const struct arguments *arguments, struct error *error)
{
        struct bytes body = {0};
        char *headers = NULL;
        struct blocking_conn *conn = NULL;
        bool ok = false;

        if (make_headers(arguments, &headers, error) && read_body(arguments, &body, error))
                conn = connect_for_command(arguments_value(arguments, DSN),
                    arguments_value(arguments, CONFIG), ANSWER_TIMEOUT_MS, error);
        if (conn != NULL)
                ok = publish(conn, arguments, &body, headers, error);
        blocking_conn_close(conn);
        bytes_deinit(&body);
        free(headers);
        return ok;
}

extern const struct command publish_command;
const struct command publish_command = {
    .name = "publish",
    .summary = "put one event into the outbox",
    .usage = "TOPIC (--payload JSON|@FILE|- | --data @FILE|-) [--key KEY] [--type TYPE]\n"
             "       [--header NAME=VALUE]... [--dsn DSN | -c FILE]",
    .details = "Publishes one event in a transaction of its own and prints its event_id. The role\n"
               "must be a member of courier_publisher. With neither --dsn nor -c the environment\n"
               "names the database (PGHOST, PGUSER, PGDATABASE …).\n",
    .options = options,
    .min_operands = 1,
    .max_operands = 1,
    .run = run_publish,
};
