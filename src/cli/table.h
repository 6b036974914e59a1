/*
 * Rows on standard output: tables for people, objects for programs.
 *
 * Keys, topics and errors are untrusted text: control characters, which could
 * move a terminal's cursor, are printed as \x1b, in JSON as \u009b.
 */
#pragma once

#include "base/error.h"

#include <stddef.h>

struct rows;

struct table_column {
        const char *heading; /* NULL ends a table */
        int column;          /* in the rows */
        enum table_kind {
                CELL_WORD,
                CELL_NUMBER,
                CELL_LONG,     /* cut on a terminal that is too narrow */
                CELL_OPTIONAL, /* the same; left out if no row has a value */
        } kind;
};

bool table_print(const struct table_column *columns, const struct rows *rows, struct error *error)
    __attribute__((warn_unused_result));

/* One cell after the other, a line after the other; NULL: empty. Colours are libsmartcols' words
 * ("red"), one for each line and of its second cell, or NULL: none at all. */
bool table_print_cells(const struct table_column *columns, const char *const *cells, size_t n_lines,
    const char *const *colours, struct error *error) __attribute__((warn_unused_result));

/* Untrusted text: control characters are printed as \\x1b, and further lines are indented. */
void table_print_text(const char *text, int indent);

/* The JSON objects in that column, one a line. */
void table_print_json(const struct rows *rows, int column);

/* Rows of a name and a value; those without a value are left out. */
void table_print_fields(const struct rows *rows);
