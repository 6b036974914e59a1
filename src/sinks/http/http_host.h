/*
 * The addresses of the one host a sink sends to, looked up and judged before they are used: a name
 * that means another address at the next look-up deceives nothing. libcurl gets them ready-made:
 * its own resolver runs in threads whose end it waits for, and a name server that does not answer
 * would so stop the loop.
 */
#pragma once

#include <curl/curl.h>
#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

struct address_guard;
struct http_host;
struct socket_address;

/*
 * Requests that wait for addresses may go on (failure NULL) or must give up, with
 * words why. Never comes inside a call of these functions.
 */
typedef void http_host_settled_fn(void *owner, const char *failure);

/* `name` as in a URL (an IPv6 address in brackets, perhaps with a zone); a look-up may take
 * timeout_ms. `guard` is borrowed for the host's life. */
struct http_host *http_host_create(uv_loop_t *loop, const char *name, const char *port,
    int64_t timeout_ms, const struct address_guard *guard, http_host_settled_fn *on_settled,
    void *owner);

/* NULL is allowed. on_settled will not come. */
void http_host_destroy(struct http_host *host);

/* Call before each use. True: addresses are there; old ones are looked up again meanwhile. False:
 * on_settled will come. */
bool http_host_is_ready(struct http_host *host);

/* The addresses did not lead to a connection: looks them up again at the next use. */
void http_host_expire(struct http_host *host);

/* Once it is ready: where to connect to, best first; lives until the next look-up ends. They are
 * those that the guard permits, or all if it permits none. */
const struct socket_address *http_host_addresses(const struct http_host *host, unsigned *out_n);

/* The same for CURLOPT_RESOLVE, freed with curl_slist_free_all(); NULL if the URL names an
 * address. */
struct curl_slist *http_host_pin(const struct http_host *host);
