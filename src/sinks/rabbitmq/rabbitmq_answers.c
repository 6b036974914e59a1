#include "sinks/rabbitmq/rabbitmq_answers.h"

#include "sinks/rabbitmq/rabbitmq_frames.h"

#include <string.h>

/* For what is most likely permanent: a binding, a right, a message that the broker cannot take. */
enum { FEW_ATTEMPTS = 5 };

/* Reply codes of AMQP, and of RabbitMQ. */
enum {
        CONTENT_TOO_LARGE = 311,
        INVALID_PATH = 402,
        ACCESS_REFUSED = 403,
        NOT_FOUND = 404,
        PRECONDITION_FAILED = 406,
        FRAME_ERROR = 501,
        UNEXPECTED_FRAME = 505,
        NOT_ALLOWED = 530,
};

static struct outcome of_broker(struct outcome outcome)
{
        outcome.fault = OUTCOME_FAULT_AMQP;
        return outcome;
}

struct outcome rabbitmq_judge_return(const struct rabbitmq_config *config)
{
        struct outcome outcome = outcome_make(OUTCOME_RETRY,
            "unroutable: no queue is bound to exchange '%s' for this routing key",
            config->exchange);

        if (*config->exchange == '\0')
                outcome = outcome_make(OUTCOME_RETRY,
                    "unroutable: there is no queue with the name of the routing key");
        switch (config->on_unroutable) {
        case UNROUTABLE_RETRY:
                outcome.max_attempts = FEW_ATTEMPTS;
                break;
        case UNROUTABLE_REJECT:
                outcome.kind = OUTCOME_REJECTED;
                break;
        case UNROUTABLE_AUTO:
        case UNROUTABLE_PAUSE:
                outcome.kind = OUTCOME_SINK_DOWN;
                outcome.needs_operator = true;
                outcome.concerns_all = config->on_unroutable == UNROUTABLE_PAUSE;
                break;
        }
        return of_broker(outcome);
}

struct outcome rabbitmq_judge_nack(void)
{
        return of_broker(outcome_make(
            OUTCOME_SINK_DOWN, "a queue refused it (nack): it is full, or cannot store it now"));
}

static bool is_about_key(const struct amqp_news *close)
{
        static const char words[] = "access to topic '";

        for (size_t i = 0; i + sizeof words - 1 <= close->text.length; i++)
                if (memcmp(close->text.text + i, words, sizeof words - 1) == 0)
                        return true;
        return false;
}

bool rabbitmq_close_is_for_all(const struct amqp_news *channel_close)
{
        switch (channel_close->code) {
        case NOT_FOUND:
                return true;
        case ACCESS_REFUSED: /* a user's rights may be limited to some routing keys */
                return !is_about_key(channel_close);
        default:
                return false;
        }
}

struct outcome rabbitmq_judge_guilty(const struct amqp_news *close)
{
        bool is_permanent = close->code == PRECONDITION_FAILED || close->code == CONTENT_TOO_LARGE;
        struct outcome outcome = outcome_make(is_permanent ? OUTCOME_REJECTED : OUTCOME_SINK_DOWN,
            "RabbitMQ refused it (%u): %.*s", close->code, (int)close->text.length,
            close->text.text);

        outcome.needs_operator = !is_permanent;
        outcome.fault = OUTCOME_FAULT_AMQP;
        return outcome;
}

struct outcome rabbitmq_judge_close(const struct amqp_news *close, const char *peer)
{
        bool is_of_channel = close->method == AMQP_CHANNEL_CLOSE;
        struct outcome outcome = outcome_down(OUTCOME_FAULT_AMQP, false,
            "%s closed the %s (%u): %.*s", peer, is_of_channel ? "channel" : "connection",
            close->code, (int)close->text.length, close->text.text);

        switch (close->code) {
        case ACCESS_REFUSED:
                outcome.fault = OUTCOME_FAULT_AUTH;
                outcome.needs_operator = true;
                break;
        case INVALID_PATH:
        case NOT_FOUND:
        case NOT_ALLOWED:
                outcome.needs_operator = true;
                break;
        case PRECONDITION_FAILED: /* what is declared is there already, and is different */
                outcome.needs_operator = is_of_channel;
                break;
        default:
                if (close->code >= FRAME_ERROR && close->code <= UNEXPECTED_FRAME)
                        outcome.fault = OUTCOME_FAULT_PROTOCOL;
                break;
        }
        return outcome;
}
