#include "lane/suspects.h"

#include "base/alloc.h"

#include <stdlib.h>

enum { MOST_SUSPECTS = 1024 };

struct suspect {
        uint64_t key;
        uint64_t since;
};

static struct suspect *find(const struct suspects *suspects, uint64_t key)
{
        for (size_t i = 0; i < suspects->n; i++)
                if (suspects->all[i].key == key)
                        return &suspects->all[i];
        return NULL;
}

uint64_t suspects_since(const struct suspects *suspects, uint64_t key)
{
        const struct suspect *suspect = find(suspects, key);

        return suspect != NULL ? suspect->since : 0;
}

void suspects_note(struct suspects *suspects, uint64_t key, uint64_t since)
{
        struct suspect *suspect = find(suspects, key);
        size_t bytes = (suspects->n + 1) * sizeof *suspect;

        if (key == 0)
                return;
        if (suspect == NULL && suspects->n == MOST_SUSPECTS) {
                suspect = &suspects->all[since % MOST_SUSPECTS];
        } else if (suspect == NULL) {
                suspects->all = xrealloc(suspects->all, bytes);
                suspect = &suspects->all[suspects->n++];
        }
        *suspect = (struct suspect){.key = key, .since = since};
}

bool suspects_forget(struct suspects *suspects, uint64_t key)
{
        struct suspect *suspect = find(suspects, key);

        if (suspect != NULL)
                *suspect = suspects->all[--suspects->n];
        return suspect != NULL;
}

void suspects_forget_all(struct suspects *suspects)
{
        free(suspects->all);
        *suspects = (struct suspects){0};
}
