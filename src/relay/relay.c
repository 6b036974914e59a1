/*
 * Owns everything that runs and wires it: the loop, the outbox's session, what
 * wakes it, one carrier for each sink, the timers and the signals.
 *
 *   RUNNING -signal, done (once) or refused-> DRAINING -all at rest-> CLOSING -all closed-> end
 *
 * Each turn of the loop ends with one look at what the carriers want, so a
 * thousand answers in one turn cost one round of questions.
 */
#include "relay/relay.h"

#include "base/alloc.h"
#include "base/bytes.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/random.h"
#include "loop/timer.h"
#include "outbox/outbox.h"
#include "outbox/pg_words.h"
#include "pgcourier/version.h"
#include "relay/carrier.h"
#include "relay/overseer.h"
#include "relay/service.h"
#include "relay/ticker.h"
#include "relay/waker.h"
#include "telemetry/telemetry.h"

#include <signal.h>
#include <stdlib.h>

enum relay_state { RELAY_RUNNING, RELAY_DRAINING, RELAY_CLOSING };

struct relay {
        const struct config *config; /* borrowed */
        bool once;
        uv_loop_t loop;
        enum relay_state state;
        struct error *error; /* the caller's; kind ERROR_NONE while all is well */

        struct telemetry *telemetry; /* owned */
        struct overseer *overseer;   /* owned; NULL without a block `admin`, or once */
        int64_t turned_us;           /* the last turn of the loop ended then */
        uint64_t idle_ns;            /* and it had waited for so long in all */

        struct outbox *outbox;     /* owned */
        struct ticker *ticker;     /* owned */
        struct service *service;   /* owned */
        struct waker *waker;       /* owned; NULL with wakeup: poll, or once */
        struct carrier **carriers; /* owned; one for each sink */
        unsigned n_carriers;
        unsigned n_open; /* carriers not yet closed */
        bool is_dirty;   /* some carrier has something to do */

        uint64_t controlled_ms; /* loop time of the last on_control() */

        struct timer *sweep;
        struct timer *drain_limit;
        uv_prepare_t before_waiting;
        uv_signal_t signals[2];
};

static void on_dirty(void *owner)
{
        struct relay *relay = owner;

        relay->is_dirty = true;
}

static void ring_all(void *owner)
{
        struct relay *relay = owner;

        if (relay->state != RELAY_RUNNING)
                return;
        for (unsigned i = 0; i < relay->n_carriers; i++)
                carrier_ring(relay->carriers[i]);
}

static void on_look(void *owner, bool is_rung)
{
        struct relay *relay = owner;

        telemetry_see_wakeup(relay->telemetry, is_rung ? WAKEUP_BY_NOTIFY : WAKEUP_BY_POLL);
        ring_all(relay);
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
        ticker_look(relay->ticker);
        for (unsigned i = 0; i < relay->n_carriers; i++)
                carrier_control(relay->carriers[i]);
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
        if (relay->waker != NULL)
                waker_check(relay->waker);
        ring_all(relay);
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
        for (unsigned i = 0; i < relay->n_carriers; i++)
                carrier_cancel(relay->carriers[i]);
}

static void drain(struct relay *relay)
{
        if (relay->state != RELAY_RUNNING)
                return;
        relay->state = RELAY_DRAINING;
        telemetry_set_ready(relay->telemetry, "stopping");
        service_stopping(relay->service);
        timer_disarm(relay->sweep);
        ticker_stop(relay->ticker);
        timer_arm(relay->drain_limit, (uint64_t)relay->config->relay.drain_ms);
        for (unsigned i = 0; i < relay->n_carriers; i++)
                carrier_drain(relay->carriers[i]);
        on_dirty(relay);
}

static void on_signal(uv_signal_t *handle, int number)
{
        struct relay *relay = handle->data;

        if (relay->state == RELAY_RUNNING) {
                log_info("stopping", kv_text("signal", number == SIGTERM ? "SIGTERM" : "SIGINT"));
                drain(relay);
        } else if (relay->state == RELAY_DRAINING) {
                on_drain_limit(relay); /* asked twice: hurry */
        }
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
        for (unsigned i = 0; i < relay->n_carriers; i++)
                carrier_session_up(relay->carriers[i]);
        ticker_session_up(relay->ticker);
        service_ready(relay->service);
}

static void on_tick(void *owner, int64_t next_ms)
{
        struct relay *relay = owner;

        ticker_answer(relay->ticker, next_ms);
        if (relay->once)
                ring_all(relay); /* nobody else does */
}

static void on_pauses(void *owner, const struct pause_list *pauses)
{
        struct relay *relay = owner;

        for (unsigned i = 0; i < relay->n_carriers; i++)
                carrier_take_pauses(relay->carriers[i], pauses);
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

static void on_pooled(void *owner)
{
        (void)owner;
        log_warn("pooler_in_between",
            kv_text("hint", "lanes are owned by sessions: connect directly, or through a pool in "
                            "session mode"));
}

static void sessions_down(struct relay *relay, const struct error *error)
{
        telemetry_see_source_down(relay->telemetry, error->text);
        if (relay->state == RELAY_RUNNING)
                telemetry_set_ready(relay->telemetry, "not connected to PostgreSQL");
        for (unsigned i = 0; i < relay->n_carriers; i++)
                carrier_session_down(relay->carriers[i]);
        ticker_session_down(relay->ticker);
}

static void on_down(void *owner, const struct error *error, int64_t retry_ms)
{
        struct relay *relay = owner;

        sessions_down(relay, error);
        if (relay->once) {
                fail(relay, error);
                return;
        }
        log_warn(
            "outbox_connection_lost", kv_text("error", error->text), kv_int("retry_ms", retry_ms));
        service_waiting(relay->service, error->text);
}

static void on_refused(void *owner, const struct error *error)
{
        struct relay *relay = owner;

        sessions_down(relay, error);
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
        ticker_destroy(relay->ticker);
        service_destroy(relay->service);
        outbox_destroy(relay->outbox);
        timer_destroy(relay->sweep);
        timer_destroy(relay->drain_limit);
        uv_close((uv_handle_t *)&relay->before_waiting, ignore_close);
        uv_close((uv_handle_t *)&relay->signals[0], ignore_close);
        uv_close((uv_handle_t *)&relay->signals[1], ignore_close);
}

static void on_closed(void *owner)
{
        struct relay *relay = owner;

        if (--relay->n_open == 0)
                end(relay);
}

static void close_all(struct relay *relay)
{
        relay->state = RELAY_CLOSING;
        overseer_destroy(relay->overseer);
        relay->overseer = NULL;
        timer_disarm(relay->drain_limit);
        waker_destroy(relay->waker);
        relay->waker = NULL;
        outbox_close(relay->outbox); /* no answer comes from here on */
        for (unsigned i = 0; i < relay->n_carriers; i++)
                carrier_close(relay->carriers[i]);
        if (relay->n_carriers == 0)
                end(relay);
}

static bool all_carriers(const struct relay *relay, bool (*are)(const struct carrier *carrier))
{
        for (unsigned i = 0; i < relay->n_carriers; i++)
                if (!are(relay->carriers[i]))
                        return false;
        return true;
}

static bool is_any_owned(const struct relay *relay)
{
        for (unsigned i = 0; i < relay->n_carriers; i++)
                if (carrier_is_owned(relay->carriers[i]))
                        return true;
        return false;
}

/* A relay that reads nothing, or nothing any more, does not have writers ring. */
static void serve_waker(struct relay *relay)
{
        if (relay->waker == NULL)
                return;
        waker_own(relay->waker, relay->state == RELAY_RUNNING && is_any_owned(relay));
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

        for (unsigned i = 0; relay->state != RELAY_CLOSING && i < relay->n_carriers; i++)
                carrier_show(relay->carriers[i], now_us);
}

static void pump(struct relay *relay)
{
        while (relay->is_dirty && relay->state != RELAY_CLOSING) {
                relay->is_dirty = false;
                serve_waker(relay);
                for (unsigned i = 0; i < relay->n_carriers; i++)
                        carrier_pump(relay->carriers[i]);
                outbox_flush(relay->outbox);

                if (relay->state == RELAY_RUNNING && relay->once &&
                    ticker_is_caught_up(relay->ticker) && all_carriers(relay, carrier_is_caught_up))
                        drain(relay);
                if (relay->state == RELAY_DRAINING && all_carriers(relay, carrier_is_at_rest))
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

/* For the service manager: which sinks are this relay's to deliver to. */
static void say_in_words(void *owner, struct bytes *out_words)
{
        const struct relay *relay = owner;
        unsigned n_owned = 0;

        for (unsigned i = 0; i < relay->n_carriers; i++)
                n_owned += carrier_is_owned(relay->carriers[i]);
        bytes_printf(out_words, "delivering to %u of %u sinks", n_owned, relay->n_carriers);
        if (n_owned < relay->n_carriers)
                bytes_printf(out_words, ", standing by for %u", relay->n_carriers - n_owned);
}

static bool open_carriers(struct relay *relay)
{
        static const struct carrier_events events = {.on_dirty = on_dirty,
            .on_standby = on_standby,
            .on_refused = on_sink_refused,
            .on_recovered = on_sink_recovered,
            .on_closed = on_closed};
        const struct config *config = relay->config;

        relay->carriers = xcalloc(config->n_sinks, sizeof(struct carrier *));
        for (unsigned i = 0; i < config->n_sinks; i++) {
                relay->carriers[i] = carrier_create(&relay->loop, &config->sinks[i], &config->relay,
                    relay->outbox, relay->telemetry, &events, relay, relay->error);
                if (relay->carriers[i] == NULL)
                        return false;
                relay->n_carriers++;
                relay->n_open++;
        }
        return true;
}

static bool open_overseer(struct relay *relay, const struct relay_options *options)
{
        if (relay->config->admin == NULL || relay->once)
                return true;
        relay->overseer = overseer_create(
            &relay->loop, relay->config, options->config_path, relay->telemetry, relay->error);
        return relay->overseer != NULL;
}

static void start_signals(struct relay *relay)
{
        static const int numbers[2] = {SIGTERM, SIGINT};

        for (int i = 0; i < 2; i++) {
                uv_signal_init(&relay->loop, &relay->signals[i]);
                relay->signals[i].data = relay;
                uv_signal_start(&relay->signals[i], on_signal, numbers[i]);
        }
}

static void start(struct relay *relay)
{
        static const struct waker_events waker_events = {.on_look = on_look, .on_dirty = on_dirty};
        static const struct outbox_events events = {.on_up = on_up,
            .on_pauses = on_pauses,
            .on_pooled = on_pooled,
            .on_control = on_control,
            .on_down = on_down,
            .on_refused = on_refused,
            .on_tick = on_tick};

        uv_prepare_init(&relay->loop, &relay->before_waiting);
        relay->before_waiting.data = relay;
        uv_prepare_start(&relay->before_waiting, on_before_waiting);
        start_signals(relay);
        relay->sweep = timer_create_on(&relay->loop, on_sweep, relay);
        relay->drain_limit = timer_create_on(&relay->loop, on_drain_limit, relay);
        relay->outbox = outbox_create(&relay->loop, &relay->config->postgres, &events, relay);
        if (relay->config->relay.wakeup == WAKEUP_NOTIFY && !relay->once)
                relay->waker =
                    waker_create(&relay->loop, relay->config, relay->outbox, &waker_events, relay);
        relay->ticker = ticker_create(&relay->loop, relay->outbox);
        relay->service = service_create(&relay->loop, say_in_words, relay);
}

bool relay_run(
    const struct config *config, const struct relay_options *options, struct error *error)
{
        struct relay relay = {.config = config, .once = options->once, .error = error};
        int status;

        error->kind = ERROR_NONE;
        if (!dsn_check(config->postgres.dsn, error))
                return false;
        status = uv_loop_init(&relay.loop);
        if (status != 0)
                return error_set(error, ERROR_TEMPORARY, "the event loop cannot be set up: %s",
                    uv_strerror(status));
        uv_loop_configure(&relay.loop, UV_METRICS_IDLE_TIME);
        relay.turned_us = clock_monotonic_us();
        relay.telemetry = telemetry_create(relay.turned_us, clock_wall_us());
        relay.telemetry->on_refresh = on_refresh;
        relay.telemetry->owner = &relay;
        start(&relay);
        log_info(
            "starting", kv_text("version", PGCOURIER_VERSION), kv_int("sinks", config->n_sinks));
        if (open_carriers(&relay) && open_overseer(&relay, options)) {
                outbox_open(relay.outbox);
                on_sweep(&relay);
                if (relay.waker != NULL)
                        waker_open(relay.waker);
        } else {
                drain(&relay);
        }
        uv_run(&relay.loop, UV_RUN_DEFAULT);
        uv_loop_close(&relay.loop);
        free(relay.carriers);
        telemetry_destroy(relay.telemetry);
        log_info("stopped");
        return error->kind == ERROR_NONE;
}
