/*
 * Every piece that is read becomes a chunk with a time at which it is due on the other side; a
 * timer per connection writes what is due. Delays and rates are thereby only a question of how that
 * time is computed, and order is kept because no chunk is due before the one ahead of it.
 */
#include "chaos/fault_pipe.h"

#include "base/alloc.h"
#include "base/backoff.h"

#include <stdlib.h>
#include <string.h>

#define MAX_QUEUED_BYTES (256u * 1024)

struct chunk {
        struct list link;
        uv_write_t request;
        struct fault_side *to;
        int64_t due_ms;
        size_t n_bytes;
        char bytes[];
};

static int64_t now_ms(const struct fault_pipe *pipe)
{
        return (int64_t)uv_now(pipe->timer.loop);
}

static void pump(struct fault_pipe *pipe);

/* ---- the end --------------------------------------------------------------------------------- */

static void on_closed(uv_handle_t *handle)
{
        struct fault_pipe *pipe = handle->data;

        if (--pipe->n_handles > 0)
                return;
        for (int s = 0; s < N_SIDES; s++)
                list_for_each (link, &pipe->sides[s].queue) {
                        list_remove(link);
                        free(list_owner(link, struct chunk, link));
                }
        pipe->on_gone(pipe, pipe->context);
        free(pipe);
}

void fault_pipe_close(struct fault_pipe *pipe, bool by_reset)
{
        if (pipe->is_closing)
                return;
        pipe->is_closing = true;
        for (int s = 0; s < N_SIDES; s++) {
                uv_tcp_t *tcp = &pipe->sides[s].tcp;
                if (!by_reset || uv_tcp_close_reset(tcp, on_closed) != 0)
                        uv_close((uv_handle_t *)tcp, on_closed);
        }
        uv_close((uv_handle_t *)&pipe->timer, on_closed);
}

/* ---- from the queue to the socket ------------------------------------------------------------ */

static void on_written(uv_write_t *request, int status)
{
        struct chunk *chunk = request->data;
        struct fault_side *side = chunk->to;

        side->n_writing--;
        free(chunk);
        if (status < 0)
                fault_pipe_close(side->pipe, true);
        else if (!side->pipe->is_closing)
                pump(side->pipe);
}

/* The last bytes that a FAULT_CUT lets through end the connection. */
static void cut(struct fault_pipe *pipe, struct chunk *chunk)
{
        uint32_t left = pipe->fault->after_bytes - pipe->n_answered;

        if (chunk->n_bytes >= left) {
                chunk->n_bytes = left;
                pipe->is_finishing = true;
                for (int s = 0; s < N_SIDES; s++)
                        list_for_each (link, &pipe->sides[s].queue) {
                                list_remove(link);
                                free(list_owner(link, struct chunk, link));
                        }
        }
        pipe->n_answered += (uint32_t)chunk->n_bytes;
}

static void write_chunk(struct fault_side *side, struct chunk *chunk)
{
        uv_buf_t buffer;

        if (side == &side->pipe->sides[CLIENT] && side->pipe->fault->kind == FAULT_CUT)
                cut(side->pipe, chunk);
        buffer = uv_buf_init(chunk->bytes, (unsigned)chunk->n_bytes);
        chunk->request.data = chunk;
        if (uv_write(&chunk->request, (uv_stream_t *)&side->tcp, &buffer, 1, on_written) != 0) {
                free(chunk);
                fault_pipe_close(side->pipe, true);
                return;
        }
        side->n_writing++;
}

static void write_due(struct fault_side *side)
{
        list_for_each (link, &side->queue) {
                struct chunk *chunk = list_owner(link, struct chunk, link);
                if (chunk->due_ms > now_ms(side->pipe))
                        return;
                list_remove(link);
                side->queued_bytes -= chunk->n_bytes;
                write_chunk(side, chunk);
                /* A cut empties the queue under this loop. */
                if (side->pipe->is_closing || side->pipe->is_finishing)
                        return;
        }
}

static bool is_flushed(const struct fault_side *side)
{
        return list_is_empty(&side->queue) && side->n_writing == 0;
}

static void on_timer(uv_timer_t *timer)
{
        pump(timer->data);
}

static void arm(struct fault_pipe *pipe)
{
        int64_t due_ms = INT64_MAX;

        for (int s = 0; s < N_SIDES; s++) {
                const struct list *queue = &pipe->sides[s].queue;
                if (!list_is_empty(queue) &&
                    list_owner(queue->next, struct chunk, link)->due_ms < due_ms)
                        due_ms = list_owner(queue->next, struct chunk, link)->due_ms;
        }
        if (due_ms == INT64_MAX)
                uv_timer_stop(&pipe->timer);
        else
                uv_timer_start(&pipe->timer, on_timer,
                    due_ms > now_ms(pipe) ? (uint64_t)(due_ms - now_ms(pipe)) : 0, 0);
}

/* ---- from the socket to the queue ------------------------------------------------------------ */

static struct fault_side *other(struct fault_side *side)
{
        return &side->pipe->sides[side == &side->pipe->sides[CLIENT] ? SERVER : CLIENT];
}

static int64_t due(const struct fault_side *to, size_t n_bytes)
{
        const struct fault *fault = to->pipe->fault;
        int64_t due_ms = now_ms(to->pipe);

        if (fault->kind == FAULT_DELAY)
                due_ms += fault->delay_ms +
                          (fault->jitter_ms > 0 ? random_u32() % (fault->jitter_ms + 1) : 0);
        if (due_ms < to->last_due_ms)
                due_ms = to->last_due_ms;
        if (fault->kind == FAULT_THROTTLE)
                due_ms += (int64_t)(1000 * n_bytes / fault->bytes_per_s);
        return due_ms;
}

static void on_alloc(uv_handle_t *handle, size_t suggested, uv_buf_t *buffer)
{
        static _Thread_local char shared[64 * 1024]; /* copied before anything else is read */

        (void)handle;
        (void)suggested;
        *buffer = uv_buf_init(shared, sizeof shared);
}

static void on_read(uv_stream_t *stream, ssize_t n_bytes, const uv_buf_t *buffer)
{
        struct fault_side *from = list_owner(stream, struct fault_side, tcp);
        struct fault_side *to = other(from);
        struct chunk *chunk;

        if (n_bytes == 0)
                return;
        if (n_bytes < 0) {
                if (n_bytes != UV_EOF) {
                        fault_pipe_close(from->pipe, true);
                        return;
                }
                from->pipe->is_finishing = true;
                pump(from->pipe);
                return;
        }
        chunk = xcalloc(1, sizeof *chunk + (size_t)n_bytes);
        chunk->to = to;
        chunk->n_bytes = (size_t)n_bytes;
        memcpy(chunk->bytes, buffer->base, (size_t)n_bytes);
        chunk->due_ms = to->last_due_ms = due(to, (size_t)n_bytes);
        list_insert_before(&to->queue, &chunk->link);
        to->queued_bytes += (size_t)n_bytes;
        pump(from->pipe);
}

static void read_if(struct fault_side *side, bool wanted)
{
        if (wanted && !side->is_reading)
                uv_read_start((uv_stream_t *)&side->tcp, on_alloc, on_read);
        else if (!wanted && side->is_reading)
                uv_read_stop((uv_stream_t *)&side->tcp);
        side->is_reading = wanted;
}

static bool moves(const struct fault_pipe *pipe)
{
        return pipe->is_connected && !pipe->is_dead && pipe->fault->kind != FAULT_BLACKHOLE;
}

static void pump(struct fault_pipe *pipe)
{
        if (pipe->is_closing)
                return;
        if (moves(pipe))
                for (int s = 0; s < N_SIDES && !pipe->is_closing; s++)
                        write_due(&pipe->sides[s]);
        if (pipe->is_closing)
                return;
        for (int s = 0; s < N_SIDES; s++)
                read_if(
                    &pipe->sides[s], moves(pipe) && !pipe->is_finishing &&
                                         other(&pipe->sides[s])->queued_bytes < MAX_QUEUED_BYTES);
        if (!moves(pipe))
                uv_timer_stop(&pipe->timer);
        else if (pipe->is_finishing && is_flushed(&pipe->sides[0]) && is_flushed(&pipe->sides[1]))
                fault_pipe_close(pipe, false);
        else
                arm(pipe);
}

/* ---- the beginning --------------------------------------------------------------------------- */

static void on_connected(uv_connect_t *request, int status)
{
        struct fault_pipe *pipe = request->data;

        if (status == UV_ECANCELED)
                return;
        pipe->is_connecting = false;
        pipe->is_connected = status == 0;
        if (status == 0)
                pump(pipe);
        else
                fault_pipe_close(pipe, true);
}

static void connect_to(struct fault_pipe *pipe, const struct sockaddr_in *server)
{
        pipe->is_connecting = true;
        pipe->connecting.data = pipe;
        if (uv_tcp_connect(&pipe->connecting, &pipe->sides[SERVER].tcp,
                (const struct sockaddr *)server, on_connected) != 0)
                fault_pipe_close(pipe, true);
}

struct fault_pipe *fault_pipe_accept(uv_stream_t *listener, const struct sockaddr_in *server,
    const struct fault *fault, void (*on_gone)(struct fault_pipe *pipe, void *context),
    void *context)
{
        struct fault_pipe *pipe = xcalloc(1, sizeof *pipe);

        pipe->fault = fault;
        pipe->on_gone = on_gone;
        pipe->context = context;
        list_init(&pipe->link);
        for (int s = 0; s < N_SIDES; s++) {
                struct fault_side *side = &pipe->sides[s];
                uv_tcp_init(listener->loop, &side->tcp);
                side->tcp.data = pipe;
                side->pipe = pipe;
                list_init(&side->queue);
        }
        uv_timer_init(listener->loop, &pipe->timer);
        pipe->timer.data = pipe;
        pipe->n_handles = N_SIDES + 1;
        if (uv_accept(listener, (uv_stream_t *)&pipe->sides[CLIENT].tcp) != 0) {
                fault_pipe_close(pipe, false);
                return pipe;
        }
        uv_tcp_nodelay(&pipe->sides[CLIENT].tcp, 1);
        if (fault->kind == FAULT_HALF_OPEN)
                pipe->is_dead = true;
        else
                fault_pipe_obey(pipe, server);
        return pipe;
}

void fault_pipe_obey(struct fault_pipe *pipe, const struct sockaddr_in *server)
{
        if (pipe->is_closing)
                return;
        pipe->n_answered = 0;
        switch (pipe->fault->kind) {
        case FAULT_HALF_OPEN:
        case FAULT_RESET:
                fault_pipe_close(pipe, true);
                return;
        case FAULT_NONE:
        case FAULT_DELAY:
        case FAULT_THROTTLE:
        case FAULT_CUT:
        case FAULT_REFUSE:
                if (!pipe->is_connected && !pipe->is_connecting && !pipe->is_dead)
                        connect_to(pipe, server);
                break;
        case FAULT_BLACKHOLE:
                break;
        }
        pump(pipe);
}
