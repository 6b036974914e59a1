#include "text/topic_index.h"

#include "base/alloc.h"
#include "base/hash.h"

#include <stdlib.h>
#include <string.h>

void topic_index_deinit(struct topic_index *index)
{
        free(index->entries);
        *index = (struct topic_index){0};
}

static void add_prefix(struct topic_index *index, const char *pattern, void *owner)
{
        size_t length = strcspn(pattern, "*");

        if (index->n_entries == index->n_entries_max) {
                index->n_entries_max = index->n_entries_max == 0 ? 16 : 2 * index->n_entries_max;
                index->entries =
                    xrealloc(index->entries, index->n_entries_max * sizeof *index->entries);
        }
        index->entries[index->n_entries] =
            (struct topic_index_entry){.hash = hash_bytes(HASH_START, pattern, length),
                .number = index->n_entries,
                .owner = owner};
        index->n_entries++;
        index->has_length[length] = true;
        index->is_sorted = false;
}

void topic_index_add(
    struct topic_index *index, char *const *patterns, size_t n_patterns, void *owner)
{
        for (size_t i = 0; i < n_patterns; i++)
                if (*patterns[i] != '!')
                        add_prefix(index, patterns[i], owner);
}

static int compare(const void *a, const void *b)
{
        const struct topic_index_entry *first = a, *second = b;

        if (first->hash != second->hash)
                return first->hash < second->hash ? -1 : 1;
        return first->number < second->number ? -1 : first->number > second->number;
}

static size_t first_of(const struct topic_index *index, uint64_t hash)
{
        size_t low = 0, high = index->n_entries;

        while (low < high) {
                size_t middle = low + (high - low) / 2;
                if (index->entries[middle].hash < hash)
                        low = middle + 1;
                else
                        high = middle;
        }
        return low;
}

void topic_index_find(struct topic_index *index, const char *topic,
    void (*found)(void *context, void *owner), void *context)
{
        uint64_t hash = HASH_START;

        if (!index->is_sorted && index->n_entries > 0)
                qsort(index->entries, index->n_entries, sizeof *index->entries, compare);
        index->is_sorted = true;
        for (size_t length = 0; length <= TOPIC_PATTERN_BYTES; length++) {
                size_t i = index->has_length[length] ? first_of(index, hash) : index->n_entries;

                for (; i < index->n_entries && index->entries[i].hash == hash; i++)
                        found(context, index->entries[i].owner);
                if (topic[length] == '\0')
                        return;
                hash = hash_byte(hash, (unsigned char)topic[length]);
        }
}
