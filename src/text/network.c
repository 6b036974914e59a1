#include "text/network.h"

#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>

#define NOT_A_NETWORK                                                                              \
        "is not a network; allowed: an address and the number of its bits that count, as in "      \
        "10.0.0.0/8 or 2001:db8::/32, or one address"

/* False if `text` is not a number from 0 to max, written plainly. */
static bool parse_bits(const char *text, unsigned max, unsigned *out_bits)
{
        size_t length = strlen(text);
        unsigned bits;

        if (length == 0 || length > 3 || strspn(text, "0123456789") != length ||
            (text[0] == '0' && length > 1))
                return false;
        bits = (unsigned)strtoul(text, NULL, 10);
        *out_bits = bits;
        return bits <= max;
}

static bool has_bits_beyond(const struct network *network, unsigned n_bytes)
{
        for (unsigned bit = network->n_bits; bit < n_bytes * 8; bit++)
                if (network->bytes[bit / 8] & (0x80 >> bit % 8))
                        return true;
        return false;
}

const char *network_parse(const char *text, struct network *out_network)
{
        size_t length = strcspn(text, "/");
        char address[INET6_ADDRSTRLEN];
        struct network network = {0};
        unsigned n_bytes;

        if (length >= sizeof address)
                return NOT_A_NETWORK;
        memcpy(address, text, length);
        address[length] = '\0';
        if (inet_pton(AF_INET, address, network.bytes) == 1)
                network.family = AF_INET;
        else if (inet_pton(AF_INET6, address, network.bytes) == 1)
                network.family = AF_INET6;
        else
                return NOT_A_NETWORK;
        n_bytes = network.family == AF_INET ? 4 : 16;
        network.n_bits = n_bytes * 8;
        if (text[length] == '/' && !parse_bits(text + length + 1, n_bytes * 8, &network.n_bits))
                return NOT_A_NETWORK;
        if (has_bits_beyond(&network, n_bytes))
                return "has bits set behind those that count; write 10.0.0.0/8, not 10.1.2.3/8";
        *out_network = network;
        return NULL;
}

bool network_contains(const struct network *network, int family, const uint8_t *bytes)
{
        unsigned n_whole = network->n_bits / 8;
        unsigned n_left = network->n_bits % 8;

        if (family != network->family || memcmp(network->bytes, bytes, n_whole) != 0)
                return false;
        return n_left == 0 || ((network->bytes[n_whole] ^ bytes[n_whole]) >> (8 - n_left)) == 0;
}
