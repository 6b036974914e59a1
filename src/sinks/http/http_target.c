#include "sinks/http/http_target.h"

#include "base/alloc.h"
#include "base/bytes.h"
#include "base/error.h"
#include "base/utf8.h"
#include "config/config.h"
#include "config/secret.h"
#include "config/url.h"
#include "sinks/address_guard.h"
#include "sinks/http/http_batcher.h"
#include "sinks/http/http_signing.h"

#include <assert.h>
#include <curl/curl.h>
#include <openssl/evp.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* Headers that cannot be replaced: ours, and those that frame or route the request. A name
 * ending in '-' stands for all that begin with it. */
static const char *const reserved_names[] = {"connection", "content-encoding", "content-length",
    "content-type", "expect", "host", "keep-alive", "proxy-", "stripe-signature", "te", "trailer",
    "transfer-encoding", "upgrade", "user-agent", "webhook-", "x-event-", "x-hub-signature-256"};

static bool is_name(const char *name, const char *reserved)
{
        size_t length = strlen(reserved);

        return strncasecmp(name, reserved, length) == 0 &&
               (name[length] == '\0' || reserved[length - 1] == '-');
}

static bool is_reserved(const struct http_config *config, const char *name)
{
        for (size_t i = 0; i < sizeof reserved_names / sizeof reserved_names[0]; i++)
                if (is_name(name, reserved_names[i]))
                        return true;
        if (config->body == HTTP_BODY_CLOUDEVENTS && is_name(name, "ce-"))
                return true;
        return (config->auth.user != NULL || config->auth.bearer != NULL) &&
               is_name(name, "authorization");
}

static bool is_token(const char *name)
{
        size_t length = strspn(name, "!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyz"
                                     "ABCDEFGHIJKLMNOPQRSTUVWXYZ");

        return length > 0 && name[length] == '\0';
}

static bool check_name(
    const struct http_config *config, const char *where, const char *name, struct error *error)
{
        if (!is_token(name))
                return error_set(error, ERROR_CONFIG,
                    "%s: \"%s\" cannot be the name of an HTTP header: letters, digits and - are "
                    "safe",
                    where, name);
        if (is_reserved(config, name))
                return error_set(error, ERROR_CONFIG,
                    "%s: %s cannot be given: pgcourier or HTTP itself sets it; remove it", where,
                    name);
        return true;
}

bool http_headers_check_names(const struct http_config *config, struct error *error)
{
        for (unsigned i = 0; i < config->n_headers; i++)
                if (!check_name(config, "http.headers", config->headers[i], error))
                        return false;
        for (unsigned i = 0; i < config->n_set_headers; i++) {
                const char *name = config->set_headers[i].name;

                if (!check_name(config, "http.set_headers", name, error))
                        return false;
                for (unsigned j = 0; j < i; j++)
                        if (strcasecmp(config->set_headers[j].name, name) == 0)
                                return error_set(error, ERROR_CONFIG,
                                    "http.set_headers: %s is listed twice; keep one", name);
        }
        return true;
}

/* The value may be a secret and is not repeated. */
static bool check_own(
    const struct http_config *config, const struct event_header *own, struct error *error)
{
        size_t length = strlen(own->value);

        if (!check_name(config, "the receiver's headers", own->name, error))
                return false;
        if (utf8_has_control(own->value))
                return error_set(error, ERROR_CONFIG,
                    "the receiver's headers: the value of %s holds a line break or another control "
                    "character",
                    own->name);
        if (length > 0 && (own->value[0] == ' ' || own->value[length - 1] == ' '))
                return error_set(error, ERROR_CONFIG,
                    "the receiver's headers: the value of %s begins or ends with a space, which "
                    "HTTP strips",
                    own->name);
        return true;
}

static void append_line(struct bytes *lines, const char *name, const char *value)
{
        bytes_append_text(lines, name);
        bytes_append_text(lines, ": ");
        bytes_append_text(lines, value);
        bytes_append_text(lines, "\r\n");
}

bool http_header_is_among(const char *lines, const char *name)
{
        size_t length = strlen(name);

        for (const char *line = lines; line != NULL && *line != '\0'; line = strchr(line, '\n') + 1)
                if (strncasecmp(line, name, length) == 0 && line[length] == ':')
                        return true;
        return false;
}

static void append_basic(struct bytes *lines, const char *user, const char *password)
{
        static const char scheme[] = "Basic ";
        char *pair = xasprintf("%s:%s", user, password);
        size_t length = strlen(pair);
        char *value = xcalloc(sizeof scheme + (length / 3 + 1) * 4, 1);

        memcpy(value, scheme, sizeof scheme - 1);
        EVP_EncodeBlock(
            (unsigned char *)value + sizeof scheme - 1, (const unsigned char *)pair, (int)length);
        append_line(lines, "Authorization", value);
        secret_free(pair);
        secret_free(value);
}

static void append_auth(struct bytes *lines, const struct http_auth *auth)
{
        char *value;

        if (auth->user != NULL)
                append_basic(lines, auth->user, auth->password);
        if (auth->bearer == NULL)
                return;
        value = xasprintf("Bearer %s", auth->bearer);
        append_line(lines, "Authorization", value);
        secret_free(value);
}

/* A buffer that grows leaves copies behind: the lines are made in one of the right size. */
static size_t size_of_lines(
    const struct http_config *config, const struct event_header *own, size_t n_own)
{
        size_t size = 512;

        for (size_t i = 0; i < n_own; i++)
                size += strlen(own[i].name) + strlen(own[i].value) + 4;
        for (unsigned i = 0; i < config->n_set_headers; i++)
                size +=
                    strlen(config->set_headers[i].name) + strlen(config->set_headers[i].value) + 4;
        if (config->auth.user != NULL)
                size += 2 * (strlen(config->auth.user) + strlen(config->auth.password));
        if (config->auth.bearer != NULL)
                size += strlen(config->auth.bearer);
        return size;
}

char *http_fixed_headers_make(const struct http_config *config, const struct event_header *own,
    size_t n_own, struct error *error)
{
        struct bytes lines = {0};

        *bytes_reserve(&lines, size_of_lines(config, own, n_own)) = '\0';
        for (size_t i = 0; i < n_own; i++) {
                if (!check_own(config, &own[i], error)) {
                        secret_free(lines.data);
                        return NULL;
                }
                if (!http_header_is_among(lines.data, own[i].name))
                        append_line(&lines, own[i].name, own[i].value);
        }
        for (unsigned i = 0; i < config->n_set_headers; i++)
                if (!http_header_is_among(lines.data, config->set_headers[i].name))
                        append_line(
                            &lines, config->set_headers[i].name, config->set_headers[i].value);
        append_auth(&lines, &config->auth);
        append_line(&lines, "User-Agent", HTTP_USER_AGENT);
        if (!http_header_is_among(lines.data, "Accept"))
                append_line(&lines, "Accept", "*/*");
        return lines.data;
}

/* As it was written, for curl_free(); NULL: it has no such part. */
static char *part_of(const struct http_target *target, CURLUPart part, unsigned flags)
{
        char *text = NULL;

        if (curl_url_get(target->parsed, part, &text, flags) == CURLUE_OUT_OF_MEMORY)
                out_of_memory();
        return text;
}

/* A user name in the URL is as good as one of the config, which goes before it. False: it has one
 * that cannot be decoded. */
static bool append_userinfo(struct http_target *target, const struct http_auth *auth)
{
        char *user = part_of(target, CURLUPART_USER, CURLU_URLDECODE);
        char *password = part_of(target, CURLUPART_PASSWORD, CURLU_URLDECODE);
        bool is_valid = user != NULL || !http_url_has_userinfo(target->url);
        struct bytes line = {0};
        char *longer;

        if (user != NULL && auth->user == NULL && auth->bearer == NULL) {
                append_basic(&line, user, password != NULL ? password : "");
                longer = xasprintf("%s%s", target->fixed, line.data);
                secret_free(line.data);
                secret_free(target->fixed);
                target->fixed = longer;
        }
        curl_free(user);
        curl_free(password);
        return is_valid;
}

/* "POST /path?query HTTP/1.1" and "Host: name:port", which leaves the usual port out. */
static void make_line(struct http_target *target)
{
        char *host = part_of(target, CURLUPART_HOST, 0);
        char *port = part_of(target, CURLUPART_PORT, CURLU_NO_DEFAULT_PORT);
        char *path = part_of(target, CURLUPART_PATH, 0);
        char *query = part_of(target, CURLUPART_QUERY, 0);

        target->line = xasprintf("POST %s%s%s HTTP/1.1\r\nHost: %s%s%s\r\n", path,
            query != NULL ? "?" : "", query != NULL ? query : "", host, port != NULL ? ":" : "",
            port != NULL ? port : "");
        curl_free(host);
        curl_free(port);
        curl_free(path);
        curl_free(query);
}

/* libcurl keeps the zone of a link-local address apart. */
static char *host_with_zone(const struct http_target *target, const char *host)
{
        char *zone = part_of(target, CURLUPART_ZONEID, 0);
        char *whole = zone != NULL ? xasprintf("%.*s%%%s]", (int)strcspn(host, "]"), host, zone)
                                   : xstrdup(host);

        curl_free(zone);
        return whole;
}

/* The host whose addresses will be needed: the receiver's, or the proxy's. */
static bool create_host(struct http_target *target, const struct http_config *config,
    const char *url_name, const struct address_guard *guard, http_host_settled_fn *on_settled,
    struct error *error)
{
        const char *scheme = strncasecmp(target->url, "https:", 6) == 0 ? "https" : "http";
        char *host;
        char *port;
        char *whole;

        if (!http_url_parse(url_name, target->url, &host, &port, error))
                return false;
        if (!address_guard_permits_url(guard, scheme, port, error)) {
                curl_free(host);
                curl_free(port);
                return false;
        }
        target->parsed = curl_url();
        if (target->parsed == NULL ||
            curl_url_set(target->parsed, CURLUPART_URL, target->url, 0) != CURLUE_OK)
                out_of_memory(); /* it has been parsed before */
        whole = host_with_zone(target, host);
        target->origin = xasprintf("%s://%s:%s", scheme, whole, port);
        if (config->proxy != NULL) {
                free(whole);
                curl_free(host);
                curl_free(port);
                if (!http_url_parse("http.proxy", config->proxy, &host, &port, error))
                        return false;
                whole = xstrdup(host);
        }
        target->host = http_host_create(
            target->sink->loop, whole, port, config->connect_timeout_ms, guard, on_settled, target);
        free(whole);
        curl_free(host);
        curl_free(port);
        return true;
}

static bool fill(struct http_target *target, const struct http_config *config,
    const struct target_settings *settings, const char *url_name, const struct address_guard *guard,
    http_host_settled_fn *on_settled, struct error *error)
{
        struct error no_key = {.kind = ERROR_NONE};

        target->signing =
            http_signing_create(config->signing, settings->secrets, settings->n_secrets, &no_key);
        if (no_key.kind != ERROR_NONE) {
                *error = no_key;
                return false;
        }
        target->fixed =
            http_fixed_headers_make(config, settings->headers, settings->n_headers, error);
        if (target->fixed == NULL ||
            !create_host(target, config, url_name, guard, on_settled, error))
                return false;
        if (!append_userinfo(target, &config->auth))
                return error_set(error, ERROR_CONFIG,
                    "%s has a malformed %%XX, or a control character, before its @", url_name);
        make_line(target);
        target->description = http_url_describe(target->url);
        return true;
}

static struct http_target *create(struct sink *sink, const struct http_config *config,
    const struct target_settings *settings, const char *url_name, const struct address_guard *guard,
    http_host_settled_fn *on_settled, struct error *error)
{
        static uint64_t n_made;
        struct http_target *target = xcalloc(1, sizeof *target);

        target->sink = sink;
        target->number = ++n_made;
        target->url = xstrdup(settings->url);
        list_init(&target->waiting);
        list_init(&target->among);
        list_init(&target->due);
        if (fill(target, config, settings, url_name, guard, on_settled, error))
                return target;
        http_target_destroy(target);
        return NULL;
}

struct http_target *http_target_create_fixed(struct sink *sink, const struct http_config *config,
    const struct address_guard *guard, http_host_settled_fn *on_settled, struct error *error)
{
        const char *const *secrets = (const char *const *)config->secrets;
        const char *const only[] = {config->secret};
        const struct target_settings settings = {.name = sink->name,
            .url = config->url,
            .secrets = config->secret != NULL ? only : secrets,
            .n_secrets = config->secret != NULL ? 1 : config->n_secrets};

        return create(sink, config, &settings, "http.url", guard, on_settled, error);
}

struct http_target *http_target_create(struct sink *sink, const struct http_config *config,
    const struct target_settings *settings, const struct address_guard *guard,
    http_host_settled_fn *on_settled, struct error *error)
{
        if (http_url_has_userinfo(settings->url)) {
                error_set(error, ERROR_CONFIG,
                    "the receiver's url has a user name or password before its host, which would "
                    "appear in logs: give the receiver an authorization header instead");
                return NULL;
        }
        return create(sink, config, settings, "the receiver's url", guard, on_settled, error);
}

void http_target_destroy(struct http_target *target)
{
        if (target == NULL)
                return;
        assert(list_is_empty(&target->waiting) && list_is_empty(&target->due));
        list_remove(&target->among);
        http_batcher_destroy(target->batcher);
        http_host_destroy(target->host);
        http_signing_destroy(target->signing);
        secret_free(target->fixed);
        free(target->origin);
        secret_free(target->line);
        free(target->description);
        curl_url_cleanup(target->parsed);
        secret_free(target->url);
        free(target);
}
