#include "redis_rig.h"

#include "base/alloc.h"
#include "base/error.h"
#include "sinks/sink.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

enum { WATCHDOG_MS = 60 * 1000 };

static void on_watchdog(uv_timer_t *timer)
{
        const struct rig *rig = timer->data;

        test_abort(
            "the loop waits in vain: %u of %u attempts finished", rig->n_finished, rig->n_started);
}

static void on_finished(struct attempt *attempt, const struct outcome *outcome)
{
        struct delivery *delivery = (struct delivery *)attempt;
        struct rig *rig = delivery->rig;

        cr_assert(!delivery->is_finished);
        delivery->is_finished = true;
        delivery->outcome = *outcome;
        rig->n_finished++;
        if (rig->cancels_on_finish) {
                rig->cancels_on_finish = false;
                sink_cancel(rig->sink);
        }
        if (rig->n_started < rig->restart_below)
                rig_deliver(rig, 1);
}

static void fill_delivery(struct rig *rig, unsigned i)
{
        struct delivery *delivery = &rig->deliveries[i];

        snprintf(delivery->payload, sizeof delivery->payload, "%u", i);
        delivery->rig = rig;
        delivery->attempt.event = &delivery->event;
        delivery->attempt.number = 1;
        delivery->attempt.on_finished = on_finished;
        delivery->event = (struct event){.id = i,
            .topic = "orders",
            .payload = delivery->payload,
            .payload_bytes = strlen(delivery->payload),
            .created_us = 1706745599000001};
        snprintf(delivery->event.event_id, sizeof delivery->event.event_id,
            "00000000-0000-4000-8000-%012u", i);
}

void rig_init(struct rig *rig, const struct redis_server *server, unsigned n_deliveries)
{
        static char host[] = "127.0.0.1";
        static char stream[] = "events";

        signal(SIGPIPE, SIG_IGN);
        *rig = (struct rig){.config = {.host = host,
                                .port = server->port,
                                .stream = stream,
                                .connect_timeout_ms = 20000,
                                .timeout_ms = 20000}};
        uv_loop_init(&rig->loop);
        uv_timer_init(&rig->loop, &rig->watchdog);
        rig->watchdog.data = rig;
        uv_timer_start(&rig->watchdog, on_watchdog, WATCHDOG_MS, 0);
        uv_unref((uv_handle_t *)&rig->watchdog);
        rig->deliveries = xcalloc(n_deliveries, sizeof *rig->deliveries);
        for (unsigned i = 0; i < n_deliveries; i++)
                fill_delivery(rig, i);
}

void rig_open(struct rig *rig)
{
        const struct sink_settings settings = {
            .name = "test", .options = &rig->config, .loop = &rig->loop};
        struct error error = {0};

        rig->sink = redis_sink_ops.open(&settings, &error);
        cr_assert(rig->sink != NULL, "%s", error.text);
}

void rig_deliver(struct rig *rig, unsigned n)
{
        for (unsigned i = 0; i < n; i++)
                sink_deliver(rig->sink, &rig->deliveries[rig->n_started++].attempt);
        sink_flush(rig->sink);
}

void rig_run_until_finished(struct rig *rig, unsigned n_in_all)
{
        uv_timer_start(&rig->watchdog, on_watchdog, WATCHDOG_MS, 0);
        while (rig->n_finished < n_in_all)
                uv_run(&rig->loop, UV_RUN_ONCE);
}

void rig_deliver_all(struct rig *rig, unsigned n)
{
        rig_deliver(rig, n);
        rig_run_until_finished(rig, rig->n_started);
}

void rig_on_closed(void *owner)
{
        struct rig *rig = owner;

        rig->is_closed = true;
}

void rig_destroy(struct rig *rig)
{
        if (!rig->is_closed) {
                sink_close(rig->sink, rig_on_closed, rig);
                cr_expect(!rig->is_closed, "on_closed came from inside close()");
        }
        while (!rig->is_closed)
                uv_run(&rig->loop, UV_RUN_ONCE);
        uv_close((uv_handle_t *)&rig->watchdog, NULL);
        uv_run(&rig->loop, UV_RUN_DEFAULT);
        cr_expect(uv_loop_close(&rig->loop) == 0, "the sink left handles on the loop");
        free(rig->deliveries);
}

unsigned rig_count(const struct rig *rig, enum outcome_kind kind)
{
        unsigned n = 0;

        for (unsigned i = 0; i < rig->n_started; i++)
                n += rig->deliveries[i].is_finished && rig->deliveries[i].outcome.kind == kind;
        return n;
}

bool reply_is(const redisReply *reply, const void *data, size_t length)
{
        return reply->len == length && memcmp(reply->str, data, length) == 0;
}

void expect_stream_in_order(struct redis_server *server, const struct rig *rig)
{
        redisReply *reply = redis_server_run(server, "XRANGE events - +");

        cr_assert(reply->elements == rig->n_started, "%zu entries", reply->elements);
        for (unsigned i = 0; i < rig->n_started; i++)
                cr_assert(reply_is(reply->element[i]->element[1]->element[1],
                    rig->deliveries[i].event.event_id, 36));
        freeReplyObject(reply);
}
