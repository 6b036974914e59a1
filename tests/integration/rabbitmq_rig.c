#include "rabbitmq_rig.h"

#include "base/alloc.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static void fill_event(struct rig *rig, unsigned i)
{
        struct event *event = &rig->events[i];

        snprintf(rig->payloads[i], sizeof rig->payloads[i], "%u", i);
        *event = (struct event){.id = i,
            .topic = "orders",
            .payload = rig->payloads[i],
            .payload_bytes = strlen(rig->payloads[i]),
            .is_json = true,
            .created_us = 1706745599000001};
        snprintf(event->event_id, sizeof event->event_id, "00000000-0000-4000-8000-%012u", i);
}

void rig_init(struct rig *rig, uint16_t port, unsigned n_events)
{
        static char exchange[] = "events", routing_key[] = "{{topic}}";

        *rig = (struct rig){.config = {.servers = rig->addresses,
                                .n_servers = 1,
                                .vhost = rig->vhost,
                                .exchange = exchange,
                                .routing_key = routing_key,
                                .mandatory = true,
                                .persistent = true,
                                .max_message_bytes = 16 * 1024 * 1024,
                                .heartbeat_ms = 20000,
                                .blocked_timeout_ms = 20000,
                                .connect_timeout_ms = 20000,
                                .timeout_ms = 20000}};
        snprintf(rig->address, sizeof rig->address, "127.0.0.1:%u", port);
        rig->addresses[0] = rig->address;
        snprintf(rig->vhost, sizeof rig->vhost, "test%d", (int)getpid());
        rig->events = xcalloc(n_events, sizeof *rig->events);
        rig->payloads = xcalloc(n_events, sizeof *rig->payloads);
        for (unsigned i = 0; i < n_events; i++)
                fill_event(rig, i);
}

void rig_start(struct rig *rig, unsigned n_events)
{
        struct rabbitmq_server *server = rabbitmq_shared();

        rig_init(rig, server->port, n_events);
        rig->server = server;
        rabbitmq_make_vhost(server, rig->vhost);
        rabbitmq_make_exchange(server, rig->vhost, "events", "topic");
}

void rig_add_queue(struct rig *rig, const char *name, const char *routing_key)
{
        rabbitmq_make_queue(
            rig->server, rig->vhost, name, "{<<\"x-queue-type\">>, longstr, <<\"quorum\">>}");
        rabbitmq_bind(rig->server, rig->vhost, "events", name, routing_key);
}

void rig_open(struct rig *rig)
{
        sink_driver_init(&rig->driver, &rabbitmq_sink_ops, &rig->config);
}

void rig_stop(struct rig *rig)
{
        sink_driver_deinit(&rig->driver);
        free(rig->events);
        free(rig->payloads);
}

json_t *rig_drain(const struct rig *rig, const char *queue, unsigned n)
{
        json_t *messages = json_array();
        char *text = rabbitmq_drain(rig->server, rig->vhost, queue, (int)n);

        for (char *line = strtok(text, "\n"); line != NULL; line = strtok(NULL, "\n")) {
                json_t *message = json_loads(line, 0, NULL);
                cr_assert(message != NULL, "pika's messages are JSON: %s", line);
                json_array_append_new(messages, message);
        }
        cr_assert(json_array_size(messages) == n);
        free(text);
        return messages;
}

void expect_events(const struct rig *rig, const char *queue, unsigned first, unsigned n)
{
        json_t *messages = rig_drain(rig, queue, n);

        for (unsigned i = 0; i < n; i++)
                cr_assert_str_eq(
                    json_string_value(json_object_get(json_array_get(messages, i), "message_id")),
                    rig->events[first + i].event_id);
        json_decref(messages);
}
