#include "config/values.h"

#include "base/alloc.h"
#include "base/error.h"
#include "base/regular_file.h"
#include "config/url.h"
#include "text/network.h"
#include "text/template.h"
#include "text/topic_pattern.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define LOWER  "abcdefghijklmnopqrstuvwxyz"
#define UPPER  "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
#define DIGITS "0123456789"

/* RFC 9110, tchar; RFC 5322's atext and the dot differ from it by a few characters. */
#define TOKEN_CHARACTERS   LOWER UPPER DIGITS "!#$%&'*+-.^_`|~"
#define MAILBOX_CHARACTERS LOWER UPPER DIGITS "!#$%&'*+-/=?^_`{|}~."

static bool consists_of(const char *text, size_t length, const char *allowed)
{
        return length > 0 && strspn(text, allowed) >= length;
}

const char *check_sink_name(const char *value)
{
        size_t length = strlen(value);

        if (length <= 63 && strchr("-_", *value) == NULL &&
            consists_of(value, length, LOWER DIGITS "-_"))
                return NULL;
        return "is not a sink's name; allowed: 1 to 63 of a-z, 0-9, - and _, the first a letter or "
               "digit";
}

const char *check_sink_pattern(const char *value)
{
        const char *pattern = *value == '!' ? value + 1 : value;

        if (!consists_of(pattern, strlen(pattern), LOWER DIGITS "-_*"))
                return "is not a pattern of sinks' names; allowed: a-z, 0-9, -, _ and *, with or "
                       "without a ! before them";
        return topic_pattern_check(value);
}

const char *check_relay_name(const char *value)
{
        size_t length = strlen(value);

        if (length <= 63 && consists_of(value, length, LOWER DIGITS "-_."))
                return NULL;
        return "is not a relay's name; allowed: 1 to 63 of a-z, 0-9, -, _ and .";
}

const char *check_header_condition(const char *value)
{
        if (*value == '\0' || *value == '=')
                return "has no header name; allowed: name=value, or name for any value";
        return strlen(value) <= 1024 ? NULL : "is longer than 1024 bytes";
}

const char *check_filter(const char *value)
{
        if (value[strspn(value, " \t")] == '\0')
                return "is empty; allowed: a jsonpath predicate, as in $.amount > 100";
        return strlen(value) <= 4096 ? NULL : "is longer than 4096 bytes";
}

const char *check_header_name(const char *value)
{
        if (consists_of(value, strlen(value), TOKEN_CHARACTERS))
                return NULL;
        return "is not the name of an HTTP header; allowed: letters, digits and !#$%&'*+-.^_`|~";
}

static bool has_control_character(const char *value)
{
        for (; *value != '\0'; value++)
                if ((unsigned char)*value < ' ' || *value == 0x7f)
                        return true;
        return false;
}

/* Publishers choose topic, type and key. Without a fixed text before these an event could write to
 * any key. */
const char *check_stream_template(const char *value)
{
        static const char *const variables[] = {"topic", "type", "key", NULL};
        struct error error;
        struct template *template = template_compile(value, variables, &error);

        if (template == NULL)
                return "is not a valid template; each {{ needs a }}, and the only variables are "
                       "{{topic}}, {{type}} and {{key}}";
        template_destroy(template);
        if (strncmp(value, "{{", 2) == 0 && value[2] != '{')
                return "begins with a variable, so an event could name any Redis key; put fixed "
                       "text before it, as in events:{{topic}}";
        if (has_control_character(value))
                return "holds a control character";
        return NULL;
}

const char *check_event_source(const char *value)
{
        if (value[0] == '\0' || strchr(value, ' ') != NULL || has_control_character(value))
                return "is not a URI: it is empty, or contains a space or a control character";
        return NULL;
}

const char *check_redis_host(const char *value)
{
        char *host = NULL;
        uint16_t port;
        const char *wrong = redis_host_split(value, &host, &port);

        free(host);
        return wrong;
}

const char *check_redis_url(const char *value)
{
        struct redis_url url;
        const char *wrong = redis_url_split(value, &url);

        redis_url_deinit(&url);
        return wrong;
}

static const char *check_url(const char *value, const char *(*check_parts)(const struct url *url))
{
        struct url url;
        const char *wrong = url_split(value, &url);

        if (wrong == NULL)
                wrong = check_parts(&url);
        url_deinit(&url);
        return wrong;
}

static const char *check_http_parts(const struct url *url)
{
        if (strcmp(url->scheme, "http") != 0 && strcmp(url->scheme, "https") != 0)
                return "has an unknown scheme; allowed: http://host… or https://host…";
        if (*url->host == '\0')
                return "has no host; allowed: http://host… or https://host…";
        if (url->user != NULL)
                return "has a user name or password before its host, which would appear in logs; "
                       "use the keys secret or headers instead";
        if (strchr(url->rest, '#') != NULL)
                return "has a #fragment, which is never sent; percent-encode a # as %23";
        return NULL;
}

const char *check_http_url(const char *value)
{
        return check_url(value, check_http_parts);
}

static bool is_loopback(const char *host)
{
        struct in_addr address;

        return strcasecmp(host, "localhost") == 0 || strcmp(host, "::1") == 0 ||
               (inet_pton(AF_INET, host, &address) == 1 && ntohl(address.s_addr) >> 24 == 127);
}

static const char *check_portal_parts(const struct url *url)
{
        const char *wrong = check_http_parts(url);

        if (wrong != NULL)
                return wrong;
        if (strcmp(url->scheme, "https") != 0 && !is_loopback(url->host))
                return "begins with http://, so that everyone on the way could read the links; "
                       "allowed: https://host/, or http:// with localhost or a loopback address";
        if (strpbrk(url->rest, "?#") != NULL)
                return "has a query or a fragment; allowed: https://host/ or https://host/path/";
        return NULL;
}

const char *check_portal_url(const char *value)
{
        return check_url(value, check_portal_parts);
}

const char *check_portal_right(const char *value)
{
        static const char *const rights[] = {"resend", "pause", "url", "secret"};

        for (size_t i = 0; i < sizeof rights / sizeof rights[0]; i++)
                if (strcmp(value, rights[i]) == 0)
                        return NULL;
        return "is none of resend, pause, url, secret";
}

static const char *check_proxy_parts(const struct url *url)
{
        if (strcmp(url->scheme, "http") != 0)
                return "has an unknown scheme; allowed: http://[user:password@]host:port";
        if (*url->host == '\0' || url->port == 0)
                return "has no host or no port; allowed: http://[user:password@]host:port";
        if (*url->rest != '\0' && strcmp(url->rest, "/") != 0)
                return "has text after its port; allowed: http://[user:password@]host:port";
        return NULL;
}

const char *check_http_proxy(const char *value)
{
        return check_url(value, check_proxy_parts);
}

const char *check_header_value(const char *value)
{
        for (const unsigned char *at = (const unsigned char *)value; *at != '\0'; at++)
                if (*at < ' ' || *at == 0x7f)
                        return "holds a control character, which no HTTP header can carry";
        if (value[0] == ' ' || value[strlen(value) - 1] == ' ')
                return "begins or ends with a space, which HTTP strips";
        return NULL;
}

const char *check_auth_user(const char *value)
{
        if (strchr(value, ':') != NULL)
                return "contains a colon, which would end the name; use a name without a colon";
        return check_header_value(value);
}

const char *check_auth_bearer(const char *value)
{
        if (consists_of(value, strlen(value), LOWER UPPER DIGITS "-._~+/="))
                return NULL;
        return "is not a bearer token; allowed: letters, digits and -._~+/=";
}

/* A URI or a relative reference (RFC 3986). */
const char *check_ce_source(const char *value)
{
        if (consists_of(value, strlen(value), LOWER UPPER DIGITS "-._~:/?#[]@!$&'()*+,;=%"))
                return NULL;
        return "is not a URI reference; allowed: letters, digits and -._~:/?#[]@!$&'()*+,;=%";
}

static const char *check_email_parts(const struct url *url)
{
        if (strcmp(url->scheme, "smtp") != 0 && strcmp(url->scheme, "smtps") != 0)
                return "has an unknown scheme; allowed: smtp://host[:port] or smtps://host[:port]";
        if (*url->host == '\0')
                return "has no host; allowed: smtp://host[:port] or smtps://host[:port]";
        if (url->user != NULL)
                return "has a user name or password before its host; use the keys user and "
                       "password, "
                       "or password_file";
        if (*url->rest != '\0')
                return "has text after its host; allowed: smtp://host[:port] or "
                       "smtps://host[:port]";
        return NULL;
}

const char *check_email_url(const char *value)
{
        return check_url(value, check_email_parts);
}

/* The bytes that the base64 text stands for; 0 unless it has the standard alphabet and padding. */
static size_t base64_bytes(const char *text)
{
        size_t length = strlen(text);
        size_t body = strspn(text, UPPER LOWER DIGITS "+/");
        size_t padding = length - body;

        if (length % 4 != 0 || padding > 2 || strspn(text + body, "=") != padding)
                return 0;
        return length / 4 * 3 - padding;
}

const char *check_http_secret(const char *value)
{
        size_t n_bytes = strncmp(value, "whsec_", 6) == 0 ? base64_bytes(value + 6) : 0;

        if (n_bytes >= 24 && n_bytes <= 64)
                return NULL;
        return "is not a signing secret; allowed: whsec_ and then base64 (standard alphabet, "
               "padded) "
               "of 24 to 64 random bytes";
}

/* Finds the bare address within "a@b.c" or "Name <a@b.c>"; false if there is not exactly one. */
static bool find_address(const char *value, const char **out_address, size_t *out_length)
{
        const char *open = strchr(value, '<');
        size_t name_length = open != NULL ? (size_t)(open - value) : 0;

        *out_address = value;
        *out_length = strlen(value);
        if (open == NULL)
                return true;
        /* The name is copied into the header, where special characters must be in quotes. */
        if (value[0] == '"') {
                size_t end = 1 + strcspn(value + 1, "\"\\");
                if (value[end] != '"' || end > name_length || value[end + 1] != ' ' ||
                    value + end + 2 != open)
                        return false;
        } else if (strcspn(value, "\"(),:;@[\\]") < name_length ||
                   (name_length > 0 && value[name_length - 1] != ' ')) {
                return false;
        }
        *out_address = open + 1;
        *out_length = strcspn(open + 1, ">");
        return strcmp(open + 1 + *out_length, ">") == 0;
}

static bool is_domain(const char *text, size_t length)
{
        return length <= 253 && consists_of(text, length, LOWER UPPER DIGITS "-.") &&
               text[0] != '.' && text[0] != '-' && text[length - 1] != '.' &&
               memmem(text, length, "..", 2) == NULL;
}

static bool is_mailbox(const char *text, size_t length)
{
        return length > 0 && length <= 64 && consists_of(text, length, MAILBOX_CHARACTERS) &&
               text[0] != '.' && text[length - 1] != '.' && memmem(text, length, "..", 2) == NULL;
}

const char *check_email_address(const char *value)
{
        const char *address;
        size_t length;

        if (find_address(value, &address, &length)) {
                const char *at = memchr(address, '@', length);
                size_t mailbox = at != NULL ? (size_t)(at - address) : 0;
                if (at != NULL && is_mailbox(address, mailbox) &&
                    is_domain(at + 1, length - mailbox - 1))
                        return NULL;
        }
        return "is not one e-mail address; allowed: name@domain, or Name <name@domain>";
}

char *email_address_domain(const char *address)
{
        const char *at = strrchr(address, '@') + 1;

        return xstrndup(at, strcspn(at, ">"));
}

const char *check_domain(const char *value)
{
        if (is_domain(value, strlen(value)))
                return NULL;
        return "is not a domain; allowed: letters, digits, - and . as in example.com";
}

const char *check_readable_file(const char *value)
{
        struct stat status;

        if (regular_file_stat(value, &status) == 0) {
                if (!S_ISREG(status.st_mode))
                        return "names a path that is not a regular file";
                if (access(value, R_OK) == 0)
                        return NULL;
        }
        switch (errno) {
        case ENOENT:
        case ENOTDIR:
                return "names a file that does not exist";
        case EACCES:
                return "names a file that may not be read";
        }
        return "names a file that cannot be read";
}

const char *check_folder(const char *value)
{
        struct stat status;

        if (regular_file_stat(value, &status) != 0)
                return "names a folder that does not exist, or that may not be read";
        return S_ISDIR(status.st_mode) ? NULL : "names a path that is not a folder";
}

/* Modules are loaded from their folder only, never from a path. */
const char *check_module_file(const char *value)
{
        if (*value != '.' && strlen(value) <= 255 &&
            consists_of(value, strlen(value), LOWER UPPER DIGITS "-_.+"))
                return NULL;
        return "is not the name of a module; allowed: a file name without a path, of letters, "
               "digits "
               "and -_.+, the first not a dot; the folder is relay.modules";
}

/* 1 to 65535, decimal, without leading zeros. */
static bool is_port(const char *text)
{
        size_t length = strlen(text);

        return length > 0 && length <= 5 && strspn(text, "0123456789") == length &&
               text[0] != '0' && strtoul(text, NULL, 10) <= 65535;
}

const char *check_port(const char *value)
{
        return is_port(value) ? NULL : "is not a port; allowed: 1 to 65535";
}

const char *check_network(const char *value)
{
        struct network network;

        return network_parse(value, &network);
}

const char *check_listen_address(const char *value)
{
        struct listen_address address;

        return listen_address_parse(value, &address);
}

const char *check_host_name(const char *value)
{
        static const char *const letters =
            "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._";
        size_t length = strlen(value);

        if (length > 0 && length <= 253 && strspn(value, letters) == length)
                return NULL;
        return "is not a host name; allowed: a name without a port, like pgcourier.example.com";
}

/* "ip", "ip:port", "[ip6]" or "[ip6]:port". */
static bool is_address_and_port(const char *value)
{
        bool has_bracket = value[0] == '[';
        const char *start = has_bracket ? value + 1 : value;
        size_t length = strcspn(start, has_bracket ? "]" : ":");
        const char *rest = start + length;
        char text[INET6_ADDRSTRLEN];
        unsigned char address[16];

        if (length >= sizeof text || (has_bracket && *rest++ != ']'))
                return false;
        memcpy(text, start, length);
        text[length] = '\0';
        return inet_pton(has_bracket ? AF_INET6 : AF_INET, text, address) == 1 &&
               (*rest == '\0' || (*rest == ':' && is_port(rest + 1)));
}

const char *check_dns_server(const char *value)
{
        unsigned char address[16];

        if (inet_pton(AF_INET6, value, address) == 1 || is_address_and_port(value))
                return NULL;
        return "is not the address of a name server; allowed: 192.0.2.53, 192.0.2.53:5353, "
               "2001:db8::53 or [2001:db8::53]:5353";
}

/* It must fit into a header and be hard to guess. */
const char *check_admin_token(const char *value)
{
        enum { MIN_LENGTH = 16, MAX_LENGTH = 1024 };
        size_t length = strlen(value);

        for (size_t i = 0; i < length; i++)
                if (value[i] <= ' ' || value[i] > '~')
                        return "contains a space, a control character or a non-ASCII character; "
                               "allowed: 16 to 1024 printable ASCII characters";
        if (length >= MIN_LENGTH && length <= MAX_LENGTH)
                return NULL;
        return length < MIN_LENGTH
                   ? "is shorter than 16 characters; make a token with: openssl rand -hex 32"
                   : "is longer than 1024 characters";
}
