/*
 * The answer is the status, and it is given when the final headers have come.
 * What follows is only read so that the connection can be used again and for
 * the peer's words: for a few bytes and BODY_MAX_MS, then the connection
 * is dropped and the answer stands.
 *
 * A pooled connection may be dead without our knowing. libcurl by itself repeats
 * the request on the next one, but gives up after six (and before 8.0 it takes
 * even those for living that the peer has long closed): then one more try is
 * made here, on a new connection. So one attempt may arrive more than once.
 *
 * Setting a handle up takes longer than what is different from one request to
 * the next, so its options are kept. But only for the next request to the same
 * receiver, and only after an answer as it should be (2xx): in all other cases
 * the handle forgets everything first, and with it what libcurl may have noted.
 *
 * Exchanges are spread over several curl_drivers: before and after each transfer
 * libcurl walks through all connections of its driver, which with many of them
 * takes longer than all else. Receivers of one host have the same driver, so that
 * they can share connections; to a single url all drivers send. With HTTP/2 there
 * is one driver, since one connection is meant to serve all requests.
 */
#include "sinks/http/client/curl_client.h"

#include "base/alloc.h"
#include "base/bytes.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/list.h"
#include "config/config.h"
#include "loop/curl_driver.h"
#include "loop/timer.h"
#include "sinks/address_guard.h"
#include "sinks/http/client/curl_lines.h"
#include "sinks/http/client/http_client.h"
#include "sinks/http/http_target.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define MAX_SHARDS            32
#define CONNECTIONS_PER_SHARD 64

#define BODY_MAX_MS          1000
#define CONNECTION_MAX_AGE_S 600 /* so that a changed address or certificate is noticed */
#define OLD_LIBCURL_IDLE_S   10  /* before 8.0 dead connections pass for living ones */
#define IDLE_S               118 /* libcurl's own */
/* At a time. libcurl allocates so much anew for each request, and answers are short: of this size
 * malloc() has one at hand. */
#define READ_BYTES 1024L

/* Of an answer. */
#define HEADERS_MAX 65536
#define BODY_MAX    4096
#define BODY_KEPT   150

/* What has come back so far, bounded in all directions. */
struct response {
        char failure[CURL_ERROR_SIZE]; /* for CURLOPT_ERRORBUFFER */
        size_t header_bytes;
        bool has_status; /* the final one, with all its headers */
        size_t body_bytes;
        char body[BODY_KEPT + 1];
};

struct shard {
        struct curl_driver *driver; /* owned */
        struct list idle;           /* exchange::link; see idle_of() */
};

struct curl_client {
        struct http_client base;
        uv_loop_t *loop;                   /* borrowed */
        const struct http_config *config;  /* borrowed */
        const struct address_guard *guard; /* borrowed */
        struct shard *shards;
        size_t n_shards;
        size_t n_made; /* exchanges */
};

struct exchange {
        struct http_exchange base;
        struct curl_client *client;
        struct list link; /* among the idle ones, while it is over */
        struct shard *shard;
        http_exchange_done_fn *on_done;
        void *owner; /* borrowed */

        CURL *easy;
        struct curl_transfer *transfer; /* NULL: not running */
        uint64_t receiver;              /* that its options are for; 0: to be set */
        struct curl_lines lines;
        struct curl_slist *pin;
        struct timer *body_deadline;
        bool is_second_try;
        struct guarded_socket sockets;

        struct response response;
};

/* One header line, or a part of the body. False: it is too much, give up. libcurl hands over whole
 * lines, those of each 1xx response before those of the final one. */
static bool take_header(struct response *response, CURL *easy, const char *line, size_t bytes)
{
        long status = 0;

        response->header_bytes += bytes;
        if (response->header_bytes > HEADERS_MAX)
                return false;
        if (bytes > 0 && (line[0] == '\r' || line[0] == '\n')) {
                curl_easy_getinfo(easy, CURLINFO_RESPONSE_CODE, &status);
                if (status >= 200)
                        response->has_status = true;
        }
        return true;
}

static bool take_body(struct response *response, const char *data, size_t bytes)
{
        for (size_t i = 0; i < bytes && response->body_bytes + i < BODY_KEPT; i++)
                response->body[response->body_bytes + i] = data[i] != '\0' ? data[i] : '?';
        response->body_bytes += bytes;
        return response->body_bytes <= BODY_MAX;
}

/* The value of the header's `index`th occurrence, or NULL. */
static const char *header_of(CURL *easy, const char *name, size_t index)
{
        struct curl_header *header;

        return curl_easy_header(easy, name, index, CURLH_HEADER, -1, &header) == CURLHE_OK
                   ? header->value
                   : NULL;
}

/* If there are several, the longest counts: the receiver's and its gateway's, perhaps. */
static int64_t longest_retry_after_ms(CURL *easy)
{
        int64_t now_s = clock_wall_us() / 1000000;
        int64_t longest_ms = OUTCOME_NO_DELAY;
        const char *value;

        for (size_t i = 0; (value = header_of(easy, "Retry-After", i)) != NULL; i++) {
                int64_t delay_ms = http_retry_after_ms(value, now_s);
                if (delay_ms > longest_ms)
                        longest_ms = delay_ms;
        }
        return longest_ms;
}

/* What went to a proxy, to be let through to the receiver, is no request of ours. */
static bool is_sent(CURL *easy)
{
        curl_off_t ready_us = 0;
        long sent_bytes = 0;

        curl_easy_getinfo(easy, CURLINFO_REQUEST_SIZE, &sent_bytes);
        curl_easy_getinfo(easy, CURLINFO_PRETRANSFER_TIME_T, &ready_us);
        return sent_bytes > 0 && ready_us > 0;
}

/* libcurl has a limit of its own for a single line, 100 KiB. Up to 8.5 it then speaks of memory,
 * which our allocator never lacks; after that, in words that its header before did not have. */
static bool is_endless(const struct response *response, CURLcode code)
{
        enum { TOO_LARGE = 100 };

        return response->header_bytes > HEADERS_MAX || code == CURLE_OUT_OF_MEMORY ||
               (unsigned)code == TOO_LARGE;
}

/* Borrows its texts from the response and from `easy`. */
static struct http_result read_result(const struct response *response, CURL *easy, CURLcode code)
{
        struct http_result result = {.code = code,
            .failure = response->failure,
            .body = response->body,
            .retry_after_ms = OUTCOME_NO_DELAY,
            .is_sent = is_sent(easy),
            .is_endless = is_endless(response, code)};
        const char *delivery;

        if (!response->has_status)
                return result;
        curl_easy_getinfo(easy, CURLINFO_RESPONSE_CODE, &result.status);
        result.retry_after_ms = longest_retry_after_ms(easy);
        result.location = header_of(easy, "Location", 0);
        delivery = header_of(easy, "webhook-delivery", 0);
        result.is_disabled = delivery != NULL && strcasecmp(delivery, "disable") == 0;
        result.is_aborted = delivery != NULL && strcasecmp(delivery, "abort-message") == 0;
        return result;
}

static void forget_answer(struct exchange *exchange)
{
        memset(&exchange->response, 0, sizeof exchange->response);
        guarded_socket_forget(&exchange->sockets);
}

static struct http_result result_of(const struct exchange *exchange, CURLcode code)
{
        struct http_result result = read_result(&exchange->response, exchange->easy, code);

        result.refusal = guarded_socket_refusal(&exchange->sockets);
        return result;
}

/* Where exchanges of this shard rest: if all go to one url, it does not matter which is taken
 * next. */
static struct list *idle_of(const struct curl_client *client, struct shard *shard)
{
        return client->config->receivers == HTTP_RECEIVERS_TABLE ? &shard->idle
                                                                 : &client->shards[0].idle;
}

/* Its outcome can no longer be asked for. */
static void rest(struct exchange *exchange)
{
        list_push_front(idle_of(exchange->client, exchange->shard), &exchange->link);
}

static void end(struct exchange *exchange)
{
        timer_disarm(exchange->body_deadline);
        exchange->transfer = NULL;
        curl_slist_free_all(exchange->pin);
        exchange->pin = NULL;
}

static void tell(struct exchange *exchange, const struct http_result *result)
{
        exchange->on_done(exchange->owner, result);
        rest(exchange);
}

/* True if only pooled connections were tried and none of them answered. */
static bool met_dead_connections(const struct exchange *exchange, CURLcode code)
{
        long n_new_connections = 0;

        curl_easy_getinfo(exchange->easy, CURLINFO_NUM_CONNECTS, &n_new_connections);
        return (code == CURLE_SEND_ERROR || code == CURLE_GOT_NOTHING) && n_new_connections == 0 &&
               exchange->response.header_bytes == 0;
}

static void on_transfer_done(void *owner, CURLcode code)
{
        struct exchange *exchange = owner;
        struct http_result result;

        exchange->transfer = NULL;
        if (!exchange->is_second_try && met_dead_connections(exchange, code) &&
            curl_easy_setopt(exchange->easy, CURLOPT_FRESH_CONNECT, 1L) == CURLE_OK) {
                exchange->is_second_try = true;
                forget_answer(exchange);
                exchange->transfer = curl_driver_start(
                    exchange->shard->driver, exchange->easy, on_transfer_done, exchange);
                if (exchange->transfer != NULL)
                        return;
        }
        end(exchange);
        result = result_of(exchange, code);
        if (code != CURLE_OK || exchange->is_second_try || result.status < 200 ||
            result.status > 299)
                exchange->receiver = 0;
        tell(exchange, &result);
}

static void break_off(struct exchange *exchange)
{
        curl_driver_stop(exchange->transfer);
        end(exchange);
        exchange->receiver = 0;
}

static void on_body_deadline(void *owner)
{
        struct exchange *exchange = owner;
        struct http_result result;

        break_off(exchange);
        result = result_of(exchange, CURLE_OK);
        tell(exchange, &result);
}

static size_t on_header(char *data, size_t size, size_t count, void *owner)
{
        struct exchange *exchange = owner;
        size_t bytes = size * count;
        bool had_status = exchange->response.has_status;

        if (!take_header(&exchange->response, exchange->easy, data, bytes))
                return 0; /* makes libcurl give up */
        if (exchange->response.has_status && !had_status)
                timer_arm(exchange->body_deadline, BODY_MAX_MS);
        return bytes;
}

static size_t on_body(char *data, size_t size, size_t count, void *owner)
{
        struct exchange *exchange = owner;

        return take_body(&exchange->response, data, size * count) ? size * count : 0;
}

/* Sets one option unless an earlier one was refused; remembers which was. */
#define SET(option, value)                                                                         \
        do {                                                                                       \
                if (code == CURLE_OK) {                                                            \
                        code = curl_easy_setopt(easy, option, value);                              \
                        name = #option;                                                            \
                }                                                                                  \
        } while (0)

/* False, with *error set, if `code`, which came of setting the option `name`, is not good. */
static bool check_set(CURLcode code, const char *name, struct error *error)
{
        return code == CURLE_OK || error_set(error, ERROR_SINK, "libcurl %s refuses %s: %s",
                                       curl_version(), name, curl_easy_strerror(code));
}

/* What is the same with each request to any receiver. Nothing is taken from the environment: no
 * proxy, no netrc. */
static bool set_common_options(struct exchange *exchange, struct error *error)
{
        const struct http_config *config = exchange->client->config;
        bool has_idle_bug = curl_version_info(CURLVERSION_NOW)->version_num < 0x080000;
        CURL *easy = exchange->easy;
        CURLcode code = CURLE_OK;
        const char *name = NULL;

        SET(CURLOPT_PROTOCOLS_STR, "http,https");
        switch (config->http_version) {
        case HTTP_VERSION_1_1:
                SET(CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
                break;
        case HTTP_VERSION_2:
                SET(CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_2TLS);
                SET(CURLOPT_PIPEWAIT, 1L); /* for a connection to share, not one for each */
                break;
        }
        SET(CURLOPT_FOLLOWLOCATION, 0L);
        SET(CURLOPT_PROXY, config->proxy != NULL ? config->proxy : "");
        SET(CURLOPT_NOPROXY, "");
        if (config->proxy != NULL)
                SET(CURLOPT_USERAGENT,
                    HTTP_USER_AGENT);              /* for the proxy; the receiver's is a line */
        SET(CURLOPT_SUPPRESS_CONNECT_HEADERS, 1L); /* the proxy's answer is not the receiver's */
        /* Each request brings its addresses; to look for old ones would take longer the more
         * receivers there are. */
        SET(CURLOPT_DNS_CACHE_TIMEOUT, -1L);
        SET(CURLOPT_NETRC, (long)CURL_NETRC_IGNORED);
        SET(CURLOPT_NOSIGNAL, 1L);
        SET(CURLOPT_BUFFERSIZE, READ_BYTES);
        SET(CURLOPT_NOPROGRESS, 1L);
        SET(CURLOPT_CONNECTTIMEOUT_MS, (long)config->connect_timeout_ms);
        SET(CURLOPT_TIMEOUT_MS, (long)config->timeout_ms);
        SET(CURLOPT_TCP_KEEPALIVE, 1L);
        SET(CURLOPT_MAXAGE_CONN, (long)(has_idle_bug ? OLD_LIBCURL_IDLE_S : IDLE_S));
        SET(CURLOPT_MAXLIFETIME_CONN, (long)CONNECTION_MAX_AGE_S);
        SET(CURLOPT_SSL_VERIFYPEER, 1L);
        SET(CURLOPT_SSL_VERIFYHOST, 2L);
        SET(CURLOPT_SSLVERSION, (long)CURL_SSLVERSION_TLSv1_2);
        if (config->ca_file != NULL)
                SET(CURLOPT_CAINFO, config->ca_file);
        if (config->cert_file != NULL) {
                SET(CURLOPT_SSLCERT, config->cert_file);
                SET(CURLOPT_SSLKEY, config->key_file);
                SET(CURLOPT_KEYPASSWD, ""); /* without one OpenSSL would ask the terminal */
        }
        if (config->fresh_connections) {
                SET(CURLOPT_FRESH_CONNECT, 1L);
                SET(CURLOPT_FORBID_REUSE, 1L);
        }
        SET(CURLOPT_OPENSOCKETFUNCTION, guarded_socket_open);
        SET(CURLOPT_OPENSOCKETDATA, &exchange->sockets);
        SET(CURLOPT_ERRORBUFFER, exchange->response.failure);
        SET(CURLOPT_HEADERFUNCTION, on_header);
        SET(CURLOPT_HEADERDATA, exchange);
        SET(CURLOPT_WRITEFUNCTION, on_body);
        SET(CURLOPT_WRITEDATA, exchange);
        return check_set(code, name, error);
}

/* What stays while requests go to the same receiver. */
static bool set_receiver(
    struct exchange *exchange, const struct http_target *target, struct error *error)
{
        CURL *easy = exchange->easy;
        CURLcode code = CURLE_OK;
        const char *name = NULL;

        if (exchange->receiver == target->number)
                return true;
        exchange->receiver = 0;
        curl_easy_reset(easy); /* keeps the connections, forgets the options */
        if (!set_common_options(exchange, error))
                return false;
        SET(CURLOPT_CURLU, target->parsed);
        SET(CURLOPT_POST, 1L);
        if (!check_set(code, name, error))
                return false;
        exchange->receiver = target->number;
        return true;
}

/* All that differs from one request to the next: set for each, also where it is nothing. */
static bool set_request(
    struct exchange *exchange, const struct http_post *post, struct error *error)
{
        CURL *easy = exchange->easy;
        CURLcode code = CURLE_OK;
        const char *name = NULL;

        SET(CURLOPT_RESOLVE, exchange->pin);
        SET(CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)post->body_bytes);
        SET(CURLOPT_POSTFIELDS, post->body_bytes > 0 ? post->body : "");
        SET(CURLOPT_HTTPHEADER,
            curl_lines_make(&exchange->lines, post->lines->data, post->target->fixed));
        return check_set(code, name, error);
}

static bool start(struct exchange *exchange, struct error *error)
{
        exchange->transfer =
            curl_driver_start(exchange->shard->driver, exchange->easy, on_transfer_done, exchange);
        return exchange->transfer != NULL ||
               error_set(error, ERROR_SINK, "libcurl cannot start another transfer");
}

/* By host; or else in turn, so that no shard ever has more requests than connections. */
static struct shard *shard_of(struct curl_client *client, const struct http_target *target)
{
        uint64_t number = client->config->receivers == HTTP_RECEIVERS_TABLE
                              ? hash_text(target->origin)
                              : client->n_made;

        return &client->shards[number % client->n_shards];
}

static struct exchange *make(struct curl_client *client, struct shard *shard)
{
        struct exchange *exchange = xcalloc(1, sizeof *exchange);

        client->n_made++;
        exchange->base.client = &client->base;
        exchange->client = client;
        list_init(&exchange->link);
        exchange->shard = shard;
        exchange->sockets.guard = client->guard;
        exchange->body_deadline = timer_create_on(client->loop, on_body_deadline, exchange);
        exchange->easy = curl_easy_init();
        if (exchange->easy == NULL)
                out_of_memory();
        return exchange;
}

static struct exchange *begin(struct curl_client *client, const struct http_target *target,
    http_exchange_done_fn *on_done, void *owner)
{
        struct shard *shard = shard_of(client, target);
        struct list *idle = idle_of(client, shard);
        struct exchange *exchange;

        if (list_is_empty(idle)) {
                exchange = make(client, shard);
        } else {
                exchange = list_owner(idle->next, struct exchange, link);
                list_remove(&exchange->link);
        }
        exchange->on_done = on_done;
        exchange->owner = owner;
        exchange->is_second_try = false;
        exchange->pin = http_host_pin(target->host);
        forget_answer(exchange);
        return exchange;
}

/* What was refused could not begin. */
static struct http_exchange *begun(struct exchange *exchange, bool is_begun)
{
        if (is_begun)
                return &exchange->base;
        end(exchange);
        exchange->receiver = 0;
        rest(exchange);
        return NULL;
}

static struct http_exchange *post(struct http_client *base, const struct http_post *post,
    http_exchange_done_fn *on_done, void *owner, struct error *error)
{
        struct exchange *exchange = begin((struct curl_client *)base, post->target, on_done, owner);

        return begun(exchange, set_receiver(exchange, post->target, error) &&
                                   set_request(exchange, post, error) && start(exchange, error));
}

static struct http_exchange *connect_only(struct http_client *base, struct http_target *target,
    http_exchange_done_fn *on_done, void *owner, struct error *error)
{
        struct exchange *exchange = begin((struct curl_client *)base, target, on_done, owner);
        CURL *easy = exchange->easy;
        CURLcode code = CURLE_OK;
        const char *name = NULL;

        exchange->receiver = 0;
        curl_easy_reset(easy);
        if (!set_common_options(exchange, error))
                return begun(exchange, false);
        SET(CURLOPT_CURLU, target->parsed);
        SET(CURLOPT_RESOLVE, exchange->pin);
        SET(CURLOPT_CONNECT_ONLY, 1L);
        return begun(exchange, check_set(code, name, error) && start(exchange, error));
}

static bool stop(struct http_exchange *base, struct outcome *out_outcome)
{
        struct exchange *exchange = (struct exchange *)base;
        struct http_result result;
        bool is_known = exchange->response.has_status;

        break_off(exchange);
        if (is_known) {
                result = result_of(exchange, CURLE_OK);
                *out_outcome = http_result_classify(&result, exchange->client->config);
        }
        rest(exchange);
        return is_known;
}

static void destroy_idle(struct shard *shard)
{
        list_for_each (link, &shard->idle) {
                struct exchange *exchange = list_owner(link, struct exchange, link);

                assert(exchange->transfer == NULL);
                timer_destroy(exchange->body_deadline);
                curl_easy_cleanup(exchange->easy);
                curl_lines_deinit(&exchange->lines);
                free(exchange);
        }
}

static void destroy(struct http_client *base)
{
        struct curl_client *client = (struct curl_client *)base;

        for (size_t i = 0; i < client->n_shards; i++)
                destroy_idle(&client->shards[i]);
        for (size_t i = 0; i < client->n_shards; i++)
                curl_driver_destroy(client->shards[i].driver);
        free(client->shards);
        free(client);
}

static size_t shards_for(const struct http_config *config, unsigned max_connections)
{
        size_t n_shards = (max_connections + CONNECTIONS_PER_SHARD - 1) / CONNECTIONS_PER_SHARD;

        if (config->receivers == HTTP_RECEIVERS_TABLE)
                return MAX_SHARDS;
        if (config->http_version == HTTP_VERSION_2 || n_shards == 0)
                return 1;
        return n_shards < MAX_SHARDS ? n_shards : MAX_SHARDS;
}

static const struct http_client_ops client_ops = {
    .post = post, .connect = connect_only, .stop = stop, .destroy = destroy};

struct http_client *curl_client_create(uv_loop_t *loop, const struct http_config *config,
    const struct address_guard *guard, unsigned max_connections)
{
        struct curl_client *client = xcalloc(1, sizeof *client);

        client->base.ops = &client_ops;
        client->loop = loop;
        client->config = config;
        client->guard = guard;
        client->n_shards = shards_for(config, max_connections);
        client->shards = xcalloc(client->n_shards, sizeof *client->shards);
        for (size_t i = 0; i < client->n_shards; i++) {
                client->shards[i].driver = curl_driver_create(
                    loop, 1 + (max_connections - 1) / (unsigned)client->n_shards);
                list_init(&client->shards[i].idle);
        }
        return &client->base;
}
