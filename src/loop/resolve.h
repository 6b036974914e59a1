/*
 * One look-up of a host name, off the loop's thread. hiredis and libcurl would
 * block the loop, or join a stuck resolver thread, if they did it themselves.
 */
#pragma once

#include <netdb.h>
#include <uv.h>

struct resolve;

/*
 * `addresses` is the result, borrowed for the call; NULL on failure, with the
 * reason in `failure`. Comes once, never inside resolve_start(), and not after
 * resolve_cancel(). The look-up is gone when this returns.
 */
typedef void resolved_fn(void *owner, const struct addrinfo *addresses, const char *failure);

/* `host` may be a name or a literal address; `service` a port number as text. Stream sockets only. */
struct resolve *resolve_start(
    uv_loop_t *loop, const char *host, const char *service, resolved_fn *on_resolved, void *owner);

/* NULL is allowed. A look-up that is already running ends unheard, whenever the system lets it. */
void resolve_cancel(struct resolve *resolve);
