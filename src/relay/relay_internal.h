/* The parts of the relay, among themselves: relay.c and relay_reload.c. */
#pragma once

#include "delivery/work.h"
#include "relay/relay.h"

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

enum relay_state { RELAY_RUNNING, RELAY_DRAINING, RELAY_CLOSING };

struct relay {
        struct config *config;               /* owned */
        const struct relay_options *options; /* borrowed */
        bool once;
        uv_loop_t loop;
        enum relay_state state;
        struct error *error; /* the caller's; kind ERROR_NONE while all is well */

        struct telemetry *telemetry;         /* owned */
        int64_t turned_us;                   /* the last turn of the loop ended then */
        uint64_t idle_ns;                    /* and it had waited for so long in all */
        struct admin_backend *admin_backend; /* owned; NULL without a block `admin`, or once */
        struct admin_backend
            *next_admin_backend; /* owned; of a configuration that is to come into force */
        bool is_overseer_moved;  /* it takes over when the reload is done */

        struct outbox *outbox;                   /* owned */
        struct schedule_timer *schedule_timer;   /* owned */
        struct systemd *systemd;                 /* owned */
        struct waker *waker;                     /* owned; NULL with wakeup: poll, or once */
        struct retention_timer *retention_timer; /* owned; NULL with once */
        struct sink_set *sink_set;               /* owned; the dispatchers */
        struct reload *reload;                   /* owned */
        struct work work;                        /* what there is to do before the loop waits */

        uint64_t controlled_ms; /* loop time of the last on_control() */
        /* And when the files had last no other credentials than what PostgreSQL refuses; 0: never. */
        uint64_t refused_with_ms;

        struct timer *sweep;
        struct timer *drain_limit;
        uv_prepare_t before_waiting;
        struct signals *signals; /* owned */
};

/* relay.c */
void relay_mark_dirty(void *relay);
void relay_ring_all(void *relay);
void relay_look(void *relay, bool is_rung); /* waker_events::on_look */
void relay_sessions_down(struct relay *relay, const char *why);

/* credentials.c: a login is refused. True: the files are read for other credentials, and nothing is to be
 * told before that. */
bool relay_postgres_refused(void *relay);
bool relay_sink_refused(void *relay, const char *sink);
void relay_postgres_read(void *relay, struct config *other); /* reload_events */

/* relay_reload.c */
void relay_create_reload(struct relay *relay);
void relay_create_waker(struct relay *relay); /* before the session is opened */
void relay_create_retention_timer(struct relay *relay);

/* The endpoint of `config`, if it has one. */
bool relay_open_admin_backend(struct relay *relay, const struct config *config,
    struct admin_backend **out_admin_backend, struct error *error);
