/* A block of IP addresses, as in 10.0.0.0/8 or 2001:db8::/32. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

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
