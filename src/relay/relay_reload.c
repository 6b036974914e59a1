/* What else than sinks follows another configuration: the session, what wakes the relay, the admin
 * endpoint, the process. */
#include "base/clock.h"
#include "loop/timer.h"
#include "outbox/outbox.h"
#include "relay/admin_backend.h"
#include "relay/relay_internal.h"
#include "relay/reload.h"
#include "relay/retention.h"
#include "relay/systemd.h"
#include "telemetry/telemetry.h"
#include "wakeup/wakeup.h"

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

void relay_create_keeper(struct relay *relay)
{
        static const struct keeper_events events = {.on_login_refused = relay_postgres_refused};

        if (!relay->once)
                relay->keeper = keeper_create(&relay->loop, relay->config, &events, relay);
}

static uint64_t ask_reload(void *owner)
{
        struct relay *relay = owner;

        return reload_ask(relay->reload);
}

bool relay_open_overseer(struct relay *relay, const struct config *config,
    struct overseer **out_overseer, struct error *error)
{
        static const struct overseer_events events = {
            .on_reload = ask_reload, .on_login_refused = relay_postgres_refused};

        if (config->admin == NULL || relay->once)
                return true;
        *out_overseer = overseer_create(&relay->loop, config, relay->options->config_path,
            relay->telemetry, &events, relay, error);
        return *out_overseer != NULL;
}

static void on_begin(void *owner)
{
        struct relay *relay = owner;

        service_reloading(relay->service);
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
                   relay_open_overseer(relay, config, &relay->next_overseer, error));
}

static void on_discard(void *owner)
{
        struct relay *relay = owner;

        overseer_destroy(relay->next_overseer);
        relay->next_overseer = NULL;
}

/* Another configuration is in force. Everything that follows the file and belongs to no sink does so
 * here, or in on_reopen(). */
static void on_applied(void *owner, const struct config *old)
{
        struct relay *relay = owner;

        relay->options->apply(relay->options->owner, relay->config);
        if (listens_alike(old, relay->config))
                overseer_take_config(relay->overseer, relay->config);
        else
                relay->is_overseer_moved = true; /* whoever asked for this gets his answer first */
        if (relay->waker != NULL)
                waker_configure(relay->waker, &relay->config->relay);
        keeper_destroy(relay->keeper); /* a round under way has the settings of before */
        relay->keeper = NULL;
        relay_create_keeper(relay);
        if (relay->keeper != NULL)
                keeper_start(relay->keeper);
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
        overseer_reopen(relay->overseer, relay->config);
}

static void on_reloaded(void *owner, const struct reload_result *result)
{
        struct relay *relay = owner;

        telemetry_see_reload(relay->telemetry, result->error != NULL ? result->error->text : NULL,
            clock_monotonic_us());
        overseer_reloaded(relay->overseer, result);
        service_reloaded(relay->service);
        if (!relay->is_overseer_moved)
                return;
        relay->is_overseer_moved = false;
        overseer_destroy(relay->overseer);
        relay->overseer = relay->next_overseer;
        relay->next_overseer = NULL;
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
                                          .fleet = relay->fleet,
                                          .config = &relay->config,
                                          .path = relay->options->config_path,
                                          .load = relay->options->load},
            &events, relay);
}
