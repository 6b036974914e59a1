/*
 * docs/configuration.md against the table of keys: every key has its row under
 * the heading of its block, with the default and the range that the program has.
 */
#include "config/config_keys.h"

#include "base/alloc.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char *read_document(void)
{
        static const char path[] = PGCOURIER_DOCS_FOLDER "/configuration.md";
        FILE *file = fopen(path, "r");
        char *text = NULL;
        size_t size = 0;

        cr_assert(file != NULL, "%s cannot be read", path);
        cr_assert(getdelim(&text, &size, '\0', file) > 0);
        fclose(file);
        return text;
}

/* The text between `begin` and the next `end` behind it; NULL if it does not begin. */
static char *copy_between(const char *text, const char *begin, const char *end)
{
        const char *from = strstr(text, begin);
        const char *to;

        if (from == NULL)
                return NULL;
        from += strlen(begin);
        to = strstr(from, end);
        return xstrndup(from, to != NULL ? (size_t)(to - from) : strlen(from));
}

static void expect_in_row(const char *row, const char *path, const char *name, const char *wanted)
{
        cr_expect(strstr(row, wanted) != NULL, "the row of %s in \"%s\" does not say %s", name,
            path, wanted);
}

static void expect_key(const char *section, const char *path, const struct config_key *key)
{
        char wanted[128];
        char *row;

        snprintf(wanted, sizeof wanted, "\n| `%s` |", key->name);
        row = copy_between(section, wanted, "\n");
        cr_expect(row != NULL, "\"%s\" has no row for %s", path, key->name);
        if (row == NULL)
                return;
        if (key->fallback != NULL) {
                snprintf(wanted, sizeof wanted, "| `%s` |", key->fallback);
                expect_in_row(row, path, key->name, wanted);
        }
        if (key->min != NULL) {
                snprintf(wanted, sizeof wanted, "| `%s` to `%s` |", key->min, key->max);
                expect_in_row(row, path, key->name, wanted);
        }
        if (key->is_required)
                expect_in_row(row, path, key->name, "| required |");
        if (key->is_secret)
                expect_in_row(row, path, key->name, ", secret |");
        free(row);
}

static void expect_block(const char *document, const char *path, const struct config_block *block)
{
        char *heading =
            *path != '\0' ? xasprintf("\n## `%s`\n", path) : xstrdup("\n## Top level\n");
        char *section = copy_between(document, heading, "\n## ");

        cr_expect(section != NULL, "there is no heading for the block \"%s\"", path);
        for (size_t i = 0; section != NULL && i < block->n_keys; i++) {
                const struct config_key *key = &block->keys[i];
                expect_key(section, path, key);
                if (key->block != NULL) {
                        char *inner = xasprintf("%s%s%s%s", path, *path != '\0' ? "." : "",
                            key->name, key->is_list ? "[]" : "");
                        expect_block(document, inner, key->block);
                        free(inner);
                }
        }
        free(section);
        free(heading);
}

Test(config_document, has_every_key_with_its_default_and_range)
{
        char *document = read_document();

        expect_block(document, "", &config_root);
        free(document);
}
