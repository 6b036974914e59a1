/* Short words for tests of the config file, which is made and removed with its suite. */
#pragma once

#include "base/alloc.h"
#include "config/config.h"

#include <criterion/criterion.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SECRET_WORD "hunter2" /* no error may ever hold it */
#define CANARY      SECRET_WORD "-" SECRET_WORD

/* What configurations begin with, and a sink that needs nothing. */
#define PG     "postgres: {dsn: x}\n"
#define SINK   "sinks:\n  - name: a\n    topics: [t]\n"
#define STDOUT "    stdout: {}\n"
#define GOOD   PG SINK STDOUT

static char path[64]; /* of the config file */

static inline void write_file(const char *name, const void *data, size_t length)
{
        FILE *file = fopen(name, "w");

        cr_assert(file != NULL && fwrite(data, 1, length, file) == length && fclose(file) == 0);
}

static inline void make_path(void)
{
        strcpy(path, "/tmp/pgcourier-config-XXXXXX");
        close(mkstemp(path));
}

static inline void remove_path(void)
{
        unlink(path);
}

/* Another file beside it, with this content; its name. */
static inline char *make_file(const char *content, size_t length)
{
        char *name = xasprintf("%s.XXXXXX", path);

        close(mkstemp(name));
        write_file(name, content, length);
        return name;
}

static inline void remove_file(char *name)
{
        unlink(name);
        free(name);
}

static inline struct config *load_bytes(const char *text, size_t length, struct error *error)
{
        write_file(path, text, length);
        return config_load(path, error);
}

__attribute__((format(printf, 1, 2))) static inline struct config *load(const char *format, ...)
{
        struct error error = {0};
        struct config *config;
        char *text;
        va_list values;

        va_start(values, format);
        text = xvasprintf(format, values);
        va_end(values);
        config = load_bytes(text, strlen(text), &error);
        cr_assert(config != NULL, "%s\n%s", error.text, text);
        free(text);
        return config;
}

/* Loads a bad text. The error must be at LINE:COLUMN of the file (NULL: anywhere), hold `words`,
 * and tell no secret. */
__attribute__((format(printf, 3, 4))) static inline void refuse(
    const char *place, const char *words, const char *format, ...)
{
        char *prefix = place != NULL ? xasprintf("%s:%s: ", path, place) : xasprintf("%s:", path);
        struct error error = {0};
        struct config *config;
        char *text;
        va_list values;

        va_start(values, format);
        text = xvasprintf(format, values);
        va_end(values);
        config = load_bytes(text, strlen(text), &error);
        cr_expect(config == NULL, "accepted: %s", text);
        if (config == NULL) {
                cr_expect(error.kind == ERROR_CONFIG, "wrong kind: %s", error.text);
                cr_expect(strncmp(error.text, prefix, strlen(prefix)) == 0, "not at %s %s\n%s",
                    prefix, error.text, text);
                cr_expect(strstr(error.text, words) != NULL, "no '%s': %s", words, error.text);
                cr_expect(strstr(error.text, SECRET_WORD) == NULL, "a secret in: %s", error.text);
                cr_expect(
                    strpbrk(error.text, "\r\n\033") == NULL, "more than a line: %s", error.text);
        }
        config_free(config);
        free(text);
        free(prefix);
}

struct bad {
        const char *text;
        const char *place;
        const char *words;
};

#define REFUSE_ALL(cases)                                                                          \
        for (size_t i = 0; i < sizeof(cases) / sizeof *(cases); i++)                               \
        refuse((cases)[i].place, (cases)[i].words, "%s", (cases)[i].text)
