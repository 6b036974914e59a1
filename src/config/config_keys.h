/*
 * The keys of the config file: one row each. Everything that has to know a key
 * (loading, checking, defaults, `config show`, the documentation) reads it from
 * here, so a new key is one row and one member of a struct in config.h.
 */
#pragma once

#include "config/values.h"

#include <stdbool.h>
#include <stddef.h>

/* In brackets: the type of a value in memory. A list has a pointer to its values, and their
 * number. */
enum key_type {
        KEY_TEXT,     /* [char *] owned */
        KEY_CHOICE,   /* [enum, as unsigned] the value's place in `choices` */
        KEY_BOOL,     /* [bool] */
        KEY_INTEGER,  /* [uint32_t or uint64_t] */
        KEY_NUMBER,   /* [double] */
        KEY_DURATION, /* [int64_t] milliseconds */
        KEY_SIZE,     /* [uint64_t] bytes */
        KEY_FILE_OF, /* a file that holds the value of the row with the same member, in one line; of
                       * a list, an item per line */
        KEY_BLOCK,   /* [struct] a mapping; left out, it takes its defaults */
        KEY_OPTIONAL_BLOCK, /* [struct *] a mapping; NULL when left out */
        KEY_OPTIONS,        /* [struct sink_options] a mapping of names that only a module knows */
};

struct config_key {
        const char *name;
        enum key_type type;
        size_t offset;      /* of the member in the block's struct */
        size_t value_bytes; /* of one value */
        bool is_list;
        size_t count_offset; /* of a list: of the unsigned member that counts its values */
        unsigned max_items;  /* of a list; 0: any number */
        bool is_required;  /* a value is needed; for lists, at least one; KEY_FILE_OF counts too */
        bool may_be_empty; /* of a text, or of each text of a list */
        bool is_secret;    /* no message, no `config show` may hold the value */
        const char *fallback; /* the default, as it would be written; NULL: none */
        const char *min; /* the range of numbers, durations and sizes, as it would be written */
        const char *max;
        const char *choices;   /* "a, b, c"; KEY_CHOICE, and KEY_TEXT for what stays text */
        value_check_fn *check; /* of a text, or of each text of a list; NULL: none */
        const struct config_block *block; /* of KEY_BLOCK and KEY_OPTIONAL_BLOCK */
        const char *help;                 /* Markdown; key_help() is plain */
};

struct config_block {
        const struct config_key *keys;
        size_t n_keys;
        size_t struct_bytes;
};

/* The whole file: struct config. */
extern const struct config_block config_root;

/* The values of a key in the struct of its block: one, those of a list, none of an optional block
 * that is left out. A KEY_FILE_OF has none, as its member is that of the row it stands for. */
struct key_values {
        char *first;
        unsigned n;
};
struct key_values key_values(const struct config_key *key, const void *target);

/* The row that is the other way to give the same member: of a KEY_FILE_OF that of the value, of a
 * value its KEY_FILE_OF; NULL if there is none. */
const struct config_key *key_twin(const struct config_block *block, const struct config_key *key);

/* It is required, or something in its block is. */
bool key_is_required(const struct config_key *key);

/* Its help without marks, and of links only their words; free it. */
char *key_help(const struct config_key *key);
