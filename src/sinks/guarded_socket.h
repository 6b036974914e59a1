/*
 * Makes the sockets of one libcurl handle, unless the guard refuses where they
 * would go. libcurl asks for each address it tries, after all its looking-up
 * and just before it connects: nothing can come in between.
 *
 * It does not ask for a connection that is open already and used again. A kept
 * connection was made by a handle of the same curl_driver; a driver serves one
 * sink, and a sink has one guard, so whatever is kept there has been judged by
 * the same rules.
 */
#pragma once

#include <curl/curl.h>
#include <stdbool.h>

struct address_guard;

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
