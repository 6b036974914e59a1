#include "loop/socket_watch.h"

#include "base/alloc.h"

#include <stdlib.h>

struct socket_watch {
        uv_poll_t poll;
        int events; /* what libuv waits for now, in our words */
        socket_ready_fn *on_ready;
        void *owner; /* borrowed */
};

static void on_poll_closed(uv_handle_t *handle)
{
        free(handle->data);
}

static void on_poll(uv_poll_t *poll, int status, int uv_events)
{
        struct socket_watch *watch = poll->data;
        int events = 0;

        if (status < 0) {
                /* On POLLERR libuv stops the poll by itself. Forgetting what we waited for makes
                 * the owner's next socket_watch_set() start it again. */
                watch->events = 0;
                events = SOCKET_FAILED;
        }
        if (uv_events & (UV_READABLE | UV_DISCONNECT))
                events |= SOCKET_READABLE;
        if (uv_events & UV_WRITABLE)
                events |= SOCKET_WRITABLE;
        watch->on_ready(watch->owner, events);
}

struct socket_watch *socket_watch_create(
    uv_loop_t *loop, int socket, socket_ready_fn *on_ready, void *owner)
{
        struct socket_watch *watch = xcalloc(1, sizeof *watch);

        if (uv_poll_init(loop, &watch->poll, socket) != 0) {
                free(watch);
                return NULL;
        }
        watch->poll.data = watch;
        watch->on_ready = on_ready;
        watch->owner = owner;
        return watch;
}

void socket_watch_set(struct socket_watch *watch, int events)
{
        int uv_events = 0;

        if (watch->events == events)
                return;
        watch->events = events;
        if (events == 0) {
                uv_poll_stop(&watch->poll);
                return;
        }
        if (events & SOCKET_READABLE)
                uv_events |= UV_READABLE;
        if (events & SOCKET_WRITABLE)
                uv_events |= UV_WRITABLE;
        uv_poll_start(&watch->poll, uv_events, on_poll);
}

void socket_watch_destroy(struct socket_watch *watch)
{
        if (watch == NULL)
                return;
        uv_poll_stop(&watch->poll);
        uv_close((uv_handle_t *)&watch->poll, on_poll_closed);
}
