#include "cli/status/status_print.h"

#include "admin/findings/findings.h"
#include "base/alloc.h"
#include "base/bytes.h"
#include "cli/table.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum column { SINK, STATE, BACKLOG, OLDEST, RATE, P50, P99, RETRYING, DEAD, N_COLUMNS };

static const struct table_column columns[N_COLUMNS + 1] = {
    [SINK] = {"SINK", SINK, CELL_LONG},
    [STATE] = {"STATE", STATE, CELL_WORD},
    [BACKLOG] = {"BACKLOG", BACKLOG, CELL_NUMBER},
    [OLDEST] = {"OLDEST", OLDEST, CELL_NUMBER},
    [RATE] = {"RATE", RATE, CELL_NUMBER},
    [P50] = {"P50", P50, CELL_NUMBER},
    [P99] = {"P99", P99, CELL_NUMBER},
    [RETRYING] = {"RETRYING", RETRYING, CELL_NUMBER},
    [DEAD] = {"DEAD", DEAD, CELL_NUMBER},
};

/* Their state is the second column, too, which has the colours. */
enum tap_column {
        TAP,
        TAP_STATE,
        TAP_TABLE,
        TAP_LAYOUT,
        TAP_DONE,
        TAP_UNMARKED,
        TAP_OLDEST,
        N_TAP_COLUMNS
};

static const struct table_column tap_columns[N_TAP_COLUMNS + 1] = {
    [TAP] = {"TAP", TAP, CELL_LONG},
    [TAP_STATE] = {"STATE", TAP_STATE, CELL_WORD},
    [TAP_TABLE] = {"TABLE", TAP_TABLE, CELL_LONG},
    [TAP_LAYOUT] = {"LAYOUT", TAP_LAYOUT, CELL_WORD},
    [TAP_DONE] = {"DONE", TAP_DONE, CELL_WORD},
    [TAP_UNMARKED] = {"UNMARKED", TAP_UNMARKED, CELL_NUMBER},
    [TAP_OLDEST] = {"OLDEST", TAP_OLDEST, CELL_NUMBER},
};

enum relay_column {
        RELAY,
        RELAY_STATE,
        RELAY_HOST,
        RELAY_VERSION,
        RELAY_SINCE,
        RELAY_SHARDS,
        N_RELAY_COLUMNS
};

static const struct table_column relay_columns[N_RELAY_COLUMNS + 1] = {
    [RELAY] = {"RELAY", RELAY, CELL_LONG},
    [RELAY_STATE] = {"STATE", RELAY_STATE, CELL_WORD},
    [RELAY_HOST] = {"HOST", RELAY_HOST, CELL_LONG},
    [RELAY_VERSION] = {"VERSION", RELAY_VERSION, CELL_WORD},
    [RELAY_SINCE] = {"SINCE", RELAY_SINCE, CELL_WORD},
    [RELAY_SHARDS] = {"SHARDS", RELAY_SHARDS, CELL_LONG},
};

enum { TAPS_SHOWN = 20, CELL_BYTES = 80, TEXT_INDENT = 9, TEXT_COLUMNS = 100 };

static const json_t *get(const json_t *object, const char *name)
{
        return json_object_get(object, name);
}

static const char *text_of(const json_t *object, const char *name)
{
        const char *text = json_string_value(get(object, name));

        return text != NULL ? text : "";
}

static void write_latency(char *cell, const json_t *seconds)
{
        double value = json_number_value(seconds);

        if (!json_is_number(seconds))
                return;
        if (value < 0.01)
                snprintf(cell, CELL_BYTES, "%.1f ms", value * 1000);
        else if (value < 1)
                snprintf(cell, CELL_BYTES, "%.0f ms", value * 1000);
        else
                findings_duration(cell, CELL_BYTES, value);
}

static void write_count(char *cell, const json_t *number, const char *before, const char *after)
{
        if (json_is_number(number))
                snprintf(cell, CELL_BYTES, "%s%.0f%s", before, json_number_value(number), after);
}

/* What is not known stays empty. */
static void write_sink(char (*cells)[CELL_BYTES], const json_t *sink)
{
        const json_t *backlog = get(sink, "backlog");
        const json_t *latency = get(sink, "latency");
        const char *more = json_is_false(get(sink, "counts_are_exact")) ? "+" : "";

        snprintf(cells[SINK], CELL_BYTES, "%s", text_of(sink, "name"));
        snprintf(cells[STATE], CELL_BYTES, "%s", text_of(sink, "state"));
        write_count(cells[BACKLOG], get(backlog, "events"),
            json_is_false(get(backlog, "is_exact")) ? "~" : "", "");
        if (json_number_value(get(backlog, "oldest_age")) > 0)
                findings_duration(
                    cells[OLDEST], CELL_BYTES, json_number_value(get(backlog, "oldest_age")));
        if (json_is_number(get(sink, "rate")))
                snprintf(cells[RATE], CELL_BYTES, "%.1f/s", json_number_value(get(sink, "rate")));
        write_latency(cells[P50], get(latency, "p50"));
        write_latency(cells[P99], get(latency, "p99"));
        write_count(cells[RETRYING], get(sink, "retrying"), "", more);
        write_count(cells[DEAD], get(sink, "dead"), "", more);
}

static const char *state_colour(const char *state)
{
        static const char *const calm[] = {
            "running", "standby", "starting", "draining", "disconnected"};

        for (size_t i = 0; i < sizeof calm / sizeof *calm; i++)
                if (strcmp(state, calm[i]) == 0)
                        return i == 0 ? "green" : "yellow";
        return strcmp(state, "paused") == 0 ? "yellow" : "red";
}

/* Unmarked: what the relay is still to mark or delete. */
static void write_tap(char (*cells)[CELL_BYTES], const json_t *tap)
{
        const json_t *unmarked = get(tap, "unmarked");
        double oldest_s = json_number_value(get(unmarked, "oldest_age"));

        snprintf(cells[TAP], CELL_BYTES, "%s", text_of(tap, "name"));
        snprintf(cells[TAP_STATE], CELL_BYTES, "%s", text_of(tap, "state"));
        snprintf(cells[TAP_TABLE], CELL_BYTES, "%s", text_of(tap, "table"));
        snprintf(cells[TAP_LAYOUT], CELL_BYTES, "%s",
            text_of(tap, json_is_string(get(tap, "layout")) ? "layout" : "kind"));
        snprintf(cells[TAP_DONE], CELL_BYTES, "%s%s", text_of(tap, "done"),
            strcmp(text_of(tap, "done_when"), "taken") == 0 ? ", taken" : "");
        write_count(cells[TAP_UNMARKED], get(unmarked, "events"), "",
            json_is_false(get(unmarked, "is_exact")) ? "+" : "");
        if (oldest_s > 0)
                findings_duration(cells[TAP_OLDEST], CELL_BYTES, oldest_s);
}

/* "billing 1/1, orders 3/8": of the sinks of which it has shards. */
static void write_shards(char *cell, const json_t *sinks)
{
        const char *name, *before = "";
        const json_t *sink;
        size_t length = 0;

        json_object_foreach((json_t *)(uintptr_t)sinks, name, sink)
        {
                if (json_number_value(get(sink, "owns")) == 0 || length >= CELL_BYTES)
                        continue;
                length += (size_t)snprintf(cell + length, CELL_BYTES - length, "%s%s %.0f/%.0f",
                    before, name, json_number_value(get(sink, "owns")),
                    json_number_value(get(sink, "shards")));
                before = ", ";
        }
}

static void write_relay(char (*cells)[CELL_BYTES], const json_t *relay)
{
        snprintf(cells[RELAY], CELL_BYTES, "%s", text_of(relay, "name"));
        write_shards(cells[RELAY_SHARDS], get(relay, "sinks"));
        snprintf(cells[RELAY_STATE], CELL_BYTES, "%s",
            json_is_true(get(relay, "is_leaving"))    ? "leaving"
            : !json_is_true(get(relay, "is_drained")) ? "active"
            : *cells[RELAY_SHARDS] != '\0'            ? "draining"
                                                      : "drained");
        snprintf(cells[RELAY_HOST], CELL_BYTES, "%s", text_of(relay, "host"));
        snprintf(cells[RELAY_VERSION], CELL_BYTES, "%s", text_of(relay, "version"));
        snprintf(cells[RELAY_SINCE], CELL_BYTES, "%s", text_of(relay, "since"));
}

static const char *relay_colour(const char *state)
{
        return strcmp(state, "active") == 0 ? "green" : "yellow";
}

static const char *tap_colour(const char *state)
{
        return strcmp(state, "ok") == 0 ? "green" : "red";
}

/* What a list of the document looks like as a table. */
struct sheet {
        const struct table_column *columns;
        size_t n_columns;
        void (*write)(char (*cells)[CELL_BYTES], const json_t *object);
        const char *(*colour)(const char *state);
};

static const struct sheet sink_sheet = {columns, N_COLUMNS, write_sink, state_colour};
static const struct sheet relay_sheet = {relay_columns, N_RELAY_COLUMNS, write_relay, relay_colour};
static const struct sheet tap_sheet = {tap_columns, N_TAP_COLUMNS, write_tap, tap_colour};

/* The first n of the list. */
static bool print_sheet(
    const struct sheet *sheet, const json_t *list, size_t n, bool has_colours, struct error *error)
{
        char(*storage)[CELL_BYTES] = xcalloc(n * sheet->n_columns + 1, sizeof *storage);
        const char **cells = xcalloc(n * sheet->n_columns + 1, sizeof *cells);
        const char **colours = xcalloc(n + 1, sizeof *colours);
        bool ok;

        for (size_t i = 0; i < n; i++) {
                sheet->write(storage + i * sheet->n_columns, json_array_get(list, i));
                colours[i] = sheet->colour(storage[i * sheet->n_columns + STATE]);
        }
        for (size_t i = 0; i < n * sheet->n_columns; i++)
                cells[i] = storage[i];
        ok = table_print_cells(sheet->columns, cells, n, has_colours ? colours : NULL, error);
        free(colours);
        free(cells);
        free(storage);
        return ok;
}

/* One that has all the shards needs no table. */
static bool are_worth_a_table(const json_t *relays)
{
        const json_t *first = json_array_get(relays, 0);

        return json_array_size(relays) > 1 || json_is_true(get(first, "is_drained")) ||
               json_is_true(get(first, "is_leaving"));
}

static bool print_relays(const json_t *relays, bool has_colours, struct error *error)
{
        if (!are_worth_a_table(relays))
                return true;
        putchar('\n');
        if (!print_sheet(&relay_sheet, relays, json_array_size(relays), has_colours, error))
                return false;
        putchar('\n');
        return true;
}

/* Those in trouble, which come first, and some others. */
static bool print_taps(const json_t *taps, bool has_colours, struct error *error)
{
        const json_t *first = get(taps, "first"), *n;
        size_t n_shown = 0;
        double n_more = 0;
        const char *state;

        while (n_shown < json_array_size(first) &&
               (n_shown < TAPS_SHOWN ||
                   strcmp(text_of(json_array_get(first, n_shown), "state"), "ok") != 0))
                n_shown++;
        if (!print_sheet(&tap_sheet, first, n_shown, has_colours, error))
                return false;
        json_object_foreach((json_t *)(uintptr_t)get(taps, "states"), state, n)
        {
                n_more += json_number_value(n);
        }
        n_more -= (double)n_shown;
        if (n_more > 0)
                printf("... and %.0f more\n", n_more);
        return true;
}

/* How far the marks are behind. */
static void print_marks(const json_t *marks)
{
        double n = json_number_value(get(marks, "waiting"));
        double oldest_s = json_number_value(get(marks, "oldest_age"));
        char oldest[CELL_BYTES];

        if (!json_is_object(marks))
                return;
        printf("marks: %.0f%s event%s wait%s", n,
            json_is_false(get(marks, "counts_are_exact")) ? "+" : "", n == 1 ? "" : "s",
            n == 1 ? "s" : "");
        if (oldest_s > 0) {
                findings_duration(oldest, sizeof oldest, oldest_s);
                printf("; the oldest that is not marked is %s old", oldest);
        }
        putchar('\n');
}

/* Who has which shards of the sinks that have several. */
static void print_shards(const json_t *sinks)
{
        const json_t *sink;
        size_t i;

        json_array_foreach(sinks, i, sink)
        {
                const json_t *shards = get(sink, "shards");
                const json_t *unowned = get(shards, "unowned");
                struct bytes owners = {0};

                if (!json_is_object(shards) || json_integer_value(get(shards, "total")) < 2)
                        continue;
                findings_append_owners(&owners, shards);
                if (json_array_size(unowned) > 0) {
                        bytes_printf(&owners, "%sno relay: ", owners.length > 0 ? "; " : "");
                        findings_append_numbers(&owners, unowned);
                }
                printf("%s: %lld shards; ", text_of(sink, "name"),
                    (long long)json_integer_value(get(shards, "total")));
                table_print_text(owners.data, 0);
                putchar('\n');
                bytes_deinit(&owners);
        }
}

/* Else a frozen picture looks healthy. */
static void print_age(const json_t *status)
{
        const char *looked_at = text_of(status, "looked_at");
        bool is_old = json_is_false(get(get(status, "source"), "up")) ||
                      *text_of(status, "look_error") != '\0';

        if (is_old && *looked_at != '\0')
                printf("OLD: backlogs and counts are those of %s, when the database last answered; "
                       "rates are\n     of the last minute\n",
                    looked_at);
}

static void print_head(const json_t *status, const char *unanswered)
{
        const json_t *source = get(status, "source");
        const json_t *pid = get(source, "owner_pid");

        if (json_is_true(get(status, "is_live"))) {
                printf("pgcourier %s, %s, since %s, %s\n", text_of(status, "version"),
                    text_of(status, "instance"), text_of(status, "started_at"),
                    json_is_true(get(status, "ready")) ? "ready" : "NOT READY");
                print_age(status);
                return;
        }
        fputs("from the database alone: ", stdout);
        if (unanswered != NULL)
                table_print_text(unanswered, 0);
        else
                fputs("no admin endpoint is configured", stdout);
        if (json_is_number(pid))
                printf("; a relay is connected as pid %lld\n", (long long)json_integer_value(pid));
        else
                puts("; no relay owns a sink");
}

/* Filled up to that column, with all lines indented. */
static void print_paragraph(const char *text)
{
        struct bytes word = {0};
        int column = TEXT_COLUMNS;
        bool is_first = true;

        while (*(text += strspn(text, " \n")) != '\0') {
                size_t length = strcspn(text, " \n");
                int width = 0;

                for (size_t i = 0; i < length; i++)
                        width += ((unsigned char)text[i] & 0xc0) != 0x80; /* letters, not bytes */
                if (column + 1 + width > TEXT_COLUMNS) {
                        printf("%s%*s", is_first ? "" : "\n", TEXT_INDENT, "");
                        column = TEXT_INDENT + width;
                } else {
                        putchar(' ');
                        column += 1 + width;
                }
                bytes_clear(&word);
                bytes_append(&word, text, length);
                table_print_text(word.data, TEXT_INDENT);
                text += length;
                is_first = false;
        }
        if (!is_first)
                putchar('\n');
        bytes_deinit(&word);
}

static void print_finding(const json_t *finding, bool has_colours)
{
        const char *level = text_of(finding, "level");
        const char *colour = strcmp(level, "error") == 0     ? "\x1b[31m"
                             : strcmp(level, "warning") == 0 ? "\x1b[33m"
                                                             : "\x1b[36m";
        char lasts[CELL_BYTES];

        printf("%s%-7s%s  ", has_colours ? colour : "", level, has_colours ? "\x1b[0m" : "");
        table_print_text(text_of(finding, "title"), TEXT_INDENT);
        if (json_number_value(get(finding, "lasts")) > 0) {
                findings_duration(lasts, sizeof lasts, json_number_value(get(finding, "lasts")));
                printf(" for %s", lasts);
        }
        putchar('\n');
        print_paragraph(text_of(finding, "why"));
        print_paragraph(text_of(finding, "remedy"));
        if (json_is_string(get(finding, "command"))) {
                printf("%*shelp: ", TEXT_INDENT, "");
                table_print_text(text_of(finding, "command"), TEXT_INDENT);
                putchar('\n');
        }
}

bool status_print(const json_t *status, const json_t *findings, const char *unanswered,
    bool has_colours, struct error *error)
{
        const json_t *finding;
        size_t i;

        print_head(status, unanswered);
        if (json_array_size(get(status, "sinks")) == 0)
                puts("there are no sinks");
        else if (!print_sheet(&sink_sheet, get(status, "sinks"),
                     json_array_size(get(status, "sinks")), has_colours, error))
                return false;
        print_shards(get(status, "sinks"));
        if (!print_relays(get(status, "relays"), has_colours, error))
                return false;
        if (json_array_size(get(get(status, "taps"), "first")) > 0) {
                putchar('\n');
                if (!print_taps(get(status, "taps"), has_colours, error))
                        return false;
                print_marks(get(status, "marks"));
                putchar('\n');
        }
        if (json_array_size(findings) == 0)
                puts("nothing needs attention");
        json_array_foreach(findings, i, finding)
        {
                print_finding(finding, has_colours);
        }
        return true;
}
