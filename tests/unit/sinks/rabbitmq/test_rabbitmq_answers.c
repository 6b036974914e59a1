/* What RabbitMQ's words mean: the table of docs/sinks.md, row by row. */
#include "sinks/rabbitmq/rabbitmq_answers.h"

#include "sinks/rabbitmq/rabbitmq_frames.h"

#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <string.h>

static const struct rabbitmq_policy fixed = {.is_key_fixed = true}, named = {0};

static struct amqp_news closed(uint32_t method, uint16_t code, const char *text)
{
        return (struct amqp_news){
            .kind = AMQP_METHOD, .method = method, .code = code, .text = {text, strlen(text)}};
}

Test(rabbitmq_answers, judges_a_nack_by_the_routing_key)
{
        cr_expect(rabbitmq_judge_nack(&fixed).kind == OUTCOME_SINK_DOWN);
        cr_expect_not(rabbitmq_judge_nack(&fixed).needs_operator);
        cr_expect(rabbitmq_judge_nack(&named).kind == OUTCOME_RETRY);
        cr_expect(rabbitmq_judge_nack(&named).max_attempts == 0);
        cr_expect(rabbitmq_judge_nack(&named).fault == OUTCOME_FAULT_AMQP);
}

Test(rabbitmq_answers, judges_the_unroutable_as_the_key_says)
{
        struct rabbitmq_policy policy = fixed;

        cr_expect(rabbitmq_judge_return(&fixed, "e").kind == OUTCOME_SINK_DOWN);
        cr_expect(rabbitmq_judge_return(&fixed, "e").needs_operator);
        cr_expect(rabbitmq_judge_return(&named, "e").kind == OUTCOME_RETRY);
        cr_expect(rabbitmq_judge_return(&named, "e").max_attempts == 5);
        policy.on_unroutable = UNROUTABLE_RETRY;
        cr_expect(rabbitmq_judge_return(&policy, "e").kind == OUTCOME_RETRY);
        policy.on_unroutable = UNROUTABLE_REJECT;
        cr_expect(rabbitmq_judge_return(&policy, "e").kind == OUTCOME_REJECTED);
        policy = named;
        policy.on_unroutable = UNROUTABLE_PAUSE;
        cr_expect(rabbitmq_judge_return(&policy, "e").kind == OUTCOME_SINK_DOWN);
        cr_expect(strstr(rabbitmq_judge_return(&named, "").reason, "no queue with the name"));
}

Test(rabbitmq_answers, knows_when_a_closed_channel_is_no_matter_of_one_event)
{
        const struct amqp_news missing = closed(AMQP_CHANNEL_CLOSE, 404, "no exchange");
        const struct amqp_news refused =
            closed(AMQP_CHANNEL_CLOSE, 403, "access to exchange 'events' refused");
        const struct amqp_news key = closed(AMQP_CHANNEL_CLOSE, 403, "x access to topic 'bills'");
        const struct amqp_news large = closed(AMQP_CHANNEL_CLOSE, 406, "message size");

        cr_expect(rabbitmq_close_is_for_all(&named, &missing));
        cr_expect(rabbitmq_close_is_for_all(&named, &refused));
        cr_expect_not(rabbitmq_close_is_for_all(&named, &key));
        cr_expect(rabbitmq_close_is_for_all(&fixed, &key));
        cr_expect_not(rabbitmq_close_is_for_all(&fixed, &large));
        cr_expect(rabbitmq_judge_guilty(&large).kind == OUTCOME_REJECTED);
        cr_expect(rabbitmq_judge_guilty(&key).kind == OUTCOME_RETRY);
        cr_expect(rabbitmq_judge_guilty(&key).max_attempts == 5);
}

struct row {
        uint32_t method;
        uint16_t code;
        enum outcome_fault fault;
        bool needs_operator;
};

ParameterizedTestParameters(rabbitmq_answers, judges_a_close)
{
        static struct row rows[] = {
            {AMQP_CLOSE, 320, OUTCOME_FAULT_AMQP, false},
            {AMQP_CLOSE, 541, OUTCOME_FAULT_AMQP, false},
            {AMQP_CLOSE, 506, OUTCOME_FAULT_AMQP, false},
            {AMQP_CLOSE, 530, OUTCOME_FAULT_AMQP, true},
            {AMQP_CLOSE, 402, OUTCOME_FAULT_AMQP, true},
            {AMQP_CLOSE, 403, OUTCOME_FAULT_AUTH, true},
            {AMQP_CLOSE, 501, OUTCOME_FAULT_PROTOCOL, false},
            {AMQP_CLOSE, 505, OUTCOME_FAULT_PROTOCOL, false},
            {AMQP_CHANNEL_CLOSE, 403, OUTCOME_FAULT_AUTH, true},
            {AMQP_CHANNEL_CLOSE, 404, OUTCOME_FAULT_AMQP, true},
            {AMQP_CHANNEL_CLOSE, 405, OUTCOME_FAULT_AMQP, false},
            {AMQP_CHANNEL_CLOSE, 406, OUTCOME_FAULT_AMQP, true},
        };

        return cr_make_param_array(struct row, rows, sizeof rows / sizeof *rows);
}

ParameterizedTest(struct row *row, rabbitmq_answers, judges_a_close)
{
        const struct amqp_news news = closed(row->method, row->code, "the broker's words");
        struct outcome outcome = rabbitmq_judge_close(&news, "mq:5672");

        cr_expect(outcome.kind == OUTCOME_SINK_DOWN);
        cr_expect(outcome.fault == row->fault, "%u", row->code);
        cr_expect(outcome.needs_operator == row->needs_operator, "%u", row->code);
        cr_expect(strstr(outcome.reason, "the broker's words") != NULL);
        cr_expect(strstr(outcome.reason, "mq:5672 closed the") != NULL);
}
