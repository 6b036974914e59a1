#include "text/network.h"

#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>

#define NOT_A_NETWORK                                                                              \
        "is not a network; allowed: an address and its prefix length, as in "                      \
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
                return "has bits set after its prefix; write 10.0.0.0/8, not 10.1.2.3/8";
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

static const char *parse_path(const char *path, struct listen_address *address)
{
        size_t length = strlen(path);

        if (path[0] != '/')
                return "is not the absolute path of a unix socket; allowed: unix:/path";
        if (length >= sizeof address->path)
                return "is too long for a unix socket; allowed: a path of up to 107 bytes";
        memcpy(address->path, path, length + 1);
        return NULL;
}

/* Decimal, written plainly: 1 to 65535; 0 if it is not. */
static uint16_t parse_port(const char *text)
{
        size_t length = strlen(text);
        unsigned long port;

        if (length == 0 || length > 5 || strspn(text, "0123456789") != length || text[0] == '0')
                return 0;
        port = strtoul(text, NULL, 10);
        return port <= UINT16_MAX ? (uint16_t)port : 0;
}

const char *listen_address_parse(const char *text, struct listen_address *out_address)
{
        static const char *const wrong =
            "is not an address to listen on; allowed: 127.0.0.1:8477, [::1]:8477 or unix:/path";
        struct listen_address address = {.port = 0};
        bool has_bracket = text[0] == '[';
        const char *host = has_bracket ? text + 1 : text;
        size_t length = strcspn(host, has_bracket ? "]" : ":");
        const char *rest = host + length;
        unsigned char binary[16];

        if (strncmp(text, "unix:", 5) == 0) {
                const char *bad_path = parse_path(text + 5, &address);

                if (bad_path == NULL)
                        *out_address = address;
                return bad_path;
        }
        if (length >= sizeof address.host || (has_bracket && *rest++ != ']') || *rest != ':')
                return wrong;
        memcpy(address.host, host, length);
        address.port = parse_port(rest + 1);
        if (inet_pton(has_bracket ? AF_INET6 : AF_INET, address.host, binary) != 1 ||
            address.port == 0)
                return wrong;
        *out_address = address;
        return NULL;
}

socklen_t listen_address_socket(
    const struct listen_address *address, struct sockaddr_storage *out_socket)
{
        struct sockaddr_in v4 = {.sin_family = AF_INET, .sin_port = htons(address->port)};
        struct sockaddr_in6 v6 = {.sin6_family = AF_INET6, .sin6_port = htons(address->port)};
        struct sockaddr_un local = {.sun_family = AF_UNIX};

        memset(out_socket, 0, sizeof *out_socket);
        if (address->path[0] != '\0') {
                memcpy(local.sun_path, address->path, sizeof local.sun_path);
                memcpy(out_socket, &local, sizeof local);
                return sizeof local;
        }
        if (inet_pton(AF_INET, address->host, &v4.sin_addr) == 1) {
                memcpy(out_socket, &v4, sizeof v4);
                return sizeof v4;
        }
        inet_pton(AF_INET6, address->host, &v6.sin6_addr);
        memcpy(out_socket, &v6, sizeof v6);
        return sizeof v6;
}

bool listen_address_is_local(const struct listen_address *address)
{
        struct in_addr v4;
        struct in6_addr v6;

        if (address->path[0] != '\0')
                return true;
        if (inet_pton(AF_INET, address->host, &v4) == 1)
                return (ntohl(v4.s_addr) >> 24) == 127;
        return inet_pton(AF_INET6, address->host, &v6) == 1 && IN6_IS_ADDR_LOOPBACK(&v6);
}
