#include "config/source.h"

#include "base/alloc.h"
#include "config/secret.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_FILE_BYTES = 1024 * 1024 };

/* Keys and values of the file end up on terminals: C0 and C1 controls may move the cursor there. */
static void defuse(char *text)
{
        for (unsigned char *at = (unsigned char *)text; *at != '\0'; at++) {
                if (*at < ' ' || *at == 0x7f)
                        *at = '?';
                else if (at[0] == 0xc2 && at[1] >= 0x80 && at[1] < 0xa0)
                        at[0] = at[1] = '?';
        }
}

static bool report(const struct source *source, enum error_kind kind, const struct place *place,
    const char *key_path, const char *reason)
{
        error_set(source->error, kind, "%s:%zu:%zu: %s%s%s", source->path, place->line,
            place->column, key_path, *key_path != '\0' ? ": " : "", reason);
        defuse(source->error->text);
        return false;
}

static const struct place *nearest_place(const struct source *source, const char *key_path)
{
        static const struct place start = {.line = 1, .column = 1};
        const struct place *place;
        char path[KEY_PATH_SIZE];

        if (source->places == NULL)
                return &start;
        snprintf(path, sizeof path, "%s", key_path);
        while ((place = places_find(source->places, path)) == NULL && *path != '\0') {
                char *cut = strrchr(path, '.');
                char *bracket = strrchr(path, '[');
                if (bracket != NULL && (cut == NULL || bracket > cut))
                        cut = bracket;
                *(cut != NULL ? cut : path) = '\0';
        }
        return place != NULL ? place : &start;
}

static bool vfail(const struct source *source, enum error_kind kind, const char *key_path,
    const char *format, va_list arguments) __attribute__((format(printf, 4, 0)));

static bool vfail(const struct source *source, enum error_kind kind, const char *key_path,
    const char *format, va_list arguments)
{
        char reason[sizeof source->error->text];

        vsnprintf(reason, sizeof reason, format, arguments);
        return report(source, kind, nearest_place(source, key_path), key_path, reason);
}

bool source_fail(const struct source *source, const char *key_path, const char *format, ...)
{
        va_list arguments;

        va_start(arguments, format);
        vfail(source, ERROR_CONFIG, key_path, format, arguments);
        va_end(arguments);
        return false;
}

bool source_fail_as(const struct source *source, enum error_kind kind, const char *key_path,
    const char *format, ...)
{
        va_list arguments;

        va_start(arguments, format);
        vfail(source, kind, key_path, format, arguments);
        va_end(arguments);
        return false;
}

char *source_where(const struct source *source, const char *key_path)
{
        const struct place *place = nearest_place(source, key_path);
        char *where =
            xasprintf("%s:%zu:%zu: %s", source->path, place->line, place->column, key_path);

        defuse(where);
        return where;
}

static bool find_places(struct source *source)
{
        struct error why;
        struct place place;
        char *key_path = NULL;

        source->places = places_read(source->text, source->length, &place, &key_path, &why);
        if (source->places == NULL)
                report(source, why.kind, &place, key_path, why.text);
        free(key_path);
        return source->places != NULL;
}

bool source_open(struct source *source, const char *path, struct error *error)
{
        struct error why;

        *source = (struct source){.path = path, .error = error};
        source->text = secret_read_bytes(path, MAX_FILE_BYTES, &source->length, &why);
        if (source->text == NULL)
                return error_set(error, why.kind, "%s: %s", path, why.text);
        return find_places(source);
}

bool source_open_text(
    struct source *source, const char *path, const char *text, size_t length, struct error *error)
{
        *source = (struct source){.path = path, .length = length, .error = error};
        source->text = xcalloc(length + 2, 1); /* as it was read, with a NUL behind it */
        memcpy(source->text, text, length);
        return find_places(source);
}

void source_close(struct source *source)
{
        places_destroy(source->places);
        secret_free_bytes(source->text, source->length);
        *source = (struct source){0};
}

void key_path_join(char out[KEY_PATH_SIZE], const char *parent, const char *name)
{
        snprintf(out, KEY_PATH_SIZE, "%s%s%s", parent, *parent != '\0' ? "." : "", name);
}

void key_path_item(char out[KEY_PATH_SIZE], const char *parent, size_t item)
{
        snprintf(out, KEY_PATH_SIZE, "%s[%zu]", parent, item);
}
