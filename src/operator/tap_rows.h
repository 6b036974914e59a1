/*
 * Taps as commands see them: made, listed, checked and removed, on a connection that may wait.
 * Rows are NULL and *error, or the caller's to free.
 */
#pragma once

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>

struct blocking_conn;
struct bytes;
struct rows;

/* A call of courier.attach() or courier.capture(): its arguments by name, behind the table. */
struct tap_argument {
        const char *name;
        const char *type;
        const char *value; /* NULL: not given */
};
struct tap_call {
        const char *function; /* "courier.attach" */
        const char *table;
        const struct tap_argument *arguments;
        size_t n_arguments; /* at most TAP_MAX_ARGUMENTS */
};
enum { TAP_MAX_ARGUMENTS = 24 };

/* One row: the name of the tap. */
struct rows *tap_make(struct blocking_conn *conn, const struct tap_call *call, struct error *error)
    __attribute__((warn_unused_result));

/* The same as SQL for people and for psql, an argument a line, with an end of line at its end. */
void tap_append_call(struct bytes *sql, const struct tap_call *call);

/* What courier.attach() would make: the fields table, name, layout, done and done_when, then those
 * of the mapping. A field without a value is left out. */
enum tap_field_column { TAP_FIELD, TAP_FIELD_VALUE };
struct rows *tap_plan(struct blocking_conn *conn, const struct tap_call *call, struct error *error)
    __attribute__((warn_unused_result));

/* One row: the table with its schema, and a name for a capture of it: `name`, or a free one. */
struct rows *tap_resolve(struct blocking_conn *conn, const char *table, const char *name,
    struct error *error) __attribute__((warn_unused_result));

enum tap_column {
        TAP_NAME,
        TAP_KIND,
        TAP_TABLE,
        TAP_LAYOUT, /* NULL: none */
        TAP_DONE,   /* NULL: its rows are kept */
        TAP_STATE,
        TAP_DETAIL, /* NULL: it is ok */
        TAP_REMEDY,
        TAP_JSON, /* an object of all that and more */
};

/* By name, each compiled. `kind`: "attach", "capture"; NULL: both. */
struct rows *taps_read(struct blocking_conn *conn, const char *kind, struct error *error)
    __attribute__((warn_unused_result));

/* Fields of one, as tap_plan() has them; no row: there is none of that name. */
struct rows *tap_show(struct blocking_conn *conn, const char *name, struct error *error)
    __attribute__((warn_unused_result));
/* One object in one row, with the source. */
struct rows *tap_show_json(struct blocking_conn *conn, const char *name, struct error *error)
    __attribute__((warn_unused_result));
/* One row: the SQL that it consists of. */
struct rows *tap_source(struct blocking_conn *conn, const char *name, struct error *error)
    __attribute__((warn_unused_result));

/* One row, or none: its kind. */
struct rows *tap_kind(struct blocking_conn *conn, const char *name, struct error *error)
    __attribute__((warn_unused_result));
/* Names of taps, or of tables (with their schemas, and without), a row each. */
struct rows *tap_names(struct blocking_conn *conn, struct error *error)
    __attribute__((warn_unused_result));
struct rows *tap_table_names(struct blocking_conn *conn, struct error *error)
    __attribute__((warn_unused_result));

/* `lock_timeout` is an interval; NULL: the default. */
bool tap_remove(struct blocking_conn *conn, const char *name, const char *lock_timeout,
    struct error *error) __attribute__((warn_unused_result));

/* Installs or removes the event trigger that looks at taps after ALTER TABLE. */
bool tap_guard(struct blocking_conn *conn, bool is_wanted, struct error *error);

/* What a table looks like to somebody who might attach it. */
enum tap_detect_column {
        TAP_DETECT_TABLE, /* with its schema */
        TAP_DETECT_WHAT,  /* "a table of shop" */
        TAP_DETECT_ATTACHED_AS,
        TAP_DETECT_LAYOUT, /* NULL: none fits */
        TAP_DETECT_REMARK,
        TAP_DETECT_DONE,    /* of the layout, or keep if the table has no key */
        TAP_DETECT_MARKING, /* the same in words */
        TAP_DETECT_NEAREST, /* if none fits: which one almost does, in words; or NULL */
        TAP_DETECT_COLUMNS,
        TAP_DETECT_TOPIC, /* guesses of columns, if none fits; or NULL */
        TAP_DETECT_KEY,
        TAP_DETECT_BODY,
        TAP_DETECT_NOTES, /* a line each, or NULL */
};
struct rows *tap_detect(struct blocking_conn *conn, const char *table, struct error *error)
    __attribute__((warn_unused_result));

/* False and *error if it can never be attached: a view, a temporary table. What rights are missing
 * is among the notes. */
bool tap_is_possible(struct blocking_conn *conn, const char *table, struct error *error);

/* Fields of the mapping that the layout gives the table. */
struct rows *tap_detect_mapping(struct blocking_conn *conn, const char *table, const char *layout,
    struct error *error) __attribute__((warn_unused_result));

/* How many rows the table has, and how many of them are still to be published by that layout: a
 * small table is counted, of a large one the planner's estimates are taken. */
struct tap_row_counts {
        double n;
        double n_pending;
        bool is_exact;
};
bool tap_count(struct blocking_conn *conn, const char *table, const char *layout,
    struct tap_row_counts *out_counts, struct error *error);
