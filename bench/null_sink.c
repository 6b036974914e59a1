/*
 * The sink of the benchmark that goes nowhere: a module that looks at every field of an event and
 * has delivered it in the next turn of the loop, all events of a burst together.
 *
 * Its option `file` is memory shared with the program that measures: how many were delivered, and when the
 * last ones were.
 */
#include <fcntl.h>
#include <pgcourier/module.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

static const struct sink_ops null_ops;

struct watched {
        uint64_t n_delivered;
        int64_t last_us; /* wall clock */
        uint64_t n_bytes;
};

struct null_sink {
        struct sink sink; /* first */
        struct watched *watched;
        struct attempt **burst; /* in the order of deliver() */
        size_t n_burst, capacity;
        uv_idle_t next_turn;
        uv_timer_t later; /* for probe() */
        unsigned n_handles;
        sink_probed_fn *on_probed;
        sink_closed_fn *on_closed;
        void *owner;
};

static int64_t wall_us(void)
{
        struct timespec now;

        clock_gettime(CLOCK_REALTIME, &now);
        return now.tv_sec * INT64_C(1000000) + now.tv_nsec / 1000;
}

static struct watched *map_file(const char *path)
{
        int fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
        void *memory = MAP_FAILED;

        if (fd >= 0 && ftruncate(fd, sizeof(struct watched)) == 0)
                memory =
                    mmap(NULL, sizeof(struct watched), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        if (fd >= 0)
                close(fd);
        return memory != MAP_FAILED ? memory : NULL;
}

static struct sink *null_open(const struct sink_settings *settings, struct error *error)
{
        static const char *const names[] = {"file", NULL};
        const struct sink_options *options = settings->options;
        const struct sink_option *file = sink_options_find(options, "file");
        struct null_sink *null;

        if (!sink_options_know(options, names, error))
                return NULL;
        if (file == NULL)
                return sink_option_missing(error, options, "file", "where the count goes");
        null = calloc(1, sizeof *null);
        if (null == NULL || (null->watched = map_file(file->value)) == NULL) {
                free(null);
                return sink_option_refused(error, file, "cannot be mapped");
        }
        sink_init(&null->sink, &null_ops, settings);
        uv_idle_init(settings->loop, &null->next_turn);
        uv_timer_init(settings->loop, &null->later);
        null->next_turn.data = null->later.data = null;
        null->n_handles = 2;
        return &null->sink;
}

static uint64_t look_at(const char *text)
{
        return text != NULL ? strlen(text) + (unsigned char)text[0] : 0;
}

static void null_deliver(struct sink *sink, struct attempt *attempt)
{
        struct null_sink *null = (struct null_sink *)sink;
        const struct event *event = attempt->event;

        null->watched->n_bytes += look_at(event->topic) + look_at(event->key) +
                                  look_at(event->type) + event->payload_bytes +
                                  *(const unsigned char *)event->payload +
                                  (unsigned char)event->event_id[0] + (uint64_t)event->created_us;
        if (null->n_burst == null->capacity) {
                null->capacity = null->capacity > 0 ? 2 * null->capacity : 1024;
                null->burst = reallocarray(null->burst, null->capacity, sizeof(struct attempt *));
                if (null->burst == NULL)
                        abort();
        }
        null->burst[null->n_burst++] = attempt;
}

/* An attempt that is finished may bring new ones: they belong to the next burst. */
static void on_next_turn(uv_idle_t *idle)
{
        struct null_sink *null = idle->data;
        struct attempt **burst = null->burst;
        size_t n_burst = null->n_burst;

        uv_idle_stop(idle);
        null->burst = NULL;
        null->n_burst = null->capacity = 0;
        null->watched->last_us = wall_us();
        for (size_t i = 0; i < n_burst; i++)
                attempt_finish(burst[i], &outcome_delivered);
        __atomic_add_fetch(&null->watched->n_delivered, n_burst, __ATOMIC_RELEASE);
        if (null->burst == NULL) {
                null->burst = burst;
                null->capacity = n_burst;
        } else {
                free(burst);
        }
}

static void null_flush(struct sink *sink)
{
        struct null_sink *null = (struct null_sink *)sink;

        if (null->n_burst > 0)
                uv_idle_start(&null->next_turn, on_next_turn);
}

static void null_cancel(struct sink *sink)
{
        (void)sink; /* all is about to be finished */
}

static void on_later(uv_timer_t *timer)
{
        struct null_sink *null = timer->data;

        null->on_probed(null->owner, &outcome_delivered);
}

static void null_probe(struct sink *sink, sink_probed_fn *on_probed, void *owner)
{
        struct null_sink *null = (struct null_sink *)sink;

        null->on_probed = on_probed;
        null->owner = owner;
        uv_timer_start(&null->later, on_later, 0, 0);
}

static void on_handle_gone(uv_handle_t *handle)
{
        struct null_sink *null = handle->data;
        sink_closed_fn *on_closed = null->on_closed;
        void *owner = null->owner;

        if (--null->n_handles > 0)
                return;
        munmap(null->watched, sizeof *null->watched);
        free(null->burst);
        sink_deinit(&null->sink);
        free(null);
        on_closed(owner);
}

static void null_close(struct sink *sink, sink_closed_fn *on_closed, void *owner)
{
        struct null_sink *null = (struct null_sink *)sink;

        null->on_closed = on_closed;
        null->owner = owner;
        uv_close((uv_handle_t *)&null->next_turn, on_handle_gone);
        uv_close((uv_handle_t *)&null->later, on_handle_gone);
}

static const struct sink_ops null_ops = {
    .kind = "null",
    .keeps_order = true,
    .open = null_open,
    .deliver = null_deliver,
    .flush = null_flush,
    .cancel = null_cancel,
    .close = null_close,
    .probe = null_probe,
};

PGCOURIER_MODULE(.version = "0.1.0", .ops = &null_ops);
