#include "config/server_address.h"

#include "base/alloc.h"
#include "config/url.h"

#include <stdlib.h>
#include <string.h>

#define NATS_FORMS  "nats://host[:port], tls://host[:port] or host[:port]"
#define AMQP_FORMS  "amqp://host[:port], amqps://host[:port] or host[:port]"
#define KAFKA_FORMS "host[:port]"

struct protocol {
        const char *schemes[2]; /* without and with TLS; NULL: none */
        uint16_t ports[2];      /* likewise */
        const char *bad_scheme;
        const char *bad_host;
        const char *bad_user;
        const char *bad_rest;
};

static const struct protocol protocols[] = {
    [SERVER_NATS] = {.schemes = {"nats", "tls"},
        .ports = {4222, 4222},
        .bad_scheme = "has an unknown scheme; allowed: " NATS_FORMS,
        .bad_host = "has no host; allowed: " NATS_FORMS,
        .bad_user = "has a user name or a token before its host; use the keys user and password, "
                    "or token",
        .bad_rest = "has text after its host and port; allowed: " NATS_FORMS},
    [SERVER_AMQP] = {.schemes = {"amqp", "amqps"},
        .ports = {5672, 5671},
        .bad_scheme = "has an unknown scheme; allowed: " AMQP_FORMS,
        .bad_host = "has no host; allowed: " AMQP_FORMS,
        .bad_user = "has a user name or password before its host; use the keys user and password",
        .bad_rest = "has text after its host and port; use the key vhost, and for what a ?query "
                    "says the other keys; allowed: " AMQP_FORMS},
    [SERVER_KAFKA] = {.ports = {9092, 9092},
        .bad_scheme = "has a scheme; write host[:port], and for TLS the key tls",
        .bad_host = "has no host; allowed: " KAFKA_FORMS,
        .bad_user = "has a user name or password before its host; use the keys sasl, user and "
                    "password",
        .bad_rest = "has text after its host and port; allowed: " KAFKA_FORMS},
};

static bool is_scheme(const char *scheme, const char *wanted)
{
        return wanted != NULL && strcmp(scheme, wanted) == 0;
}

static const char *take(const struct protocol *protocol, bool has_scheme, bool tls, struct url *url,
    struct server_address *out)
{
        out->is_tls = tls;
        if (has_scheme && is_scheme(url->scheme, protocol->schemes[1]))
                out->is_tls = true;
        else if (has_scheme && !is_scheme(url->scheme, protocol->schemes[0]))
                return protocol->bad_scheme;
        if (url->user != NULL || url->password != NULL)
                return protocol->bad_user;
        if (*url->host == '\0')
                return protocol->bad_host;
        if (*url->rest != '\0')
                return protocol->bad_rest;
        out->port = url->port > 0 ? url->port : protocol->ports[out->is_tls];
        out->host = url->host;
        url->host = NULL;
        return NULL;
}

const char *server_address_split(
    enum server_protocol protocol, const char *text, bool tls, struct server_address *out_address)
{
        bool has_scheme = strstr(text, "://") != NULL;
        char *whole = xasprintf("%s%s", has_scheme ? "" : "server://", text);
        struct url url;
        const char *wrong = url_split(whole, &url);

        *out_address = (struct server_address){0};
        free(whole);
        if (wrong == NULL) {
                wrong = take(&protocols[protocol], has_scheme, tls, &url, out_address);
                url_deinit(&url);
        }
        return wrong;
}

void server_address_deinit(struct server_address *address)
{
        free(address->host);
        *address = (struct server_address){0};
}
