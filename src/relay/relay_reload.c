/* What else than sinks follows another configuration: the session, what wakes the relay, the admin
 * endpoint, the process. */
#include "base/clock.h"
#include "loop/timer.h"
#include "outbox/outbox.h"
#include "relay/admin_backend.h"
#include "relay/relay_internal.h"
#include "relay/reload.h"
#include "relay/retention_timer.h"
#include "relay/systemd.h"
#include "telemetry/telemetry.h"
#include "wakeup/waker.h"

#include <string.h>

void relay_create_waker(struct relay *relay)
{
        static const struct waker_events events = {.on_look = relay_look,
            .on_dirty = relay_mark_dirty,
            .on_login_refused = relay_postgres_refused};

        if (relay->config->relay.wakeup == WAKEUP_NOTIFY && !relay->once)
                relay->waker =
                    waker_create(&relay->loop, relay->config, relay->outbox, &events, relay);
        else
                outbox_listen(relay->outbox, NULL, NULL);
}

void relay_create_retention_timer(struct relay *relay)
{
        static const struct retention_timer_events events = {
            .on_login_refused = relay_postgres_refused};

        if (!relay->once)
                relay->retention_timer =
                    retention_timer_create(&relay->loop, relay->config, &events, relay);
}

static uint64_t ask_reload(void *owner)
{
        struct relay *relay = owner;

        return reload_ask(relay->reload);
}

bool relay_open_admin_backend(struct relay *relay, const struct config *config,
    struct admin_backend **out_admin_backend, struct error *error)
{
        static const struct admin_backend_events events = {
            .on_reload = ask_reload, .on_login_refused = relay_postgres_refused};

        if (config->admin == NULL || relay->once)
                return true;
        *out_admin_backend = admin_backend_create(&relay->loop, config, relay->options->config_path,
            relay->telemetry, &events, relay, error);
        return *out_admin_backend != NULL;
}

static void on_begin(void *owner)
{
        struct relay *relay = owner;

        systemd_reloading(relay->systemd);
}

/* One listens already where the new configuration wants it. */
static bool listens_alike(const struct config *a, const struct config *b)
{
        return a->admin != NULL && b->admin != NULL &&
               strcmp(a->admin->listen, b->admin->listen) == 0;
}

static bool on_prepare(void *owner, const struct config *config, struct error *error)
{
        struct relay *relay = owner;

        return relay->options->prepare(relay->options->owner, config, error) &&
               (listens_alike(relay->config, config) ||
                   relay_open_admin_backend(relay, config, &relay->next_admin_backend, error));
}

static void on_discard(void *owner)
{
        struct relay *relay = owner;

        admin_backend_destroy(relay->next_admin_backend);
        relay->next_admin_backend = NULL;
}

/* Another configuration is in force. Everything that follows the file and belongs to no sink does so
 * here, or in on_reopen(). */
static void on_applied(void *owner, const struct config *old)
{
        struct relay *relay = owner;

        relay->options->apply(relay->options->owner, relay->config);
        if (listens_alike(old, relay->config))
                admin_backend_take_config(relay->admin_backend, relay->config);
        else
                relay->is_overseer_moved = true; /* whoever asked for this gets his answer first */
        if (relay->waker != NULL)
                waker_configure(relay->waker, &relay->config->relay);
        retention_timer_destroy(
            relay->retention_timer); /* a round under way has the settings of before */
        relay->retention_timer = NULL;
        relay_create_retention_timer(relay);
        if (relay->retention_timer != NULL)
                retention_timer_start(relay->retention_timer);
        timer_arm(relay->sweep, 0);
}

/* No lane is ours. */
static void on_reopen(void *owner)
{
        struct relay *relay = owner;

        outbox_close(relay->outbox);
        relay_sessions_down(relay, "the settings of PostgreSQL have changed");
        waker_destroy(relay->waker);
        relay->waker = NULL;
        outbox_configure(relay->outbox, &relay->config->postgres);
        relay_create_waker(relay);
        outbox_open(relay->outbox);
        if (relay->waker != NULL)
                waker_open(relay->waker);
        admin_backend_reopen(relay->admin_backend, relay->config);
}

static void on_reloaded(void *owner, const struct reload_result *result)
{
        struct relay *relay = owner;

        telemetry_see_reload(relay->telemetry, result->error != NULL ? result->error->text : NULL,
            clock_monotonic_us());
        admin_backend_reloaded(relay->admin_backend, result);
        systemd_reloaded(relay->systemd);
        if (!relay->is_overseer_moved)
                return;
        relay->is_overseer_moved = false;
        admin_backend_destroy(relay->admin_backend);
        relay->admin_backend = relay->next_admin_backend;
        relay->next_admin_backend = NULL;
}

void relay_create_reload(struct relay *relay)
{
        static const struct reload_events events = {.on_begin = on_begin,
            .on_postgres_read = relay_postgres_read,
            .prepare = on_prepare,
            .on_discard = on_discard,
            .on_applied = on_applied,
            .on_reopen = on_reopen,
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
