/*
 * The server of a broker as it is written in a list of servers: host[:port], perhaps behind a
 * scheme. An IPv6 address stands in brackets.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum server_protocol {
        SERVER_NATS, /* nats://, tls:// or nothing; port 4222 */
        SERVER_AMQP, /* amqp://, amqps:// or nothing; port 5672, or 5671 with TLS */
        SERVER_KAFKA /* no scheme; port 9092 */
};

struct server_address {
        char *host; /* IPv6 addresses without brackets */
        uint16_t port;
        bool is_tls;
};

/*
 * With `tls` it is TLS whatever stands before the host. User, password, path and query are refused.
 * NULL, with *out_address filled (release it with server_address_deinit()), or a reason that quotes
 * nothing of the text.
 */
const char *server_address_split(
    enum server_protocol protocol, const char *text, bool tls, struct server_address *out_address);
void server_address_deinit(struct server_address *address);
