#include "config/source.h"

#include "base/alloc.h"
#include "config/secret.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void key_path_join(char out[KEY_PATH_SIZE], const char *parent, const char *name)
{
        bool has_both = *parent != '\0' && *name != '\0';

        snprintf(out, KEY_PATH_SIZE, "%s%s%s", parent, has_both ? "." : "", name);
}

void key_path_item(char out[KEY_PATH_SIZE], const char *parent, size_t item)
{
        snprintf(out, KEY_PATH_SIZE, "%s[%zu]", parent, item);
}

static const struct node *find_child(const struct node *parent, const char *key, size_t length)
{
        if (parent == NULL || parent->kind != NODE_MAPPING)
                return NULL;
        for (const struct node *child = parent->first_child; child != NULL; child = child->next)
                if (strlen(child->key) == length && memcmp(child->key, key, length) == 0)
                        return child;
        return NULL;
}

const struct node *node_child(const struct node *parent, const char *key)
{
        return find_child(parent, key, strlen(key));
}

const struct node *node_item(const struct node *list, size_t index)
{
        const struct node *item = NULL;

        if (list != NULL && list->kind == NODE_LIST)
                item = list->first_child;
        while (item != NULL && item->index != index)
                item = item->next;
        return item;
}

/* The value at the path, or the nearest block around it; NULL only for a file that could not be
 * read. */
static const struct node *find_nearest(
    const struct source *source, const char *path, bool *out_is_found)
{
        const struct node *node = source->root;

        while (node != NULL && *path != '\0') {
                const struct node *child;
                if (*path == '[') {
                        child = node_item(node, strtoull(path + 1, NULL, 10));
                        path += strcspn(path, "]");
                        path += *path == ']';
                } else {
                        path += *path == '.';
                        size_t length = strcspn(path, ".[");
                        child = find_child(node, path, length);
                        path += length;
                }
                if (child == NULL) {
                        *out_is_found = false;
                        return node;
                }
                node = child;
        }
        *out_is_found = node != NULL;
        return node;
}

bool source_has(const struct source *source, const char *block_path, const char *name)
{
        char path[KEY_PATH_SIZE];
        bool is_found;

        key_path_join(path, block_path, name);
        find_nearest(source, path, &is_found);
        return is_found;
}

/* Keys and values of the file end up on terminals: C0 and C1 controls may move the cursor there. */
static void defuse(char *text)
{
        for (unsigned char *at = (unsigned char *)text; *at != '\0'; at++) {
                if (*at < ' ' || *at == 0x7f)
                        *at = '?';
                else if (at[0] == 0xc2 && at[1] >= 0x80 && at[1] < 0xa0)
                        at[0] = at[1] = '?';
        }
}

static bool report(const struct source *source, enum error_kind kind, size_t line, size_t column,
    const char *path, const char *reason)
{
        error_set(source->error, kind, "%s:%zu:%zu: %s%s%s", source->path, line, column, path,
            *path != '\0' ? ": " : "", reason);
        defuse(source->error->text);
        return false;
}

bool source_fail_at(const struct source *source, size_t line, size_t column, const char *path,
    const char *format, ...)
{
        char reason[sizeof source->error->text];
        va_list arguments;

        va_start(arguments, format);
        vsnprintf(reason, sizeof reason, format, arguments);
        va_end(arguments);
        return report(source, ERROR_CONFIG, line, column, path, reason);
}

static bool vfail(const struct source *source, enum error_kind kind, const char *block_path,
    const char *name, const char *format, va_list arguments) __attribute__((format(printf, 5, 0)));

static bool vfail(const struct source *source, enum error_kind kind, const char *block_path,
    const char *name, const char *format, va_list arguments)
{
        char reason[sizeof source->error->text];
        char path[KEY_PATH_SIZE];
        const struct node *node;
        bool is_found;

        key_path_join(path, block_path, name);
        node = find_nearest(source, path, &is_found);
        vsnprintf(reason, sizeof reason, format, arguments);
        return report(source, kind, node->line, node->column, path, reason);
}

bool source_fail(
    const struct source *source, const char *block_path, const char *name, const char *format, ...)
{
        va_list arguments;

        va_start(arguments, format);
        vfail(source, ERROR_CONFIG, block_path, name, format, arguments);
        va_end(arguments);
        return false;
}

bool source_fail_as(const struct source *source, enum error_kind kind, const char *block_path,
    const char *name, const char *format, ...)
{
        va_list arguments;

        va_start(arguments, format);
        vfail(source, kind, block_path, name, format, arguments);
        va_end(arguments);
        return false;
}

char *source_where(const struct source *source, const char *path)
{
        bool is_found;
        const struct node *node = find_nearest(source, path, &is_found);
        char *where = xasprintf("%s:%zu:%zu: %s", source->path, node->line, node->column, path);

        defuse(where);
        return where;
}

static void node_free(struct node *node)
{
        while (node != NULL) {
                struct node *next = node->next;
                node_free(node->first_child);
                free(node->key);
                secret_free(node->text);
                free(node);
                node = next;
        }
}

void source_close(struct source *source)
{
        node_free(source->root);
        secret_free_bytes(source->text, source->length);
        *source = (struct source){0};
}
