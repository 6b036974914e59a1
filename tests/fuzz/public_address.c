#include "public_address.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdint.h>
#include <string.h>

static bool is_public_ipv4(uint32_t ip)
{
        uint32_t a = ip >> 24;
        uint32_t b = ip >> 16 & 0xff;
        uint32_t c = ip >> 8 & 0xff;

        return a != 0 && a != 10 && a != 127 && a < 224 && !(a == 100 && b >= 64 && b < 128) &&
               !(a == 169 && b == 254) && !(a == 172 && b >= 16 && b < 32) &&
               !(a == 192 && b == 168) && !(a == 192 && b == 0 && (c == 0 || c == 2)) &&
               !(a == 198 && (b == 18 || b == 19)) && !(a == 198 && b == 51 && c == 100) &&
               !(a == 203 && b == 0 && c == 113) && ip != 0xa83f8110 /* 168.63.129.16 */;
}

static uint32_t ipv4_at(const uint8_t *bytes)
{
        return (uint32_t)bytes[0] << 24 | (uint32_t)bytes[1] << 16 | (uint32_t)bytes[2] << 8 |
               bytes[3];
}

static bool is_public_ipv6(const uint8_t *ip)
{
        static const uint8_t zero[16];
        static const uint8_t nat64[12] = {0x00, 0x64, 0xff, 0x9b};

        if (memcmp(ip, zero, 10) == 0 && ip[10] == 0xff && ip[11] == 0xff)
                return is_public_ipv4(ipv4_at(ip + 12)); /* mapped */
        if (memcmp(ip, zero, 8) == 0 && ip[8] == 0xff && ip[9] == 0xff && ip[10] == 0 &&
            ip[11] == 0)
                return is_public_ipv4(ipv4_at(ip + 12)); /* translated */
        if (memcmp(ip, nat64, 12) == 0)
                return is_public_ipv4(ipv4_at(ip + 12));
        if (ip[0] == 0x20 && ip[1] == 0x02)
                return is_public_ipv4(ipv4_at(ip + 2)); /* 6to4 */
        return ip[0] >> 5 == 1;                         /* 2000::/3 */
}

bool is_public_address(const struct sockaddr *address)
{
        if (address->sa_family == AF_INET)
                return is_public_ipv4(
                    ntohl(((const struct sockaddr_in *)(const void *)address)->sin_addr.s_addr));
        return address->sa_family == AF_INET6 &&
               is_public_ipv6(
                   ((const struct sockaddr_in6 *)(const void *)address)->sin6_addr.s6_addr);
}
