/* The relay from within: for relay.c and relay_session.c. */
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
        /* Owned; of a configuration that is not in force yet. */
        struct admin_backend *next_admin_backend;
        bool is_admin_moved;                /* it takes over when the reload is done */
        struct portal_backend *portal;      /* owned; NULL without a block `portal`, or once */
        struct portal_backend *next_portal; /* owned; of a configuration that is not in force yet */

        struct outbox *outbox;                 /* owned */
        struct schedule_timer *schedule_timer; /* owned */
        struct systemd *systemd;               /* owned */
        struct waker *waker;                   /* owned; NULL with wakeup: poll, or once */
        struct maintenance *maintenance;       /* owned; NULL with once */
        struct marker *marker;                 /* owned */
        bool are_marks_failing;                /* and that was logged */
        struct sink_set *sink_set;             /* owned */
        struct sharing *sharing;               /* owned; NULL with once */
        bool is_leaving;                       /* its shards are given to other relays first */
        struct reload *reload;                 /* owned */
        struct work work;                      /* what there is to do before the loop waits */

        uint64_t controlled_ms; /* loop time of the last relay_control() */
        /* Loop time when the files were last read and had no other credentials than those that
         * PostgreSQL refuses; 0: never. */
        uint64_t refused_with_ms;

        struct timer *sweep;
        struct timer *drain_limit;
        struct timer *leave_limit;
        uv_prepare_t before_waiting;
        struct signals *signals; /* owned */
};

/* relay_session.c */

/* There is something to do before the loop waits. */
void relay_mark_dirty(void *relay);

/* It cannot go on: what is in flight is finished, and relay_run() fails with this error, or with an
 * earlier one. */
void relay_fail(struct relay *relay, const struct error *error);

/* There may be something new in the outbox. */
void relay_ring(void *relay);

/* An operator may have changed what is paused, parked or scheduled. outbox_events::on_control. */
void relay_control(void *relay);

/* The sink_set follows; then the session may be opened. */
void relay_create_outbox(struct relay *relay);
void relay_create_waker(struct relay *relay); /* unless the outbox is polled */

/* Makes every session a member of the relays of the database. Again when the configuration has
 * changed. */
void relay_join(struct relay *relay);

void relay_create_marker(struct relay *relay);

/* True: the files are read for other credentials, and nothing is to be reported before that. */
bool relay_postgres_refused(void *relay);

/* reload_events */
void relay_postgres_read(void *relay, struct config *other);
void relay_reopen(void *relay);
