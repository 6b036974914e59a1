/*
 * One event from the command line: for trying out a setup, and for scripts.
 * Everything reaches the server as a parameter of courier.publish(), which
 * checks it; here its refusals are put into the words of the command line.
 */
#include "base/bytes.h"
#include "cli/commands.h"
#include "cli/connect.h"
#include "cli/publish_args.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PAYLOAD, DATA, KEY, TYPE, HEADER };

static const struct command_option options[] = {
    [PAYLOAD] = {"payload", 0, "JSON|@FILE|-", false,
        "the body as JSON; @FILE reads a file,\n- reads standard input"},
    [DATA] = {"data", 0, "@FILE|-", false, "the body as bytes; in place of --payload"},
    [KEY] = {"key", 0, "KEY", false, "events of one key are delivered in order"},
    [TYPE] = {"type", 0, "TYPE", false, "the kind of event, for receivers"},
    [HEADER] = {"header", 0, "NAME=VALUE", true, "for receivers; may be given several times"},
    {0},
};

static bool read_data(const char *value, struct bytes *out_data, struct error *error)
{
        if (strcmp(value, "-") == 0)
                return read_input("-", PUBLISH_MAX_BODY_BYTES, out_data, error);
        if (value[0] == '@')
                return read_input(value + 1, PUBLISH_MAX_BODY_BYTES, out_data, error);
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
                    "publish: give the body, once: --payload JSON|@FILE|- or --data @FILE|-");
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
        };
        struct rows *rows = blocking_conn_query(conn,
            "SELECT courier.publish($1::text, $2::json, key => $3::text, type => $4::text, "
            "headers => $5::jsonb, data => $6::bytea)",
            parameters, sizeof parameters / sizeof *parameters, error);

        if (rows == NULL)
                return false;
        puts(rows_text(rows, 0, 0));
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
             "       [--header NAME=VALUE]... [--dsn DSN | -c FILE]",
    .details = "Publishes one event in a transaction of its own and prints its event_id. The role\n"
               "must be a member of courier_publisher. With neither --dsn nor -c the environment\n"
               "names the database (PGHOST, PGUSER, PGDATABASE …).\n",
    .options = options,
    .min_operands = 1,
    .max_operands = 1,
    .run = run_publish,
    .database = DATABASE,
    .answer_timeout_ms = 30000,
    .refused = publish_refused,
};
