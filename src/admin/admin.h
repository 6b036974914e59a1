/*
 * The admin endpoint: what people, Prometheus and orchestrators see of a relay,
 * and what they can change about it. Knows telemetry, and asks the relay for
 * everything else through one table of functions.
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

/* Dead letters: those of `ids`, or (ids NULL) all of `sink`. */
struct admin_selection {
        const int64_t *ids;
        unsigned n_ids;
        const char *sink;
};

/*
 * What the relay does for us. on_done comes once for each call, not inside it;
 * texts and selections are borrowed until the call returns. An operation may end
 * after admin_destroy(). NULL: there is no such operation here.
 */
struct admin_operations {
        /* What the database said when it was last asked (borrowed); NULL: it was not, yet. And why
         * that is no newer; NULL while it can be asked. */
        const json_t *(*look)(void *owner);
        const char *(*look_failure)(void *owner);
        /* The database is asked again. False: its last answer is not a second old, or it cannot be
         * asked just now; then on_done does not come. Else it does, when `look` is new or that takes
         * too long. on_done may be NULL. */
        bool (*look_again)(void *owner, admin_done_fn *on_done, void *context);
        void (*pause)(void *owner, const char *sink, const char *reason, admin_done_fn *on_done,
            void *context);
        void (*resume)(void *owner, const char *sink, admin_done_fn *on_done, void *context);
        /* {"dead": […], "more": bool}: at most `limit` with an id below `before` (0: the newest), of
         * one sink or (NULL) of all. */
        void (*list_dead)(void *owner, const char *sink, int64_t before, unsigned limit,
            admin_done_fn *on_done, void *context);
        /* {"redriven": n, "words": …}, {"dropped": n} */
        void (*redrive)(void *owner, const struct admin_selection *selection,
            admin_done_fn *on_done, void *context);
        void (*drop)(void *owner, const struct admin_selection *selection, admin_done_fn *on_done,
            void *context);
        void (*reload)(void *owner, admin_done_fn *on_done, void *context);
        /* False: there is no such level. */
        bool (*set_log_level)(void *owner, const char *level);
};

struct admin_options {
        const struct admin_config *config; /* borrowed */
        const char *config_file;           /* borrowed; for the status document */
        struct telemetry *telemetry;       /* borrowed */
        const struct admin_operations *operations;
        void *owner; /* of the operations */
};

/* NULL and *error if it cannot listen. */
struct admin *admin_create(
    uv_loop_t *loop, const struct admin_options *options, struct error *error);

/* Another configuration is in force, with the same `listen`. */
void admin_take_config(struct admin *admin, const struct admin_config *config);

/* Ends all streams and connections. NULL is allowed. */
void admin_destroy(struct admin *admin);
