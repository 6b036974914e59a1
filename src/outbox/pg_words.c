#include "outbox/pg_words.h"

#include "base/alloc.h"
#include "base/bytes.h"

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

bool sqlstate_is_of_statement(const char *sqlstate)
{
        static const char *const prefixes[] = {
            "22",    /* the data: a regular expression, a number, bytes of a foreign encoding */
            "53100", /* disk, for what it sorts */
            "53200", /* memory */
            "54",    /* limits of the server */
            "55P03", /* lock_timeout */
            "57014", /* statement_timeout, or somebody's cancel */
            "XX",    /* what it met is damaged */
        };

        for (size_t i = 0; i < sizeof prefixes / sizeof *prefixes; i++)
                if (strncmp(sqlstate, prefixes[i], strlen(prefixes[i])) == 0)
                        return true;
        return false;
}

/* libpq quotes what it does not understand, and that may be a part of a password. */
static bool may_hold_password(const char *dsn)
{
        return strchr(dsn, '@') != NULL || strcasestr(dsn, "pass") != NULL;
}

bool dsn_check(const char *dsn, struct error *error)
{
        char *reason = NULL;
        PQconninfoOption *options = PQconninfoParse(dsn, &reason);
        struct bytes line = {0};

        if (options != NULL) {
                PQconninfoFree(options);
                return true;
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
