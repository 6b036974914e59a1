/*
 * CLOSED -open-> RESOLVING -addresses-> CONNECTING -connected-> HANDSHAKING -accepted-> READY
 *   READY -retire-> RETIRING -last answer-> CLOSED
 *   any state -failure or deadline-> CLOSED (on_lost)
 * A unix socket skips RESOLVING.
 */
#include "sinks/redis/redis_connection.h"

#include "base/alloc.h"
#include "base/bytes.h"
#include "config/config.h"
#include "loop/redis_stream.h"
#include "loop/resolve.h"
#include "loop/timer.h"

#include <assert.h>
#include <inttypes.h>
#include <netdb.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/un.h>

enum { MAX_ADDRESSES = 8 };

struct redis_connection {
        enum redis_connection_state state;
        uv_loop_t *loop;
        struct redis_session session;
        const struct redis_config *config;            /* of the session */
        const struct redis_connection_events *events; /* borrowed */
        void *owner;                                  /* borrowed */
        char *host;                                   /* owned; NULL for a unix socket */
        char *peer;                                   /* owned; "host:port" or a path */
        struct timer *deadline;                       /* owned; one for each state that waits */

        struct resolve *resolve; /* RESOLVING */
        struct redis_stream_target addresses[MAX_ADDRESSES];
        unsigned n_addresses;
        unsigned next_address; /* the one to try if this one fails */
        char failure[240];     /* why the last one failed, or why it will be lost */
        bool is_failed;        /* the loss is known, and told in the next turn */
        bool is_tls_failure;   /* the last one answered, but not by TLS as it should */

        struct redis_stream *stream; /* owned */
        struct redis_handshake handshake;
        unsigned n_unanswered;    /* the owner's commands */
        uint64_t silent_since_ms; /* uv_now() of the last answer, or of the first command after
                                   * an idle time */
        bool is_suspect;          /* too long silent, but the socket has not been looked at */
        enum outcome_fault fault; /* of the last loss */
};

static void drop_stream(struct redis_connection *connection)
{
        redis_stream_destroy(connection->stream);
        connection->stream = NULL;
}

/* The only place that assigns connection->state, and the timer's and the stream's life with it. */
static void enter(struct redis_connection *connection, enum redis_connection_state next)
{
        connection->state = next;

        switch (next) {
        case REDIS_RESOLVING:
        case REDIS_CONNECTING:
        case REDIS_HANDSHAKING:
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
                drop_stream(connection);
                connection->n_unanswered = 0;
                return;
        }
}

static enum outcome_fault find_fault(const struct redis_connection *connection, bool needs_operator)
{
        switch (connection->state) {
        case REDIS_RESOLVING:
                return OUTCOME_FAULT_DNS;
        case REDIS_CONNECTING:
                return connection->is_tls_failure ? OUTCOME_FAULT_TLS : OUTCOME_FAULT_REFUSED;
        case REDIS_HANDSHAKING:
                return needs_operator ? OUTCOME_FAULT_AUTH : OUTCOME_FAULT_REFUSED;
        case REDIS_READY:
        case REDIS_RETIRING:
                return connection->is_suspect ? OUTCOME_FAULT_TIMEOUT : OUTCOME_FAULT_LOST;
        case REDIS_CLOSED:
                break;
        }
        return OUTCOME_FAULT_OTHER;
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

        connection->fault = find_fault(connection, needs_operator);
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
                lose(connection, "cannot connect to %s: %s", connection->peer, connection->failure);
                return;
        }
        switch (connection->state) {
        case REDIS_RESOLVING:
                lose(connection, "cannot resolve %s within %" PRId64 " ms", connection->peer,
                    limit_ms);
                return;
        case REDIS_CONNECTING:
                lose(connection, "cannot connect to %s%s within %" PRId64 " ms", connection->peer,
                    connection->session.tls != NULL ? " by TLS" : "", limit_ms);
                return;
        case REDIS_HANDSHAKING:
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

static void connect_next(struct redis_connection *connection);

static void on_connected(void *owner)
{
        struct redis_connection *connection = owner;
        struct bytes handshake = {0};

        enter(connection, REDIS_HANDSHAKING);
        redis_handshake_start(
            &connection->handshake, connection->config, connection->session.peer, &handshake);
        redis_stream_send(connection->stream, handshake.data, handshake.length);
        explicit_bzero(handshake.data, handshake.capacity);
        bytes_deinit(&handshake);
}

static void take_handshake(struct redis_connection *connection, const redisReply *reply)
{
        char refusal[256];
        bool needs_operator = false;

        switch (redis_handshake_judge(
            &connection->handshake, reply, refusal, sizeof refusal, &needs_operator)) {
        case HANDSHAKE_GOES_ON:
                return;
        case HANDSHAKE_REFUSED:
                lose_because(
                    connection, needs_operator, "%s refused %s", connection->peer, refusal);
                return;
        case HANDSHAKE_ACCEPTED:
                enter(connection, REDIS_READY);
                connection->events->on_ready(connection->owner);
                return;
        }
}

static void take_answer(struct redis_connection *connection, const redisReply *reply)
{
        if (connection->n_unanswered == 0) {
                lose(connection, "%s sent an answer to no command", connection->peer);
                return;
        }
        connection->n_unanswered--;
        connection->silent_since_ms = uv_now(connection->loop);
        connection->is_suspect = false;
        if (connection->state == REDIS_RETIRING && connection->n_unanswered == 0)
                enter(connection, REDIS_CLOSED);
        /* Last: the owner may destroy the connection. */
        connection->events->on_reply(connection->owner, reply);
}

static void on_reply(void *owner, const redisReply *reply)
{
        struct redis_connection *connection = owner;

        if (connection->state == REDIS_HANDSHAKING)
                take_handshake(connection, reply);
        else
                take_answer(connection, reply);
}

static void on_failed(void *owner, const char *reason)
{
        struct redis_connection *connection = owner;

        if (connection->state != REDIS_CONNECTING) {
                lose(connection, "connection to %s lost: %s", connection->peer, reason);
                return;
        }
        snprintf(connection->failure, sizeof connection->failure, "%s", reason);
        connection->is_tls_failure = redis_stream_has_met(connection->stream);
        drop_stream(connection);
        connect_next(connection);
}

static void connect_next(struct redis_connection *connection)
{
        static const struct redis_stream_events events = {
            .on_connected = on_connected, .on_reply = on_reply, .on_failed = on_failed};

        while (connection->next_address < connection->n_addresses) {
                connection->stream = redis_stream_open(connection->loop,
                    &connection->addresses[connection->next_address++], &events, connection,
                    connection->failure, sizeof connection->failure);
                if (connection->stream != NULL)
                        return;
        }
        lose_soon(connection);
}

static void add_address(struct redis_connection *connection, const void *address, socklen_t length)
{
        struct redis_stream_target *target = &connection->addresses[connection->n_addresses++];

        *target = (struct redis_stream_target){
            .tls = connection->session.tls, .tls_host = connection->host, .address_length = length};
        memcpy(&target->address, address, length);
}

static void on_resolved(void *owner, const struct addrinfo *addresses, const char *failure)
{
        struct redis_connection *connection = owner;

        connection->resolve = NULL;
        for (; addresses != NULL && connection->n_addresses < MAX_ADDRESSES;
             addresses = addresses->ai_next)
                add_address(connection, addresses->ai_addr, addresses->ai_addrlen);
        if (connection->n_addresses == 0) {
                lose(connection, "cannot resolve %s: %s", connection->peer,
                    failure != NULL ? failure : "no address");
                return;
        }
        enter(connection, REDIS_CONNECTING);
        connect_next(connection);
}

struct redis_connection *redis_connection_create(uv_loop_t *loop,
    const struct redis_session *session, const struct redis_connection_events *events, void *owner)
{
        struct redis_connection *connection = xcalloc(1, sizeof *connection);

        connection->state = REDIS_CLOSED;
        connection->loop = loop;
        connection->session = *session;
        connection->config = session->config;
        connection->events = events;
        connection->owner = owner;
        connection->deadline = timer_create_on(loop, on_deadline, connection);
        return connection;
}

void redis_connection_destroy(struct redis_connection *connection)
{
        if (connection == NULL)
                return;
        redis_connection_close(connection);
        timer_destroy(connection->deadline);
        free(connection->host);
        free(connection->peer);
        free(connection);
}

enum redis_connection_state redis_connection_state(const struct redis_connection *connection)
{
        return connection->state;
}

static void connect_to_path(struct redis_connection *connection, const char *path)
{
        struct sockaddr_un address = {.sun_family = AF_UNIX};

        /* Longer ones are refused when the sink is opened. */
        snprintf(address.sun_path, sizeof address.sun_path, "%s", path);
        add_address(connection, &address, sizeof address);
        enter(connection, REDIS_CONNECTING);
        connect_next(connection);
}

void redis_connection_open(
    struct redis_connection *connection, const struct redis_endpoint *endpoint)
{
        char service[8];

        assert(connection->state == REDIS_CLOSED);
        free(connection->host);
        free(connection->peer);
        connection->host = endpoint->host != NULL ? xstrdup(endpoint->host) : NULL;
        connection->peer = endpoint->host != NULL
                               ? xasprintf("%s:%u", endpoint->host, endpoint->port)
                               : xstrdup(endpoint->socket_path);
        connection->next_address = 0;
        connection->n_addresses = 0;
        connection->is_tls_failure = false;
        if (endpoint->host == NULL) {
                connect_to_path(connection, endpoint->socket_path);
                return;
        }
        snprintf(service, sizeof service, "%u", endpoint->port);
        enter(connection, REDIS_RESOLVING);
        connection->resolve = resolve_start(connection->loop, connection->host, service,
            connection->config->connect_timeout_ms, on_resolved, connection);
}

enum outcome_fault redis_connection_fault(const struct redis_connection *connection)
{
        return connection->fault;
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

struct bytes *redis_connection_out(struct redis_connection *connection)
{
        assert(connection->state == REDIS_READY);
        return redis_stream_out(connection->stream);
}

void redis_connection_note_sent(struct redis_connection *connection, unsigned n_commands)
{
        assert(connection->state == REDIS_READY);
        if (connection->n_unanswered == 0) {
                if (!timer_is_armed(connection->deadline))
                        timer_arm(connection->deadline, (uint64_t)connection->config->timeout_ms);
                connection->silent_since_ms = uv_now(connection->loop);
                connection->is_suspect = false;
        }
        connection->n_unanswered += n_commands;
        redis_stream_note_appended(connection->stream);
}

void redis_connection_flush(struct redis_connection *connection)
{
        if (connection->stream != NULL)
                redis_stream_flush(connection->stream);
}
