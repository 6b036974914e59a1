#include "config/yaml_reader.h"

#include "base/alloc.h"
#include "config/secret.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <yaml.h>

enum {
        MAX_FILE_BYTES = 1024 * 1024,
        MAX_NODES = 20000,
        MAX_DEPTH = 16,
        MAX_KEYS = 1000, /* of one mapping: each is compared with all before it */
        MAX_KEY_BYTES = 128
};

struct reader {
        struct source *source;
        yaml_parser_t parser;
        struct node *open; /* the innermost mapping or list that has not ended; NULL: none */
        size_t depth;      /* how many are open */
        size_t n_nodes;
        char *key; /* of `open`, whose value comes next; owned; NULL: none */
        yaml_mark_t key_mark;
};

static void append_path(char path[KEY_PATH_SIZE], const struct node *node)
{
        char parent[KEY_PATH_SIZE] = "";

        if (node->parent == NULL)
                return;
        append_path(parent, node->parent);
        if (node->key != NULL)
                key_path_join(path, parent, node->key);
        else
                key_path_item(path, parent, node->index);
}

/* About `key` of the open mapping; NULL: about the mapping or list itself. */
static bool refuse_key(
    const struct reader *reader, yaml_mark_t mark, const char *key, const char *reason)
{
        char path[KEY_PATH_SIZE] = "";
        char parent[KEY_PATH_SIZE] = "";

        if (reader->open != NULL)
                append_path(parent, reader->open);
        key_path_join(path, parent, key != NULL ? key : "");
        return source_fail_at(reader->source, mark.line + 1, mark.column + 1, path, "%s", reason);
}

static bool refuse(const struct reader *reader, yaml_mark_t mark, const char *reason)
{
        return refuse_key(reader, mark, reader->key, reason);
}

static bool is_nothing(const char *text)
{
        static const char *const words[] = {"", "~", "null", "Null", "NULL"};

        for (size_t i = 0; i < sizeof words / sizeof *words; i++)
                if (strcmp(text, words[i]) == 0)
                        return true;
        return false;
}

static void link_node(struct reader *reader, struct node *node)
{
        struct node *parent = reader->open;

        if (parent == NULL) {
                reader->source->root = node;
                return;
        }
        node->parent = parent;
        node->index = parent->n_children++;
        node->key = reader->key;
        reader->key = NULL;
        if (parent->last_child != NULL)
                parent->last_child->next = node;
        else
                parent->first_child = node;
        parent->last_child = node;
}

/* Adds a value: of the key that was read, of the open list, or the whole. NULL: there are too
 * many. */
static struct node *add_node(struct reader *reader, enum node_kind kind, yaml_mark_t mark)
{
        struct node *node;

        if (reader->n_nodes == MAX_NODES) {
                refuse(reader, mark, "exceeds the limit of 20000 values in a configuration file");
                return NULL;
        }
        reader->n_nodes++;
        if (reader->key != NULL)
                mark = reader->key_mark;
        node = xcalloc(1, sizeof *node);
        *node = (struct node){.kind = kind, .line = mark.line + 1, .column = mark.column + 1};
        link_node(reader, node);
        return node;
}

static bool expects_key(const struct reader *reader)
{
        return reader->open != NULL && reader->open->kind == NODE_MAPPING && reader->key == NULL;
}

static bool take_key(struct reader *reader, const yaml_event_t *event)
{
        const char *key = (const char *)event->data.scalar.value;
        size_t length = event->data.scalar.length;
        const struct node *first;

        if (length > MAX_KEY_BYTES || strlen(key) != length)
                return refuse(reader, event->start_mark,
                    "holds a key that is too long or holds NUL; keys are plain words");
        if (reader->open->n_children == MAX_KEYS)
                return refuse(
                    reader, event->start_mark, "has more than 1000 keys, the limit for a mapping");
        first = node_child(reader->open, key);
        if (first != NULL) {
                char *reason =
                    xasprintf("is given twice, first in line %zu; keep one", first->line);
                refuse_key(reader, event->start_mark, key, reason);
                free(reason);
                return false;
        }
        reader->key = xstrdup(key);
        reader->key_mark = event->start_mark;
        return true;
}

static bool take_scalar(struct reader *reader, const yaml_event_t *event)
{
        const char *text = (const char *)event->data.scalar.value;
        bool is_plain = event->data.scalar.style == YAML_PLAIN_SCALAR_STYLE;
        struct node *node;

        if (expects_key(reader))
                return take_key(reader, event);
        if (strlen(text) != event->data.scalar.length)
                return refuse(reader, event->start_mark, "holds a NUL character");
        node = add_node(
            reader, is_plain && is_nothing(text) ? NODE_NOTHING : NODE_TEXT, event->start_mark);
        if (node != NULL)
                node->text = xstrdup(text);
        return node != NULL;
}

static bool open_node(struct reader *reader, enum node_kind kind, yaml_mark_t mark)
{
        struct node *node;

        if (expects_key(reader))
                return refuse(
                    reader, mark, "holds a list or a mapping as a key; keys are plain words");
        if (reader->depth == MAX_DEPTH)
                return refuse(reader, mark, "is nested too deep");
        node = add_node(reader, kind, mark);
        if (node == NULL)
                return false;
        reader->open = node;
        reader->depth++;
        return true;
}

static bool close_node(struct reader *reader)
{
        assert(reader->depth > 0);
        reader->open = reader->open->parent;
        reader->depth--;
        return true;
}

/* In other programs a tag decides what a value is. Here its key does. And a text that is written
 * once is meant once. */
static bool check_plain(const struct reader *reader, yaml_mark_t mark, const yaml_char_t *tag,
    const yaml_char_t *anchor)
{
        if (tag != NULL)
                return refuse(reader, mark,
                    "has a YAML tag (!name); remove it, or quote a text that begins with !");
        if (anchor != NULL)
                return refuse(reader, mark,
                    "has a YAML anchor (&name); remove it, or quote a text that begins with &");
        return true;
}

static bool take_event(struct reader *reader, const yaml_event_t *event)
{
        yaml_mark_t mark = event->start_mark;

        switch (event->type) {
        case YAML_DOCUMENT_START_EVENT:
                return reader->source->root == NULL ||
                       source_fail_at(reader->source, mark.line + 1, mark.column + 1, "",
                           "a second document begins here; a config file holds one");
        case YAML_ALIAS_EVENT:
                return refuse(reader, mark,
                    "uses a YAML alias (*name); write the value out instead. Quote a text that "
                    "begins with *");
        case YAML_SCALAR_EVENT:
                return check_plain(
                           reader, mark, event->data.scalar.tag, event->data.scalar.anchor) &&
                       take_scalar(reader, event);
        case YAML_SEQUENCE_START_EVENT:
                return check_plain(reader, mark, event->data.sequence_start.tag,
                           event->data.sequence_start.anchor) &&
                       open_node(reader, NODE_LIST, mark);
        case YAML_MAPPING_START_EVENT:
                return check_plain(reader, mark, event->data.mapping_start.tag,
                           event->data.mapping_start.anchor) &&
                       open_node(reader, NODE_MAPPING, mark);
        case YAML_SEQUENCE_END_EVENT:
        case YAML_MAPPING_END_EVENT:
                return close_node(reader);
        case YAML_NO_EVENT:
        case YAML_STREAM_START_EVENT:
        case YAML_STREAM_END_EVENT:
        case YAML_DOCUMENT_END_EVENT:
                return true;
        }
        return true;
}

/* Where the text is not even UTF-8, libyaml counts bytes instead of lines. */
static yaml_mark_t mark_of_offset(const struct source *source, size_t offset)
{
        yaml_mark_t mark = {0};

        for (size_t i = 0; i < offset && i < source->length; i++) {
                if (source->text[i] == '\n') {
                        mark.line++;
                        mark.column = 0;
                } else if (((unsigned char)source->text[i] & 0xc0) != 0x80) {
                        mark.column++;
                }
        }
        return mark;
}

static bool refuse_syntax(const struct reader *reader)
{
        const yaml_parser_t *parser = &reader->parser;
        yaml_mark_t mark = parser->error == YAML_READER_ERROR
                               ? mark_of_offset(reader->source, parser->problem_offset)
                               : parser->problem_mark;
        char *reason = xasprintf("is not valid YAML: %s%s%s",
            parser->problem != NULL ? parser->problem : "unknown error",
            parser->context != NULL ? " " : "", parser->context != NULL ? parser->context : "");

        refuse(reader, mark, reason);
        free(reason);
        return false;
}

static bool read_events(struct reader *reader)
{
        bool has_ended = false;

        while (!has_ended) {
                yaml_event_t event;
                bool is_taken;
                if (yaml_parser_parse(&reader->parser, &event) == 0 &&
                    reader->parser.error == YAML_MEMORY_ERROR)
                        out_of_memory();
                if (reader->parser.error != YAML_NO_ERROR)
                        return refuse_syntax(reader);
                is_taken = take_event(reader, &event);
                has_ended = event.type == YAML_STREAM_END_EVENT;
                if (event.type == YAML_SCALAR_EVENT) /* it may be a secret */
                        explicit_bzero(event.data.scalar.value, event.data.scalar.length);
                yaml_event_delete(&event);
                if (!is_taken)
                        return false;
        }
        return true;
}

static bool read_tree(struct source *source)
{
        struct reader reader = {.source = source};
        bool is_read;

        if (!yaml_parser_initialize(&reader.parser))
                out_of_memory();
        yaml_parser_set_input_string(
            &reader.parser, (const unsigned char *)source->text, source->length);
        yaml_parser_set_encoding(&reader.parser, YAML_UTF8_ENCODING);
        is_read = read_events(&reader);
        yaml_parser_delete(&reader.parser);
        free(reader.key);
        if (is_read && source->root == NULL)
                return source_fail_at(source, 1, 1, "", "the file is empty");
        if (is_read && source->root->kind != NODE_MAPPING)
                return source_fail_at(
                    source, 1, 1, "", "the file is not a mapping of keys to values");
        return is_read;
}

bool source_open(struct source *source, const char *path, struct error *error)
{
        struct error why;

        *source = (struct source){.path = path, .error = error};
        source->text = secret_read_bytes(path, MAX_FILE_BYTES, &source->length, &why);
        if (source->text == NULL)
                return error_set(error, why.kind, "%s: %s", path, why.text);
        return read_tree(source);
}

bool source_open_text(
    struct source *source, const char *path, const char *text, size_t length, struct error *error)
{
        *source = (struct source){.path = path, .length = length, .error = error};
        source->text = xcalloc(length + 2, 1); /* as it was read, with a NUL behind it */
        memcpy(source->text, text, length);
        return read_tree(source);
}
