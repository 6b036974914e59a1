#include "config/scalar.h"

#include "base/alloc.h"
#include "config/secret.h"
#include "config/units.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static const char *after_filling(const struct scalar *value)
{
        return strcmp(value->written, value->text) != 0 ? " (once filled in)" : "";
}

static bool fail_range(const struct scalar *value)
{
        const struct config_key *key = value->key;

        return source_fail(value->source, value->path,
            "'%.80s'%s is out of range; allowed: %s to %s", value->written, after_filling(value),
            key->min, key->max);
}

static bool fail_form(const struct scalar *value, const char *allowed)
{
        const struct config_key *key = value->key;

        if (key->min != NULL)
                return source_fail(value->source, value->path,
                    "'%.80s'%s is not allowed here; allowed: %s, from %s to %s", value->written,
                    after_filling(value), allowed, key->min, key->max);
        return source_fail(value->source, value->path, "'%.80s'%s is not allowed here; allowed: %s",
            value->written, after_filling(value), allowed);
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

static bool set_choice(const struct scalar *value)
{
        unsigned index;

        if (!find_choice(value->key->choices, value->text, &index))
                return fail_form(value, value->key->choices);
        memcpy(value->member, &index, sizeof index);
        return true;
}

static bool set_bool(const struct scalar *value)
{
        bool is_true = strcmp(value->text, "true") == 0;

        if (!is_true && strcmp(value->text, "false") != 0)
                return fail_form(value, "true, false");
        memcpy(value->member, &is_true, sizeof is_true);
        return true;
}

static bool set_unsigned(
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
        if (value->key->member_bytes == sizeof narrow)
                memcpy(value->member, &narrow, sizeof narrow);
        else
                memcpy(value->member, &number, sizeof number);
        return true;
}

static bool set_number(const struct scalar *value)
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

static bool set_duration(const struct scalar *value)
{
        int64_t ms;
        int64_t min = 0;
        int64_t max = 0;
        uint64_t number;

        if (!units_parse_duration(value->text, &ms)) {
                if (units_parse_integer(value->text, &number))
                        return source_fail(value->source, value->path,
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
        if (*text == '\0')
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
                return source_fail(value->source, value->path, "%s", wrong);
        if (value->key->choices != NULL && !find_choice(value->key->choices, value->text, &index))
                return fail_form(value, value->key->choices);
        return true;
}

/* Takes the place of what the member held. */
static void store_text(void *member, const char *text)
{
        char *copy = xstrdup(text);

        memcpy(member, &copy, sizeof copy);
}

static bool set_text(const struct scalar *value)
{
        if (!check_text(value))
                return false;
        store_text(value->member, value->text);
        return true;
}

/* The row whose value may stand in a file instead. */
static const struct config_key *twin_of(
    const struct config_block *block, const struct config_key *file_key)
{
        for (size_t i = 0; i < block->n_keys; i++)
                if (block->keys[i].type == KEY_TEXT && block->keys[i].offset == file_key->offset)
                        return &block->keys[i];
        abort();
}

static bool set_from_file(const struct scalar *value, const struct config_block *block)
{
        const struct config_key *twin = twin_of(block, value->key);
        struct scalar held = *value;
        struct error why;
        char *line;
        bool is_set;

        if (member_text(value->member) != NULL)
                return source_fail(value->source, value->path,
                    "is given together with %s; keep one of the two", twin->name);
        line = secret_read_line(value->text, &why);
        if (line == NULL)
                return source_fail_as(value->source, why.kind, value->path, "the file '%.400s' %s",
                    value->written, why.text);
        held.key = twin;
        held.text = line;
        is_set = set_text(&held);
        secret_free(line);
        return is_set;
}

bool scalar_set(const struct scalar *value, const struct config_block *block)
{
        switch (value->key->type) {
        case KEY_TEXT:
        case KEY_TEXTS: /* one of its items */
                return set_text(value);
        case KEY_FILE_OF:
                return set_from_file(value, block);
        case KEY_CHOICE:
                return set_choice(value);
        case KEY_BOOL:
                return set_bool(value);
        case KEY_INTEGER:
                return set_unsigned(value, units_parse_integer, "a whole number");
        case KEY_NUMBER:
                return set_number(value);
        case KEY_DURATION:
        case KEY_DURATIONS: /* one of its items */
                return set_duration(value);
        case KEY_SIZE:
                return set_unsigned(value, units_parse_size, UNITS_SIZE);
        case KEY_LINES_OF: /* many */
        case KEY_BLOCK:
        case KEY_OPTIONAL_BLOCK:
        case KEY_BLOCKS:
        case KEY_OPTIONS:
                break; /* no scalars */
        }
        abort();
}
