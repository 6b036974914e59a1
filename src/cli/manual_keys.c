#include "cli/manual_keys.h"

#include "base/bytes.h"
#include "config/config_keys.h"
#include "config/value_types.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void manual_print_text(const char *text)
{
        for (; *text != '\0'; text++) {
                if (strchr("\\*_#<>`|[]~", *text) != NULL)
                        putchar('\\');
                putchar(*text == '\n' ? ' ' : *text);
        }
}

static void print_key(const struct config_key *key)
{
        char *help = key_help(key);

        fputs("*", stdout);
        manual_print_text(key->name);
        printf("*: %s", key_type_name(key));
        if (key->is_required)
                fputs(", required", stdout);
        if (key->choices != NULL) {
                fputs("; one of ", stdout);
                manual_print_text(key->choices);
        }
        if (key->min != NULL && key->max != NULL)
                printf(", %s to %s", key->min, key->max);
        if (key->fallback != NULL) {
                fputs("; by default ", stdout);
                manual_print_text(key->fallback);
        }
        fputs("\n\t", stdout);
        manual_print_text(help);
        free(help);
        fputs("\n\n", stdout);
}

static void print_block(const struct config_block *block, const char *path)
{
        printf("## %s\n\n", *path != '\0' ? path : "At the top"); /* no markup in headings */
        for (size_t i = 0; i < block->n_keys; i++)
                print_key(&block->keys[i]);
        for (size_t i = 0; i < block->n_keys; i++) {
                const struct config_key *key = &block->keys[i];
                struct bytes below = {0};
                if (key->block == NULL)
                        continue;
                bytes_printf(&below, "%s%s%s%s", path, *path != '\0' ? "." : "", key->name,
                    key->is_list ? "[]" : "");
                print_block(key->block, below.data);
                bytes_deinit(&below);
        }
}

void manual_print_keys(void)
{
        print_block(&config_root, "");
}
