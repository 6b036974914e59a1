/*
 * CLOSED -open-> CONNECTING -connected-> HANDSHAKING -accepted-> READY
 *   READY -retire-> RETIRING -last answer-> CLOSED
 *   any state -failure or deadline-> CLOSED (on_lost)
 *
 * The tricky idea is `is_left`. While answers are handed out, the owner may close or destroy the
 * connection, or open it anew: then it points to a flag on the stack of take_data(), which stops.
 */
#include "sinks/redis/redis_connection.h"

#include "base/alloc.h"
#include "base/bytes.h"
#include "config/config.h"
#include "loop/byte_stream.h"
#include "loop/timer.h"
#include "sinks/redis/resp_read.h"

#include <assert.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct redis_connection {
        enum redis_connection_state state;
        uv_loop_t *loop;
        struct redis_session session;
        const struct redis_config *config;            /* of the session */
        const struct redis_connection_events *events; /* borrowed */
        void *owner;                                  /* borrowed */
        char *peer;                                   /* owned; "host:port" or a path */
        struct timer *silence;                        /* owned; while answers are due */

        struct byte_stream *stream; /* owned; NULL while CLOSED */
        redisReader *reader;        /* owned; likewise */
        bool *is_left;              /* see above; NULL outside of take_data() */
        struct redis_handshake handshake;
        unsigned n_unanswered;    /* the owner's commands */
        uint64_t silent_since_ms; /* uv_now() of the last answer, or of the first command after
                                   * an idle time */
        enum outcome_fault fault; /* of the last loss */
};

/* The only place that assigns connection->state, and the timer's and the stream's life with it. */
static void enter(struct redis_connection *connection, enum redis_connection_state next)
{
        connection->state = next;

        switch (next) {
        case REDIS_CONNECTING:
        case REDIS_HANDSHAKING:
        case REDIS_RETIRING:
                return;
        case REDIS_READY:
                byte_stream_greeted(connection->stream);
                connection->n_unanswered = 0;
                return;
        case REDIS_CLOSED:
                timer_disarm(connection->silence);
                if (connection->is_left != NULL)
                        *connection->is_left = true;
                connection->is_left = NULL;
                byte_stream_destroy(connection->stream);
                connection->stream = NULL;
                if (connection->reader != NULL)
                        redisReaderFree(connection->reader);
                connection->reader = NULL;
                connection->n_unanswered = 0;
                return;
        }
}

static void lose(struct redis_connection *connection, enum outcome_fault fault, bool needs_operator,
    const char *format, ...) __attribute__((format(printf, 4, 5)));

static void lose(struct redis_connection *connection, enum outcome_fault fault, bool needs_operator,
    const char *format, ...)
{
        char reason[512];
        va_list arguments;

        va_start(arguments, format);
        vsnprintf(reason, sizeof reason, format, arguments);
        va_end(arguments);

        connection->fault = fault;
        enter(connection, REDIS_CLOSED);
        connection->events->on_lost(connection->owner, needs_operator, reason);
}

/* Redis answers in order, so after a silence that began with the oldest command, or with the answer
 * before it, that command is overdue. A pipeline that is slow but moves is left alone. */
static void on_silence(void *owner)
{
        struct redis_connection *connection = owner;
        uint64_t limit_ms = (uint64_t)connection->config->timeout_ms;
        uint64_t silent_ms = uv_now(connection->loop) - connection->silent_since_ms;

        if (connection->n_unanswered == 0)
                return;
        if (silent_ms < limit_ms) {
                timer_arm_behind_sockets(connection->silence, limit_ms - silent_ms);
                return;
        }
        lose(connection, OUTCOME_FAULT_TIMEOUT, false, "%s has not answered for %" PRId64 " ms",
            connection->peer, connection->config->timeout_ms);
}

static void on_connected(void *owner)
{
        struct redis_connection *connection = owner;
        struct bytes handshake = {0};

        enter(connection, REDIS_HANDSHAKING);
        redis_handshake_start(
            &connection->handshake, connection->config, connection->session.peer, &handshake);
        byte_stream_send(connection->stream, handshake.data, handshake.length);
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
                lose(connection, needs_operator ? OUTCOME_FAULT_AUTH : OUTCOME_FAULT_REFUSED,
                    needs_operator, "%s refused %s", connection->peer, refusal);
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
                lose(connection, OUTCOME_FAULT_LOST, false, "%s sent an answer to no command",
                    connection->peer);
                return;
        }
        connection->n_unanswered--;
        connection->silent_since_ms = uv_now(connection->loop);
        if (connection->state == REDIS_RETIRING && connection->n_unanswered == 0)
                enter(connection, REDIS_CLOSED);
        /* Last: the owner may destroy the connection. */
        connection->events->on_reply(connection->owner, reply);
}

static size_t take_data(void *owner, char *data, size_t size)
{
        struct redis_connection *connection = owner;
        redisReply simple;
        redisReply *reply;
        bool is_left = false;
        size_t n = size;

        connection->is_left = &is_left;
        while ((reply = resp_read(connection->reader, &data, &size, &simple)) != NULL) {
                if (connection->state == REDIS_HANDSHAKING)
                        take_handshake(connection, reply);
                else
                        take_answer(connection, reply);
                if (reply != &simple)
                        freeReplyObject(reply);
                if (is_left)
                        return n;
        }
        connection->is_left = NULL;
        if (connection->reader->err != 0)
                lose(connection, OUTCOME_FAULT_LOST, false, "connection to %s lost: %s",
                    connection->peer, connection->reader->errstr);
        return n;
}

static void on_failed(void *owner, enum outcome_fault fault, const char *reason)
{
        lose(owner, fault, false, "%s", reason);
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
        connection->silence = timer_create_on(loop, on_silence, connection);
        return connection;
}

void redis_connection_destroy(struct redis_connection *connection)
{
        if (connection == NULL)
                return;
        redis_connection_close(connection);
        timer_destroy(connection->silence);
        free(connection->peer);
        free(connection);
}

enum redis_connection_state redis_connection_state(const struct redis_connection *connection)
{
        return connection->state;
}

void redis_connection_open(
    struct redis_connection *connection, const struct redis_endpoint *endpoint)
{
        static const struct byte_stream_events events = {
            .on_connected = on_connected, .on_data = take_data, .on_failed = on_failed};
        const struct byte_stream_target target = {.host = endpoint->host,
            .port = endpoint->port,
            .socket_path = endpoint->socket_path,
            .tls = connection->session.tls,
            .connect_timeout_ms = connection->config->connect_timeout_ms};

        assert(connection->state == REDIS_CLOSED);
        connection->is_left = NULL;
        connection->reader = resp_reader_create();
        connection->stream = byte_stream_open(connection->loop, &target, &events, connection);
        free(connection->peer);
        connection->peer = xstrdup(byte_stream_peer(connection->stream));
        enter(connection, REDIS_CONNECTING);
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
        return byte_stream_out(connection->stream);
}

void redis_connection_note_sent(struct redis_connection *connection, unsigned n_commands)
{
        assert(connection->state == REDIS_READY);
        if (connection->n_unanswered == 0) {
                if (!timer_is_armed(connection->silence))
                        timer_arm_behind_sockets(
                            connection->silence, (uint64_t)connection->config->timeout_ms);
                connection->silent_since_ms = uv_now(connection->loop);
        }
        connection->n_unanswered += n_commands;
        byte_stream_note_appended(connection->stream);
}

void redis_connection_flush(struct redis_connection *connection)
{
        if (connection->stream != NULL)
                byte_stream_flush(connection->stream);
}
