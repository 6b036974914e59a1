/*
 * A DNS server on 127.0.0.1 inside the test process: answers over UDP as told,
 * and counts. Every answer has a lifetime of 0. A name whose first label begins
 * with "mute" is never answered; dns_server_mute() makes it so for all.
 */
#pragma once

#include <stdbool.h>

struct dns_server;

/* On a free port. There are no names yet. */
struct dns_server *dns_server_start(void);
void dns_server_destroy(struct dns_server *server);

/* "127.0.0.1:port", for relay.dns_servers and resolve_use_servers(). */
const char *dns_server_address(const struct dns_server *server);

/* Makes resolve.h ask only this server. */
void dns_server_use(const struct dns_server *server);

/* Every name has these addresses from now on, of both families, separated by spaces; NULL: there is
 * no such name. Ends being mute. */
void dns_server_answer(struct dns_server *server, const char *addresses);

/* Questions for IPv4 addresses are answered by `first` once, then always by `second`. */
void dns_server_rebind(struct dns_server *server, const char *first, const char *second);

void dns_server_mute(struct dns_server *server);

/* Names asked for so far: those of questions for IPv4 addresses, repeats included. */
unsigned dns_server_n_asked(struct dns_server *server);
