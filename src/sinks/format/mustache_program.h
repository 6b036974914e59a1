/* What mustache.c makes of a text and mustache_render.c runs; for these two files only. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

enum step_kind { STEP_TEXT, STEP_VALUE, STEP_RAW_VALUE, STEP_SECTION, STEP_INVERTED };

struct step {
        enum step_kind kind;
        const char *text; /* STEP_TEXT: what to copy; else the name. In mustache::text */
        size_t length;
        size_t offset; /* of the tag: its line and column are only worked out for an error */
        size_t after;  /* STEP_SECTION, STEP_INVERTED: the first step behind the section */
};

struct mustache {
        char *source; /* owned */
        char *text;   /* owned */
        struct step *steps;
        size_t n_steps;
        size_t capacity;
        bool is_html;
};

struct mustache_place {
        unsigned line;   /* from 1 */
        unsigned column; /* from 1, in characters */
};

struct mustache_place mustache_place_of(const char *text, size_t offset);
