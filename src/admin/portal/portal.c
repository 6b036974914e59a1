/*
 * Who is let in. In this order: Origin, size, path, method, the token's form, how
 * often this link or this address has asked. Then the database is asked.
 *
 * There is no cookie, and a token is sent by the page's own script only: no other
 * site can make a browser act here. Nevertheless a request from a page of another
 * origin is refused.
 */
#include "admin/portal/portal.h"

#include "admin/admin_internal.h"
#include "admin/http/answer.h"
#include "admin/portal/portal_internal.h"
#include "base/alloc.h"
#include "base/clock.h"
#include "config/url.h"
#include "log/log.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

static const struct http_header headers[] = {
    {"Content-Security-Policy", "default-src 'none'; script-src 'self'; style-src 'self'; "
                                "connect-src 'self'; img-src 'self'; base-uri 'none'; "
                                "form-action 'none'; frame-ancestors 'none'"},
    {"X-Content-Type-Options", "nosniff"},
    {"X-Frame-Options", "DENY"},
    {"Referrer-Policy", "no-referrer"},
    {"Cross-Origin-Resource-Policy", "same-origin"},
    {"Cross-Origin-Opener-Policy", "same-origin"},
    {"Permissions-Policy", "camera=(), display-capture=(), geolocation=(), microphone=(), "
                           "payment=(), usb=()"},
    {"X-Robots-Tag", "noindex, nofollow"},
    {"Cache-Control", "no-store"},
    {NULL, NULL},
};

static const struct http_listener_options limits = {.max_connections = PORTAL_CONNECTIONS,
    .max_head_bytes = 16 * 1024,
    .max_body_bytes = 8 * 1024,
    .request_timeout_ms = 10 * 1000,
    .answer_timeout_ms = 10 * 1000,
    .headers = headers};

/* "https://hooks.example.com", "http://127.0.0.1:9188": as browsers write it. */
static char *origin_of(const char *base_url)
{
        struct url url;
        bool has_port, is_ip6;
        char *origin;

        if (url_split(base_url, &url) != NULL)
                abort(); /* config_load() has accepted it */
        has_port = url.port != 0 && url.port != (strcmp(url.scheme, "https") == 0 ? 443 : 80);
        is_ip6 = strchr(url.host, ':') != NULL;
        origin =
            xasprintf("%s://%s%s%s", url.scheme, is_ip6 ? "[" : "", url.host, is_ip6 ? "]" : "");
        if (has_port) {
                char *longer = xasprintf("%s:%u", origin, (unsigned)url.port);

                free(origin);
                origin = longer;
        }
        url_deinit(&url);
        return origin;
}

/* Once in ten seconds, whatever is asked. */
static void tell_refused(struct portal *portal, const char *why)
{
        const int64_t pause_us = 10 * INT64_C(1000000);
        int64_t now_us = clock_monotonic_us();

        portal->n_refused++;
        if (portal->refused_us != 0 && now_us < portal->refused_us + pause_us)
                return;
        portal->refused_us = now_us;
        log_warn("portal_refused", kv_text("reason", why), kv_int("requests", portal->n_refused));
        portal->n_refused = 0;
}

static void refuse_for_now(struct portal *portal, struct http_call *request, unsigned wait_s)
{
        char seconds[12];
        const struct http_header retry_after = {"Retry-After", seconds};

        snprintf(seconds, sizeof seconds, "%u", wait_s);
        tell_refused(portal, "too many requests");
        answer_refusal_with(
            request, 429, &retry_after, "Too many requests. Wait a moment, then try again.");
}

static void refuse_token(struct portal *portal, struct http_call *request)
{
        static const struct http_header challenge = {"WWW-Authenticate", "Bearer realm=\"portal\""};
        unsigned wait_s = portal_access_take_guess(
            &portal->access, http_call_peer(request), clock_monotonic_us());

        if (wait_s > 0)
                refuse_for_now(portal, request, wait_s);
        else
                answer_refusal_with(request, 401, &challenge,
                    "This needs the token of a link: Authorization: Bearer TOKEN.");
}

static void answer_api(struct portal *portal, struct http_call *request,
    const struct portal_route *route, const char *name)
{
        const char *token = portal_token_of(http_call_header(request, "Authorization"));
        /* A look for an id reads the outbox: that has its price. */
        bool is_by_id = route->question == PORTAL_EVENT && strchr(name, '-') != NULL;
        struct portal_hash hash;
        unsigned wait_s;

        if (token == NULL || !portal_token_hash(token, &hash)) {
                refuse_token(portal, request);
                return;
        }
        wait_s = portal_access_take(&portal->access, &hash, http_call_peer(request),
            is_by_id ? 10 : route->cost, clock_monotonic_us());
        if (wait_s == 0 && !portal_access_begin(&portal->access, &hash))
                wait_s = 1;
        if (wait_s > 0)
                refuse_for_now(portal, request, wait_s);
        else
                portal_route_answer(portal, request, route, name, &hash);
}

/* Browsers send it with each POST, and with whatever another site asks for. */
static bool is_foreign(const struct portal *portal, struct http_call *request)
{
        const char *origin = http_call_header(request, "Origin");

        return origin != NULL && strcasecmp(origin, portal->origin) != 0;
}

static void on_request(void *owner, struct http_call *request)
{
        struct portal *portal = owner;
        const char *path = http_call_path(request);
        char name[ROUTE_NAME_SIZE] = "";

        if (is_foreign(portal, request)) {
                answer_refusal(request, 403, "Another site may not ask here.");
                return;
        }
        if (http_call_is_too_large(request)) {
                answer_refusal(request, 413, "The body is larger than 8 KiB.");
                return;
        }
        if (strcmp(path, "/") == 0 || route_path_matches("/page/*", path, name)) {
                if (route_takes_method(request, "GET"))
                        page_answer_file(request, PAGE_PORTAL, name);
                return;
        }
        for (const struct portal_route *route = portal_routes; route->path != NULL; route++) {
                if (!route_path_matches(route->path, path, name))
                        continue;
                if (route_takes_method(request, route->method))
                        answer_api(portal, request, route, name);
                return;
        }
        answer_refusal(request, 404, "There is nothing at this path.");
}

void portal_take_config(struct portal *portal, const struct portal_config *config)
{
        portal->options.config = config;
        free(portal->origin);
        portal->origin = origin_of(config->base_url);
}

static bool start_listening(struct portal *portal, uv_loop_t *loop, struct error *error)
{
        struct listen_address address;

        if (listen_address_parse(portal->options.config->listen, &address) != NULL)
                abort(); /* config_load() has accepted it */
        if (!listen_socket_open(&portal->socket, &address, error))
                return false;
        portal->listener =
            http_listener_create(loop, portal->socket.file, &limits, on_request, portal);
        if (portal->listener != NULL)
                return true;
        close(portal->socket.file);
        listen_socket_remove(&portal->socket);
        return error_set(error, ERROR_TEMPORARY, "the portal cannot be set up");
}

struct portal *portal_create(
    uv_loop_t *loop, const struct portal_options *options, struct error *error)
{
        struct portal *portal = xcalloc(1, sizeof *portal);

        portal->options = *options;
        portal_access_init(&portal->access, clock_monotonic_us());
        portal_take_config(portal, options->config);
        if (start_listening(portal, loop, error))
                return portal;
        free(portal->origin);
        free(portal);
        return NULL;
}

void portal_destroy(struct portal *portal)
{
        if (portal == NULL)
                return;
        http_listener_destroy(portal->listener);
        listen_socket_remove(&portal->socket);
        free(portal->origin);
        free(portal);
}
