/*
 * The connection that rested last is taken first, so that those that are not needed grow old. One
 * timer closes them: it comes when the first is due, looks at all that rest, and then not again
 * within a second.
 *
 * A peer that says how long it keeps a connection (Keep-Alive: timeout=5) will close it then,
 * perhaps under a request that is on its way. So we close it a second earlier.
 */
#include "sinks/http/client/http1_pool.h"

#include "base/alloc.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/list.h"
#include "base/utf8.h"
#include "config/config.h"
#include "loop/byte_stream.h"
#include "loop/connector.h"
#include "loop/timer.h"
#include "loop/tls_session.h"
#include "sinks/address_guard.h"
#include "sinks/http/http_host.h"
#include "sinks/http/http_target.h"

#include <assert.h>
#include <openssl/x509.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define REST_MS       118000
#define MAX_AGE_MS    600000 /* so that a changed address or certificate is noticed */
#define SWEEP_MIN_MS  1000
#define EARLIER_MS    1000
#define KEPT_BYTES    16384 /* of a connection's buffers */
#define MAX_ADDRESSES 8
#define N_FILES       3

/* Where connections lead to. It goes with the last of them, unless it has a ticket. */
struct origin {
        struct origin *next; /* in its bucket */
        uint64_t hash;
        char *name;          /* "https://host:port" */
        struct list resting; /* http1_connection::beside, the one that rested last first */
        unsigned n_connections;
        struct tls_ticket *ticket; /* owned; of the pool's context; NULL: plain */
        unsigned tls_number;       /* which of the contexts that was */
};

struct http1_connection {
        struct list beside; /* in origin->resting, while it rests */
        struct list link;   /* in pool->resting likewise */
        struct http1_pool *pool;
        struct origin *origin;
        struct byte_stream *stream;
        const struct http1_user_events *events;
        void *user; /* NULL: it rests */
        bool is_open;
        bool has_served;
        uint64_t made_ms;
        uint64_t rests_until_ms;
};

struct http1_pool {
        uv_loop_t *loop;                   /* borrowed */
        const struct http_config *config;  /* borrowed */
        const struct address_guard *guard; /* borrowed */
        unsigned max_connections;
        unsigned n_connections;
        struct list resting; /* http1_connection::link, the one that rests longest first */
        struct timer *sweep;
        uint64_t sweep_ms; /* when it is due, while it is armed */

        struct origin **buckets;
        size_t n_buckets; /* a power of 2 */
        size_t n_origins;

        struct tls_context *tls; /* owned; NULL: not read yet */
        unsigned tls_number;     /* of the files' states that were read */
        struct stat files[N_FILES];
};

/* Origins. */

static void grow_buckets(struct http1_pool *pool)
{
        size_t n_buckets = pool->n_buckets > 0 ? 2 * pool->n_buckets : 16;
        struct origin **buckets = xcalloc(n_buckets, sizeof(struct origin *));

        for (size_t i = 0; i < pool->n_buckets; i++) {
                for (struct origin *at = pool->buckets[i], *next; at != NULL; at = next) {
                        struct origin **bucket = &buckets[at->hash & (n_buckets - 1)];

                        next = at->next;
                        at->next = *bucket;
                        *bucket = at;
                }
        }
        free(pool->buckets);
        pool->buckets = buckets;
        pool->n_buckets = n_buckets;
}

static struct origin *add_origin(struct http1_pool *pool, const char *name, uint64_t hash)
{
        struct origin *origin = xcalloc(1, sizeof *origin);
        struct origin **bucket;

        if (pool->n_origins == pool->n_buckets)
                grow_buckets(pool);
        bucket = &pool->buckets[hash & (pool->n_buckets - 1)];
        origin->hash = hash;
        origin->name = xstrdup(name);
        list_init(&origin->resting);
        origin->next = *bucket;
        *bucket = origin;
        pool->n_origins++;
        return origin;
}

static struct origin *find_origin(struct http1_pool *pool, const char *name)
{
        uint64_t hash = hash_text(name);

        if (pool->n_buckets > 0)
                for (struct origin *at = pool->buckets[hash & (pool->n_buckets - 1)]; at != NULL;
                     at = at->next)
                        if (at->hash == hash && strcmp(at->name, name) == 0)
                                return at;
        return add_origin(pool, name, hash);
}

static void remove_origin(struct http1_pool *pool, struct origin *origin)
{
        struct origin **at = &pool->buckets[origin->hash & (pool->n_buckets - 1)];

        while (*at != origin)
                at = &(*at)->next;
        *at = origin->next;
        pool->n_origins--;
        tls_ticket_destroy(origin->ticket);
        free(origin->name);
        free(origin);
}

static void leave_origin(struct http1_pool *pool, struct origin *origin)
{
        origin->n_connections--;
        if (origin->n_connections == 0 &&
            (origin->ticket == NULL || pool->n_origins > pool->max_connections))
                remove_origin(pool, origin);
}

/* The files of TLS, which are read again when one of them has changed. */

static const char *file_of(const struct http_config *config, unsigned i)
{
        const char *const files[N_FILES] = {
            config->ca_file != NULL ? config->ca_file : X509_get_default_cert_file(),
            config->cert_file, config->key_file};

        return files[i];
}

static bool are_same(const struct stat *a, const struct stat *b)
{
        return a->st_ino == b->st_ino && a->st_size == b->st_size &&
               a->st_mtim.tv_sec == b->st_mtim.tv_sec && a->st_mtim.tv_nsec == b->st_mtim.tv_nsec;
}

static bool note_files(struct http1_pool *pool)
{
        bool has_changed = false;

        for (unsigned i = 0; i < N_FILES; i++) {
                const char *path = file_of(pool->config, i);
                struct stat now = {0};

                if (path != NULL && stat(path, &now) != 0)
                        now = (struct stat){0};
                has_changed |= !are_same(&now, &pool->files[i]);
                pool->files[i] = now;
        }
        return has_changed;
}

static bool read_files(struct http1_pool *pool, struct http1_refusal *out_refusal)
{
        const struct tls_files files = {.ca_file = pool->config->ca_file,
            .cert_file = pool->config->cert_file,
            .key_file = pool->config->key_file,
            .protocol = "http/1.1"};
        struct error error;

        if (!note_files(pool) && pool->tls != NULL)
                return true;
        tls_context_destroy(pool->tls);
        pool->tls = tls_context_create(&files, &error);
        pool->tls_number++;
        if (pool->tls != NULL)
                return true;
        out_refusal->code = CURLE_SSL_CERTPROBLEM;
        utf8_copy(out_refusal->words, sizeof out_refusal->words, error.text);
        return false;
}

/* A ticket was given to the certificates of one context, and for them. Connections of an older one
 * may still write to theirs. */
static struct tls_ticket *ticket_of(struct http1_pool *pool, struct origin *origin)
{
        bool is_alone = origin->n_connections == 1; /* the one that is being made */

        if (origin->tls_number != pool->tls_number && is_alone) {
                tls_ticket_destroy(origin->ticket);
                origin->ticket = NULL;
        }
        if (origin->ticket == NULL) {
                origin->ticket = tls_ticket_create();
                origin->tls_number = pool->tls_number;
        }
        return origin->tls_number == pool->tls_number ? origin->ticket : NULL;
}

/* Connections. */

static void destroy(struct http1_connection *connection)
{
        struct http1_pool *pool = connection->pool;

        list_remove(&connection->beside);
        list_remove(&connection->link);
        byte_stream_destroy(connection->stream);
        pool->n_connections--;
        leave_origin(pool, connection->origin);
        free(connection);
}

static void on_connected(void *owner)
{
        struct http1_connection *connection = owner;

        connection->is_open = true;
        byte_stream_greeted(connection->stream);
        connection->events->on_open(connection->user);
}

static size_t on_data(void *owner, char *data, size_t size)
{
        struct http1_connection *connection = owner;

        if (connection->user != NULL)
                return connection->events->on_data(connection->user, data, size);
        destroy(connection); /* an answer that nothing has asked for */
        return size;
}

static void on_failed(void *owner, enum outcome_fault fault, const char *reason)
{
        struct http1_connection *connection = owner;

        if (connection->user != NULL)
                connection->events->on_lost(connection->user, fault, reason);
        else
                destroy(connection);
}

static const struct byte_stream_events stream_events = {
    .on_connected = on_connected, .on_data = on_data, .on_failed = on_failed};

static uint64_t now_ms(const struct http1_pool *pool)
{
        return uv_now(pool->loop);
}

static void arm_sweep(struct http1_pool *pool, uint64_t due_ms)
{
        uint64_t earliest_ms = now_ms(pool) + SWEEP_MIN_MS;

        pool->sweep_ms = due_ms > earliest_ms ? due_ms : earliest_ms;
        timer_arm(pool->sweep, pool->sweep_ms - now_ms(pool));
}

static void on_sweep(void *owner)
{
        struct http1_pool *pool = owner;
        uint64_t next_ms = UINT64_MAX;

        list_for_each (link, &pool->resting) {
                struct http1_connection *connection =
                    list_owner(link, struct http1_connection, link);

                if (connection->rests_until_ms <= now_ms(pool))
                        destroy(connection);
                else if (connection->rests_until_ms < next_ms)
                        next_ms = connection->rests_until_ms;
        }
        if (next_ms != UINT64_MAX)
                arm_sweep(pool, next_ms);
}

/* Those of the target's addresses that the guard permits: of all that is connected to, it judges
 * each. */
static unsigned choose_addresses(struct http1_pool *pool, const struct http_target *target,
    struct socket_address *out_addresses, struct http1_refusal *out_refusal)
{
        unsigned n_known;
        unsigned n = 0;
        const struct socket_address *known = http_host_addresses(target->host, &n_known);

        for (unsigned i = 0; i < n_known && n < MAX_ADDRESSES; i++)
                if (address_guard_permits(pool->guard, (const struct sockaddr *)&known[i].data,
                        out_refusal->words, sizeof out_refusal->words))
                        out_addresses[n++] = known[i];
        if (n > 0)
                return n;
        out_refusal->code = CURLE_COULDNT_CONNECT;
        out_refusal->is_guard = n_known > 0;
        if (n_known == 0)
                snprintf(out_refusal->words, sizeof out_refusal->words,
                    "the url's host is not an address");
        return 0;
}

/* Without brackets and zone, and without the dot at the end of a name that no certificate has. */
static char *bare_host(const char *origin, uint16_t *out_port)
{
        const char *host = strstr(origin, "://") + strlen("://");
        const char *colon = strrchr(host, ':');
        bool is_bracketed = host[0] == '[';
        size_t length = is_bracketed ? strcspn(host + 1, "%]") : (size_t)(colon - host);

        *out_port = (uint16_t)strtoul(colon + 1, NULL, 10);
        if (length > 1 && !is_bracketed && host[length - 1] == '.')
                length--;
        return xstrndup(host + is_bracketed, length);
}

static struct http1_connection *open_connection(struct http1_pool *pool, struct origin *origin,
    const struct http_target *target, struct http1_refusal *out_refusal)
{
        struct socket_address addresses[MAX_ADDRESSES];
        struct byte_stream_target where = {.addresses = addresses,
            .connect_timeout_ms = pool->config->connect_timeout_ms,
            .kept_bytes = KEPT_BYTES};
        bool is_tls = strncmp(origin->name, "https:", strlen("https:")) == 0;
        struct http1_connection *connection;
        char *host;

        if (is_tls && !read_files(pool, out_refusal))
                return NULL;
        where.n_addresses = choose_addresses(pool, target, addresses, out_refusal);
        if (where.n_addresses == 0)
                return NULL;
        if (is_tls) {
                where.tls = pool->tls;
                where.ticket = ticket_of(pool, origin);
        }
        host = bare_host(origin->name, &where.port);
        where.host = host;
        connection = xcalloc(1, sizeof *connection);
        list_init(&connection->beside);
        list_init(&connection->link);
        connection->pool = pool;
        connection->origin = origin;
        connection->made_ms = now_ms(pool);
        connection->stream = byte_stream_open(pool->loop, &where, &stream_events, connection);
        free(host);
        origin->n_connections++;
        pool->n_connections++;
        return connection;
}

static void make_room(struct http1_pool *pool)
{
        if (pool->n_connections >= pool->max_connections && !list_is_empty(&pool->resting))
                destroy(list_owner(pool->resting.next, struct http1_connection, link));
}

/* The one that rested last. What a peer has said meanwhile would pass for the answer to the next
 * request: one that is not silent is closed. NULL: none is left. */
static struct http1_connection *take_resting(struct origin *origin)
{
        while (!list_is_empty(&origin->resting)) {
                struct http1_connection *connection =
                    list_owner(origin->resting.next, struct http1_connection, beside);

                if (byte_stream_is_silent(connection->stream)) {
                        list_remove(&connection->beside);
                        list_remove(&connection->link);
                        return connection;
                }
                destroy(connection);
        }
        return NULL;
}

struct http1_connection *http1_pool_take(struct http1_pool *pool, const struct http_target *target,
    bool wants_new, const struct http1_user_events *events, void *user,
    struct http1_refusal *out_refusal)
{
        struct origin *origin = find_origin(pool, target->origin);
        struct http1_connection *connection;

        origin->n_connections++; /* it stays while others of it are closed */
        connection = wants_new ? NULL : take_resting(origin);
        if (connection == NULL) {
                make_room(pool);
                connection = open_connection(pool, origin, target, out_refusal);
        }
        leave_origin(pool, origin);
        if (connection == NULL)
                return NULL;
        connection->events = events;
        connection->user = user;
        return connection;
}

bool http1_connection_is_open(const struct http1_connection *connection)
{
        return connection->is_open;
}

bool http1_connection_has_served(const struct http1_connection *connection)
{
        return connection->has_served;
}

struct byte_stream *http1_connection_stream(const struct http1_connection *connection)
{
        return connection->stream;
}

static uint64_t rest_ms(int64_t keep_alive_ms)
{
        if (keep_alive_ms < 0 || keep_alive_ms > REST_MS)
                return REST_MS;
        return keep_alive_ms > EARLIER_MS ? (uint64_t)(keep_alive_ms - EARLIER_MS) : 0;
}

void http1_pool_give(struct http1_connection *connection, int64_t keep_alive_ms)
{
        struct http1_pool *pool = connection->pool;
        uint64_t now = now_ms(pool);

        if (pool->config->fresh_connections || now - connection->made_ms > MAX_AGE_MS ||
            pool->n_connections > pool->max_connections || rest_ms(keep_alive_ms) == 0) {
                destroy(connection);
                return;
        }
        connection->user = NULL;
        connection->has_served = true;
        connection->rests_until_ms = now + rest_ms(keep_alive_ms);
        list_push_front(&connection->origin->resting, &connection->beside);
        list_push_back(&pool->resting, &connection->link);
        if (!timer_is_armed(pool->sweep) || connection->rests_until_ms < pool->sweep_ms)
                arm_sweep(pool, connection->rests_until_ms);
}

void http1_pool_drop(struct http1_connection *connection)
{
        destroy(connection);
}

struct http1_pool *http1_pool_create(uv_loop_t *loop, const struct http_config *config,
    const struct address_guard *guard, unsigned max_connections)
{
        struct http1_pool *pool = xcalloc(1, sizeof *pool);

        pool->loop = loop;
        pool->config = config;
        pool->guard = guard;
        pool->max_connections = max_connections;
        list_init(&pool->resting);
        pool->sweep = timer_create_on(loop, on_sweep, pool);
        return pool;
}

void http1_pool_destroy(struct http1_pool *pool)
{
        if (pool == NULL)
                return;
        list_for_each (link, &pool->resting)
                destroy(list_owner(link, struct http1_connection, link));
        assert(pool->n_connections == 0);
        for (size_t i = 0; i < pool->n_buckets; i++)
                while (pool->buckets[i] != NULL)
                        remove_origin(pool, pool->buckets[i]);
        free(pool->buckets);
        tls_context_destroy(pool->tls);
        timer_destroy(pool->sweep);
        free(pool);
}
