/*
 * Where each key of a YAML text stands. libcyaml forgets positions once it has
 * loaded a file, and reports syntax errors and repeated keys without one; this
 * is a walk of its own over libyaml's events, which keeps the shape of the
 * text but no value. It also refuses what no config file needs and what could
 * be used to exhaust us: aliases, anchors, tags, several documents, keys that are not plain
 * words, NUL characters, absurd sizes.
 */
#pragma once

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>

enum place_kind { PLACE_SCALAR, PLACE_NULL, PLACE_MAPPING, PLACE_LIST };

struct place {
        enum place_kind kind; /* PLACE_NULL: nothing, ~ or null, without quotes */
        size_t line;          /* of the key, or of a list's item; from 1 */
        size_t column;        /* in characters, from 1 */
};

struct places;

/*
 * On failure returns NULL, sets *error to the reason, *out_place to where and
 * *out_path to the key it is about (owned by the caller, "" for none).
 */
struct places *places_read(
    const char *text, size_t length, struct place *out_place, char **out_path, struct error *error);

/* The place of a path such as "sinks[2].http.timeout" ("" is the whole text); NULL if it has none. */
const struct place *places_find(const struct places *places, const char *path);

void places_destroy(struct places *places); /* NULL is allowed */
