/*
 * The admin endpoint: what people, Prometheus and orchestrators see of a relay, and what they can
 * change about it. It knows telemetry. The database it knows through struct admin_operations, the
 * relay through two functions.
 */
#pragma once

#include "base/error.h"
#include "config/config.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

struct admin;
struct telemetry;

/* How an operation ended: exactly one of result (borrowed) and error is not NULL. */
typedef void admin_done_fn(void *context, json_t *result, const struct error *error);

/* What is asked about receivers and events, with its parameters as texts (NULL: not given). */
enum admin_question {
        /* {"receivers": […], "total": n}: rows of courier.receiver_status, those in trouble first.
         * Sink, search, state, limit, offset */
        ADMIN_RECEIVERS,
        /* One with its settings and its newest attempts. Name, attempts at most */
        ADMIN_RECEIVER,
        /* {"event": …, "counts": …, "deliveries": […]}. Number or id of an event, deliveries at
         * most */
        ADMIN_TRACE,
        /* {"types": […], "strict": bool}: the catalogue without schemas and examples */
        ADMIN_TYPES,
};
enum { ADMIN_QUESTION_PARAMETERS = 5 };

enum admin_schedule_change { ADMIN_SCHEDULE_PAUSE, ADMIN_SCHEDULE_RESUME, ADMIN_SCHEDULE_RUN };

/* Dead letters: those of `ids`, or (ids NULL) all of `sink`. */
struct admin_selection {
        const int64_t *ids;
        unsigned n_ids;
        const char *sink;
};

/*
 * What is done in the database for us. on_done comes once for each call, not inside it; texts and
 * selections are borrowed until the call returns. An operation may end after admin_destroy().
 */
struct admin_operations {
        /* The last status (borrowed), or NULL before the first; and why there is no newer one, NULL
         * while the database answers. */
        const json_t *(*look)(void *owner);
        const char *(*look_failure)(void *owner);
        /* Asks for a new status. False: the last one is not a second old, or the database does not
         * answer; then on_done does not come. Else it comes with the new status, or when that takes
         * too long. on_done may be NULL. */
        bool (*look_again)(void *owner, admin_done_fn *on_done, void *context);
        /* {"paused": true, "was_paused": bool}; the reason is one line of at most 500 bytes, or
         * NULL */
        void (*pause)(void *owner, const char *sink, const char *reason, admin_done_fn *on_done,
            void *context);
        /* {"paused": false, "removed": n} */
        void (*resume)(void *owner, const char *sink, admin_done_fn *on_done, void *context);
        /* {"dead": […], "more": bool}: at most `limit` with an id below `before` (0: the
         * newest), of one sink or (NULL) of all; without payloads and headers. */
        void (*list_dead)(void *owner, const char *sink, int64_t before, unsigned limit,
            admin_done_fn *on_done, void *context);
        /* Answered with ERROR_EMPTY if there is no such receiver or event. The texts are borrowed
         * for the call. */
        void (*ask)(void *owner, enum admin_question question,
            const char *const parameters[ADMIN_QUESTION_PARAMETERS], admin_done_fn *on_done,
            void *context);
        /* {"state": "paused", "was": "active"}; ERROR_EMPTY; the reason is as that of pause */
        void (*set_receiver_state)(void *owner, const char *name, const char *state,
            const char *reason, admin_done_fn *on_done, void *context);
        /* {}, and of a run {"event_id": …}; ERROR_EMPTY */
        void (*change_schedule)(void *owner, enum admin_schedule_change change, const char *name,
            admin_done_fn *on_done, void *context);
        /* {"redriven": n, "kept": n, "words": …}, {"dropped": n}. In batches, each a transaction:
         * after an error some may be done. */
        void (*redrive)(void *owner, const struct admin_selection *selection,
            admin_done_fn *on_done, void *context);
        void (*drop)(void *owner, const struct admin_selection *selection, admin_done_fn *on_done,
            void *context);
};

struct admin_options {
        const struct admin_config *config; /* borrowed */
        const char *config_file;           /* borrowed; for the status document */
        struct telemetry *telemetry;       /* borrowed */
        const struct admin_operations *operations;
        void *owner; /* of the operations */
        /* What the relay does itself: loads its configuration, as an operation; and changes its log
         * level (false: there is no such level). */
        void (*reload)(void *relay, admin_done_fn *on_done, void *context);
        bool (*set_log_level)(void *relay, const char *level);
        void *relay;
};

/* NULL and *error if it cannot listen. */
struct admin *admin_create(
    uv_loop_t *loop, const struct admin_options *options, struct error *error);

/* Another configuration is in force, with the same `listen`. */
void admin_take_config(struct admin *admin, const struct admin_config *config);

/* Ends all streams and connections. NULL is allowed. */
void admin_destroy(struct admin *admin);
