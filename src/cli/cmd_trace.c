/* What became of one event at each sink and receiver. */
#include "base/alloc.h"
#include "cli/commands.h"
#include "cli/connect.h"
#include "cli/table.h"
#include "operator/history.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LIMIT, JSON };

static const struct command_option options[] = {
    [LIMIT] = {"limit", 0, "N", false,
        "at most so many sinks and receivers, those in trouble\nfirst; default: 50"},
    [JSON] = OPTION_JSON,
    {0},
};

enum {
        COLUMN_WHERE,
        COLUMN_STATE,
        COLUMN_AT,
        COLUMN_TOOK,
        COLUMN_STATUS,
        COLUMN_TRIES,
        COLUMN_NEXT,
        COLUMN_REASON,
        N_COLUMNS
};

static const struct table_column columns[] = {
    {"SINK", COLUMN_WHERE, CELL_LONG},
    {"STATE", COLUMN_STATE, CELL_WORD},
    {"AT", COLUMN_AT, CELL_OPTIONAL},
    {"TOOK", COLUMN_TOOK, CELL_OPTIONAL},
    {"STATUS", COLUMN_STATUS, CELL_OPTIONAL},
    {"ATTEMPTS", COLUMN_TRIES, CELL_OPTIONAL},
    {"NEXT", COLUMN_NEXT, CELL_OPTIONAL},
    {"REASON", COLUMN_REASON, CELL_OPTIONAL},
    {0},
};

static char *copy_of(const json_t *object, const char *name)
{
        const char *text = json_string_value(json_object_get(object, name));

        return text != NULL ? xstrdup(text) : NULL;
}

/* "2026-11-27T10:00:00.123456Z" without what is below a second. */
static char *time_of(const json_t *object, const char *name)
{
        const char *text = json_string_value(json_object_get(object, name));

        return text != NULL ? xasprintf("%.19sZ", text) : NULL;
}

static char *number_of(const json_t *object, const char *name)
{
        const json_t *number = json_object_get(object, name);

        return json_is_integer(number)
                   ? xasprintf("%" JSON_INTEGER_FORMAT, json_integer_value(number))
                   : NULL;
}

static void fill(char **cells, const json_t *delivery)
{
        const char *receiver = json_string_value(json_object_get(delivery, "receiver"));
        const json_t *took = json_object_get(delivery, "took");

        cells[COLUMN_WHERE] =
            xasprintf("%s%s%s", json_string_value(json_object_get(delivery, "sink")),
                receiver != NULL ? "/" : "", receiver != NULL ? receiver : "");
        cells[COLUMN_STATE] = copy_of(delivery, "state");
        cells[COLUMN_AT] = time_of(delivery, "at");
        cells[COLUMN_TOOK] =
            json_is_number(took) ? xasprintf("%.1f ms", json_number_value(took) * 1e3) : NULL;
        cells[COLUMN_STATUS] = number_of(delivery, "status");
        cells[COLUMN_TRIES] = number_of(delivery, "attempts");
        cells[COLUMN_NEXT] = time_of(delivery, "next_at");
        cells[COLUMN_REASON] = copy_of(delivery, "reason");
}

static bool print_deliveries(const json_t *deliveries, struct error *error)
{
        size_t n = json_array_size(deliveries);
        char **cells = xcalloc(n * N_COLUMNS + 1, sizeof *cells);
        bool ok;

        for (size_t i = 0; i < n; i++)
                fill(&cells[i * N_COLUMNS], json_array_get(deliveries, i));
        ok = table_print_cells(columns, (const char *const *)cells, n, NULL, error);
        for (size_t i = 0; i < n * N_COLUMNS; i++)
                free(cells[i]);
        free(cells);
        return ok;
}

static void print_event(const json_t *event)
{
        static const char *const names[] = {"topic", "type", "key", "created_at"};

        printf("event %" JSON_INTEGER_FORMAT ", %s",
            json_integer_value(json_object_get(event, "id")),
            json_string_value(json_object_get(event, "event_id")));
        for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
                const char *text = json_string_value(json_object_get(event, names[i]));

                if (text == NULL)
                        continue;
                printf(", %s ", strcmp(names[i], "created_at") == 0 ? "published" : names[i]);
                table_print_text(text, 0);
        }
        putchar('\n');
}

/* "3 more: 2 delivered, 1 not_taken" is what the table does not have. */
static void say_left_out(const json_t *counts, const json_t *deliveries)
{
        const char *state;
        json_t *count;
        json_int_t n = 0;

        json_object_foreach((json_t *)(uintptr_t)counts, state, count) n +=
            json_integer_value(count);
        if (n == (json_int_t)json_array_size(deliveries))
                return;
        fprintf(stderr, "%" JSON_INTEGER_FORMAT " more, of all these states:",
            n - (json_int_t)json_array_size(deliveries));
        json_object_foreach((json_t *)(uintptr_t)counts, state, count)
            fprintf(stderr, " %" JSON_INTEGER_FORMAT " %s", json_integer_value(count), state);
        fputs("; add --limit N\n", stderr);
}

static bool print_trace(const char *text, struct error *error)
{
        json_t *document = json_loads(text, JSON_ALLOW_NUL, NULL);
        const json_t *deliveries = json_object_get(document, "deliveries");
        bool ok = true;

        print_event(json_object_get(document, "event"));
        if (json_array_size(deliveries) > 0)
                ok = print_deliveries(deliveries, error);
        else
                puts("no sink is known here");
        say_left_out(json_object_get(document, "counts"), deliveries);
        json_decref(document);
        return ok;
}

static bool run_trace(const struct arguments *arguments, struct error *error)
{
        const char *event = arguments->operands[0];
        struct blocking_conn *conn = NULL;
        struct rows *rows = NULL;
        unsigned limit = 50;
        char n[12];
        bool ok = true;

        if (arguments_count(arguments, LIMIT, 1, 1000000, &limit, error))
                conn = command_connect(arguments, error);
        snprintf(n, sizeof n, "%u", limit);
        if (conn != NULL)
                rows = event_trace(conn, event, n, error);
        if (rows == NULL)
                return false;
        if (rows_count(rows) == 0)
                ok = error_set(error, ERROR_EMPTY,
                    "nothing is left of event \"%.64s\", or it is neither the number of an event "
                    "(courier.outbox.id) nor its id, a uuid",
                    event);
        else if (arguments_has(arguments, JSON))
                table_print_json(rows, 0);
        else
                ok = print_trace(rows_text(rows, 0, 0), error);
        rows_free(rows);
        return ok;
}

const struct command trace_command = {
    .name = "trace",
    .summary = "tell what became of one event at each sink and receiver",
    .usage = "EVENT [--limit N] [--json] [--dsn DSN | -c FILE]",
    .details =
        "EVENT is the number of an event, as in the log and in lists, or its id: what receivers\n"
        "get as webhook-id. By its number it is found at once, by its id the outbox is read from\n"
        "its newest event to its oldest.\n"
        "\n"
        "delivered  its destination took it; when, how long that took and what it answered is "
        "known\n"
        "           if the attempt was kept (attempts of the sink)\n"
        "waiting    behind what, says the reason\n"
        "retrying   an attempt failed; the next is due at NEXT\n"
        "cancelled  by courier.cancel(), before its time had come\n"
        "dead       given up, and why; `pgcourier dead redrive` delivers it again\n"
        "not_taken  by topic, type, headers or filter\n"
        "\n"
        "The role must be a member of courier_relay. Exit code 8: nothing is left of the event.\n",
    .options = options,
    .min_operands = 1,
    .max_operands = 1,
    .run = run_trace,
    .database = DATABASE,
    .needs_schema = true,
    .answer_timeout_ms = 30000,
};
