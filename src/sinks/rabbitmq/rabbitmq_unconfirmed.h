/*
 * The messages of one channel that RabbitMQ has not confirmed yet, by their tags, which count from
 * 1. Confirms come in any order, for one message or for all up to it. Pure.
 *
 * A message whose attempt has ended otherwise stays as an empty place until its confirm comes.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct amqp_span;
struct attempt;

struct unconfirmed_place {
        struct attempt *attempt; /* NULL: nothing waits for it any more */
        uint64_t sent_ms;
        bool is_answered;
        bool is_returned; /* no queue took it; the confirm is still to come */
};

struct rabbitmq_unconfirmed {
        struct unconfirmed_place *places; /* owned; a ring */
        size_t capacity;                  /* a power of two, or 0 */
        uint64_t first_tag;               /* the oldest without an answer */
        uint64_t next_tag;                /* of the next message */
        uint64_t first_attempt;           /* no place below this tag has an attempt */
        size_t n_attempts;                /* of the places that have one */
};

void rabbitmq_unconfirmed_init(struct rabbitmq_unconfirmed *unconfirmed);
void rabbitmq_unconfirmed_deinit(struct rabbitmq_unconfirmed *unconfirmed);

/* A new channel counts from 1 again. No place has an attempt. */
void rabbitmq_unconfirmed_restart(struct rabbitmq_unconfirmed *unconfirmed);

/* Messages without an answer, with and without an attempt. */
size_t rabbitmq_unconfirmed_count(const struct rabbitmq_unconfirmed *unconfirmed);

void rabbitmq_unconfirmed_add(
    struct rabbitmq_unconfirmed *unconfirmed, struct attempt *attempt, uint64_t now_ms);

/* False, with nothing done, if that tag is not waited for. Else calls on_answered() for each place
 * that has an attempt, in the order of their tags. The attempt is no more in it then. */
typedef void unconfirmed_answered_fn(void *owner, struct attempt *attempt, bool is_returned);
bool rabbitmq_unconfirmed_answer(struct rabbitmq_unconfirmed *unconfirmed, uint64_t tag,
    bool is_multiple, unconfirmed_answered_fn *on_answered, void *owner);

/* A message came back. Marks each attempt whose event has that event_id: one that was sent again
 * while its first copy is unconfirmed cannot be told from that copy, and in doubt comes again. */
void rabbitmq_unconfirmed_return(
    struct rabbitmq_unconfirmed *unconfirmed, struct amqp_span message_id);

/* Takes the oldest attempt out, if it was sent at sent_before_ms or before; else NULL. */
struct attempt *rabbitmq_unconfirmed_take(
    struct rabbitmq_unconfirmed *unconfirmed, uint64_t sent_before_ms);

/* When the oldest that has an attempt was sent. There is one. */
uint64_t rabbitmq_unconfirmed_oldest_ms(struct rabbitmq_unconfirmed *unconfirmed);
