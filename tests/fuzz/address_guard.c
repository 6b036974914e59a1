/*
 * NETWORK NUL ADDRESS NUL PORT: a network is held against a comparison bit by
 * bit, and the guard against another account of what is public, written in
 * numbers instead of tables.
 */
#include "sinks/address_guard.h"

#include "config/config.h"
#include "fuzz.h"
#include "public_address.h"
#include "text/network.h"

#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>

static bool has_bit(const uint8_t *bytes, unsigned bit)
{
        return (bytes[bit / 8] & (0x80 >> bit % 8)) != 0;
}

static bool contains(const struct network *network, int family, const uint8_t *bytes)
{
        if (family != network->family)
                return false;
        for (unsigned bit = 0; bit < network->n_bits; bit++)
                if (has_bit(network->bytes, bit) != has_bit(bytes, bit))
                        return false;
        return true;
}

static void check_network(const char *text, int family, const uint8_t *bytes)
{
        struct network network;
        const char *problem = network_parse(text, &network);

        if (problem != NULL) {
                fuzz_require(fuzz_is_one_line(problem, false), "a problem is one line", problem);
                return;
        }
        fuzz_require(
            network.family == AF_INET || network.family == AF_INET6, "a known family", text);
        fuzz_require(network.n_bits <= (network.family == AF_INET ? 32u : 128u), "bits", text);
        fuzz_require(network_contains(&network, network.family, network.bytes),
            "a network holds its first address", text);
        fuzz_require(network_contains(&network, family, bytes) == contains(&network, family, bytes),
            "an address is in a network if its first bits are", text);
}

static void check_guard(const char *network, const struct sockaddr *address)
{
        char *allowed[] = {(char *)(uintptr_t)network};
        struct network parsed;
        struct http_config config = {.block_metadata = true, .allow_networks = allowed};
        struct address_guard *guard = address_guard_create(&config, URL_OF_TABLE);
        char words[200];

        if (address_guard_permits(guard, address, words, sizeof words))
                fuzz_require(
                    is_public_address(address), "the table reaches public addresses only", network);
        else
                fuzz_require(fuzz_is_one_line(words, false), "a refusal is one line", words);
        address_guard_destroy(guard);
        if (network_parse(network, &parsed) != NULL)
                return;
        config.n_allow_networks = 1;
        guard = address_guard_create(&config, URL_OF_CONFIG);
        address_guard_permits(guard, address, words, sizeof words);
        address_guard_destroy(guard);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        struct fuzz_input input = {data, size};
        char *network = fuzz_take_text(&input);
        char *text = fuzz_take_text(&input);
        char *port = fuzz_take_text(&input);
        struct sockaddr_in in = {.sin_family = AF_INET};
        struct sockaddr_in6 in6 = {.sin6_family = AF_INET6};

        in.sin_port = in6.sin6_port =
            htons(*port == '\0' ? 443 : (uint16_t)strtoul(port, NULL, 10));
        if (inet_pton(AF_INET, text, &in.sin_addr) == 1) {
                check_network(network, AF_INET, (const uint8_t *)&in.sin_addr);
                check_guard(network, (const struct sockaddr *)&in);
        } else if (inet_pton(AF_INET6, text, &in6.sin6_addr) == 1) {
                check_network(network, AF_INET6, in6.sin6_addr.s6_addr);
                check_guard(network, (const struct sockaddr *)&in6);
        }
        free(port);
        free(text);
        free(network);
        return 0;
}
