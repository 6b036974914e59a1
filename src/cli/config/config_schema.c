/*
 * The key tables as a JSON Schema, for editors. A schema knows less than the
 * tables: what a text must look like, ranges of durations and rules between keys are
 * `pgcourier check`'s. What it refuses is always wrong; and any value may be a
 * reference, ${VAR}, of which it knows nothing.
 */
#include "cli/config/config_commands.h"

#include "base/alloc.h"
#include "config/config_keys.h"
#include "config/value_types.h"

#include <stdlib.h>
#include <string.h>

static json_t *schema_of_block(const struct config_block *block, bool is_sink);

/* A value that cannot be judged before it is filled in. */
static json_t *reference(void)
{
        return json_pack("{s:s s:s}", "type", "string", "pattern", "\\$\\{");
}

static void set_limit(json_t *schema, const char *name, const char *limit)
{
        if (limit != NULL)
                json_object_set_new(schema, name, json_loads(limit, JSON_DECODE_ANY, NULL));
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

/* As YAML reads it, as a text, or as a reference. */
static json_t *scalar(const struct config_key *key)
{
        const struct value_type *type = &value_types[key->type];
        json_t *forms;
        json_t *as_json;

        if (key->choices != NULL)
                return choice(key);
        if (type->json_schema == NULL)
                return text();
        forms = json_array();
        as_json = json_loads(type->json_schema, 0, NULL);
        if (key->type == KEY_INTEGER || key->type == KEY_NUMBER) {
                set_limit(as_json, "minimum", key->min);
                set_limit(as_json, "maximum", key->max);
        }
        json_array_append_new(forms, as_json);
        if (type->pattern != NULL)
                json_array_append_new(
                    forms, json_pack("{s:s s:s}", "type", "string", "pattern", type->pattern));
        json_array_append_new(forms, reference());
        return json_pack("{s:o}", "anyOf", forms);
}

static json_t *schema_of_item(const struct config_key *key)
{
        if (key->block != NULL)
                return schema_of_block(key->block, strcmp(key->name, "sinks") == 0);
        if (key->type == KEY_OPTIONS)
                return json_pack("{s:s s:{s:[s s s]}}", "type", "object", "additionalProperties",
                    "type", "string", "number", "boolean");
        return scalar(key);
}

static json_t *schema_of_value(const struct config_key *key)
{
        json_t *schema;

        if (!key->is_list || key->type == KEY_FILE_OF)
                return schema_of_item(key);
        schema = json_pack("{s:s s:o}", "type", "array", "items", schema_of_item(key));
        if (key->is_required)
                json_object_set_new(schema, "minItems", json_integer(1));
        if (key->max_items > 0)
                json_object_set_new(schema, "maxItems", json_integer(key->max_items));
        return schema;
}

static json_t *property(const struct config_key *key)
{
        json_t *schema = schema_of_value(key);
        char *help = key_help(key);

        json_object_set_new(schema, "description", json_string(help));
        free(help);
        if (key->fallback != NULL)
                json_object_set_new(schema, "default", json_string(key->fallback));
        return schema;
}

/* A value or the file that holds it: not both, and one of them if it is required. */
static void add_rules(json_t *rules, json_t *required, const struct config_block *block)
{
        for (size_t i = 0; i < block->n_keys; i++) {
                const struct config_key *key = &block->keys[i];
                const struct config_key *file;

                if (key->type == KEY_FILE_OF)
                        continue;
                file = key_twin(block, key);
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

static json_t *schema_of_block(const struct config_block *block, bool is_sink)
{
        json_t *properties = json_object();
        json_t *required = json_array();
        json_t *rules = json_array();
        json_t *schema;

        for (size_t i = 0; i < block->n_keys; i++) {
                const struct config_key *key = &block->keys[i];
                json_object_set_new(properties, key->name, property(key));
                if (!key->is_required && key_is_required(key))
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
