#include "relay/portal_backend.h"

#include "admin/portal/portal.h"
#include "base/alloc.h"
#include "log/log.h"
#include "operator/portal_session.h"
#include "sinks/address_guard.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct portal_backend {
        const struct config *config;    /* borrowed */
        struct portal_session *session; /* owned */
        struct portal *portal;          /* owned */
};

static const struct http_config *find_sink(
    const struct portal_backend *backend, const char *name, enum attempts_kept *out_attempts)
{
        const struct config *config = backend->config;

        for (unsigned i = 0; i < config->n_sinks; i++) {
                if (strcmp(config->sinks[i].name, name) != 0)
                        continue;
                *out_attempts = config->sinks[i].attempts;
                return config->sinks[i].http;
        }
        return NULL;
}

static bool tell_sink(void *owner, const char *name, struct portal_sink *out_sink)
{
        static const char *const signings[] = {[HTTP_SIGNING_STANDARD] = "standard",
            [HTTP_SIGNING_GITHUB] = "github",
            [HTTP_SIGNING_STRIPE] = "stripe",
            [HTTP_SIGNING_NONE] = "none"};
        static const char *const kept[] = {
            [ATTEMPTS_FAILURES] = "failures", [ATTEMPTS_ALL] = "all", [ATTEMPTS_NONE] = "none"};
        enum attempts_kept attempts;
        const struct http_config *http = find_sink(owner, name, &attempts);

        if (http == NULL)
                return false;
        *out_sink = (struct portal_sink){
            .signing = signings[http->signing], .attempts = kept[attempts], .is_gzip = http->gzip};
        return true;
}

/* For the receiver's owner, who does not know the keys of the configuration. */
static const char *words_for(enum url_fault fault)
{
        switch (fault) {
        case URL_GOOD:
                return NULL;
        case URL_MALFORMED:
                return "This is no URL that events can be sent to. Write it like "
                       "https://example.com/hook, without a user name or a password.";
        case URL_INSECURE:
                return "The URL must begin with https://.";
        case URL_ODD_PORT:
                return "The URL must lead to the usual port: 443, or 80 of http://.";
        case URL_NOT_PUBLIC:
                return "The URL must lead to an address of the internet.";
        }
        abort();
}

static bool permits_url(void *owner, const char *name, const char *url, char *words, size_t size)
{
        enum attempts_kept attempts;
        const struct http_config *http = find_sink(owner, name, &attempts);
        const char *wrong = http != NULL
                                ? words_for(address_guard_judge_url(http, url))
                                : "The URL cannot be changed here. Ask the sender of the events.";

        if (wrong != NULL)
                snprintf(words, size, "%s", wrong);
        return wrong == NULL;
}

struct portal_backend *portal_backend_create(uv_loop_t *loop, const struct config *config,
    bool (*on_login_refused)(void *owner), void *owner, struct error *error)
{
        struct portal_backend *backend = xcalloc(1, sizeof *backend);

        backend->config = config;
        backend->session = portal_session_create(loop, &config->postgres, on_login_refused, owner);
        backend->portal = portal_create(loop,
            &(struct portal_options){.config = config->portal,
                .ask = portal_session_ask,
                .owner = backend->session,
                .tell_sink = tell_sink,
                .permits_url = permits_url,
                .relay = backend},
            error);
        if (backend->portal == NULL) {
                portal_session_destroy(backend->session);
                free(backend);
                return NULL;
        }
        portal_session_open(backend->session);
        log_info("portal_listening", kv_text("address", config->portal->listen),
            kv_text("url", config->portal->base_url));
        return backend;
}

void portal_backend_take_config(struct portal_backend *backend, const struct config *config)
{
        if (backend == NULL)
                return;
        backend->config = config;
        portal_take_config(backend->portal, config->portal);
}

void portal_backend_configure(struct portal_backend *backend, const struct postgres_config *config)
{
        if (backend != NULL)
                portal_session_configure(backend->session, config);
}

void portal_backend_reopen(struct portal_backend *backend, const struct postgres_config *config)
{
        if (backend != NULL)
                portal_session_reopen(backend->session, config);
}

/* The session first: it answers what is under way. */
void portal_backend_destroy(struct portal_backend *backend)
{
        if (backend == NULL)
                return;
        portal_session_close(backend->session);
        portal_destroy(backend->portal);
        portal_session_destroy(backend->session);
        free(backend);
}
