/*
 * The loop and a thread share a `job`. The last user frees it: the loop after it has joined the
 * thread, or the thread if the loop has given up.
 */
#include "relay/config_reader.h"

#include "base/alloc.h"
#include "base/regular_file.h"
#include "config/secret.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct job {
        char *path;
        char *text; /* owned; NULL: the file's */
        size_t length;
        config_load_fn *load;
        struct config *config; /* owned; the thread's until is_over */
        struct error error;

        uv_mutex_t lock; /* of all that follows */
        bool is_over;
        bool is_given_up;
        uv_async_t *wakes;      /* the loop's; until it has given up */
        char touched[PATH_MAX]; /* the file that it reads or looks for */
};

struct config_reader {
        uv_async_t wakes;
        uv_thread_t thread;
        struct job *job;
        config_read_fn *on_done;
        void *owner; /* borrowed */
};

/* The job that was given up and still waits for its file. No other reading starts before it has
 * ended. */
static struct {
        uv_once_t once;
        uv_mutex_t lock;
        struct job *job; /* NULL: none */
} left = {.once = UV_ONCE_INIT};

static void init_lock(uv_mutex_t *lock)
{
        if (uv_mutex_init(lock) != 0)
                out_of_memory();
}

static void init_left(void)
{
        init_lock(&left.lock);
}

static void job_free(struct job *job)
{
        uv_mutex_destroy(&job->lock);
        config_free(job->config);
        secret_free_bytes(job->text, job->length);
        free(job->path);
        free(job);
}

static void on_touch(void *owner, const char *path)
{
        struct job *job = owner;

        uv_mutex_lock(&job->lock);
        snprintf(job->touched, sizeof job->touched, "%s", path);
        uv_mutex_unlock(&job->lock);
}

static void work(void *owner)
{
        struct job *job = owner;
        bool is_given_up;

        regular_file_watch(on_touch, job);
        job->config = job->load(job->path, job->text, job->length, &job->error);
        uv_mutex_lock(&job->lock);
        job->is_over = true;
        is_given_up = job->is_given_up;
        if (!is_given_up)
                uv_async_send(job->wakes);
        uv_mutex_unlock(&job->lock);
        if (!is_given_up)
                return;
        uv_mutex_lock(&left.lock);
        left.job = NULL;
        uv_mutex_unlock(&left.lock);
        job_free(job);
}

static void on_closed(uv_handle_t *handle)
{
        free(handle->data);
}

static void close_reader(struct config_reader *reader)
{
        reader->job = NULL;
        uv_close((uv_handle_t *)&reader->wakes, on_closed);
}

static void finish(struct config_reader *reader)
{
        struct job *job = reader->job;
        struct config *config = job->config;

        uv_thread_join(&reader->thread);
        job->config = NULL;
        close_reader(reader);
        reader->on_done(reader->owner, config, &job->error);
        job_free(job);
}

static void on_wake(uv_async_t *wakes)
{
        struct config_reader *reader = wakes->data;

        if (reader->job != NULL)
                finish(reader);
}

static void say_what_waits(struct job *job, struct error *error)
{
        uv_mutex_lock(&job->lock);
        error_set(error, ERROR_TEMPORARY, "the file system of %s does not answer", job->touched);
        uv_mutex_unlock(&job->lock);
}

static struct job *job_create(
    const char *path, const struct config *same, config_load_fn *load, uv_async_t *wakes)
{
        struct job *job = xcalloc(1, sizeof *job);

        job->path = xstrdup(path);
        if (same != NULL) {
                job->length = same->text_length;
                job->text = xcalloc(same->text_length + 1, 1);
                memcpy(job->text, same->text, same->text_length);
        }
        job->load = load;
        job->wakes = wakes;
        init_lock(&job->lock);
        return job;
}

static bool check_none_is_left(struct error *error)
{
        bool is_left;

        uv_once(&left.once, init_left);
        uv_mutex_lock(&left.lock);
        is_left = left.job != NULL;
        if (is_left)
                say_what_waits(left.job, error);
        uv_mutex_unlock(&left.lock);
        return !is_left;
}

struct config_reader *config_reader_start(uv_loop_t *loop, const char *path,
    const struct config *same, config_load_fn *load, config_read_fn *on_done, void *owner,
    struct error *error)
{
        struct config_reader *reader;
        int status;

        if (!check_none_is_left(error))
                return NULL;
        reader = xcalloc(1, sizeof *reader);
        reader->on_done = on_done;
        reader->owner = owner;
        reader->wakes.data = reader;
        status = uv_async_init(loop, &reader->wakes, on_wake);
        if (status != 0) {
                free(reader);
                error_set(error, ERROR_TEMPORARY,
                    "the configuration cannot be read in the background: %s", uv_strerror(status));
                return NULL;
        }
        reader->job = job_create(path, same, load, &reader->wakes);
        status = uv_thread_create(&reader->thread, work, reader->job);
        if (status == 0)
                return reader;
        job_free(reader->job);
        close_reader(reader);
        error_set(error, ERROR_TEMPORARY, "no thread can be started to read the configuration: %s",
            uv_strerror(status));
        return NULL;
}

void config_reader_give_up(struct config_reader *reader, struct error *error)
{
        struct job *job = reader->job;
        bool is_over;

        if (error != NULL)
                say_what_waits(job, error);
        uv_mutex_lock(&left.lock);
        uv_mutex_lock(&job->lock);
        is_over = job->is_over;
        job->is_given_up = true;
        if (!is_over)
                left.job = job;
        uv_mutex_unlock(&job->lock);
        uv_mutex_unlock(&left.lock);
        if (is_over) {
                uv_thread_join(&reader->thread);
                job_free(job);
        } else {
                pthread_detach(reader->thread);
        }
        close_reader(reader);
}
