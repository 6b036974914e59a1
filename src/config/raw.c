#include "config/raw.h"

#include "base/alloc.h"
#include "base/bytes.h"
#include "config/suggest.h"

#include <cyaml/cyaml.h>
#include <malloc.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The fields of one block; those of the blocks within it hang on `next`. */
struct raw_schema {
        cyaml_schema_value_t value; /* a mapping with these fields */
        cyaml_schema_field_t *fields;
        struct raw_schema *next;
};

static const cyaml_schema_value_t text_schema = {
    .type = CYAML_STRING,
    .flags = CYAML_FLAG_POINTER,
    .data_size = sizeof(char),
    .string = {.min = 0, .max = CYAML_UNLIMITED},
};

/* Adds the schema of `block` to the list of all that will have to be freed. */
static struct raw_schema *schema_add(struct raw_schema **all, const struct config_block *block)
{
        struct raw_schema *schema = xcalloc(1, sizeof *schema);

        schema->next = *all;
        *all = schema;
        schema->fields = xcalloc(block->n_keys + 1, sizeof *schema->fields);
        schema->value = (cyaml_schema_value_t){
            .type = CYAML_MAPPING,
            .flags = CYAML_FLAG_POINTER,
            .data_size = (uint32_t)(block->n_keys * sizeof(struct raw_slot)),
            .mapping = {.fields = schema->fields},
        };
        return schema;
}

static struct raw_schema *schema_build(struct raw_schema **all, const struct config_block *block);

static cyaml_schema_value_t list_of(const cyaml_schema_value_t *entry, uint32_t entry_bytes)
{
        return (cyaml_schema_value_t){
            .type = CYAML_SEQUENCE,
            .flags = CYAML_FLAG_POINTER,
            .data_size = entry_bytes,
            .sequence = {.entry = entry, .min = 0, .max = CYAML_UNLIMITED},
        };
}

static cyaml_schema_value_t value_schema(struct raw_schema **all, const struct config_key *key)
{
        struct raw_schema *block;

        switch (key_shape(key->type)) {
        case SHAPE_SCALAR:
                return text_schema;
        case SHAPE_TEXTS:
                return list_of(&text_schema, sizeof(char *));
        case SHAPE_BLOCK:
                return schema_build(all, key->block)->value;
        case SHAPE_BLOCKS:
                block = schema_build(all, key->block);
                block->value.flags = CYAML_FLAG_DEFAULT; /* in a row, not each on its own */
                return list_of(&block->value, block->value.data_size);
        case SHAPE_OPTIONS: /* module_options.c reads them */
                return (cyaml_schema_value_t){.type = CYAML_IGNORE};
        }
        abort();
}

static struct raw_schema *schema_build(struct raw_schema **all, const struct config_block *block)
{
        struct raw_schema *schema = schema_add(all, block);

        for (size_t i = 0; i < block->n_keys; i++) {
                cyaml_schema_field_t *field = &schema->fields[i];
                size_t offset = i * sizeof(struct raw_slot);
                field->key = block->keys[i].name;
                field->value = value_schema(all, &block->keys[i]);
                /* What is missing is said in our words, after the twins (dsn_file) were seen. */
                field->value.flags |= CYAML_FLAG_OPTIONAL;
                field->data_offset = (uint32_t)(offset + offsetof(struct raw_slot, value));
                field->count_offset = (uint32_t)(offset + offsetof(struct raw_slot, count));
                field->count_size = sizeof(uint64_t);
        }
        return schema;
}

static void schema_free_all(struct raw_schema *schema)
{
        while (schema != NULL) {
                struct raw_schema *next = schema->next;
                free(schema->fields);
                free(schema);
                schema = next;
        }
}

/* libcyaml's allocator: clears what it frees, as any of its texts may be a secret. */
static void *allocate(void *context, void *block, size_t size)
{
        (void)context;
        if (size > 0)
                return xrealloc(block, size);
        if (block != NULL)
                explicit_bzero(block, malloc_usable_size(block));
        free(block);
        return NULL;
}

/*
 * What libcyaml says through its log when it refuses a text: what is wrong, and
 * then the way there, from the inside out, list items counted from one:
 *   Load: Unexpected key: urll
 *   Load: Backtrace:
 *     in mapping (line: 4, column: 7)
 *     in mapping field 'http' (line: 4, column: 7)
 *     in sequence entry '1' (line: 2, column: 5)
 *     in mapping field 'sinks' (line: 2, column: 3)
 */
struct complaint {
        char *unknown_key; /* owned; NULL: it is not about one */
        char path[KEY_PATH_SIZE];
};

static void prepend(struct complaint *complaint, const char *step)
{
        char rest[KEY_PATH_SIZE];

        memcpy(rest, complaint->path, sizeof rest);
        if (*rest == '\0' || *rest == '[')
                snprintf(complaint->path, sizeof complaint->path, "%s%.*s", step,
                    (int)(sizeof rest - strlen(step) - 1), rest);
        else
                snprintf(complaint->path, sizeof complaint->path, "%s.%.*s", step,
                    (int)(sizeof rest - strlen(step) - 2), rest);
}

static void on_cyaml_log(cyaml_log_t level, void *context, const char *format, va_list arguments)
    __attribute__((format(printf, 3, 0)));

static void on_cyaml_log(cyaml_log_t level, void *context, const char *format, va_list arguments)
{
        static const char unexpected[] = "Load: Unexpected key: ";
        struct complaint *complaint = context;
        char step[64];
        char *line = xvasprintf(format, arguments);
        unsigned item;

        (void)level;
        if (strncmp(line, unexpected, sizeof unexpected - 1) == 0 &&
            complaint->unknown_key == NULL) {
                complaint->unknown_key = xstrdup(line + sizeof unexpected - 1);
                if (*complaint->unknown_key != '\0')
                        complaint->unknown_key[strlen(complaint->unknown_key) - 1] = '\0';
        } else if (sscanf(line, " in mapping field '%63[a-z_]'", step) == 1) {
                prepend(complaint, step);
        } else if (sscanf(line, " in sequence entry '%u'", &item) == 1 && item > 0) {
                snprintf(step, sizeof step, "[%u]", item - 1);
                prepend(complaint, step);
        }
        free(line);
}

static const struct config_key *find_key(
    const struct config_block *block, const char *name, size_t length)
{
        for (size_t i = 0; i < block->n_keys; i++)
                if (strlen(block->keys[i].name) == length &&
                    memcmp(block->keys[i].name, name, length) == 0)
                        return &block->keys[i];
        return NULL;
}

/* The row that a path leads to; NULL for the whole file. */
static const struct config_key *key_at(const char *path)
{
        const struct config_block *block = &config_root;
        const struct config_key *key = NULL;

        while (*path != '\0' && block != NULL) {
                size_t length = strcspn(path, ".[");
                key = find_key(block, path, length);
                if (key == NULL)
                        return NULL;
                block = key->block;
                path += length;
                path += strcspn(path, ".");
                path += *path == '.';
        }
        return key;
}

static bool fail_unknown_key(const struct source *source, const struct complaint *complaint)
{
        const struct config_key *key = key_at(complaint->path);
        const struct config_block *block = key != NULL ? key->block : &config_root;
        struct bytes allowed = {0};
        char path[KEY_PATH_SIZE];
        const char *nearest = NULL;

        for (size_t i = 0; i < block->n_keys; i++) {
                bytes_printf(&allowed, "%s%s", i > 0 ? ", " : "", block->keys[i].name);
                nearest = suggest_nearer(complaint->unknown_key, nearest, block->keys[i].name);
        }
        key_path_join(path, complaint->path, complaint->unknown_key);
        if (nearest != NULL)
                source_fail(source, path, "is not a known key; did you mean %s? allowed: %s",
                    nearest, allowed.data);
        else
                source_fail(source, path, "is not a known key; allowed: %s", allowed.data);
        bytes_deinit(&allowed);
        return false;
}

static const char *wanted_shape(const struct config_key *key, bool is_item)
{
        if (key == NULL)
                return "a mapping of keys to values";
        switch (key_shape(key->type)) {
        case SHAPE_SCALAR:
                return "a single value";
        case SHAPE_TEXTS:
                return is_item ? "a single value" : "a list of single values, as in [a, b]";
        case SHAPE_BLOCK:
                return "a mapping of keys to values ({} for all defaults)";
        case SHAPE_BLOCKS:
                return is_item ? "a mapping of keys to values"
                               : "a list of mappings, each after a dash";
        case SHAPE_OPTIONS:
                return is_item ? "a single value" : "a mapping of names to single values";
        }
        abort();
}

static const char *found_shape(const struct place *place)
{
        if (place == NULL)
                return "something else";
        switch (place->kind) {
        case PLACE_SCALAR:
                return "a single value";
        case PLACE_NULL:
                return "nothing";
        case PLACE_MAPPING:
                return "a mapping";
        case PLACE_LIST:
                return "a list";
        }
        abort();
}

static bool fail_refused(
    const struct source *source, const struct complaint *complaint, cyaml_err_t refusal)
{
        size_t length = strlen(complaint->path);
        bool is_item = length > 0 && complaint->path[length - 1] == ']';

        if (complaint->unknown_key != NULL)
                return fail_unknown_key(source, complaint);
        if (refusal == CYAML_ERR_INVALID_VALUE)
                return source_fail(source, complaint->path, "must be %s; found %s",
                    wanted_shape(key_at(complaint->path), is_item),
                    found_shape(places_find(source->places, complaint->path)));
        return source_fail(
            source, complaint->path, "cannot be loaded: %s", cyaml_strerror(refusal));
}

static cyaml_config_t cyaml_settings(struct complaint *complaint)
{
        return (cyaml_config_t){
            .log_fn = on_cyaml_log,
            .log_ctx = complaint,
            .mem_fn = allocate,
            .log_level = CYAML_LOG_ERROR,
            .flags = CYAML_CFG_NO_ALIAS,
        };
}

bool raw_load(const struct source *source, struct raw *out_raw)
{
        struct complaint complaint = {0};
        cyaml_config_t settings = cyaml_settings(&complaint);
        struct raw_schema *root;
        cyaml_data_t *data = NULL;
        cyaml_err_t result;

        *out_raw = (struct raw){0};
        root = schema_build(&out_raw->schema, &config_root);
        result = cyaml_load_data(
            (const uint8_t *)source->text, source->length, &settings, &root->value, &data, NULL);
        out_raw->slots = data;
        /* That the text is YAML has been found out before, by the same parser. */
        if (result == CYAML_ERR_LIBYAML_PARSER || result == CYAML_ERR_LIBYAML_PARSER_INIT)
                out_of_memory();
        if (result != CYAML_OK)
                fail_refused(source, &complaint, result);
        free(complaint.unknown_key);
        return result == CYAML_OK;
}

void raw_deinit(struct raw *raw)
{
        struct complaint complaint = {0};
        cyaml_config_t settings = cyaml_settings(&complaint);
        struct raw_schema *root = raw->schema;

        while (root != NULL && root->next != NULL)
                root = root->next; /* the first that was added */
        if (raw->slots != NULL)
                cyaml_free(&settings, &root->value, raw->slots, 0);
        schema_free_all(raw->schema);
        *raw = (struct raw){0};
}
