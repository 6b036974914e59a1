/*
 * The contract between the relay and one kind of destination.
 *
 * A kind is one file that exports one `const struct sink_ops`. The relay opens
 * one instance for each configured sink, hands it attempts, and is told of
 * each exactly once how it ended. Everything happens on the thread that runs
 * the loop; a sink that must block does so in uv_queue_work().
 *
 * The two rules that keep every sink and the relay simple:
 *   1. Each attempt is finished exactly once.
 *   2. Never from inside deliver(), cancel() or close(): always in a later turn
 *      of the loop. A failure known at once is finished with
 *      attempt_finish_later().
 */
#pragma once

#include "pgcourier/event.h"
#include "pgcourier/outcome.h"

#include <stdbool.h>
#include <uv.h>

struct attempt;
struct error;
struct sink;
struct sink_ops;

/* One try to deliver one event. Owned by the relay, lent to the sink until it is finished. */
struct attempt {
        const struct event *event;
        uint32_t number; /* 1 for the first try; tries that an outage ended are not counted */
        void *sink_data; /* the sink's own; NULL when deliver() is called */

        /* The relay's side; sinks leave these alone. */
        struct sink *sink;
        void (*on_finished)(struct attempt *attempt, const struct outcome *outcome);
        void *owner;
};

/* What a kind needs to open an instance. Borrowed for the life of the sink. */
struct sink_settings {
        const char *name;    /* the sink's name in the config file */
        const void *options; /* the kind's own block of the config file */
        uv_loop_t *loop;
        bool by_key; /* the order of a key matters: order: key */
};

typedef void sink_closed_fn(void *owner);

/* `outcome` is DELIVERED when the destination could be reached and would take our events. */
typedef void sink_probed_fn(void *owner, const struct outcome *outcome);

struct sink_ops {
        const char *kind; /* the key of its block in the config file */

        /* Attempts reach the destination in the order of the deliver() calls. Without this the
         * relay has at most one attempt in flight for each key. */
        bool keeps_order;

        /* Makes an instance; on failure sets *error and returns NULL. Does not connect and does not
         * block: an unreachable destination is an outcome, not an error. */
        struct sink *(*open)(const struct sink_settings *settings, struct error *error);

        /* Starts one attempt. The attempt and its event are borrowed until it is finished. */
        void (*deliver)(struct sink *sink, struct attempt *attempt);

        /* Optional: writes where in the sink the event goes (a stream, a URL without its secrets, a
         * recipient) for people to read; a dead letter keeps it. Cut to `size`. */
        void (*describe_target)(
            const struct sink *sink, const struct event *event, char *target, size_t size);

        /* Optional: called after a burst of deliver() calls, before the loop waits. */
        void (*flush)(struct sink *sink);

        /* Hurries all attempts in flight: each is finished soon, as CANCELLED unless its answer is
         * already known. The sink stays usable. */
        void (*cancel)(struct sink *sink);

        /* Consumes the sink; no attempt is in flight. on_closed comes from a later turn of the
         * loop, after the last handle has gone. */
        void (*close)(struct sink *sink, sink_closed_fn *on_closed, void *owner);

        /* Connects and authenticates without sending an event, for `pgcourier check --connect`.
         * No attempt is in flight. on_probed comes exactly once, from a later turn of the loop. */
        void (*probe)(struct sink *sink, sink_probed_fn *on_probed, void *owner);
};

/* The first member of each kind's own struct; filled by open() through sink_init(). */
struct sink {
        const struct sink_ops *ops;
        const char *name; /* borrowed from the settings */
        uv_loop_t *loop;
        unsigned max_concurrent; /* attempts the relay may have in flight; 0: no limit of ours */

        /* The relay's side; sinks leave these alone. */
        unsigned n_in_flight;
        bool is_calling;           /* inside an operation: finishing now would break rule 2 */
        struct deferred *deferred; /* attempts finished by attempt_finish_later() */
};

void sink_init(struct sink *sink, const struct sink_ops *ops, const struct sink_settings *settings);

/* Frees what sink_init() made. The kind calls it in its close(), before it frees itself. */
void sink_deinit(struct sink *sink);

/* Tells the relay how an attempt ended. The attempt is gone when this returns, and the relay may
 * have started others: make the sink consistent first, call this last. */
void attempt_finish(struct attempt *attempt, const struct outcome *outcome);

/* The same, from the next turn of the loop; may be called anywhere. Copies the outcome. */
void attempt_finish_later(struct attempt *attempt, const struct outcome *outcome);

/* Some of these are still to come. A sink that keeps order sends nothing new meanwhile: it could
 * overtake an event that the relay does not know yet to have come back. */
bool sink_owes_answers(const struct sink *sink);
