#include "config/parse.h"

#include "base/alloc.h"
#include "base/bytes.h"
#include "config/interpolate.h"
#include "config/secret.h"
#include "config/suggest.h"
#include "config/value_types.h"
#include "pgcourier/option.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_LINES_BYTES = 64 * 1024, MAX_OPTION_NAME = 63 };

static bool fail_shape(
    const struct source *source, const struct node *node, const char *path, const char *wanted)
{
        static const char *const shapes[] = {
            [NODE_TEXT] = "a single value",
            [NODE_NOTHING] = "nothing",
            [NODE_MAPPING] = "a mapping",
            [NODE_LIST] = "a list",
        };

        return source_fail_at(source, node->line, node->column, path, "must be %s; found %s",
            wanted, shapes[node->kind]);
}

static bool check_single(const struct source *source, const struct node *node, const char *path)
{
        return node->kind == NODE_TEXT || node->kind == NODE_NOTHING ||
               fail_shape(source, node, path, "a single value");
}

static bool check_options(const struct source *source, const struct node *node, const char *path)
{
        char option_path[KEY_PATH_SIZE];

        if (node->kind != NODE_MAPPING)
                return fail_shape(source, node, path,
                    "a mapping of names to single values, as in {path: /tmp/a}");
        for (const struct node *option = node->first_child; option != NULL; option = option->next) {
                key_path_join(option_path, path, option->key);
                if (!check_single(source, option, option_path))
                        return false;
        }
        return true;
}

static bool check_block(const struct source *source, const struct config_block *block,
    const struct node *node, const char *path);

static bool check_item(const struct source *source, const struct config_key *key,
    const struct node *node, const char *path)
{
        if (key->block != NULL)
                return check_block(source, key->block, node, path);
        if (key->type == KEY_OPTIONS)
                return check_options(source, node, path);
        return check_single(source, node, path);
}

static bool check_value(const struct source *source, const struct config_key *key,
    const struct node *node, const char *path)
{
        char item_path[KEY_PATH_SIZE];

        if (!key->is_list || key->type == KEY_FILE_OF)
                return check_item(source, key, node, path);
        if (node->kind != NODE_LIST)
                return fail_shape(source, node, path,
                    key->block != NULL ? "a list of mappings, each after a dash"
                                       : "a list of single values, as in [a, b]");
        for (const struct node *item = node->first_child; item != NULL; item = item->next) {
                key_path_item(item_path, path, item->index);
                if (!check_item(source, key, item, item_path))
                        return false;
        }
        return true;
}

static bool fail_unknown_key(const struct source *source, const struct config_block *block,
    const struct node *node, const char *path)
{
        struct bytes allowed = {0};
        const char *nearest = NULL;

        for (size_t i = 0; i < block->n_keys; i++) {
                bytes_printf(&allowed, "%s%s", i > 0 ? ", " : "", block->keys[i].name);
                nearest = suggest_nearer(node->key, nearest, block->keys[i].name);
        }
        if (nearest != NULL)
                source_fail_at(source, node->line, node->column, path,
                    "is not a known key; did you mean %s? allowed: %s", nearest, allowed.data);
        else
                source_fail_at(source, node->line, node->column, path,
                    "is not a known key; allowed: %s", allowed.data);
        bytes_deinit(&allowed);
        return false;
}

static const struct config_key *find_key(const struct config_block *block, const char *name)
{
        for (size_t i = 0; i < block->n_keys; i++)
                if (strcmp(block->keys[i].name, name) == 0)
                        return &block->keys[i];
        return NULL;
}

/* Whether all keys are known, and mappings, lists and single values stand where they should. This
 * goes first: unlike what comes later it does not depend on variables and other files. */
static bool check_block(const struct source *source, const struct config_block *block,
    const struct node *node, const char *path)
{
        bool is_item = node->parent != NULL && node->parent->kind == NODE_LIST;
        char key_path[KEY_PATH_SIZE];

        if (node->kind != NODE_MAPPING)
                return fail_shape(source, node, path,
                    is_item ? "a mapping of keys to values"
                            : "a mapping of keys to values ({} for all defaults)");
        for (const struct node *child = node->first_child; child != NULL; child = child->next) {
                const struct config_key *key = find_key(block, child->key);
                key_path_join(key_path, path, child->key);
                if (key == NULL)
                        return fail_unknown_key(source, block, child, key_path);
                if (!check_value(source, key, child, key_path))
                        return false;
        }
        return true;
}

/* A row of a block at work. */
struct row {
        const struct source *source;
        const struct config_block *block;
        const struct config_key *key;
        const struct node *node; /* NULL: the key is not in the file */
        const char *path;
        char *member;
        unsigned *count; /* of a list */
};

/* What is written, with its references filled in; release it with secret_free(). NULL: the source's
 * error is set. */
static char *resolve(const struct source *source, const struct node *node, const char *path)
{
        struct error why;
        char *text;

        if (node->kind == NODE_NOTHING) {
                source_fail(source, path, "",
                    "is empty; give a value (put null in quotes if it is a text), or leave the key "
                    "out");
                return NULL;
        }
        text = interpolate(node->text, &why);
        if (text == NULL)
                source_fail_as(source, why.kind, path, "", "%s", why.text);
        return text;
}

static bool parse_scalar(const struct row *row)
{
        struct scalar value = {
            .source = row->source, .key = row->key, .path = row->path, .member = row->member};
        char *text;
        bool is_set;

        if (row->node == NULL) {
                value.written = value.text = row->key->fallback;
                return value.text == NULL || value_types[row->key->type].parse(&value);
        }
        text = resolve(row->source, row->node, row->path);
        if (text == NULL)
                return false;
        value.written = row->node->text;
        value.text = text;
        is_set = value_types[row->key->type].parse(&value);
        secret_free(text);
        return is_set;
}

/* The text of a file as the value of `twin`. */
static bool take_line(const struct row *row, const struct config_key *twin, char *line)
{
        const struct scalar value = {.source = row->source,
            .key = twin,
            .path = row->path,
            .written = row->node->text,
            .text = line,
            .member = row->member};

        return value_types[twin->type].parse(&value);
}

/* Each line of a file as an item of `twin`; empty ones do not count. */
static bool take_lines(const struct row *row, const struct config_key *twin, char *text)
{
        char **items = xcalloc(twin->max_items, sizeof *items);
        char item_path[KEY_PATH_SIZE];
        char *line;

        memcpy(row->member, &items, sizeof items);
        while ((line = strsep(&text, "\n")) != NULL) {
                struct row item = *row;
                if (*line == '\0')
                        continue;
                if (*row->count == twin->max_items)
                        return source_fail(row->source, row->path, "",
                            "names a file with more than %u lines; allowed: up to %u",
                            twin->max_items, twin->max_items);
                key_path_item(item_path, row->path, *row->count);
                item.path = item_path;
                item.member = (char *)&items[*row->count];
                if (!take_line(&item, twin, line))
                        return false;
                ++*row->count;
        }
        return *row->count > 0 || source_fail(row->source, row->path, "",
                                      "names an empty file; give at least one %s", twin->name);
}

static bool read_file(const struct row *row, const struct config_key *twin, const char *file)
{
        struct error why;
        size_t length = 0;
        bool is_taken;
        char *text = row->key->is_list ? secret_read_bytes(file, MAX_LINES_BYTES, &length, &why)
                                       : secret_read_line(file, &why);

        if (text == NULL)
                return source_fail_as(row->source, why.kind, row->path, "", "the file '%.400s' %s",
                    row->node->text, why.text);
        if (!row->key->is_list) {
                is_taken = take_line(row, twin, text);
                length = strlen(text);
        } else if (memchr(text, '\0', length) != NULL) {
                is_taken =
                    source_fail(row->source, row->path, "", "names a file that holds a NUL byte");
        } else {
                is_taken = take_lines(row, twin, text);
        }
        secret_free_bytes(text, length);
        return is_taken;
}

/* Its twin's row comes first. */
static bool parse_file(const struct row *row)
{
        const struct config_key *twin = key_twin(row->block, row->key);
        char *file;
        bool is_read;

        if (row->node == NULL)
                return true;
        if (member_text(row->member) != NULL)
                return source_fail(row->source, row->path, "",
                    "is given together with %s; keep one of the two", twin->name);
        file = resolve(row->source, row->node, row->path);
        if (file == NULL)
                return false;
        is_read = *file != '\0' ? read_file(row, twin, file)
                                : source_fail(row->source, row->path, "",
                                      "is empty; give the path of a file, or leave the key out");
        secret_free(file);
        return is_read;
}

static bool is_option_name(const char *text)
{
        size_t length = strlen(text);

        return length > 0 && length <= MAX_OPTION_NAME &&
               strspn(text, "abcdefghijklmnopqrstuvwxyz0123456789-_") == length;
}

static bool has_control_character(const char *text)
{
        for (; *text != '\0'; text++)
                if ((unsigned char)*text < ' ' || *text == 0x7f)
                        return true;
        return false;
}

static bool take_option(const struct row *row, const struct node *node, struct sink_option *option)
{
        char path[KEY_PATH_SIZE];

        key_path_join(path, row->path, node->key);
        if (!is_option_name(node->key))
                return source_fail_at(row->source, node->line, node->column, path,
                    "is not the name of an option; allowed: 1 to 63 of a-z, 0-9, - and _");
        option->value = resolve(row->source, node, path);
        if (option->value == NULL)
                return false;
        option->name = xstrdup(node->key);
        option->where = source_where(row->source, path);
        return !has_control_character(option->value) ||
               source_fail(
                   row->source, path, "", "holds a line break or another control character");
}

static bool parse_options(const struct row *row)
{
        struct sink_options *options = (struct sink_options *)(void *)row->member;
        struct sink_option *items;

        options->where = source_where(row->source, row->path);
        if (row->node == NULL)
                return true;
        items = xcalloc(row->node->n_children + 1, sizeof *items);
        options->options = items;
        for (const struct node *node = row->node->first_child; node != NULL; node = node->next)
                if (!take_option(row, node, &items[options->n_options++]))
                        return false;
        return true;
}

static bool parse_block(const struct source *source, const struct config_block *block,
    const struct node *node, void *target, const char *path);

static bool parse_item(const struct row *row)
{
        void *target = row->member;

        if (row->key->type == KEY_OPTIONS)
                return parse_options(row);
        if (row->key->block == NULL)
                return parse_scalar(row);
        if (row->key->type == KEY_OPTIONAL_BLOCK) {
                if (row->node == NULL)
                        return true;
                target = xcalloc(1, row->key->block->struct_bytes);
                memcpy(row->member, &target, sizeof target);
        }
        return parse_block(row->source, row->key->block, row->node, target, row->path);
}

static bool parse_list(const struct row *row)
{
        const struct config_key *key = row->key;
        const struct node *list = row->node;
        char item_path[KEY_PATH_SIZE];
        struct row item = *row;

        if (list == NULL)
                return true;
        if (key->max_items > 0 && list->n_children > key->max_items)
                return source_fail(row->source, row->path, "", "has %zu entries; allowed: up to %u",
                    list->n_children, key->max_items);
        if (list->n_children == 0)
                return true;
        item.member = xcalloc(list->n_children, key->value_bytes);
        memcpy(row->member, &item.member, sizeof item.member);
        *row->count = (unsigned)list->n_children;
        item.path = item_path;
        for (item.node = list->first_child; item.node != NULL; item.node = item.node->next) {
                key_path_item(item_path, row->path, item.node->index);
                if (!parse_item(&item))
                        return false;
                item.member += key->value_bytes;
        }
        return true;
}

static bool check_present(const struct source *source, const struct config_block *block,
    const struct config_key *key, const void *target, const char *path)
{
        const struct config_key *file = key_twin(block, key);
        char *help;

        /* Every member that a required row may have begins with a pointer. */
        if (!key->is_required || member_text((const char *)target + key->offset) != NULL)
                return true;
        help = key_help(key);
        if (key->is_list)
                source_fail(
                    source, path, key->name, "is required, with at least one entry: %s", help);
        else if (file != NULL)
                source_fail(source, path, key->name, "is required, or %s: %s", file->name, help);
        else
                source_fail(source, path, key->name, "is required: %s", help);
        free(help);
        return false;
}

static bool parse_row(const struct row *row)
{
        if (row->key->type == KEY_FILE_OF)
                return parse_file(row);
        return row->key->is_list ? parse_list(row) : parse_item(row);
}

static bool parse_block(const struct source *source, const struct config_block *block,
    const struct node *node, void *target, const char *path)
{
        char key_path[KEY_PATH_SIZE];

        for (const struct config_key *key = block->keys; key < block->keys + block->n_keys; key++) {
                const struct row row = {.source = source,
                    .block = block,
                    .key = key,
                    .node = node_child(node, key->name),
                    .path = key_path,
                    .member = (char *)target + key->offset,
                    .count = (unsigned *)(void *)((char *)target + key->count_offset)};
                key_path_join(key_path, path, key->name);
                if (!parse_row(&row))
                        return false;
        }
        for (size_t i = 0; i < block->n_keys; i++)
                if (!check_present(source, block, &block->keys[i], target, path))
                        return false;
        return true;
}

bool config_parse(const struct source *source, struct config *config)
{
        return check_block(source, &config_root, source->root, "") &&
               parse_block(source, &config_root, source->root, config, "");
}

/* Secrets first, as any of them may be one. */
static void clear_options(struct sink_options *options)
{
        for (size_t i = 0; i < options->n_options; i++) {
                const struct sink_option *option = &options->options[i];
                secret_free(member_text(&option->value));
                free(member_text(&option->name));
                free(member_text(&option->where));
        }
        free(member_text(&options->options));
        free(member_text(&options->where));
}

static void clear_block(const struct config_block *block, void *target);

static void clear_values(const struct config_key *key, void *target)
{
        struct key_values values = key_values(key, target);
        char *value = values.first;

        for (unsigned i = 0; i < values.n; i++, value += key->value_bytes) {
                if (key->block != NULL)
                        clear_block(key->block, value);
                else if (key->type == KEY_OPTIONS)
                        clear_options((struct sink_options *)(void *)value);
                else if (key->type == KEY_TEXT)
                        secret_free(member_text(value));
        }
        if (key->is_list || key->type == KEY_OPTIONAL_BLOCK)
                free(values.first);
}

static void clear_block(const struct config_block *block, void *target)
{
        for (size_t i = 0; i < block->n_keys; i++)
                clear_values(&block->keys[i], target);
}

void config_clear(struct config *config)
{
        clear_block(&config_root, config);
}
