#include "sinks/nats/nats_answers.h"

#include "sinks/nats/nats_protocol.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

static struct nats_frame answer(const char *json)
{
        return (struct nats_frame){
            .kind = NATS_MESSAGE, .payload = json, .payload_bytes = strlen(json)};
}

static struct outcome judge(const char *json, enum nats_duplicates duplicates)
{
        const struct nats_frame frame = answer(json);
        const struct nats_answer_rules rules = {.duplicates = duplicates};

        return nats_answer_judge(&frame, &rules);
}

static struct outcome judge_code(int class_, int code)
{
        char json[200];

        snprintf(json, sizeof json,
            "{\"error\":{\"code\":%d,\"err_code\":%d,\"description\":\"words\"},\"stream\":\"S\","
            "\"seq\":0}",
            class_, code);
        return judge(json, NATS_DUPLICATES_ID);
}

Test(nats_answers, takes_each_form_of_an_acknowledgement)
{
        static const char *const acks[] = {"{\"stream\":\"S\",\"seq\":1}",
            "{\"stream\":\"S\", \"seq\":22}", "{\"stream\":\"S\", \"seq\":22,\"duplicate\": true}",
            "{\"stream\":\"S\",\"domain\":\"D\", \"seq\":9}", "{ \"seq\" : 3, \"stream\" : \"S\" }",
            "{\"type\":\"x\",\"stream\":\"a\\\"b\",\"seq\":7}"};

        for (size_t i = 0; i < sizeof acks / sizeof *acks; i++) {
                const struct nats_frame frame = answer(acks[i]);
                cr_expect(nats_answer_is_ack(&frame), "%s", acks[i]);
                cr_expect(
                    judge(acks[i], NATS_DUPLICATES_ID).kind == OUTCOME_DELIVERED, "%s", acks[i]);
        }
}

Test(nats_answers, takes_nothing_else_for_an_acknowledgement)
{
        static const char *const others[] = {"", "+OK", "{}", "{\"stream\":\"S\"}",
            "{\"stream\":\"S\",\"seq\":0}", "{\"stream\":\"S\",\"seq\":}",
            "{\"stream\":\"S\",\"seq\":-1}", "{\"stream\":\"S\",\"seq\":\"1\"}",
            "{\"stream\":\"S\",\"seq\":1", "{\"stream\":\"\",\"seq\":1x}", "[1]",
            "{\"stream\":\"S\",\"seq\":1,\"error\":{\"code\":500,\"err_code\":10077}}",
            "{\"error\":{\"code\":503,\"err_code\":10077,\"description\":\"x\"},\"stream\":\"S\","
            "\"seq\":1}"};

        for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
                const struct nats_frame frame = answer(others[i]);
                cr_expect(!nats_answer_is_ack(&frame), "%s", others[i]);
                cr_expect(judge(others[i], NATS_DUPLICATES_ID).kind != OUTCOME_DELIVERED, "%s",
                    others[i]);
        }
}

/* A status is no acknowledgement, whatever stands behind it. */
Test(nats_answers, looks_at_the_status_first)
{
        struct nats_frame frame = answer("{\"stream\":\"S\",\"seq\":1}");
        struct nats_answer_rules rules = {.is_transient = false};
        struct outcome outcome;

        frame.status = 503;
        cr_expect(!nats_answer_is_ack(&frame));
        outcome = nats_answer_judge(&frame, &rules);
        cr_expect(outcome.kind == OUTCOME_SINK_DOWN && outcome.needs_operator);
        cr_expect(!outcome.concerns_all && outcome.max_attempts == 5);
        rules.is_transient = true;
        outcome = nats_answer_judge(&frame, &rules);
        cr_expect(outcome.kind == OUTCOME_SINK_DOWN && !outcome.needs_operator);
        frame.status = 408;
        cr_expect(nats_answer_judge(&frame, &rules).kind == OUTCOME_RETRY);
}

struct row {
        int class_;
        int code;
        enum outcome_kind kind;
        enum outcome_fault fault;
        bool needs_operator;
        unsigned max_attempts;
};

Test(nats_answers, has_an_outcome_for_each_error)
{
        static const struct row rows[] = {
            {400, 10054, OUTCOME_REJECTED, OUTCOME_FAULT_TOO_LARGE, false, 0},
            {400, 10097, OUTCOME_REJECTED, OUTCOME_FAULT_TOO_LARGE, false, 0},
            {503, 10077, OUTCOME_SINK_DOWN, OUTCOME_FAULT_NATS, false, 0},
            {400, 10002, OUTCOME_SINK_DOWN, OUTCOME_FAULT_NATS, false, 0},
            {503, 10023, OUTCOME_SINK_DOWN, OUTCOME_FAULT_NATS, false, 0},
            {500, 10028, OUTCOME_SINK_DOWN, OUTCOME_FAULT_NATS, false, 0},
            {500, 10047, OUTCOME_SINK_DOWN, OUTCOME_FAULT_NATS, false, 0},
            {503, 10008, OUTCOME_SINK_DOWN, OUTCOME_FAULT_NATS, false, 0},
            {500, 10009, OUTCOME_SINK_DOWN, OUTCOME_FAULT_NATS, false, 0},
            {500, 10118, OUTCOME_SINK_DOWN, OUTCOME_FAULT_NATS, false, 0},
            {500, 10194, OUTCOME_SINK_DOWN, OUTCOME_FAULT_NATS, false, 0},
            {503, 10163, OUTCOME_SINK_DOWN, OUTCOME_FAULT_NATS, false, 0},
            {429, 10167, OUTCOME_SINK_DOWN, OUTCOME_FAULT_NATS, false, 0},
            {409, 10158, OUTCOME_RETRY, OUTCOME_FAULT_NATS, false, 0},
            {503, 10039, OUTCOME_SINK_DOWN, OUTCOME_FAULT_NATS, true, 0},
            {503, 10076, OUTCOME_SINK_DOWN, OUTCOME_FAULT_NATS, true, 0},
            {400, 10060, OUTCOME_SINK_DOWN, OUTCOME_FAULT_NATS, true, 0},
            {400, 10109, OUTCOME_SINK_DOWN, OUTCOME_FAULT_NATS, true, 0},
            {400, 10071, OUTCOME_RETRY, OUTCOME_FAULT_NATS, false, 5},
            {404, 99999, OUTCOME_RETRY, OUTCOME_FAULT_NATS, false, 5},
            {500, 99999, OUTCOME_RETRY, OUTCOME_FAULT_NATS, false, 0},
            {0, 0, OUTCOME_RETRY, OUTCOME_FAULT_NATS, false, 0}};

        for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
                const struct row *row = &rows[i];
                const struct outcome outcome = judge_code(row->class_, row->code);

                cr_expect(outcome.kind == row->kind, "%d: %s", row->code, outcome.reason);
                cr_expect(outcome.fault == row->fault, "%d", row->code);
                cr_expect(outcome.needs_operator == row->needs_operator, "%d", row->code);
                cr_expect(outcome.max_attempts == row->max_attempts, "%d", row->code);
                cr_expect(strstr(outcome.reason, "words") != NULL, "%s", outcome.reason);
        }
        cr_expect(judge_code(409, 10158).delay_ms == 100);
}

#define FULL_SUBJECT                                                                               \
        "{\"error\":{\"code\":503,\"err_code\":10077,\"description\":\"maximum messages per "      \
        "subject exceeded\"},\"stream\":\"S\",\"seq\":0}"

Test(nats_answers, knows_a_repetition_by_its_subject_only_if_told_so)
{
        cr_expect(judge(FULL_SUBJECT, NATS_DUPLICATES_BY_SUBJECT).kind == OUTCOME_DELIVERED);
        cr_expect(judge(FULL_SUBJECT, NATS_DUPLICATES_ID).kind == OUTCOME_SINK_DOWN);
        cr_expect(judge(FULL_SUBJECT, NATS_DUPLICATES_OFF).kind == OUTCOME_SINK_DOWN);
}

static struct nats_error read_error(const char *text)
{
        return nats_error_read(text, strlen(text));
}

Test(nats_answers, reads_errors_of_the_connection)
{
        struct nats_error error = read_error("Permissions Violation for Publish to \"a.b\"");

        cr_expect(error.kind == NATS_ERROR_OF_PUBLICATION);
        cr_expect_str_eq(error.subject, "a.b");
        error = read_error("Permissions Violation for Publish to \"a\\\"b\\\\c\"");
        cr_expect_str_eq(error.subject, "a\"b\\c");
        cr_expect(read_error("Permissions Violation for Subscription to \"_INBOX.a.*\"").kind ==
                  NATS_ERROR_OF_SUBSCRIPTION);
        cr_expect(read_error("Authorization Violation").kind == NATS_ERROR_OF_LOGIN);
        cr_expect(read_error("User Authentication Expired").kind == NATS_ERROR_OF_LOGIN);
        cr_expect(read_error("User Authentication Revoked").kind == NATS_ERROR_OF_LOGIN);
        cr_expect(read_error("Stale Connection").kind == NATS_ERROR_OF_SERVER);
        cr_expect(read_error("maximum connections exceeded").kind == NATS_ERROR_OF_SERVER);
        cr_expect(
            read_error("maximum account active connections exceeded").kind == NATS_ERROR_OF_SERVER);
        cr_expect(read_error("Unknown Protocol Operation").kind == NATS_ERROR_OTHER);
        cr_expect(read_error("Permissions Violation for Publish to").kind == NATS_ERROR_OTHER);
        cr_expect(read_error("").kind == NATS_ERROR_OTHER);
}

Test(nats_answers, bounds_the_words_of_others)
{
        static char text[5000] = "Permissions Violation for Publish to \"";
        struct nats_error error;

        memset(text + strlen(text), 'x', 4000);
        error = read_error(text);
        cr_expect(strlen(error.words) < sizeof error.words);
        cr_expect(strlen(error.subject) < sizeof error.subject);
}
