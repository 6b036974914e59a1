/*
 * libcurl's multi interface on libuv: starts transfers on easy handles that the
 * caller has set up, and tells when each is done. Knows sockets and timers, not
 * what is carried over them.
 *
 * No function here may be called from inside one of libcurl's own callbacks.
 */
#pragma once

#include <curl/curl.h>
#include <uv.h>

struct curl_driver;
struct curl_transfer;

/* The easy handle is the caller's again. Other transfers may be started and stopped inside the
 * call; the driver may not be destroyed. */
typedef void curl_done_fn(void *owner, CURLcode result);

/* `max_connections`: how many connections, busy or idle, are kept open for reuse. */
struct curl_driver *curl_driver_create(uv_loop_t *loop, unsigned max_connections);

/* NULL is allowed. No transfer may be running. Closes all connections. */
void curl_driver_destroy(struct curl_driver *driver);

/*
 * Starts the transfer that `easy` has been set up for; uses its CURLOPT_PRIVATE
 * and CURLOPT_CLOSESOCKETFUNCTION.
 * on_done comes once, never inside this call, unless curl_driver_stop() comes
 * first. NULL if libcurl refuses the handle.
 */
struct curl_transfer *curl_driver_start(
    struct curl_driver *driver, CURL *easy, curl_done_fn *on_done, void *owner);

/* Breaks a transfer off; its connection is closed. on_done will not come. NULL is allowed. */
void curl_driver_stop(struct curl_transfer *transfer);
