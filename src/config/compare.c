#include "config/compare.h"

#include "base/hash.h"
#include "config/config_keys.h"
#include "config/value_types.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static bool blocks_are_equal(const struct config_block *block, const void *a, const void *b);

static bool texts_are_equal(const char *a, const char *b)
{
        return a == b || (a != NULL && b != NULL && strcmp(a, b) == 0);
}

static const char *option_value(const struct sink_options *options, const char *name)
{
        for (size_t i = 0; i < options->n_options; i++)
                if (strcmp(options->options[i].name, name) == 0)
                        return options->options[i].value;
        return NULL;
}

/* Their places in the file and their order do not matter. */
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

static bool values_are_equal(const struct config_key *key, const char *a, const char *b)
{
        if (key->block != NULL)
                return blocks_are_equal(key->block, a, b);
        if (key->type == KEY_OPTIONS)
                return options_are_equal((const struct sink_options *)(const void *)a,
                    (const struct sink_options *)(const void *)b);
        if (key->type == KEY_TEXT)
                return texts_are_equal(member_text(a), member_text(b));
        return memcmp(a, b, key->value_bytes) == 0;
}

static bool keys_are_equal(const struct config_key *key, const void *a, const void *b)
{
        struct key_values of_a = key_values(key, a);
        struct key_values of_b = key_values(key, b);

        if (of_a.n != of_b.n)
                return false;
        for (size_t i = 0; i < of_a.n; i++)
                if (!values_are_equal(
                        key, of_a.first + i * key->value_bytes, of_b.first + i * key->value_bytes))
                        return false;
        return true;
}

static bool blocks_are_equal(const struct config_block *block, const void *a, const void *b)
{
        for (size_t i = 0; i < block->n_keys; i++)
                if (!keys_are_equal(&block->keys[i], a, b))
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

/* A sink of PostgreSQL's may log in as the relay does, by keys that are not its own. */
static bool logins_are_equal(const struct sink_config *a, const struct sink_config *b)
{
        if (a->postgres == NULL || b->postgres == NULL)
                return true;
        return postgres_configs_are_equal(&a->postgres->server, &b->postgres->server);
}

bool sink_configs_are_equal(const struct sink_config *a, const struct sink_config *b)
{
        return a->files == b->files && blocks_are_equal(block_of_root("sinks"), a, b) &&
               logins_are_equal(a, b);
}

static void mix(uint64_t *hash, const void *data, size_t length)
{
        *hash = hash_bytes(*hash, data, length);
}

static void mix_status(uint64_t *hash, int folder, const char *path)
{
        struct stat status;

        if (fstatat(folder, path, &status, 0) != 0)
                return;
        mix(hash, &status.st_dev, sizeof status.st_dev);
        mix(hash, &status.st_ino, sizeof status.st_ino);
        mix(hash, &status.st_size, sizeof status.st_size);
        mix(hash, &status.st_mtim, sizeof status.st_mtim);
}

/* A sum over the entries, which come in no order. */
static void mix_folder(uint64_t *hash, const char *path)
{
        DIR *folder = opendir(path);
        uint64_t sum = 0;

        if (folder == NULL)
                return;
        for (struct dirent *entry = readdir(folder); entry != NULL; entry = readdir(folder)) {
                uint64_t of_entry = HASH_START;
                mix(&of_entry, entry->d_name, strlen(entry->d_name));
                mix_status(&of_entry, dirfd(folder), entry->d_name);
                if (strcmp(entry->d_name, "..") != 0)
                        sum += of_entry;
        }
        closedir(folder);
        mix(hash, &sum, sizeof sum);
}

static void mix_files(uint64_t *hash, const struct config_block *block, const void *target)
{
        for (const struct config_key *key = block->keys; key < block->keys + block->n_keys; key++) {
                struct key_values values = key_values(key, target);
                const char *path;

                if (values.n == 0 || key->is_list)
                        continue;
                path = key->type == KEY_TEXT ? member_text(values.first) : NULL;
                if (key->block != NULL)
                        mix_files(hash, key->block, values.first);
                else if (path != NULL && key->check == check_readable_file)
                        mix_status(hash, AT_FDCWD, path);
                else if (path != NULL && key->check == check_folder)
                        mix_folder(hash, path);
        }
}

uint64_t sink_config_fingerprint(const struct sink_config *sink)
{
        uint64_t hash = HASH_START;

        mix_files(&hash, block_of_root("sinks"), sink);
        return hash;
}
