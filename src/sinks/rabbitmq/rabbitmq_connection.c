/*
 * CLOSED -open-> CONNECTING -connected-> STARTING -start-> TUNING -tune-> OPENING -open-ok->
 *   CHANNEL -open-ok-> DECLARING -last -ok-> CONFIRMING -select-ok-> READY
 *   READY -channel closed-> CHANNEL
 *   READY -renew-> RENEWING -close-ok-> CHANNEL
 *   any state -failure or deadline-> CLOSED (on_lost)
 *
 * The tricky part is what is told when: while bytes are read, the owner only notes what they say,
 * and acts in on_end(), in which it may close and open the connection again.
 */
#include "sinks/rabbitmq/rabbitmq_connection.h"

#include "base/alloc.h"
#include "base/bytes.h"
#include "config/config.h"
#include "loop/byte_stream.h"
#include "loop/timer.h"
#include "sinks/rabbitmq/rabbitmq_answers.h"
#include "sinks/rabbitmq/rabbitmq_greeting.h"
#include "sinks/sink_contract.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

struct rabbitmq_connection {
        enum rabbitmq_state state;
        uv_loop_t *loop;
        const char *name;                                /* borrowed; the sink's */
        const struct rabbitmq_config *config;            /* borrowed */
        const struct rabbitmq_connection_events *events; /* borrowed */
        void *owner;                                     /* borrowed */
        struct byte_stream *stream;                      /* owned; NULL: CLOSED */
        struct amqp_input input;
        struct rabbitmq_tuning tuning;
        unsigned step;       /* DECLARING: of rabbitmq_put_declare() */
        uint32_t answer;     /* the method that answers it */
        bool was_greeted;    /* it has been READY */
        uint64_t heard_ms;   /* uv_now() when something came last */
        uint64_t said_ms;    /* and when something was sent last */
        struct timer *pulse; /* owned: heartbeats; before READY again, the channel's deadline */
};

/* The only place that assigns connection->state. */
static void enter(struct rabbitmq_connection *connection, enum rabbitmq_state next)
{
        connection->state = next;

        switch (next) {
        case RABBITMQ_CLOSED:
                timer_disarm(connection->pulse);
                byte_stream_destroy(connection->stream);
                connection->stream = NULL;
                return;
        case RABBITMQ_CONNECTING:
        case RABBITMQ_STARTING:
        case RABBITMQ_TUNING:
        case RABBITMQ_OPENING:
        case RABBITMQ_DECLARING:
        case RABBITMQ_CONFIRMING:
                return; /* the stream's connect_timeout_ms counts, or the channel's deadline */
        case RABBITMQ_CHANNEL:
        case RABBITMQ_RENEWING:
                connection->step = 0;
                if (connection->was_greeted)
                        timer_arm(
                            connection->pulse, (uint64_t)connection->config->connect_timeout_ms);
                return;
        case RABBITMQ_READY:
                timer_disarm(connection->pulse);
                if (connection->tuning.heartbeat_s > 0)
                        timer_arm_behind_sockets(
                            connection->pulse, connection->tuning.heartbeat_s * 500u);
                return;
        }
}

/* Tells the loss, but not the end. */
static void lose(struct rabbitmq_connection *connection, struct outcome outcome)
{
        bool was_greeted = connection->was_greeted;

        enter(connection, RABBITMQ_CLOSED);
        connection->events->on_lost(connection->owner, &outcome, was_greeted);
}

void rabbitmq_connection_lose(struct rabbitmq_connection *connection, struct outcome outcome)
{
        lose(connection, outcome);
        connection->events->on_end(connection->owner);
}

const char *rabbitmq_connection_peer(const struct rabbitmq_connection *connection)
{
        return byte_stream_peer(connection->stream);
}

static struct bytes *out(struct rabbitmq_connection *connection)
{
        return byte_stream_out(connection->stream);
}

void rabbitmq_connection_note_sent(struct rabbitmq_connection *connection)
{
        connection->said_ms = uv_now(connection->loop);
        byte_stream_note_appended(connection->stream);
}

/* Greeting. */

static void take_start(struct rabbitmq_connection *connection, const struct amqp_news *news)
{
        struct bytes login = {0};
        bool is_possible = rabbitmq_put_login(&login, connection->config, connection->name, news);

        if (is_possible)
                byte_stream_send(connection->stream, login.data, login.length);
        if (login.data != NULL)
                explicit_bzero(login.data, login.capacity);
        bytes_deinit(&login);
        if (is_possible)
                enter(connection, RABBITMQ_TUNING);
        else
                lose(connection,
                    outcome_down(OUTCOME_FAULT_AUTH, true,
                        "%s does not offer to log in by %s, only by: %.*s",
                        rabbitmq_connection_peer(connection),
                        connection->config->auth == RABBITMQ_EXTERNAL ? "EXTERNAL" : "PLAIN",
                        (int)(news->text.length < 100 ? news->text.length : 100), news->text.text));
}

static void take_tune(struct rabbitmq_connection *connection, const struct amqp_news *news)
{
        if (!rabbitmq_tune(connection->config, news, &connection->tuning)) {
                lose(connection,
                    outcome_down(OUTCOME_FAULT_PROTOCOL, false,
                        "%s takes frames of %" PRIu32 " bytes; AMQP asks for at least %d",
                        rabbitmq_connection_peer(connection), news->frame_max, AMQP_FRAME_MIN));
                return;
        }
        connection->input.frame_max = connection->tuning.frame_max;
        rabbitmq_put_tune_ok(out(connection), &connection->tuning);
        rabbitmq_put_open(out(connection), connection->config->vhost);
        rabbitmq_connection_note_sent(connection);
        enter(connection, RABBITMQ_OPENING);
}

static void open_channel(struct rabbitmq_connection *connection)
{
        rabbitmq_put_channel_open(out(connection));
        rabbitmq_connection_note_sent(connection);
        enter(connection, RABBITMQ_CHANNEL);
}

static void declare_next(struct rabbitmq_connection *connection)
{
        if (rabbitmq_put_declare(
                out(connection), connection->config, &connection->step, &connection->answer)) {
                enter(connection, RABBITMQ_DECLARING);
        } else {
                rabbitmq_put_confirm_select(out(connection));
                enter(connection, RABBITMQ_CONFIRMING);
        }
        rabbitmq_connection_note_sent(connection);
}

static void become_ready(struct rabbitmq_connection *connection)
{
        byte_stream_greeted(connection->stream);
        connection->was_greeted = true;
        enter(connection, RABBITMQ_READY);
        connection->events->on_ready(connection->owner);
}

/* True if it was the answer that this state waits for. */
static bool greet_on(struct rabbitmq_connection *connection, const struct amqp_news *news)
{
        const uint32_t awaited[] = {[RABBITMQ_STARTING] = AMQP_START,
            [RABBITMQ_TUNING] = AMQP_TUNE,
            [RABBITMQ_OPENING] = AMQP_OPEN_OK,
            [RABBITMQ_CHANNEL] = AMQP_CHANNEL_OPEN_OK,
            [RABBITMQ_DECLARING] = connection->answer,
            [RABBITMQ_CONFIRMING] = AMQP_CONFIRM_SELECT_OK,
            [RABBITMQ_RENEWING] = AMQP_CHANNEL_CLOSE_OK};

        if (connection->state < RABBITMQ_STARTING || connection->state == RABBITMQ_READY ||
            awaited[connection->state] != news->method)
                return false;
        switch (news->method) {
        case AMQP_START:
                take_start(connection, news);
                return true;
        case AMQP_TUNE:
                take_tune(connection, news);
                return true;
        case AMQP_OPEN_OK:
        case AMQP_CHANNEL_CLOSE_OK:
                open_channel(connection);
                return true;
        case AMQP_CONFIRM_SELECT_OK:
                become_ready(connection);
                return true;
        default: /* the channel is open, or a step of declaring is done */
                declare_next(connection);
                return true;
        }
}

/* What comes. */

static void take_connection_close(
    struct rabbitmq_connection *connection, const struct amqp_news *news)
{
        const struct outcome outcome =
            rabbitmq_judge_close(news, rabbitmq_connection_peer(connection));

        amqp_put_empty_method(out(connection), 0, AMQP_CLOSE_OK);
        rabbitmq_connection_note_sent(connection);
        byte_stream_flush(connection->stream);
        lose(connection, outcome);
}

static void take_channel_close(struct rabbitmq_connection *connection, const struct amqp_news *news)
{
        struct outcome outcome;

        amqp_put_empty_method(out(connection), AMQP_CHANNEL, AMQP_CHANNEL_CLOSE_OK);
        rabbitmq_connection_note_sent(connection);
        if (connection->state == RABBITMQ_READY &&
            connection->events->on_channel_closed(connection->owner, news)) {
                open_channel(connection);
                return;
        }
        outcome = rabbitmq_judge_close(news, rabbitmq_connection_peer(connection));
        byte_stream_flush(connection->stream);
        lose(connection, outcome);
}

static void break_off(struct rabbitmq_connection *connection, const char *why, size_t length)
{
        lose(connection, outcome_down(OUTCOME_FAULT_PROTOCOL, false, "%s is not understood: %.*s",
                             rabbitmq_connection_peer(connection), (int)length, why));
}

static void take_confirm(struct rabbitmq_connection *connection, const struct amqp_news *news)
{
        static const char no_message[] = "it confirms a message that was not sent";

        if (!connection->events->on_confirm(
                connection->owner, news->tag, news->is_multiple, news->method == AMQP_ACK))
                break_off(connection, no_message, sizeof no_message - 1);
}

static void take_method(struct rabbitmq_connection *connection, const struct amqp_news *news)
{
        const struct rabbitmq_connection_events *events = connection->events;

        if (greet_on(connection, news))
                return;
        switch (news->method) {
        case AMQP_CLOSE:
                take_connection_close(connection, news);
                return;
        case AMQP_CHANNEL_CLOSE:
                if (connection->state < RABBITMQ_CHANNEL)
                        break;
                take_channel_close(connection, news);
                return;
        case AMQP_BLOCKED:
                events->on_blocked(connection->owner, news->text);
                return;
        case AMQP_UNBLOCKED:
                events->on_unblocked(connection->owner);
                return;
        case AMQP_ACK:
        case AMQP_NACK:
                if (connection->state == RABBITMQ_RENEWING)
                        return; /* of a message that was given up */
                if (connection->state != RABBITMQ_READY)
                        break;
                take_confirm(connection, news);
                return;
        default:
                break;
        }
        lose(connection,
            outcome_down(OUTCOME_FAULT_PROTOCOL, false,
                "%s is not understood: it sent method %" PRIu32 ".%" PRIu32 " out of turn",
                rabbitmq_connection_peer(connection), news->method >> 16, news->method & 0xffff));
}

static void take(struct rabbitmq_connection *connection, const struct amqp_news *news)
{
        switch (news->kind) {
        case AMQP_MORE:
        case AMQP_NOTHING:
                return;
        case AMQP_METHOD:
                take_method(connection, news);
                return;
        case AMQP_RETURNED:
                if (connection->state == RABBITMQ_READY)
                        connection->events->on_return(connection->owner, news->message_id);
                else if (connection->state != RABBITMQ_RENEWING)
                        break_off(connection, "a message came back out of turn", 31);
                return;
        case AMQP_BROKEN:
                break_off(connection, news->text.text, news->text.length);
                return;
        }
}

static size_t on_data(void *owner, char *data, size_t size)
{
        struct rabbitmq_connection *connection = owner;
        size_t used = 0;
        struct amqp_news news;

        connection->heard_ms = uv_now(connection->loop);
        do {
                size_t n = amqp_take(&connection->input, data + used, size - used, &news);
                used += n;
                take(connection, &news);
        } while (connection->state != RABBITMQ_CLOSED && news.kind != AMQP_MORE);
        connection->events->on_end(connection->owner); /* last: it may be open anew by then */
        return used;
}

static void on_connected(void *owner)
{
        struct rabbitmq_connection *connection = owner;
        static const char protocol[] = {'A', 'M', 'Q', 'P', 0, 0, 9, 1};

        enter(connection, RABBITMQ_STARTING);
        byte_stream_send(connection->stream, protocol, sizeof protocol);
}

static void on_failed(void *owner, enum outcome_fault fault, const char *reason)
{
        struct rabbitmq_connection *connection = owner;
        const char *when = connection->state == RABBITMQ_TUNING    ? " while logging in"
                           : connection->state == RABBITMQ_OPENING ? " at the virtual host"
                                                                   : "";

        rabbitmq_connection_lose(connection, outcome_down(fault, false, "%s%s", reason, when));
}

/* Heartbeats: one is sent after half the interval without anything else; the server is dead after
 * two intervals of silence. */
static void beat(struct rabbitmq_connection *connection)
{
        uint64_t interval_ms = connection->tuning.heartbeat_s * 1000u;
        uint64_t now_ms = uv_now(connection->loop);

        if (now_ms - connection->heard_ms >= 2 * interval_ms) {
                rabbitmq_connection_lose(connection,
                    outcome_down(OUTCOME_FAULT_LOST, false,
                        "connection to %s lost: two heartbeats are missing, of %u s each",
                        rabbitmq_connection_peer(connection), connection->tuning.heartbeat_s));
                return;
        }
        if (now_ms - connection->said_ms >= interval_ms / 2) {
                amqp_put_heartbeat(out(connection));
                rabbitmq_connection_note_sent(connection);
        }
        timer_arm_behind_sockets(connection->pulse, interval_ms / 2);
}

static void on_pulse(void *owner)
{
        struct rabbitmq_connection *connection = owner;

        if (connection->state == RABBITMQ_READY)
                beat(connection);
        else
                rabbitmq_connection_lose(
                    connection, outcome_down(OUTCOME_FAULT_TIMEOUT, false,
                                    "%s has opened no channel within %" PRId64 " ms",
                                    rabbitmq_connection_peer(connection),
                                    connection->config->connect_timeout_ms));
}

struct rabbitmq_connection *rabbitmq_connection_create(uv_loop_t *loop, const char *name,
    const struct rabbitmq_config *config, const struct rabbitmq_connection_events *events,
    void *owner)
{
        struct rabbitmq_connection *connection = xcalloc(1, sizeof *connection);

        connection->state = RABBITMQ_CLOSED;
        connection->loop = loop;
        connection->name = name;
        connection->config = config;
        connection->events = events;
        connection->owner = owner;
        connection->pulse = timer_create_on(loop, on_pulse, connection);
        return connection;
}

void rabbitmq_connection_destroy(struct rabbitmq_connection *connection)
{
        if (connection == NULL)
                return;
        rabbitmq_connection_close(connection);
        timer_destroy(connection->pulse);
        free(connection);
}

enum rabbitmq_state rabbitmq_connection_state(const struct rabbitmq_connection *connection)
{
        return connection->state;
}

void rabbitmq_connection_open(struct rabbitmq_connection *connection, const char *host,
    uint16_t port, struct tls_context *tls)
{
        static const struct byte_stream_events events = {
            .on_connected = on_connected, .on_data = on_data, .on_failed = on_failed};
        const struct byte_stream_target target = {.host = host,
            .port = port,
            .tls = tls,
            .connect_timeout_ms = connection->config->connect_timeout_ms};

        assert(connection->state == RABBITMQ_CLOSED);
        connection->input = (struct amqp_input){.frame_max = AMQP_FRAME_MAX};
        connection->was_greeted = false;
        connection->heard_ms = connection->said_ms = uv_now(connection->loop);
        connection->stream = byte_stream_open(connection->loop, &target, &events, connection);
        enter(connection, RABBITMQ_CONNECTING);
}

void rabbitmq_connection_close(struct rabbitmq_connection *connection)
{
        if (connection->state == RABBITMQ_READY && byte_stream_unwritten(connection->stream) == 0) {
                rabbitmq_put_close(out(connection)); /* else RabbitMQ's log warns of us */
                byte_stream_note_appended(connection->stream);
                byte_stream_flush(connection->stream);
        }
        enter(connection, RABBITMQ_CLOSED);
}

void rabbitmq_connection_renew_channel(struct rabbitmq_connection *connection)
{
        assert(connection->state == RABBITMQ_READY);
        rabbitmq_put_channel_close(out(connection));
        rabbitmq_connection_note_sent(connection);
        enter(connection, RABBITMQ_RENEWING);
}

struct bytes *rabbitmq_connection_out(struct rabbitmq_connection *connection)
{
        assert(connection->state == RABBITMQ_READY);
        return out(connection);
}

void rabbitmq_connection_flush(struct rabbitmq_connection *connection)
{
        if (connection->stream != NULL)
                byte_stream_flush(connection->stream);
}

uint32_t rabbitmq_connection_frame_max(const struct rabbitmq_connection *connection)
{
        return connection->tuning.frame_max;
}

uint64_t rabbitmq_connection_heard_ms(const struct rabbitmq_connection *connection)
{
        return connection->heard_ms;
}
