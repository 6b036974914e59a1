#include "relay/admin_backend.h"

#include "admin/admin.h"
#include "base/alloc.h"
#include "base/clock.h"
#include "log/log.h"
#include "operator/operator_session.h"
#include "outbox/outbox.h"
#include "relay/reload.h"
#include "telemetry/telemetry.h"

#include <stdlib.h>
#include <string.h>

struct admin_backend {
        struct telemetry *telemetry; /* borrowed, as the next */
        const struct outbox *outbox;
        struct operator_session *session; /* owned */
        struct admin *admin;              /* owned */
        struct list reloaders;            /* reloader::link */
        json_int_t foreign_pid; /* the session of the last `foreign_locks` in the log; 0: none */
        struct admin_backend_events events;
        void *owner; /* borrowed */
};

/* A request that waits for a reload. */
struct reloader {
        struct list link;
        uint64_t number; /* of the reload */
        admin_done_fn *on_done;
        void *context;
};

static void reload(void *owner, admin_done_fn *on_done, void *context)
{
        struct admin_backend *admin_backend = owner;
        struct reloader *reloader = xcalloc(1, sizeof *reloader);

        *reloader =
            (struct reloader){.number = admin_backend->events.on_reload(admin_backend->owner),
                .on_done = on_done,
                .context = context};
        list_init(&reloader->link);
        list_push_back(&admin_backend->reloaders, &reloader->link);
}

static void tell_reloader(struct list *link, json_t *result, const struct error *error)
{
        struct reloader *reloader = list_owner(link, struct reloader, link);

        list_remove(link);
        reloader->on_done(reloader->context, result, error);
        free(reloader);
}

/* "a,b" → ["a", "b"] */
static json_t *json_names(const char *names)
{
        json_t *array = json_array();

        for (const char *at = names; at != NULL && *at != '\0';) {
                size_t length = strcspn(at, ",");
                json_array_append_new(array, json_stringn(at, length));
                at += length + (at[length] == ',');
        }
        return array;
}

void admin_backend_reloaded(struct admin_backend *admin_backend, const struct reload_result *result)
{
        json_t *answer;

        if (admin_backend == NULL)
                return;
        answer = json_pack("{s:o s:o s:o s:i s:b}", "added", json_names(result->added), "changed",
            json_names(result->changed), "removed", json_names(result->removed), "unchanged",
            (int)result->n_unchanged, "reopened", (int)result->is_reopened);
        list_for_each (link, &admin_backend->reloaders)
                if (list_owner(link, struct reloader, link)->number <= result->number)
                        tell_reloader(link, result->error == NULL ? answer : NULL, result->error);
        json_decref(answer);
}

static void end_reloaders(struct admin_backend *admin_backend)
{
        struct error error;

        error_set(&error, ERROR_TEMPORARY, "the relay is stopping");
        list_for_each (link, &admin_backend->reloaders)
                tell_reloader(link, NULL, &error);
}

static bool set_log_level(void *owner, const char *name)
{
        enum log_level level;

        (void)owner;
        if (!log_level_find(name, &level))
                return false;
        log_override_level(level);
        return true;
}

/* Once for each session that is found; the status stays current. */
static void log_foreign_locks(struct admin_backend *admin_backend, const json_t *status)
{
        const json_t *source = json_object_get(status, "source");
        const json_t *holder = json_array_get(json_object_get(source, "foreign_locks"), 0);
        json_int_t pid = json_integer_value(json_object_get(holder, "pid"));

        if (pid != 0 && pid != admin_backend->foreign_pid)
                log_error("foreign_locks", kv_int("pid", pid),
                    kv_text("user", json_string_value(json_object_get(holder, "user"))),
                    kv_int("locks", json_integer_value(json_object_get(holder, "locks"))),
                    kv_text("hint", "it is no relay and keeps them from working: SELECT "
                                    "pg_terminate_backend(pid)"));
        admin_backend->foreign_pid = pid;
}

/* Of the shards that are ours; negative: not known. */
static double find_overdue(const struct admin_backend *admin_backend, const json_t *sink)
{
        const json_t *shards = json_object_get(sink, "shards"), *owner;
        const char *name = outbox_member(admin_backend->outbox);
        size_t i;

        if (!json_is_object(shards))
                return json_number_value(
                    json_object_get(json_object_get(sink, "backlog"), "overdue_age"));
        json_array_foreach(json_object_get(shards, "owners"), i, owner)
        {
                const char *relay = json_string_value(json_object_get(owner, "relay"));
                if (relay != NULL && strcmp(relay, name) == 0)
                        return json_number_value(json_object_get(owner, "overdue_age"));
        }
        return -1;
}

/* Only the database knows how much waits. */
static void on_status(void *owner, const json_t *status)
{
        struct admin_backend *admin_backend = owner;
        const json_t *sinks = json_object_get(status, "sinks");
        int64_t now_us = clock_monotonic_us();

        list_for_each (link, &admin_backend->telemetry->sinks) {
                struct sink_telemetry *sink = list_owner(link, struct sink_telemetry, link);
                const json_t *backlog =
                    json_object_get(json_object_get(sinks, sink->name), "backlog");

                if (backlog != NULL)
                        telemetry_set_backlog(sink,
                            json_integer_value(json_object_get(backlog, "events")),
                            json_number_value(json_object_get(backlog, "oldest_age")),
                            find_overdue(admin_backend, json_object_get(sinks, sink->name)),
                            now_us);
        }
        log_foreign_locks(admin_backend, status);
        /* A sink's state begins when telemetry finds it: now, and not at the next request. */
        telemetry_refresh(admin_backend->telemetry, now_us);
}

static void on_no_status(void *owner)
{
        struct admin_backend *admin_backend = owner;
        int64_t now_us = clock_monotonic_us();

        list_for_each (link, &admin_backend->telemetry->sinks)
                telemetry_set_backlog(
                    list_owner(link, struct sink_telemetry, link), MINUTES_UNKNOWN, -1, -1, now_us);
        telemetry_refresh(admin_backend->telemetry, now_us);
}

static bool on_login_refused(void *owner)
{
        struct admin_backend *admin_backend = owner;

        return admin_backend->events.on_login_refused(admin_backend->owner);
}

struct admin_backend *admin_backend_create(uv_loop_t *loop, const struct config *config,
    const char *config_file, struct telemetry *telemetry, const struct outbox *outbox,
    const struct admin_backend_events *admin_backend_events, void *owner, struct error *error)
{
        static const struct operator_session_events events = {.on_status = on_status,
            .on_no_status = on_no_status,
            .on_login_refused = on_login_refused};
        struct admin_backend *admin_backend = xcalloc(1, sizeof *admin_backend);

        admin_backend->telemetry = telemetry;
        admin_backend->outbox = outbox;
        admin_backend->events = *admin_backend_events;
        admin_backend->owner = owner;
        list_init(&admin_backend->reloaders);
        admin_backend->session = operator_session_create(loop, config, &events, admin_backend);
        admin_backend->admin = admin_create(loop,
            &(struct admin_options){.config = config->admin,
                .config_file = config_file,
                .telemetry = telemetry,
                .operations = &operator_session_operations,
                .owner = admin_backend->session,
                .reload = reload,
                .set_log_level = set_log_level,
                .relay = admin_backend},
            error);
        if (admin_backend->admin == NULL) {
                operator_session_destroy(admin_backend->session);
                free(admin_backend);
                return NULL;
        }
        operator_session_open(admin_backend->session);
        log_info("admin_listening", kv_text("address", config->admin->listen));
        return admin_backend;
}

void admin_backend_take_config(struct admin_backend *admin_backend, const struct config *config)
{
        if (admin_backend == NULL)
                return;
        if (config->admin != NULL)
                admin_take_config(admin_backend->admin, config->admin);
        operator_session_set_sinks(admin_backend->session, config);
}

void admin_backend_configure(
    struct admin_backend *admin_backend, const struct postgres_config *config)
{
        if (admin_backend != NULL)
                operator_session_configure(admin_backend->session, config);
}

void admin_backend_reopen(struct admin_backend *admin_backend, const struct config *config)
{
        if (admin_backend != NULL)
                operator_session_reopen(admin_backend->session, config);
}

void admin_backend_destroy(struct admin_backend *admin_backend)
{
        if (admin_backend == NULL)
                return;
        end_reloaders(admin_backend);
        operator_session_close(admin_backend->session);
        admin_destroy(admin_backend->admin);
        operator_session_destroy(admin_backend->session);
        free(admin_backend);
}
