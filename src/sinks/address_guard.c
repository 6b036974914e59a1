/*
 * An IPv6 address can carry an IPv4 address within, and routers or the kernel
 * take it out again. So there may be two addresses to judge: the one that is
 * there and the one inside. Either may be allowed by the configuration; neither
 * may be refused.
 */
#include "sinks/address_guard.h"

#include "base/alloc.h"
#include "config/config.h"
#include "config/url.h"
#include "text/network.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

struct refused_network {
        const char *network;
        const char *name;
};

/* Where clouds answer each machine with its credentials. */
static const struct refused_network metadata[] = {
    {"169.254.0.0/16", "link-local; cloud metadata"},
    {"fe80::/10", "link-local"},
    {"100.100.100.200", "Alibaba Cloud's metadata"},
    {"168.63.129.16", "Azure's host"},
    {"fd00:ec2::254", "AWS's metadata"},
    {"fd20:ce::254", "Google Cloud's metadata"},
};

/* What the registries of special addresses (RFC 6890) and common sense call not public. */
static const struct refused_network not_public[] = {
    {"0.0.0.0/8", "this machine"},
    {"10.0.0.0/8", "private"},
    {"100.64.0.0/10", "shared by a provider's customers"},
    {"127.0.0.0/8", "this machine"},
    {"169.254.0.0/16", "link-local; cloud metadata"},
    {"168.63.129.16", "Azure's host"},
    {"172.16.0.0/12", "private"},
    {"192.0.0.0/24", "reserved for protocols"},
    {"192.0.2.0/24", "for documentation"},
    {"192.88.99.0/24", "6to4 relays"},
    {"192.168.0.0/16", "private"},
    {"198.18.0.0/15", "for benchmarks"},
    {"198.51.100.0/24", "for documentation"},
    {"203.0.113.0/24", "for documentation"},
    {"224.0.0.0/4", "multicast"},
    {"240.0.0.0/4", "reserved; broadcast"},
    {"::", "this machine"},
    {"::1", "this machine"},
    {"::/96", "IPv4-compatible"},
    {"64:ff9b:1::/48", "translation within a network"},
    {"100::/64", "discarded"},
    {"2001::/32", "Teredo"},
    {"2001:db8::/32", "for documentation"},
    {"3fff::/20", "for documentation"},
    {"5f00::/16", "segment routing"},
    {"fc00::/7", "private"},
    {"fe80::/10", "link-local"},
    {"fec0::/10", "site-local"},
    {"ff00::/8", "multicast"},
};

/* Prefixes behind which an IPv4 address follows at once. */
static const char *const wrappers[] = {
    "::ffff:0:0/96",   /* mapped: the kernel itself speaks IPv4 to it */
    "::ffff:0:0:0/96", /* translated (SIIT) */
    "::/96",           /* compatible */
    "64:ff9b::/96",    /* NAT64: a router speaks IPv4 to it */
    "2002::/16",       /* 6to4: likewise */
};

/* All of IPv6 that is public lies in here, but for what is wrapped. */
#define PUBLIC_IPV6 "2000::/3"

struct address_guard {
        enum url_origin origin;  /* of the URLs */
        enum url_origin sockets; /* of what is connected to: behind a proxy, the operator's */
        bool blocks_metadata;
        bool https_only;
        struct network *allowed;
        unsigned n_allowed;
        unsigned *ports;
        unsigned n_ports;
};

struct ip {
        int family; /* AF_UNSPEC: none */
        uint8_t bytes[16];
};

/* Of our own tables and of the configuration, both of which are right. */
static struct network parsed(const char *text)
{
        struct network network;

        if (network_parse(text, &network) != NULL)
                abort();
        return network;
}

static bool is_in(const char *text, const struct ip *ip)
{
        const struct network network = parsed(text);

        return network_contains(&network, ip->family, ip->bytes);
}

static const struct refused_network *find_refused(
    const struct refused_network *rows, size_t n, const struct ip *ip)
{
        for (size_t i = 0; i < n; i++)
                if (is_in(rows[i].network, ip))
                        return &rows[i];
        return NULL;
}

#define FIND_REFUSED(rows, ip) find_refused(rows, sizeof(rows) / sizeof *(rows), ip)

static struct ip ip_of(const struct sockaddr *address)
{
        struct ip ip = {.family = address->sa_family};

        if (address->sa_family == AF_INET)
                memcpy(ip.bytes, &((const struct sockaddr_in *)(const void *)address)->sin_addr, 4);
        else if (address->sa_family == AF_INET6)
                memcpy(
                    ip.bytes, &((const struct sockaddr_in6 *)(const void *)address)->sin6_addr, 16);
        else
                ip.family = AF_UNSPEC;
        return ip;
}

static unsigned port_of(const struct sockaddr *address)
{
        return ntohs(address->sa_family == AF_INET
                         ? ((const struct sockaddr_in *)(const void *)address)->sin_port
                         : ((const struct sockaddr_in6 *)(const void *)address)->sin6_port);
}

/* The IPv4 address within; AF_UNSPEC: none. */
static struct ip unwrap(const struct ip *ip)
{
        struct ip inner = {.family = AF_UNSPEC};

        for (size_t i = 0; ip->family == AF_INET6 && i < sizeof wrappers / sizeof *wrappers; i++) {
                const struct network prefix = parsed(wrappers[i]);
                if (!network_contains(&prefix, ip->family, ip->bytes))
                        continue;
                inner.family = AF_INET;
                memcpy(inner.bytes, ip->bytes + prefix.n_bits / 8, 4);
                break;
        }
        return inner;
}

static bool is_allowed(const struct address_guard *guard, const struct ip *ip)
{
        for (unsigned i = 0; i < guard->n_allowed; i++)
                if (network_contains(&guard->allowed[i], ip->family, ip->bytes))
                        return true;
        return false;
}

/* For an address inside another as for one that stands alone. NULL: it may be connected to. */
static const struct refused_network *judge(const struct address_guard *guard, const struct ip *ip)
{
        if (guard->sockets == URL_OF_TABLE)
                return FIND_REFUSED(not_public, ip);
        return guard->blocks_metadata ? FIND_REFUSED(metadata, ip) : NULL;
}

static const struct refused_network *judge_both(
    const struct address_guard *guard, const struct ip *ip, const struct ip *inner)
{
        static const struct refused_network unknown = {"no public network", "not assigned"};
        const struct refused_network *refused = judge(guard, ip);

        if (refused == NULL && inner->family != AF_UNSPEC)
                refused = judge(guard, inner);
        if (refused == NULL && guard->sockets == URL_OF_TABLE && inner->family == AF_UNSPEC &&
            ip->family == AF_INET6 && !is_in(PUBLIC_IPV6, ip))
                refused = &unknown;
        return refused;
}

static bool permits_port(const struct address_guard *guard, enum url_origin origin, unsigned port)
{
        if (origin == URL_OF_CONFIG || port == 80 || port == 443)
                return true;
        for (unsigned i = 0; i < guard->n_ports; i++)
                if (guard->ports[i] == port)
                        return true;
        return false;
}

bool address_guard_permits(
    const struct address_guard *guard, const struct sockaddr *address, char *words, size_t size)
{
        const struct ip ip = ip_of(address);
        const struct ip inner = unwrap(&ip);
        const struct refused_network *refused;
        char text[INET6_ADDRSTRLEN];

        if (ip.family == AF_UNSPEC) {
                snprintf(words, size, "refused: not an address of the internet");
                return false;
        }
        if (!permits_port(guard, guard->sockets, port_of(address))) {
                snprintf(words, size,
                    "refused: port %u is neither 80 nor 443; http.allow_ports can allow it",
                    port_of(address));
                return false;
        }
        if (is_allowed(guard, &ip) || is_allowed(guard, &inner))
                return true;
        refused = judge_both(guard, &ip, &inner);
        if (refused == NULL)
                return true;
        inet_ntop(ip.family, ip.bytes, text, sizeof text);
        snprintf(words, size, "refused: %s lies in %s (%s); http.allow_networks%s can allow it",
            text, refused->network, refused->name,
            guard->sockets == URL_OF_CONFIG ? " or http.block_metadata: false" : "");
        return false;
}

bool address_guard_permits_host(
    const struct address_guard *guard, const char *host, const char *port, char *words, size_t size)
{
        const struct addrinfo hints = {.ai_flags = AI_NUMERICHOST, .ai_socktype = SOCK_STREAM};
        bool is_bracketed = *host == '[';
        char *address = xstrndup(host + is_bracketed, strcspn(host + is_bracketed, "]"));
        struct addrinfo *found = NULL;
        bool ok = true;

        if (getaddrinfo(address, port, &hints, &found) == 0) {
                ok = address_guard_permits(guard, found->ai_addr, words, size);
                freeaddrinfo(found);
        }
        free(address);
        return ok;
}

bool address_guard_permits_url(
    const struct address_guard *guard, const char *scheme, const char *port, struct error *error)
{
        if (guard->origin == URL_OF_TABLE && guard->https_only && strcmp(scheme, "https") != 0)
                return error_set(error, ERROR_CONFIG,
                    "the url begins with %.20s:// and the sink takes https:// only "
                    "(http.https_only)",
                    scheme);
        if (!permits_port(guard, guard->origin, (unsigned)strtoul(port, NULL, 10)))
                return error_set(error, ERROR_CONFIG,
                    "the url names port %.5s, which is neither 80 nor 443; http.allow_ports can "
                    "allow it",
                    port);
        return true;
}

/* The constraints of courier.receiver. */
static bool is_storable(const char *url)
{
        const char *host = strstr(url, "://");
        bool is_visible = strlen(url) <= 2048;

        for (const char *c = url; *c != '\0'; c++)
                is_visible &= *c > ' ' && *c <= '~' && *c != '\\';
        return is_visible && host != NULL && host[3 + strcspn(host + 3, "@/?#")] != '@' &&
               (strncmp(url, "http://", 7) == 0 || strncmp(url, "https://", 8) == 0);
}

enum url_fault address_guard_judge_url(const struct http_config *config, const char *url)
{
        bool is_secure = strncmp(url, "https:", 6) == 0;
        enum url_fault fault = URL_GOOD;
        struct address_guard *guard;
        struct error error;
        char words[256];
        char *host, *port;

        if (!is_storable(url) || !http_url_parse("url", url, &host, &port, &error))
                return URL_MALFORMED;
        guard = address_guard_create(config, URL_OF_TABLE);
        if (config->https_only && !is_secure)
                fault = URL_INSECURE;
        else if (!address_guard_permits_url(guard, is_secure ? "https" : "http", port, &error))
                fault = URL_ODD_PORT;
        else if (config->proxy == NULL &&
                 !address_guard_permits_host(guard, host, port, words, sizeof words))
                fault = URL_NOT_PUBLIC;
        address_guard_destroy(guard);
        curl_free(host);
        curl_free(port);
        return fault;
}

struct address_guard *address_guard_create(const struct http_config *config, enum url_origin origin)
{
        struct address_guard *guard = xcalloc(1, sizeof *guard);

        guard->origin = origin;
        guard->sockets = config->proxy != NULL ? URL_OF_CONFIG : origin;
        guard->blocks_metadata = config->block_metadata;
        guard->https_only = config->https_only;
        guard->n_allowed = config->n_allow_networks;
        guard->allowed = xcalloc(guard->n_allowed + 1, sizeof *guard->allowed);
        for (unsigned i = 0; i < guard->n_allowed; i++)
                guard->allowed[i] = parsed(config->allow_networks[i]);
        guard->n_ports = config->n_allow_ports;
        guard->ports = xcalloc(guard->n_ports + 1, sizeof *guard->ports);
        for (unsigned i = 0; i < guard->n_ports; i++)
                guard->ports[i] = (unsigned)strtoul(config->allow_ports[i], NULL, 10);
        return guard;
}

void address_guard_destroy(struct address_guard *guard)
{
        if (guard == NULL)
                return;
        free(guard->allowed);
        free(guard->ports);
        free(guard);
}

curl_socket_t guarded_socket_open(void *owner, curlsocktype purpose, struct curl_sockaddr *address)
{
        struct guarded_socket *guarded = owner;

        (void)purpose;
        if (!address_guard_permits(
                guarded->guard, &address->addr, guarded->refusal, sizeof guarded->refusal))
                return CURL_SOCKET_BAD; /* libcurl goes on to the next address */
        guarded->has_permitted = true;
        return socket(address->family, address->socktype | SOCK_CLOEXEC, address->protocol);
}

void guarded_socket_forget(struct guarded_socket *guarded)
{
        guarded->has_permitted = false;
        guarded->refusal[0] = '\0';
}

const char *guarded_socket_refusal(const struct guarded_socket *guarded)
{
        return guarded->refusal[0] != '\0' && !guarded->has_permitted ? guarded->refusal : NULL;
}
