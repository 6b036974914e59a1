/*
 * RabbitMQ: basic.publish to the exchange "events", persistent, mandatory, with confirms. librabbitmq
 * logs in; the frames behind that are written and read here, as it can only wait for one at a time.
 */
#include "bare.h"

#if __has_include(<rabbitmq-c/amqp.h>) /* since 0.12 */
#include <rabbitmq-c/amqp.h>
#include <rabbitmq-c/framing.h>
#include <rabbitmq-c/tcp_socket.h>
#else
#include <amqp.h>
#include <amqp_framing.h>
#include <amqp_tcp_socket.h>
#endif
#include <endian.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXCHANGE  "events"
#define FRAME_MAX 131072

enum { HEAD_BYTES = 7, FRAME_END = 0xCE, METHOD = 1, HEADER = 2, BODY = 3 };

static void check(amqp_rpc_reply_t reply, const char *what)
{
        if (reply.reply_type != AMQP_RESPONSE_NORMAL)
                bare_die(what, reply.reply_type == AMQP_RESPONSE_LIBRARY_EXCEPTION
                                   ? amqp_error_string2(reply.library_error)
                                   : "refused");
}

static int log_in(const struct bare *bare)
{
        amqp_connection_state_t connection = amqp_new_connection();
        amqp_socket_t *socket = amqp_tcp_socket_new(connection);

        if (socket == NULL || amqp_socket_open(socket, "127.0.0.1", bare->port) != 0)
                bare_die("connect", "no answer");
        check(
            amqp_login(connection, "/", 0, FRAME_MAX, 0, AMQP_SASL_METHOD_PLAIN, "guest", "guest"),
            "login");
        amqp_channel_open(connection, 1);
        check(amqp_get_rpc_reply(connection), "channel.open");
        amqp_confirm_select(connection, 1);
        check(amqp_get_rpc_reply(connection), "confirm.select");
        return amqp_get_sockfd(connection);
}

/* ---- frames out ----------------------------------------------------------------------------- */

static char *put(char *at, const void *data, size_t n_bytes)
{
        memcpy(at, data, n_bytes);
        return at + n_bytes;
}

static char *put_16(char *at, uint16_t number)
{
        return put(at, &(uint16_t){htobe16(number)}, 2);
}

static char *put_32(char *at, uint32_t number)
{
        return put(at, &(uint32_t){htobe32(number)}, 4);
}

static char *put_64(char *at, uint64_t number)
{
        return put(at, &(uint64_t){htobe64(number)}, 8);
}

static char *put_short(char *at, const char *text, size_t n_bytes)
{
        *at++ = (char)n_bytes;
        return put(at, text, n_bytes);
}

static char *put_field(char *at, const char *name, const char *value, size_t n_bytes)
{
        at = put_short(at, name, strlen(name));
        *at++ = 'S';
        return put(put_32(at, (uint32_t)n_bytes), value, n_bytes);
}

static char *begin_frame(char *at, char type)
{
        *at = type;
        put_16(at + 1, 1);
        return at + HEAD_BYTES;
}

static char *end_frame(char *start, char *at)
{
        put_32(start + 3, (uint32_t)(at - start - HEAD_BYTES));
        *at++ = (char)FRAME_END;
        return at;
}

static char *put_properties(char *at, const struct bare_event *event)
{
        char *table;

        at = put_16(at, AMQP_BASIC_CONTENT_TYPE_FLAG | AMQP_BASIC_HEADERS_FLAG |
                            AMQP_BASIC_DELIVERY_MODE_FLAG | AMQP_BASIC_MESSAGE_ID_FLAG |
                            AMQP_BASIC_TIMESTAMP_FLAG | AMQP_BASIC_TYPE_FLAG);
        at = put_short(at, BARE_CONTENT_TYPE, sizeof BARE_CONTENT_TYPE - 1);
        table = at;
        at = put_field(at + 4, "topic", event->topic, event->topic_bytes);
        at = put_field(at, "key", event->key, event->key_bytes);
        at = put_field(at, "time", event->time, sizeof event->time - 1);
        put_32(table, (uint32_t)(at - table - 4));
        *at++ = AMQP_DELIVERY_PERSISTENT;
        at = put_short(at, event->id, sizeof event->id - 1);
        at = put_64(at, (uint64_t)event->created_us / 1000000);
        return put_short(at, BARE_TYPE, sizeof BARE_TYPE - 1);
}

static void publish(struct bare_stream *stream, const struct bare_event *event)
{
        char *start = stream->out + stream->out_end;
        char *at = begin_frame(start, METHOD);

        at = put_16(put_32(at, AMQP_BASIC_PUBLISH_METHOD), 0);
        at = put_short(at, EXCHANGE, sizeof EXCHANGE - 1);
        at = put_short(at, event->topic, event->topic_bytes);
        *at++ = 1; /* mandatory */
        start = end_frame(start, at);

        at = put_16(put_16(begin_frame(start, HEADER), AMQP_BASIC_CLASS), 0);
        at = put_properties(put_64(at, BARE_PAYLOAD_BYTES), event);
        start = end_frame(start, at);

        at = put(begin_frame(start, BODY), event->payload, BARE_PAYLOAD_BYTES);
        stream->out_end = (size_t)(end_frame(start, at) - stream->out);
}

/* ---- confirms ------------------------------------------------------------------------------- */

struct confirms {
        bool *is_open; /* by tag, less than in_flight of them */
        uint64_t oldest;
};

static void settle(struct bare *bare, struct confirms *confirms, uint64_t tag)
{
        bool *is_open = &confirms->is_open[tag % (uint64_t)bare->in_flight];

        if (*is_open)
                bare->n_acked++;
        *is_open = false;
        while (confirms->oldest <= (uint64_t)bare->n_sent &&
               !confirms->is_open[confirms->oldest % (uint64_t)bare->in_flight])
                confirms->oldest++;
}

static bool take(struct bare *bare, struct confirms *confirms, struct bare_stream *stream)
{
        const unsigned char *frame = (const unsigned char *)stream->in + stream->in_start;
        size_t n_bytes = stream->in_end - stream->in_start;
        uint32_t size, method;
        uint64_t tag;

        if (n_bytes < HEAD_BYTES)
                return false;
        memcpy(&size, frame + 3, 4);
        size = be32toh(size);
        if (n_bytes < HEAD_BYTES + size + 1)
                return false;
        memcpy(&method, frame + HEAD_BYTES, 4);
        if (frame[0] != METHOD || be32toh(method) != AMQP_BASIC_ACK_METHOD)
                bare_die("RabbitMQ says", "something else than basic.ack");
        memcpy(&tag, frame + HEAD_BYTES + 4, 8);
        tag = be64toh(tag);
        if (frame[HEAD_BYTES + 12] & 1) /* multiple: and all before it */
                while (confirms->oldest < tag)
                        settle(bare, confirms, confirms->oldest);
        settle(bare, confirms, tag);
        stream->in_start += HEAD_BYTES + size + 1;
        return true;
}

int main(int n_args, char **args)
{
        struct bare bare;
        struct bare_event event = {0};
        struct bare_stream stream;
        struct confirms confirms = {.oldest = 1};

        bare_init(&bare, n_args, args);
        bare_stream_init(&stream, log_in(&bare));
        confirms.is_open = calloc((size_t)bare.in_flight, sizeof *confirms.is_open);
        bare_begin(&bare);
        while (bare.n_acked < bare.n_events) {
                /* The window is by tag: what is not confirmed holds up what is in_flight behind it. */
                while (bare.n_sent < bare.n_events &&
                       (uint64_t)bare.n_sent + 1 - confirms.oldest < (uint64_t)bare.in_flight &&
                       bare_stream_has_room(&stream)) {
                        bare_event(&bare, &event);
                        publish(&stream, &event);
                        bare.n_sent++;
                        confirms.is_open[bare.n_sent % bare.in_flight] = true;
                }
                bare_stream_turn(&stream);
                while (take(&bare, &confirms, &stream))
                        continue;
        }
        bare_end(&bare);
        return 0;
}
