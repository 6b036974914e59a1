/*
 * A TCP proxy that misbehaves on request, for tests: between the relay and each of its servers. It
 * runs in a thread of its own. A link is one port of 127.0.0.1 that leads to another; a fault holds
 * for the connections that a link has and for those that come, until another one is set.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum fault_kind {
        FAULT_NONE,      /* pass everything on at once */
        FAULT_DELAY,     /* each piece after delay_ms and up to jitter_ms more, in order */
        FAULT_THROTTLE,  /* bytes_per_s in each direction */
        FAULT_CUT,       /* the end of a connection after so many bytes of the server's answers */
        FAULT_HALF_OPEN, /* resets what there is; accepts, and never answers, not even afterwards */
        FAULT_RESET,     /* resets what there is, and what comes */
        FAULT_BLACKHOLE, /* nothing moves, nothing ends; what was stuck goes on afterwards */
        FAULT_REFUSE,    /* no process listens; connections that exist are left alone */
};

struct fault {
        enum fault_kind kind;
        uint32_t delay_ms;
        uint32_t jitter_ms;
        uint32_t bytes_per_s;
        uint32_t after_bytes;
};

struct fault_proxy;
struct fault_link;

struct fault_proxy *fault_proxy_start(void);
void fault_proxy_destroy(struct fault_proxy *proxy); /* with its links; NULL is allowed */

/* A link to 127.0.0.1:port, where no server needs to listen yet. */
struct fault_link *fault_proxy_add(struct fault_proxy *proxy, uint16_t port);
uint16_t fault_link_port(const struct fault_link *link);

/* In force when this returns. */
void fault_link_set(struct fault_link *link, const struct fault *fault);

unsigned fault_link_n_connections(const struct fault_link *link); /* ever accepted */
unsigned fault_link_n_open(const struct fault_link *link);

/* "none", "delay", …: as in logs. */
const char *fault_kind_name(enum fault_kind kind);
