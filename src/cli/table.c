#include "cli/table.h"

#include "pg/blocking_conn.h"

#include <libsmartcols/libsmartcols.h>
#include <locale.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The share of the terminal below which a long column is not cut while another one is wider. */
#define LONG_SHARE 0.15

/* libsmartcols measures words, and escapes what is not printable, as the environment's character
 * set says. Nothing else in the program depends on a locale. */
static void learn_character_set(void)
{
        static bool done;

        if (!done)
                setlocale(LC_CTYPE, "");
        done = true;
}

static int column_flags(enum table_kind kind)
{
        switch (kind) {
        case CELL_WORD:
                return 0;
        case CELL_NUMBER:
                return SCOLS_FL_RIGHT;
        case CELL_LONG:
        case CELL_OPTIONAL:
                return SCOLS_FL_TRUNC;
        }
        abort();
}

static bool is_shown(const struct table_column *column, const struct rows *rows)
{
        if (column->kind != CELL_OPTIONAL)
                return true;
        for (int row = 0; row < rows_count(rows); row++)
                if (rows_text(rows, row, column->column) != NULL)
                        return true;
        return false;
}

static bool fill_table(
    struct libscols_table *table, const struct table_column *columns, const struct rows *rows)
{
        size_t n_shown = 0;

        for (int row = 0; row < rows_count(rows); row++)
                if (scols_table_new_line(table, NULL) == NULL)
                        return false;
        for (const struct table_column *column = columns; column->heading != NULL; column++) {
                if (!is_shown(column, rows))
                        continue;
                if (scols_table_new_column(
                        table, column->heading, LONG_SHARE, column_flags(column->kind)) == NULL)
                        return false;
                for (int row = 0; row < rows_count(rows); row++)
                        if (scols_line_set_data(scols_table_get_line(table, (size_t)row), n_shown,
                                rows_text(rows, row, column->column)) != 0)
                                return false;
                n_shown++;
        }
        return true;
}

bool table_print(const struct table_column *columns, const struct rows *rows, struct error *error)
{
        struct libscols_table *table;
        bool ok;

        learn_character_set();
        table = scols_new_table();
        ok = table != NULL && fill_table(table, columns, rows) && scols_print_table(table) == 0;
        scols_unref_table(table);
        return ok || error_set(error, ERROR_SYSTEM, "cannot print a table: out of memory");
}

static bool fill_cells(struct libscols_table *table, const struct table_column *columns,
    const char *const *cells, size_t n_lines, const char *const *colours)
{
        size_t n_columns = 0;

        for (; columns[n_columns].heading != NULL; n_columns++)
                if (scols_table_new_column(table, columns[n_columns].heading, LONG_SHARE,
                        column_flags(columns[n_columns].kind)) == NULL)
                        return false;
        for (size_t i = 0; i < n_lines; i++) {
                struct libscols_line *line = scols_table_new_line(table, NULL);

                if (line == NULL)
                        return false;
                for (size_t j = 0; j < n_columns; j++)
                        if (scols_line_set_data(line, j, cells[i * n_columns + j]) != 0)
                                return false;
                if (colours != NULL && colours[i] != NULL &&
                    scols_cell_set_color(scols_line_get_cell(line, 1), colours[i]) != 0)
                        return false;
        }
        return true;
}

bool table_print_cells(const struct table_column *columns, const char *const *cells, size_t n_lines,
    const char *const *colours, struct error *error)
{
        struct libscols_table *table;
        bool ok;

        learn_character_set();
        table = scols_new_table();
        ok = table != NULL && scols_table_enable_colors(table, colours != NULL) == 0 &&
             fill_cells(table, columns, cells, n_lines, colours) && scols_print_table(table) == 0;
        scols_unref_table(table);
        return ok || error_set(error, ERROR_SYSTEM, "cannot print a table: out of memory");
}

/* The character at `text` if it is a control character beyond ASCII's first 32, else 0. In UTF-8
 * U+0080 to U+009F are C2 80 to C2 9F; terminals obey them like their 7-bit forms. */
static unsigned late_control(const unsigned char *text)
{
        if (text[0] == 0x7f)
                return 0x7f;
        return text[0] == 0xc2 && text[1] >= 0x80 && text[1] <= 0x9f ? text[1] : 0;
}

/* The server has escaped the first 32, and JSON has characters beyond ASCII in strings only. */
static void print_object(const char *object)
{
        for (const unsigned char *at = (const unsigned char *)object; *at != '\0'; at++) {
                unsigned control = late_control(at);
                if (control == 0) {
                        putchar(*at);
                        continue;
                }
                printf("\\u%04x", control);
                at += *at == 0xc2;
        }
        putchar('\n');
}

void table_print_json(const struct rows *rows, int column)
{
        for (int row = 0; row < rows_count(rows); row++)
                print_object(rows_text(rows, row, column));
}

/* Further lines are indented, so that none can pass for a field of its own. */
void table_print_text(const char *text, int indent)
{
        for (const unsigned char *at = (const unsigned char *)text; *at != '\0'; at++) {
                unsigned late = late_control(at);
                if (*at == '\n') {
                        printf("\n%*s", indent, "");
                } else if (late == 0 && (*at >= ' ' || *at == '\t')) {
                        putchar(*at);
                } else {
                        printf("\\x%02x", late != 0 ? late : *at);
                        at += *at == 0xc2;
                }
        }
}

void table_print_fields(const struct rows *rows)
{
        int width = 0;

        for (int row = 0; row < rows_count(rows); row++)
                if (rows_text(rows, row, 1) != NULL && (int)strlen(rows_text(rows, row, 0)) > width)
                        width = (int)strlen(rows_text(rows, row, 0));
        for (int row = 0; row < rows_count(rows); row++) {
                if (rows_text(rows, row, 1) == NULL)
                        continue;
                printf("%-*s  ", width, rows_text(rows, row, 0));
                table_print_text(rows_text(rows, row, 1), width + 2);
                putchar('\n');
        }
}
