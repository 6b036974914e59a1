#include "loop/connector.h"

#include "base/alloc.h"
#include "loop/socket_watch.h"
#include "loop/timer.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define NEXT_TRY_MS 250

/* To connect to one address. */
struct
try {
        struct connector *connector;
        struct socket_address address;
        int socket;                 /* owned; -1: not begun, or over */
        struct socket_watch *watch; /* owned */
};

struct connector {
        uv_loop_t *loop; /* borrowed */
        connector_done_fn *on_done;
        void *owner; /* borrowed */
        struct try tries[CONNECTOR_ADDRESSES];
        unsigned n_tries;
        unsigned next_try;  /* the one to begin next */
        struct timer *next; /* begins it; or tells that none is left */
        char failure[120];  /* why the last one failed */
};

static void on_ready(void *owner, int events);

static void end_try(struct try *try)
{
        socket_watch_destroy(try->watch);
        try->watch = NULL;
        if (try->socket >= 0)
                close(try->socket);
        try->socket = -1;
}

static bool is_any_under_way(const struct connector *connector)
{
        for (unsigned i = 0; i < connector->n_tries; i++)
                if (connector->tries[i].socket >= 0)
                        return true;
        return false;
}

/* Dead peers that never say so are found within half a minute. */
static void keep_alive(int socket)
{
        static const struct {
                int level;
                int name;
                int value;
        } options[] = {{IPPROTO_TCP, TCP_NODELAY, 1}, {SOL_SOCKET, SO_KEEPALIVE, 1},
            {IPPROTO_TCP, TCP_KEEPIDLE, 15}, {IPPROTO_TCP, TCP_KEEPINTVL, 5},
            {IPPROTO_TCP, TCP_KEEPCNT, 3}};

        for (size_t i = 0; i < sizeof options / sizeof options[0]; i++)
                (void)setsockopt(socket, options[i].level, options[i].name, &options[i].value,
                    sizeof options[i].value);
}

static void fail(struct try *try, int status)
{
        struct connector *connector = try->connector;

        snprintf(connector->failure, sizeof connector->failure, "%s", strerror(status));
        end_try(try);
}

/* False if the system refuses at once. */
static bool begin(struct try *try)
{
        const struct socket_address *address = &try->address;
        int family = address->data.ss_family;

        try->socket = socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
        if (try->socket >= 0) {
                if (family != AF_UNIX)
                        keep_alive(try->socket);
                if (connect(try->socket, (const struct sockaddr *)&address->data,
                        address->length) == 0 ||
                    errno == EINPROGRESS) {
                        try->watch =
                            socket_watch_create(try->connector->loop, try->socket, on_ready, try);
                        if (try->watch != NULL) {
                                socket_watch_set(try->watch, SOCKET_WRITABLE);
                                return true;
                        }
                }
        }
        fail(try, errno);
        return false;
}

/* 0, or an errno. */
static int status_of(int socket)
{
        int status = 0;
        socklen_t length = sizeof status;

        return getsockopt(socket, SOL_SOCKET, SO_ERROR, &status, &length) == 0 ? status : errno;
}

static void on_ready(void *owner, int events)
{
        struct try *try = owner;
        struct connector *connector = try->connector;
        int status = status_of(try->socket);
        int socket = try->socket;

        (void)events;
        if (status != 0) {
                fail(try, status);
                connector_go_on(connector);
                return;
        }
        try->socket = -1;
        for (unsigned i = 0; i < connector->n_tries; i++)
                end_try(&connector->tries[i]);
        timer_disarm(connector->next);
        connector->on_done(connector->owner, socket, NULL);
}

void connector_go_on(struct connector *connector)
{
        while (connector->next_try < connector->n_tries) {
                if (!begin(&connector->tries[connector->next_try++]))
                        continue;
                timer_arm(connector->next, NEXT_TRY_MS);
                return;
        }
        if (!is_any_under_way(connector))
                timer_arm(connector->next, 0);
}

static void on_next(void *owner)
{
        struct connector *connector = owner;

        if (connector->next_try < connector->n_tries)
                connector_go_on(connector);
        else if (!is_any_under_way(connector))
                connector->on_done(connector->owner, -1, connector->failure);
}

/* Families take turns, beginning with that of the best address: if one of them leads nowhere, the
 * other is tried next. */
static void take_turns(struct connector *connector)
{
        for (unsigned i = 1; i < connector->n_tries; i++) {
                struct try *try = &connector->tries[i];
                sa_family_t last = try[-1].address.data.ss_family;
                unsigned other = i;
                struct try moved;

                while (other < connector->n_tries &&
                       connector->tries[other].address.data.ss_family == last)
                        other++;
                if (other == connector->n_tries)
                        return;
                moved = connector->tries[other];
                memmove(try + 1, try, (other - i) * sizeof *try);
                *try = moved;
        }
}

void connector_add(struct connector *connector, const void *address, socklen_t length)
{
        struct try *try = &connector->tries[connector->n_tries];

        if (connector->n_tries == CONNECTOR_ADDRESSES)
                return;
        connector->n_tries++;
        try->connector = connector;
        try->socket = -1;
        memcpy(&try->address.data, address, length);
        try->address.length = length;
        take_turns(connector);
}

struct connector *connector_create(uv_loop_t *loop, connector_done_fn *on_done, void *owner)
{
        struct connector *connector = xcalloc(1, sizeof *connector);

        connector->loop = loop;
        connector->on_done = on_done;
        connector->owner = owner;
        connector->next = timer_create_on(loop, on_next, connector);
        return connector;
}

void connector_destroy(struct connector *connector)
{
        if (connector == NULL)
                return;
        for (unsigned i = 0; i < connector->n_tries; i++)
                end_try(&connector->tries[i]);
        timer_destroy(connector->next);
        free(connector);
}
