#include "admin/admin.h"

#include "admin/admin_internal.h"
#include "admin/event_stream.h"
#include "admin/http/answer.h"
#include "admin/http/routes.h"
#include "base/alloc.h"

#include <stdlib.h>
#include <unistd.h>

static void on_request(void *owner, struct http_call *request)
{
        routes_answer(owner, request);
}

static const struct http_listener_options limits = {.max_connections = ADMIN_CONNECTIONS,
    .max_head_bytes = 16 * 1024,
    .max_body_bytes = 64 * 1024,
    .request_timeout_ms = 10 * 1000,
    .answer_timeout_ms = 10 * 1000,
    .headers = answer_headers};

void admin_take_config(struct admin *admin, const struct admin_config *config)
{
        admin->options.config = config;
        token_init(&admin->token, config->token);
}

static bool start_listening(
    struct admin *admin, const struct listen_address *address, struct error *error)
{
        if (!listen_socket_open(&admin->socket, address, error))
                return false;
        admin->listener =
            http_listener_create(admin->loop, admin->socket.file, &limits, on_request, admin);
        if (admin->listener != NULL)
                return true;
        close(admin->socket.file);
        listen_socket_remove(&admin->socket);
        return error_set(error, ERROR_TEMPORARY, "the admin endpoint cannot be set up");
}

struct admin *admin_create(
    uv_loop_t *loop, const struct admin_options *options, struct error *error)
{
        struct admin *admin = xcalloc(1, sizeof *admin);
        struct listen_address address;

        admin->loop = loop;
        admin->options = *options;
        if (listen_address_parse(options->config->listen, &address) != NULL)
                abort(); /* config_load() has accepted it */
        admin->is_local = listen_address_is_local(&address);
        admin_take_config(admin, options->config);
        if (!start_listening(admin, &address, error)) {
                free(admin);
                return NULL;
        }
        admin->streams = event_streams_create(admin);
        return admin;
}

void admin_destroy(struct admin *admin)
{
        if (admin == NULL)
                return;
        http_listener_destroy(admin->listener);
        event_streams_destroy(admin->streams);
        listen_socket_remove(&admin->socket);
        free(admin);
}
