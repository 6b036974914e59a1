/*
 * kind: email. One mail for each event, by SMTP through libcurl.
 *
 * libcurl blocks while it waits for the answer to the end of a mail, so each
 * attempt has a slot, whose work is done on a thread of libuv's pool. There are
 * as many slots as attempts may be in flight.
 */
#include "base/alloc.h"
#include "base/error.h"
#include "config/config.h"
#include "pgcourier/sink.h"
#include "sinks/email/email_slot.h"
#include "sinks/sink_contract.h"

#include <assert.h>
#include <stdlib.h>

extern const struct sink_ops email_sink_ops;

struct email_sink {
        struct sink sink;
        struct email_post post;
        struct email_slot *slots; /* one for each attempt in flight */
        unsigned n_slots;

        sink_closed_fn *on_closed;
        void *owner; /* of on_closed */
        uv_work_t goodbyes;
};

static struct email_sink *email_sink_from(struct sink *sink)
{
        assert(sink->ops == &email_sink_ops);
        return (struct email_sink *)sink;
}

static struct email_slot *free_slot(struct email_sink *email)
{
        unsigned i = 0;

        while (i < email->n_slots && email->slots[i].state != EMAIL_SLOT_FREE)
                i++;
        assert(i < email->n_slots); /* the relay keeps to max_concurrent */
        return &email->slots[i];
}

static void email_deliver(struct sink *sink, struct attempt *attempt)
{
        email_slot_send(free_slot(email_sink_from(sink)), attempt);
}

static void email_describe_target(
    const struct sink *sink, const struct event *event, const void *target, char *text, size_t size)
{
        (void)sink;
        (void)target;
        email_message_describe(event, text, size);
}

static void email_cancel(struct sink *sink)
{
        struct email_sink *email = email_sink_from(sink);

        for (unsigned i = 0; i < email->n_slots; i++)
                email_slot_cancel(&email->slots[i]);
}

static void email_probe(struct sink *sink, sink_probed_fn *on_probed, void *owner)
{
        email_slot_probe(free_slot(email_sink_from(sink)), on_probed, owner);
}

/* On a worker's thread: each mailer says goodbye to its server. */
static void leave_servers(uv_work_t *work)
{
        struct email_sink *email = work->data;

        for (unsigned i = 0; i < email->n_slots; i++)
                email_slot_deinit(&email->slots[i]);
}

static void destroy(struct sink *sink)
{
        struct email_sink *email = email_sink_from(sink);

        email_post_deinit(&email->post);
        free(email->slots);
        sink_deinit(&email->sink);
        free(email);
}

static void on_servers_left(uv_work_t *work, int status)
{
        struct email_sink *email = work->data;

        (void)status;
        sink_close_later(&email->sink, destroy, email->on_closed, email->owner);
}

static void email_close(struct sink *sink, sink_closed_fn *on_closed, void *owner)
{
        struct email_sink *email = email_sink_from(sink);

        email->on_closed = on_closed;
        email->owner = owner;
        email->goodbyes.data = email;
        /* Fails only without a work function. */
        uv_queue_work(sink->loop, &email->goodbyes, leave_servers, on_servers_left);
}

static bool open_slots(struct email_sink *email, unsigned n_slots, struct error *error)
{
        email->slots = xcalloc(n_slots, sizeof *email->slots);
        for (; email->n_slots < n_slots; email->n_slots++)
                if (!email_slot_init(&email->slots[email->n_slots], &email->post))
                        return error_set(error, ERROR_SYSTEM, "email: libcurl cannot be started");
        return true;
}

static struct sink *email_open(const struct sink_settings *settings, struct error *error)
{
        const struct email_config *config = settings->options;
        unsigned n_slots = settings->concurrency > 0 ? settings->concurrency : EMAIL_CONCURRENCY;
        struct email_sink *email = xcalloc(1, sizeof *email);

        sink_init(&email->sink, &email_sink_ops, settings);
        email->sink.max_concurrent = n_slots;
        email->sink.has_targets = email->sink.has_addresses = true;
        if (!email_post_init(&email->post, settings->loop, config, error)) {
                sink_deinit(&email->sink);
                free(email);
                return NULL;
        }
        if (open_slots(email, n_slots, error))
                return &email->sink;

        for (unsigned i = 0; i < email->n_slots; i++)
                email_slot_deinit(&email->slots[i]);
        destroy(&email->sink);
        return NULL;
}

const struct sink_ops email_sink_ops = {
    .kind = "email",
    .keeps_order = false,
    .open = email_open,
    .deliver = email_deliver,
    .describe_target = email_describe_target,
    .cancel = email_cancel,
    .close = email_close,
    .probe = email_probe,
};
