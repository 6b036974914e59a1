#include "config/module_options.h"

#include "base/alloc.h"
#include "config/fill.h"
#include "config/scalar.h"
#include "config/secret.h"

#include <stdlib.h>
#include <string.h>
#include <yaml.h>

enum { MAX_OPTIONS = 1000, MAX_NAME_BYTES = 63 };

/* One mapping of the text, while it is taken over. */
struct reading {
        const struct source *source;
        yaml_document_t *document;
        const char *path;
        struct sink_option *options; /* room for all */
        size_t n_options;
};

static const char *text_of(const yaml_node_t *node)
{
        return (const char *)node->data.scalar.value;
}

static yaml_node_t *child_of(
    yaml_document_t *document, const yaml_node_t *mapping, const char *name, size_t length)
{
        if (mapping->type != YAML_MAPPING_NODE)
                return NULL;
        for (yaml_node_pair_t *pair = mapping->data.mapping.pairs.start;
             pair < mapping->data.mapping.pairs.top; pair++) {
                const yaml_node_t *key = yaml_document_get_node(document, pair->key);
                if (strlen(text_of(key)) == length && memcmp(text_of(key), name, length) == 0)
                        return yaml_document_get_node(document, pair->value);
        }
        return NULL;
}

static yaml_node_t *item_of(yaml_document_t *document, const yaml_node_t *list, size_t index)
{
        const yaml_node_item_t *first = list->data.sequence.items.start;

        if (list->type != YAML_SEQUENCE_NODE ||
            index >= (size_t)(list->data.sequence.items.top - first))
                return NULL;
        return yaml_document_get_node(document, first[index]);
}

/* What "sinks[2].module.options" names; NULL: nothing. */
static yaml_node_t *find_node(yaml_document_t *document, const char *path)
{
        yaml_node_t *node = yaml_document_get_root_node(document);

        while (node != NULL && *path != '\0') {
                if (*path == '[') {
                        char *end;
                        node = item_of(document, node, strtoull(path + 1, &end, 10));
                        path = end + 1;
                } else {
                        path += *path == '.';
                        size_t length = strcspn(path, ".[");
                        node = child_of(document, node, path, length);
                        path += length;
                }
        }
        return node;
}

static bool is_name(const char *text)
{
        size_t length = strlen(text);

        return length > 0 && length <= MAX_NAME_BYTES &&
               strspn(text, "abcdefghijklmnopqrstuvwxyz0123456789-_") == length;
}

static bool has_control_character(const char *text)
{
        for (; *text != '\0'; text++)
                if ((unsigned char)*text < ' ' || *text == 0x7f)
                        return true;
        return false;
}

static bool take_option(struct reading *reading, const char *name, const yaml_node_t *value)
{
        const struct source *source = reading->source;
        struct sink_option *option = &reading->options[reading->n_options];
        char path[KEY_PATH_SIZE];
        char *text;

        key_path_join(path, reading->path, name);
        if (!is_name(name))
                return source_fail(source, path,
                    "is not the name of an option; allowed: 1 to 63 of a-z, 0-9, - and _");
        if (value->type != YAML_SCALAR_NODE)
                return source_fail(
                    source, path, "is a list or a mapping; allowed for an option: a single value");
        text = fill_resolve(source, path, text_of(value));
        if (text == NULL)
                return false;
        *option = (struct sink_option){
            .name = xstrdup(name), .value = text, .where = source_where(source, path)};
        reading->n_options++;
        return !has_control_character(text) ||
               source_fail(source, path, "holds a line break or another control character");
}

static bool take_all(struct reading *reading, const yaml_node_t *mapping)
{
        const yaml_node_pair_t *pairs = mapping->data.mapping.pairs.start;
        size_t n_pairs = (size_t)(mapping->data.mapping.pairs.top - pairs);

        if (n_pairs > MAX_OPTIONS)
                return source_fail(reading->source, reading->path,
                    "has %zu options; allowed: up to %d", n_pairs, MAX_OPTIONS);
        reading->options = xcalloc(n_pairs + 1, sizeof *reading->options);
        for (size_t i = 0; i < n_pairs; i++) {
                const char *name = text_of(yaml_document_get_node(reading->document, pairs[i].key));
                const yaml_node_t *value =
                    yaml_document_get_node(reading->document, pairs[i].value);
                if (!take_option(reading, name, value))
                        return false;
        }
        return true;
}

/* The text has been found to be YAML with plain keys before, by the same parser. */
static void load(const struct source *source, yaml_document_t *document)
{
        yaml_parser_t parser;

        if (!yaml_parser_initialize(&parser))
                out_of_memory();
        yaml_parser_set_input_string(&parser, (const unsigned char *)source->text, source->length);
        yaml_parser_set_encoding(&parser, YAML_UTF8_ENCODING);
        if (!yaml_parser_load(&parser, document))
                out_of_memory();
        yaml_parser_delete(&parser);
}

/* Any of the texts may be a secret. */
static void clear_texts(yaml_document_t *document)
{
        for (yaml_node_t *node = document->nodes.start; node < document->nodes.top; node++)
                if (node->type == YAML_SCALAR_NODE)
                        explicit_bzero(node->data.scalar.value, node->data.scalar.length);
}

bool options_fill(const struct source *source, const char *path, struct sink_options *out_options)
{
        yaml_document_t document;
        struct reading reading = {.source = source, .document = &document, .path = path};
        const yaml_node_t *mapping;
        bool is_taken = true;

        load(source, &document);
        mapping = find_node(&document, path);
        if (mapping != NULL && mapping->type != YAML_MAPPING_NODE)
                is_taken = source_fail(source, path,
                    "is not a mapping; here should be names and values, as in {path: /tmp/a}");
        else if (mapping != NULL)
                is_taken = take_all(&reading, mapping);
        clear_texts(&document);
        yaml_document_delete(&document);
        *out_options = (struct sink_options){.options = reading.options,
            .n_options = reading.n_options,
            .where = source_where(source, path)};
        return is_taken;
}

void options_clear(struct sink_options *options)
{
        for (size_t i = 0; i < options->n_options; i++) {
                const struct sink_option *option = &options->options[i];
                secret_free(member_text(&option->value));
                free(member_text(&option->name));
                free(member_text(&option->where));
        }
        free(member_text(&options->options));
        free(member_text(&options->where));
        *options = (struct sink_options){0};
}
