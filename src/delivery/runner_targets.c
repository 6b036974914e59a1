/* A receiver as its sink knows it. When it changes, attempts in flight go on with what it was. */
#include "base/alloc.h"
#include "delivery/fanout.h"
#include "delivery/runner_internal.h"

#include <stdlib.h>
#include <string.h>

static void close_target(struct route *route, struct route_target *target)
{
        struct sink *sink = route->carrier->sink;

        list_remove(&target->link);
        sink->ops->close_target(sink, target->handle);
        free(target);
}

static struct route_target *newest(const struct route *route)
{
        return list_owner(route->targets.next, struct route_target, link);
}

static void close_if_outdated(struct route *route, struct route_target *target)
{
        if (target->n_in_flight == 0 && target != newest(route))
                close_target(route, target);
}

void route_open_target(struct route *route)
{
        const struct endpoint *endpoint = route->endpoint;
        struct sink *sink = route->carrier->sink;
        const struct target_settings settings = {.name = endpoint->name,
            .url = endpoint->url,
            .secrets = endpoint->secrets,
            .n_secrets = endpoint->n_secrets,
            .headers = endpoint->headers,
            .n_headers = endpoint->n_headers};
        struct error error;
        void *handle = sink->ops->open_target(sink, &settings, &error);
        struct route_target *target;

        if (handle == NULL) {
                fanout_disable(route->carrier->fanout, route, error.text);
                return;
        }
        target = xcalloc(1, sizeof *target);
        target->handle = handle;
        list_push_front(&route->targets, &target->link);
        if (target->link.next != &route->targets)
                close_if_outdated(route, list_owner(target->link.next, struct route_target, link));
}

void route_close_targets(struct route *route)
{
        list_for_each (link, &route->targets)
                close_target(route, list_owner(link, struct route_target, link));
}

const void *route_target(const struct route *route)
{
        return list_is_empty(&route->targets) ? NULL : newest(route)->handle;
}

void *route_borrow_target(struct route *route)
{
        if (route->endpoint == NULL)
                return NULL;
        newest(route)->n_in_flight++;
        return newest(route)->handle;
}

void route_return_target(struct route *route, const void *handle)
{
        list_for_each (link, &route->targets) {
                struct route_target *target = list_owner(link, struct route_target, link);
                if (target->handle != handle)
                        continue;
                target->n_in_flight--;
                close_if_outdated(route, target);
                return;
        }
}

static bool texts_are_alike(const char *const *a, size_t n_a, const char *const *b, size_t n_b)
{
        if (n_a != n_b)
                return false;
        for (size_t i = 0; i < n_a; i++)
                if (strcmp(a[i], b[i]) != 0)
                        return false;
        return true;
}

bool targets_are_alike(const struct endpoint *a, const struct endpoint *b)
{
        if (strcmp(a->url, b->url) != 0 || strcmp(a->name, b->name) != 0 ||
            a->n_headers != b->n_headers ||
            !texts_are_alike(a->secrets, a->n_secrets, b->secrets, b->n_secrets))
                return false;
        for (size_t i = 0; i < a->n_headers; i++)
                if (strcmp(a->headers[i].name, b->headers[i].name) != 0 ||
                    strcmp(a->headers[i].value, b->headers[i].value) != 0)
                        return false;
        return true;
}
