#include "config/url.h"

#include "base/alloc.h"
#include "config/secret.h"
#include "config/units.h"

#include <stdlib.h>
#include <string.h>

#define LOWER  "abcdefghijklmnopqrstuvwxyz"
#define UPPER  "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
#define DIGITS "0123456789"

static int hex_value(char c)
{
        if (c >= '0' && c <= '9')
                return c - '0';
        if (c >= 'a' && c <= 'f')
                return c - 'a' + 10;
        if (c >= 'A' && c <= 'F')
                return c - 'A' + 10;
        return -1;
}

char *url_decode(const char *text)
{
        char *out = xcalloc(strlen(text) + 1, 1);
        char *end = out;

        for (; *text != '\0'; text++) {
                int c = (unsigned char)*text;
                if (c == '%') {
                        int high = hex_value(text[1]);
                        int low = high >= 0 ? hex_value(text[2]) : -1;
                        c = low >= 0 ? high * 16 + low : 0;
                        text += 2;
                }
                if (c < ' ' || c == 0x7f) {
                        secret_free(out);
                        return NULL;
                }
                *end++ = (char)c;
        }
        return out;
}

static const char *split_userinfo(const char *text, size_t length, struct url *url)
{
        char *user = xstrndup(text, length);
        char *colon = strchr(user, ':');
        bool is_valid;

        if (colon != NULL)
                *colon = '\0';
        url->user = url_decode(user);
        if (colon != NULL)
                url->password = url_decode(colon + 1);
        is_valid = url->user != NULL && (colon == NULL || url->password != NULL);
        if (colon != NULL)
                *colon = ':';
        secret_free(user);
        return is_valid ? NULL : "has a malformed %XX, or a control character, before its @";
}

static bool is_host(const char *host, const char *allowed)
{
        return strspn(host, allowed) == strlen(host) && strlen(host) <= 253;
}

static const char *split_host(const char *text, size_t length, struct url *url)
{
        char *host = xstrndup(text, length);
        const char *port = "";
        bool is_valid;

        if (*host == '[') {
                char *end = strchr(host, ']');
                if (end != NULL) {
                        *end = '\0';
                        port = end + 1;
                }
                url->host = xstrdup(host + 1);
                is_valid = end != NULL && *url->host != '\0' &&
                           is_host(url->host, DIGITS "abcdefABCDEF:.");
        } else {
                size_t end = strcspn(host, ":");
                port = host + end;
                url->host = xstrndup(host, end);
                is_valid = is_host(url->host, LOWER UPPER DIGITS "-._");
        }
        if (is_valid && *port != '\0') {
                uint64_t number = 0;
                is_valid = *port == ':' && units_parse_integer(port + 1, &number) && number >= 1 &&
                           number <= 65535;
                url->port = (uint16_t)number;
        }
        free(host);
        return is_valid ? NULL
                        : "has a malformed host or port; a host is a name, an IPv4 address or an "
                          "[IPv6 address], a port is 1 to 65535";
}

static const char *split_authority(const char *text, size_t length, struct url *url)
{
        const char *at = memrchr(text, '@', length);
        size_t user_length = at != NULL ? (size_t)(at - text) : 0;
        const char *wrong = at != NULL ? split_userinfo(text, user_length, url) : NULL;

        if (wrong != NULL)
                return wrong;
        if (at != NULL && memchr(text, '@', user_length) != NULL)
                return "has more than one @ before its host; write %40 for an @ in a name or "
                       "password";
        if (at != NULL)
                return split_host(at + 1, length - user_length - 1, url);
        return split_host(text, length, url);
}

static const char *split(const char *text, struct url *url)
{
        size_t scheme_length = strspn(text, LOWER UPPER DIGITS "+-.");
        const char *rest;
        size_t length;
        const char *wrong;

        for (const unsigned char *at = (const unsigned char *)text; *at != '\0'; at++)
                if (*at <= ' ' || *at >= 0x7f || *at == '\\')
                        return "holds a space, a control character, a backslash or a character "
                               "beyond ASCII; percent-encode it";
        if (scheme_length == 0 || strncmp(text + scheme_length, "://", 3) != 0)
                return "is not a URL: it does not begin with a scheme and ://";
        url->scheme = xstrndup(text, scheme_length);
        for (char *at = url->scheme; *at != '\0'; at++)
                if (*at >= 'A' && *at <= 'Z')
                        *at = (char)(*at - 'A' + 'a');

        rest = text + scheme_length + 3;
        length = strcspn(rest, "/?#");
        wrong = split_authority(rest, length, url);
        if (wrong != NULL)
                return wrong;
        rest += length;
        length = strcspn(rest, "?#");
        url->path = xstrndup(rest, length);
        rest += length;
        if (*rest == '?') {
                length = strcspn(rest + 1, "#");
                url->query = xstrndup(rest + 1, length);
                rest += length + 1;
        }
        url->has_fragment = *rest == '#';
        return NULL;
}

const char *url_split(const char *text, struct url *out_url)
{
        const char *wrong;

        *out_url = (struct url){0};
        wrong = split(text, out_url);
        if (wrong != NULL)
                url_deinit(out_url);
        return wrong;
}

void url_deinit(struct url *url)
{
        free(url->scheme);
        secret_free(url->user);
        secret_free(url->password);
        free(url->host);
        secret_free(url->path);
        secret_free(url->query);
        *url = (struct url){0};
}
