#include "sinks/http/http_target.h"

#include "base/alloc.h"
#include "base/error.h"
#include "config/config.h"
#include "config/secret.h"
#include "config/url.h"
#include "sinks/address_guard.h"
#include "sinks/http/http_batcher.h"
#include "sinks/http/http_fixed_headers.h"
#include "sinks/http/http_signing.h"

#include <assert.h>
#include <curl/curl.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

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
                    "the endpoint's url holds a name or password before its host, which would end "
                    "up in logs: give the endpoint an authorization header instead");
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
