/* What a server says of itself, in INFO, and what we answer, in CONNECT. Pure. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct bytes;
struct nats_config;
struct nats_credentials;

enum { NATS_MAX_CONNECT_URLS = 64 };

struct nats_info {
        size_t max_payload; /* of headers and payload together; 0: not said */
        bool has_headers;
        bool has_jetstream;
        bool requires_tls;
        bool offers_tls;
        bool requires_login;
        bool is_lame_duck; /* it is about to stop */
        char *nonce;       /* owned; NULL: none */
        char **urls;       /* owned; other servers of the cluster: host:port */
        unsigned n_urls;
};

/* False, with nothing to release, if it is no JSON object, or one of the members above is not what
 * it should be. */
bool nats_info_parse(const char *json, size_t length, struct nats_info *out_info);
void nats_info_deinit(struct nats_info *info);

/* Appends CONNECT with its line end. It holds secrets: clear the bytes when they are sent. */
void nats_append_connect(struct bytes *out, const struct nats_config *config,
    const struct nats_credentials *credentials, const struct nats_info *info);
