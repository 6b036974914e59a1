/*
 * One look-up of a host name: /etc/hosts and DNS (c-ares) on the loop, without
 * a thread. A thousand that hang delay no other. hiredis and libcurl would
 * block the loop, or join a stuck thread, if they did it themselves.
 *
 * Other sources of names that nsswitch.conf may list (mdns, ldap, winbind, the
 * host's own libvirt names) are not asked.
 */
#pragma once

#include <netdb.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

struct resolve;

/*
 * `addresses` is the result, borrowed for the call; NULL on failure, with the
 * reason in `failure`. Comes once, never inside resolve_start(), and not after
 * resolve_cancel(). The look-up is gone when this returns.
 */
typedef void resolved_fn(void *owner, const struct addrinfo *addresses, const char *failure);

/*
 * The name servers that look-ups from now on ask: "ip", "ip:port", "[ip6]:port"; none: those of
 * /etc/resolv.conf, as it is then. Like that file it holds for the whole process. Copied.
 */
void resolve_use_servers(const char *const *servers, size_t n_servers);

/* `host` may be a name or a literal address; `service` a port number as text. Stream sockets only.
 * Fails if it takes longer than timeout_ms. */
struct resolve *resolve_start(uv_loop_t *loop, const char *host, const char *service,
    int64_t timeout_ms, resolved_fn *on_resolved, void *owner);

/* NULL is allowed. */
void resolve_cancel(struct resolve *resolve);
