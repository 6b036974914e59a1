/*
 * Credentials that were changed under a running relay. When a login is refused, the files that the
 * configuration names are read again (relay/reload.h): what they say by now is tried before anybody is
 * told. If they say nothing else, PostgreSQL's refusal is told with the next try, which follows soon.
 */
#include "config/compare.h"
#include "log/log.h"
#include "outbox/outbox.h"
#include "relay/admin_backend.h"
#include "relay/relay_internal.h"
#include "relay/reload.h"
#include "relay/retention_timer.h"
#include "wakeup/waker.h"

/* A refusal after that is another matter. Longer than the retention_timer's rounds, whose login comes rarely. */
enum { KNOWN_MS = 60 * 1000 };

/* Every connection: those that are there stay, those that wait are tried at once. */
static void use_postgres(struct relay *relay, struct config *other)
{
        const struct postgres_config old = relay->config->postgres;

        relay->config->postgres = other->postgres;
        other->postgres = old;
        outbox_configure(relay->outbox, &relay->config->postgres);
        if (relay->waker != NULL)
                waker_configure_connection(relay->waker, &relay->config->postgres);
        if (relay->retention_timer != NULL)
                retention_timer_configure(relay->retention_timer, &relay->config->postgres);
        admin_backend_configure(relay->admin_backend, &relay->config->postgres);
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

bool relay_sink_refused(void *owner, const char *sink)
{
        struct relay *relay = owner;

        return relay->state == RELAY_RUNNING && !relay->once &&
               reload_sink_refused(relay->reload, sink);
}
