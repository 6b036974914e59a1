#include "config/locate.h"

#include "base/alloc.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <yaml.h>

enum { MAX_NODES = 20000, MAX_DEPTH = 16, MAX_KEY_BYTES = 128 };

struct node {
        struct place place;
        size_t parent;
        char *name;  /* owned; NULL: an item of a list */
        size_t item; /* its number within the list */
        size_t n_children;
        size_t first_child; /* 0: none */
        size_t last_child;
        size_t next_sibling; /* 0: none */
};

struct places {
        struct node *nodes; /* nodes[0] is the whole text, its own parent */
        size_t n_nodes;
        size_t capacity;
};

/* One walk over the events. */
struct walk {
        struct places *places;
        yaml_parser_t parser;
        size_t depth;
        size_t stack[MAX_DEPTH]; /* the open mappings and lists, as nodes */
        bool has_key;            /* the innermost mapping's next event is a value … */
        char *key;               /* … of this key; owned */
        yaml_mark_t key_mark;
        struct place *out_place;
        char **out_path;
        struct error *error;
};

static char *node_path(const struct places *places, size_t at)
{
        const struct node *node = &places->nodes[at];
        char *parent;
        char *path;

        if (at == 0)
                return xstrdup("");
        parent = node_path(places, node->parent);
        if (node->name == NULL)
                path = xasprintf("%s[%zu]", parent, node->item);
        else
                path = xasprintf("%s%s%s", parent, *parent != '\0' ? "." : "", node->name);
        free(parent);
        return path;
}

static char *key_path(const struct walk *walk, const char *key)
{
        char *parent = node_path(walk->places, walk->stack[walk->depth - 1]);
        char *path = xasprintf("%s%s%s", parent, *parent != '\0' ? "." : "", key);

        free(parent);
        return path;
}

/* Takes `path`. */
static bool refuse(struct walk *walk, yaml_mark_t mark, char *path, const char *reason)
{
        *walk->out_place = (struct place){.line = mark.line + 1, .column = mark.column + 1};
        *walk->out_path = path;
        return error_set(walk->error, ERROR_CONFIG, "%s", reason);
}

static char *here(const struct walk *walk)
{
        if (walk->depth == 0)
                return xstrdup("");
        if (walk->has_key)
                return key_path(walk, walk->key);
        return node_path(walk->places, walk->stack[walk->depth - 1]);
}

static const struct node *find_child(
    const struct places *places, size_t parent, const char *name, size_t length)
{
        for (size_t i = places->nodes[parent].first_child; i != 0;
             i = places->nodes[i].next_sibling) {
                const struct node *node = &places->nodes[i];
                if (node->name != NULL && strlen(node->name) == length &&
                    memcmp(node->name, name, length) == 0)
                        return node;
        }
        return NULL;
}

static const struct node *find_item(const struct places *places, size_t parent, size_t item)
{
        for (size_t i = places->nodes[parent].first_child; i != 0;
             i = places->nodes[i].next_sibling)
                if (places->nodes[i].name == NULL && places->nodes[i].item == item)
                        return &places->nodes[i];
        return NULL;
}

static void link_child(struct places *places, size_t parent, size_t child)
{
        struct node *node = &places->nodes[parent];

        places->nodes[child].parent = parent;
        places->nodes[child].item = node->n_children++;
        if (node->first_child == 0)
                node->first_child = child;
        else
                places->nodes[node->last_child].next_sibling = child;
        node->last_child = child;
}

static bool is_null(const yaml_event_t *event)
{
        static const char *const words[] = {"", "~", "null", "Null", "NULL"};

        if (event->data.scalar.style != YAML_PLAIN_SCALAR_STYLE)
                return false;
        for (size_t i = 0; i < sizeof words / sizeof *words; i++)
                if (strcmp((const char *)event->data.scalar.value, words[i]) == 0)
                        return true;
        return false;
}

/* Adds a value: of the pending key, of the innermost list, or the whole text. */
static bool add_node(struct walk *walk, enum place_kind kind, yaml_mark_t mark)
{
        struct places *places = walk->places;
        struct node *node;

        if (places->n_nodes == MAX_NODES)
                return refuse(
                    walk, mark, here(walk), "is one value too many: a config file may hold 20000");
        if (places->n_nodes == places->capacity) {
                places->capacity = places->capacity > 0 ? places->capacity * 2 : 64;
                places->nodes = xrealloc(places->nodes, places->capacity * sizeof *places->nodes);
        }
        node = &places->nodes[places->n_nodes];
        *node = (struct node){.place = {.kind = kind}};
        if (walk->depth > 0) {
                link_child(places, walk->stack[walk->depth - 1], places->n_nodes);
                if (walk->has_key) {
                        node->name = walk->key;
                        mark = walk->key_mark;
                        walk->key = NULL;
                        walk->has_key = false;
                }
        }
        node->place.line = mark.line + 1;
        node->place.column = mark.column + 1;
        places->n_nodes++;
        return true;
}

static bool expects_key(const struct walk *walk)
{
        return walk->depth > 0 && !walk->has_key &&
               walk->places->nodes[walk->stack[walk->depth - 1]].place.kind == PLACE_MAPPING;
}

static bool take_key(struct walk *walk, const yaml_event_t *event)
{
        const char *name = (const char *)event->data.scalar.value;
        size_t length = event->data.scalar.length;
        const struct node *first;

        if (length > MAX_KEY_BYTES || strlen(name) != length)
                return refuse(walk, event->start_mark, here(walk),
                    "holds a key that is too long or holds NUL; keys are plain words");
        first = find_child(walk->places, walk->stack[walk->depth - 1], name, length);
        if (first != NULL) {
                char *reason =
                    xasprintf("is given twice, first in line %zu; keep one", first->place.line);
                refuse(walk, event->start_mark, key_path(walk, name), reason);
                free(reason);
                return false;
        }
        walk->key = xstrdup(name);
        walk->key_mark = event->start_mark;
        walk->has_key = true;
        return true;
}

static bool take_scalar(struct walk *walk, const yaml_event_t *event)
{
        if (expects_key(walk))
                return take_key(walk, event);
        if (strlen((const char *)event->data.scalar.value) != event->data.scalar.length)
                return refuse(walk, event->start_mark, here(walk), "holds a NUL character");
        return add_node(walk, is_null(event) ? PLACE_NULL : PLACE_SCALAR, event->start_mark);
}

static bool open_collection(struct walk *walk, enum place_kind kind, yaml_mark_t mark)
{
        if (expects_key(walk))
                return refuse(walk, mark, here(walk),
                    "holds a list or a mapping as a key; keys are plain words");
        if (walk->depth == MAX_DEPTH)
                return refuse(walk, mark, here(walk), "is nested too deep");
        if (!add_node(walk, kind, mark))
                return false;
        walk->stack[walk->depth++] = walk->places->n_nodes - 1;
        return true;
}

/* Other programs let them decide what a value is. Here the key does, and nothing is written once to be
 * meant twice. */
static bool check_plain(struct walk *walk, const yaml_event_t *event)
{
        const yaml_char_t *anchor = NULL;
        const yaml_char_t *tag = NULL;

        switch ((int)event->type) {
        case YAML_SCALAR_EVENT:
                anchor = event->data.scalar.anchor;
                tag = event->data.scalar.tag;
                break;
        case YAML_SEQUENCE_START_EVENT:
                anchor = event->data.sequence_start.anchor;
                tag = event->data.sequence_start.tag;
                break;
        case YAML_MAPPING_START_EVENT:
                anchor = event->data.mapping_start.anchor;
                tag = event->data.mapping_start.tag;
                break;
        }
        if (tag != NULL)
                return refuse(walk, event->start_mark, here(walk),
                    "has a YAML tag (!name); remove it: the key says what its value is. Quote a "
                    "text that begins with !");
        if (anchor != NULL)
                return refuse(walk, event->start_mark, here(walk),
                    "has a YAML anchor (&name); remove it: there are no aliases. Quote a text that "
                    "begins with &");
        return true;
}

static bool take_event(struct walk *walk, const yaml_event_t *event)
{
        if (!check_plain(walk, event))
                return false;
        /* An enum of libyaml: most of its events do not matter here. */
        switch ((int)event->type) {
        case YAML_DOCUMENT_START_EVENT:
                if (walk->places->n_nodes > 0)
                        return refuse(walk, event->start_mark, xstrdup(""),
                            "a second document begins here; a config file holds one");
                return true;
        case YAML_ALIAS_EVENT:
                return refuse(walk, event->start_mark, here(walk),
                    "uses a YAML alias (*name); write the value out instead. Quote a text that "
                    "begins with *");
        case YAML_SCALAR_EVENT:
                return take_scalar(walk, event);
        case YAML_SEQUENCE_START_EVENT:
                return open_collection(walk, PLACE_LIST, event->start_mark);
        case YAML_MAPPING_START_EVENT:
                return open_collection(walk, PLACE_MAPPING, event->start_mark);
        case YAML_SEQUENCE_END_EVENT:
        case YAML_MAPPING_END_EVENT:
                assert(walk->depth > 0);
                walk->depth--;
                return true;
        }
        return true;
}

/* libyaml counts bytes, not lines, where the text is not even UTF-8. */
static yaml_mark_t mark_of_offset(const char *text, size_t length, size_t offset)
{
        yaml_mark_t mark = {0};

        for (size_t i = 0; i < offset && i < length; i++) {
                if (text[i] == '\n') {
                        mark.line++;
                        mark.column = 0;
                } else if (((unsigned char)text[i] & 0xc0) != 0x80) {
                        mark.column++;
                }
        }
        return mark;
}

static bool refuse_syntax(struct walk *walk, const char *text, size_t length)
{
        const yaml_parser_t *parser = &walk->parser;
        yaml_mark_t mark = parser->error == YAML_READER_ERROR
                               ? mark_of_offset(text, length, parser->problem_offset)
                               : parser->problem_mark;
        char *reason = xasprintf("is not valid YAML: %s%s%s",
            parser->problem != NULL ? parser->problem : "unknown error",
            parser->context != NULL ? " " : "", parser->context != NULL ? parser->context : "");

        refuse(walk, mark, here(walk), reason);
        free(reason);
        return false;
}

static bool walk_events(struct walk *walk, const char *text, size_t length)
{
        bool is_over = false;

        yaml_parser_set_input_string(&walk->parser, (const unsigned char *)text, length);
        yaml_parser_set_encoding(&walk->parser, YAML_UTF8_ENCODING);
        while (!is_over) {
                yaml_event_t event;
                bool is_taken;
                if (yaml_parser_parse(&walk->parser, &event) == 0 &&
                    walk->parser.error == YAML_MEMORY_ERROR)
                        out_of_memory();
                if (walk->parser.error != YAML_NO_ERROR)
                        return refuse_syntax(walk, text, length);
                is_taken = take_event(walk, &event);
                is_over = event.type == YAML_STREAM_END_EVENT;
                yaml_event_delete(&event);
                if (!is_taken)
                        return false;
        }
        return true;
}

struct places *places_read(
    const char *text, size_t length, struct place *out_place, char **out_path, struct error *error)
{
        struct walk walk = {.out_place = out_place, .out_path = out_path, .error = error};
        bool is_read;

        walk.places = xcalloc(1, sizeof *walk.places);
        if (!yaml_parser_initialize(&walk.parser))
                out_of_memory();
        is_read = walk_events(&walk, text, length);
        yaml_parser_delete(&walk.parser);
        free(walk.key);
        if (is_read && walk.places->n_nodes == 0)
                is_read = refuse(&walk, (yaml_mark_t){0}, xstrdup(""), "the file is empty");
        if (is_read && walk.places->nodes[0].place.kind != PLACE_MAPPING)
                is_read = refuse(&walk, (yaml_mark_t){0}, xstrdup(""),
                    "the file is not a mapping of keys to values");
        if (is_read)
                return walk.places;
        places_destroy(walk.places);
        return NULL;
}

const struct place *places_find(const struct places *places, const char *path)
{
        const struct node *node = &places->nodes[0];

        while (*path != '\0') {
                size_t parent = (size_t)(node - places->nodes);
                if (*path == '[') {
                        char *end;
                        node = find_item(places, parent, strtoull(path + 1, &end, 10));
                        path = *end == ']' ? end + 1 : end;
                } else {
                        const char *name = *path == '.' ? path + 1 : path;
                        /* A key nobody knows may itself hold dots: the whole rest comes first. */
                        size_t length = strlen(name);
                        node = find_child(places, parent, name, length);
                        if (node == NULL) {
                                length = strcspn(name, ".[");
                                node = find_child(places, parent, name, length);
                        }
                        path = name + length;
                }
                if (node == NULL)
                        return NULL;
        }
        return &node->place;
}

void places_destroy(struct places *places)
{
        if (places == NULL)
                return;
        for (size_t i = 0; i < places->n_nodes; i++)
                free(places->nodes[i].name);
        free(places->nodes);
        free(places);
}
