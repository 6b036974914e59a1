#include "outbox/dsn_split.h"

#include "base/alloc.h"
#include "base/bytes.h"
#include "outbox/dsn_check.h"

#include <libpq-fe.h>
#include <string.h>

static void append_option(struct bytes *rest, const PQconninfoOption *option)
{
        const bool is_plain = *option->val != '\0' && strpbrk(option->val, " '\\") == NULL;

        bytes_printf(
            rest, "%s%s=%s", rest->length > 0 ? " " : "", option->keyword, is_plain ? "" : "'");
        for (const char *at = option->val; *at != '\0'; at++)
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
                        append_option(&rest, option);
        }
        PQconninfoFree(options);
        *out_rest = rest.data;
        return true;
}
