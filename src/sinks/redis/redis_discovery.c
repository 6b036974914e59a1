#include "sinks/redis/redis_discovery.h"

#include "base/alloc.h"
#include "base/bytes.h"
#include "base/error.h"
#include "config/url.h"
#include "loop/timer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool redis_port_parse(const char *text, uint16_t *out_port)
{
        char *end;
        unsigned long port = strtoul(text, &end, 10);

        if (end == text || *end != '\0' || port == 0 || port > UINT16_MAX)
                return false;
        *out_port = (uint16_t)port;
        return true;
}

void redis_endpoints_add(struct redis_endpoints *endpoints, const char *host, uint16_t port)
{
        endpoints->items =
            xrealloc(endpoints->items, (endpoints->n + 1) * sizeof *endpoints->items);
        endpoints->items[endpoints->n++] =
            (struct redis_endpoint){.host = xstrdup(host), .port = port};
}

bool redis_endpoints_read(struct redis_endpoints *endpoints, char *const *texts, size_t n_texts,
    uint16_t default_port, struct error *error)
{
        for (size_t i = 0; i < n_texts; i++) {
                char *host;
                uint16_t port;
                const char *wrong = redis_host_split(texts[i], &host, &port);

                if (wrong != NULL)
                        return error_set(error, ERROR_CONFIG, "'%s' %s", texts[i], wrong);
                redis_endpoints_add(endpoints, host, port != 0 ? port : default_port);
                free(host);
        }
        return true;
}

void redis_endpoints_deinit(struct redis_endpoints *endpoints)
{
        for (size_t i = 0; i < endpoints->n; i++)
                free(endpoints->items[i].host);
        free(endpoints->items);
        *endpoints = (struct redis_endpoints){0};
}

struct redis_discovery {
        struct redis_connection *connection;
        const char *question;
        const struct redis_discovery_events *events;
        void *owner;
        struct redis_endpoint *endpoints; /* owned, with their hosts */
        size_t n_endpoints;
        size_t first;
        size_t n_asked; /* the last of them may still answer */
        bool is_running;
        bool needs_operator; /* any of them said so */
        struct timer *next;  /* asks the next one: not inside a callback of the connection's */
        char reason[512];
};

static size_t place(const struct redis_discovery *discovery)
{
        return (discovery->first + discovery->n_asked - 1) % discovery->n_endpoints;
}

/* Collects what each server did: one that is down must not hide what another said. */
static void note(struct redis_discovery *discovery, const char *reason)
{
        size_t length = strlen(discovery->reason);

        snprintf(discovery->reason + length, sizeof discovery->reason - length, "%s%s",
            length > 0 ? "; " : "", reason);
}

static void on_next(void *owner)
{
        struct redis_discovery *discovery = owner;

        if (discovery->n_asked == discovery->n_endpoints) {
                discovery->is_running = false;
                discovery->events->on_failed(
                    discovery->owner, discovery->needs_operator, discovery->reason);
                return;
        }
        discovery->n_asked++;
        redis_connection_open(discovery->connection, &discovery->endpoints[place(discovery)]);
}

static void on_ready(void *owner)
{
        struct redis_discovery *discovery = owner;

        bytes_append_text(redis_connection_out(discovery->connection), discovery->question);
        redis_connection_note_sent(discovery->connection, 1);
}

static void on_reply(void *owner, const redisReply *reply)
{
        struct redis_discovery *discovery = owner;
        const struct redis_endpoint *asked = &discovery->endpoints[place(discovery)];
        char refusal[256] = "";
        char reason[520];

        redis_connection_close(discovery->connection);
        discovery->is_running = false; /* so that on_answer() may start it again */
        if (discovery->events->on_answer(discovery->owner, reply, asked, refusal, sizeof refusal))
                return;
        discovery->is_running = true;
        snprintf(reason, sizeof reason, "%s:%u %s", asked->host, asked->port, refusal);
        note(discovery, reason);
        timer_arm(discovery->next, 0);
}

static void on_lost(void *owner, bool needs_operator, const char *reason)
{
        struct redis_discovery *discovery = owner;

        discovery->needs_operator |= needs_operator;
        note(discovery, reason);
        timer_arm(discovery->next, 0);
}

struct redis_discovery *redis_discovery_create(uv_loop_t *loop, const struct redis_session *session,
    const char *question, const struct redis_discovery_events *events, void *owner)
{
        static const struct redis_connection_events connection_events = {
            .on_ready = on_ready, .on_reply = on_reply, .on_lost = on_lost};
        struct redis_discovery *discovery = xcalloc(1, sizeof *discovery);

        discovery->connection =
            redis_connection_create(loop, session, &connection_events, discovery);
        discovery->question = question;
        discovery->events = events;
        discovery->owner = owner;
        discovery->next = timer_create_on(loop, on_next, discovery);
        return discovery;
}

static void forget_endpoints(struct redis_discovery *discovery)
{
        for (size_t i = 0; i < discovery->n_endpoints; i++)
                free(discovery->endpoints[i].host);
        free(discovery->endpoints);
        discovery->endpoints = NULL;
        discovery->n_endpoints = 0;
}

void redis_discovery_destroy(struct redis_discovery *discovery)
{
        if (discovery == NULL)
                return;
        redis_connection_destroy(discovery->connection);
        timer_destroy(discovery->next);
        forget_endpoints(discovery);
        free(discovery);
}

void redis_discovery_start(struct redis_discovery *discovery,
    const struct redis_endpoint *endpoints, size_t n_endpoints, size_t first)
{
        forget_endpoints(discovery);
        discovery->endpoints = xcalloc(n_endpoints, sizeof *discovery->endpoints);
        discovery->n_endpoints = n_endpoints;
        for (size_t i = 0; i < n_endpoints; i++)
                discovery->endpoints[i] = (struct redis_endpoint){
                    .host = xstrdup(endpoints[i].host), .port = endpoints[i].port};
        discovery->first = first;
        discovery->n_asked = 0;
        discovery->reason[0] = '\0';
        discovery->needs_operator = false;
        discovery->is_running = true;
        timer_arm(discovery->next, 0);
}

bool redis_discovery_is_running(const struct redis_discovery *discovery)
{
        return discovery->is_running;
}

void redis_discovery_stop(struct redis_discovery *discovery)
{
        discovery->is_running = false;
        redis_connection_close(discovery->connection);
        timer_disarm(discovery->next);
}

size_t redis_discovery_place(const struct redis_discovery *discovery)
{
        return place(discovery);
}
