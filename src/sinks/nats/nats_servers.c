#include "sinks/nats/nats_servers.h"

#include "base/alloc.h"
#include "base/error.h"
#include "config/config.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* xorshift64 */
static uint64_t draw(struct nats_servers *servers, uint64_t below)
{
        uint64_t random = servers->random;

        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        servers->random = random;
        return random % below;
}

static void shuffle(struct nats_servers *servers, unsigned first)
{
        for (unsigned i = servers->n; i > first + 1; i--) {
                unsigned other = first + (unsigned)draw(servers, i - first);
                struct nats_peer swapped = servers->items[i - 1];
                servers->items[i - 1] = servers->items[other];
                servers->items[other] = swapped;
        }
}

bool nats_servers_init(struct nats_servers *servers, const struct nats_config *config,
    uint64_t random, struct error *error)
{
        assert(random != 0);
        *servers = (struct nats_servers){.random = random};
        servers->items = xcalloc(config->n_servers + 1, sizeof *servers->items);
        for (unsigned i = 0; i < config->n_servers; i++) {
                struct server_address *address = &servers->items[i].address;
                const char *wrong =
                    server_address_split(SERVER_NATS, config->servers[i], config->tls, address);
                if (wrong != NULL) {
                        nats_servers_deinit(servers);
                        return error_set(error, ERROR_CONFIG, "an entry of servers %s", wrong);
                }
                servers->n++;
                servers->has_tls |= address->is_tls;
        }
        if (servers->n == 0) {
                nats_servers_deinit(servers);
                return error_set(error, ERROR_CONFIG, "servers is empty; name at least one");
        }
        shuffle(servers, 0);
        return true;
}

void nats_servers_deinit(struct nats_servers *servers)
{
        for (unsigned i = 0; i < servers->n; i++)
                server_address_deinit(&servers->items[i].address);
        free(servers->items);
        *servers = (struct nats_servers){0};
}

const struct server_address *nats_servers_current(const struct nats_servers *servers)
{
        return &servers->items[servers->current].address;
}

void nats_servers_advance(struct nats_servers *servers)
{
        servers->current = (servers->current + 1) % servers->n;
}

static bool is_known(const struct nats_servers *servers, const struct server_address *address)
{
        for (unsigned i = 0; i < servers->n; i++)
                if (servers->items[i].address.port == address->port &&
                    strcasecmp(servers->items[i].address.host, address->host) == 0)
                        return true;
        return false;
}

/* The one that is connected to stays, or its place would be another's. */
static void forget_learned(struct nats_servers *servers)
{
        unsigned n_kept = 0;
        unsigned current = 0;

        for (unsigned i = 0; i < servers->n; i++) {
                if (servers->items[i].is_learned && i != servers->current) {
                        server_address_deinit(&servers->items[i].address);
                        continue;
                }
                if (i == servers->current)
                        current = n_kept;
                servers->items[n_kept++] = servers->items[i];
        }
        servers->n = n_kept;
        servers->current = current;
}

void nats_servers_learn(struct nats_servers *servers, char *const *urls, unsigned n_urls)
{
        unsigned first;

        if (n_urls == 0)
                return;
        forget_learned(servers);
        first = servers->n;
        servers->items = xrealloc(servers->items, (servers->n + n_urls) * sizeof *servers->items);
        for (unsigned i = 0; i < n_urls; i++) {
                struct nats_peer server = {.is_learned = true};
                if (server_address_split(SERVER_NATS, urls[i], servers->has_tls, &server.address) !=
                    NULL)
                        continue;
                if (is_known(servers, &server.address))
                        server_address_deinit(&server.address);
                else
                        servers->items[servers->n++] = server;
        }
        shuffle(servers, first);
}
