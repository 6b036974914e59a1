#include "sinks/http/http_target.h"

#include "base/alloc.h"
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

        if (!check_name(config, "the endpoint's headers", own->name, error))
                return false;
        if (utf8_has_control(own->value))
                return error_set(error, ERROR_CONFIG,
                    "the endpoint's headers: the value of %s holds a line break or another control "
                    "character",
                    own->name);
        if (length > 0 && (own->value[0] == ' ' || own->value[length - 1] == ' '))
                return error_set(error, ERROR_CONFIG,
                    "the endpoint's headers: the value of %s begins or ends with a space, which "
                    "HTTP strips",
                    own->name);
        return true;
}

static struct curl_slist *copy_line(struct curl_slist *lines, const char *line)
{
        struct curl_slist *longer = curl_slist_append(lines, line);

        if (longer == NULL)
                out_of_memory();
        return longer;
}

static struct curl_slist *append_line(struct curl_slist *lines, const char *name, const char *value)
{
        /* libcurl's own spelling: "name;" for a header without value, where "name:" removes it. */
        char *line = value[0] != '\0' ? xasprintf("%s: %s", name, value) : xasprintf("%s;", name);

        lines = copy_line(lines, line);
        secret_free(line);
        return lines;
}

bool http_header_is_among(const struct curl_slist *lines, const char *name)
{
        size_t length = strlen(name);

        for (; lines != NULL; lines = lines->next)
                if (strncasecmp(lines->data, name, length) == 0 &&
                    (lines->data[length] == ':' || lines->data[length] == ';'))
                        return true;
        return false;
}

void http_header_lines_free(struct curl_slist *lines)
{
        for (struct curl_slist *line = lines; line != NULL; line = line->next)
                explicit_bzero(line->data, strlen(line->data));
        curl_slist_free_all(lines);
}

static struct curl_slist *append_basic(struct curl_slist *lines, const struct http_auth *auth)
{
        static const char scheme[] = "Basic ";
        char *pair = xasprintf("%s:%s", auth->user, auth->password);
        size_t length = strlen(pair);
        char *value = xcalloc(sizeof scheme + (length / 3 + 1) * 4, 1);

        memcpy(value, scheme, sizeof scheme - 1);
        EVP_EncodeBlock(
            (unsigned char *)value + sizeof scheme - 1, (const unsigned char *)pair, (int)length);
        lines = append_line(lines, "Authorization", value);
        secret_free(pair);
        secret_free(value);
        return lines;
}

static struct curl_slist *append_auth(struct curl_slist *lines, const struct http_auth *auth)
{
        char *value;

        if (auth->user != NULL)
                return append_basic(lines, auth);
        if (auth->bearer == NULL)
                return lines;
        value = xasprintf("Bearer %s", auth->bearer);
        lines = append_line(lines, "Authorization", value);
        secret_free(value);
        return lines;
}

bool http_fixed_headers_make(const struct http_config *config, const struct event_header *own,
    size_t n_own, struct curl_slist **out_lines, struct error *error)
{
        struct curl_slist *lines = NULL;

        for (size_t i = 0; i < n_own; i++) {
                if (!check_own(config, &own[i], error)) {
                        http_header_lines_free(lines);
                        return false;
                }
                if (!http_header_is_among(lines, own[i].name))
                        lines = append_line(lines, own[i].name, own[i].value);
        }
        for (unsigned i = 0; i < config->n_set_headers; i++)
                if (!http_header_is_among(lines, config->set_headers[i].name))
                        lines = append_line(
                            lines, config->set_headers[i].name, config->set_headers[i].value);
        lines = append_auth(lines, &config->auth);
        lines = append_line(lines, "User-Agent", HTTP_USER_AGENT);
        /* Without this, large bodies wait a second for a 100 Continue that few servers send. */
        *out_lines = copy_line(lines, "Expect:");
        return true;
}

/* The host whose addresses libcurl will need: the receiver's, or the proxy's. */
static bool create_host(struct http_target *target, const struct http_config *config,
    const char *url_name, const struct address_guard *guard, http_host_settled_fn *on_settled,
    struct error *error)
{
        const char *scheme = strncasecmp(target->url, "https:", 6) == 0 ? "https" : "http";
        char *host;
        char *port;

        if (!http_url_parse(url_name, target->url, &host, &port, error))
                return false;
        if (!address_guard_permits_url(guard, scheme, port, error)) {
                curl_free(host);
                curl_free(port);
                return false;
        }
        if (config->proxy != NULL) {
                curl_free(host);
                curl_free(port);
                if (!http_url_parse("http.proxy", config->proxy, &host, &port, error))
                        return false;
        }
        target->host = http_host_create(
            target->sink->loop, host, port, config->connect_timeout_ms, guard, on_settled, target);
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
        if (!http_fixed_headers_make(
                config, settings->headers, settings->n_headers, &target->fixed, error) ||
            !create_host(target, config, url_name, guard, on_settled, error))
                return false;
        target->parsed = curl_url();
        if (target->parsed == NULL ||
            curl_url_set(target->parsed, CURLUPART_URL, target->url, 0) != CURLUE_OK)
                out_of_memory(); /* it has been parsed before */
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
                    "the endpoint's url has a user name or password before its host, which would "
                    "appear in logs: give the endpoint an authorization header instead");
                return NULL;
        }
        return create(sink, config, settings, "the endpoint's url", guard, on_settled, error);
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
        http_header_lines_free(target->fixed);
        free(target->description);
        curl_url_cleanup(target->parsed);
        secret_free(target->url);
        free(target);
}
