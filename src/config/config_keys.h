/*
 * The keys of the config file: one row each. Everything that has to know a key
 * (loading, checking, defaults, `config show`, the documentation) reads it from
 * here, so a new key is one row and one member of a struct in config.h.
 */
#pragma once

#include "config/values.h"

#include <stdbool.h>
#include <stddef.h>

/* In brackets: the member's type. */
enum key_type {
        KEY_TEXT,      /* [char *] owned */
        KEY_FILE_OF,   /* a file that holds the value of the KEY_TEXT row with the same member */
        KEY_LINES_OF,  /* a file with one item per line of the KEY_TEXTS row with the same member */
        KEY_CHOICE,    /* [enum, as unsigned] the value's place in `choices` */
        KEY_BOOL,      /* [bool] */
        KEY_INTEGER,   /* [uint32_t or uint64_t] */
        KEY_NUMBER,    /* [double] */
        KEY_DURATION,  /* [int64_t] milliseconds */
        KEY_SIZE,      /* [uint64_t] bytes */
        KEY_TEXTS,     /* [char **, and unsigned] a list of texts */
        KEY_DURATIONS, /* [int64_t *, and unsigned] a list of durations */
        KEY_BLOCK,     /* [struct] a mapping; left out, it takes its defaults */
        KEY_OPTIONAL_BLOCK, /* [struct *] a mapping; NULL when left out */
        KEY_BLOCKS,         /* [struct *, and unsigned] a list of mappings */
        KEY_OPTIONS,        /* [struct sink_options] a mapping of names that we do not know */
};

/* What stands in the file for a key, whatever its value means. */
enum key_shape {
        SHAPE_SCALAR,
        SHAPE_TEXTS,
        SHAPE_BLOCK,
        SHAPE_BLOCKS,
        SHAPE_OPTIONS,
};

enum key_shape key_shape(enum key_type type);

struct config_key {
        const char *name;
        enum key_type type;
        size_t offset;       /* of the member in the block's struct */
        size_t member_bytes; /* its size */
        size_t count_offset; /* of the member that counts, in lists */
        unsigned max_items;  /* of KEY_TEXTS, KEY_DURATIONS; 0: any number */
        bool is_required; /* a value is needed; for lists, at least one; KEY_FILE_OF counts too */
        bool is_secret;   /* no message, no `config show` may hold the value */
        const char *fallback; /* the default, as it would be written; NULL: none */
        const char *min; /* the range of numbers, durations and sizes, as it would be written */
        const char *max;
        const char *choices;   /* "a, b, c"; KEY_CHOICE, and KEY_TEXT for what stays text */
        value_check_fn *check; /* of a text, or of each text of a list; NULL: none */
        const struct config_block *block; /* of KEY_BLOCK, KEY_OPTIONAL_BLOCK, KEY_BLOCKS */
        const char *help;
};

struct config_block {
        const struct config_key *keys;
        size_t n_keys;
        size_t struct_bytes;
};

/* The whole file: struct config. */
extern const struct config_block config_root;
