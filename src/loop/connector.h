/*
 * A socket that is connected to one of several addresses. They are tried one after another, and
 * side by side: the next one when the last has failed, or has not answered for 250 ms (RFC 8305,
 * "happy eyeballs"). The first that connects is taken. So a family of addresses that leads nowhere
 * costs a moment, and no connection.
 */
#pragma once

#include <sys/socket.h>
#include <uv.h>

struct connector;

struct socket_address {
        struct sockaddr_storage data;
        socklen_t length;
};

/* A socket, which is the owner's from here on; or -1 and why the last address failed, if none is
 * left. Never inside a call of these functions. The connector may be destroyed inside it. */
typedef void connector_done_fn(void *owner, int socket, const char *failure);

struct connector *connector_create(uv_loop_t *loop, connector_done_fn *on_done, void *owner);

/* NULL is allowed. on_done will not come. */
void connector_destroy(struct connector *connector);

/* Best first; copied. At most CONNECTOR_ADDRESSES are kept. Before the first connector_go_on(). */
#define CONNECTOR_ADDRESSES 8
void connector_add(struct connector *connector, const void *address, socklen_t length);

/* Begins; or goes on with the addresses that were not tried yet, if the socket was no good. */
void connector_go_on(struct connector *connector);
