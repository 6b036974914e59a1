/*
 * A sink that appends each event to a file, as a line of JSON.
 *
 * The loop's thread only gathers lines; a thread of libuv's pool writes a whole batch of them at a
 * time, while the next one gathers. So a slow disk slows down this sink and nothing else, and the
 * batches grow by themselves with the load.
 *
 *   IDLE -flush(), something gathered-> WRITING -written-> IDLE, or WRITING (the next batch)
 *
 * Each batch looks whether the file that it has open is still the one of that name, so that logrotate
 * and the like may move it away at any time.
 */
#include "event_line.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <pgcourier/module.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const struct sink_ops file_sink_ops;

struct pending {
        struct attempt *attempt; /* lent by pgcourier until it is finished */
        size_t end;              /* of its line within the batch */
};

struct batch {
        struct text lines;
        struct pending *pending;
        size_t n_pending;
        size_t capacity;
};

/* The file, and the batch being written: the worker's while WRITING, else the loop's. */
struct output {
        const char *path; /* borrowed from the options */
        bool syncs;
        int fd; /* -1: not open */
        struct batch batch;
        size_t n_kept; /* bytes of the batch that are safely in the file */
        int failure;   /* errno, or 0 */
};

enum file_state { FILE_IDLE, FILE_WRITING };

struct file_sink {
        struct sink sink; /* first */
        enum file_state state;
        struct batch gathering;
        struct output output;
        uv_work_t work;

        sink_probed_fn *on_probed; /* one of the two at a time */
        sink_closed_fn *on_closed;
        void *owner;
};

static void batch_add(struct batch *batch, struct attempt *attempt)
{
        if (batch->n_pending == batch->capacity) {
                batch->capacity = batch->capacity > 0 ? 2 * batch->capacity : 64;
                batch->pending =
                    reallocarray(batch->pending, batch->capacity, sizeof *batch->pending);
                if (batch->pending == NULL)
                        abort();
        }
        event_line_append(&batch->lines, attempt->event);
        batch->pending[batch->n_pending++] =
            (struct pending){.attempt = attempt, .end = batch->lines.length};
}

static void batch_free(struct batch *batch)
{
        free(batch->lines.data);
        free(batch->pending);
}

/* ---- on a worker's thread ------------------------------------------------------------------- */

static bool write_all(int fd, const char *data, size_t length)
{
        while (length > 0) {
                ssize_t n = write(fd, data, length);
                if (n < 0 && errno != EINTR)
                        return false;
                if (n > 0) {
                        data += n;
                        length -= (size_t)n;
                }
        }
        return true;
}

static bool is_still_named(const struct output *output)
{
        struct stat named;
        struct stat opened;

        return stat(output->path, &named) == 0 && fstat(output->fd, &opened) == 0 &&
               named.st_dev == opened.st_dev && named.st_ino == opened.st_ino;
}

/* A new file is there after a crash only once its folder is on the disk. */
static bool sync_folder(const char *path)
{
        char *copy = strdup(path);
        int fd = copy != NULL ? open(dirname(copy), O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
        bool ok = fd >= 0 && fsync(fd) == 0;

        if (fd >= 0)
                close(fd);
        free(copy);
        return ok;
}

/* A relay that was killed within a line left a part of it, which must not become one line with ours. */
static bool end_broken_line(int fd, off_t size)
{
        char last;

        if (size == 0 || pread(fd, &last, 1, size - 1) != 1 || last == '\n')
                return true;
        return write_all(fd, "\n", 1);
}

static bool open_file(struct output *output)
{
        struct stat status;

        output->fd = open(output->path, O_RDWR | O_APPEND | O_CREAT | O_CLOEXEC, 0640);
        return output->fd >= 0 && fstat(output->fd, &status) == 0 &&
               end_broken_line(output->fd, status.st_size) &&
               (!output->syncs || status.st_size > 0 || sync_folder(output->path));
}

static bool write_batch(struct output *output)
{
        const struct text *lines = &output->batch.lines;

        if (output->fd >= 0 && !is_still_named(output)) {
                close(output->fd);
                output->fd = -1;
        }
        if (output->fd < 0 && !open_file(output))
                return false;
        if (!write_all(output->fd, lines->data, lines->length))
                return false;
        return !output->syncs || fdatasync(output->fd) == 0;
}

static void on_work(uv_work_t *work)
{
        struct file_sink *file = work->data;
        struct output *output = &file->output;

        output->failure = 0;
        output->n_kept = 0;
        if (write_batch(output)) {
                output->n_kept = output->batch.lines.length;
                return;
        }
        /* How much of it is there, and what a failed fsync() has left, is unknown: all comes
         * again, from a file opened anew. */
        output->failure = errno;
        if (output->fd >= 0)
                close(output->fd);
        output->fd = -1;
}

static void on_probe_work(uv_work_t *work)
{
        struct file_sink *file = work->data;

        file->output.failure = file->output.fd >= 0 || open_file(&file->output) ? 0 : errno;
}

static void on_close_work(uv_work_t *work)
{
        struct file_sink *file = work->data;

        if (file->output.fd >= 0)
                close(file->output.fd);
}

/* ---- on the loop's thread ------------------------------------------------------------------- */

static void on_worked(uv_work_t *work, int status);

/* The only place that assigns file->state. */
static void enter(struct file_sink *file, enum file_state next)
{
        file->state = next;
        switch (next) {
        case FILE_IDLE:
                return;
        case FILE_WRITING:
                uv_queue_work(file->sink.loop, &file->work, on_work, on_worked);
                return;
        }
}

static void write_gathered(struct file_sink *file)
{
        struct batch spare = file->output.batch;

        spare.lines.length = 0;
        spare.n_pending = 0;
        file->output.batch = file->gathering;
        file->gathering = spare;
        enter(file, file->output.batch.n_pending > 0 ? FILE_WRITING : FILE_IDLE);
}

/* A file that cannot be written is down for all events alike: that costs none of them an attempt. */
static struct outcome outcome_of_failure(const struct output *output)
{
        /* These go away by hand only; a full disk may not. */
        bool needs_operator = output->failure == EACCES || output->failure == EPERM ||
                              output->failure == ENOENT || output->failure == ENOTDIR ||
                              output->failure == EISDIR || output->failure == EROFS;

        return outcome_down(OUTCOME_FAULT_OTHER, needs_operator, "%s cannot be written: %s",
            output->path, strerror(output->failure));
}

/* All in order, and none before this callback is over: what is delivered meanwhile must not get
 * into the file before those that come back now (deliver() asks sink_owes_answers()). */
static void finish_later(struct batch *batch, const struct outcome *outcome)
{
        for (size_t i = 0; i < batch->n_pending; i++)
                attempt_finish_later(batch->pending[i].attempt, outcome);
        batch->n_pending = 0;
        batch->lines.length = 0;
}

static void on_worked(uv_work_t *work, int status)
{
        struct file_sink *file = work->data;
        struct batch *batch = &file->output.batch;

        (void)status; /* UV_ECANCELED only after uv_cancel(), which is never called here */
        if (file->output.failure != 0) {
                struct outcome outcome = outcome_of_failure(&file->output);
                finish_later(batch, &outcome);
                finish_later(&file->gathering, &outcome);
        }
        /* The state stays WRITING: what is delivered from within these calls gathers. */
        for (size_t i = 0; i < batch->n_pending; i++)
                attempt_finish(batch->pending[i].attempt, &outcome_delivered);
        write_gathered(file);
}

static void file_deliver(struct sink *sink, struct attempt *attempt)
{
        struct file_sink *file = (struct file_sink *)sink;

        if (sink_owes_answers(sink))
                attempt_finish_later(attempt, &outcome_cancelled);
        else
                batch_add(&file->gathering, attempt);
}

static void file_flush(struct sink *sink)
{
        struct file_sink *file = (struct file_sink *)sink;

        if (file->state == FILE_IDLE)
                write_gathered(file);
}

static void file_cancel(struct sink *sink)
{
        struct file_sink *file = (struct file_sink *)sink;

        /* What is being written ends by itself, soon, and then we know how. */
        finish_later(&file->gathering, &outcome_cancelled);
}

static void on_probe_worked(uv_work_t *work, int status)
{
        struct file_sink *file = work->data;
        struct outcome outcome =
            file->output.failure == 0 ? outcome_delivered : outcome_of_failure(&file->output);

        (void)status;
        file->on_probed(file->owner, &outcome);
}

static void file_probe(struct sink *sink, sink_probed_fn *on_probed, void *owner)
{
        struct file_sink *file = (struct file_sink *)sink;

        file->on_probed = on_probed;
        file->owner = owner;
        uv_queue_work(sink->loop, &file->work, on_probe_work, on_probe_worked);
}

static void on_close_worked(uv_work_t *work, int status)
{
        struct file_sink *file = work->data;
        sink_closed_fn *on_closed = file->on_closed;
        void *owner = file->owner;

        (void)status;
        batch_free(&file->gathering);
        batch_free(&file->output.batch);
        sink_deinit(&file->sink);
        free(file);
        on_closed(owner);
}

/* No attempt is in flight, so nothing is being written. */
static void file_close(struct sink *sink, sink_closed_fn *on_closed, void *owner)
{
        struct file_sink *file = (struct file_sink *)sink;

        file->on_closed = on_closed;
        file->owner = owner;
        uv_queue_work(sink->loop, &file->work, on_close_work, on_close_worked);
}

static struct sink *file_open(const struct sink_settings *settings, struct error *error)
{
        static const char *const names[] = {"path", "fsync", NULL};
        const struct sink_options *options = settings->options;
        const struct sink_option *path = sink_options_find(options, "path");
        bool syncs = true;
        struct file_sink *file;

        if (!sink_options_know(options, names, error) ||
            !sink_options_flag(options, "fsync", &syncs, error))
                return NULL;
        if (path == NULL)
                return sink_option_missing(error, options, "path", "the file to append to");
        if (path->value[0] != '/')
                return sink_option_refused(
                    error, path, "is not an absolute path; allowed: /folder/file");
        file = calloc(1, sizeof *file);
        if (file == NULL)
                return sink_open_failed(error, "there is no memory for the sink");
        sink_init(&file->sink, &file_sink_ops, settings);
        file->output.path = path->value;
        file->output.syncs = syncs;
        file->output.fd = -1;
        file->work.data = file;
        return &file->sink;
}

static void file_describe_target(
    const struct sink *sink, const struct event *event, const void *target, char *text, size_t size)
{
        (void)event;
        (void)target;
        snprintf(text, size, "%s", ((const struct file_sink *)sink)->output.path);
}

static const struct sink_ops file_sink_ops = {
    .kind = "file",
    .keeps_order = true,
    .open = file_open,
    .deliver = file_deliver,
    .describe_target = file_describe_target,
    .flush = file_flush,
    .cancel = file_cancel,
    .close = file_close,
    .probe = file_probe,
};

PGCOURIER_MODULE(.version = "1.0.0", .threads = 1, .ops = &file_sink_ops);
