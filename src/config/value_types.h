/*
 * The types of single values: how a text of the config file becomes a member of a struct, and how
 * the member is written as text. Blocks, lists, options and files are made of these; see parse.h.
 */
#pragma once

#include "base/bytes.h"
#include "config/config_keys.h"
#include "config/source.h"

#include <stdbool.h>
#include <string.h>

/* A value on its way into a member. */
struct scalar {
        const struct source *source;
        const struct config_key *key;
        const char *path;
        const char *written; /* as it stands in the file, or the default: may be quoted in errors */
        const char *text;    /* with its references filled in: may not */
        void *member;
};

struct value_type {
        const char *name; /* "duration", for documentation */
        const char *list_name;
        /* Checks the text and sets the member. On failure the source's error is set, and the member
         * is untouched. NULL: not a single value. */
        bool (*parse)(const struct scalar *value);
        /* Appends the member as it could be written; nothing for a text that is NULL. */
        void (*append)(struct bytes *text, const struct config_key *key, const void *member);
        /* For editors: a JSON schema of the values that are not YAML strings, and a regular
         * expression for those that are. NULL: any text. */
        const char *json_schema;
        const char *pattern;
};

/* By enum key_type. */
extern const struct value_type value_types[];

/* What values of a row are called: "duration", "list of texts". */
const char *key_type_name(const struct config_key *key);

/* The pointer that a member holds, whatever its type says it points to. */
static inline char *member_text(const void *member)
{
        char *text;

        memcpy(&text, member, sizeof text);
        return text;
}
