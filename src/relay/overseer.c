#include "relay/overseer.h"

#include "admin/admin.h"
#include "base/alloc.h"
#include "base/clock.h"
#include "base/log.h"
#include "outbox/watch.h"
#include "relay/errand.h"
#include "telemetry/telemetry.h"

#include <stdlib.h>
#include <string.h>

struct overseer {
        struct telemetry *telemetry; /* borrowed */
        struct watch *watch;         /* owned */
        struct errands errands;
        struct admin *admin; /* owned */
};

static const json_t *look(void *owner)
{
        const struct overseer *overseer = owner;

        return watch_look(overseer->watch);
}

static const char *look_failure(void *owner)
{
        const struct overseer *overseer = owner;

        return watch_failure(overseer->watch);
}

static void pause_sink(
    void *owner, const char *sink, const char *reason, admin_done_fn *on_done, void *context)
{
        struct overseer *overseer = owner;

        errand_pause(&overseer->errands, sink, reason, on_done, context);
}

static void resume_sink(void *owner, const char *sink, admin_done_fn *on_done, void *context)
{
        struct overseer *overseer = owner;

        errand_resume(&overseer->errands, sink, on_done, context);
}

static void list_dead(void *owner, const char *sink, int64_t before, unsigned limit,
    admin_done_fn *on_done, void *context)
{
        struct overseer *overseer = owner;

        errand_list_dead(&overseer->errands, sink, before, limit, on_done, context);
}

static void redrive(
    void *owner, const struct admin_selection *selection, admin_done_fn *on_done, void *context)
{
        struct overseer *overseer = owner;

        errand_redrive(&overseer->errands, selection, on_done, context);
}

static void drop(
    void *owner, const struct admin_selection *selection, admin_done_fn *on_done, void *context)
{
        struct overseer *overseer = owner;

        errand_drop(&overseer->errands, selection, on_done, context);
}

static bool set_log_level(void *owner, const char *level)
{
        static const struct {
                const char *name;
                enum log_level level;
        } levels[] = {{"debug", LEVEL_DEBUG}, {"info", LEVEL_INFO}, {"warn", LEVEL_WARN},
            {"error", LEVEL_ERROR}};

        (void)owner;
        for (size_t i = 0; i < sizeof levels / sizeof *levels; i++)
                if (strcmp(levels[i].name, level) == 0) {
                        log_set_level(levels[i].level);
                        return true;
                }
        return false;
}

static const struct admin_operations operations = {.look = look,
    .look_failure = look_failure,
    .pause = pause_sink,
    .resume = resume_sink,
    .list_dead = list_dead,
    .redrive = redrive,
    .drop = drop,
    .set_log_level = set_log_level};

/* What waits is known to the database alone. */
static void on_look(void *owner)
{
        struct overseer *overseer = owner;
        const json_t *sinks = json_object_get(watch_look(overseer->watch), "sinks");
        int64_t now_us = clock_monotonic_us();

        list_for_each (link, &overseer->telemetry->sinks) {
                struct sink_telemetry *sink = list_owner(link, struct sink_telemetry, link);
                const json_t *backlog =
                    json_object_get(json_object_get(sinks, sink->name), "backlog");

                if (backlog != NULL)
                        telemetry_set_backlog(sink,
                            json_integer_value(json_object_get(backlog, "events")),
                            json_number_value(json_object_get(backlog, "oldest_age")), now_us);
        }
}

struct overseer *overseer_create(uv_loop_t *loop, const struct config *config,
    const char *config_file, struct telemetry *telemetry, struct error *error)
{
        static const struct watch_events events = {.on_look = on_look};
        struct overseer *overseer = xcalloc(1, sizeof *overseer);

        overseer->telemetry = telemetry;
        overseer->admin = admin_create(loop,
            &(struct admin_options){.config = config->admin,
                .config_file = config_file,
                .telemetry = telemetry,
                .operations = &operations,
                .owner = overseer},
            error);
        if (overseer->admin == NULL) {
                free(overseer);
                return NULL;
        }
        overseer->watch = watch_create(loop, config, &events, overseer);
        errands_init(&overseer->errands, overseer->watch);
        watch_open(overseer->watch);
        log_info("admin_listening", kv_text("address", config->admin->listen));
        return overseer;
}

void overseer_take_config(struct overseer *overseer, const struct config *config)
{
        if (overseer == NULL)
                return;
        if (config->admin != NULL)
                admin_take_config(overseer->admin, config->admin);
        watch_set_sinks(overseer->watch, config);
}

void overseer_destroy(struct overseer *overseer)
{
        if (overseer == NULL)
                return;
        errands_end(&overseer->errands);
        admin_destroy(overseer->admin);
        watch_destroy(overseer->watch);
        free(overseer);
}
