#include "sinks/email/email_server.h"

#include "base/alloc.h"
#include "config/config.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define WANTED_URL "expected smtp://host[:port] or smtps://host[:port]"

/* `host` as curl_url_get() gives it: a v6 address is in brackets. */
static bool is_loopback(const char *host)
{
        struct in_addr v4;
        struct in6_addr v6;
        char bare[INET6_ADDRSTRLEN];

        if (strcasecmp(host, "localhost") == 0)
                return true;
        if (inet_pton(AF_INET, host, &v4) == 1)
                return ntohl(v4.s_addr) >> 24 == 127;
        snprintf(bare, sizeof bare, "%.*s", (int)strcspn(host, "]") - 1, host + 1);
        return host[0] == '[' && inet_pton(AF_INET6, bare, &v6) == 1 && IN6_IS_ADDR_LOOPBACK(&v6);
}

static bool check_route(
    struct email_route *route, const char *scheme, const char *host, struct error *error)
{
        const struct email_config *config = route->config;
        bool is_smtps = strcmp(scheme, "smtps") == 0;
        bool is_local = is_loopback(host);

        if (!is_smtps && strcmp(scheme, "smtp") != 0)
                return error_set(error, ERROR_CONFIG, "email: url: " WANTED_URL);
        if (is_smtps && config->tls == TLS_NONE)
                return error_set(error, ERROR_CONFIG,
                    "email: tls: none contradicts url: smtps://; write smtp://");
        if ((route->user == NULL) != (route->password == NULL))
                return error_set(error, ERROR_CONFIG,
                    "email: user and password (or password_file) belong together");
        if (config->tls == TLS_NONE && route->user != NULL && !is_local)
                return error_set(error, ERROR_CONFIG,
                    "email: tls: none would send the password in clear; allowed only for a "
                    "loopback host");

        if (config->tls == TLS_NONE)
                route->starttls = CURLUSESSL_NONE;
        else if (config->tls == TLS_AUTO && is_local)
                route->starttls = CURLUSESSL_TRY;
        else
                route->starttls = CURLUSESSL_ALL;
        return true;
}

static bool read_url(
    struct email_route *route, CURLU *parts, const char *written, struct error *error)
{
        char *scheme = NULL;
        char *host = NULL;
        char *port = NULL;
        char *user = NULL;
        bool is_valid;

        if (curl_url_set(parts, CURLUPART_URL, written, 0) != CURLUE_OK ||
            curl_url_get(parts, CURLUPART_SCHEME, &scheme, 0) != CURLUE_OK ||
            curl_url_get(parts, CURLUPART_HOST, &host, 0) != CURLUE_OK ||
            curl_url_get(parts, CURLUPART_PORT, &port, CURLU_DEFAULT_PORT) != CURLUE_OK)
                is_valid = error_set(error, ERROR_CONFIG, "email: url: " WANTED_URL);
        else if (curl_url_get(parts, CURLUPART_USER, &user, 0) == CURLUE_OK)
                is_valid = error_set(error, ERROR_CONFIG,
                    "email: url: holds a user; use the keys user and password_file");
        else
                is_valid = check_route(route, scheme, host, error);
        if (is_valid) {
                const char *name = route->config->ehlo;
                route->place = xasprintf("%s:%s", host, port);
                /* libcurl says in EHLO what stands where other URLs have their path. */
                route->url =
                    xasprintf("%s://%s:%s/%s", scheme, host, port, name != NULL ? name : "");
        }
        curl_free(user);
        curl_free(port);
        curl_free(host);
        curl_free(scheme);
        return is_valid;
}

static bool add_route(struct email_routes *routes, const struct email_config *config,
    const struct email_relay_config *relay, struct error *error)
{
        struct email_route *route = &routes->route[routes->n];
        CURLU *parts = curl_url();
        bool is_valid;

        if (parts == NULL)
                out_of_memory();
        *route = (struct email_route){
            .config = config, .user = relay->user, .password = relay->password};
        is_valid = read_url(route, parts, relay->url, error);
        curl_url_cleanup(parts);
        routes->n += is_valid;
        return is_valid;
}

bool email_routes_init(
    struct email_routes *routes, const struct email_config *config, struct error *error)
{
        struct email_relay_config only = {
            .url = config->url, .user = config->user, .password = config->password};
        const struct email_relay_config *relays = config->url != NULL ? &only : config->relays;
        unsigned n = config->url != NULL ? 1 : config->n_relays;

        *routes = (struct email_routes){0};
        if (n == 0 || n > EMAIL_MAX_RELAYS)
                return error_set(error, ERROR_CONFIG,
                    "email: url or relays is needed, with at most %d relays", EMAIL_MAX_RELAYS);
        for (unsigned i = 0; i < n; i++) {
                if (add_route(routes, config, &relays[i], error))
                        continue;
                email_routes_deinit(routes);
                return false;
        }
        return true;
}

void email_routes_deinit(struct email_routes *routes)
{
        for (unsigned i = 0; i < routes->n; i++) {
                free(routes->route[i].url);
                free(routes->route[i].place);
        }
        routes->n = 0;
}
