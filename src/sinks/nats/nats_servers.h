/*
 * The servers of one NATS cluster: those of the configuration, in an order that is drawn once, so
 * that many relays spread, and behind them those that a server has named. Pure.
 */
#pragma once

#include "config/server_address.h"

#include <stdbool.h>
#include <stdint.h>

struct error;
struct nats_config;

struct nats_peer {
        struct server_address address; /* owned */
        bool is_learned;               /* named by a server */
};

struct nats_servers {
        struct nats_peer *items; /* owned */
        unsigned n;
        unsigned current; /* the one that is used, or was used last */
        bool has_tls;     /* one of the configuration is TLS, so those that are learned are */
        uint64_t random;
};

/* False, with *error set, if there is none, or one is not [nats:// or tls://]host[:port]. `random`
 * is any number but 0. */
bool nats_servers_init(struct nats_servers *servers, const struct nats_config *config,
    uint64_t random, struct error *error);
void nats_servers_deinit(struct nats_servers *servers);

const struct server_address *nats_servers_current(const struct nats_servers *servers);

/* The next one of the list becomes the current one. */
void nats_servers_advance(struct nats_servers *servers);

/* Takes what a server named instead of what was named before; the current one stays. An entry that
 * makes no sense is left out. */
void nats_servers_learn(struct nats_servers *servers, char *const *urls, unsigned n_urls);
