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
#include "base/bytes.h"
#include "base/clock.h"
#include "delivery/sink_set.h"
#include "log/log.h"
#include "loop/timer.h"
#include "outbox/outbox.h"
#include "pg/dsn_check.h"
#include "pgcourier/version.h"
#include "relay/admin_backend.h"
#include "relay/reload.h"
#include "relay/retention_timer.h"
#include "relay/signals.h"
#include "relay/systemd.h"
#include "relay/systemd_status.h"
#include "telemetry/telemetry.h"
#include "wakeup/schedule_timer.h"
#include "wakeup/waker.h"

void relay_mark_dirty(void *owner)
{
        struct relay *relay = owner;

        relay->is_dirty = true;
}

void relay_ring_all(void *owner)
{
        struct relay *relay = owner;

        if (relay->state != RELAY_RUNNING)
                return;
        sink_set_ring(relay->sink_set);
}

void relay_look(void *owner, bool is_rung)
{
        struct relay *relay = owner;

        telemetry_see_wakeup(relay->telemetry, is_rung ? WAKEUP_BY_NOTIFY : WAKEUP_BY_POLL);
        relay_ring_all(relay);
}

/* Somebody changed by hand what is paused, parked or scheduled, or may have. */
static void on_control(void *owner)
{
        struct relay *relay = owner;

        if (relay->state != RELAY_RUNNING)
                return;
        telemetry_see_wakeup(relay->telemetry, WAKEUP_BY_CONTROL);
        relay->controlled_ms = uv_now(&relay->loop);
        outbox_read_pauses(relay->outbox);
        schedule_timer_look(relay->schedule_timer);
        sink_set_control(relay->sink_set);
}

/* The look that needs no notification: after reconnects, behind poolers, without the trigger. */
static void on_sweep(void *owner)
{
        struct relay *relay = owner;
        const struct relay_config *config = &relay->config->relay;
        int64_t interval_ms =
            config->wakeup == WAKEUP_POLL ? config->poll_interval_ms : config->sweep_ms;
        /* Relays that started together do not sweep together for ever. */
        int64_t jitter_ms = (int64_t)(((uint64_t)interval_ms * (random_u32() >> 8)) >> 24) / 8;

        telemetry_see_wakeup(
            relay->telemetry, config->wakeup == WAKEUP_POLL ? WAKEUP_BY_POLL : WAKEUP_BY_TIMER);
        log_tell_repeats(false);
        if (relay->waker != NULL)
                waker_check(relay->waker);
        sink_set_retry_logins(relay->sink_set);
        relay_ring_all(relay);
        /* A poll looks for new events only; what people do by hand can wait for a sweep. */
        if (uv_now(&relay->loop) >= relay->controlled_ms + (uint64_t)config->sweep_ms * 7 / 8)
                on_control(relay);
        timer_arm(relay->sweep, (uint64_t)(interval_ms - jitter_ms));
}

static void on_drain_limit(void *owner)
{
        struct relay *relay = owner;

        log_warn("drain_limit_reached",
            kv_text("consequence", "what was in flight is delivered again by the next relay"));
        sink_set_hurry(relay->sink_set);
}

static void drain(struct relay *relay)
{
        if (relay->state != RELAY_RUNNING)
                return;
        relay->state = RELAY_DRAINING;
        telemetry_set_ready(relay->telemetry, "stopping");
        systemd_stopping(relay->systemd);
        timer_disarm(relay->sweep);
        schedule_timer_stop(relay->schedule_timer);
        retention_timer_destroy(relay->retention_timer);
        relay->retention_timer = NULL;
        timer_arm(relay->drain_limit, (uint64_t)relay->config->relay.drain_ms);
        reload_stop(relay->reload);
        sink_set_drain(relay->sink_set);
        relay_mark_dirty(relay);
}

static void on_stop(void *owner, const char *signal)
{
        struct relay *relay = owner;

        if (relay->state == RELAY_RUNNING) {
                log_info("stopping", kv_text("signal", signal));
                drain(relay);
        } else if (relay->state == RELAY_DRAINING) {
                on_drain_limit(relay); /* asked twice: hurry */
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

static void fail(struct relay *relay, const struct error *error)
{
        if (relay->error->kind == ERROR_NONE)
                *relay->error = *error;
        drain(relay);
}

static void on_up(void *owner)
{
        struct relay *relay = owner;

        log_info("outbox_connected");
        telemetry_see_source_up(relay->telemetry);
        if (relay->state == RELAY_RUNNING)
                telemetry_set_ready(relay->telemetry, NULL);
        sink_set_session_up(relay->sink_set);
        schedule_timer_session_up(relay->schedule_timer);
        systemd_ready(relay->systemd);
        if (relay->retention_timer != NULL && relay->state == RELAY_RUNNING)
                retention_timer_start(relay->retention_timer);
}

static void on_tick(void *owner, int64_t next_ms)
{
        struct relay *relay = owner;

        schedule_timer_answer(relay->schedule_timer, next_ms);
        if (relay->once)
                relay_ring_all(relay); /* nobody else does */
}

static void on_pauses(void *owner, const struct pause_list *pauses)
{
        struct relay *relay = owner;

        sink_set_take_pauses(relay->sink_set, pauses);
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

void relay_sessions_down(struct relay *relay, const char *why)
{
        telemetry_see_source_down(relay->telemetry, why);
        if (relay->state == RELAY_RUNNING)
                telemetry_set_ready(relay->telemetry, "not connected to PostgreSQL");
        sink_set_session_down(relay->sink_set);
        reload_session_down(relay->reload);
        schedule_timer_session_down(relay->schedule_timer);
}

static void on_down(void *owner, const struct error *error, int64_t retry_ms)
{
        struct relay *relay = owner;

        relay_sessions_down(relay, error->text);
        if (error->kind == ERROR_LOGIN && relay_postgres_refused(relay))
                return;
        telemetry_see_login(relay->telemetry, error->kind == ERROR_LOGIN, clock_monotonic_us());
        if (relay->once) {
                fail(relay, error);
                return;
        }
        log_warn(
            "outbox_connection_lost", kv_text("error", error->text), kv_int("retry_ms", retry_ms));
        systemd_waiting(relay->systemd, error->text);
}

static void on_refused(void *owner, const struct error *error)
{
        struct relay *relay = owner;

        relay_sessions_down(relay, error->text);
        fail(relay, error);
}

static void on_standby(void *owner)
{
        struct relay *relay = owner;
        struct error error;

        if (!relay->once)
                return;
        error_set(&error, ERROR_TEMPORARY, "another relay owns a lane of this configuration");
        fail(relay, &error);
}

static void ignore_close(uv_handle_t *handle)
{
        (void)handle;
}

static void end(struct relay *relay)
{
        schedule_timer_destroy(relay->schedule_timer);
        systemd_destroy(relay->systemd);
        reload_destroy(relay->reload);
        sink_set_destroy(relay->sink_set);
        outbox_destroy(relay->outbox);
        timer_destroy(relay->sweep);
        timer_destroy(relay->drain_limit);
        uv_close((uv_handle_t *)&relay->before_waiting, ignore_close);
        signals_destroy(relay->signals);
}

static void on_empty(void *owner)
{
        struct relay *relay = owner;

        if (relay->state == RELAY_CLOSING)
                end(relay);
}

static void close_all(struct relay *relay)
{
        bool is_empty = sink_set_is_empty(relay->sink_set); /* nobody would say so */

        admin_backend_destroy(relay->admin_backend);
        admin_backend_destroy(relay->next_admin_backend);
        relay->admin_backend = NULL;
        relay->next_admin_backend = NULL;
        timer_disarm(relay->drain_limit);
        waker_destroy(relay->waker);
        relay->waker = NULL;
        outbox_close(relay->outbox); /* no answer comes from here on */
        relay->state = RELAY_CLOSING;
        sink_set_close(relay->sink_set);
        if (is_empty)
                end(relay);
}

/* A relay that reads nothing, or nothing any more, does not have writers ring. */
static void serve_waker(struct relay *relay)
{
        if (relay->waker == NULL)
                return;
        waker_own(
            relay->waker, relay->state == RELAY_RUNNING && sink_set_is_any_owned(relay->sink_set));
        waker_serve(relay->waker);
}

/* Between two waits, whatever came had to wait for this turn to end. */
static void note_turn(struct relay *relay)
{
        int64_t now_us = clock_monotonic_us();
        uint64_t idle_ns = uv_metrics_idle_time(&relay->loop);
        int64_t waited_us = (int64_t)((idle_ns - relay->idle_ns) / 1000);

        telemetry_see_turn(relay->telemetry, relay->turned_us + waited_us, now_us, clock_wall_us());
        relay->turned_us = now_us;
        relay->idle_ns = idle_ns;
}

static void on_refresh(void *owner, int64_t now_us)
{
        const struct relay *relay = owner;

        if (relay->state != RELAY_CLOSING)
                sink_set_show(relay->sink_set, now_us);
}

static void pump(struct relay *relay)
{
        while (relay->is_dirty && relay->state != RELAY_CLOSING) {
                relay->is_dirty = false;
                serve_waker(relay);
                if (relay->state == RELAY_RUNNING)
                        reload_serve(relay->reload);
                sink_set_serve(relay->sink_set);
                outbox_flush(relay->outbox);

                if (relay->state == RELAY_RUNNING && relay->once &&
                    schedule_timer_is_caught_up(relay->schedule_timer) &&
                    sink_set_is_caught_up(relay->sink_set))
                        drain(relay);
                if (relay->state == RELAY_DRAINING && sink_set_is_at_rest(relay->sink_set))
                        close_all(relay);
        }
}

/* The end of each turn of the loop. */
static void on_before_waiting(uv_prepare_t *handle)
{
        struct relay *relay = handle->data;

        pump(relay);
        note_turn(relay);
}

static void say_in_words(void *owner, struct bytes *out_words)
{
        const struct relay *relay = owner;

        systemd_status_append(out_words, relay->telemetry, clock_monotonic_us());
}

static void on_filter_checked(void *owner, const char *words)
{
        struct relay *relay = owner;

        reload_filter_checked(relay->reload, words);
}

static void on_filters_down(void *owner, const struct error *error, int64_t retry_ms)
{
        struct relay *relay = owner;

        if (error->kind == ERROR_LOGIN && relay_postgres_refused(relay))
                return;
        telemetry_see_filters(relay->telemetry, error->text, clock_monotonic_us());
        log_warn("filters_failed", kv_text("error", error->text), kv_int("retry_ms", retry_ms));
}

static void on_filters_up(void *owner)
{
        struct relay *relay = owner;

        telemetry_see_filters(relay->telemetry, NULL, 0);
        log_info("filters_recovered");
}

static bool open_sinks(struct relay *relay)
{
        const struct config *config = relay->config;

        for (unsigned i = 0; i < config->n_sinks; i++)
                if (!sink_set_add(relay->sink_set, &config->sinks[i], &config->relay, relay->error))
                        return false;
        return true;
}

static void start(struct relay *relay)
{
        static const struct sink_set_events sink_set_events = {.on_dirty = relay_mark_dirty,
            .on_standby = on_standby,
            .on_login_refused = relay_sink_refused,
            .on_refused = on_sink_refused,
            .on_recovered = on_sink_recovered,
            .on_empty = on_empty};
        static const struct signals_events signals_events = {
            .on_stop = on_stop, .on_reload = on_reload_wanted};
        static const struct outbox_events events = {.on_up = on_up,
            .on_pauses = on_pauses,
            .on_control = on_control,
            .on_down = on_down,
            .on_refused = on_refused,
            .on_tick = on_tick,
            .on_filters_down = on_filters_down,
            .on_filters_up = on_filters_up,
            .on_filter_checked = on_filter_checked};

        uv_prepare_init(&relay->loop, &relay->before_waiting);
        relay->before_waiting.data = relay;
        uv_prepare_start(&relay->before_waiting, on_before_waiting);
        relay->signals = signals_create(&relay->loop, &signals_events, relay);
        relay->sweep = timer_create_on(&relay->loop, on_sweep, relay);
        relay->drain_limit = timer_create_on(&relay->loop, on_drain_limit, relay);
        relay->outbox = outbox_create(&relay->loop, &relay->config->postgres, &events, relay);
        relay_create_waker(relay);
        relay->sink_set =
            sink_set_create(&relay->loop, relay->outbox, relay->telemetry, &sink_set_events, relay);
        relay_create_reload(relay);
        relay->schedule_timer = schedule_timer_create(&relay->loop, relay->outbox);
        relay->systemd = systemd_create(&relay->loop, say_in_words, relay);
        relay_create_retention_timer(relay);
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
            relay_open_admin_backend(relay, relay->config, &relay->admin_backend, relay->error)) {
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
