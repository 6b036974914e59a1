#include "sinks/redis/redis_discovery.h"

#include "base/alloc.h"
#include "base/bytes.h"
#include "base/error.h"
#include "config/redis_url.h"
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

static size_t place(const struct redis_discovery *inquiry)
{
        return (inquiry->first + inquiry->n_asked - 1) % inquiry->n_endpoints;
}

/* What each of them came to: one that is down must not hide what another had to say. */
static void note(struct redis_discovery *inquiry, const char *reason)
{
        size_t length = strlen(inquiry->reason);

        snprintf(inquiry->reason + length, sizeof inquiry->reason - length, "%s%s",
            length > 0 ? "; " : "", reason);
}

static void on_next(void *owner)
{
        struct redis_discovery *inquiry = owner;

        if (inquiry->n_asked == inquiry->n_endpoints) {
                inquiry->is_running = false;
                inquiry->events->on_failed(
                    inquiry->owner, inquiry->needs_operator, inquiry->reason);
                return;
        }
        inquiry->n_asked++;
        redis_connection_open(inquiry->connection, &inquiry->endpoints[place(inquiry)]);
}

static void on_ready(void *owner)
{
        struct redis_discovery *inquiry = owner;

        bytes_append_text(redis_connection_out(inquiry->connection), inquiry->question);
        redis_connection_note_sent(inquiry->connection, 1);
}

static void on_reply(void *owner, const redisReply *reply)
{
        struct redis_discovery *inquiry = owner;
        const struct redis_endpoint *asked = &inquiry->endpoints[place(inquiry)];
        char refusal[256] = "";
        char reason[520];

        redis_connection_close(inquiry->connection);
        inquiry->is_running = false; /* so that on_answer() may start it again */
        if (inquiry->events->on_answer(inquiry->owner, reply, asked, refusal, sizeof refusal))
                return;
        inquiry->is_running = true;
        snprintf(reason, sizeof reason, "%s:%u %s", asked->host, asked->port, refusal);
        note(inquiry, reason);
        timer_arm(inquiry->next, 0);
}

static void on_lost(void *owner, bool needs_operator, const char *reason)
{
        struct redis_discovery *inquiry = owner;

        inquiry->needs_operator |= needs_operator;
        note(inquiry, reason);
        timer_arm(inquiry->next, 0);
}

struct redis_discovery *redis_discovery_create(uv_loop_t *loop, const struct redis_session *session,
    const char *question, const struct redis_discovery_events *events, void *owner)
{
        static const struct redis_connection_events connection_events = {
            .on_ready = on_ready, .on_reply = on_reply, .on_lost = on_lost};
        struct redis_discovery *inquiry = xcalloc(1, sizeof *inquiry);

        inquiry->connection = redis_connection_create(loop, session, &connection_events, inquiry);
        inquiry->question = question;
        inquiry->events = events;
        inquiry->owner = owner;
        inquiry->next = timer_create_on(loop, on_next, inquiry);
        return inquiry;
}

static void forget_endpoints(struct redis_discovery *inquiry)
{
        for (size_t i = 0; i < inquiry->n_endpoints; i++)
                free(inquiry->endpoints[i].host);
        free(inquiry->endpoints);
        inquiry->endpoints = NULL;
        inquiry->n_endpoints = 0;
}

void redis_discovery_destroy(struct redis_discovery *inquiry)
{
        if (inquiry == NULL)
                return;
        redis_connection_destroy(inquiry->connection);
        timer_destroy(inquiry->next);
        forget_endpoints(inquiry);
        free(inquiry);
}

void redis_discovery_start(struct redis_discovery *inquiry, const struct redis_endpoint *endpoints,
    size_t n_endpoints, size_t first)
{
        forget_endpoints(inquiry);
        inquiry->endpoints = xcalloc(n_endpoints, sizeof *inquiry->endpoints);
        inquiry->n_endpoints = n_endpoints;
        for (size_t i = 0; i < n_endpoints; i++)
                inquiry->endpoints[i] = (struct redis_endpoint){
                    .host = xstrdup(endpoints[i].host), .port = endpoints[i].port};
        inquiry->first = first;
        inquiry->n_asked = 0;
        inquiry->reason[0] = '\0';
        inquiry->needs_operator = false;
        inquiry->is_running = true;
        timer_arm(inquiry->next, 0);
}

bool redis_discovery_is_running(const struct redis_discovery *inquiry)
{
        return inquiry->is_running;
}

void redis_discovery_stop(struct redis_discovery *inquiry)
{
        inquiry->is_running = false;
        redis_connection_close(inquiry->connection);
        timer_disarm(inquiry->next);
}

size_t redis_discovery_place(const struct redis_discovery *inquiry)
{
        return place(inquiry);
}
