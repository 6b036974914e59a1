/*
 * The key tables as a JSON Schema, for editors. A schema knows less than the
 * tables: what a text must look like, ranges of durations and rules between keys are
 * `pgcourier check`'s. What it refuses is always wrong; and any value may be a
 * reference, ${VAR}, of which it knows nothing.
 */
#include "cli/config/config_commands.h"

#include "base/alloc.h"
#include "config/config_keys.h"

#include <stdlib.h>
#include <string.h>

static json_t *schema_of_block(const struct config_block *block, bool is_sink);

/* A value that cannot be judged before it is filled in. */
static json_t *reference(void)
{
        return json_pack("{s:s s:s}", "type", "string", "pattern", "\\$\\{");
}

static json_t *either(json_t *a, json_t *b)
{
        return json_pack("{s:[o o o]}", "anyOf", a, b, reference());
}

static json_t *pattern(const char *regex)
{
        return json_pack("{s:s s:s}", "type", "string", "pattern", regex);
}

static void set_limit(json_t *schema, const char *name, const char *limit)
{
        if (limit != NULL)
                json_object_set_new(schema, name, json_loads(limit, JSON_DECODE_ANY, NULL));
}

static json_t *number(const struct config_key *key, const char *type, const char *regex)
{
        json_t *schema = json_pack("{s:s}", "type", type);

        set_limit(schema, "minimum", key->min);
        set_limit(schema, "maximum", key->max);
        return either(schema, pattern(regex));
}

/* In YAML 1.1 and 2 are numbers, and so may a choice be. */
static json_t *choice(const struct config_key *key)
{
        json_t *values = json_array();
        char *copy = xstrdup(key->choices);
        char *rest = copy;
        char *value;

        while ((value = strsep(&rest, ",")) != NULL) {
                json_t *as_number;
                value += strspn(value, " ");
                json_array_append_new(values, json_string(value));
                as_number = json_loads(value, JSON_DECODE_ANY, NULL);
                if (json_is_number(as_number))
                        json_array_append(values, as_number);
                json_decref(as_number);
        }
        free(copy);
        return json_pack("{s:[{s:o} o]}", "anyOf", "enum", values, reference());
}

static json_t *text(void)
{
        return json_pack("{s:[s s s] s:i}", "type", "string", "number", "boolean", "minLength", 1);
}

static json_t *duration(void)
{
        return either(json_pack("{s:i}", "const", 0), pattern("^(0|[0-9]+(ms|s|m|h|d))$"));
}

static json_t *list(const struct config_key *key, json_t *items)
{
        json_t *schema = json_pack("{s:s s:o}", "type", "array", "items", items);

        if (key->is_required)
                json_object_set_new(schema, "minItems", json_integer(1));
        if (key->max_items > 0)
                json_object_set_new(schema, "maxItems", json_integer(key->max_items));
        return schema;
}

static json_t *schema_of_value(const struct config_key *key)
{
        switch (key->type) {
        case KEY_TEXT:
                return key->choices != NULL ? choice(key) : text();
        case KEY_FILE_OF:
        case KEY_LINES_OF:
                return text();
        case KEY_CHOICE:
                return choice(key);
        case KEY_BOOL:
                return json_pack(
                    "{s:[{s:[b b s s]} o]}", "anyOf", "enum", 1, 0, "true", "false", reference());
        case KEY_INTEGER:
                return number(key, "integer", "^(0|[1-9][0-9]*)$");
        case KEY_NUMBER:
                return number(key, "number", "^[0-9]+(\\.[0-9]+)?$");
        case KEY_DURATION:
                return duration();
        case KEY_SIZE:
                return either(json_pack("{s:s s:i}", "type", "integer", "minimum", 0),
                    pattern("^[0-9]+(B|kB|KiB|MB|MiB|GB|GiB)?$"));
        case KEY_TEXTS:
                return list(key, text());
        case KEY_DURATIONS:
                return list(key, duration());
        case KEY_BLOCK:
        case KEY_OPTIONAL_BLOCK:
                return schema_of_block(key->block, false);
        case KEY_BLOCKS:
                return list(key, schema_of_block(key->block, strcmp(key->name, "sinks") == 0));
        case KEY_OPTIONS:
                return json_pack("{s:s s:{s:[s s s]}}", "type", "object", "additionalProperties",
                    "type", "string", "number", "boolean");
        }
        abort();
}

static json_t *property(const struct config_key *key)
{
        json_t *schema = schema_of_value(key);

        json_object_set_new(schema, "description", json_string(key->help));
        if (key->fallback != NULL)
                json_object_set_new(schema, "default", json_string(key->fallback));
        return schema;
}

static const struct config_key *file_of(
    const struct config_block *block, const struct config_key *key)
{
        for (size_t i = 0; i < block->n_keys; i++)
                if ((block->keys[i].type == KEY_FILE_OF || block->keys[i].type == KEY_LINES_OF) &&
                    block->keys[i].offset == key->offset)
                        return &block->keys[i];
        return NULL;
}

/* A value or the file that holds it: not both, and one of them if it is required. */
static void add_rules(json_t *rules, json_t *required, const struct config_block *block)
{
        for (size_t i = 0; i < block->n_keys; i++) {
                const struct config_key *key = &block->keys[i];
                const struct config_key *file;

                if (key->type == KEY_FILE_OF || key->type == KEY_LINES_OF)
                        continue;
                file = file_of(block, key);
                if (file == NULL && key->is_required)
                        json_array_append_new(required, json_string(key->name));
                if (file == NULL)
                        continue;
                json_array_append_new(
                    rules, json_pack("{s:{s:[s s]}}", "not", "required", key->name, file->name));
                if (key->is_required)
                        json_array_append_new(
                            rules, json_pack("{s:[{s:[s]} {s:[s]}]}", "anyOf", "required",
                                       key->name, "required", file->name));
        }
}

static json_t *one_kind(const struct config_block *block)
{
        json_t *kinds = json_array();

        for (size_t i = 0; i < block->n_keys; i++)
                if (block->keys[i].type == KEY_OPTIONAL_BLOCK)
                        json_array_append_new(
                            kinds, json_pack("{s:[s]}", "required", block->keys[i].name));
        return json_pack("{s:o}", "oneOf", kinds);
}

bool config_block_is_required(const struct config_block *block)
{
        for (size_t i = 0; i < block->n_keys; i++)
                if (block->keys[i].is_required ||
                    (block->keys[i].type == KEY_BLOCK &&
                        config_block_is_required(block->keys[i].block)))
                        return true;
        return false;
}

static json_t *schema_of_block(const struct config_block *block, bool is_sink)
{
        json_t *properties = json_object();
        json_t *required = json_array();
        json_t *rules = json_array();
        json_t *schema;

        for (size_t i = 0; i < block->n_keys; i++) {
                const struct config_key *key = &block->keys[i];
                json_object_set_new(properties, key->name, property(key));
                if (key->type == KEY_BLOCK && !key->is_required &&
                    config_block_is_required(key->block))
                        json_array_append_new(required, json_string(key->name));
        }
        add_rules(rules, required, block);
        if (is_sink)
                json_array_append_new(rules, one_kind(block));
        schema = json_pack(
            "{s:s s:o s:b}", "type", "object", "properties", properties, "additionalProperties", 0);
        if (json_array_size(required) > 0)
                json_object_set(schema, "required", required);
        if (json_array_size(rules) > 0)
                json_object_set(schema, "allOf", rules);
        json_decref(required);
        json_decref(rules);
        return schema;
}

json_t *config_schema(void)
{
        json_t *schema = schema_of_block(&config_root, false);

        json_object_set_new(
            schema, "$schema", json_string("https://json-schema.org/draft/2020-12/schema"));
        json_object_set_new(schema, "title", json_string("pgcourier configuration"));
        return schema;
}
