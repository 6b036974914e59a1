/* Addresses of the network as people write them: a block of IP addresses, and where to listen. */
#pragma once

#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/un.h>

/* A block of IP addresses, as in 10.0.0.0/8 or 2001:db8::/32. */
struct network {
        int family; /* AF_INET or AF_INET6 */
        unsigned n_bits;
        uint8_t bytes[16]; /* 4 of them with AF_INET */
};

/* NULL, or what is wrong with `text`. Without /bits: the one address. An IPv4 network stays one,
 * however it is reached: it is the caller's to unwrap ::ffff:10.0.0.1. */
const char *network_parse(const char *text, struct network *out_network);

/* `bytes` as in struct network. */
bool network_contains(const struct network *network, int family, const uint8_t *bytes);

/* Where a server of ours listens, and where its clients find it: an IP address with a port, or a
 * unix socket. Names are not looked up. */
struct listen_address {
        char host[INET6_ADDRSTRLEN]; /* without brackets; "" for a unix socket */
        uint16_t port;
        char path[sizeof((struct sockaddr_un *)0)->sun_path]; /* "" for TCP */
};

/*
 * Reads "127.0.0.1:8477", "[::1]:8477" or "unix:/path". Returns NULL, or what is
 * wrong and what is allowed, quoting nothing of the text.
 */
const char *listen_address_parse(const char *text, struct listen_address *out_address);

/* Only this machine can reach it. */
bool listen_address_is_local(const struct listen_address *address);

/* As the kernel wants it; returns its length. */
socklen_t listen_address_socket(
    const struct listen_address *address, struct sockaddr_storage *out_socket);
