#include "pg/dsn_split.h"

#include "base/alloc.h"
#include "base/bytes.h"
#include "pg/dsn_check.h"

#include <libpq-fe.h>
#include <string.h>

static void append_option(struct bytes *rest, const char *keyword, const char *value)
{
        const bool is_plain = *value != '\0' && strpbrk(value, " '\\") == NULL;

        bytes_printf(rest, "%s%s=%s", rest->length > 0 ? " " : "", keyword, is_plain ? "" : "'");
        for (const char *at = value; *at != '\0'; at++)
                bytes_printf(rest, "%s%c", *at == '\'' || *at == '\\' ? "\\" : "", *at);
        bytes_append_text(rest, is_plain ? "" : "'");
}

bool dsn_split(const char *dsn, char **out_rest, char **out_password, struct error *error)
{
        PQconninfoOption *options;
        struct bytes rest = {0};

        if (!dsn_check(dsn, error))
                return false;
        options = PQconninfoParse(dsn, NULL);
        if (options == NULL)
                out_of_memory();
        *out_password = NULL;
        bytes_append_text(&rest, "");
        for (const PQconninfoOption *option = options; option->keyword != NULL; option++) {
                if (option->val == NULL)
                        continue;
                if (strcmp(option->keyword, "password") == 0)
                        *out_password = xstrdup(option->val);
                else
                        append_option(&rest, option->keyword, option->val);
        }
        PQconninfoFree(options);
        *out_rest = rest.data;
        return true;
}

/* libpq marks what is to be hidden when it is typed. */
static char *rewrite(const char *dsn, const char *role, const char *database)
{
        PQconninfoOption *options = dsn != NULL ? PQconninfoParse(dsn, NULL) : NULL;
        struct bytes text = {0};
        bool has_database = false;

        bytes_append_text(&text, "");
        for (const PQconninfoOption *at = options; at != NULL && at->keyword != NULL; at++) {
                if (at->val == NULL || *at->dispchar == '*' ||
                    (role != NULL && strcmp(at->keyword, "user") == 0))
                        continue;
                has_database |= strcmp(at->keyword, "dbname") == 0;
                append_option(&text, at->keyword, at->val);
        }
        PQconninfoFree(options);
        if (database != NULL && !has_database)
                append_option(&text, "dbname", database);
        if (role != NULL)
                append_option(&text, "user", role);
        return text.data;
}

char *dsn_without_secrets(const char *dsn)
{
        return rewrite(dsn, NULL, NULL);
}

char *dsn_of_role(const char *dsn, const char *role, const char *database)
{
        return rewrite(dsn, role, database);
}
