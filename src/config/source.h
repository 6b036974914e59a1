/*
 * The config file while it is loaded: its text, the tree of its keys and values, and the errors
 * that name a place in it.
 */
#pragma once

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>

enum { KEY_PATH_SIZE = 512 };

enum node_kind {
        NODE_TEXT,
        NODE_NOTHING, /* nothing, ~ or null, without quotes */
        NODE_MAPPING,
        NODE_LIST,
};

/* A value of the file: a key's, an item of a list, or the whole. */
struct node {
        enum node_kind kind;
        size_t line;   /* of the key, or of a list's item; from 1 */
        size_t column; /* in characters, from 1 */
        char *key;     /* owned; NULL: an item of a list, or the whole */
        char *text;    /* of NODE_TEXT and NODE_NOTHING, as it is written; owned; may be secret */
        size_t index;  /* among the parent's children */
        size_t n_children;
        struct node *parent;
        struct node *first_child;
        struct node *last_child;
        struct node *next; /* the parent's next child */
};

struct source {
        const char *path; /* borrowed */
        char *text;       /* owned; may hold secrets */
        size_t length;
        struct node *root;   /* owned; NULL: it could not be read */
        struct error *error; /* borrowed: the caller's */
};

/* Clears texts before they are freed. */
void source_close(struct source *source);

/* The value of a key, or an item of a list; NULL if there is none, or no parent. */
const struct node *node_child(const struct node *parent, const char *key);
const struct node *node_item(const struct node *list, size_t index);

/*
 * A key is named by its path: "sinks[2].http.timeout"; "" is the whole file. The functions below
 * take the path of a block and a name within it, which may be a path itself ("retry.max"), or ""
 * for the block.
 *
 * source_fail() sets the error to "FILE:LINE:COLUMN: path: reason" and returns false. The place is
 * that of the key, or of the nearest block around it that is in the file. Control characters become
 * '?'. Quote values only as they are written in the file, and none of a secret key: a variable or a
 * file may fill a secret into any value.
 */
bool source_fail(const struct source *source, const char *block_path, const char *name,
    const char *format, ...) __attribute__((format(printf, 4, 5)));

/* With a kind other than ERROR_CONFIG. */
bool source_fail_as(const struct source *source, enum error_kind kind, const char *block_path,
    const char *name, const char *format, ...) __attribute__((format(printf, 5, 6)));

/* With a place that is known. */
bool source_fail_at(const struct source *source, size_t line, size_t column, const char *path,
    const char *format, ...) __attribute__((format(printf, 5, 6)));

/* Whether the key is in the file. */
bool source_has(const struct source *source, const char *block_path, const char *name);

/* "FILE:LINE:COLUMN: path", for errors found after the file is closed; free it. */
char *source_where(const struct source *source, const char *path);

/* "parent.name", or "name" at the top; "parent[item]". */
void key_path_join(char out[KEY_PATH_SIZE], const char *parent, const char *name);
void key_path_item(char out[KEY_PATH_SIZE], const char *parent, size_t item);
