#include "loop/ares_driver.h"

#include "base/alloc.h"
#include "base/list.h"
#include "loop/socket_watch.h"
#include "loop/timer.h"

#include <netinet/in.h>
#include <stdbool.h>
#include <stdlib.h>

/* A question is sent at 0, 1, 3 and 7 seconds, to the name servers in turn. */
#define FIRST_TIMEOUT_MS 1000
#define N_TRIES          4

struct ares_driver {
        ares_channel channel;
        uv_loop_t *loop; /* borrowed */
        struct timer *timer;
        struct list sockets; /* watched_socket::link */
        ares_worked_fn *on_worked;
        void *owner; /* borrowed */
};

/* One socket of c-ares's, for as long as c-ares wants to hear of it. */
struct watched_socket {
        struct list link;
        struct ares_driver *driver;
        ares_socket_t socket;
        struct socket_watch *watch;
        int events;
};

static void rearm(struct ares_driver *driver)
{
        struct timeval left;

        if (ares_timeout(driver->channel, NULL, &left) == NULL)
                timer_disarm(driver->timer);
        else /* rounded up: a moment too early finds nothing to do and comes again at once */
                timer_arm(driver->timer,
                    (uint64_t)left.tv_sec * 1000 + (uint64_t)left.tv_usec / 1000 + 1);
}

static void work(struct ares_driver *driver, ares_socket_t readable, ares_socket_t writable)
{
        ares_process_fd(driver->channel, readable, writable);
        rearm(driver);
        driver->on_worked(driver->owner);
}

static void on_time_due(void *owner)
{
        work(owner, ARES_SOCKET_BAD, ARES_SOCKET_BAD);
}

static void on_socket_ready(void *owner, int events)
{
        struct watched_socket *watched = owner;
        ares_socket_t socket = watched->socket;
        ares_socket_t readable = ARES_SOCKET_BAD;
        ares_socket_t writable = ARES_SOCKET_BAD;

        if (events & SOCKET_FAILED) /* the watch rests now; c-ares finds the error by reading */
                socket_watch_set(watched->watch, watched->events);
        if (events & (SOCKET_READABLE | SOCKET_FAILED))
                readable = socket;
        if (events & SOCKET_WRITABLE)
                writable = socket;
        work(watched->driver, readable, writable);
}

static struct watched_socket *find_watched(struct ares_driver *driver, ares_socket_t socket)
{
        list_for_each (link, &driver->sockets) {
                struct watched_socket *watched = list_owner(link, struct watched_socket, link);
                if (watched->socket == socket)
                        return watched;
        }
        return NULL;
}

static struct watched_socket *watch_socket(struct ares_driver *driver, ares_socket_t socket)
{
        struct watched_socket *watched = xcalloc(1, sizeof *watched);

        watched->driver = driver;
        watched->socket = socket;
        watched->watch = socket_watch_create(driver->loop, socket, on_socket_ready, watched);
        if (watched->watch == NULL) { /* the question ends by its timeout, others live */
                free(watched);
                return NULL;
        }
        list_init(&watched->link);
        list_push_back(&driver->sockets, &watched->link);
        return watched;
}

/* Comes with neither of the two before c-ares closes the socket. */
static void on_socket_wanted(void *owner, ares_socket_t socket, int readable, int writable)
{
        struct ares_driver *driver = owner;
        struct watched_socket *watched = find_watched(driver, socket);

        if (!readable && !writable) {
                if (watched == NULL)
                        return;
                list_remove(&watched->link);
                socket_watch_destroy(watched->watch);
                free(watched);
                return;
        }
        if (watched == NULL)
                watched = watch_socket(driver, socket);
        if (watched != NULL) {
                watched->events =
                    (readable ? SOCKET_READABLE : 0) | (writable ? SOCKET_WRITABLE : 0);
                socket_watch_set(watched->watch, watched->events);
        }
}

struct ares_driver *ares_driver_create(
    uv_loop_t *loop, const char *servers, ares_worked_fn *on_worked, void *owner, int *out_status)
{
        struct ares_driver *driver = xcalloc(1, sizeof *driver);
        struct ares_options options = {.timeout = FIRST_TIMEOUT_MS,
            .tries = N_TRIES,
            .sock_state_cb = on_socket_wanted,
            .sock_state_cb_data = driver};

        driver->loop = loop;
        driver->on_worked = on_worked;
        driver->owner = owner;
        list_init(&driver->sockets);
        *out_status = ares_init_options(&driver->channel, &options,
            ARES_OPT_TIMEOUTMS | ARES_OPT_TRIES | ARES_OPT_SOCK_STATE_CB);
        if (*out_status != ARES_SUCCESS) {
                free(driver);
                return NULL;
        }
        if (servers != NULL)
                *out_status = ares_set_servers_ports_csv(driver->channel, servers);
        if (*out_status != ARES_SUCCESS) {
                ares_destroy(driver->channel);
                free(driver);
                return NULL;
        }
        driver->timer = timer_create_on(loop, on_time_due, driver);
        return driver;
}

void ares_driver_destroy(struct ares_driver *driver)
{
        if (driver == NULL)
                return;
        ares_destroy(driver->channel); /* still calls on_socket_wanted() */
        timer_destroy(driver->timer);
        free(driver);
}

void ares_driver_ask(struct ares_driver *driver, const char *host, const char *service,
    ares_addrinfo_callback on_answer, void *argument)
{
        struct in_addr literal;
        /* Asked for both families, c-ares 1.18 takes an IPv4 literal for a name. */
        bool is_ipv4 = ares_inet_pton(AF_INET, host, &literal) == 1;
        const struct ares_addrinfo_hints hints = {.ai_flags = ARES_AI_NUMERICSERV,
            .ai_family = is_ipv4 ? AF_INET : AF_UNSPEC,
            .ai_socktype = SOCK_STREAM};

        ares_getaddrinfo(driver->channel, host, service, &hints, on_answer, argument);
        rearm(driver);
}
