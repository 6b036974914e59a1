/*
 * libcurl says which sockets and which time to wait for; libuv waits; each
 * event goes back by curl_multi_socket_action(), and after every one of those
 * the results are read until there are none: the last transfer of all may end
 * in any of them, also in the timer's.
 *
 * libcurl's callbacks only set watches and the timer. Finished transfers are
 * reported after libcurl has returned, so the callee may start others.
 *
 * With the end of a transfer libcurl loses interest in its socket, and has it
 * again when the kept connection is used for the next one. In between the socket
 * rests: it stays watched as it is, which saves five system calls a transfer,
 * until the peer says something or libcurl closes it. For that it calls our
 * function, but not where it gives up connecting, and not for what a resolver
 * opened: so only a socket rests whose answer was waited for last, and libcurl
 * looks no name up here.
 */
#include "loop/curl_driver.h"

#include "base/alloc.h"
#include "loop/socket_watch.h"
#include "loop/timer.h"

#include <assert.h>
#include <stdlib.h>
#include <unistd.h>

struct curl_driver {
        uv_loop_t *loop; /* borrowed */
        CURLM *multi;
        struct timer *timer;
        unsigned n_transfers;
        struct watched_socket **sockets; /* by file descriptor */
        size_t n_sockets;
};

struct curl_transfer {
        struct curl_driver *driver;
        CURL *easy; /* borrowed */
        curl_done_fn *on_done;
        void *owner; /* borrowed */
};

/* One socket of libcurl's, while it is in use and afterwards until something happens to it. */
struct watched_socket {
        struct curl_driver *driver;
        curl_socket_t socket;
        struct socket_watch *watch;
        int events; /* that libcurl wants to hear of; 0: it rests, still watched for reading */
};

static void release(struct curl_transfer *transfer)
{
        curl_multi_remove_handle(transfer->driver->multi, transfer->easy);
        transfer->driver->n_transfers--;
        free(transfer);
}

static void report_finished(struct curl_driver *driver)
{
        const CURLMsg *message;
        int n_left;

        while ((message = curl_multi_info_read(driver->multi, &n_left)) != NULL) {
                struct curl_transfer *transfer = NULL;
                curl_done_fn *on_done;
                void *owner;
                CURLcode result = message->data.result; /* gone with the handle's removal */

                assert(message->msg == CURLMSG_DONE);
                curl_easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, &transfer);
                on_done = transfer->on_done;
                owner = transfer->owner;
                release(transfer);
                on_done(owner, result);
        }
}

/* What curl_multi_socket_action() returns is about the multi handle as a whole, and can only be a
 * misuse of it or a lack of memory; transfers hurt by that end by their own timeouts. */
static void act(struct curl_driver *driver, curl_socket_t socket, int curl_events)
{
        int n_running;

        curl_multi_socket_action(driver->multi, socket, curl_events, &n_running);
        report_finished(driver);
}

static struct watched_socket *find_socket(const struct curl_driver *driver, curl_socket_t socket)
{
        return (size_t)socket < driver->n_sockets ? driver->sockets[socket] : NULL;
}

static void unwatch_socket(struct watched_socket *watched)
{
        watched->driver->sockets[watched->socket] = NULL;
        socket_watch_destroy(watched->watch);
        free(watched);
}

static void on_socket_ready(void *owner, int events)
{
        struct watched_socket *watched = owner;
        int curl_events = 0;

        if (watched->events == 0) {
                /* libcurl will see by itself that it is closed, when it would use it again. */
                unwatch_socket(watched);
                return;
        }
        if (events & SOCKET_FAILED)
                /* The watch rests now and libcurl, which never changed its mind, would not set it
                 * again. No event is passed on: that makes libcurl look for itself, and read what
                 * the peer still said, where CURL_CSELECT_ERR would make it give up unread. */
                socket_watch_set(watched->watch, watched->events);
        if (events & SOCKET_READABLE)
                curl_events |= CURL_CSELECT_IN;
        if (events & SOCKET_WRITABLE)
                curl_events |= CURL_CSELECT_OUT;
        act(watched->driver, watched->socket, curl_events);
}

static void on_time_due(void *owner)
{
        act(owner, CURL_SOCKET_TIMEOUT, 0);
}

static int on_time_wanted(CURLM *multi, long delay_ms, void *owner)
{
        struct curl_driver *driver = owner;

        (void)multi;
        if (delay_ms < 0)
                timer_disarm(driver->timer);
        else
                timer_arm(driver->timer, (uint64_t)delay_ms);
        return 0;
}

static void make_room(struct curl_driver *driver, curl_socket_t socket)
{
        size_t n_sockets = driver->n_sockets > 0 ? driver->n_sockets : 64;

        while (n_sockets <= (size_t)socket)
                n_sockets *= 2;
        if (n_sockets == driver->n_sockets)
                return;
        driver->sockets = xrealloc(driver->sockets, n_sockets * sizeof *driver->sockets);
        for (size_t i = driver->n_sockets; i < n_sockets; i++)
                driver->sockets[i] = NULL;
        driver->n_sockets = n_sockets;
}

static struct watched_socket *watch_socket(struct curl_driver *driver, curl_socket_t socket)
{
        struct watched_socket *watched = xcalloc(1, sizeof *watched);

        watched->driver = driver;
        watched->socket = socket;
        watched->watch = socket_watch_create(driver->loop, socket, on_socket_ready, watched);
        if (watched->watch == NULL) {
                /* An error answer would abort all transfers of the multi handle. Unwatched, this
                 * one ends by its timeout and the others live. */
                free(watched);
                return NULL;
        }
        make_room(driver, socket);
        driver->sockets[socket] = watched;
        return watched;
}

static int on_socket_wanted(CURL *easy, curl_socket_t socket, int what, void *owner, void *known)
{
        struct curl_driver *driver = owner;
        struct watched_socket *watched = find_socket(driver, socket);

        (void)easy; /* sometimes one of libcurl's own */
        (void)known;
        if (what == CURL_POLL_REMOVE) {
                if (watched != NULL && watched->events == SOCKET_READABLE)
                        watched->events = 0;
                else if (watched != NULL)
                        unwatch_socket(watched); /* its connection may never have come about */
                return 0;
        }
        if (watched == NULL)
                watched = watch_socket(driver, socket);
        if (watched != NULL) {
                watched->events = (what & CURL_POLL_IN ? SOCKET_READABLE : 0) |
                                  (what & CURL_POLL_OUT ? SOCKET_WRITABLE : 0);
                socket_watch_set(watched->watch, watched->events);
        }
        return 0;
}

static int on_socket_unwanted(void *owner, curl_socket_t socket)
{
        struct watched_socket *watched = find_socket(owner, socket);

        if (watched != NULL)
                unwatch_socket(watched); /* before its number is another's */
        return close(socket);
}

struct curl_driver *curl_driver_create(uv_loop_t *loop, unsigned max_connections)
{
        struct curl_driver *driver = xcalloc(1, sizeof *driver);

        /* Counted by libcurl: every driver does it, the last to go undoes it. */
        curl_global_init(CURL_GLOBAL_DEFAULT);
        driver->loop = loop;
        driver->timer = timer_create_on(loop, on_time_due, driver);
        driver->multi = curl_multi_init();
        if (driver->multi == NULL)
                out_of_memory();
        curl_multi_setopt(driver->multi, CURLMOPT_SOCKETFUNCTION, on_socket_wanted);
        curl_multi_setopt(driver->multi, CURLMOPT_SOCKETDATA, driver);
        curl_multi_setopt(driver->multi, CURLMOPT_TIMERFUNCTION, on_time_wanted);
        curl_multi_setopt(driver->multi, CURLMOPT_TIMERDATA, driver);
        curl_multi_setopt(driver->multi, CURLMOPT_MAXCONNECTS, (long)max_connections);
        return driver;
}

void curl_driver_destroy(struct curl_driver *driver)
{
        if (driver == NULL)
                return;
        assert(driver->n_transfers == 0);
        /* Still calls on_socket_wanted() and on_time_wanted(). */
        curl_multi_cleanup(driver->multi);
        for (size_t i = 0; i < driver->n_sockets; i++)
                if (driver->sockets[i] != NULL)
                        unwatch_socket(driver->sockets[i]);
        free(driver->sockets);
        timer_destroy(driver->timer);
        free(driver);
        curl_global_cleanup();
}

struct curl_transfer *curl_driver_start(
    struct curl_driver *driver, CURL *easy, curl_done_fn *on_done, void *owner)
{
        struct curl_transfer *transfer = xcalloc(1, sizeof *transfer);

        *transfer = (struct curl_transfer){
            .driver = driver, .easy = easy, .on_done = on_done, .owner = owner};
        if (curl_easy_setopt(easy, CURLOPT_PRIVATE, transfer) != CURLE_OK ||
            curl_easy_setopt(easy, CURLOPT_CLOSESOCKETFUNCTION, on_socket_unwanted) != CURLE_OK ||
            curl_easy_setopt(easy, CURLOPT_CLOSESOCKETDATA, driver) != CURLE_OK ||
            curl_multi_add_handle(driver->multi, easy) != CURLM_OK) {
                free(transfer);
                return NULL;
        }
        driver->n_transfers++;
        return transfer;
}

void curl_driver_stop(struct curl_transfer *transfer)
{
        if (transfer != NULL)
                release(transfer);
}
