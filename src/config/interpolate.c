#include "config/interpolate.h"

#include "base/alloc.h"
#include "base/bytes.h"
#include "config/secret.h"

#include <stdlib.h>
#include <string.h>

#define FORMS "${VAR}, ${VAR:-default}, ${VAR:?message}, ${file:/path}, or $$ for a literal $"

static size_t name_length(const char *text)
{
        size_t length =
            strspn(text, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_0123456789");

        return *text >= '0' && *text <= '9' ? 0 : length;
}

static bool append_file(struct bytes *out, const char *path, struct error *error)
{
        struct error why;
        char *line = secret_read_line(path, &why);

        if (line == NULL)
                return error_set(error, why.kind, "the file of ${file:%s} %s", path, why.text);
        bytes_append_text(out, line);
        secret_free(line);
        return true;
}

static bool append_value(
    struct bytes *out, const char *name, const char *value, struct error *error)
{
        if (strpbrk(value, "\r\n") != NULL)
                return error_set(error, ERROR_CONFIG,
                    "the environment variable %s contains a line break (CR or LF); a value must be "
                    "one line",
                    name);
        bytes_append_text(out, value);
        return true;
}

static bool append_variable(struct bytes *out, const char *body, struct error *error)
{
        size_t length = name_length(body);
        const char *rest = body + length;
        char *name = xstrndup(body, length);
        const char *value = getenv(name);
        bool is_set = value != NULL && *value != '\0';
        bool is_ok;

        if (length > 0 && *rest == '\0')
                is_ok = value != NULL
                            ? append_value(out, name, value, error)
                            : error_set(error, ERROR_CONFIG,
                                  "the environment variable %s is not set; set it, or give a "
                                  "default: ${%s:-default}",
                                  name, name);
        else if (length > 0 && strncmp(rest, ":-", 2) == 0)
                is_ok = append_value(out, name, is_set ? value : rest + 2, error);
        else if (length > 0 && strncmp(rest, ":?", 2) == 0)
                is_ok = is_set ? append_value(out, name, value, error)
                               : error_set(error, ERROR_CONFIG,
                                     "the environment variable %s is not set: %s", name, rest + 2);
        else
                is_ok =
                    error_set(error, ERROR_CONFIG, "has a ${…} of unknown form; allowed: " FORMS);
        free(name);
        return is_ok;
}

/* `body` is what stands between the braces. */
static bool append_reference(struct bytes *out, const char *body, struct error *error)
{
        /* Filled in literally, a nested reference would surprise; its inner brace ends the
         * outer. */
        if (strstr(body, "${") != NULL)
                return error_set(error, ERROR_CONFIG,
                    "has a ${…} inside another; a default cannot contain ${…}");
        if (strncmp(body, "file:", 5) == 0)
                return append_file(out, body + 5, error);
        return append_variable(out, body, error);
}

static bool append_all(struct bytes *out, const char *text, struct error *error)
{
        while (*text != '\0') {
                size_t plain = strcspn(text, "$");
                bytes_append(out, text, plain);
                text += plain;
                if (text[0] == '$' && text[1] == '{') {
                        size_t length = strcspn(text + 2, "}");
                        char *body;
                        bool is_ok;
                        if (text[2 + length] == '\0')
                                return error_set(error, ERROR_CONFIG,
                                    "holds a ${ without its }; allowed: " FORMS);
                        body = xstrndup(text + 2, length);
                        is_ok = append_reference(out, body, error);
                        secret_free(body);
                        if (!is_ok)
                                return false;
                        text += 2 + length + 1;
                } else if (text[0] == '$') {
                        bytes_append(out, "$", 1);
                        text += text[1] == '$' ? 2 : 1;
                }
        }
        return true;
}

char *interpolate(const char *text, struct error *error)
{
        struct bytes out = {0};

        bytes_append_text(&out, "");
        if (append_all(&out, text, error))
                return out.data;
        secret_free_bytes(out.data, out.length);
        return NULL;
}
