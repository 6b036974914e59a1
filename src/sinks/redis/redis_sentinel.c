#include "sinks/redis/redis_sentinel.h"

#include "base/alloc.h"
#include "base/bytes.h"
#include "config/config.h"
#include "sinks/redis/redis_discovery.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SENTINEL_PORT = 26379 };

struct redis_sentinel {
        const struct redis_config *config; /* borrowed */
        struct redis_discovery *discovery; /* owned */
        struct redis_endpoints endpoints;
        struct bytes question;
        size_t first; /* the one to ask first */
        sentinel_found_fn *on_found;
        sentinel_failed_fn *on_failed;
        void *owner;
};

/* [host, port], or nil. */
static bool read_master(const redisReply *reply, struct redis_endpoint *out_master)
{
        if (reply->type != REDIS_REPLY_ARRAY || reply->elements != 2 ||
            reply->element[0]->type != REDIS_REPLY_STRING ||
            reply->element[1]->type != REDIS_REPLY_STRING)
                return false;
        *out_master = (struct redis_endpoint){.host = reply->element[0]->str};
        return redis_port_parse(reply->element[1]->str, &out_master->port);
}

static bool on_answer(void *owner, const redisReply *reply, const struct redis_endpoint *asked,
    char *refusal, size_t size)
{
        struct redis_sentinel *sentinel = owner;
        struct redis_endpoint master;

        (void)asked;
        sentinel->first = redis_discovery_place(sentinel->discovery);
        if (read_master(reply, &master)) {
                sentinel->on_found(sentinel->owner, &master);
                return true;
        }
        if (reply->type == REDIS_REPLY_ERROR)
                snprintf(refusal, size, "refused to name the master: %s", reply->str);
        else
                snprintf(refusal, size, "knows no master '%s'", sentinel->config->master);
        return false;
}

static void on_failed(void *owner, bool needs_operator, const char *reason)
{
        struct redis_sentinel *sentinel = owner;
        char text[640];

        snprintf(text, sizeof text, "no sentinel named the master: %s", reason);
        sentinel->on_failed(sentinel->owner, needs_operator, text);
}

struct redis_sentinel *redis_sentinel_create(uv_loop_t *loop, const struct redis_config *config,
    struct tls_context *tls, struct error *error)
{
        static const struct redis_discovery_events events = {
            .on_answer = on_answer, .on_failed = on_failed};
        const struct redis_session session = {
            .config = config, .tls = tls, .peer = REDIS_PEER_SENTINEL};
        struct redis_sentinel *sentinel = xcalloc(1, sizeof *sentinel);

        if (!redis_endpoints_read(&sentinel->endpoints, config->sentinels, config->n_sentinels,
                SENTINEL_PORT, error)) {
                redis_sentinel_destroy(sentinel);
                return NULL;
        }
        sentinel->config = config;
        bytes_printf(&sentinel->question,
            "*3\r\n$8\r\nSENTINEL\r\n$23\r\nget-master-addr-by-name\r\n$%zu\r\n%s\r\n",
            strlen(config->master), config->master);
        sentinel->discovery =
            redis_discovery_create(loop, &session, sentinel->question.data, &events, sentinel);
        return sentinel;
}

void redis_sentinel_destroy(struct redis_sentinel *sentinel)
{
        if (sentinel == NULL)
                return;
        redis_discovery_destroy(sentinel->discovery);
        redis_endpoints_deinit(&sentinel->endpoints);
        bytes_deinit(&sentinel->question);
        free(sentinel);
}

void redis_sentinel_ask(struct redis_sentinel *sentinel, sentinel_found_fn *on_found_,
    sentinel_failed_fn *on_failed_, void *owner)
{
        if (redis_discovery_is_running(sentinel->discovery))
                return;
        sentinel->on_found = on_found_;
        sentinel->on_failed = on_failed_;
        sentinel->owner = owner;
        redis_discovery_start(
            sentinel->discovery, sentinel->endpoints.items, sentinel->endpoints.n, sentinel->first);
}

void redis_sentinel_stop(struct redis_sentinel *sentinel)
{
        redis_discovery_stop(sentinel->discovery);
}

void redis_sentinel_rediscover(struct redis_sentinel *sentinel)
{
        sentinel->first = (sentinel->first + 1) % sentinel->endpoints.n;
}
