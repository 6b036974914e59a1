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

#include <errno.h>
#include <hiredis/sds.h>
#include <stdlib.h>
#include <unistd.h>

enum { KEPT_BYTES = 1024 * 1024 }; /* of a buffer that is empty */

struct redis_driver {
        redisAsyncContext *context; /* borrowed; NULL once hiredis has let go of us */
        struct socket_watch *watch; /* owned */
        int events;                 /* what hiredis waits for: a set of SOCKET_* */
        bool is_full;               /* the last write did not take everything */
        bool is_inside;             /* hiredis is running */
};

#if HIREDIS_MAJOR == 0
/* These hiredis uses where it aborts without memory, and nobody would learn why. Those of the program
 * take the place of those of the library. */
void *hi_malloc(size_t size);
char *hi_strdup(const char *text);

void *hi_malloc(size_t size)
{
        return xmalloc(size);
}

char *hi_strdup(const char *text)
{
        return xstrdup(text);
}
#endif

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

static void shrink_buffer(redisContext *context)
{
        sds smaller;

        if (sdsavail(context->obuf) <= KEPT_BYTES)
                return;
        smaller = sdsRemoveFreeSpace(context->obuf);
        if (smaller != NULL)
                context->obuf = smaller;
}

/* hiredis before 1.0 throws its buffer away when it has written all of it, and crashes if there is
 * no memory for an empty one. Emptied here, it finds nothing to write and keeps it. Returns false
 * if the connection failed: by reading hiredis learns that too, and of what was said before. */
static bool write_buffered(struct redis_driver *driver)
{
        redisContext *context = &driver->context->c;

        while (sdslen(context->obuf) > 0) {
                ssize_t n = write(context->fd, context->obuf, sdslen(context->obuf));
                if (n < 0 && errno == EINTR)
                        continue;
                driver->is_full = n < 0 ? errno == EAGAIN : (size_t)n < sdslen(context->obuf);
                if (n < 0)
                        return driver->is_full;
                sdsrange(context->obuf, (int)n, -1);
                if (driver->is_full)
                        return true;
        }
        driver->is_full = false;
        shrink_buffer(context);
        redisAsyncHandleWrite(driver->context);
        return true;
}

static bool is_connected(const struct redis_driver *driver)
{
        return driver->context != NULL && driver->context->c.flags & REDIS_CONNECTED;
}

/* hiredis notices a connection by reading as well as by writing; but what its callback sends, it would
 * then write itself. */
static void finish_connecting(struct redis_driver *driver)
{
        if (!(driver->context->c.flags & REDIS_CONNECTED))
                redisAsyncHandleRead(driver->context);
}

static bool may_write(const struct redis_driver *driver)
{
        /* While it connects, hiredis would take a write for the news that it is connected. */
        return is_connected(driver) && driver->events & SOCKET_WRITABLE && !driver->is_full;
}

static void on_socket_ready(void *owner, int events)
{
        struct redis_driver *driver = owner;

        driver->is_inside = true;
        /* hiredis learns what is wrong with a failed socket by using it. */
        if (events & (SOCKET_READABLE | SOCKET_FAILED))
                redisAsyncHandleRead(driver->context);
        if (driver->context != NULL && events & SOCKET_WRITABLE)
                finish_connecting(driver);
        /* That may have freed the context. It may also have led to new commands: those need not
         * wait for another turn. */
        if (is_connected(driver) && (events & SOCKET_WRITABLE || may_write(driver)) &&
            !write_buffered(driver))
                redisAsyncHandleRead(driver->context);
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

void redis_driver_expect_command(const redisAsyncContext *context, const redisCallback *last)
{
        if (context->replies.tail == last || context->c.err == REDIS_ERR_OOM)
                out_of_memory();
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
