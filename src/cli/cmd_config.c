/* What a configuration comes to, and what there can be in one. */
#include "base/alloc.h"
#include "cli/commands.h"
#include "config/config_keys.h"
#include "config/config_show.h"
#include "config/value_types.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *origin_name(enum config_origin origin)
{
        switch (origin) {
        case ORIGIN_NONE:
                return "none";
        case ORIGIN_DEFAULT:
                return "default";
        case ORIGIN_FILE:
                return "file";
        case ORIGIN_VARIABLE:
                return "variable";
        case ORIGIN_SECRET:
                return "secret file";
        }
        return NULL;
}

static void print_line(void *owner, const struct config_shown *shown)
{
        (void)owner;
        if (shown->origin == ORIGIN_NONE)
                return;
        printf("%s: %s  # ", shown->path, shown->is_masked ? "***" : shown->value);
        fputs(origin_name(shown->origin), stdout);
        if (shown->from != NULL)
                printf(" %s", shown->from);
        if (shown->line > 0)
                printf(", line %zu", shown->line);
        putchar('\n');
}

static void add_value(void *owner, const struct config_shown *shown)
{
        json_t *values = owner;
        json_t *value = json_pack("{s:s s:s? s:b s:s s:s?}", "key", shown->path, "value",
            shown->value, "masked", (int)shown->is_masked, "origin", origin_name(shown->origin),
            "from", shown->from);

        json_object_set_new(
            value, "line", shown->line > 0 ? json_integer((json_int_t)shown->line) : json_null());
        json_array_append_new(values, value);
}

/* Every key with the value in force and where it comes from. */
static bool show(const char *path, bool as_json, struct error *error)
{
        json_t *values;
        bool ok;

        if (!as_json)
                return config_walk(path, print_line, NULL, error);
        values = json_array();
        ok = config_walk(path, add_value, values, error);
        if (ok) {
                json_t *document = json_pack("{s:s s:O}", "file", path, "values", values);
                json_dumpf(document, stdout, JSON_INDENT(2));
                putchar('\n');
                json_decref(document);
        }
        json_decref(values);
        return ok;
}

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

static json_t *text(bool may_be_empty)
{
        return json_pack("{s:[s s s] s:i}", "type", "string", "number", "boolean", "minLength",
            may_be_empty ? 0 : 1);
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
                return text(key->may_be_empty);
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

/*
 * The key tables as a JSON Schema. A schema knows less than the key tables: what a text must look
 * like, ranges of durations and rules between keys are `pgcourier check`'s. What it refuses is
 * always wrong; and any value may be a reference, ${VAR}, of which it knows nothing.
 */
static json_t *config_schema(void)
{
        json_t *schema = schema_of_block(&config_root, false);

        json_object_set_new(
            schema, "$schema", json_string("https://json-schema.org/draft/2020-12/schema"));
        json_object_set_new(schema, "title", json_string("pgcourier configuration"));
        return schema;
}

enum { CONFIG, JSON };

static const struct command_option show_options[] = {
    [CONFIG] = {"config", 'c', "FILE", false, "show: the configuration; required"},
    [JSON] = {"json", 0, NULL, false, "show: print one JSON object"},
    {0},
};

static bool run_show(const struct arguments *arguments, struct error *error)
{
        if (!arguments_has(arguments, CONFIG))
                return error_set(error, ERROR_USAGE,
                    "config show needs a configuration: pgcourier config show -c FILE");
        return show(arguments_value(arguments, CONFIG), arguments_has(arguments, JSON), error);
}

static bool run_schema(const struct arguments *arguments, struct error *error)
{
        json_t *schema = config_schema();

        (void)arguments;
        (void)error;
        json_dumpf(schema, stdout, JSON_INDENT(2));
        putchar('\n');
        json_decref(schema);
        return true;
}

static const struct command show_command = {
    .name = "show", .usage = "-c FILE [--json]", .options = show_options, .run = run_show};
static const struct command schema_command = {.name = "schema", .run = run_schema};

const struct command config_command = {
    .name = "config",
    .summary = "show the settings in effect, or a schema for editors",
    .details =
        "show prints each key with the value that takes effect, and where that comes from: a\n"
        "default, a line of the file, a variable of the environment or a file with a secret.\n"
        "Secrets, and what a module's options hold, are ***. schema prints a JSON Schema that\n"
        "editors understand.\n",
    .subcommands = (const struct command *const[]){&show_command, &schema_command, NULL},
};
