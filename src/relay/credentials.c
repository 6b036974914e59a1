/*
 * Credentials that were changed under a running relay. When a login is refused, the files that the
 * configuration names are read again, with the configuration's text as it is in force: what they say
 * by now is tried before anybody is told.
 */
#include "base/log.h"
#include "config/compare.h"
#include "outbox/dsn_check.h"
#include "outbox/outbox.h"
#include "relay/keeper.h"
#include "relay/overseer.h"
#include "relay/relay_parts.h"
#include "relay/reload.h"
#include "relay/waker.h"

/* Every connection: those that are there stay, those that wait are tried at once. */
static void use_postgres(struct relay *relay, struct config *other)
{
        const struct postgres_config old = relay->config->postgres;

        relay->config->postgres = other->postgres;
        other->postgres = old;
        outbox_configure(relay->outbox, &relay->config->postgres);
        if (relay->waker != NULL)
                waker_configure_connection(relay->waker, &relay->config->postgres);
        if (relay->keeper != NULL)
                keeper_configure(relay->keeper, &relay->config->postgres);
        overseer_configure(relay->overseer, &relay->config->postgres);
}

struct config *relay_read_again(void *owner, struct error *error)
{
        const struct relay *relay = owner;

        return relay->options->load(relay->options->owner, relay->config, error);
}

bool relay_postgres_refused(void *owner)
{
        struct relay *relay = owner;
        struct error error = {0};
        struct config *other;
        bool is_other;

        if (relay->state != RELAY_RUNNING || relay->once)
                return false;
        other = relay_read_again(relay, &error);
        is_other = other != NULL && dsn_check(other->postgres.dsn, &error) &&
                   !postgres_configs_are_equal(&relay->config->postgres, &other->postgres);
        if (is_other) {
                log_info("credentials_read", kv_text("of", "postgres"));
                use_postgres(relay, other);
        } else if (error.kind != ERROR_NONE) {
                log_warn("credentials_unreadable", kv_text("of", "postgres"),
                    kv_text("error", error.text));
        }
        config_free(other);
        return is_other;
}

bool relay_sink_refused(void *owner, const char *sink)
{
        struct relay *relay = owner;

        return relay->state == RELAY_RUNNING && !relay->once &&
               reload_sink_refused(relay->reload, sink);
}
