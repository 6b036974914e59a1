/*
 * kind: email. One mail for each event, by SMTP through libcurl.
 *
 * libcurl blocks while it waits for the answer to the end of a mail, so each
 * attempt runs on a thread of libuv's pool, from the payload to the outcome.
 * There is one slot for each of `concurrency` attempts; a slot and all it
 * points at belong to the worker from deliver() until on_worked(), but for the
 * one atomic flag that hurries it.
 */
#include "base/alloc.h"
#include "base/clock.h"
#include "config/config.h"
#include "pgcourier/sink.h"
#include "sinks/email_mailer.h"
#include "sinks/email_message.h"

#include <assert.h>
#include <stdatomic.h>
#include <stdlib.h>

extern const struct sink_ops email_sink_ops;

enum slot_state { SLOT_FREE, SLOT_SENDING, SLOT_PROBING, SLOT_CLOSING };

struct slot {
        enum slot_state state;
        uv_work_t work;
        struct email_sink *sink;
        struct email_mailer *mailer; /* owned */
        atomic_bool is_hurried;
        struct attempt *attempt; /* lent by the relay */
        struct outcome outcome;
};

struct email_sink {
        struct sink sink;
        struct email_route route;
        struct email_sender sender;
        struct slot *slots; /* `concurrency` of them */
        unsigned n_slots;

        sink_probed_fn *on_probed;
        sink_closed_fn *on_closed;
        void *owner; /* of the callback that is pending */
        uv_timer_t farewell;
};

static struct email_sink *email_sink_from(struct sink *sink)
{
        assert(sink->ops == &email_sink_ops);
        return (struct email_sink *)sink;
}

/* On the worker's thread. */
static void work(uv_work_t *uv)
{
        struct slot *slot = uv->data;
        struct email_message message;

        switch (slot->state) {
        case SLOT_FREE:
                abort();
        case SLOT_SENDING:
                if (!email_message_init(&message, &slot->sink->sender, slot->attempt->event,
                        clock_wall_us(), &slot->outcome))
                        return;
                slot->outcome = email_mailer_send(slot->mailer, &slot->sink->sender, &message);
                email_message_deinit(&message);
                return;
        case SLOT_PROBING:
                slot->outcome = email_mailer_probe(slot->mailer);
                return;
        case SLOT_CLOSING:
                for (unsigned i = 0; i < slot->sink->n_slots; i++)
                        email_mailer_destroy(slot->sink->slots[i].mailer);
                return;
        }
}

static void free_parts(struct email_sink *email)
{
        email_sender_deinit(&email->sender);
        free(email->slots);
        sink_deinit(&email->sink);
}

static void on_farewell_closed(uv_handle_t *handle)
{
        struct email_sink *email = handle->data;
        sink_closed_fn *on_closed = email->on_closed;
        void *owner = email->owner;

        free(email);
        on_closed(owner);
}

static void on_farewell(uv_timer_t *timer)
{
        uv_close((uv_handle_t *)timer, on_farewell_closed);
}

/* A turn later, because sink_deinit() leaves a handle that is still closing. */
static void finish_closing(struct email_sink *email)
{
        uv_loop_t *loop = email->sink.loop;

        free_parts(email);
        uv_timer_init(loop, &email->farewell);
        email->farewell.data = email;
        uv_timer_start(&email->farewell, on_farewell, 0, 0);
}

/* On the loop's thread again: the slot is free before anybody hears of the outcome. */
static void on_worked(uv_work_t *uv, int status)
{
        struct slot *slot = uv->data;
        struct email_sink *email = slot->sink;
        enum slot_state state = slot->state;
        struct attempt *attempt = slot->attempt;
        struct outcome outcome = status == UV_ECANCELED ? outcome_cancelled : slot->outcome;

        slot->state = SLOT_FREE;
        slot->attempt = NULL;
        switch (state) {
        case SLOT_FREE:
                abort();
        case SLOT_SENDING:
                attempt_finish(attempt, &outcome);
                return;
        case SLOT_PROBING:
                email->on_probed(email->owner, &outcome);
                return;
        case SLOT_CLOSING:
                finish_closing(email);
                return;
        }
}

static void start(struct slot *slot, enum slot_state state)
{
        assert(slot->state == SLOT_FREE);
        slot->state = state;
        slot->work.data = slot;
        atomic_store(&slot->is_hurried, false);
        /* Fails only without a work function. */
        uv_queue_work(slot->sink->sink.loop, &slot->work, work, on_worked);
}

static void email_deliver(struct sink *sink, struct attempt *attempt)
{
        struct email_sink *email = email_sink_from(sink);
        unsigned i = 0;

        while (i < email->n_slots && email->slots[i].state != SLOT_FREE)
                i++;
        assert(i < email->n_slots); /* the relay keeps to max_concurrent */
        email->slots[i].attempt = attempt;
        start(&email->slots[i], SLOT_SENDING);
}

static void email_describe_target(
    const struct sink *sink, const struct event *event, char *target, size_t size)
{
        (void)sink;
        email_message_describe(event, target, size);
}

static void email_cancel(struct sink *sink)
{
        struct email_sink *email = email_sink_from(sink);

        for (unsigned i = 0; i < email->n_slots; i++) {
                if (email->slots[i].state != SLOT_SENDING)
                        continue;
                atomic_store(&email->slots[i].is_hurried, true);
                /* Still in the queue: then it never runs. Otherwise the flag reaches it. */
                uv_cancel((uv_req_t *)&email->slots[i].work);
        }
}

static void email_probe(struct sink *sink, sink_probed_fn *on_probed, void *owner)
{
        struct email_sink *email = email_sink_from(sink);

        email->on_probed = on_probed;
        email->owner = owner;
        start(&email->slots[0], SLOT_PROBING);
}

static void email_close(struct sink *sink, sink_closed_fn *on_closed, void *owner)
{
        struct email_sink *email = email_sink_from(sink);

        email->on_closed = on_closed;
        email->owner = owner;
        start(&email->slots[0], SLOT_CLOSING);
}

static bool open_slots(struct email_sink *email, unsigned n_slots, struct error *error)
{
        email->slots = xcalloc(n_slots, sizeof *email->slots);
        for (; email->n_slots < n_slots; email->n_slots++) {
                struct slot *slot = &email->slots[email->n_slots];
                slot->sink = email;
                atomic_init(&slot->is_hurried, false);
                slot->mailer = email_mailer_create(&email->route, &slot->is_hurried);
                if (slot->mailer == NULL)
                        return error_set(error, ERROR_SYSTEM, "email: libcurl cannot be started");
        }
        return true;
}

static struct sink *email_open(const struct sink_settings *settings, struct error *error)
{
        const struct email_config *config = settings->options;
        struct email_sink *email = xcalloc(1, sizeof *email);

        sink_init(&email->sink, &email_sink_ops, settings);
        email->sink.max_concurrent = config->concurrency;
        if (email_route_init(&email->route, config, error) &&
            email_sender_init(&email->sender, config, error) &&
            open_slots(email, config->concurrency, error))
                return &email->sink;

        for (unsigned i = 0; i < email->n_slots; i++)
                email_mailer_destroy(email->slots[i].mailer);
        free_parts(email);
        free(email);
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
