#include "config/config_show.h"

#include "base/alloc.h"
#include "base/bytes.h"
#include "config/checks.h"
#include "config/config.h"
#include "config/config_keys.h"
#include "config/fill.h"
#include "config/raw.h"
#include "config/scalar.h"
#include "config/source.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

struct walk {
        const struct source *source;
        config_visit_fn *visit;
        void *owner; /* borrowed */
};

static void append_duration(struct bytes *text, const char *member)
{
        static const struct {
                int64_t ms;
                const char *name;
        } units[] = {{86400000, "d"}, {3600000, "h"}, {60000, "m"}, {1000, "s"}, {1, "ms"}};
        int64_t ms;
        size_t i = 0;

        memcpy(&ms, member, sizeof ms);
        while (ms % units[i].ms != 0)
                i++;
        if (ms == 0)
                bytes_append_text(text, "0");
        else
                bytes_printf(text, "%" PRId64 "%s", ms / units[i].ms, units[i].name);
}

static void append_size(struct bytes *text, const char *member)
{
        static const char *const units[] = {"B", "KiB", "MiB", "GiB"};
        uint64_t bytes;
        size_t i = 0;

        memcpy(&bytes, member, sizeof bytes);
        for (; i < 3 && bytes > 0 && bytes % 1024 == 0; i++)
                bytes /= 1024;
        bytes_printf(text, "%" PRIu64 "%s", bytes, bytes > 0 ? units[i] : "");
}

static void append_integer(struct bytes *text, const struct config_key *key, const char *member)
{
        uint64_t wide = 0;
        uint32_t narrow;

        if (key->member_bytes == sizeof narrow) {
                memcpy(&narrow, member, sizeof narrow);
                wide = narrow;
        } else {
                memcpy(&wide, member, sizeof wide);
        }
        bytes_printf(text, "%" PRIu64, wide);
}

static void append_choice(struct bytes *text, const struct config_key *key, const char *member)
{
        const char *choice = key->choices;
        unsigned n;

        memcpy(&n, member, sizeof n);
        for (; n > 0; n--)
                choice = strchr(choice, ',') + 2;
        bytes_append(text, choice, strcspn(choice, ","));
}

/* Leaves `text` without data if there is no value. */
static void append_value(struct bytes *text, const struct config_key *key, const char *member)
{
        double number;

        switch (key->type) {
        case KEY_TEXT:
        case KEY_TEXTS:
                if (member_text(member) != NULL)
                        bytes_append_text(text, member_text(member));
                return;
        case KEY_CHOICE:
                append_choice(text, key, member);
                return;
        case KEY_BOOL:
                bytes_append_text(text, *(const bool *)(const void *)member ? "true" : "false");
                return;
        case KEY_INTEGER:
                append_integer(text, key, member);
                return;
        case KEY_NUMBER:
                memcpy(&number, member, sizeof number);
                bytes_printf(text, "%.15g", number);
                return;
        case KEY_DURATION:
        case KEY_DURATIONS:
                append_duration(text, member);
                return;
        case KEY_SIZE:
                append_size(text, member);
                return;
        case KEY_FILE_OF:
        case KEY_LINES_OF:
        case KEY_BLOCK:
        case KEY_OPTIONAL_BLOCK:
        case KEY_BLOCKS:
        case KEY_OPTIONS:
                break;
        }
        abort();
}

/* The first reference in what is written: the variable, or the file. */
static void find_origin(struct config_shown *shown, const char *written, char **out_from)
{
        const char *reference = strstr(written, "${");

        shown->origin = ORIGIN_FILE;
        if (reference == NULL)
                return;
        reference += 2;
        shown->origin = ORIGIN_VARIABLE;
        if (strncmp(reference, "file:", 5) == 0) {
                reference += 5;
                shown->origin = ORIGIN_SECRET;
                shown->is_masked = true;
                *out_from = xstrndup(reference, strcspn(reference, "}"));
        } else {
                *out_from = xstrndup(reference, strcspn(reference, ":}"));
        }
        shown->from = *out_from;
}

/* `written` NULL: nothing is. `file` is what a twin of the key (KEY_FILE_OF) has instead. */
static void show_value(const struct walk *walk, const struct config_key *key, const char *path,
    const char *member, const char *written, const char *file)
{
        const struct place *place = places_find(walk->source->places, path);
        struct config_shown shown = {.path = path, .line = place != NULL ? place->line : 0};
        struct bytes text = {0};
        char *from = NULL;

        append_value(&text, key, member);
        if (written != NULL) {
                find_origin(&shown, written, &from);
        } else if (file != NULL) {
                shown.origin = ORIGIN_SECRET;
                shown.from = file;
                shown.is_masked = true;
        } else if (text.data != NULL) {
                shown.origin = ORIGIN_DEFAULT;
        }
        shown.is_masked = text.data != NULL && (shown.is_masked || key->is_secret);
        shown.value = shown.is_masked ? NULL : text.data;
        walk->visit(walk->owner, &shown);
        if (text.data != NULL)
                explicit_bzero(text.data, text.length);
        bytes_deinit(&text);
        free(from);
}

static void show_block(const struct walk *walk, const struct config_block *block,
    const struct raw_slot *slots, const char *target, const char *path);

static unsigned count_of(const struct config_key *key, const char *target)
{
        unsigned count;

        memcpy(&count, target + key->count_offset, sizeof count);
        return count;
}

static void show_list(const struct walk *walk, const struct config_key *key,
    const struct raw_slot *slot, const char *target, const char *path, const char *file)
{
        size_t item_bytes = key->type == KEY_DURATIONS ? sizeof(int64_t) : sizeof(char *);
        const char *items = member_text(target + key->offset);
        char *const *written = slot != NULL ? slot->value : NULL;
        char item_path[KEY_PATH_SIZE];
        unsigned n = count_of(key, target);

        for (unsigned i = 0; i < n; i++) {
                key_path_item(item_path, path, i);
                show_value(walk, key, item_path, items + i * item_bytes,
                    written != NULL && i < slot->count ? written[i] : NULL, file);
        }
        if (n == 0)
                walk->visit(walk->owner, &(const struct config_shown){.path = path});
}

static void show_options(
    const struct walk *walk, const struct sink_options *options, const char *path)
{
        char option_path[KEY_PATH_SIZE];

        for (size_t i = 0; i < options->n_options; i++) {
                const struct place *place;
                key_path_join(option_path, path, options->options[i].name);
                place = places_find(walk->source->places, option_path);
                walk->visit(walk->owner, &(const struct config_shown){.path = option_path,
                                             .is_masked = true, /* only the module knows */
                                             .origin = ORIGIN_FILE,
                                             .line = place != NULL ? place->line : 0});
        }
}

static void show_blocks(const struct walk *walk, const struct config_key *key,
    const struct raw_slot *slot, const char *target, const char *path)
{
        const char *structs = member_text(target + key->offset);
        const struct raw_slot *slots = slot != NULL ? slot->value : NULL;
        char item_path[KEY_PATH_SIZE];

        for (unsigned i = 0; i < count_of(key, target); i++) {
                key_path_item(item_path, path, i);
                show_block(walk, key->block, slots != NULL ? &slots[i * key->block->n_keys] : NULL,
                    structs + i * key->block->struct_bytes, item_path);
        }
}

/* The file that stands in the place of a key's value; NULL: none does. */
static const char *file_instead(
    const struct config_block *block, const struct config_key *key, const struct raw_slot *slots)
{
        for (size_t i = 0; slots != NULL && i < block->n_keys; i++)
                if ((block->keys[i].type == KEY_FILE_OF || block->keys[i].type == KEY_LINES_OF) &&
                    block->keys[i].offset == key->offset)
                        return slots[i].value;
        return NULL;
}

static void show_key(const struct walk *walk, const struct config_block *block, size_t i,
    const struct raw_slot *slots, const char *target, const char *path)
{
        const struct config_key *key = &block->keys[i];
        const struct raw_slot *slot = slots != NULL ? &slots[i] : NULL;
        const char *member = target + key->offset;
        const char *file = file_instead(block, key, slots);

        switch (key_shape(key->type)) {
        case SHAPE_SCALAR:
                if (key->type != KEY_FILE_OF && key->type != KEY_LINES_OF)
                        show_value(
                            walk, key, path, member, slot != NULL ? slot->value : NULL, file);
                return;
        case SHAPE_TEXTS:
                show_list(walk, key, slot, target, path, file);
                return;
        case SHAPE_BLOCK:
                if (key->type == KEY_BLOCK)
                        show_block(
                            walk, key->block, slot != NULL ? slot->value : NULL, member, path);
                else if (member_text(member) != NULL)
                        show_block(walk, key->block, slot->value, member_text(member), path);
                return;
        case SHAPE_BLOCKS:
                show_blocks(walk, key, slot, target, path);
                return;
        case SHAPE_OPTIONS:
                show_options(walk, (const struct sink_options *)(const void *)member, path);
                return;
        }
        abort();
}

static void show_block(const struct walk *walk, const struct config_block *block,
    const struct raw_slot *slots, const char *target, const char *path)
{
        char key_path[KEY_PATH_SIZE];

        for (size_t i = 0; i < block->n_keys; i++) {
                key_path_join(key_path, path, block->keys[i].name);
                show_key(walk, block, i, slots, target, key_path);
        }
}

bool config_walk(const char *path, config_visit_fn *visit, void *owner, struct error *error)
{
        struct config *config = xcalloc(1, sizeof *config);
        struct source source;
        struct raw raw = {0};
        const struct walk walk = {.source = &source, .visit = visit, .owner = owner};
        bool is_open = source_open(&source, path, error);
        bool ok = is_open && raw_load(&source, &raw) &&
                  block_fill(&source, &config_root, raw.slots, config, "") &&
                  config_check(&source, config);

        if (ok)
                show_block(&walk, &config_root, raw.slots, (const char *)config, "");
        if (is_open)
                raw_deinit(&raw);
        source_close(&source);
        config_free(config);
        return ok;
}
