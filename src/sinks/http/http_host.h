/*
 * The addresses of the one host a sink sends to. libcurl gets them ready-made:
 * its own resolver runs in threads whose end it waits for, and a name server
 * that does not answer would so stop the loop. And the addresses that it
 * gets are those that were judged: a name that means another address at the next
 * look-up cannot deceive it.
 */
#pragma once

#include <curl/curl.h>
#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

struct address_guard;
struct http_host;

/*
 * Requests that wait for addresses may go on (failure NULL) or must give up, with
 * words why. Never comes inside a call of these functions.
 */
typedef void http_host_settled_fn(void *owner, const char *failure);

/* `name` as in a URL (an IPv6 address in brackets); a look-up may take timeout_ms.
 * `guard` is borrowed for the host's life. */
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

/* A list for CURLOPT_RESOLVE, freed with curl_slist_free_all(); NULL if the URL names an
 * address. */
struct curl_slist *http_host_pin(const struct http_host *host);
