#include "nats_rig.h"

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
            .is_json = true,
            .created_us = 1706745599000001};
        snprintf(event->event_id, sizeof event->event_id, "00000000-0000-4000-8000-%012u", i);
}

void rig_add_server(struct rig *rig, const struct nats_server *server)
{
        rig->servers[rig->config.n_servers++] = xasprintf("127.0.0.1:%u", server->port);
}

void rig_init(struct rig *rig, const struct nats_server *server, unsigned n_events)
{
        static char subject[] = "events.orders";
        static char inbox[] = "_INBOX";
        static char source[] = "pgcourier";

        *rig = (struct rig){.config = {.subject = subject,
                                .inbox = inbox,
                                .message.source = source,
                                .ping_ms = 10000,
                                .connect_timeout_ms = 20000,
                                .timeout_ms = 20000}};
        rig->config.servers = rig->servers;
        rig_add_server(rig, server);
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
        rig->config.servers = rig->servers; /* the rig may have been copied */
        sink_driver_init(&rig->driver, &nats_sink_ops, &rig->config);
        rig->driver.on_finished = on_finished;
}

void rig_destroy(struct rig *rig)
{
        sink_driver_deinit(&rig->driver);
        for (unsigned i = 0; i < rig->config.n_servers; i++)
                free(rig->servers[i]);
        free(rig->events);
        free(rig->payloads);
}

void rig_start(struct rig *rig, unsigned n_events, const char *config)
{
        struct nats_server server;

        nats_server_start(&server, config);
        nats_server_make_stream(&server, "S", "events.>", NULL);
        rig_init(rig, &server, n_events);
        rig->server = server;
}

void rig_stop(struct rig *rig)
{
        rig_destroy(rig);
        nats_server_destroy(&rig->server);
}

void expect_stream_has_delivered(struct nats_server *server, const struct rig *rig)
{
        unsigned n_delivered = rig_count(rig, OUTCOME_DELIVERED);
        unsigned char *seen = xcalloc(rig->driver.n_started + 1, 1);
        struct nats_stored stored;
        long long n = 0;

        while (nats_server_read(server, "S", n + 1, &stored)) {
                unsigned number = (unsigned)strtoul(stored.payload, NULL, 10);
                cr_assert(number < rig->driver.n_started && !seen[number], "%s is there twice",
                    stored.payload);
                seen[number] = 1;
                n++;
                nats_stored_deinit(&stored);
        }
        for (size_t i = 0; i < rig->driver.n_started; i++)
                if (rig->driver.attempts[i].outcome.kind == OUTCOME_DELIVERED)
                        cr_expect(seen[i], "%zu was lost", i);
        cr_expect(n == (long long)n_delivered, "%lld messages, %u delivered", n, n_delivered);
        free(seen);
}
