/*
 * hiredis asks for readiness through five hooks and is told of it through
 * redisAsyncHandleRead() and redisAsyncHandleWrite().
 *
 * The tricky idea is `is_inside`. Either of these calls may free the context
 * and with it, through on_cleanup(), this driver; and the callbacks that they
 * run may come back here to flush. So while hiredis is running the driver is
 * only marked, nothing calls hiredis a second time, and leave() does the rest.
 */
#include "loop/redis_driver.h"

#include "base/alloc.h"
#include "loop/socket_watch.h"

#include <stdlib.h>

struct redis_driver {
        redisAsyncContext *context; /* borrowed; NULL once hiredis has let go of us */
        struct socket_watch *watch; /* owned */
        int events;                 /* what hiredis waits for: a set of SOCKET_* */
        bool is_full;               /* the last write did not take everything */
        bool is_inside;             /* hiredis is running */
};

static void want(struct redis_driver *driver, int events)
{
        driver->events = events;
        if (!driver->is_inside)
                socket_watch_set(driver->watch, events);
}

static void on_add_read(void *privdata)
{
        struct redis_driver *driver = privdata;

        want(driver, driver->events | SOCKET_READABLE);
}

static void on_delete_read(void *privdata)
{
        struct redis_driver *driver = privdata;

        want(driver, driver->events & ~SOCKET_READABLE);
}

static void on_add_write(void *privdata)
{
        struct redis_driver *driver = privdata;

        want(driver, driver->events | SOCKET_WRITABLE);
}

static void on_delete_write(void *privdata)
{
        struct redis_driver *driver = privdata;

        want(driver, driver->events & ~SOCKET_WRITABLE);
}

/* Comes before hiredis closes the socket, as the watch needs it. */
static void on_cleanup(void *privdata)
{
        struct redis_driver *driver = privdata;
        redisAsyncContext *context = driver->context;

        context->ev.data = NULL;
        context->ev.addRead = NULL;
        context->ev.delRead = NULL;
        context->ev.addWrite = NULL;
        context->ev.delWrite = NULL;
        context->ev.cleanup = NULL;
        socket_watch_destroy(driver->watch);
        driver->context = NULL;
        if (!driver->is_inside)
                free(driver);
}

static void leave(struct redis_driver *driver)
{
        driver->is_inside = false;
        if (driver->context == NULL)
                free(driver);
        else
                socket_watch_set(driver->watch, driver->events);
}

static void write_buffered(struct redis_driver *driver)
{
        redisAsyncHandleWrite(driver->context);
        driver->is_full = driver->events & SOCKET_WRITABLE;
}

static bool may_write(const struct redis_driver *driver)
{
        /* While it connects, hiredis would take a write for the news that it is connected. */
        return driver->context != NULL && driver->context->c.flags & REDIS_CONNECTED &&
               driver->events & SOCKET_WRITABLE && !driver->is_full;
}

static void on_socket_ready(void *owner, int events)
{
        struct redis_driver *driver = owner;

        driver->is_inside = true;
        /* hiredis learns what is wrong with a failed socket by using it. */
        if (events & (SOCKET_READABLE | SOCKET_FAILED))
                redisAsyncHandleRead(driver->context);
        /* Reading may have freed the context. It may also have led to new commands: those need not
         * wait for another turn. */
        if (driver->context != NULL && (events & SOCKET_WRITABLE || may_write(driver)))
                write_buffered(driver);
        leave(driver);
}

void redis_driver_flush(redisAsyncContext *context)
{
        struct redis_driver *driver = context->ev.data;

        if (driver == NULL || driver->is_inside || !may_write(driver))
                return;
        driver->is_inside = true;
        write_buffered(driver);
        leave(driver);
}

bool redis_driver_attach(redisAsyncContext *context, uv_loop_t *loop)
{
        struct redis_driver *driver = xcalloc(1, sizeof *driver);

        driver->context = context;
        driver->watch = socket_watch_create(loop, context->c.fd, on_socket_ready, driver);
        if (driver->watch == NULL) {
                free(driver);
                return false;
        }
        context->ev.data = driver;
        context->ev.addRead = on_add_read;
        context->ev.delRead = on_delete_read;
        context->ev.addWrite = on_add_write;
        context->ev.delWrite = on_delete_write;
        context->ev.cleanup = on_cleanup;
        return true;
}
