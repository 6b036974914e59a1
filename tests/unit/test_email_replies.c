#include "sinks/email_replies.h"

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

static void assert_kind(enum smtp_stage stage, const char *reply, enum outcome_kind kind)
{
        struct outcome outcome = answered(stage, reply, CURLE_SEND_ERROR);

        cr_assert_eq(outcome.kind, kind, "stage %d, %s: %s (%s)", stage, reply,
            outcome_name(outcome.kind), outcome.reason);
        if (kind != OUTCOME_DELIVERED)
                cr_assert(outcome.reason[0] != '\0');
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

Test(email_replies, temporary_refusals_of_one_mail_are_retried)
{
        assert_kind(SMTP_MAIL, "452 4.3.1 full\r\n", OUTCOME_RETRY);
        assert_kind(SMTP_RCPT, "450 4.2.0 greylisted\r\n", OUTCOME_RETRY);
        assert_kind(SMTP_RCPT, "451 4.7.1 later\r\n", OUTCOME_RETRY);
        assert_kind(SMTP_RCPT, "454 4.7.1 relay access denied\r\n", OUTCOME_RETRY);
        assert_kind(SMTP_DATA, "451 4.3.0 no\r\n", OUTCOME_RETRY);
        assert_kind(SMTP_CONTENT, "451 4.3.0 no\r\n", OUTCOME_RETRY);
        assert_kind(SMTP_CONTENT, "421 4.7.0 suspicious\r\n", OUTCOME_RETRY);
}

Test(email_replies, temporary_trouble_of_the_server_pauses_the_sink)
{
        assert_kind(SMTP_CONNECT, "421 4.3.2 too busy\r\n", OUTCOME_SINK_DOWN);
        assert_kind(SMTP_CONNECT, "450 not now\r\n", OUTCOME_SINK_DOWN);
        assert_kind(SMTP_EHLO, "421 no\r\n", OUTCOME_SINK_DOWN);
        assert_kind(SMTP_STARTTLS, "454 4.7.0 TLS not available\r\n", OUTCOME_SINK_DOWN);
        assert_kind(SMTP_AUTH, "454 4.7.0 temporary failure\r\n", OUTCOME_SINK_DOWN);
        assert_kind(SMTP_MAIL, "421 4.3.2 closing\r\n", OUTCOME_SINK_DOWN);
        assert_kind(SMTP_RCPT, "421 4.3.2 closing\r\n", OUTCOME_SINK_DOWN);
        assert_kind(SMTP_DATA, "421 4.3.2 closing\r\n", OUTCOME_SINK_DOWN);
}

Test(email_replies, permanent_refusals_of_one_mail_are_rejected)
{
        assert_kind(SMTP_MAIL, "552 5.3.4 too big\r\n", OUTCOME_REJECTED);
        assert_kind(SMTP_RCPT, "550 5.1.1 unknown\r\n", OUTCOME_REJECTED);
        assert_kind(SMTP_RCPT, "551 5.1.6 moved\r\n", OUTCOME_REJECTED);
        assert_kind(SMTP_RCPT, "553 5.1.3 bad\r\n", OUTCOME_REJECTED);
        assert_kind(SMTP_RCPT, "501 5.1.3 bad syntax\r\n", OUTCOME_REJECTED);
        assert_kind(SMTP_DATA, "554 5.5.1 no valid recipients\r\n", OUTCOME_REJECTED);
        assert_kind(SMTP_CONTENT, "554 5.6.0 content\r\n", OUTCOME_REJECTED);
        assert_kind(SMTP_CONTENT, "552 5.3.4 too big\r\n", OUTCOME_REJECTED);
        assert_kind(SMTP_CONTENT, "500 line too long\r\n", OUTCOME_REJECTED);
}

Test(email_replies, permanent_refusals_of_us_pause_the_sink)
{
        assert_kind(SMTP_CONNECT, "554 5.7.1 go away\r\n", OUTCOME_SINK_DOWN);
        assert_kind(SMTP_EHLO, "502 what\r\n", OUTCOME_SINK_DOWN);
        assert_kind(SMTP_STARTTLS, "502 no\r\n", OUTCOME_SINK_DOWN);
        assert_kind(SMTP_AUTH, "535 5.7.8 wrong\r\n", OUTCOME_SINK_DOWN);
        assert_kind(SMTP_AUTH, "534 5.7.9 weak\r\n", OUTCOME_SINK_DOWN);
        assert_kind(SMTP_MAIL, "530 5.7.0 authentication required\r\n", OUTCOME_SINK_DOWN);
        assert_kind(SMTP_MAIL, "550 5.7.1 not your address\r\n", OUTCOME_SINK_DOWN);
        assert_kind(SMTP_MAIL, "553 5.1.8 sender\r\n", OUTCOME_SINK_DOWN);
        assert_kind(SMTP_RCPT, "530 5.7.0 authentication required\r\n", OUTCOME_SINK_DOWN);
        assert_kind(SMTP_DATA, "502 5.5.2 unknown\r\n", OUTCOME_SINK_DOWN);
        assert_kind(SMTP_DATA, "504 5.5.4 unknown\r\n", OUTCOME_SINK_DOWN);
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
