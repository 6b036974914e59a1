/* What RabbitMQ's words mean: the table of docs/sinks.md, row by row. */
#include "sinks/rabbitmq/rabbitmq_answers.h"

#include "sinks/rabbitmq/rabbitmq_frames.h"

#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <string.h>

static char exchange[] = "e", no_exchange[] = "";

static struct amqp_news closed(uint32_t method, uint16_t code, const char *text)
{
        return (struct amqp_news){
            .kind = AMQP_METHOD, .method = method, .code = code, .text = {text, strlen(text)}};
}

Test(rabbitmq_answers, leaves_it_to_the_lane_whom_a_nack_concerns)
{
        struct outcome nack = rabbitmq_judge_nack();

        cr_expect(nack.kind == OUTCOME_SINK_DOWN && nack.fault == OUTCOME_FAULT_AMQP);
        cr_expect(!nack.needs_operator && !nack.concerns_all);
}

static struct outcome judge_return(char *name, enum rabbitmq_unroutable on_unroutable)
{
        return rabbitmq_judge_return(
            &(struct rabbitmq_config){.exchange = name, .on_unroutable = on_unroutable});
}

Test(rabbitmq_answers, judges_the_unroutable_as_the_operator_wants)
{
        struct outcome outcome = judge_return(exchange, UNROUTABLE_AUTO);

        cr_expect(outcome.kind == OUTCOME_SINK_DOWN && outcome.needs_operator);
        cr_expect_not(outcome.concerns_all, "another event may be routed");
        outcome = judge_return(exchange, UNROUTABLE_PAUSE);
        cr_expect(outcome.kind == OUTCOME_SINK_DOWN && outcome.needs_operator);
        cr_expect(outcome.concerns_all);
        outcome = judge_return(exchange, UNROUTABLE_RETRY);
        cr_expect(outcome.kind == OUTCOME_RETRY && outcome.max_attempts == 5);
        cr_expect(judge_return(exchange, UNROUTABLE_REJECT).kind == OUTCOME_REJECTED);
        cr_expect(strstr(judge_return(exchange, UNROUTABLE_AUTO).reason, "exchange 'e'"));
        cr_expect(
            strstr(judge_return(no_exchange, UNROUTABLE_AUTO).reason, "no queue with the name"));
}

Test(rabbitmq_answers, knows_when_a_closed_channel_is_no_matter_of_one_event)
{
        const struct amqp_news missing = closed(AMQP_CHANNEL_CLOSE, 404, "no exchange");
        const struct amqp_news refused =
            closed(AMQP_CHANNEL_CLOSE, 403, "access to exchange 'events' refused");
        const struct amqp_news key = closed(AMQP_CHANNEL_CLOSE, 403, "x access to topic 'bills'");
        const struct amqp_news large = closed(AMQP_CHANNEL_CLOSE, 406, "message size");

        cr_expect(rabbitmq_close_is_for_all(&missing));
        cr_expect(rabbitmq_close_is_for_all(&refused));
        cr_expect_not(rabbitmq_close_is_for_all(&key));
        cr_expect_not(rabbitmq_close_is_for_all(&large));
        cr_expect(rabbitmq_judge_guilty(&large).kind == OUTCOME_REJECTED);
        cr_expect(rabbitmq_judge_guilty(&key).kind == OUTCOME_SINK_DOWN);
        cr_expect(rabbitmq_judge_guilty(&key).needs_operator);
        cr_expect_not(rabbitmq_judge_guilty(&key).concerns_all);
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
