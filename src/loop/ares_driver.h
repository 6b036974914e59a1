/*
 * c-ares on libuv: one channel, its sockets and its clock. Knows how to keep
 * look-ups moving, not who asked for them.
 *
 * A channel reads the system's configuration (resolv.conf) when it is made and
 * never again; whoever holds one for long holds what was true then.
 */
#pragma once

#include <ares.h>
#include <uv.h>

struct ares_driver;

/* c-ares has returned after having worked on answers or timeouts. The driver may be destroyed. */
typedef void ares_worked_fn(void *owner);

/*
 * `servers` is what ares_set_servers_ports_csv() takes, or NULL for the system's own. NULL if c-ares
 * fails, with its reason in *out_status.
 */
struct ares_driver *ares_driver_create(
    uv_loop_t *loop, const char *servers, ares_worked_fn *on_worked, void *owner, int *out_status);

/* NULL is allowed. Each look-up under way ends with ARES_EDESTRUCTION inside the call. */
void ares_driver_destroy(struct ares_driver *driver);

/* `on_answer` comes exactly once, perhaps inside the call. */
void ares_driver_ask(struct ares_driver *driver, const char *host, const char *service,
    ares_addrinfo_callback on_answer, void *argument);
