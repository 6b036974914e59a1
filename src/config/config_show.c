#include "config/config_show.h"

#include "base/alloc.h"
#include "base/bytes.h"
#include "config/checks.h"
#include "config/config.h"
#include "config/config_keys.h"
#include "config/parse.h"
#include "config/value_types.h"
#include "config/yaml_reader.h"

#include <stdlib.h>
#include <string.h>

struct walk {
        config_visit_fn *visit;
        void *owner; /* borrowed */
};

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

/* `node` NULL: the value is not in the file. `file` is what the key's twin (KEY_FILE_OF) has. */
static void show_value(const struct walk *walk, const struct config_key *key, const char *path,
    const char *member, const struct node *node, const char *file)
{
        struct config_shown shown = {.path = path, .line = node != NULL ? node->line : 0};
        struct bytes text = {0};
        char *from = NULL;

        value_types[key->type].append(&text, key, member);
        if (node != NULL) {
                find_origin(&shown, node->text, &from);
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

static void show_options(const struct walk *walk, const struct node *options, const char *path)
{
        char option_path[KEY_PATH_SIZE];

        if (options == NULL)
                return;
        for (const struct node *node = options->first_child; node != NULL; node = node->next) {
                key_path_join(option_path, path, node->key);
                walk->visit(walk->owner, &(const struct config_shown){.path = option_path,
                                             .is_masked = true, /* only the module knows */
                                             .origin = ORIGIN_FILE,
                                             .line = node->line});
        }
}

static void show_block(const struct walk *walk, const struct config_block *block,
    const struct node *node, const void *target, const char *path);

static void show_key(const struct walk *walk, const struct config_block *block,
    const struct config_key *key, const struct node *parent, const void *target, const char *path)
{
        struct key_values values = key_values(key, target);
        const struct config_key *twin = key_twin(block, key);
        const struct node *file = twin != NULL ? node_child(parent, twin->name) : NULL;
        const struct node *node = node_child(parent, key->name);
        char item_path[KEY_PATH_SIZE];

        if (key->is_list && key->type != KEY_FILE_OF && key->block == NULL && values.n == 0)
                walk->visit(walk->owner, &(const struct config_shown){.path = path});
        for (unsigned i = 0; i < values.n; i++, values.first += key->value_bytes) {
                const struct node *item = key->is_list ? node_item(node, i) : node;

                key_path_join(item_path, path, "");
                if (key->is_list)
                        key_path_item(item_path, path, i);
                if (key->block != NULL)
                        show_block(walk, key->block, item, values.first, item_path);
                else if (key->type == KEY_OPTIONS)
                        show_options(walk, item, item_path);
                else
                        show_value(walk, key, item_path, values.first, item,
                            file != NULL ? file->text : NULL);
        }
}

static void show_block(const struct walk *walk, const struct config_block *block,
    const struct node *node, const void *target, const char *path)
{
        char key_path[KEY_PATH_SIZE];

        for (size_t i = 0; i < block->n_keys; i++) {
                key_path_join(key_path, path, block->keys[i].name);
                show_key(walk, block, &block->keys[i], node, target, key_path);
        }
}

bool config_walk(const char *path, config_visit_fn *visit, void *owner, struct error *error)
{
        struct config *config = xcalloc(1, sizeof *config);
        struct source source;
        const struct walk walk = {.visit = visit, .owner = owner};
        bool ok = source_open(&source, path, error) && config_parse(&source, config) &&
                  config_check(&source, config);

        if (ok)
                show_block(&walk, &config_root, source.root, config, "");
        source_close(&source);
        config_free(config);
        return ok;
}
