/*
 * Texts with {{variables}}: the part of Mustache (mustache.github.io) that
 * messages need. Parsed once into a flat program, rendered from JSON values.
 *
 *   {{name}} {{a.b}} {{.}}   the value; HTML-escaped if the text is HTML
 *   {{{name}}} {{&name}}     the value as it is
 *   {{#name}}...{{/name}}    once for each item of a list, else once if the value is something
 *   {{^name}}...{{/name}}    once if the value is nothing, or missing
 *   {{! a comment}}
 *
 * false, null, "" and [] are nothing; all else is something, 0 as well. A tag
 * of the last three lines that is alone on its line takes the line with it.
 *
 * Unlike elsewhere, a missing value is an error and not an empty text: a mail
 * without its name or amount is worse than no mail. Partials and other
 * delimiters are refused.
 *
 * Pure, and safe to render on several threads at once.
 */
#pragma once

#include "base/bytes.h"
#include "base/error.h"
#include "pgcourier/outcome.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#define MUSTACHE_MAX_DEPTH        64            /* of sections in sections */
#define MUSTACHE_MAX_NAME_BYTES   255           /* of a name with its dots */
#define MUSTACHE_MAX_OUTPUT_BYTES (1024 * 1024) /* of one rendering */
#define MUSTACHE_MAX_STEPS        1000000       /* tags and texts passed in one rendering */

struct mustache;

/* `source` is what messages call the text, e.g. its file's name; `text` need not end in NUL. On
 * failure returns NULL and sets *error (ERROR_CONFIG) to "SOURCE:LINE:COLUMN: what is wrong". */
struct mustache *mustache_parse(
    const char *source, const char *text, size_t length, bool is_html, struct error *error);

void mustache_destroy(struct mustache *mustache); /* NULL is allowed */

/* Appends to `out`. On failure *out_rejected says where and why; `out` holds a part then. */
bool mustache_render(const struct mustache *mustache, const json_t *values, struct bytes *out,
    struct outcome *out_rejected);
