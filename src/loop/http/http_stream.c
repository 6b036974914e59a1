/*
 * The body of an answer that goes on. The daemon asks for more whenever the
 * client takes more; while there is nothing, its connection is suspended, so
 * that nobody asks. What waits is bounded in size, and by the connection's
 * deadline in time: it runs while something waits.
 */
#include "base/alloc.h"
#include "loop/http/http_internal.h"

#include <stdlib.h>
#include <string.h>

struct http_stream *http_stream_create(struct http_call *request, size_t max_waiting_bytes,
    http_stream_ended_fn *on_ended, void *owner)
{
        struct http_stream *stream = xcalloc(1, sizeof *stream);

        stream->request = request;
        stream->max_waiting_bytes = max_waiting_bytes;
        stream->on_ended = on_ended;
        stream->owner = owner;
        return stream;
}

void http_stream_end(struct http_stream *stream, bool tells_owner)
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

ssize_t http_stream_read(struct http_stream *stream, char *buffer, size_t size)
{
        struct http_call *request = stream->request;
        size_t length = count_waiting(stream);

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
