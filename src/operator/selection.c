#include "operator/selection.h"

#include <inttypes.h>
#include <stdio.h>

static const char *age_text(char *text, size_t size, int64_t age_ms)
{
        if (age_ms < 0)
                return NULL;
        snprintf(text, size, "%" PRId64, age_ms);
        return text;
}

void selection_fill(
    const struct selection *selection, struct selection_texts *texts, struct parameter *parameters)
{
        const char *values[SELECTION_PARAMETERS] = {
            selection->sink,
            selection->topic,
            selection->key,
            selection->word,
            age_text(texts->older_than_ms, sizeof texts->older_than_ms, selection->older_than_ms),
            age_text(texts->newer_than_ms, sizeof texts->newer_than_ms, selection->newer_than_ms),
            selection->ids,
            selection->endpoint,
        };

        for (int i = 0; i < SELECTION_PARAMETERS; i++)
                parameters[i] = (struct parameter){.value = values[i]};
}
