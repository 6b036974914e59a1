#include "sinks/rabbitmq/rabbitmq_attempts.h"

#include "config/config.h"
#include "sinks/rabbitmq/rabbitmq_connection.h"
#include "sinks/rabbitmq/rabbitmq_message.h"

#include <inttypes.h>

bool rabbitmq_attempts_has_unsent(const struct rabbitmq_attempts *attempts)
{
        return attempts->waiting.first != NULL || attempts->suspects.first != NULL;
}

static void give_back(struct attempt_queue *queue, const struct outcome *outcome)
{
        struct attempt *attempt;

        while ((attempt = attempt_queue_take(queue)) != NULL)
                attempt_finish_later(attempt, outcome);
}

static void give_back_unconfirmed(
    struct rabbitmq_attempts *attempts, uint64_t sent_before_ms, const struct outcome *outcome)
{
        struct attempt *attempt;

        while (
            (attempt = rabbitmq_unconfirmed_take(&attempts->unconfirmed, sent_before_ms)) != NULL)
                attempt_finish_later(attempt, outcome);
}

void rabbitmq_attempts_give_back_unsent(
    struct rabbitmq_attempts *attempts, const struct outcome *outcome)
{
        give_back(&attempts->waiting, outcome);
        give_back(&attempts->suspects, outcome);
}

void rabbitmq_attempts_give_back(struct rabbitmq_attempts *attempts, const struct outcome *outcome)
{
        struct outcome unsent = *outcome;

        /* What RabbitMQ has not seen cannot have arrived. */
        if (unsent.fault == OUTCOME_FAULT_LOST || unsent.fault == OUTCOME_FAULT_TIMEOUT)
                unsent.fault = OUTCOME_FAULT_REFUSED;
        give_back_unconfirmed(attempts, UINT64_MAX, outcome);
        give_back(&attempts->suspects, outcome);
        give_back(&attempts->waiting, &unsent);
}

void rabbitmq_attempts_expire(struct rabbitmq_attempts *attempts, uint64_t sent_before_ms)
{
        struct outcome outcome = outcome_make(OUTCOME_RETRY,
            "unknown whether it arrived: no confirm within %" PRId64 " ms",
            attempts->config->timeout_ms);

        outcome.fault = OUTCOME_FAULT_TIMEOUT;
        outcome.is_unanswered = true;
        give_back_unconfirmed(attempts, sent_before_ms, &outcome);
}

/* Suspects go one by one, and others after the last of them is judged. */
static struct attempt *next_to_send(struct rabbitmq_attempts *attempts)
{
        bool is_free = attempts->unconfirmed.n_attempts == 0;

        if (is_free)
                attempts->is_alone = attempts->suspects.first != NULL;
        if (attempts->is_alone && !is_free)
                return NULL;
        return attempt_queue_take(attempts->is_alone ? &attempts->suspects : &attempts->waiting);
}

void rabbitmq_attempts_send(struct rabbitmq_attempts *attempts, struct rabbitmq_encoder *encoder,
    struct rabbitmq_connection *connection, uint64_t now_ms)
{
        uint32_t frame_max = rabbitmq_connection_frame_max(connection);
        struct attempt *attempt;
        struct outcome refusal;

        while ((attempt = next_to_send(attempts)) != NULL) {
                if (rabbitmq_encode(encoder, attempt->event, frame_max,
                        rabbitmq_connection_out(connection), &refusal))
                        rabbitmq_unconfirmed_add(&attempts->unconfirmed, attempt, now_ms);
                else
                        attempt_finish_later(attempt, &refusal);
        }
        rabbitmq_connection_note_sent(connection);
}

static void on_answered(void *owner, struct attempt *attempt, bool is_returned)
{
        struct rabbitmq_attempts *attempts = owner;
        struct outcome outcome;

        if (attempts->is_ack && !is_returned) {
                attempt_queue_push(&attempts->delivered, attempt);
                return;
        }
        outcome = is_returned ? rabbitmq_judge_return(attempts->config) : rabbitmq_judge_nack();
        attempt_finish_later(attempt, &outcome);
}

bool rabbitmq_attempts_confirm(
    struct rabbitmq_attempts *attempts, uint64_t tag, bool is_multiple, bool is_ack)
{
        attempts->is_ack = is_ack;
        return rabbitmq_unconfirmed_answer(
            &attempts->unconfirmed, tag, is_multiple, on_answered, attempts);
}

bool rabbitmq_attempts_channel_closed(
    struct rabbitmq_attempts *attempts, const struct amqp_news *close)
{
        struct attempt *attempt;
        struct outcome outcome;

        if (rabbitmq_close_is_for_all(close))
                return false;
        if (attempts->unconfirmed.n_attempts == 1) {
                outcome = rabbitmq_judge_guilty(close);
                attempt_finish_later(
                    rabbitmq_unconfirmed_take(&attempts->unconfirmed, UINT64_MAX), &outcome);
                return true;
        }
        while ((attempt = rabbitmq_unconfirmed_take(&attempts->unconfirmed, UINT64_MAX)) != NULL)
                attempt_queue_push(&attempts->suspects, attempt);
        return true;
}
