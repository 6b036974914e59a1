/*
 * The daemon runs only inside run(): when its epoll file is readable, when it
 * said that it wants to without (it reads a socket until the pool is full and
 * keeps the rest for the next time), and when a connection was resumed.
 *
 * libmicrohttpd's own timeout starts anew with each byte, which lets a client
 * that drips hold a connection for ever. So each connection has a deadline of
 * ours, and one that misses it has its socket shut down, not closed: the daemon
 * finds the end of it and cleans up.
 */
#include "loop/http/http_listener.h"

#include "base/alloc.h"
#include "loop/http/http_internal.h"
#include "loop/socket_watch.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { CLOSING_TURNS = 4 };

static void rearm(struct http_listener *listener)
{
        MHD_UNSIGNED_LONG_LONG delay_ms;

        if (listener->has_room_again)
                timer_arm(listener->timer, 0);
        else if (MHD_get_timeout(listener->daemon, &delay_ms) == MHD_YES)
                timer_arm(listener->timer, delay_ms);
        else
                timer_disarm(listener->timer);
}

static void run(struct http_listener *listener)
{
        listener->has_room_again = false;
        MHD_run(listener->daemon);
        rearm(listener);
}

static void on_due(void *owner)
{
        run(owner);
}

static void on_epoll_ready(void *owner, int events)
{
        (void)events;
        run(owner);
}

static void on_late(void *owner)
{
        http_connection_drop(owner);
}

static struct http_connection *client_of(struct MHD_Connection *connection)
{
        return MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT)
            ->socket_context;
}

static void on_connection(void *owner, struct MHD_Connection *connection, void **context,
    enum MHD_ConnectionNotificationCode code)
{
        struct http_listener *listener = owner;
        struct http_connection *client = *context;

        switch (code) {
        case MHD_CONNECTION_NOTIFY_STARTED:
                client = xcalloc(1, sizeof *client);
                client->listener = listener;
                client->socket =
                    MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD)
                        ->connect_fd;
                client->deadline = timer_create_on(listener->loop, on_late, client);
                timer_arm(client->deadline, listener->options.request_timeout_ms);
                *context = client;
                return;
        case MHD_CONNECTION_NOTIFY_CLOSED:
                timer_destroy(client->deadline);
                free(client);
                *context = NULL;
                listener->has_room_again = true;
                return;
        }
}

static bool announces_too_much(struct MHD_Connection *connection, size_t max_bytes)
{
        const char *length = MHD_lookup_connection_value(
            connection, MHD_HEADER_KIND, MHD_HTTP_HEADER_CONTENT_LENGTH);

        return length != NULL && strtoull(length, NULL, 10) > max_bytes;
}

static enum MHD_Result ask(struct http_call *request)
{
        struct http_listener *listener = request->client->listener;

        request->state = REQUEST_ASKED;
        timer_disarm(request->client->deadline);
        listener->on_request(listener->owner, request);
        if (request->state == REQUEST_ANSWERED)
                return http_call_queue(request);
        request->is_suspended = true;
        MHD_suspend_connection(request->connection);
        return MHD_YES;
}

/* Comes once when the head is complete, for each part of the body, when all of it is there, and
 * once more after a suspended request was resumed. */
static enum MHD_Result on_access(void *owner, struct MHD_Connection *connection, const char *path,
    const char *method, const char *version, const char *part, size_t *part_length, void **context)
{
        struct http_listener *listener = owner;
        struct http_call *request = *context;

        (void)version;
        if (listener->is_closing)
                return MHD_NO;
        if (request == NULL) {
                request = http_call_create(client_of(connection), connection, method, path);
                *context = request;
                list_push_back(&listener->requests, &request->link);
                request->is_too_large =
                    announces_too_much(connection, listener->options.max_body_bytes);
                return request->is_too_large ? ask(request) : MHD_YES;
        }
        if (request->state == REQUEST_ANSWERED)
                return http_call_queue(request);
        if (*part_length > listener->options.max_body_bytes - request->body.length)
                return MHD_NO; /* more than it announced, or announced nothing: it is cut off */
        if (*part_length > 0) {
                bytes_append(&request->body, part, *part_length);
                *part_length = 0;
                return MHD_YES;
        }
        return ask(request);
}

static void on_completed(void *owner, struct MHD_Connection *connection, void **context,
    enum MHD_RequestTerminationCode code)
{
        struct http_listener *listener = owner;
        struct http_call *request = *context;

        (void)connection;
        (void)code;
        if (request == NULL) /* its head was not even complete */
                return;
        *context = NULL;
        timer_arm(request->client->deadline, listener->options.request_timeout_ms);
        http_call_end(request);
}

static bool start_daemon(struct http_listener *listener, int socket)
{
        listener->daemon = MHD_start_daemon(MHD_USE_EPOLL | MHD_ALLOW_SUSPEND_RESUME, 0, NULL, NULL,
            on_access, listener, MHD_OPTION_LISTEN_SOCKET, socket, MHD_OPTION_CONNECTION_LIMIT,
            listener->options.max_connections, MHD_OPTION_CONNECTION_MEMORY_LIMIT,
            listener->options.max_head_bytes, MHD_OPTION_STRICT_FOR_CLIENT, 1,
            MHD_OPTION_SIGPIPE_HANDLED_BY_APP, 1, MHD_OPTION_NOTIFY_CONNECTION, on_connection,
            listener, MHD_OPTION_NOTIFY_COMPLETED, on_completed, listener, MHD_OPTION_END);
        return listener->daemon != NULL;
}

struct http_listener *http_listener_create(uv_loop_t *loop, int socket,
    const struct http_listener_options *options, http_call_fn *on_request, void *owner)
{
        struct http_listener *listener = xcalloc(1, sizeof *listener);

        listener->loop = loop;
        listener->options = *options;
        listener->on_request = on_request;
        listener->owner = owner;
        list_init(&listener->requests);
        if (!start_daemon(listener, socket)) {
                free(listener);
                return NULL;
        }
        listener->watch = socket_watch_create(loop,
            MHD_get_daemon_info(listener->daemon, MHD_DAEMON_INFO_EPOLL_FD)->epoll_fd,
            on_epoll_ready, listener);
        if (listener->watch == NULL) {
                MHD_quiesce_daemon(listener->daemon);
                MHD_stop_daemon(listener->daemon);
                free(listener);
                return NULL;
        }
        socket_watch_set(listener->watch, SOCKET_READABLE);
        listener->timer = timer_create_on(loop, on_due, listener);
        return listener;
}

void http_listener_destroy(struct http_listener *listener)
{
        if (listener == NULL)
                return;
        listener->is_closing = true;
        close(MHD_quiesce_daemon(listener->daemon));
        list_for_each (link, &listener->requests)
                http_call_resume(list_owner(link, struct http_call, link));
        /* They are taken back, and the ends of streams written, as far as that goes without
         * waiting. */
        for (int i = 0; i < CLOSING_TURNS; i++)
                MHD_run(listener->daemon);
        socket_watch_destroy(listener->watch);
        MHD_stop_daemon(listener->daemon);
        timer_destroy(listener->timer);
        assert(list_is_empty(&listener->requests));
        free(listener);
}
