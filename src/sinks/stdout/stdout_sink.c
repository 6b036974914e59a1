/*
 * kind: stdout. One line of JSON for each event, in order.
 *
 * Standard output may be a pipe that is not read, a terminal that is stopped, a
 * full disk. O_NONBLOCK would hold for every process that shares it, the shell
 * included; so a worker thread writes, and it waits for room only for a moment
 * before it hands back to the loop, which tries again.
 * While one batch is being written the next one gathers.
 *
 *   IDLE -flush-> WRITING -all written-> IDLE or WRITING (the next batch)
 *                 WRITING -no room-> FULL -timer-> WRITING
 *
 * A line that was begun is always completed before anything else is written,
 * even if its attempt failed or was cancelled meanwhile: then the event comes
 * twice, but no line is ever broken. The program ignores SIGPIPE.
 */
#include "base/alloc.h"
#include "base/bytes.h"
#include "config/config.h"
#include "loop/timer.h"
#include "pgcourier/sink.h"
#include "sinks/format/event_json.h"
#include "sinks/format/event_time.h"

#include <assert.h>
#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

extern const struct sink_ops stdout_sink_ops;

#define WAIT_FOR_ROOM_MS 20 /* on the worker's thread */
#define TRY_AGAIN_MS     50 /* on the loop, while there is no room */

enum stdout_state { STDOUT_IDLE, STDOUT_WRITING, STDOUT_FULL };

struct pending {
        struct attempt *attempt; /* lent by the relay */
        size_t end;              /* of its line */
};

/* Lines and the attempts they belong to. */
struct write_batch {
        struct bytes lines;
        struct event_time time;
        size_t n_written; /* bytes of `lines` */
        struct pending *pending;
        size_t n_pending;
        size_t n_finished; /* the first ones */
        size_t capacity;
};

struct stdout_sink {
        struct sink sink;
        const struct stdout_config *config; /* borrowed */
        enum stdout_state state;
        struct write_batch gathering;
        struct write_batch writing; /* while WRITING, `lines` and n_written are the worker's */
        bool is_cancelled;          /* cancel() came while WRITING */
        int failure;                /* errno of the last write, or 0; while WRITING the worker's */
        uv_work_t work;
        struct timer *try_again;

        struct timer *answer; /* brings one of these in the loop's next turn */
        sink_probed_fn *on_probed;
        sink_closed_fn *on_closed;
        void *owner;
};

/* Several sinks of this kind share one standard output: who is within a line has it for itself. */
static pthread_mutex_t output_lock = PTHREAD_MUTEX_INITIALIZER;
static const struct stdout_sink *within_line;

static struct stdout_sink *stdout_sink_from(struct sink *sink)
{
        assert(sink->ops == &stdout_sink_ops);
        return (struct stdout_sink *)sink;
}

static void batch_deinit(struct write_batch *batch)
{
        bytes_deinit(&batch->lines);
        free(batch->pending);
        *batch = (struct write_batch){0};
}

static void batch_add(struct write_batch *batch, struct attempt *attempt, bool with_content)
{
        if (batch->n_pending == batch->capacity) {
                batch->capacity = batch->capacity > 0 ? batch->capacity * 2 : 64;
                batch->pending = xrealloc(batch->pending, batch->capacity * sizeof *batch->pending);
        }
        event_json_append_line(&batch->lines, attempt->event, &batch->time, with_content);
        batch->pending[batch->n_pending++] =
            (struct pending){.attempt = attempt, .end = batch->lines.length};
}

static bool batch_is_empty(const struct write_batch *batch)
{
        return batch->n_written == batch->lines.length;
}

/* Forgets what is not written, but for the rest of a line that was begun. */
static void batch_cut(struct write_batch *batch)
{
        const char *data = batch->lines.data;
        size_t end = batch->n_written;

        if (batch_is_empty(batch))
                return;
        while (end > 0 && data[end - 1] != '\n')
                end++;
        batch->lines.length = end;
}

/* Finishing an attempt may start others; those gather, and this batch is not touched by that. */
static void batch_finish_written(struct write_batch *batch)
{
        while (batch->n_finished < batch->n_pending &&
               batch->pending[batch->n_finished].end <= batch->n_written)
                attempt_finish(batch->pending[batch->n_finished++].attempt, &outcome_delivered);
}

static void batch_finish_rest(struct write_batch *batch, const struct outcome *outcome)
{
        while (batch->n_finished < batch->n_pending)
                attempt_finish(batch->pending[batch->n_finished++].attempt, outcome);
}

/* The same from inside an operation. */
static void batch_finish_rest_later(struct write_batch *batch, const struct outcome *outcome)
{
        while (batch->n_finished < batch->n_pending)
                attempt_finish_later(batch->pending[batch->n_finished++].attempt, outcome);
}

/* A pipe that polls as writable takes PIPE_BUF bytes at once; a file takes whatever it is given. */
static size_t max_write_bytes(void)
{
        struct stat status;

        return fstat(STDOUT_FILENO, &status) == 0 && S_ISREG(status.st_mode) ? 1 << 20 : PIPE_BUF;
}

/* As many whole lines as fit; of a long line, as much as fits. */
static size_t next_write_bytes(const struct write_batch *batch, size_t max)
{
        const char *start = batch->lines.data + batch->n_written;
        size_t left = batch->lines.length - batch->n_written;
        const char *line_end;

        if (left <= max)
                return left;
        line_end = memrchr(start, '\n', max);
        return line_end != NULL ? (size_t)(line_end + 1 - start) : max;
}

/* False if there is no room now, another sink is within a line, or it failed. */
static bool write_some(struct stdout_sink *out, size_t max)
{
        struct write_batch *batch = &out->writing;
        struct pollfd room = {.fd = STDOUT_FILENO, .events = POLLOUT};
        ssize_t n;

        /* Of an error the write says more. */
        if ((within_line != NULL && within_line != out) || poll(&room, 1, WAIT_FOR_ROOM_MS) == 0)
                return false;
        n = write(
            STDOUT_FILENO, batch->lines.data + batch->n_written, next_write_bytes(batch, max));
        if (n < 0 && errno != EINTR && errno != EAGAIN) {
                out->failure = errno;
                within_line = NULL;
        }
        if (n < 0)
                return errno == EINTR;
        batch->n_written += (size_t)n;
        within_line = batch->lines.data[batch->n_written - 1] == '\n' ? NULL : out;
        return true;
}

/* On the worker's thread. */
static void work(uv_work_t *uv)
{
        struct stdout_sink *out = uv->data;
        size_t max = max_write_bytes();
        bool goes_on = true;

        while (goes_on && !batch_is_empty(&out->writing)) {
                pthread_mutex_lock(&output_lock);
                goes_on = write_some(out, max);
                pthread_mutex_unlock(&output_lock);
        }
}

static void on_worked(uv_work_t *uv, int status);

/* The only place that assigns out->state. */
static void enter(struct stdout_sink *out, enum stdout_state next)
{
        out->state = next;
        timer_disarm(out->try_again);
        switch (next) {
        case STDOUT_IDLE:
                return;
        case STDOUT_WRITING:
                out->failure = 0;
                out->is_cancelled = false;
                uv_queue_work(out->sink.loop, &out->work, work, on_worked);
                return;
        case STDOUT_FULL:
                timer_arm(out->try_again, TRY_AGAIN_MS);
                return;
        }
}

/* With no worker running: the rest of the last batch, or else what has gathered. */
static void write_next(struct stdout_sink *out)
{
        if (batch_is_empty(&out->writing)) {
                struct write_batch spare = out->writing;
                bytes_clear(&spare.lines);
                spare.n_written = 0;
                spare.n_pending = 0;
                spare.n_finished = 0;
                out->writing = out->gathering;
                out->gathering = spare;
        }
        enter(out, batch_is_empty(&out->writing) ? STDOUT_IDLE : STDOUT_WRITING);
}

static void on_try_again(void *owner)
{
        write_next(owner);
}

/* Nothing that is waiting now can be written; what comes while this is told may try again. */
static void fail_all(struct stdout_sink *out)
{
        struct outcome outcome = outcome_down(OUTCOME_FAULT_OTHER, false,
            "standard output cannot be written: %s", strerror(out->failure));
        struct write_batch waiting = out->gathering;

        out->gathering = (struct write_batch){0};
        batch_cut(&out->writing);
        batch_finish_rest(&out->writing, &outcome);
        batch_finish_rest(&waiting, &outcome);
        batch_deinit(&waiting);
}

static void free_sink(struct stdout_sink *out)
{
        batch_deinit(&out->gathering);
        batch_deinit(&out->writing);
        timer_destroy(out->try_again);
        timer_destroy(out->answer);
        sink_deinit(&out->sink);
        free(out);
}

static void finish_closing(struct stdout_sink *out)
{
        sink_closed_fn *on_closed = out->on_closed;
        void *owner = out->owner;

        pthread_mutex_lock(&output_lock);
        if (within_line == out)
                within_line = NULL;
        pthread_mutex_unlock(&output_lock);
        free_sink(out);
        on_closed(owner);
}

static void on_worked(uv_work_t *uv, int status)
{
        struct stdout_sink *out = uv->data;

        (void)status; /* it is short and never cancelled in the queue */
        if (out->on_closed != NULL) {
                finish_closing(out);
                return;
        }
        /* The state stays WRITING meanwhile: attempts that are started by these calls gather. */
        batch_finish_written(&out->writing);
        if (out->failure != 0) {
                fail_all(out);
        } else if (out->is_cancelled) {
                batch_cut(&out->writing);
                batch_finish_rest(&out->writing, &outcome_cancelled);
        }

        if (out->failure != 0 && batch_is_empty(&out->gathering))
                enter(out, STDOUT_IDLE);
        else if (!batch_is_empty(&out->writing))
                enter(out, STDOUT_FULL);
        else
                write_next(out);
}

static void stdout_deliver(struct sink *sink, struct attempt *attempt)
{
        struct stdout_sink *out = stdout_sink_from(sink);

        batch_add(&out->gathering, attempt, out->config->payload);
}

static void stdout_flush(struct sink *sink)
{
        struct stdout_sink *out = stdout_sink_from(sink);

        switch (out->state) {
        case STDOUT_IDLE:
                write_next(out);
                return;
        case STDOUT_WRITING:
        case STDOUT_FULL:
                return;
        }
}

static void stdout_cancel(struct sink *sink)
{
        struct stdout_sink *out = stdout_sink_from(sink);

        batch_finish_rest_later(&out->gathering, &outcome_cancelled);
        batch_deinit(&out->gathering);
        switch (out->state) {
        case STDOUT_IDLE:
                return;
        case STDOUT_WRITING: /* for a moment only: on_worked() knows what was written */
                out->is_cancelled = true;
                return;
        case STDOUT_FULL:
                batch_cut(&out->writing);
                batch_finish_rest_later(&out->writing, &outcome_cancelled);
                return;
        }
}

static void on_answer(void *owner)
{
        struct stdout_sink *out = owner;
        struct pollfd output = {.fd = STDOUT_FILENO, .events = POLLOUT};
        struct outcome outcome = outcome_delivered;

        if (out->on_closed != NULL) {
                finish_closing(out);
                return;
        }
        if (poll(&output, 1, 0) < 0 || (output.revents & (POLLERR | POLLNVAL)) != 0)
                outcome = outcome_down(OUTCOME_FAULT_OTHER, false,
                    "standard output is closed, or its reader has gone");
        out->on_probed(out->owner, &outcome);
}

static void stdout_probe(struct sink *sink, sink_probed_fn *on_probed, void *owner)
{
        struct stdout_sink *out = stdout_sink_from(sink);

        out->on_probed = on_probed;
        out->owner = owner;
        timer_arm(out->answer, 0);
}

static void stdout_close(struct sink *sink, sink_closed_fn *on_closed, void *owner)
{
        struct stdout_sink *out = stdout_sink_from(sink);

        out->on_closed = on_closed;
        out->owner = owner;
        timer_disarm(out->try_again);
        /* The worker may still be completing the line of a cancelled attempt. */
        if (out->state != STDOUT_WRITING)
                timer_arm(out->answer, 0);
}

static struct sink *stdout_open(const struct sink_settings *settings, struct error *error)
{
        struct stdout_sink *out = xcalloc(1, sizeof *out);

        (void)error;
        sink_init(&out->sink, &stdout_sink_ops, settings);
        out->config = settings->options;
        out->work.data = out;
        out->try_again = timer_create_on(settings->loop, on_try_again, out);
        out->answer = timer_create_on(settings->loop, on_answer, out);
        return &out->sink;
}

const struct sink_ops stdout_sink_ops = {
    .kind = "stdout",
    .keeps_order = true,
    .open = stdout_open,
    .deliver = stdout_deliver,
    .flush = stdout_flush,
    .cancel = stdout_cancel,
    .close = stdout_close,
    .probe = stdout_probe,
};
