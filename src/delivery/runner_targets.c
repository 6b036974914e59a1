/* A receiver as its sink knows it. When it changes, attempts in flight go on with what it was. */
#include "base/alloc.h"
#include "delivery/fanout.h"
#include "delivery/runner_internal.h"

#include <stdlib.h>
#include <string.h>

static void close_target(struct runner *runner, struct runner_target *target)
{
        struct sink *sink = runner->dispatcher->sink;

        list_remove(&target->link);
        sink->ops->close_target(sink, target->handle);
        free(target);
}

static struct runner_target *newest(const struct runner *runner)
{
        return list_owner(runner->targets.next, struct runner_target, link);
}

static void close_if_outdated(struct runner *runner, struct runner_target *target)
{
        if (target->n_in_flight == 0 && target != newest(runner))
                close_target(runner, target);
}

void runner_open_target(struct runner *runner)
{
        const struct endpoint *endpoint = runner->endpoint;
        struct sink *sink = runner->dispatcher->sink;
        const struct target_settings settings = {.name = endpoint->name,
            .url = endpoint->url,
            .secrets = endpoint->secrets,
            .n_secrets = endpoint->n_secrets,
            .headers = endpoint->headers,
            .n_headers = endpoint->n_headers};
        struct error error;
        void *handle = sink->ops->open_target(sink, &settings, &error);
        struct runner_target *target;

        if (handle == NULL) {
                fanout_disable(runner->dispatcher->fanout, runner, error.text);
                return;
        }
        target = xcalloc(1, sizeof *target);
        target->handle = handle;
        list_push_front(&runner->targets, &target->link);
        if (target->link.next != &runner->targets)
                close_if_outdated(
                    runner, list_owner(target->link.next, struct runner_target, link));
}

void runner_close_targets(struct runner *runner)
{
        list_for_each (link, &runner->targets)
                close_target(runner, list_owner(link, struct runner_target, link));
}

const void *runner_target(const struct runner *runner)
{
        return list_is_empty(&runner->targets) ? NULL : newest(runner)->handle;
}

void *runner_borrow_target(struct runner *runner)
{
        if (runner->endpoint == NULL)
                return NULL;
        newest(runner)->n_in_flight++;
        return newest(runner)->handle;
}

void runner_return_target(struct runner *runner, const void *handle)
{
        list_for_each (link, &runner->targets) {
                struct runner_target *target = list_owner(link, struct runner_target, link);
                if (target->handle != handle)
                        continue;
                target->n_in_flight--;
                close_if_outdated(runner, target);
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
