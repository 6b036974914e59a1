/* courier.event_type, the catalogue of event types, for the commands and the endpoint. */
#pragma once

#include "base/error.h"
#include "pg/blocking_conn.h"

#include <stdbool.h>

/* Text for people; times are RFC 3339 in UTC. */
enum type_row {
        TYPE_ROW_JSON, /* the row as an object */
        TYPE_ROW_NAME,
        TYPE_ROW_DEPRECATED, /* "yes" or NULL */
        TYPE_ROW_HAS_SCHEMA,
        TYPE_ROW_HAS_EXAMPLE,
        TYPE_ROW_CHANGED,
        TYPE_ROW_DESCRIPTION,
        TYPE_ROW_SCHEMA,
        TYPE_ROW_EXAMPLE,
        TYPE_ROW_CREATED,
        TYPE_ROW_SUMMARY, /* the first line of the description */
};

/* By name; all, or those that `patterns` take: an array literal of patterns as receivers have
 * them. */
struct rows *types_read(struct blocking_conn *conn, const char *patterns, struct error *error)
    __attribute__((warn_unused_result));

/* One; no row if there is none. */
struct rows *type_read(struct blocking_conn *conn, const char *name, struct error *error)
    __attribute__((warn_unused_result));

/* What is changed; NULL: stays as it is, "": goes. */
struct type_change {
        const char *name;
        const char *description;
        const char *schema;     /* JSON */
        const char *example;    /* JSON */
        const char *deprecated; /* "true" or "false" */
};

/* Adds the type, or changes it. One row, true if it is new; no row if nothing was to change. */
struct rows *type_set(struct blocking_conn *conn, const struct type_change *change,
    struct error *error) __attribute__((warn_unused_result));

/* *out_is_strict: publishing refuses the type from now on. */
bool type_remove(struct blocking_conn *conn, const char *name, bool *out_existed,
    bool *out_is_strict, struct error *error) __attribute__((warn_unused_result));

/* A list of all names: one column. */
struct rows *type_names(struct blocking_conn *conn, struct error *error)
    __attribute__((warn_unused_result));

/* Of an array literal of patterns those that take no type of the catalogue: one column. None while
 * the catalogue is empty. */
struct rows *types_unknown(struct blocking_conn *conn, const char *patterns, struct error *error)
    __attribute__((warn_unused_result));

/* Of one type; no row if there is none. */
enum {
        TYPE_EXAMPLE_NAME,
        TYPE_EXAMPLE,
};
struct rows *type_example(struct blocking_conn *conn, const char *name, struct error *error)
    __attribute__((warn_unused_result));

/* The same of the first type that has one and that the receiver takes by its patterns of
 * types; no row if it has none, or takes none. */
struct rows *type_for_receiver(struct blocking_conn *conn, const char *receiver,
    struct error *error) __attribute__((warn_unused_result));

/* {"types": […], "strict": bool} without schemas and examples, for the endpoint; no parameters. */
extern const char types_document_sql[];
