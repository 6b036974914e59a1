#include "sinks/email/email_headers.h"

#include "base/utf8.h"
#include "config/url.h"
#include "sinks/email/email_address.h"
#include "sinks/email/email_mime.h"
#include "sinks/email/email_payload.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#define MAX_HEADERS    50
#define MAX_NAME_BYTES 64
#define MAX_LINE_BYTES 998 /* RFC 5322, without its end */

#define NAME_CHARACTERS "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"

static bool begins_with(const char *name, const char *prefix)
{
        return strncasecmp(name, prefix, strlen(prefix)) == 0 && name[strlen(prefix)] != '\0';
}

static const char *name_problem(const char *name, bool has_unsubscribe_url)
{
        if (strlen(name) > MAX_NAME_BYTES)
                return "a header's name is at most 64 bytes long";
        if (strcasecmp(name, "Reply-To") == 0)
                return "use the payload's member reply_to instead";
        if (strcasecmp(name, "X-Event-Id") == 0 || strcasecmp(name, "X-Redriven") == 0)
                return "this header is set by pgcourier";
        if (has_unsubscribe_url && (strcasecmp(name, "List-Unsubscribe") == 0 ||
                                       strcasecmp(name, "List-Unsubscribe-Post") == 0))
                return "unsubscribe_url already makes this header";
        if (name[strspn(name, NAME_CHARACTERS)] != '\0' ||
            !(begins_with(name, "X-") || begins_with(name, "List-") ||
                strcasecmp(name, "References") == 0 || strcasecmp(name, "In-Reply-To") == 0))
                return "not allowed; allowed are X-..., List-..., References and In-Reply-To";
        return NULL;
}

static const char *value_problem(const char *name, const char *value)
{
        const char *problem = header_text_problem(value);

        if (problem != NULL)
                return problem;
        if (strlen(name) + 2 + strlen(value) > MAX_LINE_BYTES)
                return "a header's line is at most 998 bytes long";
        if (begins_with(name, "X-"))
                return NULL;
        /* These have a syntax of their own, in which encoded words mean nothing. */
        if (!utf8_is_ascii(value) || strstr(value, "=?") != NULL)
                return "only ASCII without encoded words is allowed in this header";
        if (*value == '\0' || *value == ' ' || value[strlen(value) - 1] == ' ')
                return "may not be empty, nor begin or end with a blank";
        return NULL;
}

/* Case makes no difference in names, except in JSON. */
static bool is_repeated(json_t *members, const char *name)
{
        unsigned n = 0;
        const char *other;
        json_t *value;

        json_object_foreach(members, other, value)
        {
                n += strcasecmp(other, name) == 0;
        }
        return n > 1;
}

static bool check_members(const struct email_headers *headers, struct outcome *out_rejected)
{
        const char *name;
        json_t *value;
        char place[96];

        if (json_object_size(headers->members) > MAX_HEADERS)
                return email_payload_reject(
                    out_rejected, "headers", "at most 50 headers are allowed");
        json_object_foreach(headers->members, name, value)
        {
                const char *problem = name_problem(name, headers->unsubscribe_url != NULL);
                if (problem == NULL && is_repeated(headers->members, name))
                        problem = "occurs twice, written differently";
                if (problem == NULL && !json_is_string(value))
                        problem = "expected a string";
                if (problem == NULL)
                        problem = value_problem(name, json_string_value(value));
                if (problem == NULL)
                        continue;
                snprintf(place, sizeof place, "headers.%.64s", name);
                return email_payload_reject(out_rejected, place, problem);
        }
        return true;
}

/* Characters that could end the angle brackets around it are not those of a URL. */
static const char *unsubscribe_problem(const char *text)
{
        struct url url;
        const char *problem = url_split(text, &url);
        bool is_https;

        if (problem != NULL)
                return "not a URL that can be used; expected https://host...";
        is_https = strcmp(url.scheme, "https") == 0 && *url.host != '\0' && url.user == NULL;
        url_deinit(&url);
        if (!is_https)
                return "expected https://host..., without a name or password";
        if (strpbrk(text, "<>\"") != NULL)
                return "percent-encode <, > and \" in a URL";
        if (strlen("List-Unsubscribe: <>") + strlen(text) > MAX_LINE_BYTES)
                return "at most 978 bytes are allowed";
        return NULL;
}

bool email_headers_read(
    struct email_headers *headers, const json_t *payload, struct outcome *out_rejected)
{
        json_t *members = email_payload_member(payload, "headers");
        const char *problem;

        if (!email_payload_read_text(&headers->unsubscribe_url, payload, "unsubscribe_url",
                "unsubscribe_url", out_rejected))
                return false;
        problem =
            headers->unsubscribe_url != NULL ? unsubscribe_problem(headers->unsubscribe_url) : NULL;
        if (problem != NULL)
                return email_payload_reject(out_rejected, "unsubscribe_url", problem);
        if (members == NULL)
                return true;
        if (!json_is_object(members))
                return email_payload_reject(
                    out_rejected, "headers", "expected an object of names and texts");
        headers->members = members;
        return check_members(headers, out_rejected);
}

void email_headers_append(struct bytes *out, const struct email_headers *headers)
{
        const char *name;
        json_t *value;

        json_object_foreach(headers->members, name, value)
        {
                mime_append_custom_header(out, name, json_string_value(value));
        }
        if (headers->unsubscribe_url != NULL)
                bytes_printf(out,
                    "List-Unsubscribe: <%s>\r\n"
                    "List-Unsubscribe-Post: List-Unsubscribe=One-Click\r\n",
                    headers->unsubscribe_url);
}
