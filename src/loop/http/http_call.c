/*
 * One request, from its first line until the client has its answer, and the body of an answer that
 * goes on. libmicrohttpd's daemon asks for more of such a body whenever the client takes more;
 * while there is nothing, its connection is suspended. What waits is bounded in size, and by the
 * connection's deadline in time, which runs while something waits.
 */
#include "base/alloc.h"
#include "loop/http/http_internal.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

void http_connection_drop(struct http_connection *client)
{
        shutdown(client->socket, SHUT_RDWR);
}

static struct http_stream *stream_create(struct http_call *request, size_t max_waiting_bytes,
    http_stream_ended_fn *on_ended, void *owner)
{
        struct http_stream *stream = xcalloc(1, sizeof *stream);

        stream->request = request;
        stream->max_waiting_bytes = max_waiting_bytes;
        stream->on_ended = on_ended;
        stream->owner = owner;
        return stream;
}

static void stream_end(struct http_stream *stream, bool tells_owner)
{
        if (tells_owner)
                stream->on_ended(stream->owner);
        bytes_deinit(&stream->waiting);
        free(stream);
}

static size_t count_waiting(const struct http_stream *stream)
{
        return stream->waiting.length - stream->n_read;
}

static ssize_t on_body_wanted(void *owner, uint64_t position, char *buffer, size_t size)
{
        struct http_stream *stream = owner;
        struct http_call *request = stream->request;
        size_t length = count_waiting(stream);

        (void)position;
        if (stream->is_dropped)
                return MHD_CONTENT_READER_END_WITH_ERROR;
        if (length == 0 && request->client->listener->is_closing)
                return MHD_CONTENT_READER_END_OF_STREAM;
        if (length == 0) {
                timer_disarm(request->client->deadline);
                request->is_suspended = true;
                MHD_suspend_connection(request->connection);
                return 0;
        }
        if (length > size)
                length = size;
        memcpy(buffer, stream->waiting.data + stream->n_read, length);
        stream->n_read += length;
        if (count_waiting(stream) == 0) {
                bytes_clear(&stream->waiting);
                stream->n_read = 0;
        }
        return (ssize_t)length;
}

struct http_call *http_call_create(struct http_connection *client,
    struct MHD_Connection *connection, const char *method, const char *path)
{
        struct http_call *request = xcalloc(1, sizeof *request);

        list_init(&request->link);
        request->client = client;
        request->connection = connection;
        request->method = xstrdup(method);
        request->path = xstrdup(path);
        return request;
}

static void request_free(struct http_call *request)
{
        list_remove(&request->link);
        if (request->response != NULL)
                MHD_destroy_response(request->response);
        free(request->method);
        free(request->path);
        bytes_deinit(&request->body);
        free(request);
}

void http_call_end(struct http_call *request)
{
        if (request->stream != NULL)
                stream_end(request->stream, !request->client->listener->is_closing);
        list_remove(&request->link);
        request->connection = NULL;
        request->client = NULL;
        if (request->state != REQUEST_ASKED) /* else the owner still has it, to answer */
                request_free(request);
}

void http_call_resume(struct http_call *request)
{
        if (!request->is_suspended)
                return;
        request->is_suspended = false;
        MHD_resume_connection(request->connection);
        timer_arm(request->client->listener->timer, 0); /* nothing else wakes the daemon */
}

enum MHD_Result http_call_queue(struct http_call *request)
{
        enum MHD_Result result =
            MHD_queue_response(request->connection, request->status, request->response);

        MHD_destroy_response(request->response); /* the daemon keeps its own reference */
        request->response = NULL;
        if (request->stream == NULL)
                timer_arm(request->client->deadline,
                    request->client->listener->options.answer_timeout_ms);
        return result;
}

const char *http_call_method(const struct http_call *request)
{
        return request->method;
}

const char *http_call_path(const struct http_call *request)
{
        return request->path;
}

static const char *look_up(
    const struct http_call *request, enum MHD_ValueKind kind, const char *name)
{
        if (request->connection == NULL)
                return NULL;
        return MHD_lookup_connection_value(request->connection, kind, name);
}

const char *http_call_header(const struct http_call *request, const char *name)
{
        return look_up(request, MHD_HEADER_KIND, name);
}

const char *http_call_argument(const struct http_call *request, const char *name)
{
        return look_up(request, MHD_GET_ARGUMENT_KIND, name);
}

const struct sockaddr *http_call_peer(const struct http_call *request)
{
        const union MHD_ConnectionInfo *info =
            request->connection != NULL
                ? MHD_get_connection_info(request->connection, MHD_CONNECTION_INFO_CLIENT_ADDRESS)
                : NULL;

        if (info == NULL || info->client_addr == NULL || info->client_addr->sa_family == AF_UNIX)
                return NULL;
        return info->client_addr;
}

const char *http_call_body(const struct http_call *request, size_t *out_length)
{
        *out_length = request->body.length;
        return request->body.data != NULL ? request->body.data : "";
}

bool http_call_is_too_large(const struct http_call *request)
{
        return request->is_too_large;
}

static void add_header(struct MHD_Response *response, const char *name, const char *value)
{
        if (MHD_add_response_header(response, name, value) != MHD_YES)
                out_of_memory();
}

static void add_headers(struct MHD_Response *response, const struct http_header *headers)
{
        for (; headers != NULL && headers->name != NULL; headers++)
                add_header(response, headers->name, headers->value);
}

/* The answer is there: whether inside on_request or later, the daemon's handler queues it. */
static void finish(
    struct http_call *request, struct MHD_Response *response, const struct http_answer *answer)
{
        if (response == NULL)
                out_of_memory();
        add_headers(response, request->client->listener->options.headers);
        add_headers(response, answer->headers);
        if (answer->content_type != NULL)
                add_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, answer->content_type);
        request->response = response;
        request->status = answer->status;
        request->state = REQUEST_ANSWERED;
        http_call_resume(request);
}

void http_call_answer(struct http_call *request, const struct http_answer *answer)
{
        assert(request->state == REQUEST_ASKED);
        if (request->connection == NULL) {
                request_free(request);
                return;
        }
        /* Copied: the daemon does not change it, its signature only lacks the const. */
        finish(request,
            MHD_create_response_from_buffer(
                answer->body_length, (void *)(uintptr_t)answer->body, MHD_RESPMEM_MUST_COPY),
            answer);
}

struct http_stream *http_call_stream(struct http_call *request, const struct http_answer *answer,
    size_t max_waiting_bytes, http_stream_ended_fn *on_ended, void *owner)
{
        enum { BLOCK_BYTES = 8 * 1024 };

        assert(request->state == REQUEST_ASKED);
        if (request->connection == NULL) {
                request_free(request);
                return NULL;
        }
        request->stream = stream_create(request, max_waiting_bytes, on_ended, owner);
        finish(request,
            MHD_create_response_from_callback(
                MHD_SIZE_UNKNOWN, BLOCK_BYTES, on_body_wanted, request->stream, NULL),
            answer);
        return request->stream;
}

/* What was read already makes room. */
static void move_up(struct http_stream *stream)
{
        size_t length = count_waiting(stream);

        memmove(stream->waiting.data, stream->waiting.data + stream->n_read, length);
        stream->waiting.length = length;
        stream->n_read = 0;
}

void http_stream_write(struct http_stream *stream, const void *data, size_t length)
{
        struct http_connection *client = stream->request->client;
        size_t n_waiting = count_waiting(stream);

        if (stream->is_dropped || length == 0)
                return;
        if (n_waiting > 0 && n_waiting + length > stream->max_waiting_bytes) {
                stream->is_dropped = true;
                http_connection_drop(client);
        } else {
                if (stream->n_read > stream->max_waiting_bytes)
                        move_up(stream);
                bytes_append(&stream->waiting, data, length);
                if (!timer_is_armed(client->deadline))
                        timer_arm(client->deadline, client->listener->options.answer_timeout_ms);
        }
        http_call_resume(stream->request);
}

bool http_stream_is_read(const struct http_stream *stream)
{
        return count_waiting(stream) == 0;
}
