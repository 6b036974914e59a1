/*
 * The steps of declaring, by number: 0 is the exchange; then for each queue the queue and each of
 * its bindings.
 */
#include "sinks/rabbitmq/rabbitmq_greeting.h"

#include "base/bytes.h"
#include "config/config.h"
#include "pgcourier/version.h"
#include "sinks/rabbitmq/rabbitmq_frames.h"

#include <stdio.h>
#include <string.h>

enum { DECLARE_PASSIVE = 1, DECLARE_DURABLE = 2 }; /* bits of exchange.declare and queue.declare */

static bool has_word(struct amqp_span words, const char *word)
{
        size_t length = strlen(word);

        for (size_t at = 0, end; at < words.length; at = end + 1) {
                for (end = at; end < words.length && words.text[end] != ' ';)
                        end++;
                if (end - at == length && memcmp(words.text + at, word, length) == 0)
                        return true;
        }
        return false;
}

/* By authentication_failure_close a wrong password is answered, rather than hung up on. */
static void put_client_properties(struct bytes *out, const char *name)
{
        size_t table = amqp_begin_table(out);
        size_t capabilities;
        char text[200];

        amqp_put_entry_text(out, "product", "pgcourier", strlen("pgcourier"));
        amqp_put_entry_text(out, "version", PGCOURIER_VERSION, strlen(PGCOURIER_VERSION));
        snprintf(text, sizeof text, "pgcourier, sink %s", name);
        amqp_put_entry_text(out, "connection_name", text, strlen(text));
        capabilities = amqp_begin_entry_table(out, "capabilities");
        amqp_put_entry_true(out, "publisher_confirms");
        amqp_put_entry_true(out, "basic.nack");
        amqp_put_entry_true(out, "connection.blocked");
        amqp_put_entry_true(out, "authentication_failure_close");
        amqp_end_table(out, capabilities);
        amqp_end_table(out, table);
}

/* PLAIN: an empty authorization identity, the name, the password, each after a NUL. */
static void put_plain(struct bytes *out, const struct rabbitmq_config *config)
{
        const char *user = config->user != NULL ? config->user : "guest";
        const char *password = config->user != NULL ? config->password : "guest";

        amqp_put_32(out, (uint32_t)(strlen(user) + strlen(password) + 2));
        bytes_append(out, "", 1);
        bytes_append_text(out, user);
        bytes_append(out, "", 1);
        bytes_append_text(out, password);
}

bool rabbitmq_put_login(struct bytes *out, const struct rabbitmq_config *config, const char *name,
    const struct amqp_news *start)
{
        const char *mechanism = config->auth == RABBITMQ_EXTERNAL ? "EXTERNAL" : "PLAIN";
        size_t frame;

        if (!has_word(start->text, mechanism))
                return false;
        frame = amqp_begin_method(out, 0, AMQP_START_OK);
        put_client_properties(out, name);
        amqp_put_short(out, mechanism);
        if (config->auth == RABBITMQ_EXTERNAL)
                amqp_put_long(out, "", 0); /* the certificate says who we are */
        else
                put_plain(out, config);
        amqp_put_short(out, "en_US");
        amqp_end_frame(out, frame);
        return true;
}

bool rabbitmq_tune(const struct rabbitmq_config *config, const struct amqp_news *tune,
    struct rabbitmq_tuning *out_tuning)
{
        /* At most 65,535 s, by the key's range; shorter if the server wants that. */
        uint16_t heartbeat_s = (uint16_t)(config->heartbeat_ms / 1000);
        uint32_t frame_max = tune->frame_max;

        if (frame_max == 0 || frame_max > AMQP_FRAME_MAX)
                frame_max = AMQP_FRAME_MAX;
        if (frame_max < AMQP_FRAME_MIN)
                return false;
        if (heartbeat_s != 0 && tune->heartbeat_s != 0 && tune->heartbeat_s < heartbeat_s)
                heartbeat_s = tune->heartbeat_s;
        *out_tuning = (struct rabbitmq_tuning){.frame_max = frame_max, .heartbeat_s = heartbeat_s};
        return true;
}

void rabbitmq_put_tune_ok(struct bytes *out, const struct rabbitmq_tuning *tuning)
{
        size_t frame = amqp_begin_method(out, 0, AMQP_TUNE_OK);

        amqp_put_16(out, AMQP_CHANNEL); /* the highest channel */
        amqp_put_32(out, tuning->frame_max);
        amqp_put_16(out, tuning->heartbeat_s);
        amqp_end_frame(out, frame);
}

void rabbitmq_put_open(struct bytes *out, const char *vhost)
{
        size_t frame = amqp_begin_method(out, 0, AMQP_OPEN);

        amqp_put_short(out, vhost);
        amqp_put_short(out, "");
        amqp_put_8(out, 0);
        amqp_end_frame(out, frame);
}

void rabbitmq_put_channel_open(struct bytes *out)
{
        size_t frame = amqp_begin_method(out, AMQP_CHANNEL, AMQP_CHANNEL_OPEN);

        amqp_put_short(out, "");
        amqp_end_frame(out, frame);
}

void rabbitmq_put_confirm_select(struct bytes *out)
{
        size_t frame = amqp_begin_method(out, AMQP_CHANNEL, AMQP_CONFIRM_SELECT);

        amqp_put_8(out, 0);
        amqp_end_frame(out, frame);
}

static void put_close(struct bytes *out, uint16_t channel, enum amqp_method method)
{
        size_t frame = amqp_begin_method(out, channel, method);

        amqp_put_16(out, 200);
        amqp_put_short(out, "closed");
        amqp_put_32(out, 0);
        amqp_end_frame(out, frame);
}

void rabbitmq_put_close(struct bytes *out)
{
        put_close(out, 0, AMQP_CLOSE);
}

void rabbitmq_put_channel_close(struct bytes *out)
{
        put_close(out, AMQP_CHANNEL, AMQP_CHANNEL_CLOSE);
}

static void put_exchange(struct bytes *out, const struct rabbitmq_config *config)
{
        const struct rabbitmq_declare_config *declare = config->declare;
        bool is_declared = declare != NULL && declare->exchange_type != NULL;
        size_t frame = amqp_begin_method(out, AMQP_CHANNEL, AMQP_EXCHANGE_DECLARE);

        amqp_put_16(out, 0);
        amqp_put_short(out, config->exchange);
        amqp_put_short(out, is_declared ? declare->exchange_type : "");
        amqp_put_8(out, !is_declared ? DECLARE_PASSIVE : declare->durable ? DECLARE_DURABLE : 0);
        amqp_end_table(out, amqp_begin_table(out));
        amqp_end_frame(out, frame);
}

static void put_queue(struct bytes *out, const struct rabbitmq_declare_config *declare,
    const struct rabbitmq_queue_config *queue)
{
        size_t frame = amqp_begin_method(out, AMQP_CHANNEL, AMQP_QUEUE_DECLARE);
        size_t arguments;

        amqp_put_16(out, 0);
        amqp_put_short(out, queue->name);
        amqp_put_8(out, declare->durable ? DECLARE_DURABLE : 0);
        arguments = amqp_begin_table(out);
        amqp_put_entry_text(out, "x-queue-type", queue->type, strlen(queue->type));
        amqp_end_table(out, arguments);
        amqp_end_frame(out, frame);
}

static void put_binding(struct bytes *out, const struct rabbitmq_config *config,
    const struct rabbitmq_queue_config *queue, const char *routing_key)
{
        size_t frame = amqp_begin_method(out, AMQP_CHANNEL, AMQP_QUEUE_BIND);

        amqp_put_16(out, 0);
        amqp_put_short(out, queue->name);
        amqp_put_short(out, config->exchange);
        amqp_put_short(out, routing_key);
        amqp_put_8(out, 0);
        amqp_end_table(out, amqp_begin_table(out));
        amqp_end_frame(out, frame);
}

static bool put_queue_step(
    struct bytes *out, const struct rabbitmq_config *config, unsigned step, uint32_t *out_answer)
{
        const struct rabbitmq_declare_config *declare = config->declare;

        for (unsigned i = 0; declare != NULL && i < declare->n_queues; i++) {
                const struct rabbitmq_queue_config *queue = &declare->queues[i];
                if (step == 0) {
                        put_queue(out, declare, queue);
                        *out_answer = AMQP_QUEUE_DECLARE_OK;
                        return true;
                }
                if (step <= queue->n_bindings) {
                        put_binding(out, config, queue, queue->bindings[step - 1]);
                        *out_answer = AMQP_QUEUE_BIND_OK;
                        return true;
                }
                step -= 1 + queue->n_bindings;
        }
        return false;
}

bool rabbitmq_put_declare(
    struct bytes *out, const struct rabbitmq_config *config, unsigned *step, uint32_t *out_answer)
{
        /* The default exchange is always there, and may not be declared. */
        if (*step == 0 && *config->exchange == '\0')
                *step = 1;
        if (*step == 0) {
                put_exchange(out, config);
                *out_answer = AMQP_EXCHANGE_DECLARE_OK;
        } else if (!put_queue_step(out, config, *step - 1, out_answer)) {
                return false;
        }
        ++*step;
        return true;
}
