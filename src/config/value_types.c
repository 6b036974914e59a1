#include "config/value_types.h"

#include "base/alloc.h"
#include "config/units.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static const char *after_filling(const struct scalar *value)
{
        return strcmp(value->written, value->text) != 0 ? " (once filled in)" : "";
}

static bool fail_range(const struct scalar *value)
{
        const struct config_key *key = value->key;

        return source_fail(value->source, value->path, "",
            "'%.80s'%s is out of range; allowed: %s to %s", value->written, after_filling(value),
            key->min, key->max);
}

static bool fail_form(const struct scalar *value, const char *allowed)
{
        const struct config_key *key = value->key;

        if (key->min != NULL)
                return source_fail(value->source, value->path, "",
                    "'%.80s'%s is not allowed here; allowed: %s, from %s to %s", value->written,
                    after_filling(value), allowed, key->min, key->max);
        return source_fail(value->source, value->path, "",
            "'%.80s'%s is not allowed here; allowed: %s", value->written, after_filling(value),
            allowed);
}

static bool find_choice(const char *choices, const char *text, unsigned *out_index)
{
        size_t length = strlen(text);

        for (unsigned index = 0;; index++) {
                size_t choice = strcspn(choices, ",");
                if (choice == length && memcmp(choices, text, length) == 0) {
                        *out_index = index;
                        return true;
                }
                if (choices[choice] == '\0')
                        return false;
                choices += choice + 2;
        }
}

static bool parse_choice(const struct scalar *value)
{
        unsigned index;

        if (!find_choice(value->key->choices, value->text, &index))
                return fail_form(value, value->key->choices);
        memcpy(value->member, &index, sizeof index);
        return true;
}

static bool parse_bool(const struct scalar *value)
{
        bool is_true = strcmp(value->text, "true") == 0;

        if (!is_true && strcmp(value->text, "false") != 0)
                return fail_form(value, "true, false");
        memcpy(value->member, &is_true, sizeof is_true);
        return true;
}

static bool parse_unsigned(
    const struct scalar *value, bool (*parse)(const char *text, uint64_t *out), const char *form)
{
        uint64_t number;
        uint64_t min = 0;
        uint64_t max = 0;
        uint32_t narrow;

        if (!parse(value->text, &number))
                return fail_form(value, form);
        if (!parse(value->key->min, &min) || !parse(value->key->max, &max))
                abort();
        if (number < min || number > max)
                return fail_range(value);
        narrow = (uint32_t)number;
        if (value->key->value_bytes == sizeof narrow)
                memcpy(value->member, &narrow, sizeof narrow);
        else
                memcpy(value->member, &number, sizeof number);
        return true;
}

static bool parse_integer(const struct scalar *value)
{
        return parse_unsigned(value, units_parse_integer, "a whole number");
}

static bool parse_size(const struct scalar *value)
{
        return parse_unsigned(value, units_parse_size, UNITS_SIZE);
}

static bool parse_number(const struct scalar *value)
{
        double number;
        double min = 0;
        double max = 0;

        if (!units_parse_number(value->text, &number))
                return fail_form(value, "a number such as 3 or 1.5");
        if (!units_parse_number(value->key->min, &min) ||
            !units_parse_number(value->key->max, &max))
                abort();
        if (number < min || number > max)
                return fail_range(value);
        memcpy(value->member, &number, sizeof number);
        return true;
}

static bool parse_duration(const struct scalar *value)
{
        int64_t ms;
        int64_t min = 0;
        int64_t max = 0;
        uint64_t number;

        if (!units_parse_duration(value->text, &ms)) {
                if (units_parse_integer(value->text, &number))
                        return source_fail(value->source, value->path, "",
                            "'%.80s'%s has no unit; allowed: " UNITS_DURATION ", from %s to %s",
                            value->written, after_filling(value), value->key->min, value->key->max);
                return fail_form(value, UNITS_DURATION);
        }
        if (!units_parse_duration(value->key->min, &min) ||
            !units_parse_duration(value->key->max, &max))
                abort();
        if (ms < min || ms > max)
                return fail_range(value);
        memcpy(value->member, &ms, sizeof ms);
        return true;
}

/* Of what a text key may hold, its characters: a line of text, and no NUL by construction. */
static const char *check_characters(const struct config_key *key, const char *text)
{
        if (*text == '\0' && !key->may_be_empty)
                return "is empty; give a value, or leave the key out if it is optional";
        for (const unsigned char *at = (const unsigned char *)text; *at != '\0'; at++)
                if (*at == '\r' || *at == '\n')
                        return "holds a line break (CR or LF); it must be one line";
                else if ((*at < ' ' && !key->is_secret) || *at == 0x7f)
                        return "holds a control character";
        return NULL;
}

static bool check_text(const struct scalar *value)
{
        const char *wrong = check_characters(value->key, value->text);
        unsigned index;

        if (wrong == NULL && value->key->check != NULL)
                wrong = value->key->check(value->text);
        if (wrong != NULL)
                return source_fail(value->source, value->path, "", "%s", wrong);
        if (value->key->choices != NULL && !find_choice(value->key->choices, value->text, &index))
                return fail_form(value, value->key->choices);
        return true;
}

static bool parse_text(const struct scalar *value)
{
        char *copy;

        if (!check_text(value))
                return false;
        copy = xstrdup(value->text);
        memcpy(value->member, &copy, sizeof copy);
        return true;
}

static void append_text(struct bytes *text, const struct config_key *key, const void *member)
{
        (void)key;
        if (member_text(member) != NULL)
                bytes_append_text(text, member_text(member));
}

static void append_choice(struct bytes *text, const struct config_key *key, const void *member)
{
        const char *choice = key->choices;
        unsigned n;

        memcpy(&n, member, sizeof n);
        for (; n > 0; n--)
                choice = strchr(choice, ',') + 2;
        bytes_append(text, choice, strcspn(choice, ","));
}

static void append_bool(struct bytes *text, const struct config_key *key, const void *member)
{
        (void)key;
        bytes_append_text(text, *(const bool *)member ? "true" : "false");
}

static void append_integer(struct bytes *text, const struct config_key *key, const void *member)
{
        uint64_t wide;
        uint32_t narrow;

        memcpy(&narrow, member, sizeof narrow);
        wide = narrow;
        if (key->value_bytes == sizeof wide)
                memcpy(&wide, member, sizeof wide);
        bytes_printf(text, "%" PRIu64, wide);
}

static void append_number(struct bytes *text, const struct config_key *key, const void *member)
{
        double number;

        (void)key;
        memcpy(&number, member, sizeof number);
        bytes_printf(text, "%.15g", number);
}

static void append_duration(struct bytes *text, const struct config_key *key, const void *member)
{
        int64_t ms;

        (void)key;
        memcpy(&ms, member, sizeof ms);
        units_append_duration(text, ms);
}

static void append_size(struct bytes *text, const struct config_key *key, const void *member)
{
        uint64_t bytes;

        (void)key;
        memcpy(&bytes, member, sizeof bytes);
        units_append_size(text, bytes);
}

#define TRUE_OR_FALSE "{\"enum\": [true, false, \"true\", \"false\"]}"

const struct value_type value_types[] = {
    [KEY_TEXT] = {"text", "list of texts", parse_text, append_text, NULL, NULL},
    [KEY_CHOICE] = {"text", NULL, parse_choice, append_choice, NULL, NULL},
    [KEY_BOOL] = {"true or false", NULL, parse_bool, append_bool, TRUE_OR_FALSE, NULL},
    [KEY_INTEGER] = {"integer", NULL, parse_integer, append_integer, "{\"type\": \"integer\"}",
        "^(0|[1-9][0-9]*)$"},
    [KEY_NUMBER] = {"number", NULL, parse_number, append_number, "{\"type\": \"number\"}",
        "^[0-9]+(\\.[0-9]+)?$"},
    [KEY_DURATION] = {"duration", "list of durations", parse_duration, append_duration,
        "{\"const\": 0}", "^(0|[0-9]+(ms|s|m|h|d))$"},
    [KEY_SIZE] = {"size", NULL, parse_size, append_size, "{\"type\": \"integer\", \"minimum\": 0}",
        "^[0-9]+(B|kB|KiB|MB|MiB|GB|GiB)?$"},
    [KEY_FILE_OF] = {"path", "path", NULL, NULL, NULL, NULL},
    [KEY_BLOCK] = {"block", "list of blocks", NULL, NULL, NULL, NULL},
    [KEY_OPTIONAL_BLOCK] = {"block", NULL, NULL, NULL, NULL, NULL},
    [KEY_OPTIONS] = {"names and values", NULL, NULL, NULL, NULL, NULL},
};

const char *key_type_name(const struct config_key *key)
{
        const struct value_type *type = &value_types[key->type];

        if (key->check == check_readable_file || key->check == check_folder)
                return "path";
        return key->is_list ? type->list_name : type->name;
}
