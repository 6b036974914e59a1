#include "cli/publish_args.h"

#include "base/alloc.h"
#include "base/bytes.h"
#include "outbox/schema.h"
#include "pg/blocking_conn.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

bool publish_read_payload(const char *value, struct bytes *out_payload, struct error *error)
{
        struct bytes payload = {0};

        if (strcmp(value, "-") == 0) {
                if (!read_input("-", PUBLISH_MAX_BODY_BYTES, &payload, error))
                        return false;
        } else if (value[0] == '@') {
                if (!read_input(value + 1, PUBLISH_MAX_BODY_BYTES, &payload, error))
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
                (void)!schema_check(conn, 0, error);
        else if (error->kind == ERROR_SCHEMA)
                error_set(error, ERROR_SCHEMA, "%s. See `pgcourier migrate status`", message);
}
