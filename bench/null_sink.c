/*
 * A sink that takes everything and does nothing with it: what is left is the cost of the relay
 * and of the database. A module, loaded as anybody's own sink is (docs/writing-a-sink.md).
 *
 * What deliver() collects is finished in the next turn of the loop, all of it at once.
 */
#include <pgcourier/module.h>
#include <stdlib.h>

struct null_sink {
        struct sink base;
        struct attempt **attempts; /* owned list of lent attempts */
        size_t n_attempts, n_attempts_max;
        uv_idle_t turn; /* started while there are any */
        sink_closed_fn *on_closed;
        void *owner;
};

static void on_turn(uv_idle_t *turn)
{
        struct null_sink *sink = turn->data;
        struct attempt **attempts = sink->attempts;
        size_t n_attempts = sink->n_attempts;

        /* Finishing one may bring others, for the next turn. */
        uv_idle_stop(turn);
        sink->attempts = NULL;
        sink->n_attempts = sink->n_attempts_max = 0;
        for (size_t i = 0; i < n_attempts; i++)
                attempt_finish(attempts[i], &outcome_delivered);
        free(attempts);
}

static void null_deliver(struct sink *base, struct attempt *attempt)
{
        struct null_sink *sink = (struct null_sink *)base;

        if (sink->n_attempts == sink->n_attempts_max) {
                sink->n_attempts_max = 2 * sink->n_attempts_max + 1024;
                sink->attempts =
                    realloc(sink->attempts, sink->n_attempts_max * sizeof(struct attempt *));
                if (sink->attempts == NULL)
                        abort();
        }
        sink->attempts[sink->n_attempts++] = attempt;
        if (!uv_is_active((uv_handle_t *)&sink->turn))
                uv_idle_start(&sink->turn, on_turn);
}

static void null_cancel(struct sink *base)
{
        (void)base; /* all are finished in the next turn anyway */
}

static void on_turn_closed(uv_handle_t *handle)
{
        struct null_sink *sink = handle->data;
        sink_closed_fn *on_closed = sink->on_closed;
        void *owner = sink->owner;

        free(sink->attempts);
        free(sink);
        on_closed(owner);
}

static void null_close(struct sink *base, sink_closed_fn *on_closed, void *owner)
{
        struct null_sink *sink = (struct null_sink *)base;

        sink->on_closed = on_closed;
        sink->owner = owner;
        sink_deinit(base);
        uv_close((uv_handle_t *)&sink->turn, on_turn_closed);
}

static void null_probe(struct sink *base, sink_probed_fn *on_probed, void *owner)
{
        (void)base;
        (void)on_probed;
        (void)owner;
        abort(); /* nobody checks a benchmark's sink */
}

static const struct sink_ops null_sink_ops;

static struct sink *null_open(const struct sink_settings *settings, struct error *error)
{
        static const char *const no_options[] = {NULL};
        struct null_sink *sink;

        if (!sink_options_know(settings->options, no_options, error))
                return NULL;
        sink = calloc(1, sizeof *sink);
        if (sink == NULL)
                abort();
        sink_init(&sink->base, &null_sink_ops, settings);
        uv_idle_init(settings->loop, &sink->turn);
        sink->turn.data = sink;
        return &sink->base;
}

static const struct sink_ops null_sink_ops = {
    .kind = "null",
    .keeps_order = true,
    .open = null_open,
    .deliver = null_deliver,
    .cancel = null_cancel,
    .close = null_close,
    .probe = null_probe,
};

PGCOURIER_MODULE(.version = "1.0.0", .ops = &null_sink_ops);
