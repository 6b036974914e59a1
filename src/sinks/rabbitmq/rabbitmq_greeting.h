/*
 * What is said before the first message: logging in, the virtual host, and what is declared. Pure.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct amqp_news;
struct bytes;
struct rabbitmq_config;

/* Appends connection.start-ok. False if the server has no such way of logging in. It holds the
 * password: clear what it was written from. */
bool rabbitmq_put_login(struct bytes *out, const struct rabbitmq_config *config, const char *name,
    const struct amqp_news *start);

/* What both sides use, after the server's tune. */
struct rabbitmq_tuning {
        uint32_t frame_max;
        uint16_t heartbeat_s; /* 0: none */
};

/* False: a frame of the server's is smaller than AMQP allows. */
bool rabbitmq_tune(const struct rabbitmq_config *config, const struct amqp_news *tune,
    struct rabbitmq_tuning *out_tuning);
void rabbitmq_put_tune_ok(struct bytes *out, const struct rabbitmq_tuning *tuning);
void rabbitmq_put_open(struct bytes *out, const char *vhost);
void rabbitmq_put_channel_open(struct bytes *out);
void rabbitmq_put_confirm_select(struct bytes *out);
void rabbitmq_put_close(struct bytes *out);
void rabbitmq_put_channel_close(struct bytes *out);

/*
 * The exchange (passively, unless it is to be declared), each queue, and its bindings. `*step`
 * begins at 0. Appends the next, says by which method it is answered, and counts on; false if there
 * is none.
 */
bool rabbitmq_put_declare(
    struct bytes *out, const struct rabbitmq_config *config, unsigned *step, uint32_t *out_answer);
