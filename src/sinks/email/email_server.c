#include "sinks/email/email_server.h"

#include "base/alloc.h"
#include "base/backoff.h"
#include "config/config.h"

#include <arpa/inet.h>
#include <assert.h>
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

static bool check_server(
    struct email_server *server, const char *scheme, const char *host, struct error *error)
{
        const struct email_config *config = server->config;
        bool is_smtps = strcmp(scheme, "smtps") == 0;
        bool is_local = is_loopback(host);

        if (!is_smtps && strcmp(scheme, "smtp") != 0)
                return error_set(error, ERROR_CONFIG, "email: url: " WANTED_URL);
        if (is_smtps && config->tls == TLS_NONE)
                return error_set(error, ERROR_CONFIG,
                    "email: tls: none contradicts url: smtps://; write smtp://");
        if ((server->user == NULL) != (server->password == NULL))
                return error_set(error, ERROR_CONFIG,
                    "email: user and password (or password_file) belong together");
        if (config->tls == TLS_NONE && server->user != NULL && !is_local)
                return error_set(error, ERROR_CONFIG,
                    "email: tls: none would send the password in clear; allowed only for a "
                    "loopback host");

        if (config->tls == TLS_NONE)
                server->starttls = CURLUSESSL_NONE;
        else if (config->tls == TLS_AUTO && is_local)
                server->starttls = CURLUSESSL_TRY;
        else
                server->starttls = CURLUSESSL_ALL;
        return true;
}

static bool read_url(
    struct email_server *server, CURLU *parts, const char *written, struct error *error)
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
                is_valid = check_server(server, scheme, host, error);
        if (is_valid) {
                const char *name = server->config->ehlo;
                server->place = xasprintf("%s:%s", host, port);
                /* libcurl says in EHLO what stands where other URLs have their path. */
                server->url =
                    xasprintf("%s://%s:%s/%s", scheme, host, port, name != NULL ? name : "");
        }
        curl_free(user);
        curl_free(port);
        curl_free(host);
        curl_free(scheme);
        return is_valid;
}

static bool add_server(struct email_servers *servers, const struct email_config *config,
    const struct email_relay_config *relay, struct error *error)
{
        struct email_server *server = &servers->server[servers->n];
        CURLU *parts = curl_url();
        bool is_valid;

        if (parts == NULL)
                out_of_memory();
        *server = (struct email_server){
            .config = config, .user = relay->user, .password = relay->password};
        is_valid = read_url(server, parts, relay->url, error);
        curl_url_cleanup(parts);
        servers->n += is_valid;
        return is_valid;
}

bool email_servers_init(
    struct email_servers *servers, const struct email_config *config, struct error *error)
{
        struct email_relay_config only = {
            .url = config->url, .user = config->user, .password = config->password};
        const struct email_relay_config *relays = config->url != NULL ? &only : config->relays;
        unsigned n = config->url != NULL ? 1 : config->n_relays;

        *servers = (struct email_servers){0};
        if (n == 0 || n > EMAIL_MAX_RELAYS)
                return error_set(error, ERROR_CONFIG,
                    "email: url or relays is needed, with at most %d relays", EMAIL_MAX_RELAYS);
        for (unsigned i = 0; i < n; i++) {
                if (add_server(servers, config, &relays[i], error))
                        continue;
                email_servers_deinit(servers);
                return false;
        }
        return true;
}

void email_servers_deinit(struct email_servers *servers)
{
        for (unsigned i = 0; i < servers->n; i++) {
                free(servers->server[i].url);
                free(servers->server[i].place);
        }
        servers->n = 0;
}

#define MAX_TIMES_THE_FIRST 60

void email_relays_init(struct email_relays *relays, unsigned n, int64_t backoff_ms)
{
        assert(n > 0 && n <= EMAIL_MAX_RELAYS);
        *relays = (struct email_relays){.n = n, .backoff_ms = backoff_ms};
}

static bool is_left_out(const struct email_relays *relays, unsigned i, int64_t now_ms)
{
        return relays->relay[i].n_failures > 0 &&
               (relays->relay[i].is_on_trial || now_ms < relays->relay[i].out_until_ms);
}

static bool all_are_left_out(const struct email_relays *relays, int64_t now_ms)
{
        for (unsigned i = 0; i < relays->n; i++)
                if (!is_left_out(relays, i, now_ms))
                        return false;
        return true;
}

bool email_relays_next(
    struct email_relays *relays, struct email_tour *tour, int64_t now_ms, unsigned *out_relay)
{
        if (tour->tried == 0)
                tour->is_last_resort = all_are_left_out(relays, now_ms);
        for (unsigned i = 0; i < relays->n; i++) {
                if (tour->tried & 1u << i)
                        continue;
                if (!tour->is_last_resort && is_left_out(relays, i, now_ms))
                        continue;
                tour->tried |= 1u << i;
                relays->relay[i].is_on_trial = relays->relay[i].n_failures > 0;
                *out_relay = i;
                return true;
        }
        return false;
}

void email_relays_worked(struct email_relays *relays, unsigned relay)
{
        relays->relay[relay].is_on_trial = false;
        relays->relay[relay].n_failures = 0;
}

void email_relays_failed(struct email_relays *relays, unsigned relay, int64_t now_ms)
{
        struct backoff backoff = {
            .first_ms = relays->backoff_ms,
            .factor = 2,
            .max_ms = relays->backoff_ms * MAX_TIMES_THE_FIRST,
        };

        /* Mails that were under way together fail together: that is one failure. */
        if (!relays->relay[relay].is_on_trial && is_left_out(relays, relay, now_ms))
                return;
        relays->relay[relay].is_on_trial = false;
        relays->relay[relay].n_failures++;
        relays->relay[relay].out_until_ms =
            now_ms + backoff_ms(&backoff, relays->relay[relay].n_failures, UINT32_MAX);
}

void email_relays_unknown(struct email_relays *relays, unsigned relay)
{
        relays->relay[relay].is_on_trial = false;
}
