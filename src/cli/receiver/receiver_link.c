/* Links to the portal, with which the owner of a receiver looks after it: link, links, unlink. The
 * token is printed once, and stored nowhere. */
#include "admin/portal/portal_access.h"
#include "cli/connect.h"
#include "cli/receiver/receiver_common.h"
#include "cli/table.h"
#include "config/config.h"
#include "config/secret.h"
#include "config/units.h"
#include "operator/receiver_rows.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DEFAULT_FOR_MS (INT64_C(60) * 60 * 1000)
#define MIN_FOR_MS     (INT64_C(60) * 1000)
#define MAX_FOR_MS     (INT64_C(30) * 24 * 60 * 60 * 1000)

enum { LINK_FOR, LINK_MANAGE };

static const struct command_option link_options[] = {
    [LINK_FOR] = {"for", 0, "DURATION", false,
        "how long the link works: 90m, 12h, 7d; at most 30d;\ndefault: 1h"},
    [LINK_MANAGE] = {"manage", 0, NULL, false,
        "who has the link may also send an event again, pause,\n"
        "change the URL and the secret, as portal.manage says"},
    {0},
};

enum { UNLINK_ID };

static const struct command_option unlink_options[] = {
    [UNLINK_ID] = {"id", 0, "N", false, "this link alone, by its number in `links`"},
    {0},
};

static const struct table_column columns[] = {
    {"ID", LINK_ROW_ID, CELL_NUMBER},
    {"EXPIRES", LINK_ROW_EXPIRES, CELL_WORD},
    {"MANAGE", LINK_ROW_MANAGE, CELL_WORD},
    {"CREATED", LINK_ROW_CREATED, CELL_WORD},
    {0},
};

static bool read_for(const struct arguments *arguments, int64_t *out_ms, struct error *error)
{
        const char *value = arguments_value(arguments, LINK_FOR);

        *out_ms = DEFAULT_FOR_MS;
        if (value == NULL)
                return true;
        if (units_parse_duration(value, out_ms) && *out_ms >= MIN_FOR_MS && *out_ms <= MAX_FOR_MS)
                return true;
        return error_set(
            error, ERROR_USAGE, "--for: \"%.64s\" is not a duration from 1m to 30d", value);
}

/* Where links begin; the configuration is freed with what this returns. NULL and *error. */
static struct config *read_portal(const struct arguments *arguments, struct error *error)
{
        const char *path = arguments->config_path;
        struct config *config;

        if (path == NULL) {
                error_set(error, ERROR_USAGE,
                    "receiver link needs -c FILE, a configuration with a block portal: its "
                    "base_url is what the link begins with");
                return NULL;
        }
        config = config_load(path, error);
        if (config == NULL || config->portal != NULL)
                return config;
        error_set(error, ERROR_CONFIG,
            "%s: there is no portal, so no link would work; add to it, and to the file of the "
            "relay "
            "that is to serve it: portal: {base_url: \"https://hooks.example.com/\"}",
            path);
        config_free(config);
        return NULL;
}

static void print_link(const struct config *config, const struct rows *rows, const char *name,
    const char *token, bool can_manage)
{
        const char *base = config->portal->base_url;
        bool has_slash = base[strlen(base) - 1] == '/';

        printf("%s%s#%s\n", base, has_slash ? "" : "/", token);
        fprintf(stderr,
            "link %s: its holder %s %s until %s; it is shown this once\n"
            "`pgcourier receiver unlink %s --id %s` withdraws it\n",
            rows_text(rows, 0, LINK_ROW_ID), can_manage ? "sees and manages" : "sees", name,
            rows_text(rows, 0, LINK_ROW_EXPIRES), name, rows_text(rows, 0, LINK_ROW_ID));
}

static bool run_link(const struct arguments *arguments, struct error *error)
{
        const char *name = arguments->operands[0];
        bool can_manage = arguments_has(arguments, LINK_MANAGE);
        char token[PORTAL_TOKEN_LENGTH + 1];
        struct portal_hash hash;
        struct blocking_conn *conn = NULL;
        struct config *config = NULL;
        struct rows *rows = NULL;
        int64_t for_ms;
        bool ok;

        if (read_for(arguments, &for_ms, error))
                config = read_portal(arguments, error);
        if (config != NULL)
                conn = command_connect(arguments, error);
        portal_token_make(token, &hash);
        if (conn != NULL)
                rows = receiver_link_add(conn, name, hash.text, can_manage, for_ms, error);
        ok = rows != NULL && (rows_count(rows) > 0 || receiver_missing(conn, name, error));
        if (ok)
                print_link(config, rows, name, token, can_manage);
        explicit_bzero(token, sizeof token);
        rows_free(rows);
        config_free(config);
        return ok;
}

/* A receiver without links is another thing than no receiver. */
static bool none(struct blocking_conn *conn, const char *name, struct error *error)
{
        struct rows *rows = receiver_count(conn, name, error);
        bool ok = rows != NULL && (rows_count(rows) > 0 || receiver_missing(conn, name, error));

        if (ok)
                fprintf(stderr, "%s has no links\n", name);
        rows_free(rows);
        return ok;
}

static bool run_links(const struct arguments *arguments, struct error *error)
{
        const char *name = arguments->operands[0];
        struct blocking_conn *conn = command_connect(arguments, error);
        struct rows *rows = conn != NULL ? receiver_links(conn, name, error) : NULL;
        bool ok = rows != NULL;

        if (ok && rows_count(rows) == 0)
                ok = none(conn, name, error);
        else if (ok && arguments_has(arguments, ONLY_JSON))
                table_print_json(rows, LINK_ROW_JSON);
        else if (ok)
                ok = table_print(columns, rows, error);
        rows_free(rows);
        return ok;
}

static bool run_unlink(const struct arguments *arguments, struct error *error)
{
        const char *name = arguments->operands[0];
        const char *id = arguments_value(arguments, UNLINK_ID);
        struct blocking_conn *conn = NULL;
        struct rows *rows = NULL;
        uint64_t number;
        bool ok;

        if (id != NULL && (!units_parse_integer(id, &number) || number > INT64_MAX))
                return error_set(error, ERROR_USAGE, "--id: \"%.64s\" is not a whole number", id);
        conn = command_connect(arguments, error);
        if (conn != NULL)
                rows = receiver_links_remove(conn, name, id, error);
        ok = rows != NULL;
        if (ok && rows_count(rows) > 0)
                printf("%d link%s of %s withdrawn\n", rows_count(rows),
                    rows_count(rows) == 1 ? "" : "s", name);
        else if (ok && id == NULL)
                ok = none(conn, name, error);
        else if (ok)
                ok = error_set(error, ERROR_EMPTY,
                    "%.100s has no link %s; `pgcourier receiver links %.100s` lists them", name, id,
                    name);
        rows_free(rows);
        return ok;
}

const struct command receiver_link_command = {
    .name = "link",
    .usage = "NAME [--for DURATION] [--manage]",
    .options = link_options,
    .min_operands = 1,
    .max_operands = 1,
    .run = run_link,
};

const struct command receiver_links_command = {
    .name = "links",
    .usage = "NAME [--json]",
    .options = only_json_options,
    .min_operands = 1,
    .max_operands = 1,
    .run = run_links,
};

const struct command receiver_unlink_command = {
    .name = "unlink",
    .usage = "NAME [--id N]",
    .options = unlink_options,
    .min_operands = 1,
    .max_operands = 1,
    .run = run_unlink,
};
