#include "config/fill.h"

#include "base/alloc.h"
#include "config/interpolate.h"
#include "config/module_options.h"
#include "config/scalar.h"
#include "config/secret.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* Refuses what YAML means as nothing, too. */
char *fill_resolve(const struct source *source, const char *path, const char *written)
{
        const struct place *place = places_find(source->places, path);
        struct error why;
        char *text;

        if (place != NULL && place->kind == PLACE_NULL) {
                source_fail(source, path,
                    "is empty; give a value (in quotes if null is meant as a word), or leave the "
                    "key out");
                return NULL;
        }
        text = interpolate(written, &why);
        if (text == NULL)
                source_fail_as(source, why.kind, path, "%s", why.text);
        return text;
}

static bool fill_scalar(const struct source *source, const struct config_block *block,
    const struct config_key *key, const char *written, void *member, const char *path)
{
        struct scalar value = {
            .source = source, .key = key, .path = path, .written = written, .member = member};
        char *text;
        bool is_set;

        if (written == NULL) {
                if (key->fallback == NULL)
                        return true;
                value.written = value.text = key->fallback;
                return scalar_set(&value, block);
        }
        text = fill_resolve(source, path, written);
        if (text == NULL)
                return false;
        value.text = text;
        if (key->type == KEY_FILE_OF && *text == '\0')
                is_set = source_fail(
                    source, path, "is empty; give the path of a file, or leave the key out");
        else
                is_set = scalar_set(&value, block);
        secret_free(text);
        return is_set;
}

static bool fill_list(const struct source *source, const struct config_key *key,
    const struct raw_slot *slot, void *target, const char *path)
{
        size_t item_bytes = key->type == KEY_DURATIONS ? sizeof(int64_t) : sizeof(char *);
        char *const *written = slot->value;
        char *items;
        unsigned *count = (unsigned *)(void *)((char *)target + key->count_offset);
        char item_path[KEY_PATH_SIZE];

        if (slot->count == 0)
                return true;
        if (key->max_items > 0 && slot->count > key->max_items)
                return source_fail(source, path, "has %ju entries; allowed: up to %u",
                    (uintmax_t)slot->count, key->max_items);
        items = xcalloc(slot->count, item_bytes);
        memcpy((char *)target + key->offset, &items, sizeof items);
        for (size_t i = 0; i < slot->count; i++) {
                key_path_item(item_path, path, i);
                if (!fill_scalar(source, NULL, key, written[i], items + i * item_bytes, item_path))
                        return false;
                ++*count;
        }
        return true;
}

/* The row whose items stand in a file, one per line. */
static const struct config_key *items_of(
    const struct config_block *block, const struct config_key *file_key)
{
        for (size_t i = 0; i < block->n_keys; i++)
                if (block->keys[i].type == KEY_TEXTS && block->keys[i].offset == file_key->offset)
                        return &block->keys[i];
        abort();
}

/* Cuts `text` into its lines; empty ones do not count. */
static bool fill_from_lines(const struct source *source, const struct config_key *key, char *text,
    void *target, const char *path)
{
        unsigned max_items = key->max_items;
        char **items = xcalloc(max_items, sizeof *items);
        unsigned *count = (unsigned *)(void *)((char *)target + key->count_offset);
        char item_path[KEY_PATH_SIZE];
        char *rest = text;
        char *line;

        memcpy((char *)target + key->offset, &items, sizeof items);
        while ((line = strsep(&rest, "\n")) != NULL) {
                if (*line == '\0')
                        continue;
                if (*count == max_items)
                        return source_fail(source, path,
                            "names a file with more than %u lines; allowed: up to %u", max_items,
                            max_items);
                key_path_item(item_path, path, *count);
                const struct scalar item = {.source = source,
                    .key = key,
                    .path = item_path,
                    .written = "(a line of the file)",
                    .text = line,
                    .member = &items[*count]};
                if (!scalar_set(&item, NULL))
                        return false;
                ++*count;
        }
        return *count > 0 || source_fail(source, path,
                                 "names a file without a line; give at least one %s", key->name);
}

static bool fill_lines(const struct source *source, const struct config_block *block,
    const struct config_key *key, const char *written, void *target, const char *path)
{
        enum { MAX_FILE_BYTES = 64 * 1024 };
        const struct config_key *items = items_of(block, key);
        struct error why;
        size_t length;
        char *file;
        char *text;
        bool is_filled;

        if (written == NULL)
                return true;
        if (member_text((const char *)target + key->offset) != NULL)
                return source_fail(
                    source, path, "is given together with %s; keep one of the two", items->name);
        file = fill_resolve(source, path, written);
        if (file == NULL)
                return false;
        text = secret_read_bytes(file, MAX_FILE_BYTES, &length, &why);
        secret_free(file);
        if (text == NULL)
                return source_fail_as(
                    source, why.kind, path, "the file '%.400s' %s", written, why.text);
        if (memchr(text, '\0', length) != NULL)
                is_filled = source_fail(source, path, "names a file that holds a NUL byte");
        else
                is_filled = fill_from_lines(source, items, text, target, path);
        secret_free_bytes(text, length);
        return is_filled;
}

static bool fill_blocks(const struct source *source, const struct config_key *key,
    const struct raw_slot *slot, void *target, const char *path)
{
        const struct config_block *block = key->block;
        const struct raw_slot *slots = slot->value;
        char *structs;
        unsigned *count = (unsigned *)(void *)((char *)target + key->count_offset);
        char item_path[KEY_PATH_SIZE];

        if (slot->count == 0)
                return true;
        structs = xcalloc(slot->count, block->struct_bytes);
        memcpy((char *)target + key->offset, &structs, sizeof structs);
        *count = (unsigned)slot->count;
        for (size_t i = 0; i < slot->count; i++) {
                key_path_item(item_path, path, i);
                if (!block_fill(source, block, &slots[i * block->n_keys],
                        structs + i * block->struct_bytes, item_path))
                        return false;
        }
        return true;
}

static bool fill_optional_block(const struct source *source, const struct config_key *key,
    const struct raw_slot *slot, void *member, const char *path)
{
        void *allocated;

        if (slot->value == NULL)
                return true;
        allocated = xcalloc(1, key->block->struct_bytes);
        memcpy(member, &allocated, sizeof allocated);
        return block_fill(source, key->block, slot->value, allocated, path);
}

static bool fill_key(const struct source *source, const struct config_block *block,
    const struct config_key *key, const struct raw_slot *slot, void *target, const char *path)
{
        void *member = (char *)target + key->offset;

        switch (key_shape(key->type)) {
        case SHAPE_SCALAR:
                if (key->type == KEY_LINES_OF)
                        return fill_lines(source, block, key, slot->value, target, path);
                return fill_scalar(source, block, key, slot->value, member, path);
        case SHAPE_TEXTS:
                return fill_list(source, key, slot, target, path);
        case SHAPE_BLOCK:
                if (key->type == KEY_BLOCK)
                        return block_fill(source, key->block, slot->value, member, path);
                return fill_optional_block(source, key, slot, member, path);
        case SHAPE_BLOCKS:
                return fill_blocks(source, key, slot, target, path);
        case SHAPE_OPTIONS:
                return options_fill(source, path, member);
        }
        abort();
}

static bool has_twin(const struct config_block *block, const struct config_key *key)
{
        for (size_t i = 0; i < block->n_keys; i++)
                if (block->keys[i].type == KEY_FILE_OF && block->keys[i].offset == key->offset)
                        return true;
        return false;
}

static bool check_present(const struct source *source, const struct config_block *block,
    const struct config_key *key, const void *target, const char *path)
{
        /* Every member that a required row may have begins with a pointer. */
        if (!key->is_required || member_text((const char *)target + key->offset) != NULL)
                return true;
        if (key->type == KEY_TEXTS || key->type == KEY_BLOCKS)
                return source_fail(
                    source, path, "is required, with at least one entry: %s", key->help);
        if (has_twin(block, key))
                return source_fail(
                    source, path, "is required, or %s_file: %s", key->name, key->help);
        return source_fail(source, path, "is required: %s", key->help);
}

bool block_fill(const struct source *source, const struct config_block *block,
    const struct raw_slot *slots, void *target, const char *path)
{
        static const struct raw_slot absent;
        char key_path[KEY_PATH_SIZE];

        for (size_t i = 0; i < block->n_keys; i++) {
                key_path_join(key_path, path, block->keys[i].name);
                if (!fill_key(source, block, &block->keys[i], slots != NULL ? &slots[i] : &absent,
                        target, key_path))
                        return false;
        }
        for (size_t i = 0; i < block->n_keys; i++) {
                key_path_join(key_path, path, block->keys[i].name);
                if (!check_present(source, block, &block->keys[i], target, key_path))
                        return false;
        }
        return true;
}

static void clear_key(const struct config_key *key, void *target)
{
        char *member = (char *)target + key->offset;
        const unsigned *count =
            (const unsigned *)(const void *)((char *)target + key->count_offset);
        char *held;

        switch (key_shape(key->type)) {
        case SHAPE_SCALAR:
                if (key->type == KEY_TEXT) /* a KEY_FILE_OF is cleared by its twin's row */
                        secret_free(member_text(member));
                return;
        case SHAPE_TEXTS:
                held = member_text(member);
                for (unsigned i = 0; key->type == KEY_TEXTS && i < *count; i++)
                        secret_free(member_text(held + i * sizeof(char *)));
                free(held);
                return;
        case SHAPE_BLOCK:
                if (key->type == KEY_BLOCK) {
                        block_clear(key->block, member);
                        return;
                }
                held = member_text(member);
                if (held != NULL)
                        block_clear(key->block, held);
                free(held);
                return;
        case SHAPE_BLOCKS:
                held = member_text(member);
                for (unsigned i = 0; i < *count; i++)
                        block_clear(key->block, held + i * key->block->struct_bytes);
                free(held);
                return;
        case SHAPE_OPTIONS:
                options_clear((struct sink_options *)(void *)member);
                return;
        }
        abort();
}

void block_clear(const struct config_block *block, void *target)
{
        for (size_t i = 0; i < block->n_keys; i++)
                clear_key(&block->keys[i], target);
}
