#include "outbox/pg_words.h"

#include "base/alloc.h"
#include "base/bytes.h"
#include "base/regular_file.h"

#include <libpq-fe.h>
#include <string.h>

void pg_words_append(struct bytes *line, const char *text)
{
        size_t length = strlen(text);

        while (length > 0 && text[length - 1] == '\n')
                length--;
        for (size_t i = 0; i < length; i++) {
                if (text[i] == '\n')
                        bytes_append_text(line, "; ");
                else if ((unsigned char)text[i] >= ' ' && text[i] != 0x7f)
                        bytes_append(line, &text[i], 1);
        }
}

void pg_words_set_error(struct error *error, const char *doing, const char *text)
{
        struct bytes line = {0};

        bytes_printf(&line, "%s: ", doing);
        pg_words_append(&line, text);
        error_set(error, ERROR_DATABASE, "%s", line.data);
        bytes_deinit(&line);
}

enum error_kind sqlstate_kind(const char *sqlstate)
{
        static const struct {
                const char *prefix;
                enum error_kind kind;
        } kinds[] = {
            {"42501", ERROR_PERMISSION}, {"3F000", ERROR_SCHEMA}, /* no such schema */
            {"42P01", ERROR_SCHEMA},                              /* no such table */
            {"42703", ERROR_SCHEMA},                              /* no such column */
            {"42883", ERROR_SCHEMA},                              /* no such function */
            {"40", ERROR_TEMPORARY},    /* deadlock, serialization failure */
            {"53", ERROR_TEMPORARY},    /* memory, disk, connections */
            {"55P03", ERROR_TEMPORARY}, /* lock_timeout */
            {"57014", ERROR_TEMPORARY}, /* statement_timeout, or somebody's cancel */
        };

        for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
                if (strncmp(sqlstate, kinds[i].prefix, strlen(kinds[i].prefix)) == 0)
                        return kinds[i].kind;
        return ERROR_DATABASE;
}

/* libpq quotes what it does not understand, and that may be a part of a password. */
static bool may_hold_password(const char *dsn)
{
        return strchr(dsn, '@') != NULL || strcasestr(dsn, "pass") != NULL;
}

/* libpq opens them in the loop. */
static bool check_files(const PQconninfoOption *options, struct error *error)
{
        static const char *const keywords[] = {
            "sslrootcert", "sslcert", "sslkey", "sslcrl"}; /* it looks at passfile itself */
        struct error why;

        for (; options->keyword != NULL; options++)
                for (size_t i = 0; i < sizeof keywords / sizeof *keywords; i++)
                        if (options->val != NULL && strcmp(options->keyword, keywords[i]) == 0 &&
                            !regular_file_check(options->val, &why))
                                return error_set(error, why.kind, "the dsn: %s: '%.400s' %s",
                                    keywords[i], options->val, why.text);
        return true;
}

bool dsn_check(const char *dsn, struct error *error)
{
        char *reason = NULL;
        PQconninfoOption *options = PQconninfoParse(dsn, &reason);
        struct bytes line = {0};

        if (options != NULL) {
                bool is_harmless = check_files(options, error);
                PQconninfoFree(options);
                return is_harmless;
        }
        if (reason == NULL || strncmp(reason, "out of memory", strlen("out of memory")) == 0)
                out_of_memory();
        if (!may_hold_password(dsn)) {
                bytes_append_text(&line, ": ");
                pg_words_append(&line, reason);
                bytes_append_text(&line, ". ");
        }
        PQfreemem(reason);
        error_set(error, ERROR_CONFIG,
            "the dsn is not valid%sWrite postgresql://USER@HOST:PORT/DATABASE or "
            "host=HOST port=PORT dbname=DATABASE user=USER",
            line.data != NULL ? line.data : ". ");
        bytes_deinit(&line);
        return false;
}
