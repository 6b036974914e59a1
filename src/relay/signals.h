/*
 * The signals of the process: SIGTERM and SIGINT stop it, SIGHUP reloads the
 * configuration, SIGUSR1 makes the log more verbose, SIGUSR2 as verbose as it is
 * configured. A signal that comes before signals_create() waits until then.
 */
#pragma once

#include <uv.h>

struct signals;

struct signals_events {
        void (*on_stop)(void *owner, const char *name);
        void (*on_reload)(void *owner);
};

/* Call it first, before there is any thread. */
void signals_hold(void);

struct signals *signals_create(uv_loop_t *loop, const struct signals_events *events, void *owner);
void signals_destroy(struct signals *signals); /* NULL is allowed */
