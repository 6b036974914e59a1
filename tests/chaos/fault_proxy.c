/*
 * The thread and its links. All libuv objects belong to the thread; others hand it one command at a
 * time and wait until it is done, so that a fault is in force when fault_link_set() returns.
 */
#include "chaos/fault_proxy.h"

#include "base/alloc.h"
#include "chaos/fault_pipe.h"
#include "support/process.h"

#include <arpa/inet.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>

struct fault_link {
        struct list link; /* fault_proxy::links */
        struct fault_proxy *proxy;
        uint16_t port;
        struct sockaddr_in server;
        struct fault fault;
        uv_tcp_t *listener; /* NULL while refusing */
        struct list pipes;  /* fault_pipe::link */
        atomic_uint n_connections;
        atomic_uint n_open;
};

enum command { COMMAND_NONE, COMMAND_ADD, COMMAND_SET, COMMAND_STOP };

struct fault_proxy {
        uv_loop_t loop;
        uv_async_t wake;
        pthread_t thread;
        struct list links;

        pthread_mutex_t lock; /* of the command */
        pthread_cond_t done;
        enum command command;
        struct fault_link *subject;
        struct fault fault;
};

static void on_pipe_gone(struct fault_pipe *pipe, void *context)
{
        struct fault_link *link = context;

        list_remove(&pipe->link);
        atomic_fetch_sub(&link->n_open, 1);
}

static void on_connection(uv_stream_t *listener, int status)
{
        struct fault_link *link = listener->data;
        struct fault_pipe *pipe;

        if (status < 0)
                return;
        atomic_fetch_add(&link->n_connections, 1);
        atomic_fetch_add(&link->n_open, 1);
        pipe = fault_pipe_accept(listener, &link->server, &link->fault, on_pipe_gone, link);
        list_insert_before(&link->pipes, &pipe->link);
}

static void on_listener_closed(uv_handle_t *handle)
{
        free(handle);
}

static void stop_listening(struct fault_link *link)
{
        if (link->listener != NULL)
                uv_close((uv_handle_t *)link->listener, on_listener_closed);
        link->listener = NULL;
}

static void start_listening(struct fault_link *link)
{
        struct sockaddr_in address = {.sin_family = AF_INET,
            .sin_port = htons(link->port),
            .sin_addr = {.s_addr = htonl(INADDR_LOOPBACK)}};

        if (link->listener != NULL)
                return;
        link->listener = xcalloc(1, sizeof *link->listener);
        uv_tcp_init(&link->proxy->loop, link->listener);
        link->listener->data = link;
        if (uv_tcp_bind(link->listener, (struct sockaddr *)&address, 0) != 0 ||
            uv_listen((uv_stream_t *)link->listener, 256, on_connection) != 0)
                test_abort("the fault proxy cannot listen on port %u", link->port);
}

static void set(struct fault_link *link, const struct fault *fault)
{
        link->fault = *fault;
        if (fault->kind == FAULT_REFUSE)
                stop_listening(link);
        else
                start_listening(link);
        list_for_each (at, &link->pipes)
                fault_pipe_obey(list_owner(at, struct fault_pipe, link), &link->server);
}

static void stop(struct fault_proxy *proxy)
{
        list_for_each (at, &proxy->links) {
                struct fault_link *link = list_owner(at, struct fault_link, link);
                stop_listening(link);
                list_for_each (pipe, &link->pipes)
                        fault_pipe_close(list_owner(pipe, struct fault_pipe, link), true);
        }
        uv_close((uv_handle_t *)&proxy->wake, NULL);
}

static void on_command(uv_async_t *wake)
{
        struct fault_proxy *proxy = wake->data;

        pthread_mutex_lock(&proxy->lock);
        switch (proxy->command) {
        case COMMAND_NONE:
                break;
        case COMMAND_ADD:
                list_insert_before(&proxy->links, &proxy->subject->link);
                start_listening(proxy->subject);
                break;
        case COMMAND_SET:
                set(proxy->subject, &proxy->fault);
                break;
        case COMMAND_STOP:
                stop(proxy);
                break;
        }
        proxy->command = COMMAND_NONE;
        pthread_cond_signal(&proxy->done);
        pthread_mutex_unlock(&proxy->lock);
}

static void command(struct fault_proxy *proxy, enum command what, struct fault_link *subject,
    const struct fault *fault)
{
        pthread_mutex_lock(&proxy->lock);
        proxy->command = what;
        proxy->subject = subject;
        if (fault != NULL)
                proxy->fault = *fault;
        uv_async_send(&proxy->wake);
        while (proxy->command != COMMAND_NONE)
                pthread_cond_wait(&proxy->done, &proxy->lock);
        pthread_mutex_unlock(&proxy->lock);
}

static void *run(void *context)
{
        struct fault_proxy *proxy = context;

        uv_run(&proxy->loop, UV_RUN_DEFAULT);
        return NULL;
}

struct fault_proxy *fault_proxy_start(void)
{
        struct fault_proxy *proxy = xcalloc(1, sizeof *proxy);

        signal(SIGPIPE, SIG_IGN); /* libuv reports it as an error of the write */
        list_init(&proxy->links);
        pthread_mutex_init(&proxy->lock, NULL);
        pthread_cond_init(&proxy->done, NULL);
        if (uv_loop_init(&proxy->loop) != 0 ||
            uv_async_init(&proxy->loop, &proxy->wake, on_command) != 0)
                test_abort("the fault proxy has no event loop");
        proxy->wake.data = proxy;
        if (pthread_create(&proxy->thread, NULL, run, proxy) != 0)
                test_abort("the fault proxy has no thread");
        return proxy;
}

void fault_proxy_destroy(struct fault_proxy *proxy)
{
        if (proxy == NULL)
                return;
        command(proxy, COMMAND_STOP, NULL, NULL);
        pthread_join(proxy->thread, NULL);
        uv_loop_close(&proxy->loop);
        list_for_each (at, &proxy->links)
                free(list_owner(at, struct fault_link, link));
        pthread_cond_destroy(&proxy->done);
        pthread_mutex_destroy(&proxy->lock);
        free(proxy);
}

struct fault_link *fault_proxy_add(struct fault_proxy *proxy, uint16_t port)
{
        struct fault_link *link = xcalloc(1, sizeof *link);

        link->proxy = proxy;
        link->port = free_port();
        link->server = (struct sockaddr_in){.sin_family = AF_INET,
            .sin_port = htons(port),
            .sin_addr = {.s_addr = htonl(INADDR_LOOPBACK)}};
        list_init(&link->pipes);
        command(proxy, COMMAND_ADD, link, NULL);
        return link;
}

uint16_t fault_link_port(const struct fault_link *link)
{
        return link->port;
}

void fault_link_set(struct fault_link *link, const struct fault *fault)
{
        command(link->proxy, COMMAND_SET, link, fault);
}

unsigned fault_link_n_connections(const struct fault_link *link)
{
        return atomic_load(&link->n_connections);
}

unsigned fault_link_n_open(const struct fault_link *link)
{
        return atomic_load(&link->n_open);
}

const char *fault_kind_name(enum fault_kind kind)
{
        static const char *const names[] = {
            "none", "delay", "throttle", "cut", "half-open", "reset", "blackhole", "refuse"};
        return names[kind];
}
