#include "redis_rig.h"

#include "base/alloc.h"
#include "base/list.h"

#include <stdio.h>
#include <stdlib.h>

static void fill_event(struct rig *rig, unsigned i)
{
        struct event *event = &rig->events[i];

        snprintf(rig->payloads[i], sizeof rig->payloads[i], "%u", i);
        *event = (struct event){.id = i,
            .topic = "orders",
            .payload = rig->payloads[i],
            .payload_bytes = strlen(rig->payloads[i]),
            .created_us = 1706745599000001};
        snprintf(event->event_id, sizeof event->event_id, "00000000-0000-4000-8000-%012u", i);
}

void rig_init(struct rig *rig, const struct redis_server *server, unsigned n_events)
{
        static char host[] = "127.0.0.1";
        static char stream[] = "events";

        *rig = (struct rig){.config = {.host = host,
                                .port = server->port,
                                .stream = stream,
                                .connect_timeout_ms = 20000,
                                .timeout_ms = 20000}};
        rig->events = xcalloc(n_events, sizeof *rig->events);
        rig->payloads = xcalloc(n_events, sizeof *rig->payloads);
        for (unsigned i = 0; i < n_events; i++)
                fill_event(rig, i);
}

static void on_finished(struct sink_driver *driver)
{
        struct rig *rig = list_owner(driver, struct rig, driver);

        if (driver->n_started < rig->restart_below)
                rig_deliver(rig, 1);
}

void rig_open(struct rig *rig)
{
        sink_driver_init(&rig->driver, &redis_sink_ops, &rig->config);
        rig->driver.on_finished = on_finished;
}

void rig_destroy(struct rig *rig)
{
        sink_driver_deinit(&rig->driver);
        free(rig->events);
        free(rig->payloads);
}

void rig_start(struct rig *rig, unsigned n_events)
{
        struct redis_server server;

        redis_server_start(&server, NULL);
        rig_init(rig, &server, n_events);
        rig->server = server;
}

void rig_stop(struct rig *rig)
{
        rig_destroy(rig);
        redis_server_destroy(&rig->server);
}

bool reply_is(const redisReply *reply, const void *data, size_t length)
{
        return reply->len == length && memcmp(reply->str, data, length) == 0;
}

void expect_stream_in_order(struct redis_server *server, const struct rig *rig)
{
        redisReply *reply = redis_server_run(server, "XRANGE events - +");

        cr_assert(reply->elements == rig->driver.n_started, "%zu entries", reply->elements);
        for (size_t i = 0; i < rig->driver.n_started; i++)
                cr_assert(reply_is(
                    reply->element[i]->element[1]->element[1], rig->events[i].event_id, 36));
        freeReplyObject(reply);
}
