#include "config/url.h"

#include "base/alloc.h"
#include "base/error.h"
#include "base/utf8.h"
#include "config/secret.h"
#include "config/units.h"

#include <curl/curl.h>
#include <limits.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/un.h>

#define LETTERS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
#define DIGITS  "0123456789"

#define REDIS_FORMS                                                                                \
        "redis://[user[:password]@]host[:port][/db], the same with rediss:// for TLS, or "         \
        "unix:///path/to.sock[?db=N]"

static const char malformed_host[] =
    "has a malformed host or port; a host is a name, an IPv4 address or an [IPv6 address], a port "
    "is 1 to 65535";

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

/* libcurl calls a login bad only where it has no memory to take it apart. */
static CURLU *parse(const char *text, unsigned flags, CURLUcode *out_code)
{
        CURLU *parsed = curl_url();

        if (parsed == NULL)
                out_of_memory();
        *out_code = curl_url_set(parsed, CURLUPART_URL, text, flags);
        if (*out_code == CURLUE_OUT_OF_MEMORY || *out_code == CURLUE_BAD_LOGIN)
                out_of_memory();
        return parsed;
}

/* As it was written, for curl_free(); NULL: it has no such part. */
static char *part_of(CURLU *parsed, CURLUPart part, unsigned flags)
{
        char *text = NULL;

        if (curl_url_get(parsed, part, &text, flags) == CURLUE_OUT_OF_MEMORY)
                out_of_memory();
        return text;
}

/* What libcurl would let pass between :// and the path, and we do not. */
static const char *check_authority(const char *text, size_t length)
{
        const char *at = memrchr(text, '@', length);
        const char *host = at != NULL ? at + 1 : text;
        const char *end = text + length;
        const char *port;

        if (at != NULL && memchr(text, '@', (size_t)(at - text)) != NULL)
                return "has more than one @ before its host; write %40 for an @ in a name or "
                       "password";
        if (memchr(host, '%', (size_t)(end - host)) != NULL)
                return malformed_host;
        port = host + strcspn(host, *host == '[' ? "]" : ":/?#");
        if (*port == ']')
                port++;
        if (port < end && (*port != ':' || port[1] < '1' || port[1] > '9'))
                return malformed_host;
        return NULL;
}

static const char *take_host(CURLU *parsed, struct url *url)
{
        char *host = part_of(parsed, CURLUPART_HOST, 0);
        char *port = part_of(parsed, CURLUPART_PORT, 0);
        bool is_address = host != NULL && *host == '[';
        bool is_valid = host != NULL && strlen(host) <= 253 &&
                        (is_address || host[strspn(host, LETTERS DIGITS "-._")] == '\0');

        if (is_valid)
                url->host = is_address ? xstrndup(host + 1, strcspn(host + 1, "]")) : xstrdup(host);
        if (port != NULL)
                url->port = (uint16_t)strtoul(port, NULL, 10);
        curl_free(host);
        curl_free(port);
        return is_valid ? NULL : malformed_host;
}

static bool decode_part(CURLU *parsed, CURLUPart part, char **out_text)
{
        char *text = part_of(parsed, part, 0);
        bool is_there = text != NULL;

        if (is_there) {
                *out_text = url_decode(text);
                explicit_bzero(text, strlen(text));
                curl_free(text);
        }
        return !is_there || *out_text != NULL;
}

static const char *read_authority(const char *text, struct url *url)
{
        CURLUcode code;
        CURLU *parsed = parse(text, CURLU_NON_SUPPORT_SCHEME, &code);
        const char *wrong;

        if (code == CURLUE_NO_HOST) {
                url->host = xstrdup("");
                wrong = NULL;
        } else if (code != CURLUE_OK) {
                wrong = malformed_host;
        } else if (!decode_part(parsed, CURLUPART_USER, &url->user) ||
                   !decode_part(parsed, CURLUPART_PASSWORD, &url->password)) {
                wrong = "has a malformed %XX, or a control character, before its @";
        } else {
                wrong = take_host(parsed, url);
        }
        curl_url_cleanup(parsed);
        return wrong;
}

static const char *check_characters(const char *text)
{
        for (const unsigned char *at = (const unsigned char *)text; *at != '\0'; at++)
                if (*at <= ' ' || *at >= 0x7f || *at == '\\')
                        return "holds a space, a control character, a backslash or a character "
                               "beyond ASCII; percent-encode it";
        return NULL;
}

static const char *split(const char *text, struct url *url)
{
        size_t scheme_length = strspn(text, LETTERS DIGITS "+-.");
        const char *authority = text + scheme_length + strlen("://");
        const char *wrong = check_characters(text);
        size_t length;

        if (wrong != NULL)
                return wrong;
        if (scheme_length == 0 || strncmp(text + scheme_length, "://", 3) != 0)
                return "is not a URL: it does not begin with a scheme and ://";
        url->scheme = xstrndup(text, scheme_length);
        for (char *at = url->scheme; *at != '\0'; at++)
                if (*at >= 'A' && *at <= 'Z')
                        *at = (char)(*at - 'A' + 'a');
        length = strcspn(authority, "/?#");
        url->rest = xstrdup(authority + length);
        if (length == 0) { /* libcurl would look for the host behind a third slash */
                url->host = xstrdup("");
                return NULL;
        }
        wrong = check_authority(authority, length);
        return wrong != NULL ? wrong : read_authority(text, url);
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
        secret_free(url->rest);
        *url = (struct url){0};
}

static bool parse_db(const char *text, uint32_t *out_db)
{
        uint64_t db;

        if (!units_parse_integer(text, &db) || db > INT_MAX)
                return false;
        *out_db = (uint32_t)db;
        return true;
}

static char *take_if_given(char **text)
{
        char *taken = *text;

        if (taken == NULL || *taken == '\0')
                return NULL;
        *text = NULL;
        return taken;
}

static const char *take_tcp(struct url *url, struct redis_url *out)
{
        if (*url->host == '\0')
                return "has no host; allowed: " REDIS_FORMS;
        if (strchr(url->rest, '?') != NULL)
                return "has a ?query, which only unix:// knows; allowed: " REDIS_FORMS;
        if (strlen(url->rest) > 1 && !parse_db(url->rest + 1, &out->db))
                return "has a path that is not the number of a database; allowed: " REDIS_FORMS;
        out->port = url->port > 0 ? url->port : 6379;
        out->host = take_if_given(&url->host);
        out->user = take_if_given(&url->user);
        out->password = take_if_given(&url->password);
        return NULL;
}

static const char *take_unix(struct url *url, struct redis_url *out)
{
        char *query = strchr(url->rest, '?');

        if (*url->host != '\0' || url->user != NULL || url->port > 0)
                return "has text between unix:// and its path; use the keys user and "
                       "password; allowed: " REDIS_FORMS;
        if (query != NULL && (strncmp(query, "?db=", 4) != 0 || !parse_db(query + 4, &out->db)))
                return "has a ?query other than db=N; allowed: " REDIS_FORMS;
        if (query != NULL)
                *query = '\0';
        if (strlen(url->rest) < 2)
                return "has no path; allowed: " REDIS_FORMS;
        out->socket_path = url_decode(url->rest);
        if (out->socket_path == NULL)
                return "has a malformed %XX, or a control character, in its path";
        if (strlen(out->socket_path) >= sizeof((struct sockaddr_un *)NULL)->sun_path)
                return "has a path longer than a unix socket's may be (107 bytes)";
        return NULL;
}

static const char *take_redis(struct url *url, struct redis_url *out)
{
        if (strchr(url->rest, '#') != NULL)
                return "has a #fragment; percent-encode a # as %23";
        out->is_tls = strcmp(url->scheme, "rediss") == 0;
        if (out->is_tls || strcmp(url->scheme, "redis") == 0)
                return take_tcp(url, out);
        if (strcmp(url->scheme, "unix") == 0)
                return take_unix(url, out);
        return "has an unknown scheme; allowed: " REDIS_FORMS;
}

const char *redis_url_split(const char *text, struct redis_url *out_url)
{
        struct url url;
        const char *wrong = url_split(text, &url);

        *out_url = (struct redis_url){0};
        if (wrong != NULL)
                return wrong;
        wrong = take_redis(&url, out_url);
        url_deinit(&url);
        if (wrong != NULL)
                redis_url_deinit(out_url);
        return wrong;
}

void redis_url_deinit(struct redis_url *url)
{
        free(url->host);
        free(url->socket_path);
        secret_free(url->user);
        secret_free(url->password);
        *url = (struct redis_url){0};
}

const char *redis_host_split(const char *text, char **out_host, uint16_t *out_port)
{
        char *whole = xasprintf("redis://%s", text);
        struct url url;
        const char *wrong = url_split(whole, &url);

        free(whole);
        if (wrong != NULL)
                return wrong;
        if (url.user != NULL || *url.rest != '\0' || *url.host == '\0')
                wrong = "is not of the form host[:port]";
        else
                *out_host = xstrdup(url.host);
        *out_port = url.port;
        url_deinit(&url);
        return wrong;
}

/* libcurl's parser makes http://host/ of http:/host and of http:///host: a slip is no host. */
static bool has_host_after_slashes(const char *url)
{
        const char *slashes = strstr(url, "://");

        return slashes != NULL && slashes[3] != '/';
}

bool http_url_parse(
    const char *name, const char *url, char **out_host, char **out_port, struct error *error)
{
        CURLUcode code;
        CURLU *parsed = parse(url, 0, &code);
        char *scheme = part_of(parsed, CURLUPART_SCHEME, 0);
        char *host = part_of(parsed, CURLUPART_HOST, 0);
        char *port = part_of(parsed, CURLUPART_PORT, CURLU_DEFAULT_PORT);
        bool is_valid = false;

        curl_url_cleanup(parsed);
        if (!has_host_after_slashes(url) || (code == CURLUE_OK && host == NULL))
                code = CURLUE_NO_HOST;
        else if (code == CURLUE_OK && port == NULL)
                code = CURLUE_NO_PORT;
        /* The URL itself may hold a password and is not repeated. */
        if (code != CURLUE_OK)
                error_set(error, ERROR_CONFIG,
                    "%s is not a URL (%s): write http://host[:port]/path or https://…", name,
                    curl_url_strerror(code));
        else if (strcmp(scheme, "http") != 0 && strcmp(scheme, "https") != 0)
                error_set(error, ERROR_CONFIG,
                    "%s begins with %.20s:// where only http:// and https:// are allowed", name,
                    scheme);
        else if (!utf8_is_ascii(host))
                error_set(error, ERROR_CONFIG,
                    "%s has a host name with non-ASCII letters: write its xn-- form", name);
        else
                is_valid = true;
        if (is_valid) {
                *out_host = host;
                *out_port = port;
        } else {
                curl_free(host);
                curl_free(port);
        }
        curl_free(scheme);
        return is_valid;
}

bool http_url_has_userinfo(const char *url)
{
        CURLUcode code;
        CURLU *parsed = parse(url, 0, &code);
        char *user = part_of(parsed, CURLUPART_USER, 0);
        char *password = part_of(parsed, CURLUPART_PASSWORD, 0);
        bool has_userinfo = user != NULL || password != NULL;

        curl_free(user);
        curl_free(password);
        curl_url_cleanup(parsed);
        return has_userinfo;
}

char *http_url_describe(const char *url)
{
        static const CURLUPart hidden[] = {
            CURLUPART_USER, CURLUPART_PASSWORD, CURLUPART_QUERY, CURLUPART_FRAGMENT};
        CURLUcode code;
        CURLU *parsed = parse(url, 0, &code);
        char *text;
        char *description;

        for (size_t i = 0; i < sizeof hidden / sizeof *hidden; i++)
                curl_url_set(parsed, hidden[i], NULL, 0); /* which only forgets it */
        text = part_of(parsed, CURLUPART_URL, 0);
        if (text == NULL)
                abort(); /* it has been parsed before */
        description = xstrdup(text);
        curl_free(text);
        curl_url_cleanup(parsed);
        return description;
}
