/* The key tables as those of docs/configuration.md: scripts/docs puts them there. */
#include "base/alloc.h"
#include "base/bytes.h"
#include "config/config_keys.h"
#include "config/value_types.h"
#include "tools.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void append_choices(struct bytes *line, const char *choices)
{
        char *copy = xstrdup(choices);
        char *rest = copy;
        char *choice;

        for (const char *comma = ""; (choice = strsep(&rest, ",")) != NULL; comma = ", ")
                bytes_printf(line, "%s`%s`", comma, choice + strspn(choice, " "));
        free(copy);
}

static void append_range(struct bytes *line, const struct config_key *key)
{
        if (key->min != NULL)
                bytes_printf(line, "`%s` to `%s`", key->min, key->max);
        else if (key->max_items > 0)
                bytes_printf(line, "up to %u entries", key->max_items);
}

/* A bar would end the cell. */
static void append_cell(struct bytes *line, const char *text)
{
        for (; *text != '\0'; text++)
                bytes_printf(line, *text == '|' ? "\\%c" : "%c", *text);
}

/* Empty cells are one space wide, as people write them. */
static void print_line(const char *line)
{
        for (; *line != '\0'; line++)
                if (strncmp(line, "  |", 3) != 0)
                        putchar(*line);
        puts(" |");
}

static void print_row(const struct config_key *key)
{
        struct bytes line = {0};

        bytes_printf(&line, "| `%s` | ", key->name);
        if (key->choices != NULL)
                append_choices(&line, key->choices);
        else
                bytes_append_text(&line, key_type_name(key));
        bytes_printf(&line, "%s | ", key->is_secret ? ", secret" : "");
        if (key_is_required(key))
                bytes_append_text(&line, "required");
        else if (key->fallback != NULL)
                bytes_printf(&line, "`%s`", key->fallback);
        bytes_append_text(&line, " | ");
        append_range(&line, key);
        bytes_append_text(&line, " | ");
        append_cell(&line, key->help);
        print_line(line.data);
        bytes_deinit(&line);
}

static void print_block(const struct config_block *block, const char *path)
{
        printf("<!-- keys of %s -->\n", *path != '\0' ? path : "the file");
        puts("| key | type | default | range | meaning |\n|---|---|---|---|---|");
        for (size_t i = 0; i < block->n_keys; i++)
                print_row(&block->keys[i]);
        puts("<!-- end -->");
        for (size_t i = 0; i < block->n_keys; i++) {
                const struct config_key *key = &block->keys[i];
                char *inner;

                if (key->block == NULL)
                        continue;
                inner = xasprintf("%s%s%s%s", path, *path != '\0' ? "." : "", key->name,
                    key->is_list ? "[]" : "");
                print_block(key->block, inner);
                free(inner);
        }
}

void config_docs_print(void)
{
        print_block(&config_root, "");
}
