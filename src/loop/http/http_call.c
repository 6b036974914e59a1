#include "base/alloc.h"
#include "loop/http/http_internal.h"

#include <assert.h>
#include <stdlib.h>

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
                http_stream_end(request->stream, !request->client->listener->is_closing);
        list_remove(&request->link);
        request->connection = NULL;
        request->client = NULL;
        if (request->state != REQUEST_ASKED) /* else whoever was asked still has it */
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

static ssize_t read_stream(void *owner, uint64_t position, char *buffer, size_t size)
{
        (void)position;
        return http_stream_read(owner, buffer, size);
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
        request->stream = http_stream_create(request, max_waiting_bytes, on_ended, owner);
        finish(request,
            MHD_create_response_from_callback(
                MHD_SIZE_UNKNOWN, BLOCK_BYTES, read_stream, request->stream, NULL),
            answer);
        return request->stream;
}
