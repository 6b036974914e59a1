/* Which files a sink's settings name is read off the key tables: the checks of their rows say it. */
#include "base/hash.h"
#include "config/compare.h"
#include "config/config_keys.h"
#include "config/scalar.h"

#include <dirent.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

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

/* The sum over its entries, as they come in any order. */
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
        for (size_t i = 0; i < block->n_keys; i++) {
                const struct config_key *key = &block->keys[i];
                const char *member = (const char *)target + key->offset;

                if (key->type == KEY_BLOCK)
                        mix_files(hash, key->block, member);
                else if (key->type == KEY_OPTIONAL_BLOCK && member_text(member) != NULL)
                        mix_files(hash, key->block, member_text(member));
                else if (key->type != KEY_TEXT || member_text(member) == NULL)
                        continue;
                else if (key->check == check_readable_file)
                        mix_status(hash, AT_FDCWD, member_text(member));
                else if (key->check == check_folder)
                        mix_folder(hash, member_text(member));
        }
}

uint64_t sink_config_fingerprint(const struct sink_config *sink)
{
        uint64_t hash = HASH_START;

        for (size_t i = 0; i < config_root.n_keys; i++)
                if (config_root.keys[i].type == KEY_BLOCKS) /* the sinks */
                        mix_files(&hash, config_root.keys[i].block, sink);
        return hash;
}
