#include "relay/admin_backend.h"

#include "admin/admin.h"
#include "base/alloc.h"
#include "base/clock.h"
#include "log/log.h"
#include "loop/timer.h"
#include "operator/operator_session.h"
#include "relay/errand.h"
#include "relay/reload.h"
#include "telemetry/telemetry.h"

#include <stdlib.h>
#include <string.h>

struct admin_backend {
        struct telemetry *telemetry;      /* borrowed */
        struct operator_session *session; /* owned */
        struct errands errands;
        struct admin *admin;    /* owned */
        struct list reloaders;  /* reloader::link */
        struct list onlookers;  /* onlooker::link */
        struct timer *patience; /* theirs */
        json_int_t foreign_pid; /* who holds our locks and is no relay; as said last; 0: nobody */
        struct admin_backend_events events;
        void *owner; /* borrowed */
};

/* Somebody who waits for a look, but not for long: a busy server may take its time. */
struct onlooker {
        struct list link;
        admin_done_fn *on_done;
        void *context;
};

#define FRESH_MS     1000
#define LOOK_WAIT_MS 1000

/* Somebody who waits for a reload. */
struct reloader {
        struct list link;
        uint64_t number; /* of the reload */
        admin_done_fn *on_done;
        void *context;
};

static const json_t *look(void *owner)
{
        const struct admin_backend *admin_backend = owner;

        return operator_session_ask_status(admin_backend->session);
}

static const char *look_failure(void *owner)
{
        const struct admin_backend *admin_backend = owner;

        return operator_session_failure(admin_backend->session);
}

static void tell_onlookers(struct admin_backend *admin_backend, const struct error *error)
{
        timer_disarm(admin_backend->patience);
        list_for_each (link, &admin_backend->onlookers) {
                struct onlooker *onlooker = list_owner(link, struct onlooker, link);

                list_remove(link);
                onlooker->on_done(onlooker->context, error == NULL ? json_null() : NULL, error);
                free(onlooker);
        }
}

static void on_impatient(void *owner)
{
        tell_onlookers(owner, NULL);
}

static bool look_again(void *owner, admin_done_fn *on_done, void *context)
{
        struct admin_backend *admin_backend = owner;
        int64_t age_ms = operator_session_age_ms(admin_backend->session);
        struct onlooker *onlooker;

        if (operator_session_failure(admin_backend->session) != NULL ||
            (age_ms >= 0 && age_ms < FRESH_MS))
                return false;
        operator_session_ask(admin_backend->session);
        if (on_done == NULL)
                return true;
        onlooker = xcalloc(1, sizeof *onlooker);
        onlooker->on_done = on_done;
        onlooker->context = context;
        list_init(&onlooker->link);
        list_push_back(&admin_backend->onlookers, &onlooker->link);
        if (!timer_is_armed(admin_backend->patience))
                timer_arm(admin_backend->patience, LOOK_WAIT_MS);
        return true;
}

static void pause_sink(
    void *owner, const char *sink, const char *reason, admin_done_fn *on_done, void *context)
{
        struct admin_backend *admin_backend = owner;

        errand_pause(&admin_backend->errands, sink, reason, on_done, context);
}

static void resume_sink(void *owner, const char *sink, admin_done_fn *on_done, void *context)
{
        struct admin_backend *admin_backend = owner;

        errand_resume(&admin_backend->errands, sink, on_done, context);
}

static void list_dead(void *owner, const char *sink, int64_t before, unsigned limit,
    admin_done_fn *on_done, void *context)
{
        struct admin_backend *admin_backend = owner;

        errand_list_dead(&admin_backend->errands, sink, before, limit, on_done, context);
}

static void redrive(
    void *owner, const struct admin_selection *selection, admin_done_fn *on_done, void *context)
{
        struct admin_backend *admin_backend = owner;

        errand_redrive(&admin_backend->errands, selection, on_done, context);
}

static void drop(
    void *owner, const struct admin_selection *selection, admin_done_fn *on_done, void *context)
{
        struct admin_backend *admin_backend = owner;

        errand_drop(&admin_backend->errands, selection, on_done, context);
}

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

static void end_waiting(struct admin_backend *admin_backend)
{
        struct error error;

        error_set(&error, ERROR_TEMPORARY, "the relay is stopping");
        tell_onlookers(admin_backend, &error);
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

static const struct admin_operations operations = {.look = look,
    .look_failure = look_failure,
    .look_again = look_again,
    .pause = pause_sink,
    .resume = resume_sink,
    .list_dead = list_dead,
    .redrive = redrive,
    .drop = drop,
    .reload = reload,
    .set_log_level = set_log_level};

/* Once of each who comes first; the looks go on. */
static void log_foreign_locks(struct admin_backend *admin_backend, const json_t *look)
{
        const json_t *source = json_object_get(look, "source");
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

/* What waits is known to the database alone. */
static void on_look(void *owner)
{
        struct admin_backend *admin_backend = owner;
        const json_t *sinks =
            json_object_get(operator_session_ask_status(admin_backend->session), "sinks");
        int64_t now_us = clock_monotonic_us();

        list_for_each (link, &admin_backend->telemetry->sinks) {
                struct sink_telemetry *sink = list_owner(link, struct sink_telemetry, link);
                const json_t *backlog =
                    json_object_get(json_object_get(sinks, sink->name), "backlog");

                if (backlog != NULL)
                        telemetry_set_backlog(sink,
                            json_integer_value(json_object_get(backlog, "events")),
                            json_number_value(json_object_get(backlog, "oldest_age")),
                            json_number_value(json_object_get(backlog, "overdue_age")), now_us);
        }
        log_foreign_locks(admin_backend, operator_session_ask_status(admin_backend->session));
        /* A state begins when somebody sees it: now, then, and not only when people look. */
        telemetry_refresh(admin_backend->telemetry, now_us);
        tell_onlookers(admin_backend, NULL);
}

static void on_no_look(void *owner)
{
        struct admin_backend *admin_backend = owner;
        int64_t now_us = clock_monotonic_us();

        list_for_each (link, &admin_backend->telemetry->sinks)
                telemetry_set_backlog(
                    list_owner(link, struct sink_telemetry, link), MINUTES_UNKNOWN, -1, -1, now_us);
        telemetry_refresh(admin_backend->telemetry, now_us);
        tell_onlookers(admin_backend, NULL);
}

static bool on_login_refused(void *owner)
{
        struct admin_backend *admin_backend = owner;

        return admin_backend->events.on_login_refused(admin_backend->owner);
}

struct admin_backend *admin_backend_create(uv_loop_t *loop, const struct config *config,
    const char *config_file, struct telemetry *telemetry,
    const struct admin_backend_events *admin_backend_events, void *owner, struct error *error)
{
        static const struct operator_session_events events = {
            .on_look = on_look, .on_no_look = on_no_look, .on_login_refused = on_login_refused};
        struct admin_backend *admin_backend = xcalloc(1, sizeof *admin_backend);

        admin_backend->telemetry = telemetry;
        admin_backend->events = *admin_backend_events;
        admin_backend->owner = owner;
        list_init(&admin_backend->reloaders);
        list_init(&admin_backend->onlookers);
        admin_backend->admin = admin_create(loop,
            &(struct admin_options){.config = config->admin,
                .config_file = config_file,
                .telemetry = telemetry,
                .operations = &operations,
                .owner = admin_backend},
            error);
        if (admin_backend->admin == NULL) {
                free(admin_backend);
                return NULL;
        }
        admin_backend->patience = timer_create_on(loop, on_impatient, admin_backend);
        admin_backend->session = operator_session_create(loop, config, &events, admin_backend);
        errands_init(&admin_backend->errands, admin_backend->session);
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
        end_waiting(admin_backend);
        errands_end(&admin_backend->errands);
        admin_destroy(admin_backend->admin);
        operator_session_destroy(admin_backend->session);
        timer_destroy(admin_backend->patience);
        free(admin_backend);
}
