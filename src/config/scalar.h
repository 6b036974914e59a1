/* One text of the config file into one member of a struct: type, range and form are its row's. */
#pragma once

#include "config/config_keys.h"
#include "config/source.h"

#include <stdbool.h>
#include <string.h>

struct scalar {
        const struct source *source;
        const struct config_key *key;
        const char *path;
        const char *written; /* as it stands in the file, or the default: this may be quoted */
        const char *text;    /* with its references filled in: this may not */
        void *member;
};

/* `block` is the one that the key is a row of. On failure the source's error is set and the member
 * is untouched. */
bool scalar_set(const struct scalar *value, const struct config_block *block);

/* The pointer that a member holds, whatever its type says it points to. */
static inline char *member_text(const void *member)
{
        char *text;

        memcpy(&text, member, sizeof text);
        return text;
}
