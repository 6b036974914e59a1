/*
 * The contract between the relay and one kind of destination.
 *
 * A kind is one file that exports one `const struct sink_ops`, within the program
 * or as a module (pgcourier/module.h). The relay opens
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
        void *target;    /* from open_target(), for a sink that fans out; else NULL */
        void *sink_data; /* the sink's own; NULL when deliver() is called */

        /* The relay's side; sinks leave these alone. */
        struct sink *sink;
        void (*on_finished)(struct attempt *attempt, const struct outcome *outcome);
        void *owner;
};

/* What a kind needs to open an instance. Borrowed for the call; what it points at, for the life of
 * the sink. */
struct sink_settings {
        const char *name;    /* the sink's name in the config file */
        const void *options; /* the kind's own block of the config file; for a module, its options:
                              * const struct sink_options * (pgcourier/option.h) */
        uv_loop_t *loop;
        bool by_key;          /* the order of a key matters: order: key */
        unsigned concurrency; /* attempts in flight, as configured; 0: the kind's default */
};

/*
 * One receiver of a sink that fans out: a row of courier.receiver. Borrowed for
 * the call that takes it.
 */
struct target_settings {
        const char *name;
        const char *url;
        const char *const *secrets; /* to sign with, the newest first */
        size_t n_secrets;
        const struct event_header *headers; /* to send along with each event */
        size_t n_headers;
};

typedef void sink_closed_fn(void *owner);

/* `outcome` is DELIVERED when the destination could be reached and would take our events; if it
 * has a reason then, that is for people: with needs_operator a warning of what may soon be wrong with
 * it, otherwise a fact to know. */
typedef void sink_probed_fn(void *owner, const struct outcome *outcome);

/* New members are appended: modules compiled before are still loaded. */
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
         * recipient) for people to read; a dead letter keeps it. Cut to `size`. `target` is that of
         * the event's attempts. */
        void (*describe_target)(const struct sink *sink, const struct event *event,
            const void *target, char *text, size_t size);

        /* For sinks that fan out: one for each receiver, made and dropped while the sink runs. On
         * failure (a URL that is none) sets *error and returns NULL. close_target() is called when
         * no attempt with it is in flight. */
        void *(*open_target)(
            struct sink *sink, const struct target_settings *settings, struct error *error);
        void (*close_target)(struct sink *sink, void *target);

        /* Optional, for sinks that remember in the destination what they have delivered, so that a
         * crash repeats nothing. owned(): from here on this relay alone delivers; what was known of
         * the memory may be out of date. No attempt is in flight. Each owner of a lane has a higher
         * epoch than those before it, from 1: so a late word of a former owner can be told from a
         * new one. settled(): these events are durably done and never come again. With these,
         * claims and settles are flushed to disk before owned() and settled() are called: a server
         * that crashes takes neither back. Called only if the instance set `remembers`. */
        void (*owned)(struct sink *sink, uint64_t epoch);
        void (*settled)(struct sink *sink, const int64_t *event_ids, size_t n_events);

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
        const struct sink_ops *ops; /* not to be compared: of a module it is the program's copy */
        const char *name;           /* borrowed from the settings */
        uv_loop_t *loop;
        unsigned max_concurrent; /* attempts the relay may have in flight; 0: no limit of ours */
        bool remembers;          /* owned() and settled() are to be called for this instance */
        bool has_targets;        /* each event names its target, as describe_target() tells it: one
                                  * that is refused says nothing about events to others */
        bool has_addresses;      /* of that only the domain counts, which follows the last @ */

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
