/*
 * Which addresses a sink may connect to, and the sockets that libcurl gets for
 * those. The guard is pure, without I/O. It judges the address of the socket that
 * is about to be connected and never the text of a URL: 127.0.0.1 can be written
 * in a hundred ways, and a name may mean another address at the second look-up.
 */
#pragma once

#include "base/error.h"

#include <curl/curl.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/socket.h>

struct address_guard;
struct http_config;

/* Who chose the URL, and so how far it is trusted. */
enum url_origin {
        URL_OF_CONFIG, /* the operator: anything but the metadata of clouds */
        URL_OF_TABLE,  /* a writer of the table: public addresses and the usual ports only */
};

/* `config` is borrowed for the call; its networks and ports have been checked. */
struct address_guard *address_guard_create(
    const struct http_config *config, enum url_origin origin);
void address_guard_destroy(struct address_guard *guard); /* NULL is allowed */

/* False: no connection may be made, and `words` (at least 200 bytes) say why, and which key of the
 * configuration would allow it. */
bool address_guard_permits(
    const struct address_guard *guard, const struct sockaddr *address, char *words, size_t size);

/* The same for the host of a URL (http_url_parse()), as far as it is an address; a name is judged
 * when it has been resolved. */
bool address_guard_permits_host(const struct address_guard *guard, const char *host,
    const char *port, char *words, size_t size);

/* Whether a URL may be a target at all, before anything is looked up: its scheme ("https") and
 * port. The URL is not quoted in the error. */
bool address_guard_permits_url(
    const struct address_guard *guard, const char *scheme, const char *port, struct error *error);

/* What is wrong with a URL that a receiver is to get, as far as it can be told without looking up a
 * name: its giver must not be told in words of the configuration. */
enum url_fault {
        URL_GOOD,
        URL_MALFORMED, /* or not as courier.receiver takes it */
        URL_INSECURE,
        URL_ODD_PORT,
        URL_NOT_PUBLIC,
};
enum url_fault address_guard_judge_url(const struct http_config *config, const char *url);

/*
 * Makes the sockets of one libcurl handle, unless the guard refuses where they
 * would go. libcurl asks for each address it tries, after all its looking-up
 * and just before it connects: nothing can come in between.
 *
 * It does not ask for a connection that is open already and used again. A kept
 * connection was made by a handle of the same curl_driver; a driver serves one
 * sink, and a sink has one guard, so each kept connection has been judged by the
 * same rules.
 */
struct guarded_socket {
        const struct address_guard *guard; /* borrowed */
        bool has_permitted;
        char refusal[200]; /* empty: none was refused */
};

/* For CURLOPT_OPENSOCKETFUNCTION, with a struct guarded_socket for CURLOPT_OPENSOCKETDATA. */
curl_socket_t guarded_socket_open(void *owner, curlsocktype purpose, struct curl_sockaddr *address);

/* Before each transfer. */
void guarded_socket_forget(struct guarded_socket *guarded);

/* Why nothing was connected; NULL if something else was the reason. */
const char *guarded_socket_refusal(const struct guarded_socket *guarded);
