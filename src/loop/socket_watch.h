/*
 * Watches a socket, or what a library waits for (libpq, libcurl, c-ares,
 * librdkafka), for readiness. The only user of uv_poll in the program.
 *
 * libuv keeps a closed handle's memory until a later turn of the loop, so a
 * watch frees itself: its owner may be destroyed right after it called
 * socket_watch_destroy(), which must come before the socket is closed.
 */
#pragma once

#include <stdbool.h>
#include <uv.h>

enum {
        SOCKET_READABLE = 1,
        SOCKET_WRITABLE = 2,
        SOCKET_FAILED = 4, /* the kernel reports an error: ask the socket's owner for it */
};

struct socket_watch;

/* `events` is a set of SOCKET_*. The watch may be destroyed inside the call. */
typedef void socket_ready_fn(void *owner, int events);

/* NULL if libuv refuses the socket (a second watch on it, or not a pollable file). */
struct socket_watch *socket_watch_create(
    uv_loop_t *loop, int socket, socket_ready_fn *on_ready, void *owner);

/* What to wait for: a set of SOCKET_READABLE and SOCKET_WRITABLE; 0 rests. Free when unchanged,
 * else three calls of the kernel. */
void socket_watch_set(struct socket_watch *watch, int events);

/* NULL is allowed. No callback comes after this line. */
void socket_watch_destroy(struct socket_watch *watch);
