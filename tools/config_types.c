/* What the types of keys are called, in the documentation and in the manual. */
#include "config/config_keys.h"
#include "tools.h"

#include <stdlib.h>

const char *config_type_name(const struct config_key *key)
{
        switch (key->type) {
        case KEY_TEXT:
                return key->check == check_readable_file || key->check == check_folder ? "path"
                                                                                       : "text";
        case KEY_FILE_OF:
        case KEY_LINES_OF:
                return "path";
        case KEY_CHOICE:
                return "text";
        case KEY_BOOL:
                return "true or false";
        case KEY_INTEGER:
                return "integer";
        case KEY_NUMBER:
                return "number";
        case KEY_DURATION:
                return "duration";
        case KEY_SIZE:
                return "size";
        case KEY_TEXTS:
                return "list of texts";
        case KEY_DURATIONS:
                return "list of durations";
        case KEY_BLOCK:
        case KEY_OPTIONAL_BLOCK:
                return "block";
        case KEY_BLOCKS:
                return "list of blocks";
        case KEY_OPTIONS:
                return "names and values";
        }
        abort();
}
