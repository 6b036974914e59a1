/* What people tell the process: SIGTERM and SIGINT to stop, SIGHUP to load its configuration anew,
 * SIGUSR1 to say more in the log, SIGUSR2 to say what is configured. They may come at any time of its life; until signals_create() they wait. */
#pragma once

#include <uv.h>

struct signals;

struct signals_events {
        void (*on_stop)(void *owner, const char *name);
        void (*on_reload)(void *owner);
};

/* First of all, before there is any thread. */
void signals_hold(void);

struct signals *signals_create(uv_loop_t *loop, const struct signals_events *events, void *owner);
void signals_destroy(struct signals *signals); /* NULL is allowed */
