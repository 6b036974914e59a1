#include "cli/endpoint/cmd_endpoint.h"
#include "cli/table.h"
#include "config/suggest.h"
#include "operator/endpoint_rows.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct table_column columns[] = {
    {"NAME", ENDPOINT_ROW_NAME, CELL_LONG},
    {"SINK", ENDPOINT_ROW_SINK, CELL_WORD},
    {"STATE", ENDPOINT_ROW_STATE, CELL_WORD},
    {"FAILING SINCE", ENDPOINT_ROW_FAILING_SINCE, CELL_WORD},
    {"PARKED", ENDPOINT_ROW_PARKED, CELL_NUMBER},
    {"DEAD", ENDPOINT_ROW_DEAD, CELL_NUMBER},
    {"TOPICS", ENDPOINT_ROW_TOPICS, CELL_LONG},
    {"URL", ENDPOINT_ROW_URL, CELL_LONG},
    {"REASON", ENDPOINT_ROW_REASON, CELL_LONG},
    {0},
};

static bool check_state(const char *state, struct error *error)
{
        static const char *const states[] = {"active", "paused", "disabled"};
        const char *meant = NULL;

        if (state == NULL)
                return true;
        for (size_t i = 0; i < sizeof states / sizeof *states; i++) {
                if (strcmp(state, states[i]) == 0)
                        return true;
                meant = suggest_nearer(state, meant, states[i]);
        }
        return error_set(error, ERROR_USAGE,
            "--state: \"%.64s\" is not one of active, paused, disabled%s%s%s", state,
            meant != NULL ? "; did you mean \"" : "", meant != NULL ? meant : "",
            meant != NULL ? "\"?" : "");
}

static bool print(
    const struct rows *rows, const struct arguments *arguments, bool is_any, struct error *error)
{
        const char *none = is_any ? "there are no endpoints" : "no endpoint matches";

        if (rows_count(rows) == 0 && arguments_has(arguments, OPTION_FAIL_EMPTY))
                return error_set(error, ERROR_EMPTY, "%s", none);
        if (rows_count(rows) == 0)
                fprintf(stderr, "%s%s\n", none,
                    is_any ? "; `pgcourier endpoint add NAME --url URL` makes one" : "");
        else if (arguments_has(arguments, OPTION_JSON))
                table_print_json(rows, ENDPOINT_ROW_JSON);
        else
                return table_print(columns, rows, error);
        return true;
}

bool endpoint_run_list(const struct arguments *arguments, struct error *error)
{
        const char *sink = arguments_value(arguments, OPTION_SINK);
        const char *state = arguments_value(arguments, OPTION_STATE);
        struct blocking_conn *conn;
        struct rows *rows;
        bool ok;

        if (!check_state(state, error))
                return false;
        conn = endpoint_connect(arguments, error);
        if (conn == NULL)
                return false;
        rows = endpoints_read(conn, sink, state, arguments_has(arguments, OPTION_JSON), error);
        ok = rows != NULL ? print(rows, arguments, sink == NULL && state == NULL, error)
                          : endpoint_refused(conn, "list", error);
        rows_free(rows);
        blocking_conn_close(conn);
        return ok;
}

static bool show(struct blocking_conn *conn, const struct arguments *arguments, struct error *error)
{
        const char *name = arguments->operands[1];
        bool as_json = arguments_has(arguments, OPTION_JSON);
        bool with_secrets = arguments_has(arguments, OPTION_SECRETS);
        struct endpoint_waiting waiting;
        struct rows *rows;
        char *text;
        bool ok = true;

        if (!endpoint_wait_count(conn, name, &waiting, error))
                return false;
        text = endpoint_wait_text(&waiting);
        rows = as_json ? endpoint_show_json(conn, name, with_secrets, waiting.n,
                             waiting.is_exact && !waiting.is_cut, error)
                       : endpoint_show(conn, name, with_secrets, text, error);
        free(text);
        if (rows == NULL)
                return endpoint_refused(conn, name, error);
        if (rows_count(rows) == 0)
                ok = endpoint_missing(conn, name, error);
        else if (as_json)
                table_print_json(rows, 0);
        else
                table_print_fields(rows);
        rows_free(rows);
        return ok;
}

bool endpoint_run_show(const struct arguments *arguments, struct error *error)
{
        struct blocking_conn *conn = endpoint_connect(arguments, error);
        bool ok = conn != NULL && show(conn, arguments, error);

        blocking_conn_close(conn);
        return ok;
}
