#include "config/compare.h"

#include "config/config_keys.h"
#include "config/scalar.h"

#include <stdlib.h>
#include <string.h>

static bool blocks_are_equal(const struct config_block *block, const void *a, const void *b);

static unsigned count_of(const struct config_key *key, const void *target)
{
        unsigned count;

        memcpy(&count, (const char *)target + key->count_offset, sizeof count);
        return count;
}

static bool texts_are_equal(const char *a, const char *b)
{
        return a == b || (a != NULL && b != NULL && strcmp(a, b) == 0);
}

static bool lists_are_equal(const struct config_key *key, const void *a, const void *b)
{
        const char *list_a = member_text((const char *)a + key->offset);
        const char *list_b = member_text((const char *)b + key->offset);
        unsigned count = count_of(key, a);

        if (count != count_of(key, b))
                return false;
        if (key->type == KEY_DURATIONS)
                return count == 0 || memcmp(list_a, list_b, count * sizeof(int64_t)) == 0;
        for (unsigned i = 0; i < count; i++)
                if (!texts_are_equal(member_text(list_a + i * sizeof(char *)),
                        member_text(list_b + i * sizeof(char *))))
                        return false;
        return true;
}

static bool block_lists_are_equal(const struct config_key *key, const void *a, const void *b)
{
        const char *list_a = member_text((const char *)a + key->offset);
        const char *list_b = member_text((const char *)b + key->offset);
        unsigned count = count_of(key, a);

        if (count != count_of(key, b))
                return false;
        for (unsigned i = 0; i < count; i++) {
                size_t at = i * key->block->struct_bytes;
                if (!blocks_are_equal(key->block, list_a + at, list_b + at))
                        return false;
        }
        return true;
}

static bool optional_blocks_are_equal(const struct config_key *key, const void *a, const void *b)
{
        const char *block_a = member_text((const char *)a + key->offset);
        const char *block_b = member_text((const char *)b + key->offset);

        if (block_a == NULL || block_b == NULL)
                return block_a == block_b;
        return blocks_are_equal(key->block, block_a, block_b);
}

static const char *option_value(const struct sink_options *options, const char *name)
{
        for (size_t i = 0; i < options->n_options; i++)
                if (strcmp(options->options[i].name, name) == 0)
                        return options->options[i].value;
        return NULL;
}

/* Where they stand in the file means nothing, nor does their order. */
static bool options_are_equal(const struct sink_options *a, const struct sink_options *b)
{
        if (a->n_options != b->n_options)
                return false;
        for (size_t i = 0; i < a->n_options; i++) {
                const char *value = option_value(b, a->options[i].name);
                if (value == NULL || strcmp(a->options[i].value, value) != 0)
                        return false;
        }
        return true;
}

static bool members_are_equal(const struct config_key *key, const void *a, const void *b)
{
        const char *member_a = (const char *)a + key->offset;
        const char *member_b = (const char *)b + key->offset;

        switch (key->type) {
        case KEY_FILE_OF: /* the member is that of its twin's row */
        case KEY_LINES_OF:
                return true;
        case KEY_TEXT:
                return texts_are_equal(member_text(member_a), member_text(member_b));
        case KEY_CHOICE:
        case KEY_BOOL:
        case KEY_INTEGER:
        case KEY_NUMBER:
        case KEY_DURATION:
        case KEY_SIZE:
                return memcmp(member_a, member_b, key->member_bytes) == 0;
        case KEY_TEXTS:
        case KEY_DURATIONS:
                return lists_are_equal(key, a, b);
        case KEY_BLOCK:
                return blocks_are_equal(key->block, member_a, member_b);
        case KEY_OPTIONAL_BLOCK:
                return optional_blocks_are_equal(key, a, b);
        case KEY_BLOCKS:
                return block_lists_are_equal(key, a, b);
        case KEY_OPTIONS:
                return options_are_equal((const struct sink_options *)(const void *)member_a,
                    (const struct sink_options *)(const void *)member_b);
        }
        abort();
}

static bool blocks_are_equal(const struct config_block *block, const void *a, const void *b)
{
        for (size_t i = 0; i < block->n_keys; i++)
                if (!members_are_equal(&block->keys[i], a, b))
                        return false;
        return true;
}

static const struct config_block *block_of_root(const char *name)
{
        for (size_t i = 0; i < config_root.n_keys; i++)
                if (strcmp(config_root.keys[i].name, name) == 0)
                        return config_root.keys[i].block;
        abort();
}

bool postgres_configs_are_equal(const struct postgres_config *a, const struct postgres_config *b)
{
        return blocks_are_equal(block_of_root("postgres"), a, b);
}

bool sink_configs_are_equal(const struct sink_config *a, const struct sink_config *b)
{
        return a->files == b->files && blocks_are_equal(block_of_root("sinks"), a, b);
}
