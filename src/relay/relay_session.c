/*
 * The relay and PostgreSQL: what the session tells the relay, what follows when it
 * is lost, and credentials that have changed. When a login is refused, the files
 * that the configuration names are read again (relay/reload.h), and what they say
 * by now is tried before the refusal is reported. If they say the same as before,
 * the refusal is reported with the next try, which follows soon.
 */
#include "base/clock.h"
#include "config/compare.h"
#include "delivery/sharing.h"
#include "delivery/sink_set.h"
#include "log/log.h"
#include "operator/maintenance.h"
#include "outbox/marker.h"
#include "outbox/outbox.h"
#include "relay/admin_backend.h"
#include "relay/portal_backend.h"
#include "relay/relay_internal.h"
#include "relay/reload.h"
#include "relay/systemd.h"
#include "telemetry/telemetry.h"
#include "wakeup/schedule_timer.h"
#include "wakeup/waker.h"

#include <jansson.h>
#include <stdlib.h>
#include <unistd.h>

/* For so long the files are known to have no other credentials. Longer than the pause between two
 * rounds of retention, which log in each time. */
enum { KNOWN_MS = 60 * 1000 };

void relay_mark_dirty(void *owner)
{
        struct relay *relay = owner;

        relay->work.is_pending = true;
}

void relay_ring(void *owner)
{
        struct relay *relay = owner;

        if (relay->state != RELAY_RUNNING)
                return;
        sink_set_for_each (dispatcher, relay->sink_set)
                dispatcher_ring(dispatcher);
}

void relay_fail(struct relay *relay, const struct error *error)
{
        if (relay->error->kind == ERROR_NONE)
                *relay->error = *error;
        relay_mark_dirty(relay);
}

void relay_control(void *owner)
{
        struct relay *relay = owner;

        if (relay->state != RELAY_RUNNING)
                return;
        telemetry_see_wakeup(relay->telemetry, WAKEUP_BY_CONTROL);
        relay->controlled_ms = uv_now(&relay->loop);
        outbox_read_pauses(relay->outbox);
        sharing_look(relay->sharing);
        schedule_timer_look(relay->schedule_timer);
        sink_set_for_each (dispatcher, relay->sink_set)
                dispatcher_control(dispatcher);
}

static void on_poll(void *owner, bool is_rung)
{
        struct relay *relay = owner;

        telemetry_see_wakeup(relay->telemetry, is_rung ? WAKEUP_BY_NOTIFY : WAKEUP_BY_POLL);
        relay_ring(relay);
}

void relay_create_waker(struct relay *relay)
{
        static const struct waker_events events = {.on_poll = on_poll,
            .on_dirty = relay_mark_dirty,
            .on_login_refused = relay_postgres_refused};

        if (relay->config->relay.wakeup == WAKEUP_NOTIFY && !relay->once)
                relay->waker =
                    waker_create(&relay->loop, relay->config, relay->outbox, &events, relay);
        else
                outbox_listen(relay->outbox, NULL, NULL);
}

/* Every connection: those that are there stay, those that wait are tried at once. */
static void use_postgres(struct relay *relay, struct config *other)
{
        const struct postgres_config old = relay->config->postgres;

        relay->config->postgres = other->postgres;
        other->postgres = old;
        outbox_configure(relay->outbox, &relay->config->postgres);
        if (relay->waker != NULL)
                waker_configure_connection(relay->waker, &relay->config->postgres);
        if (relay->maintenance != NULL)
                maintenance_configure(relay->maintenance, &relay->config->postgres);
        marker_configure(relay->marker, &relay->config->marks, &relay->config->postgres);
        admin_backend_configure(relay->admin_backend, &relay->config->postgres);
        portal_backend_configure(relay->portal, &relay->config->postgres);
}

bool relay_postgres_refused(void *owner)
{
        struct relay *relay = owner;
        bool is_known;

        if (relay->state != RELAY_RUNNING || relay->once)
                return false;
        is_known =
            relay->refused_with_ms != 0 && uv_now(&relay->loop) < relay->refused_with_ms + KNOWN_MS;
        return reload_postgres_refused(relay->reload) && !is_known;
}

void relay_postgres_read(void *owner, struct config *other)
{
        struct relay *relay = owner;

        if (other == NULL ||
            postgres_configs_are_equal(&relay->config->postgres, &other->postgres)) {
                relay->refused_with_ms = uv_now(&relay->loop);
                return;
        }
        log_info("credentials_read", kv_text("of", "postgres"));
        use_postgres(relay, other);
        relay->refused_with_ms = 0;
}

static void on_up(void *owner)
{
        struct relay *relay = owner;

        log_info("outbox_connected");
        telemetry_see_source_up(relay->telemetry);
        if (relay->state == RELAY_RUNNING && !relay->is_leaving)
                telemetry_set_ready(relay->telemetry, NULL);
        if (relay->waker != NULL)
                waker_session_up(relay->waker);
        sink_set_session_up(relay->sink_set);
        schedule_timer_session_up(relay->schedule_timer);
        systemd_ready(relay->systemd);
        if (relay->maintenance != NULL && relay->state == RELAY_RUNNING)
                maintenance_start(relay->maintenance);
}

static void on_tick(void *owner, int64_t next_ms)
{
        struct relay *relay = owner;

        schedule_timer_answer(relay->schedule_timer, next_ms);
        if (relay->once)
                relay_ring(relay); /* without a waker */
}

static void on_pauses(void *owner, const struct pause_list *pauses)
{
        struct relay *relay = owner;

        sink_set_for_each (dispatcher, relay->sink_set)
                dispatcher_take_pauses(dispatcher, pauses);
}

static void on_division(void *owner, const char *sink)
{
        struct relay *relay = owner;

        sink_set_for_each (dispatcher, relay->sink_set)
                dispatcher_note_division(dispatcher, sink);
}

static void on_members_news(void *owner)
{
        const struct relay *relay = owner;

        if (relay->state == RELAY_RUNNING)
                sharing_look(relay->sharing);
}

static void on_members(void *owner, const struct view *view)
{
        const struct relay *relay = owner;

        if (relay->state == RELAY_RUNNING)
                sharing_take_view(relay->sharing, view);
}

static void on_marks(void *owner, bool has_marks)
{
        struct relay *relay = owner;

        if (relay->state == RELAY_RUNNING)
                marker_want(relay->marker, has_marks);
}

static void see_marks_failing(struct relay *relay, const char *words)
{
        telemetry_see_marks_failing(relay->telemetry, words, clock_monotonic_us());
        relay->are_marks_failing = words != NULL;
}

static void on_marks_report(void *owner, const struct marks_report *report)
{
        struct relay *relay = owner;

        telemetry_see_marks(relay->telemetry, report->n_marked, report->n_failed, report->n_dead);
        if (report->n_marked > 0)
                log_debug("marked", kv_int("events", report->n_marked));
        if (report->n_dead > 0)
                log_error("marks_given_up", kv_int("events", report->n_dead),
                    kv_text("error", report->error));
        if (report->error != NULL) {
                log_warn("marks_failing", kv_int("attachments", report->n_troubled),
                    kv_int("failed", report->n_failed), kv_text("error", report->error));
                see_marks_failing(relay, report->error);
        } else if (relay->are_marks_failing && report->n_troubled == 0) {
                log_info("marks_recovered");
                see_marks_failing(relay, NULL);
        }
}

/* While the outbox cannot be reached, either, that is told once. */
static void on_marks_failed(void *owner, const struct error *error, int64_t retry_ms)
{
        struct relay *relay = owner;

        if (error->kind == ERROR_LOGIN && relay_postgres_refused(relay))
                return;
        if (outbox_is_up(relay->outbox))
                log_warn(
                    "marks_failing", kv_text("error", error->text), kv_int("retry_ms", retry_ms));
        see_marks_failing(relay, error->text);
}

void relay_create_marker(struct relay *relay)
{
        static const struct marker_events events = {.on_report = on_marks_report,
            .on_failed = on_marks_failed,
            .on_rest = relay_mark_dirty};

        relay->marker = marker_create(&relay->loop, relay->config, &events, relay);
}

static void sessions_down(struct relay *relay, const char *why)
{
        telemetry_see_source_down(relay->telemetry, why);
        if (relay->state == RELAY_RUNNING)
                telemetry_set_ready(relay->telemetry, "not connected to PostgreSQL");
        if (relay->waker != NULL)
                waker_session_down(relay->waker);
        sink_set_session_down(relay->sink_set);
        sharing_session_down(relay->sharing);
        reload_session_down(relay->reload);
        schedule_timer_session_down(relay->schedule_timer);
}

static void on_down(void *owner, const struct error *error, int64_t retry_ms)
{
        struct relay *relay = owner;

        sessions_down(relay, error->text);
        if (error->kind == ERROR_LOGIN && relay_postgres_refused(relay))
                return;
        telemetry_see_login(relay->telemetry, error->kind == ERROR_LOGIN, clock_monotonic_us());
        if (relay->once) {
                relay_fail(relay, error);
                return;
        }
        log_warn(
            "outbox_connection_lost", kv_text("error", error->text), kv_int("retry_ms", retry_ms));
        systemd_waiting(relay->systemd, error->text);
}

static void on_refused(void *owner, const struct error *error)
{
        struct relay *relay = owner;

        sessions_down(relay, error->text);
        relay_fail(relay, error);
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

/* Once for each reason, and then once a minute at most. */
static void on_attempts_lost(void *owner, uint64_t n_attempts, const char *words)
{
        struct relay *relay = owner;

        if (telemetry_see_attempts_lost(relay->telemetry, n_attempts, words, clock_monotonic_us()))
                log_warn("attempts_lost", kv_int("attempts", (int64_t)n_attempts),
                    kv_text("reason", words));
}

void relay_create_outbox(struct relay *relay)
{
        static const struct outbox_events events = {.on_up = on_up,
            .on_pauses = on_pauses,
            .on_marks = on_marks,
            .on_division = on_division,
            .on_members_news = on_members_news,
            .on_members = on_members,
            .on_control = relay_control,
            .on_down = on_down,
            .on_refused = on_refused,
            .on_tick = on_tick,
            .on_filters_down = on_filters_down,
            .on_filters_up = on_filters_up,
            .on_attempts_lost = on_attempts_lost,
            .on_filter_checked = on_filter_checked};

        relay->outbox = outbox_create(&relay->loop, &relay->config->postgres, &events, relay);
        if (!relay->once)
                relay_join(relay);
}

void relay_join(struct relay *relay)
{
        const struct config *config = relay->config;
        json_t *shards = json_object();
        char host[256] = "";
        char *text;

        for (unsigned i = 0; i < config->n_sinks; i++)
                json_object_set_new(
                    shards, config->sinks[i].name, json_integer(config->sinks[i].shards));
        text = json_dumps(shards, JSON_COMPACT);
        gethostname(host, sizeof host - 1);
        outbox_join(relay->outbox, &(struct membership){.name = config->relay.name,
                                       .host = host,
                                       .weight = config->relay.weight,
                                       .shards = text});
        free(text);
        json_decref(shards);
}

/* No lane is ours. */
void relay_reopen(void *owner)
{
        struct relay *relay = owner;

        outbox_close(relay->outbox);
        sessions_down(relay, "the settings of PostgreSQL have changed");
        waker_destroy(relay->waker);
        relay->waker = NULL;
        outbox_configure(relay->outbox, &relay->config->postgres);
        relay_create_waker(relay);
        outbox_open(relay->outbox);
        marker_reopen(relay->marker);
        if (relay->waker != NULL)
                waker_open(relay->waker);
        admin_backend_reopen(relay->admin_backend, relay->config);
        portal_backend_reopen(relay->portal, &relay->config->postgres);
}
