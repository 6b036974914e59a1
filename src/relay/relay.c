/*
 * Owns everything that runs and wires it: the loop, the outbox's session, what
 * wakes it, the dispatchers of the sinks, the timers and the signals.
 *
 *   RUNNING -signal, done (once) or refused-> DRAINING -all at rest-> CLOSING -all closed-> end
 *
 * Each turn of the loop ends with one look at what the dispatchers want, so a
 * thousand answers in one turn cost one round of questions.
 */
#include "relay/relay_internal.h"

#include "base/alloc.h"
#include "base/backoff.h"
#include "base/clock.h"
#include "delivery/sharing.h"
#include "delivery/sink_set.h"
#include "log/log.h"
#include "loop/timer.h"
#include "operator/maintenance.h"
#include "outbox/marker.h"
#include "outbox/outbox.h"
#include "pg/dsn.h"
#include "pgcourier/version.h"
#include "relay/admin_backend.h"
#include "relay/portal_backend.h"
#include "relay/reload.h"
#include "relay/signals.h"
#include "relay/systemd.h"
#include "telemetry/telemetry.h"
#include "wakeup/schedule_timer.h"
#include "wakeup/waker.h"

#include <string.h>

static void on_standby(void *owner)
{
        struct relay *relay = owner;
        struct error error;

        if (!relay->once)
                return;
        error_set(&error, ERROR_TEMPORARY, "another relay owns a lane of this configuration");
        relay_fail(relay, &error);
}

static void on_sink_refused(void *owner, const char *sink, const char *reason)
{
        struct relay *relay = owner;

        outbox_write_pause(relay->outbox, sink, reason);
}

static void on_sink_recovered(void *owner, const char *sink)
{
        struct relay *relay = owner;

        outbox_remove_pause(relay->outbox, sink);
}

static bool on_sink_login_refused(void *owner, const char *sink)
{
        struct relay *relay = owner;

        return relay->state == RELAY_RUNNING && !relay->once &&
               reload_sink_refused(relay->reload, sink);
}

/* Looks for news without a notification: after reconnects, behind poolers, without the doorbell. */
static void on_sweep(void *owner)
{
        struct relay *relay = owner;
        const struct relay_config *config = &relay->config->relay;
        int64_t interval_ms =
            config->wakeup == WAKEUP_POLL ? config->poll_interval_ms : config->sweep_ms;
        /* So that relays that started together do not go on sweeping together. */
        int64_t jitter_ms = (int64_t)(((uint64_t)interval_ms * (random_u32() >> 8)) >> 24) / 8;

        telemetry_see_wakeup(
            relay->telemetry, config->wakeup == WAKEUP_POLL ? WAKEUP_BY_POLL : WAKEUP_BY_TIMER);
        log_tell_repeats(false);
        if (relay->waker != NULL)
                waker_check(relay->waker);
        sink_set_for_each (dispatcher, relay->sink_set)
                dispatcher_retry_login(dispatcher);
        relay_ring(relay);
        /* A poll looks for new events only; what operators do can wait for a sweep. */
        if (uv_now(&relay->loop) >= relay->controlled_ms + (uint64_t)config->sweep_ms * 7 / 8)
                relay_control(relay);
        timer_arm(relay->sweep, (uint64_t)(interval_ms - jitter_ms));
}

static void on_drain_limit(void *owner)
{
        struct relay *relay = owner;

        log_warn("drain_limit_reached",
            kv_text("consequence", "what was in flight is delivered again by the next relay"));
        sink_set_for_each (dispatcher, relay->sink_set)
                dispatcher_hurry(dispatcher);
        marker_give_up(relay->marker);
}

static void drain(struct relay *relay)
{
        if (relay->state != RELAY_RUNNING)
                return;
        relay->state = RELAY_DRAINING;
        telemetry_set_ready(relay->telemetry, "stopping");
        if (!relay->is_leaving)
                systemd_stopping(relay->systemd);
        timer_disarm(relay->leave_limit);
        timer_disarm(relay->sweep);
        schedule_timer_stop(relay->schedule_timer);
        maintenance_destroy(relay->maintenance);
        relay->maintenance = NULL;
        if (!timer_is_armed(relay->drain_limit))
                timer_arm(relay->drain_limit, (uint64_t)relay->config->relay.drain_ms);
        reload_stop(relay->reload);
        sink_set_drain(relay->sink_set);
        relay_mark_dirty(relay);
}

static void on_leave_limit(void *owner)
{
        drain(owner);
}

/* The others take its shards one after another, while it still delivers the rest. */
static void leave(struct relay *relay)
{
        relay->is_leaving = true;
        telemetry_set_ready(relay->telemetry, "stopping");
        systemd_stopping(relay->systemd);
        sharing_leave(relay->sharing);
        timer_arm(relay->leave_limit, (uint64_t)relay->config->relay.drain_ms / 2);
        timer_arm(relay->drain_limit, (uint64_t)relay->config->relay.drain_ms);
        relay_mark_dirty(relay);
}

static void on_stop(void *owner, const char *signal)
{
        struct relay *relay = owner;

        if (relay->state == RELAY_RUNNING && !relay->is_leaving) {
                log_info("stopping", kv_text("signal", signal));
                leave(relay);
        } else if (relay->state == RELAY_RUNNING) {
                drain(relay);
        } else if (relay->state == RELAY_DRAINING) {
                on_drain_limit(relay); /* the second signal */
        }
}

static void on_reload_wanted(void *owner)
{
        struct relay *relay = owner;

        if (relay->once)
                log_warn("reload_skipped", kv_text("reason", "it runs with --once"));
        else if (relay->state == RELAY_RUNNING)
                reload_ask(relay->reload);
}

static uint64_t ask_reload(void *owner)
{
        struct relay *relay = owner;

        return reload_ask(relay->reload);
}

static bool open_admin_backend(struct relay *relay, const struct config *config,
    struct admin_backend **out_admin_backend, struct error *error)
{
        static const struct admin_backend_events events = {
            .on_reload = ask_reload, .on_login_refused = relay_postgres_refused};

        if (config->admin == NULL || relay->once)
                return true;
        *out_admin_backend = admin_backend_create(&relay->loop, config, relay->options->config_path,
            relay->telemetry, relay->outbox, &events, relay, error);
        return *out_admin_backend != NULL;
}

static bool open_portal(struct relay *relay, const struct config *config,
    struct portal_backend **out_portal, struct error *error)
{
        if (config->portal == NULL || relay->once)
                return true;
        *out_portal =
            portal_backend_create(&relay->loop, config, relay_postgres_refused, relay, error);
        return *out_portal != NULL;
}

static void create_maintenance(struct relay *relay)
{
        static const struct maintenance_events events = {
            .on_login_refused = relay_postgres_refused};

        if (!relay->once)
                relay->maintenance =
                    maintenance_create(&relay->loop, relay->config, &events, relay);
}

static void on_begin(void *owner)
{
        struct relay *relay = owner;

        systemd_reloading(relay->systemd);
}

/* The endpoint listens already where the new configuration wants it. */
static bool listens_alike(const struct config *a, const struct config *b)
{
        return a->admin != NULL && b->admin != NULL &&
               strcmp(a->admin->listen, b->admin->listen) == 0;
}

static bool has_portal_there(const struct config *a, const struct config *b)
{
        return a->portal != NULL && b->portal != NULL &&
               strcmp(a->portal->listen, b->portal->listen) == 0;
}

static bool on_prepare(void *owner, const struct config *config, struct error *error)
{
        struct relay *relay = owner;

        return relay->options->prepare(relay->options->owner, config, error) &&
               (listens_alike(relay->config, config) ||
                   open_admin_backend(relay, config, &relay->next_admin_backend, error)) &&
               (has_portal_there(relay->config, config) ||
                   open_portal(relay, config, &relay->next_portal, error));
}

static void on_discard(void *owner)
{
        struct relay *relay = owner;

        admin_backend_destroy(relay->next_admin_backend);
        relay->next_admin_backend = NULL;
        portal_backend_destroy(relay->next_portal);
        relay->next_portal = NULL;
}

/* Another configuration is in force. Here, or in relay_reopen(), everything but the sinks follows
 * it. */
static void on_applied(void *owner, const struct config *old)
{
        struct relay *relay = owner;

        relay->options->apply(relay->options->owner, relay->config);
        if (listens_alike(old, relay->config))
                admin_backend_take_config(relay->admin_backend, relay->config);
        else
                relay->is_admin_moved = true; /* after this reload is answered */
        if (has_portal_there(old, relay->config)) {
                portal_backend_take_config(relay->portal, relay->config);
        } else {
                portal_backend_destroy(relay->portal);
                relay->portal = relay->next_portal;
                relay->next_portal = NULL;
        }
        if (relay->waker != NULL)
                waker_configure(relay->waker, &relay->config->relay);
        marker_configure(relay->marker, &relay->config->marks, &relay->config->postgres);
        relay_join(relay);
        sharing_configure(relay->sharing, relay->config->relay.standby_ms);
        /* A round under way has the old settings: it ends. */
        maintenance_destroy(relay->maintenance);
        relay->maintenance = NULL;
        create_maintenance(relay);
        if (relay->maintenance != NULL)
                maintenance_start(relay->maintenance);
        timer_arm(relay->sweep, 0);
}

static void on_reloaded(void *owner, const struct reload_result *result)
{
        struct relay *relay = owner;

        telemetry_see_reload(relay->telemetry, result->error != NULL ? result->error->text : NULL,
            clock_monotonic_us());
        admin_backend_reloaded(relay->admin_backend, result);
        systemd_reloaded(relay->systemd);
        if (!relay->is_admin_moved)
                return;
        relay->is_admin_moved = false;
        admin_backend_destroy(relay->admin_backend);
        relay->admin_backend = relay->next_admin_backend;
        relay->next_admin_backend = NULL;
}

static void create_reload(struct relay *relay)
{
        static const struct reload_events events = {.on_begin = on_begin,
            .on_postgres_read = relay_postgres_read,
            .prepare = on_prepare,
            .on_discard = on_discard,
            .on_applied = on_applied,
            .on_reopen = relay_reopen,
            .on_done = on_reloaded,
            .on_dirty = relay_mark_dirty};

        relay->reload = reload_create(&(struct reload_settings){.loop = &relay->loop,
                                          .outbox = relay->outbox,
                                          .sink_set = relay->sink_set,
                                          .config = &relay->config,
                                          .path = relay->options->config_path,
                                          .load = relay->options->load},
            &events, relay);
}

static void on_refresh(void *owner, int64_t now_us)
{
        const struct relay *relay = owner;

        if (relay->state == RELAY_CLOSING)
                return;
        sink_set_for_each (dispatcher, relay->sink_set)
                dispatcher_show(dispatcher, now_us);
}

static bool open_sinks(struct relay *relay)
{
        const struct config *config = relay->config;

        for (unsigned i = 0; i < config->n_sinks; i++)
                if (!sink_set_add(relay->sink_set, &config->sinks[i], &config->relay, relay->error))
                        return false;
        return true;
}

static bool is_any_owned(const struct relay *relay)
{
        sink_set_for_each (dispatcher, relay->sink_set)
                if (dispatcher_is_owned(dispatcher))
                        return true;
        return false;
}

static bool are_all_caught_up(const struct relay *relay)
{
        sink_set_for_each (dispatcher, relay->sink_set)
                if (!dispatcher_is_caught_up(dispatcher))
                        return false;
        return true;
}

static bool are_all_at_rest(const struct relay *relay)
{
        sink_set_for_each (dispatcher, relay->sink_set)
                if (!dispatcher_is_at_rest(dispatcher))
                        return false;
        return true;
}

/* The last lane has settled: its rows are marked, too. */
static bool are_marks_at_rest(struct relay *relay)
{
        marker_drain(relay->marker);
        return marker_is_at_rest(relay->marker);
}

/* A relay that reads nothing does not make writers ring. */
static void serve_waker(struct relay *relay)
{
        if (relay->waker == NULL)
                return;
        waker_own(relay->waker, relay->state == RELAY_RUNNING && is_any_owned(relay));
        waker_serve(relay->waker);
}

/* The time between two waits: events that arrived meanwhile had to wait for its end. */
static void note_turn(struct relay *relay)
{
        int64_t now_us = clock_monotonic_us();
        uint64_t idle_ns = uv_metrics_idle_time(&relay->loop);
        int64_t waited_us = (int64_t)((idle_ns - relay->idle_ns) / 1000);

        telemetry_see_turn(relay->telemetry, relay->turned_us + waited_us, now_us, clock_wall_us());
        relay->turned_us = now_us;
        relay->idle_ns = idle_ns;
}

/*
 * Teardown is the reverse of start(), in two stages: first what brings work, and
 * the sinks, whose connections need turns of the loop to close; then, when the last
 * sink has closed, everything else.
 */
static void close_sources(struct relay *relay)
{
        relay->state = RELAY_CLOSING;
        timer_disarm(relay->drain_limit);
        portal_backend_destroy(relay->next_portal);
        portal_backend_destroy(relay->portal);
        admin_backend_destroy(relay->next_admin_backend);
        admin_backend_destroy(relay->admin_backend);
        waker_destroy(relay->waker);
        outbox_close(relay->outbox); /* no answer comes from here on */
        marker_destroy(relay->marker);
        relay->marker = NULL;
        sink_set_close(relay->sink_set);
}

static void ignore_close(uv_handle_t *handle)
{
        (void)handle;
}

static void destroy_parts(struct relay *relay)
{
        systemd_destroy(relay->systemd);
        schedule_timer_destroy(relay->schedule_timer);
        reload_destroy(relay->reload);
        sink_set_destroy(relay->sink_set);
        sharing_destroy(relay->sharing);
        outbox_destroy(relay->outbox);
        timer_destroy(relay->drain_limit);
        timer_destroy(relay->leave_limit);
        timer_destroy(relay->sweep);
        signals_destroy(relay->signals);
        uv_close((uv_handle_t *)&relay->before_waiting, ignore_close);
}

static void on_empty(void *owner)
{
        struct relay *relay = owner;

        if (relay->state == RELAY_CLOSING)
                destroy_parts(relay);
}

static void pump(struct relay *relay)
{
        while (relay->work.is_pending && relay->state != RELAY_CLOSING) {
                relay->work.is_pending = false;
                if (relay->error->kind != ERROR_NONE)
                        drain(relay);
                serve_waker(relay);
                if (relay->state == RELAY_RUNNING && relay->is_leaving &&
                    sharing_has_left(relay->sharing))
                        drain(relay);
                if (relay->state == RELAY_RUNNING && !relay->is_leaving)
                        reload_serve(relay->reload);
                sink_set_serve(relay->sink_set);
                outbox_flush(relay->outbox);
                if (relay->work.has_settled)
                        marker_settled(relay->marker);
                relay->work.has_settled = false;

                if (relay->state == RELAY_RUNNING && relay->once &&
                    schedule_timer_is_caught_up(relay->schedule_timer) && are_all_caught_up(relay))
                        drain(relay);
                if (relay->state == RELAY_DRAINING && are_all_at_rest(relay) &&
                    are_marks_at_rest(relay))
                        close_sources(relay);
        }
}

/* The end of each turn of the loop. */
static void on_before_waiting(uv_prepare_t *handle)
{
        struct relay *relay = handle->data;

        pump(relay);
        relay->work.n_turn++;
        note_turn(relay);
}

static void start(struct relay *relay)
{
        static const struct sink_set_events sink_set_events = {.on_standby = on_standby,
            .on_login_refused = on_sink_login_refused,
            .on_refused = on_sink_refused,
            .on_recovered = on_sink_recovered,
            .on_empty = on_empty};
        static const struct signals_events signals_events = {
            .on_stop = on_stop, .on_reload = on_reload_wanted};

        work_init(&relay->work);
        uv_prepare_init(&relay->loop, &relay->before_waiting);
        relay->before_waiting.data = relay;
        uv_prepare_start(&relay->before_waiting, on_before_waiting);
        relay->signals = signals_create(&relay->loop, &signals_events, relay);
        relay->sweep = timer_create_on(&relay->loop, on_sweep, relay);
        relay->drain_limit = timer_create_on(&relay->loop, on_drain_limit, relay);
        relay->leave_limit = timer_create_on(&relay->loop, on_leave_limit, relay);
        relay_create_outbox(relay);
        relay_create_marker(relay);
        relay_create_waker(relay);
        relay->sink_set = sink_set_create(
            &relay->loop, relay->outbox, relay->telemetry, &relay->work, &sink_set_events, relay);
        if (!relay->once)
                relay->sharing = sharing_create(relay->sink_set);
        sharing_configure(relay->sharing, relay->config->relay.standby_ms);
        create_reload(relay);
        relay->schedule_timer = schedule_timer_create(&relay->loop, relay->outbox);
        relay->systemd = systemd_create(&relay->loop, relay->telemetry);
        create_maintenance(relay);
}

static bool run(struct relay *relay)
{
        struct error *error = relay->error;
        int status;

        if (!dsn_check(relay->config->postgres.dsn, error))
                return false;
        status = uv_loop_init(&relay->loop);
        if (status != 0)
                return error_set(error, ERROR_TEMPORARY, "the event loop cannot be set up: %s",
                    uv_strerror(status));
        uv_loop_configure(&relay->loop, UV_METRICS_IDLE_TIME);
        relay->turned_us = clock_monotonic_us();
        relay->telemetry = telemetry_create(relay->turned_us, clock_wall_us());
        relay->telemetry->on_refresh = on_refresh;
        relay->telemetry->owner = relay;
        start(relay);
        log_info("starting", kv_text("version", PGCOURIER_VERSION),
            kv_int("sinks", relay->config->n_sinks));
        if (open_sinks(relay) &&
            open_admin_backend(relay, relay->config, &relay->admin_backend, relay->error) &&
            open_portal(relay, relay->config, &relay->portal, relay->error)) {
                outbox_open(relay->outbox);
                on_sweep(relay);
                if (relay->waker != NULL)
                        waker_open(relay->waker);
        } else {
                drain(relay);
        }
        uv_run(&relay->loop, UV_RUN_DEFAULT);
        uv_loop_close(&relay->loop);
        telemetry_destroy(relay->telemetry);
        log_tell_repeats(true);
        log_info("stopped");
        return error->kind == ERROR_NONE;
}

bool relay_run(struct config *config, const struct relay_options *options, struct error *error)
{
        struct relay relay = {
            .config = config, .options = options, .once = options->once, .error = error};
        bool ok;

        error->kind = ERROR_NONE;
        ok = run(&relay);
        config_free(relay.config);
        return ok;
}
