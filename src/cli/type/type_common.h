/* What the subcommands of `pgcourier type` have in common. */
#pragma once

#include "cli/cli.h"

#include <jansson.h>

struct bytes;
struct http_config;
struct rows;

extern const struct command type_set_command;
extern const struct command type_docs_command;

/* The JSON text; NULL and *error, which begins with `what`, if jansson cannot hold it. */
json_t *type_parse_json(const char *what, const char *text, struct error *error);

/* The same as text with line breaks, to be freed; reals with as many digits as they mostly had. */
char *type_json_text(const json_t *json);

/* The catalogue as it is documented, and the requests by which its events come. */
struct type_docs {
        const char *title;
        const struct http_config *http;
        bool is_signed;
        char revision[16]; /* the day of the newest change */
        struct type_doc {
                const char *name;
                const char *description; /* or NULL */
                bool is_deprecated;
                json_t *schema;  /* owned; or NULL */
                json_t *example; /* owned; or NULL */
                const char *example_text;
                char *key; /* owned; unique, of A-Z a-z 0-9 . _ - */
        } * types;         /* owned */
        size_t n_types;
        struct rows *rows; /* owned */
};

/* New documents. */
json_t *type_openapi(const struct type_docs *docs);
json_t *type_asyncapi(const struct type_docs *docs);
void type_page_append(struct bytes *out, const struct type_docs *docs);
