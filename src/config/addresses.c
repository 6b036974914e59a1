/* What the addresses, networks and ports of the config file must look like. */
#include "config/values.h"
#include "text/network.h"

#include <arpa/inet.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

/* Decimal, written plainly: 1 to 65535. */
static bool is_port(const char *text)
{
        size_t length = strlen(text);

        return length > 0 && length <= 5 && strspn(text, "0123456789") == length &&
               text[0] != '0' && strtoul(text, NULL, 10) <= 65535;
}

const char *check_port(const char *value)
{
        return is_port(value) ? NULL : "is not a port; allowed: 1 to 65535";
}

const char *check_network(const char *value)
{
        struct network network;

        return network_parse(value, &network);
}

const char *check_listen_address(const char *value)
{
        struct listen_address address;

        return listen_address_parse(value, &address);
}

const char *check_host_name(const char *value)
{
        static const char *const letters =
            "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._";
        size_t length = strlen(value);

        if (length > 0 && length <= 253 && strspn(value, letters) == length)
                return NULL;
        return "is not a host name; allowed: a name without a port, like pgcourier.example.com";
}

/* An address and then nothing, or a port: "ip", "ip:port", "[ip6]", "[ip6]:port". */
static bool is_address_and_port(const char *value)
{
        bool has_bracket = value[0] == '[';
        const char *start = has_bracket ? value + 1 : value;
        size_t length = strcspn(start, has_bracket ? "]" : ":");
        const char *rest = start + length;
        char text[INET6_ADDRSTRLEN];
        unsigned char address[16];

        if (length >= sizeof text || (has_bracket && *rest++ != ']'))
                return false;
        memcpy(text, start, length);
        text[length] = '\0';
        return inet_pton(has_bracket ? AF_INET6 : AF_INET, text, address) == 1 &&
               (*rest == '\0' || (*rest == ':' && is_port(rest + 1)));
}

const char *check_dns_server(const char *value)
{
        unsigned char address[16];

        if (inet_pton(AF_INET6, value, address) == 1 || is_address_and_port(value))
                return NULL;
        return "is not the address of a name server; allowed: 192.0.2.53, 192.0.2.53:5353, "
               "2001:db8::53 or [2001:db8::53]:5353";
}

/* What fits into one header, and cannot be guessed. */
const char *check_admin_token(const char *value)
{
        enum { MIN_LENGTH = 16, MAX_LENGTH = 1024 };
        size_t length = strlen(value);

        for (size_t i = 0; i < length; i++)
                if (value[i] <= ' ' || value[i] > '~')
                        return "holds a blank, a control character or something beyond ASCII; "
                               "allowed: 16 to 1024 printable ASCII characters";
        if (length >= MIN_LENGTH && length <= MAX_LENGTH)
                return NULL;
        return length < MIN_LENGTH ? "is shorter than 16 characters; make one by: openssl rand "
                                     "-hex 32"
                                   : "is longer than 1024 characters";
}
