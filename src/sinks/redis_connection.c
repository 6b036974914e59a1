/*
 * CLOSED -open-> RESOLVING -addresses-> CONNECTING -connected-> GREETING -named-> READY
 *   READY -retire-> RETIRING -last answer-> CLOSED
 *   any state -failure or deadline-> CLOSED (on_lost)
 * A unix socket skips RESOLVING.
 *
 * The tricky part is who frees the hiredis context. hiredis does so itself
 * after a failed connect and after a disconnect; then we only forget it. In all
 * other cases we free it, having first taken our pointer out of context->data:
 * what hiredis still calls for that context, perhaps later, finds NULL there.
 */
#include "sinks/redis_connection.h"

#include "base/alloc.h"
#include "base/bytes.h"
#include "loop/redis_driver.h"
#include "loop/resolve.h"
#include "loop/timer.h"
#include "sinks/redis_greeting.h"

#include <assert.h>
#include <inttypes.h>
#include <netdb.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_ADDRESSES = 8 };

struct redis_connection {
        enum redis_connection_state state;
        uv_loop_t *loop;
        const struct redis_config *config;            /* borrowed */
        const struct redis_connection_events *events; /* borrowed */
        void *owner;                                  /* borrowed */
        char *peer;                                   /* owned; "host:port" or a path */
        struct timer *deadline;                       /* owned; one for each state that waits */

        struct resolve *resolve;           /* RESOLVING */
        char addresses[MAX_ADDRESSES][64]; /* literals; one that is unused for a unix socket */
        unsigned n_addresses;
        unsigned next_address; /* the one to try if this one fails */
        char failure[160];     /* why the last one failed, or why it will be lost */
        bool is_failed;        /* the loss is known, and told in the next turn */

        redisAsyncContext *context; /* hiredis frees it; see above */
        unsigned n_unanswered;      /* the owner's commands */
        uint64_t silent_since_ms;   /* uv_now() of the last answer, or of the first command after
                                     * an idle time */
        bool is_suspect;            /* too long silent, but the socket has not been looked at */
};

static void forget_context(struct redis_connection *connection)
{
        connection->context->data = NULL;
        connection->context = NULL;
}

static void drop_context(struct redis_connection *connection)
{
        redisAsyncContext *context = connection->context;

        if (context == NULL)
                return;
        forget_context(connection);
        redisAsyncFree(context);
}

/* The only place that assigns connection->state, and the timer's and the context's life with it. */
static void enter(struct redis_connection *connection, enum redis_connection_state next)
{
        connection->state = next;

        switch (next) {
        case REDIS_RESOLVING:
        case REDIS_CONNECTING:
        case REDIS_GREETING:
                /* One deadline for the three. */
                if (!timer_is_armed(connection->deadline))
                        timer_arm(
                            connection->deadline, (uint64_t)connection->config->connect_timeout_ms);
                return;
        case REDIS_READY:
                timer_disarm(connection->deadline);
                connection->n_unanswered = 0;
                return;
        case REDIS_RETIRING:
                return;
        case REDIS_CLOSED:
                timer_disarm(connection->deadline);
                connection->is_failed = false;
                resolve_cancel(connection->resolve);
                connection->resolve = NULL;
                drop_context(connection);
                connection->n_unanswered = 0;
                return;
        }
}

static void lose_because(struct redis_connection *connection, bool needs_operator,
    const char *format, ...) __attribute__((format(printf, 3, 4)));

static void lose_because(
    struct redis_connection *connection, bool needs_operator, const char *format, ...)
{
        char reason[512];
        va_list arguments;

        va_start(arguments, format);
        vsnprintf(reason, sizeof reason, format, arguments);
        va_end(arguments);

        enter(connection, REDIS_CLOSED);
        connection->events->on_lost(connection->owner, needs_operator, reason);
}

#define lose(connection, ...) lose_because(connection, false, __VA_ARGS__)
/* For a failure found inside a call of the owner's. Told at once, it would let what the owner sends
 * next go by a new connection, past what this one could not take. */
static void lose_soon(struct redis_connection *connection)
{
        connection->is_failed = true;
        timer_arm(connection->deadline, 0);
}

/* Redis answers in order, so after a silence that began with the oldest command, or with the answer
 * before it, that command is overdue. A pipeline that is slow but moves is left alone. */
static void check_silence(struct redis_connection *connection)
{
        uint64_t limit_ms = (uint64_t)connection->config->timeout_ms;
        uint64_t silent_ms = uv_now(connection->loop) - connection->silent_since_ms;

        if (connection->n_unanswered == 0)
                return;
        if (silent_ms < limit_ms) {
                timer_arm(connection->deadline, limit_ms - silent_ms);
                return;
        }
        if (!connection->is_suspect) {
                /* Timers come before sockets: if it was this process that stood still, the answers
                 * are there, and the rest of this turn reads them. */
                connection->is_suspect = true;
                timer_arm(connection->deadline, 1);
                return;
        }
        lose(connection, "%s has not answered for %" PRId64 " ms", connection->peer,
            connection->config->timeout_ms);
}

static void on_deadline(void *owner)
{
        struct redis_connection *connection = owner;
        int64_t limit_ms = connection->config->connect_timeout_ms;

        if (connection->is_failed) {
                lose(connection, "cannot %s %s: %s",
                    connection->state == REDIS_CONNECTING ? "connect to" : "write to",
                    connection->peer, connection->failure);
                return;
        }
        switch (connection->state) {
        case REDIS_RESOLVING:
                lose(connection, "cannot resolve %s within %" PRId64 " ms", connection->peer,
                    limit_ms);
                return;
        case REDIS_CONNECTING:
                lose(connection, "cannot connect to %s within %" PRId64 " ms", connection->peer,
                    limit_ms);
                return;
        case REDIS_GREETING:
                lose(connection, "%s has not answered the greeting within %" PRId64 " ms",
                    connection->peer, limit_ms);
                return;
        case REDIS_READY:
        case REDIS_RETIRING:
                check_silence(connection);
                return;
        case REDIS_CLOSED:
                abort(); /* a closed connection has no deadline */
        }
}

static void on_greeted(redisAsyncContext *context, void *answer, void *privdata)
{
        struct redis_connection *connection = context->data;
        char refusal[256];
        bool needs_operator = false;

        if (connection == NULL || answer == NULL)
                return;
        switch (redis_greeting_judge(
            connection->config, answer, privdata, refusal, sizeof refusal, &needs_operator)) {
        case GREETING_GOES_ON:
                return;
        case GREETING_REFUSED:
                lose_because(
                    connection, needs_operator, "%s refused %s", connection->peer, refusal);
                return;
        case GREETING_ACCEPTED:
                enter(connection, REDIS_READY);
                connection->events->on_ready(connection->owner);
                return;
        }
}

static void connect_next(struct redis_connection *connection);

static void on_connected(const redisAsyncContext *context, int status)
{
        struct redis_connection *connection = context->data;

        if (connection == NULL)
                return;
        if (status == REDIS_OK) {
                if (connection->config->socket_path == NULL)
                        redisEnableKeepAlive(&connection->context->c);
                enter(connection, REDIS_GREETING);
                redis_greeting_send(connection->context, connection->config, on_greeted);
                return;
        }
        snprintf(connection->failure, sizeof connection->failure, "%s", context->c.errstr);
        forget_context(connection);
        connect_next(connection);
}

static void on_disconnected(const redisAsyncContext *context, int status)
{
        struct redis_connection *connection = context->data;

        (void)status;
        if (connection == NULL)
                return;
        forget_context(connection);
        lose(connection, "connection to %s lost: %s", connection->peer,
            context->err != 0 ? context->errstr : "closed");
}

static bool start_connecting(struct redis_connection *connection, const char *address)
{
        const struct redis_config *config = connection->config;
        redisAsyncContext *context = config->socket_path != NULL
                                         ? redisAsyncConnectUnix(config->socket_path)
                                         : redisAsyncConnect(address, config->port);

        if (context == NULL) {
                snprintf(connection->failure, sizeof connection->failure, "out of memory");
                return false;
        }
        if (context->err != 0 || !redis_driver_attach(context, connection->loop)) {
                snprintf(connection->failure, sizeof connection->failure, "%s",
                    context->err != 0 ? context->errstr : "the socket cannot be watched");
                redisAsyncFree(context);
                return false;
        }
        context->data = connection;
        connection->context = context;
        redisAsyncSetConnectCallback(context, on_connected);
        redisAsyncSetDisconnectCallback(context, on_disconnected);
        return true;
}

static void connect_next(struct redis_connection *connection)
{
        while (connection->next_address < connection->n_addresses)
                if (start_connecting(connection, connection->addresses[connection->next_address++]))
                        return;
        lose_soon(connection);
}

static void on_resolved(void *owner, const struct addrinfo *addresses, const char *failure)
{
        struct redis_connection *connection = owner;

        connection->resolve = NULL;
        for (; addresses != NULL && connection->n_addresses < MAX_ADDRESSES;
             addresses = addresses->ai_next) {
                char *text = connection->addresses[connection->n_addresses];
                if (getnameinfo(addresses->ai_addr, addresses->ai_addrlen, text,
                        sizeof connection->addresses[0], NULL, 0, NI_NUMERICHOST) == 0)
                        connection->n_addresses++;
        }
        if (connection->n_addresses == 0) {
                lose(connection, "cannot resolve %s: %s", connection->peer,
                    failure != NULL ? failure : "no address");
                return;
        }
        enter(connection, REDIS_CONNECTING);
        connect_next(connection);
}

struct redis_connection *redis_connection_create(uv_loop_t *loop, const struct redis_config *config,
    const struct redis_connection_events *events, void *owner)
{
        struct redis_connection *connection = xcalloc(1, sizeof *connection);

        connection->state = REDIS_CLOSED;
        connection->loop = loop;
        connection->config = config;
        connection->events = events;
        connection->owner = owner;
        connection->peer = config->socket_path != NULL
                               ? xstrdup(config->socket_path)
                               : xasprintf("%s:%u", config->host, config->port);
        connection->deadline = timer_create_on(loop, on_deadline, connection);
        return connection;
}

void redis_connection_destroy(struct redis_connection *connection)
{
        if (connection == NULL)
                return;
        redis_connection_close(connection);
        timer_destroy(connection->deadline);
        free(connection->peer);
        free(connection);
}

enum redis_connection_state redis_connection_state(const struct redis_connection *connection)
{
        return connection->state;
}

void redis_connection_open(struct redis_connection *connection)
{
        char service[8];

        assert(connection->state == REDIS_CLOSED);
        connection->next_address = 0;
        if (connection->config->socket_path != NULL) {
                connection->n_addresses = 1;
                enter(connection, REDIS_CONNECTING);
                connect_next(connection);
                return;
        }
        connection->n_addresses = 0;
        snprintf(service, sizeof service, "%u", connection->config->port);
        enter(connection, REDIS_RESOLVING);
        connection->resolve = resolve_start(
            connection->loop, connection->config->host, service, on_resolved, connection);
}

void redis_connection_close(struct redis_connection *connection)
{
        enter(connection, REDIS_CLOSED);
}

void redis_connection_retire(struct redis_connection *connection)
{
        assert(connection->state == REDIS_READY);
        enter(connection, connection->n_unanswered > 0 ? REDIS_RETIRING : REDIS_CLOSED);
}

static void on_answered(redisAsyncContext *context, void *answer, void *privdata)
{
        struct redis_connection *connection = context->data;

        (void)privdata;
        /* No answer means that the connection goes; on_disconnected() follows. */
        if (connection == NULL || answer == NULL)
                return;
        connection->n_unanswered--;
        connection->silent_since_ms = uv_now(connection->loop);
        connection->is_suspect = false;
        if (connection->state == REDIS_RETIRING && connection->n_unanswered == 0)
                enter(connection, REDIS_CLOSED);
        /* Last: the owner may destroy the connection. */
        connection->events->on_reply(connection->owner, answer);
}

void redis_connection_send(struct redis_connection *connection, const struct bytes *command)
{
        const redisCallback *last;

        assert(connection->state == REDIS_READY);
        if (connection->n_unanswered++ == 0) {
                if (!timer_is_armed(connection->deadline))
                        timer_arm(connection->deadline, (uint64_t)connection->config->timeout_ms);
                connection->silent_since_ms = uv_now(connection->loop);
                connection->is_suspect = false;
        }
        if (connection->is_failed)
                return;
        last = connection->context->replies.tail;
        if (redisAsyncFormattedCommand(connection->context, on_answered, NULL, command->data,
                command->length) == REDIS_OK) {
                redis_driver_expect_command(connection->context, last);
                return;
        }
        snprintf(connection->failure, sizeof connection->failure, "out of memory");
        lose_soon(connection);
}

void redis_connection_flush(struct redis_connection *connection)
{
        if (connection->context != NULL)
                redis_driver_flush(connection->context);
}
