/*
 * The answer is the status, and it stands when the final head has come. What follows is only read
 * so that the connection can be used again and for the peer's words: for a few bytes and
 * BODY_MAX_MS, then the connection is dropped and the answer stands.
 *
 * A kept connection may be dead without our knowing. If it breaks before the first byte of an
 * answer, the request goes out once more, on a new connection. So one attempt may arrive twice.
 *
 * An exchange's timer is not armed anew for each request. It comes when the deadline of an earlier
 * one would have been, and is then armed for what is left.
 */
#include "sinks/http/client/http1_client.h"

#include "base/alloc.h"
#include "base/bytes.h"
#include "base/list.h"
#include "config/config.h"
#include "loop/byte_stream.h"
#include "loop/timer.h"
#include "sinks/http/client/http1_pool.h"
#include "sinks/http/client/http1_response.h"
#include "sinks/http/client/http_client.h"
#include "sinks/http/http_target.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define BODY_MAX_MS 1000

struct http1_client {
        struct http_client base;
        uv_loop_t *loop;                  /* borrowed */
        const struct http_config *config; /* borrowed */
        struct http1_pool *pool;
        struct list idle; /* exchange::link */
};

struct exchange {
        struct http_exchange base;
        struct http1_client *client;
        struct list link;      /* in client->idle, while it is over */
        struct http_post post; /* borrowed; of a probe the target alone */
        bool is_probe;
        bool is_second_try;
        bool has_body_deadline;
        http_exchange_done_fn *on_done;
        void *owner; /* borrowed */

        struct http1_connection *connection; /* NULL: it cannot be made, or is gone */
        size_t request_bytes;                /* written, or to be; 0: it is not open yet */
        struct http1_response response;
        struct http1_refusal *refusal; /* owned; NULL: none */
        char *failure;                 /* owned; why there is no answer; NULL: there is one */
        uint64_t deadline_ms;          /* 0: it is over */
        struct timer *timer;
};

static uint64_t now_ms(const struct exchange *exchange)
{
        return uv_now(exchange->client->loop);
}

static bool is_sent(const struct exchange *exchange)
{
        const struct byte_stream *stream;

        if (exchange->request_bytes == 0 || exchange->connection == NULL)
                return false;
        stream = http1_connection_stream(exchange->connection);
        return byte_stream_unwritten(stream) < exchange->request_bytes;
}

static struct http_result result_of(const struct exchange *exchange, CURLcode code)
{
        const struct http1_response *response = &exchange->response;
        struct http_result result = {.code = code,
            .failure = exchange->failure != NULL ? exchange->failure : "",
            .body = response->body,
            .retry_after_ms = OUTCOME_NO_DELAY,
            .is_sent = is_sent(exchange),
            .is_endless = response->is_endless};

        if (exchange->refusal != NULL && exchange->refusal->is_guard)
                result.refusal = exchange->refusal->words;
        else if (exchange->refusal != NULL)
                result.failure = exchange->refusal->words;
        if (!response->has_status)
                return result;
        result.status = response->status;
        result.retry_after_ms = response->retry_after_ms;
        result.location = response->location[0] != '\0' ? response->location : NULL;
        result.is_disabled = response->is_disabled;
        result.is_aborted = response->is_aborted;
        return result;
}

/* Its timer stays armed, for the next. */
static void rest(struct exchange *exchange)
{
        exchange->deadline_ms = 0;
        free(exchange->failure);
        exchange->failure = NULL;
        free(exchange->refusal);
        exchange->refusal = NULL;
        list_push_front(&exchange->client->idle, &exchange->link);
}

/* The result is made while the connection is there, whose fate is decided here. */
static void finish(struct exchange *exchange, CURLcode code, bool is_kept)
{
        const struct http_result result = result_of(exchange, code);
        struct http1_connection *connection = exchange->connection;

        exchange->connection = NULL;
        exchange->deadline_ms = 0;
        if (connection != NULL && is_kept)
                http1_pool_give(connection, exchange->response.keep_alive_ms);
        else if (connection != NULL)
                http1_pool_drop(connection);
        exchange->on_done(exchange->owner, &result);
        rest(exchange);
}

static void set_deadline(struct exchange *exchange, uint64_t delay_ms)
{
        exchange->deadline_ms = now_ms(exchange) + delay_ms;
        timer_arm_behind_sockets(exchange->timer, delay_ms);
}

/* The head in one piece, and the body behind it. */
static void append_request(struct bytes *out, const struct http_post *post)
{
        bytes_append_text(out, post->target->line);
        bytes_append(out, post->lines->data, post->lines->length);
        bytes_append_text(out, post->target->fixed);
        bytes_printf(out, "Content-Length: %zu\r\n\r\n", post->body_bytes);
        bytes_append(out, post->body, post->body_bytes);
}

static void on_open(void *user)
{
        struct exchange *exchange = user;
        struct byte_stream *stream = http1_connection_stream(exchange->connection);

        if (exchange->is_probe) {
                finish(exchange, CURLE_OK, true);
                return;
        }
        append_request(byte_stream_out(stream), &exchange->post);
        exchange->request_bytes = byte_stream_unwritten(stream);
        byte_stream_flush(stream);
}

static void on_response_failed(struct exchange *exchange)
{
        const struct http1_response *response = &exchange->response;

        if (response->has_status) {
                finish(exchange, CURLE_OK, false);
                return;
        }
        if (response->nonsense != NULL)
                exchange->failure = xstrdup(response->nonsense);
        finish(exchange, CURLE_WEIRD_SERVER_REPLY, false);
}

static size_t on_data(void *user, char *data, size_t size)
{
        struct exchange *exchange = user;
        struct http1_response *response = &exchange->response;
        const struct byte_stream *stream = http1_connection_stream(exchange->connection);
        size_t n_used = http1_response_feed(response, data, size);

        if (response->step == HTTP1_COMPLETE) {
                /* Nothing may be left, neither of an answer to nothing nor of the request. */
                finish(exchange, CURLE_OK,
                    response->may_go_on && n_used == size && byte_stream_unwritten(stream) == 0);
        } else if (response->step == HTTP1_FAILED) {
                on_response_failed(exchange);
        } else if (response->has_status && !exchange->has_body_deadline) {
                exchange->has_body_deadline = true;
                set_deadline(exchange, BODY_MAX_MS);
        }
        return n_used;
}

static void begin(struct exchange *exchange, bool wants_new);

static void on_lost(void *user, enum outcome_fault fault, const char *reason)
{
        struct exchange *exchange = user;
        struct http1_response *response = &exchange->response;
        bool was_open = http1_connection_is_open(exchange->connection);
        CURLcode code =
            fault == OUTCOME_FAULT_TLS ? CURLE_SSL_CONNECT_ERROR : CURLE_COULDNT_CONNECT;

        if (was_open && !response->has_begun && !exchange->is_second_try &&
            http1_connection_has_served(exchange->connection)) {
                exchange->is_second_try = true;
                http1_pool_drop(exchange->connection);
                begin(exchange, true);
                return;
        }
        if (was_open)
                code = response->has_begun ? CURLE_RECV_ERROR : CURLE_GOT_NOTHING;
        if (http1_response_end(response) || response->has_status)
                code = CURLE_OK;
        else
                exchange->failure = xstrdup(reason);
        finish(exchange, code, false);
}

static void on_timer(void *owner)
{
        struct exchange *exchange = owner;
        const struct http1_refusal *refusal = exchange->refusal;
        uint64_t now = now_ms(exchange);

        if (exchange->deadline_ms == 0)
                return;
        if (refusal != NULL) {
                finish(exchange, refusal->code, false);
        } else if (now < exchange->deadline_ms) {
                timer_arm_behind_sockets(exchange->timer, exchange->deadline_ms - now);
        } else if (exchange->response.has_status) {
                finish(exchange, CURLE_OK, false);
        } else {
                exchange->failure = xasprintf(
                    "timed out after %" PRId64 " ms", exchange->client->config->timeout_ms);
                finish(exchange, CURLE_OPERATION_TIMEDOUT, false);
        }
}

static const struct http1_user_events user_events = {
    .on_open = on_open, .on_data = on_data, .on_lost = on_lost};

static void begin(struct exchange *exchange, bool wants_new)
{
        struct http1_refusal refusal = {.code = CURLE_OK};

        http1_response_init(&exchange->response);
        exchange->request_bytes = 0;
        exchange->connection = http1_pool_take(exchange->client->pool, exchange->post.target,
            wants_new, &user_events, exchange, &refusal);
        if (exchange->connection == NULL) {
                exchange->refusal = xcalloc(1, sizeof *exchange->refusal);
                *exchange->refusal = refusal;
                timer_arm(exchange->timer, 0);
        } else if (http1_connection_is_open(exchange->connection)) {
                on_open(exchange);
        }
}

static struct exchange *take(
    struct http1_client *client, http_exchange_done_fn *on_done, void *owner)
{
        struct exchange *exchange;

        if (!list_is_empty(&client->idle)) {
                exchange = list_owner(client->idle.next, struct exchange, link);
                list_remove(&exchange->link);
        } else {
                exchange = xcalloc(1, sizeof *exchange);
                list_init(&exchange->link);
                exchange->base.client = &client->base;
                exchange->client = client;
                exchange->timer = timer_create_on(client->loop, on_timer, exchange);
        }
        exchange->on_done = on_done;
        exchange->owner = owner;
        exchange->is_second_try = false;
        exchange->has_body_deadline = false;
        exchange->deadline_ms = now_ms(exchange) + (uint64_t)client->config->timeout_ms;
        if (!timer_is_armed(exchange->timer))
                timer_arm_behind_sockets(exchange->timer, (uint64_t)client->config->timeout_ms);
        return exchange;
}

static struct http_exchange *post(struct http_client *base, const struct http_post *post,
    http_exchange_done_fn *on_done, void *owner, struct error *error)
{
        struct exchange *exchange = take((struct http1_client *)base, on_done, owner);

        (void)error; /* what cannot be begun is told like all else */
        exchange->post = *post;
        exchange->is_probe = false;
        begin(exchange, false);
        return &exchange->base;
}

static struct http_exchange *connect_only(struct http_client *base, struct http_target *target,
    http_exchange_done_fn *on_done, void *owner, struct error *error)
{
        struct exchange *exchange = take((struct http1_client *)base, on_done, owner);

        (void)error;
        exchange->post = (struct http_post){.target = target};
        exchange->is_probe = true;
        begin(exchange, true);
        return &exchange->base;
}

static bool stop(struct http_exchange *base, struct outcome *out_outcome)
{
        struct exchange *exchange = (struct exchange *)base;
        struct http_result result = result_of(exchange, CURLE_OK);
        bool is_known = exchange->response.has_status;

        if (is_known)
                *out_outcome = http_result_classify(&result, exchange->client->config);
        if (exchange->connection != NULL)
                http1_pool_drop(exchange->connection);
        exchange->connection = NULL;
        rest(exchange);
        return is_known;
}

static void destroy(struct http_client *base)
{
        struct http1_client *client = (struct http1_client *)base;

        list_for_each (link, &client->idle) {
                struct exchange *exchange = list_owner(link, struct exchange, link);

                timer_destroy(exchange->timer);
                free(exchange);
        }
        http1_pool_destroy(client->pool);
        free(client);
}

static const struct http_client_ops client_ops = {
    .post = post, .connect = connect_only, .stop = stop, .destroy = destroy};

struct http_client *http1_client_create(uv_loop_t *loop, const struct http_config *config,
    const struct address_guard *guard, unsigned max_connections)
{
        struct http1_client *client = xcalloc(1, sizeof *client);

        client->base.ops = &client_ops;
        client->loop = loop;
        client->config = config;
        client->pool = http1_pool_create(loop, config, guard, max_connections);
        list_init(&client->idle);
        return &client->base;
}
