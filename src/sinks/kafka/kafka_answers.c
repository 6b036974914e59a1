#include "sinks/kafka/kafka_answers.h"

#include <string.h>

enum { FEW_TRIES = 5, THROTTLED_MS = 1000 };

bool kafka_answer_blames_batch(rd_kafka_resp_err_t code)
{
        return code == RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE ||
               code == RD_KAFKA_RESP_ERR_RECORD_LIST_TOO_LARGE ||
               code == RD_KAFKA_RESP_ERR_INVALID_RECORD || code == RD_KAFKA_RESP_ERR_INVALID_MSG;
}

bool kafka_answer_is_of_topic(rd_kafka_resp_err_t code)
{
        return code == RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART ||
               code == RD_KAFKA_RESP_ERR__UNKNOWN_TOPIC ||
               code == RD_KAFKA_RESP_ERR__UNKNOWN_PARTITION ||
               code == RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED;
}

bool kafka_answer_is_purge(rd_kafka_resp_err_t code)
{
        return code == RD_KAFKA_RESP_ERR__PURGE_QUEUE || code == RD_KAFKA_RESP_ERR__PURGE_INFLIGHT;
}

static struct outcome with_fault(struct outcome outcome, enum outcome_fault fault)
{
        outcome.fault = fault;
        return outcome;
}

static struct outcome refused_topic(const struct kafka_refusal *refusal, enum outcome_fault fault)
{
        struct outcome outcome = outcome_make(
            OUTCOME_SINK_DOWN, "%s (topic %s)", rd_kafka_err2str(refusal->code), refusal->topic);

        outcome.needs_operator = true;
        return with_fault(outcome, fault);
}

static struct outcome unanswered(const struct kafka_refusal *refusal)
{
        struct outcome outcome =
            refusal->may_be_stored
                ? outcome_make(OUTCOME_RETRY,
                      "no answer in time; it may have been stored (topic %s)", refusal->topic)
                : outcome_make(OUTCOME_RETRY,
                      "no broker took it in time: its partition has no leader "
                      "or cannot be reached, or topic %s is not ours to see",
                      refusal->topic);

        outcome.is_unanswered = true;
        return with_fault(outcome, OUTCOME_FAULT_TIMEOUT);
}

static struct outcome throttled(const char *words)
{
        struct outcome outcome = outcome_down(OUTCOME_FAULT_KAFKA, false, "%s", words);

        outcome.delay_ms = THROTTLED_MS;
        return outcome;
}

static struct outcome other(const struct kafka_refusal *refusal, const char *words)
{
        struct outcome outcome =
            outcome_make(OUTCOME_RETRY, "%s (topic %s)", words, refusal->topic);

        outcome.max_attempts = FEW_TRIES;
        return with_fault(outcome, OUTCOME_FAULT_KAFKA);
}

struct outcome kafka_answer_refusal(const struct kafka_refusal *refusal)
{
        const char *words = rd_kafka_err2str(refusal->code);

        /* Codes are an open set: brokers have more than this library knows. */
        switch ((int)refusal->code) {
        case RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE:
        case RD_KAFKA_RESP_ERR_RECORD_LIST_TOO_LARGE:
                return with_fault(
                    outcome_make(OUTCOME_REJECTED, "%s (topic %s)", words, refusal->topic),
                    OUTCOME_FAULT_TOO_LARGE);
        case RD_KAFKA_RESP_ERR_INVALID_RECORD:
        case RD_KAFKA_RESP_ERR_INVALID_MSG:
                return outcome_make(OUTCOME_REJECTED, "%s (topic %s)", words, refusal->topic);
        case RD_KAFKA_RESP_ERR__MSG_TIMED_OUT:
        case RD_KAFKA_RESP_ERR__TIMED_OUT:
                return unanswered(refusal);
        case RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART:
        case RD_KAFKA_RESP_ERR__UNKNOWN_TOPIC:
        case RD_KAFKA_RESP_ERR__UNKNOWN_PARTITION:
                return refused_topic(refusal, OUTCOME_FAULT_KAFKA);
        case RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED:
                return refused_topic(refusal, OUTCOME_FAULT_AUTH);
        case RD_KAFKA_RESP_ERR_THROTTLING_QUOTA_EXCEEDED:
        case RD_KAFKA_RESP_ERR_INVALID_PRODUCER_EPOCH:
                return throttled(words);
        case RD_KAFKA_RESP_ERR_CLUSTER_AUTHORIZATION_FAILED:
        case RD_KAFKA_RESP_ERR_SASL_AUTHENTICATION_FAILED:
                return outcome_down(OUTCOME_FAULT_AUTH, true, "%s", words);
        case RD_KAFKA_RESP_ERR_INVALID_REQUIRED_ACKS:
        case RD_KAFKA_RESP_ERR_UNSUPPORTED_VERSION:
        case RD_KAFKA_RESP_ERR_UNSUPPORTED_FOR_MESSAGE_FORMAT:
        case RD_KAFKA_RESP_ERR_UNSUPPORTED_COMPRESSION_TYPE:
        case RD_KAFKA_RESP_ERR__UNSUPPORTED_FEATURE:
                return outcome_down(OUTCOME_FAULT_KAFKA, true, "%s", words);
        /* The producer's sequence is broken, not the event: a new producer begins a new one. */
        case RD_KAFKA_RESP_ERR_OUT_OF_ORDER_SEQUENCE_NUMBER:
        case RD_KAFKA_RESP_ERR_DUPLICATE_SEQUENCE_NUMBER:
        case RD_KAFKA_RESP_ERR_UNKNOWN_PRODUCER_ID:
        case RD_KAFKA_RESP_ERR__FATAL:
        case RD_KAFKA_RESP_ERR__FENCED:
        case RD_KAFKA_RESP_ERR__GAPLESS_GUARANTEE:
        case RD_KAFKA_RESP_ERR__DESTROY:
                return outcome_down(OUTCOME_FAULT_KAFKA, false, "%s", words);
        default:
                return other(refusal, words);
        }
}

struct outcome kafka_answer_creation(rd_kafka_resp_err_t code, const char *words, const char *topic)
{
        bool is_refused = code > RD_KAFKA_RESP_ERR_NO_ERROR &&
                          code != RD_KAFKA_RESP_ERR_REQUEST_TIMED_OUT &&
                          code != RD_KAFKA_RESP_ERR_NOT_CONTROLLER;
        struct outcome outcome = outcome_make(OUTCOME_SINK_DOWN, "topic %s cannot be created: %s",
            topic, words != NULL ? words : rd_kafka_err2str(code));

        outcome.needs_operator = is_refused;
        return with_fault(outcome, is_refused ? OUTCOME_FAULT_KAFKA : OUTCOME_FAULT_TIMEOUT);
}

struct outcome kafka_answer_trouble(rd_kafka_resp_err_t code, const char *words)
{
        /* A handshake that fails may show as a lost connection: because the broker hangs up with an
         * alert, or depending on which of the client's calls meets the failure. */
        if (strstr(words, "SSL alert") != NULL ||
            strstr(words, "certificate verify failed") != NULL)
                code = RD_KAFKA_RESP_ERR__SSL;
        switch ((int)code) {
        case RD_KAFKA_RESP_ERR__AUTHENTICATION:
        case RD_KAFKA_RESP_ERR_SASL_AUTHENTICATION_FAILED:
        case RD_KAFKA_RESP_ERR_UNSUPPORTED_SASL_MECHANISM:
        case RD_KAFKA_RESP_ERR_ILLEGAL_SASL_STATE:
        case RD_KAFKA_RESP_ERR_CLUSTER_AUTHORIZATION_FAILED:
                return outcome_down(OUTCOME_FAULT_AUTH, true, "%s", words);
        case RD_KAFKA_RESP_ERR__UNSUPPORTED_FEATURE:
        case RD_KAFKA_RESP_ERR_UNSUPPORTED_VERSION:
                return outcome_down(OUTCOME_FAULT_KAFKA, true, "%s", words);
        case RD_KAFKA_RESP_ERR__SSL:
                return outcome_down(OUTCOME_FAULT_TLS, true, "%s", words);
        case RD_KAFKA_RESP_ERR__RESOLVE:
                return outcome_down(OUTCOME_FAULT_DNS, false, "%s", words);
        case RD_KAFKA_RESP_ERR__TRANSPORT:
        case RD_KAFKA_RESP_ERR__ALL_BROKERS_DOWN:
                return outcome_down(OUTCOME_FAULT_REFUSED, false, "%s", words);
        case RD_KAFKA_RESP_ERR__TIMED_OUT:
                return outcome_down(OUTCOME_FAULT_TIMEOUT, false, "%s", words);
        default:
                return outcome_down(OUTCOME_FAULT_KAFKA, false, "%s", words);
        }
}
