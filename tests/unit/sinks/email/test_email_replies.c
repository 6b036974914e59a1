#include "sinks/email/email_replies.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

static void sent(struct smtp_dialogue *dialogue, const char *line)
{
        smtp_dialogue_on_sent(dialogue, line, strlen(line));
}

static void received(struct smtp_dialogue *dialogue, const char *line)
{
        smtp_dialogue_on_received(dialogue, line, strlen(line));
}

/* A new connection that has come to `stage`, whose command is still unanswered. */
static struct smtp_dialogue at(enum smtp_stage stage)
{
        struct smtp_dialogue dialogue;

        smtp_dialogue_begin(&dialogue);
        smtp_dialogue_on_connection(&dialogue);
        if (stage == SMTP_CONNECT)
                return dialogue;
        received(&dialogue, "220 mail.example.org ESMTP\r\n");
        sent(&dialogue, "EHLO relay\r\n");
        if (stage == SMTP_EHLO)
                return dialogue;
        received(&dialogue, "250-mail.example.org\r\n");
        received(&dialogue, "250 HELP\r\n");
        if (stage == SMTP_NOOP)
                sent(&dialogue, "NOOP\r\n");
        if (stage == SMTP_STARTTLS)
                sent(&dialogue, "STARTTLS\r\n");
        if (stage == SMTP_AUTH)
                sent(&dialogue, "AUTH PLAIN\r\n");
        if (stage == SMTP_NOOP || stage == SMTP_STARTTLS || stage == SMTP_AUTH)
                return dialogue;
        sent(&dialogue, "MAIL FROM:<shop@example.org> SIZE=100\r\n");
        if (stage == SMTP_MAIL)
                return dialogue;
        received(&dialogue, "250 2.1.0 Ok\r\n");
        sent(&dialogue, "RCPT TO:<ann@example.com>\r\n");
        if (stage == SMTP_RCPT)
                return dialogue;
        received(&dialogue, "250 2.1.5 Ok\r\n");
        sent(&dialogue, "DATA\r\n");
        if (stage == SMTP_DATA)
                return dialogue;
        received(&dialogue, "354 go\r\n");
        dialogue.is_content_sent = true;
        return dialogue;
}

static struct outcome answered(enum smtp_stage stage, const char *reply, CURLcode result)
{
        struct smtp_dialogue dialogue = at(stage);

        received(&dialogue, reply);
        return smtp_mail_outcome(&dialogue, result, "curl's words");
}

Test(email_replies, delivered_is_only_a_complete_250_after_the_mail)
{
        cr_assert_eq(
            answered(SMTP_CONTENT, "250 2.0.0 queued\r\n", CURLE_OK).kind, OUTCOME_DELIVERED);
        cr_assert_eq(
            answered(SMTP_CONTENT, "250-more to\r\n", CURLE_RECV_ERROR).kind, OUTCOME_RETRY);
        /* libcurl fails only after the answer was there, e.g. because it was told to stop. */
        cr_assert_eq(answered(SMTP_CONTENT, "250 ok\r\n", CURLE_ABORTED_BY_CALLBACK).kind,
            OUTCOME_DELIVERED);
        /* An earlier 250 proves nothing. */
        cr_assert_neq(answered(SMTP_RCPT, "250 ok\r\n", CURLE_RECV_ERROR).kind, OUTCOME_DELIVERED);
        cr_assert_neq(answered(SMTP_DATA, "250 ok\r\n", CURLE_SEND_ERROR).kind, OUTCOME_DELIVERED);
        cr_assert_eq(answered(SMTP_CONTENT, "", CURLE_RECV_ERROR).kind, OUTCOME_RETRY);
}

enum { NEEDS_OPERATOR = 1, FEW_TRIES = 2 };

/* The table of the sinks' manual, written here a second time. */
static const struct {
        enum smtp_stage stage;
        const char *reply;
        enum outcome_kind kind;
        int marks;
} expectations[] = {
    {SMTP_CONNECT, "421 4.3.2 too busy\r\n", OUTCOME_SINK_DOWN, 0},
    {SMTP_CONNECT, "450 not now\r\n", OUTCOME_SINK_DOWN, 0},
    {SMTP_EHLO, "421 no\r\n", OUTCOME_SINK_DOWN, 0},
    {SMTP_STARTTLS, "454 4.7.0 TLS not available\r\n", OUTCOME_SINK_DOWN, 0},
    {SMTP_AUTH, "454 4.7.0 temporary failure\r\n", OUTCOME_SINK_DOWN, 0},
    {SMTP_MAIL, "421 4.3.2 closing\r\n", OUTCOME_SINK_DOWN, 0},
    {SMTP_RCPT, "421 4.3.2 closing\r\n", OUTCOME_SINK_DOWN, 0},
    {SMTP_DATA, "421 4.3.2 closing\r\n", OUTCOME_SINK_DOWN, 0},

    {SMTP_MAIL, "452 4.3.1 full\r\n", OUTCOME_RETRY, 0},
    {SMTP_RCPT, "450 4.2.0 greylisted\r\n", OUTCOME_RETRY, 0},
    {SMTP_RCPT, "451 4.7.1 later\r\n", OUTCOME_RETRY, 0},
    {SMTP_RCPT, "452 4.2.2 mailbox full\r\n", OUTCOME_RETRY, 0},
    {SMTP_RCPT, "454 4.7.1 relay access denied\r\n", OUTCOME_RETRY, 0},
    {SMTP_DATA, "451 4.3.0 no\r\n", OUTCOME_RETRY, 0},
    {SMTP_CONTENT, "451 4.3.0 no\r\n", OUTCOME_RETRY, 0},
    {SMTP_CONTENT, "421 4.7.0 suspicious\r\n", OUTCOME_RETRY, 0},
    {SMTP_RCPT, "504 5.5.2 need fully-qualified address\r\n", OUTCOME_RETRY, FEW_TRIES},

    {SMTP_CONNECT, "554 5.7.1 go away\r\n", OUTCOME_SINK_DOWN, NEEDS_OPERATOR},
    {SMTP_EHLO, "502 what\r\n", OUTCOME_SINK_DOWN, NEEDS_OPERATOR},
    {SMTP_STARTTLS, "502 no\r\n", OUTCOME_SINK_DOWN, NEEDS_OPERATOR},
    {SMTP_AUTH, "535 5.7.8 wrong\r\n", OUTCOME_SINK_DOWN, NEEDS_OPERATOR},
    {SMTP_AUTH, "534 5.7.9 weak\r\n", OUTCOME_SINK_DOWN, NEEDS_OPERATOR},
    {SMTP_MAIL, "530 5.7.0 authentication required\r\n", OUTCOME_SINK_DOWN, NEEDS_OPERATOR},
    {SMTP_MAIL, "550 5.7.1 not your address\r\n", OUTCOME_SINK_DOWN, NEEDS_OPERATOR},
    {SMTP_MAIL, "553 5.1.8 sender\r\n", OUTCOME_SINK_DOWN, NEEDS_OPERATOR},
    {SMTP_RCPT, "530 5.7.0 authentication required\r\n", OUTCOME_SINK_DOWN, NEEDS_OPERATOR},
    {SMTP_RCPT, "503 5.5.1 bad sequence\r\n", OUTCOME_SINK_DOWN, NEEDS_OPERATOR},
    {SMTP_DATA, "500 5.5.2 unknown\r\n", OUTCOME_SINK_DOWN, NEEDS_OPERATOR},
    {SMTP_DATA, "502 5.5.2 unknown\r\n", OUTCOME_SINK_DOWN, NEEDS_OPERATOR},
    {SMTP_DATA, "504 5.5.4 unknown\r\n", OUTCOME_SINK_DOWN, NEEDS_OPERATOR},
    {SMTP_CONTENT, "535 5.7.8 login first\r\n", OUTCOME_SINK_DOWN, NEEDS_OPERATOR},

    {SMTP_MAIL, "552 5.3.4 too big\r\n", OUTCOME_REJECTED, 0},
    {SMTP_RCPT, "550 5.1.1 unknown\r\n", OUTCOME_REJECTED, 0},
    {SMTP_RCPT, "551 5.1.6 moved\r\n", OUTCOME_REJECTED, 0},
    {SMTP_RCPT, "553 5.1.3 bad\r\n", OUTCOME_REJECTED, 0},
    {SMTP_RCPT, "501 5.1.3 bad syntax\r\n", OUTCOME_REJECTED, 0},
    {SMTP_DATA, "554 5.5.1 no valid recipients\r\n", OUTCOME_REJECTED, 0},
    {SMTP_CONTENT, "554 5.6.0 content\r\n", OUTCOME_REJECTED, 0},
    {SMTP_CONTENT, "552 5.3.4 too big\r\n", OUTCOME_REJECTED, 0},
    {SMTP_CONTENT, "500 line too long\r\n", OUTCOME_REJECTED, 0},
};

Test(email_replies, means_what_the_manual_says)
{
        for (size_t i = 0; i < sizeof expectations / sizeof *expectations; i++) {
                enum smtp_stage stage = expectations[i].stage;
                const char *reply = expectations[i].reply;
                struct outcome outcome = answered(stage, reply, CURLE_SEND_ERROR);
                int marks = (outcome.needs_operator ? NEEDS_OPERATOR : 0) |
                            (outcome.max_attempts == 5 ? FEW_TRIES : 0);

                cr_expect_eq(outcome.kind, expectations[i].kind, "stage %d, %s: %s (%s)", stage,
                    reply, outcome_name(outcome.kind), outcome.reason);
                cr_expect_eq(marks, expectations[i].marks, "stage %d, %s: %d", stage, reply, marks);
                cr_expect_not(outcome.is_unanswered);
                cr_expect(outcome.reason[0] != '\0');
        }
}

Test(email_replies, pauses_where_the_server_lacks_what_is_configured)
{
        static const CURLcode results[] = {
            CURLE_LOGIN_DENIED, CURLE_USE_SSL_FAILED, CURLE_SSL_CACERT_BADFILE};

        for (size_t i = 0; i < sizeof results / sizeof *results; i++) {
                struct outcome outcome = answered(SMTP_EHLO, "250 HELP\r\n", results[i]);
                cr_expect_eq(outcome.kind, OUTCOME_SINK_DOWN);
                cr_expect(outcome.needs_operator, "%d", results[i]);
                cr_expect(strstr(outcome.reason, "curl's words") != NULL);
        }
        /* Not so if the server says that it is only out of order. */
        cr_expect_not(
            answered(SMTP_AUTH, "454 4.7.0 later\r\n", CURLE_LOGIN_DENIED).needs_operator);
        cr_expect_not(answered(SMTP_EHLO, "250 HELP\r\n", CURLE_RECV_ERROR).needs_operator);
}

Test(email_replies, honours_the_delay_that_a_greylist_asks_for)
{
        cr_expect_eq(answered(SMTP_RCPT, "450 4.2.0 Greylisted, try again in 300 seconds\r\n",
                         CURLE_SEND_ERROR)
                         .delay_ms,
            300000);
        cr_expect_eq(answered(SMTP_RCPT, "550 gone in 60 seconds\r\n", CURLE_SEND_ERROR).delay_ms,
            OUTCOME_NO_DELAY);
}

Test(email_replies, reads_no_delay_into_other_numbers)
{
        static const struct {
                const char *words;
                int64_t delay_ms;
        } hints[] = {
            {"4.7.1 Greylisting in action, please come back in 00:04:59", OUTCOME_NO_DELAY},
            {"4.2.0 Greylisted for 5 minutes", OUTCOME_NO_DELAY},
            {"4.7.0 Try again AFTER 5 Minutes.", 300000},
            {"retry in 90s", 90000},
            {"retry in 0 seconds", 0},
            {"retry in 1 hour", 3600000},
            {"retry in 3 days", OUTCOME_NO_DELAY},
            {"retry in 99999999999999999999 seconds", 3600000},
            {"retry in -5 seconds", OUTCOME_NO_DELAY},
            {"within 10 seconds", OUTCOME_NO_DELAY},
            {"in", OUTCOME_NO_DELAY},
            {"in 5", OUTCOME_NO_DELAY},
            {"Error in processing; try again in 2 min", 120000},
            {"", OUTCOME_NO_DELAY},
            {"\xff\xff in 1 s", 1000},
        };

        for (size_t i = 0; i < sizeof hints / sizeof *hints; i++)
                cr_expect_eq(smtp_hinted_delay_ms(hints[i].words), hints[i].delay_ms,
                    "\"%s\": %lld", hints[i].words,
                    (long long)smtp_hinted_delay_ms(hints[i].words));
}

Test(email_replies, silence_is_the_servers_fault_until_a_recipient_is_named)
{
        static const enum outcome_kind kinds[] = {
            [SMTP_CONNECT] = OUTCOME_SINK_DOWN,
            [SMTP_EHLO] = OUTCOME_SINK_DOWN,
            [SMTP_STARTTLS] = OUTCOME_SINK_DOWN,
            [SMTP_AUTH] = OUTCOME_SINK_DOWN,
            [SMTP_MAIL] = OUTCOME_SINK_DOWN,
            [SMTP_RCPT] = OUTCOME_RETRY,
            [SMTP_DATA] = OUTCOME_RETRY,
            [SMTP_CONTENT] = OUTCOME_RETRY,
        };

        for (unsigned stage = 0; stage < sizeof kinds / sizeof *kinds; stage++) {
                struct smtp_dialogue dialogue = at((enum smtp_stage)stage);
                struct outcome outcome =
                    smtp_mail_outcome(&dialogue, CURLE_OPERATION_TIMEDOUT, "timed out");
                cr_assert_eq(outcome.kind, kinds[stage], "stage %u", stage);
                cr_assert_eq(outcome.is_unanswered, kinds[stage] == OUTCOME_RETRY);
                cr_assert_not(outcome.needs_operator);
                cr_assert(strstr(outcome.reason, "timed out") != NULL);
        }
}

Test(email_replies, says_when_it_is_unknown_whether_the_mail_was_accepted)
{
        struct smtp_dialogue dialogue = at(SMTP_CONTENT);

        cr_assert(strstr(smtp_mail_outcome(&dialogue, CURLE_RECV_ERROR, "w").reason,
                      "unknown whether") != NULL);
        dialogue.is_content_sent = false;
        cr_assert(strstr(smtp_mail_outcome(&dialogue, CURLE_SEND_ERROR, "w").reason,
                      "unknown whether") == NULL);
}

Test(email_replies, tells_the_servers_words_and_joins_their_lines)
{
        struct smtp_dialogue dialogue = at(SMTP_RCPT);

        received(&dialogue, "550-5.1.1 The account does not exist.\r\n");
        received(&dialogue, "550 5.1.1 Please check\x1b[2J it\r\n");
        cr_assert_str_eq(smtp_mail_outcome(&dialogue, CURLE_SEND_ERROR, "").reason,
            "the mail server refused recipient 1 (RCPT): 550 5.1.1 The account does not exist. "
            "Please "
            "check?[2J it");
}

Test(email_replies, never_repeats_what_a_server_says_about_a_login)
{
        struct outcome outcome =
            answered(SMTP_AUTH, "535 5.7.8 wrong password hunter2\r\n", CURLE_LOGIN_DENIED);

        cr_assert_str_eq(outcome.reason, "the mail server refused authentication: 535 5.7.8");
        outcome = answered(SMTP_AUTH, "535 123456 is wrong\r\n", CURLE_LOGIN_DENIED);
        cr_assert_str_eq(outcome.reason, "the mail server refused authentication: 535");
}

Test(email_replies, takes_no_secret_for_a_command)
{
        struct smtp_dialogue dialogue = at(SMTP_AUTH);

        received(&dialogue, "334 \r\n");
        sent(&dialogue, "DATA\r\n"); /* also the base64 of a three-letter password */
        cr_assert_eq(dialogue.stage, SMTP_AUTH);
        received(&dialogue, "235 2.7.0 welcome\r\n");
        sent(&dialogue, "MAIL FROM:<a@b.c>\r\n");
        cr_assert_eq(dialogue.stage, SMTP_MAIL);
}

Test(email_replies, ignores_the_goodbye)
{
        struct smtp_dialogue dialogue = at(SMTP_RCPT);

        received(&dialogue, "550 5.1.1 unknown\r\n");
        sent(&dialogue, "QUIT\r\n");
        received(&dialogue, "221 bye\r\n");
        cr_assert_eq(smtp_mail_outcome(&dialogue, CURLE_SEND_ERROR, "").kind, OUTCOME_REJECTED);
}

Test(email_replies, survives_lines_that_are_no_replies)
{
        struct smtp_dialogue dialogue = at(SMTP_RCPT);

        received(&dialogue, "");
        received(&dialogue, "2\r\n");
        received(&dialogue, "\xff\xff\xff\xff\r\n");
        received(&dialogue, "25x ok\r\n");
        cr_assert_eq(dialogue.code, 0);
        received(&dialogue, "550\r\n");
        cr_assert_eq(dialogue.code, 550);
        cr_assert_eq(smtp_mail_outcome(&dialogue, CURLE_SEND_ERROR, "").kind, OUTCOME_REJECTED);
}

Test(email_replies, takes_a_code_below_100_for_the_servers_fault)
{
        const struct outcome outcome =
            answered(SMTP_CONNECT, "099 what\r\n", CURLE_WEIRD_SERVER_REPLY);

        cr_expect_eq(outcome.kind, OUTCOME_SINK_DOWN);
        cr_expect_not(outcome.needs_operator);
}

Test(email_replies, tries_a_stale_connection_again_only_before_the_content)
{
        struct smtp_dialogue dialogue;

        smtp_dialogue_begin(&dialogue);
        sent(&dialogue, "MAIL FROM:<a@b.c>\r\n");
        cr_assert(smtp_should_reconnect(&dialogue, CURLE_RECV_ERROR));
        received(&dialogue, "421 4.4.2 idle for too long\r\n");
        cr_assert(smtp_should_reconnect(&dialogue, CURLE_SEND_ERROR));
        cr_assert_not(smtp_should_reconnect(&dialogue, CURLE_OK));

        smtp_dialogue_begin(&dialogue);
        sent(&dialogue, "MAIL FROM:<a@b.c>\r\n");
        received(&dialogue, "450 4.1.0 no\r\n");
        cr_assert_not(smtp_should_reconnect(&dialogue, CURLE_SEND_ERROR));

        smtp_dialogue_begin(&dialogue);
        sent(&dialogue, "DATA\r\n");
        received(&dialogue, "354 go\r\n");
        cr_assert_not(smtp_should_reconnect(&dialogue, CURLE_RECV_ERROR));

        dialogue = at(SMTP_MAIL);
        cr_assert_not(smtp_should_reconnect(&dialogue, CURLE_RECV_ERROR));
}

Test(email_replies, is_cancelled_only_while_the_answer_is_unknown)
{
        struct smtp_dialogue dialogue = at(SMTP_CONTENT);

        cr_assert_eq(
            smtp_mail_outcome(&dialogue, CURLE_ABORTED_BY_CALLBACK, "").kind, OUTCOME_CANCELLED);
        received(&dialogue, "554 5.6.0 content\r\n");
        cr_assert_eq(
            smtp_mail_outcome(&dialogue, CURLE_ABORTED_BY_CALLBACK, "").kind, OUTCOME_REJECTED);
}

/* Of a mail that came to `stage` and got `reply`. */
static bool goes_elsewhere(enum smtp_stage stage, const char *reply, CURLcode result)
{
        struct smtp_dialogue dialogue = at(stage);
        struct outcome outcome;

        received(&dialogue, reply);
        outcome = smtp_mail_outcome(&dialogue, result, "curl's words");
        return smtp_may_try_elsewhere(&dialogue, &outcome);
}

Test(email_replies, asks_another_server_only_where_this_one_takes_nothing)
{
        cr_expect(goes_elsewhere(SMTP_CONNECT, "", CURLE_COULDNT_CONNECT));
        cr_expect(goes_elsewhere(SMTP_CONNECT, "", CURLE_COULDNT_RESOLVE_HOST));
        cr_expect(goes_elsewhere(SMTP_CONNECT, "421 busy\r\n", CURLE_WEIRD_SERVER_REPLY));
        cr_expect(goes_elsewhere(SMTP_CONNECT, "554 no\r\n", CURLE_WEIRD_SERVER_REPLY));
        cr_expect(goes_elsewhere(SMTP_EHLO, "", CURLE_USE_SSL_FAILED));
        cr_expect(goes_elsewhere(SMTP_STARTTLS, "220 go\r\n", CURLE_PEER_FAILED_VERIFICATION));
        cr_expect(goes_elsewhere(SMTP_AUTH, "535 5.7.8 no\r\n", CURLE_LOGIN_DENIED));
        cr_expect(goes_elsewhere(SMTP_MAIL, "421 4.3.2 bye\r\n", CURLE_SEND_ERROR));
        cr_expect(goes_elsewhere(SMTP_RCPT, "421 4.3.2 bye\r\n", CURLE_SEND_ERROR));
        cr_expect(goes_elsewhere(SMTP_DATA, "421 4.3.2 bye\r\n", CURLE_SEND_ERROR));

        cr_expect_not(goes_elsewhere(SMTP_MAIL, "550 5.7.1 not you\r\n", CURLE_SEND_ERROR));
        cr_expect_not(goes_elsewhere(SMTP_MAIL, "451 4.3.0 later\r\n", CURLE_SEND_ERROR));
        cr_expect_not(goes_elsewhere(SMTP_RCPT, "550 5.1.1 who\r\n", CURLE_SEND_ERROR));
        cr_expect_not(goes_elsewhere(SMTP_RCPT, "450 4.2.0 later\r\n", CURLE_SEND_ERROR));
        cr_expect_not(goes_elsewhere(SMTP_RCPT, "", CURLE_RECV_ERROR));
        cr_expect_not(goes_elsewhere(SMTP_CONTENT, "", CURLE_RECV_ERROR));
        cr_expect_not(goes_elsewhere(SMTP_CONTENT, "421 4.3.2 bye\r\n", CURLE_RECV_ERROR));
        cr_expect_not(goes_elsewhere(SMTP_CONTENT, "554 5.6.0 no\r\n", CURLE_SEND_ERROR));
        cr_expect_not(goes_elsewhere(SMTP_CONTENT, "535 5.7.8 no\r\n", CURLE_SEND_ERROR));
        cr_expect_not(goes_elsewhere(SMTP_CONTENT, "250 ok\r\n", CURLE_OK));
        cr_expect_not(goes_elsewhere(SMTP_EHLO, "250 ok\r\n", CURLE_ABORTED_BY_CALLBACK));
}

Test(email_replies, knows_when_a_mail_may_have_been_accepted)
{
        struct smtp_dialogue dialogue = at(SMTP_CONTENT);
        struct outcome outcome = smtp_mail_outcome(&dialogue, CURLE_RECV_ERROR, "");

        cr_expect(smtp_is_unknown(&dialogue, &outcome));
        dialogue.is_content_sent = false; /* its end never left: no server takes half a mail */
        cr_expect_not(smtp_is_unknown(&dialogue, &outcome));
        dialogue = at(SMTP_DATA);
        outcome = smtp_mail_outcome(&dialogue, CURLE_RECV_ERROR, "");
        cr_expect_not(smtp_is_unknown(&dialogue, &outcome));
        dialogue = at(SMTP_CONTENT);
        received(&dialogue, "451 4.3.0 later\r\n");
        outcome = smtp_mail_outcome(&dialogue, CURLE_SEND_ERROR, "");
        cr_expect_not(smtp_is_unknown(&dialogue, &outcome));
}

static enum smtp_refusal refusal(enum smtp_stage stage, const char *reply)
{
        struct smtp_dialogue dialogue = at(stage);
        struct outcome outcome;

        received(&dialogue, reply);
        outcome = smtp_mail_outcome(&dialogue, CURLE_SEND_ERROR, "curl's words");
        return smtp_refusal_of(&dialogue, &outcome);
}

Test(email_replies, tells_whom_a_temporary_refusal_is_about)
{
        static const struct {
                enum smtp_stage stage;
                const char *reply;
                enum smtp_refusal refusal;
        } rows[] = {
            {SMTP_RCPT, "450 4.7.1 Greylisted\r\n", SMTP_REFUSAL_GREYLISTED},
            {SMTP_RCPT, "450 4.2.0 <a@b.c>: Recipient address rejected: Greylisted\r\n",
                SMTP_REFUSAL_GREYLISTED},
            {SMTP_RCPT, "451 graylisting in action\r\n", SMTP_REFUSAL_GREYLISTED},
            {SMTP_CONTENT, "451 4.7.1 Greylisting in action\r\n", SMTP_REFUSAL_GREYLISTED},
            {SMTP_RCPT, "451 4.7.0 too much mail from you\r\n", SMTP_REFUSAL_OF_DOMAIN},
            {SMTP_RCPT, "452 4.7.652 slow down\r\n", SMTP_REFUSAL_OF_DOMAIN},
            {SMTP_DATA, "450 4.7.1 rate\r\n", SMTP_REFUSAL_OF_DOMAIN},
            {SMTP_RCPT, "452 4.2.2 mailbox full\r\n", SMTP_REFUSAL_OF_MAIL},
            {SMTP_RCPT, "450 mailbox busy\r\n", SMTP_REFUSAL_OF_MAIL},
            {SMTP_RCPT, "452 4.5.3 too many recipients\r\n", SMTP_REFUSAL_OF_MAIL},
            {SMTP_MAIL, "450 4.7.1 slow down\r\n", SMTP_REFUSAL_OF_MAIL},
            {SMTP_RCPT, "550 5.7.1 greylisting is not for you\r\n", SMTP_REFUSAL_OF_MAIL},
            {SMTP_RCPT, "421 4.7.0 greylisted\r\n", SMTP_REFUSAL_OF_MAIL},
        };

        for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
                cr_expect_eq(
                    refusal(rows[i].stage, rows[i].reply), rows[i].refusal, "%s", rows[i].reply);
}

static enum outcome_fault fault_at(enum smtp_stage stage, const char *reply, CURLcode result)
{
        struct smtp_dialogue dialogue = at(stage);

        if (reply != NULL)
                received(&dialogue, reply);
        return smtp_mail_outcome(&dialogue, result, "words").fault;
}

Test(email_replies, say_what_was_at_fault)
{
        cr_expect_eq(fault_at(SMTP_CONNECT, NULL, CURLE_COULDNT_CONNECT), OUTCOME_FAULT_REFUSED);
        cr_expect_eq(fault_at(SMTP_CONNECT, NULL, CURLE_COULDNT_RESOLVE_HOST), OUTCOME_FAULT_DNS);
        cr_expect_eq(fault_at(SMTP_AUTH, "535 no\r\n", CURLE_LOGIN_DENIED), OUTCOME_FAULT_AUTH);
        cr_expect_eq(fault_at(SMTP_MAIL, "530 log in\r\n", CURLE_SEND_ERROR), OUTCOME_FAULT_AUTH);
        cr_expect_eq(fault_at(SMTP_RCPT, "450 busy\r\n", CURLE_SEND_ERROR), OUTCOME_FAULT_SMTP_4XX);
        cr_expect_eq(fault_at(SMTP_RCPT, "550 who\r\n", CURLE_SEND_ERROR), OUTCOME_FAULT_SMTP_5XX);
        cr_expect_eq(
            fault_at(SMTP_CONTENT, "552 big\r\n", CURLE_SEND_ERROR), OUTCOME_FAULT_TOO_LARGE);
        cr_expect_eq(fault_at(SMTP_CONTENT, NULL, CURLE_OPERATION_TIMEDOUT), OUTCOME_FAULT_TIMEOUT);
        cr_expect_eq(fault_at(SMTP_CONTENT, NULL, CURLE_RECV_ERROR), OUTCOME_FAULT_LOST);
        cr_expect_eq(fault_at(SMTP_RCPT, NULL, CURLE_OPERATION_TIMEDOUT), OUTCOME_FAULT_REFUSED,
            "it cannot have arrived");
}
