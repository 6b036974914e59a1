/*
 * libcurl says which sockets and which time to wait for; libuv waits; each
 * event goes back by curl_multi_socket_action(), and after every one of those
 * the results are read until there are none: the last transfer of all may end
 * in any of them, also in the timer's.
 *
 * libcurl's callbacks only set watches and the timer. Finished transfers are
 * reported after libcurl has returned, so whoever hears of one may start others.
 */
#include "loop/curl_driver.h"

#include "base/alloc.h"
#include "loop/socket_watch.h"
#include "loop/timer.h"

#include <assert.h>
#include <stdlib.h>

struct curl_driver {
        uv_loop_t *loop; /* borrowed */
        CURLM *multi;
        struct timer *timer;
        unsigned n_transfers;
};

struct curl_transfer {
        struct curl_driver *driver;
        CURL *easy; /* borrowed */
        curl_done_fn *on_done;
        void *owner; /* borrowed */
};

/* One socket of libcurl's, for as long as libcurl wants to hear of it. */
struct watched_socket {
        struct curl_driver *driver;
        curl_socket_t socket;
        struct socket_watch *watch;
        int events;
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

static void on_socket_ready(void *owner, int events)
{
        struct watched_socket *watched = owner;
        int curl_events = 0;

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
        curl_multi_assign(driver->multi, socket, watched);
        return watched;
}

static int on_socket_wanted(CURL *easy, curl_socket_t socket, int what, void *owner, void *known)
{
        struct curl_driver *driver = owner;
        struct watched_socket *watched = known;

        (void)easy; /* sometimes one of libcurl's own */
        if (what == CURL_POLL_REMOVE) {
                if (watched == NULL)
                        return 0;
                curl_multi_assign(driver->multi, socket, NULL);
                socket_watch_destroy(watched->watch);
                free(watched);
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
