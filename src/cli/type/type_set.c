/*
 * `pgcourier type set`, and what it asks of a schema. A JSON Schema may have any keyword, and most
 * values of a keyword mean something, so a mistake stays silent: "requierd", or "items" with a
 * list, which an older draft had. What can be told from the keywords alone is told here.
 */
#include "base/alloc.h"
#include "base/bytes.h"
#include "cli/connect.h"
#include "cli/input.h"
#include "cli/type/type_common.h"
#include "config/suggest.h"
#include "operator/type_rows.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DIALECT   "https://json-schema.org/draft/2020-12/schema"
#define MAX_BYTES (256 * 1024)
#define MAX_DEPTH 100

enum { DESCRIPTION, SCHEMA, EXAMPLE, DEPRECATED, NOT_DEPRECATED };

static const struct command_option options[] = {
    [DESCRIPTION] = {"description", 0, "TEXT", false, "what such an event says"},
    [SCHEMA] = {"schema", 0, "FILE", false, "a JSON Schema of the payload; -: standard input"},
    [EXAMPLE] = {"example", 0, "FILE", false, "a payload as it may come; -: standard input"},
    [DEPRECATED] = {"deprecated", 0, NULL, false, "new receivers should not rely on it"},
    [NOT_DEPRECATED] = {"not-deprecated", 0, NULL, false, "they may again"},
    {0},
};

/* What the value of a keyword has to be. */
enum form {
        FORM_ANY,
        FORM_TEXT,
        FORM_BOOLEAN,
        FORM_NUMBER,
        FORM_POSITIVE, /* a number above 0 */
        FORM_COUNT,    /* a whole number from 0 */
        FORM_LIST,
        FORM_TYPES, /* the name of a type, or a list of some */
        FORM_NAMES, /* a list of texts, none twice */
        FORM_SCHEMA,
        FORM_SCHEMAS,       /* a list of them, not empty */
        FORM_NAMED_SCHEMAS, /* an object of them */
        FORM_NAMED_NAMES,   /* an object of lists of texts */
};

static const char *const form_words[] = {
    [FORM_ANY] = "anything",
    [FORM_TEXT] = "a text",
    [FORM_BOOLEAN] = "true or false",
    [FORM_NUMBER] = "a number",
    [FORM_POSITIVE] = "a number above 0",
    [FORM_COUNT] = "a whole number from 0 on",
    [FORM_LIST] = "a list",
    [FORM_TYPES] =
        "one of null, boolean, object, array, number, string, integer, or a list of some",
    [FORM_NAMES] = "a list of texts, none of them twice",
    [FORM_SCHEMA] = "a schema: an object, true or false",
    [FORM_SCHEMAS] = "a list of schemas, not empty",
    [FORM_NAMED_SCHEMAS] = "an object of schemas",
    [FORM_NAMED_NAMES] = "an object of lists of texts",
};

static const struct keyword {
        const char *name;
        enum form form;
} keywords[] = {
    {"$schema", FORM_TEXT}, {"$id", FORM_TEXT}, {"$ref", FORM_TEXT}, {"$anchor", FORM_TEXT},
    {"$dynamicRef", FORM_TEXT}, {"$dynamicAnchor", FORM_TEXT}, {"$comment", FORM_TEXT},
    {"$vocabulary", FORM_ANY}, {"$defs", FORM_NAMED_SCHEMAS}, {"definitions", FORM_NAMED_SCHEMAS},
    {"type", FORM_TYPES}, {"enum", FORM_LIST}, {"const", FORM_ANY}, {"multipleOf", FORM_POSITIVE},
    {"maximum", FORM_NUMBER}, {"exclusiveMaximum", FORM_NUMBER}, {"minimum", FORM_NUMBER},
    {"exclusiveMinimum", FORM_NUMBER}, {"maxLength", FORM_COUNT}, {"minLength", FORM_COUNT},
    {"pattern", FORM_TEXT}, {"maxItems", FORM_COUNT}, {"minItems", FORM_COUNT},
    {"uniqueItems", FORM_BOOLEAN}, {"maxContains", FORM_COUNT}, {"minContains", FORM_COUNT},
    {"maxProperties", FORM_COUNT}, {"minProperties", FORM_COUNT}, {"required", FORM_NAMES},
    {"dependentRequired", FORM_NAMED_NAMES}, {"properties", FORM_NAMED_SCHEMAS},
    {"patternProperties", FORM_NAMED_SCHEMAS}, {"additionalProperties", FORM_SCHEMA},
    {"propertyNames", FORM_SCHEMA}, {"unevaluatedProperties", FORM_SCHEMA},
    {"dependentSchemas", FORM_NAMED_SCHEMAS}, {"items", FORM_SCHEMA}, {"prefixItems", FORM_SCHEMAS},
    {"contains", FORM_SCHEMA}, {"unevaluatedItems", FORM_SCHEMA}, {"allOf", FORM_SCHEMAS},
    {"anyOf", FORM_SCHEMAS}, {"oneOf", FORM_SCHEMAS}, {"not", FORM_SCHEMA}, {"if", FORM_SCHEMA},
    {"then", FORM_SCHEMA}, {"else", FORM_SCHEMA}, {"format", FORM_TEXT},
    {"contentEncoding", FORM_TEXT}, {"contentMediaType", FORM_TEXT}, {"contentSchema", FORM_SCHEMA},
    {"title", FORM_TEXT}, {"description", FORM_TEXT}, {"default", FORM_ANY},
    {"deprecated", FORM_BOOLEAN}, {"readOnly", FORM_BOOLEAN}, {"writeOnly", FORM_BOOLEAN},
    {"examples", FORM_LIST}, {"example", FORM_ANY}, /* OpenAPI's, which is widely used */
};

static bool is_type(const json_t *value)
{
        static const char *const types[] = {
            "null", "boolean", "object", "array", "number", "string", "integer"};

        for (size_t i = 0; json_is_string(value) && i < sizeof types / sizeof *types; i++)
                if (strcmp(json_string_value(value), types[i]) == 0)
                        return true;
        return false;
}

static bool are_names(const json_t *value)
{
        if (!json_is_array(value))
                return false;
        for (size_t i = 0; i < json_array_size(value); i++) {
                if (!json_is_string(json_array_get(value, i)))
                        return false;
                for (size_t j = 0; j < i; j++)
                        if (json_equal(json_array_get(value, i), json_array_get(value, j)))
                                return false;
        }
        return true;
}

static bool are_types(const json_t *value)
{
        if (!json_is_array(value))
                return is_type(value);
        for (size_t i = 0; i < json_array_size(value); i++)
                if (!is_type(json_array_get(value, i)))
                        return false;
        return json_array_size(value) > 0 && are_names(value);
}

static bool is_schema(const json_t *value)
{
        return json_is_object(value) || json_is_boolean(value);
}

static bool are_all(const json_t *value, bool (*is_one)(const json_t *value))
{
        const char *name;
        json_t *member;

        if (!json_is_object(value))
                return false;
        json_object_foreach(
            (json_t *)(uintptr_t)value, name, member) if (!is_one(member)) return false;
        return true;
}

static bool has_form(enum form form, const json_t *value)
{
        switch (form) {
        case FORM_ANY:
                return true;
        case FORM_TEXT:
                return json_is_string(value);
        case FORM_BOOLEAN:
                return json_is_boolean(value);
        case FORM_NUMBER:
                return json_is_number(value);
        case FORM_POSITIVE:
                return json_is_number(value) && json_number_value(value) > 0;
        case FORM_COUNT:
                return json_is_integer(value) && json_integer_value(value) >= 0;
        case FORM_LIST:
                return json_is_array(value);
        case FORM_TYPES:
                return are_types(value);
        case FORM_NAMES:
                return are_names(value);
        case FORM_SCHEMA:
                return is_schema(value);
        case FORM_SCHEMAS:
                for (size_t i = 0; i < json_array_size(value); i++)
                        if (!is_schema(json_array_get(value, i)))
                                return false;
                return json_array_size(value) > 0;
        case FORM_NAMED_SCHEMAS:
                return are_all(value, is_schema);
        case FORM_NAMED_NAMES:
                return are_all(value, are_names);
        }
        abort();
}

struct walk {
        struct bytes pointer;
        unsigned depth;
        struct error *error;
};

/* Steps into a member of that name, as a JSON pointer has it; returns where to step back to. */
static size_t step(struct walk *walk, const char *name)
{
        size_t length = walk->pointer.length;

        bytes_append_text(&walk->pointer, "/");
        for (; *name != '\0'; name++)
                if (*name == '~' || *name == '/')
                        bytes_append_text(&walk->pointer, *name == '~' ? "~0" : "~1");
                else
                        bytes_append(&walk->pointer, name, 1);
        return length;
}

static void step_back(struct walk *walk, size_t length)
{
        walk->pointer.length = length;
        walk->pointer.data[length] = '\0';
}

static bool check_schema(struct walk *walk, const json_t *schema);

static bool check_member(struct walk *walk, const char *name, const json_t *schema)
{
        size_t length = step(walk, name);
        bool ok = check_schema(walk, schema);

        step_back(walk, length);
        return ok;
}

/* The schemas in the value of a keyword. */
static bool check_below(struct walk *walk, enum form form, const json_t *value)
{
        const char *name;
        json_t *member;
        char number[24];

        if (form == FORM_SCHEMA)
                return check_schema(walk, value);
        if (form == FORM_SCHEMAS)
                for (size_t i = 0; i < json_array_size(value); i++) {
                        snprintf(number, sizeof number, "%zu", i);
                        if (!check_member(walk, number, json_array_get(value, i)))
                                return false;
                }
        if (form == FORM_NAMED_SCHEMAS)
                json_object_foreach((json_t *)(uintptr_t)value, name,
                    member) if (!check_member(walk, name, member)) return false;
        return true;
}

static void warn_of_unknown(const char *pointer, const char *keyword, const char *meant)
{
        fprintf(stderr, "--schema: %s: \"%s\" is no keyword of JSON Schema%s%s%s\n", pointer,
            keyword, meant != NULL ? "; did you mean \"" : "", meant != NULL ? meant : "",
            meant != NULL ? "\"?" : "");
}

static const struct keyword *find_keyword(struct walk *walk, const char *name)
{
        const char *meant = NULL;

        for (size_t i = 0; i < sizeof keywords / sizeof *keywords; i++) {
                if (strcmp(keywords[i].name, name) == 0)
                        return &keywords[i];
                meant = suggest_nearer(name, meant, keywords[i].name);
        }
        if (strncmp(name, "x-", 2) != 0)
                warn_of_unknown(walk->pointer.data, name, meant);
        return NULL;
}

static bool check_keyword(
    struct walk *walk, const char *name, const json_t *value, const struct keyword *keyword)
{
        bool is_list_of_items = strcmp(name, "items") == 0 && json_is_array(value);

        if (has_form(keyword->form, value))
                return check_below(walk, keyword->form, value);
        return error_set(walk->error, ERROR_USAGE, "%.300s must be %s%s", walk->pointer.data,
            form_words[keyword->form],
            is_list_of_items ? "; a list is called prefixItems in the draft 2020-12" : "");
}

static bool check_schema(struct walk *walk, const json_t *schema)
{
        const char *name;
        json_t *value;
        bool ok = true;

        if (++walk->depth > MAX_DEPTH)
                return error_set(walk->error, ERROR_USAGE,
                    "%.300s: schemas are nested more than %d deep", walk->pointer.data, MAX_DEPTH);
        json_object_foreach((json_t *)(uintptr_t)schema, name, value)
        {
                const struct keyword *keyword = find_keyword(walk, name);
                size_t length = step(walk, name);

                ok = ok && (keyword == NULL || check_keyword(walk, name, value, keyword));
                step_back(walk, length);
        }
        walk->depth--;
        return ok;
}

static bool check_root(const json_t *schema, struct error *error)
{
        const char *dialect = json_string_value(json_object_get(schema, "$schema"));
        struct walk walk = {.error = error};
        bool ok;

        if (!json_is_object(schema))
                return error_set(error, ERROR_USAGE, "a schema must be a JSON object");
        if (dialect != NULL && strcmp(dialect, DIALECT) != 0 && strcmp(dialect, DIALECT "#") != 0)
                return error_set(error, ERROR_USAGE,
                    "\"$schema\" names another draft, %.100s; leave it out, or write " DIALECT,
                    dialect);
        bytes_append_text(&walk.pointer, "#");
        ok = check_schema(&walk, schema);
        bytes_deinit(&walk.pointer);
        return ok;
}

/* *out_text stays as it is if the option is not given. */
static bool read_json(const struct arguments *arguments, unsigned option, struct bytes *content,
    json_t **out_json, const char **out_text, struct error *error)
{
        const char *path = arguments_value(arguments, option);
        char *what;

        if (path == NULL)
                return true;
        *out_text = "";
        if (*path == '\0') /* it goes */
                return true;
        if (!input_read(path, MAX_BYTES, content, error))
                return false;
        what = xasprintf(
            "--%s: %.200s", options[option].name, strcmp(path, "-") == 0 ? "standard input" : path);
        /* The line break with which editors end a file is no part of a payload. */
        while (content->length > 0 && strchr(" \t\r\n", content->data[content->length - 1]) != NULL)
                content->data[--content->length] = '\0';
        if (content->length == 0 || strlen(content->data) != content->length)
                error_set(error, ERROR_USAGE, "%s: %s", what,
                    content->length == 0 ? "the file is empty" : "there is a NUL in it");
        else
                *out_json = type_parse_json(what, content->data, error);
        *out_text = content->data;
        free(what);
        return *out_json != NULL;
}

static bool check_words(
    const struct arguments *arguments, struct type_change *change, struct error *error)
{
        const char *schema = arguments_value(arguments, SCHEMA);
        const char *example = arguments_value(arguments, EXAMPLE);

        change->name = arguments->operands[0];
        change->description = arguments_value(arguments, DESCRIPTION);
        if (arguments_has(arguments, DEPRECATED) && arguments_has(arguments, NOT_DEPRECATED))
                return error_set(
                    error, ERROR_USAGE, "--deprecated and --not-deprecated exclude each other");
        if (arguments_has(arguments, DEPRECATED))
                change->deprecated = "true";
        if (arguments_has(arguments, NOT_DEPRECATED))
                change->deprecated = "false";
        return schema == NULL || example == NULL || strcmp(schema, "-") != 0 ||
               strcmp(example, "-") != 0 ||
               error_set(error, ERROR_USAGE, "--schema - and --example - exclude each other");
}

static bool set(struct blocking_conn *conn, const struct type_change *change, struct error *error)
{
        struct rows *rows = type_set(conn, change, error);

        if (rows == NULL)
                return false;
        if (rows_count(rows) == 0)
                fprintf(stderr, "%s is in the catalogue already, and nothing was to change\n",
                    change->name);
        else
                printf("%s %s\n", rows_bool(rows, 0, 0) ? "added" : "changed", change->name);
        rows_free(rows);
        return true;
}

static bool check_schema_option(const json_t *schema, struct error *error)
{
        struct error why = {0};

        return schema == NULL || check_root(schema, &why) ||
               error_set(error, why.kind, "--schema: %s", why.text);
}

static bool run_set(const struct arguments *arguments, struct error *error)
{
        struct type_change change = {0};
        struct bytes schema_text = {0}, example_text = {0};
        json_t *schema = NULL, *example = NULL;
        struct blocking_conn *conn = NULL;
        bool ok;

        if (check_words(arguments, &change, error) &&
            read_json(arguments, SCHEMA, &schema_text, &schema, &change.schema, error) &&
            read_json(arguments, EXAMPLE, &example_text, &example, &change.example, error) &&
            check_schema_option(schema, error))
                conn = command_connect(arguments, error);
        ok = conn != NULL && set(conn, &change, error);
        json_decref(schema);
        json_decref(example);
        bytes_deinit(&schema_text);
        bytes_deinit(&example_text);
        return ok;
}

const struct command type_set_command = {
    .name = "set",
    .usage = "NAME [--description TEXT] [--schema FILE] [--example FILE]\n"
             "                 [--deprecated | --not-deprecated]",
    .options = options,
    .min_operands = 1,
    .max_operands = 1,
    .run = run_set,
};
