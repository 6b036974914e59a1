/* Errors of Kafka and of its client that no test with a broker or a mock can bring about. */
#include "sinks/kafka/kafka_answers.h"

#include <criterion/criterion.h>
#include <string.h>

static struct outcome refusal(rd_kafka_resp_err_t code, bool may_be_stored)
{
        return kafka_answer_refusal(&(struct kafka_refusal){
            .code = code, .may_be_stored = may_be_stored, .topic = "orders"});
}

/* Whatever is not known to be stored is not delivered. */
Test(kafka_answers, none_of_all_codes_is_a_success)
{
        for (int code = -200; code < 200; code++) {
                struct outcome outcome;
                if (code == 0)
                        continue;
                outcome = refusal((rd_kafka_resp_err_t)code, true);
                cr_expect(outcome.kind != OUTCOME_DELIVERED && outcome.kind != OUTCOME_CANCELLED,
                    "%d", code);
                cr_expect(outcome.reason[0] != '\0');
                outcome = kafka_answer_trouble((rd_kafka_resp_err_t)code, "words");
                cr_expect(outcome.kind == OUTCOME_SINK_DOWN, "%d", code);
        }
}

Test(kafka_answers, an_event_is_rejected_only_for_what_it_is_itself)
{
        for (int code = -200; code < 200; code++)
                if (code != 0 && refusal((rd_kafka_resp_err_t)code, false).kind == OUTCOME_REJECTED)
                        cr_expect(kafka_answer_blames_batch((rd_kafka_resp_err_t)code), "%d", code);
}

Test(kafka_answers, a_topic_of_the_event_stops_no_others)
{
        static const rd_kafka_resp_err_t codes[] = {RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART,
            RD_KAFKA_RESP_ERR__UNKNOWN_TOPIC, RD_KAFKA_RESP_ERR__UNKNOWN_PARTITION,
            RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED};

        for (size_t i = 0; i < sizeof codes / sizeof *codes; i++) {
                struct outcome outcome = refusal(codes[i], false);
                cr_expect(outcome.kind == OUTCOME_SINK_DOWN && outcome.needs_operator);
                cr_expect_not(outcome.concerns_all);
                cr_expect(strstr(outcome.reason, "orders") != NULL);
        }
}

Test(kafka_answers, a_fatal_error_is_never_the_operators)
{
        static const rd_kafka_resp_err_t codes[] = {RD_KAFKA_RESP_ERR__FATAL,
            RD_KAFKA_RESP_ERR__FENCED, RD_KAFKA_RESP_ERR__GAPLESS_GUARANTEE,
            RD_KAFKA_RESP_ERR_OUT_OF_ORDER_SEQUENCE_NUMBER, RD_KAFKA_RESP_ERR_UNKNOWN_PRODUCER_ID};

        for (size_t i = 0; i < sizeof codes / sizeof *codes; i++) {
                struct outcome outcome = refusal(codes[i], true);
                cr_expect(outcome.kind == OUTCOME_SINK_DOWN && !outcome.needs_operator);
        }
}

Test(kafka_answers, says_whether_it_may_have_been_stored)
{
        struct outcome stored = refusal(RD_KAFKA_RESP_ERR__MSG_TIMED_OUT, true);
        struct outcome unsent = refusal(RD_KAFKA_RESP_ERR__MSG_TIMED_OUT, false);

        cr_expect(strstr(stored.reason, "may have been stored") != NULL);
        cr_expect(strstr(unsent.reason, "no broker took it") != NULL);
        cr_expect(stored.is_unanswered && unsent.is_unanswered);
}

Test(kafka_answers, knows_trouble_by_its_kind)
{
        cr_expect(kafka_answer_trouble(RD_KAFKA_RESP_ERR__RESOLVE, "x").fault == OUTCOME_FAULT_DNS);
        cr_expect(kafka_answer_trouble(RD_KAFKA_RESP_ERR__SSL, "x").fault == OUTCOME_FAULT_TLS);
        cr_expect(kafka_answer_trouble(RD_KAFKA_RESP_ERR__AUTHENTICATION, "x").needs_operator);
        cr_expect(!kafka_answer_trouble(RD_KAFKA_RESP_ERR__TRANSPORT, "x").needs_operator);
        cr_expect(
            kafka_answer_trouble(RD_KAFKA_RESP_ERR__TRANSPORT, "SSL alert 42").needs_operator);
}
