/*
 * Loads another configuration while the relay runs. First everything is tried that
 * can fail: the file, each new sink's open(), a session with other settings, filters.
 * Only then is anything changed; until then any error leaves all as it was.
 *
 *   IDLE -asked-> READING (on a thread of its own)
 *        -> (compare, open new sinks)
 *        -> CONNECTING (a session with other settings, beside the old one)
 *        -> ASKING (PostgreSQL, whether it accepts new filters)
 *        -> SWAPPING (sinks that are replaced make way) -> IDLE
 *   any but SWAPPING -error-> DISCARDING (new sinks close again) -> IDLE
 *
 * When a login is refused, credentials alone are loaded the same way. READING takes the text of the
 * configuration in force, and reads again the files that it names; then only the sinks that were
 * refused are replaced, if they have other credentials now.
 */
#pragma once

#include "config/config.h"
#include "delivery/sink_set.h"
#include "outbox/outbox.h"
#include "relay/config_reader.h"

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

struct reload;

/* How a reload ended. All of it is borrowed. */
struct reload_result {
        uint64_t number;
        const struct error *error; /* NULL: the new configuration is in force */
        /* Names of sinks, "a,b"; NULL: none. */
        const char *added, *changed, *removed;
        unsigned n_unchanged;
        bool is_reopened; /* the sessions with PostgreSQL */
};

struct reload_events {
        void (*on_begin)(void *owner);
        /* reload_postgres_refused(): the configuration in force with what the files that it names
         * say now, of which the owner may exchange `postgres`; NULL: they cannot be read. */
        void (*on_postgres_read)(void *owner, struct config *other);
        /* Prepares what is not a sink's and may fail, beside what is in force; drops it again. */
        bool (*prepare)(void *owner, const struct config *config, struct error *error);
        void (*on_discard)(void *owner);
        /* `settings->config` has changed: everything but the sinks follows it. */
        void (*on_applied)(void *owner, const struct config *old);
        /* No sink uses the session any more: it is to be opened anew. */
        void (*on_reopen)(void *owner);
        void (*on_done)(void *owner, const struct reload_result *result);
        void (*on_dirty)(void *owner); /* call reload_serve() before the loop waits */
};

struct reload_settings {
        uv_loop_t *loop;       /* borrowed, as all of them */
        struct outbox *outbox; /* the session in use */
        struct sink_set *sink_set;
        struct config **config; /* in force; a reload exchanges it */
        const char *path;       /* of the file */
        config_load_fn *load;
};

struct reload *reload_create(
    const struct reload_settings *settings, const struct reload_events *events, void *owner);
void reload_destroy(struct reload *reload); /* the sink_set is empty; NULL is allowed */

/* Reloads, after the reload under way, if any. Returns the new reload's number. */
uint64_t reload_ask(struct reload *reload);

/* A login is refused: by PostgreSQL, or by the destination of a sink. True: the files are read for
 * other credentials. Then on_postgres_read() follows; the sink is replaced, or
 * dispatcher_tell_refused() is called because there are none. False: not now, because a reload is
 * under way. */
bool reload_postgres_refused(struct reload *reload);
bool reload_sink_refused(struct reload *reload, const char *sink);

/* Of the session in use: outbox_events::on_filter_checked, and its loss. */
void reload_filter_checked(struct reload *reload, const char *words);
void reload_session_down(struct reload *reload);

/* The end of a turn of the loop, before sink_set_serve(). */
void reload_serve(struct reload *reload);

/* The relay ends: no reload begins, and one that has changed nothing yet is given up. The sink_set
 * is drained next. */
void reload_stop(struct reload *reload);
