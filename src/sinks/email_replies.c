#include "sinks/email_replies.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool begins_with(const char *line, size_t length, const char *word)
{
        return length >= strlen(word) && strncasecmp(line, word, strlen(word)) == 0;
}

static void enter(struct smtp_dialogue *dialogue, enum smtp_stage stage)
{
        dialogue->stage = stage;
        dialogue->code = 0;
        dialogue->words[0] = '\0';
}

void smtp_dialogue_begin(struct smtp_dialogue *dialogue)
{
        *dialogue = (struct smtp_dialogue){.stage = SMTP_CONNECT, .is_reused = true};
}

void smtp_dialogue_on_connection(struct smtp_dialogue *dialogue)
{
        *dialogue = (struct smtp_dialogue){.stage = SMTP_CONNECT};
}

void smtp_dialogue_on_sent(struct smtp_dialogue *dialogue, const char *line, size_t length)
{
        static const struct {
                const char *word;
                enum smtp_stage stage;
        } commands[] = {
            {"EHLO ", SMTP_EHLO},
            {"HELO ", SMTP_EHLO},
            {"STARTTLS", SMTP_STARTTLS},
            {"AUTH ", SMTP_AUTH},
            {"MAIL FROM:", SMTP_MAIL},
            {"RCPT TO:", SMTP_RCPT},
            {"DATA", SMTP_DATA},
            {"NOOP", SMTP_NOOP},
        };

        if (dialogue->is_over)
                return;
        /* What follows a 334 is a secret, whatever it looks like. */
        if (dialogue->stage == SMTP_AUTH && dialogue->code == 334) {
                enter(dialogue, SMTP_AUTH);
                return;
        }
        if (begins_with(line, length, "QUIT")) {
                dialogue->is_over = true;
                return;
        }
        for (size_t i = 0; i < sizeof commands / sizeof commands[0]; i++) {
                if (!begins_with(line, length, commands[i].word))
                        continue;
                enter(dialogue, commands[i].stage);
                if (commands[i].stage == SMTP_RCPT)
                        dialogue->n_rcpt++;
                return;
        }
}

static bool is_digit(char byte)
{
        return byte >= '0' && byte <= '9';
}

/* "5.7.1" at the beginning of a reply's text (RFC 3463): its length, or 0 if there is none. */
static size_t enhanced_code_bytes(const char *words, size_t length)
{
        size_t at = 0;

        if (length < 5 || strchr("245", words[0]) == NULL)
                return 0;
        for (unsigned part = 0; part < 3; part++) {
                size_t start = at;
                while (at < length && is_digit(words[at]))
                        at++;
                if (at == start || at - start > 3)
                        return 0;
                if (part < 2 && (at == length || words[at++] != '.'))
                        return 0;
        }
        return at == length || words[at] == ' ' ? at : 0;
}

/* A reply of several lines repeats its enhanced code in each: once is enough. */
static void add_words(struct smtp_dialogue *dialogue, const char *words, size_t length)
{
        size_t used = strlen(dialogue->words);

        while (length > 0 && (words[length - 1] == '\r' || words[length - 1] == '\n'))
                length--;
        if (used > 0) {
                size_t enhanced = enhanced_code_bytes(words, length);
                words += enhanced;
                length -= enhanced;
        }
        while (length > 0 && *words == ' ') {
                words++;
                length--;
        }
        if (length == 0 || used + 1 >= sizeof dialogue->words)
                return;
        snprintf(dialogue->words + used, sizeof dialogue->words - used, "%s%.*s",
            used > 0 ? " " : "", (int)length, words);
}

void smtp_dialogue_on_received(struct smtp_dialogue *dialogue, const char *line, size_t length)
{
        bool is_last;

        if (dialogue->is_over || length < 4 || !is_digit(line[0]) || !is_digit(line[1]) ||
            !is_digit(line[2]))
                return;
        /* A reply that is already complete is not changed by what comes unasked. */
        if (dialogue->code != 0)
                return;
        is_last = line[3] != '-';
        add_words(dialogue, line + 4, length - 4);
        if (!is_last)
                return;
        dialogue->code = (line[0] - '0') * 100 + (line[1] - '0') * 10 + (line[2] - '0');
        if (dialogue->stage == SMTP_DATA && dialogue->code == 354)
                enter(dialogue, SMTP_CONTENT);
}

bool smtp_should_reconnect(const struct smtp_dialogue *dialogue, CURLcode result)
{
        if (!dialogue->is_reused || (result != CURLE_SEND_ERROR && result != CURLE_RECV_ERROR &&
                                        result != CURLE_GOT_NOTHING))
                return false;
        /* Once the content is on its way the server may have taken it. */
        if (dialogue->stage == SMTP_CONTENT)
                return false;
        return dialogue->code == 0 || dialogue->code == 421;
}

static const char *stage_words(const struct smtp_dialogue *dialogue, char *buffer, size_t bytes)
{
        switch (dialogue->stage) {
        case SMTP_CONNECT:
                return "the server's greeting";
        case SMTP_EHLO:
                return "EHLO";
        case SMTP_STARTTLS:
                return "STARTTLS";
        case SMTP_AUTH:
                return "authentication";
        case SMTP_MAIL:
                return "the sender (MAIL)";
        case SMTP_RCPT:
                snprintf(buffer, bytes, "recipient %u (RCPT)", dialogue->n_rcpt);
                return buffer;
        case SMTP_DATA:
                return "DATA";
        case SMTP_CONTENT:
                return "the mail";
        case SMTP_NOOP:
                return "NOOP";
        }
        abort();
}

/* A command that the server does not know, or not yet: it speaks another dialect than we do. */
static bool is_protocol_reply(int code)
{
        return code == 500 || code == 502 || code == 503 || code == 504;
}

/* The server wants a login, a better one, or TLS: true for every event. */
static bool is_login_reply(int code)
{
        return code == 530 || code == 534 || code == 535 || code == 538;
}

static enum outcome_kind judge_permanent(enum smtp_stage stage, int code)
{
        switch (stage) {
        case SMTP_CONNECT:  /* 554: not talking to us */
        case SMTP_EHLO:     /* dialect */
        case SMTP_STARTTLS: /* no TLS to be had */
        case SMTP_AUTH:     /* wrong user or password */
        case SMTP_NOOP:
                return OUTCOME_SINK_DOWN;
        case SMTP_MAIL:
                /* The sender is the configuration's, so a refusal meets every event; only the
                 * announced size (552) is this event's own. */
                return code == 552 ? OUTCOME_REJECTED : OUTCOME_SINK_DOWN;
        case SMTP_RCPT:
        case SMTP_DATA:
                return is_protocol_reply(code) || is_login_reply(code) ? OUTCOME_SINK_DOWN
                                                                       : OUTCOME_REJECTED;
        case SMTP_CONTENT:
                /* Even a 500 is about this content, such as a line that is too long. */
                return is_login_reply(code) ? OUTCOME_SINK_DOWN : OUTCOME_REJECTED;
        }
        abort();
}

static enum outcome_kind judge_temporary(enum smtp_stage stage, int code)
{
        switch (stage) {
        case SMTP_CONNECT:
        case SMTP_EHLO:
        case SMTP_STARTTLS: /* 454: TLS is out of order */
        case SMTP_AUTH:     /* 454: the user database is */
        case SMTP_NOOP:
                return OUTCOME_SINK_DOWN;
        case SMTP_MAIL:
        case SMTP_RCPT: /* greylisting, full mailbox; 454 here is about relaying to this one */
        case SMTP_DATA:
                /* 421: the server is closing down, or throttles us. */
                return code == 421 ? OUTCOME_SINK_DOWN : OUTCOME_RETRY;
        case SMTP_CONTENT:
                /* Some servers say 421 to a content they suspect. As SINK_DOWN, which costs no
                 * attempt, such a mail would stand in the way of all others for ever. */
                return OUTCOME_RETRY;
        }
        abort();
}

/* No reply came: the connection could not be made, or was lost, or stayed silent too long. */
static enum outcome_kind judge_silence(enum smtp_stage stage)
{
        switch (stage) {
        case SMTP_CONNECT:
        case SMTP_EHLO:
        case SMTP_STARTTLS:
        case SMTP_AUTH:
        case SMTP_MAIL: /* so far all events are alike to the server: it is not this one's fault */
        case SMTP_NOOP:
                return OUTCOME_SINK_DOWN;
        case SMTP_RCPT: /* from here on it may be: a server that fails over one recipient must not */
        case SMTP_DATA:    /* stop the others */
        case SMTP_CONTENT: /* nor can anybody know whether the mail was taken */
                return OUTCOME_RETRY;
        }
        abort();
}

static struct outcome describe_silence(
    const struct smtp_dialogue *dialogue, enum outcome_kind kind, const char *curl_words)
{
        char buffer[48];

        if (dialogue->stage == SMTP_CONTENT)
                return outcome_make(kind, "%s: %s",
                    dialogue->is_content_sent
                        ? "no answer after the mail was sent, unknown whether it was accepted"
                        : "the connection failed while the mail was being sent",
                    curl_words);
        if (dialogue->stage == SMTP_CONNECT)
                return outcome_make(kind, "cannot reach the mail server: %s", curl_words);
        return outcome_make(
            kind, "no answer to %s: %s", stage_words(dialogue, buffer, sizeof buffer), curl_words);
}

static struct outcome describe_reply(const struct smtp_dialogue *dialogue, enum outcome_kind kind)
{
        char buffer[48];
        const char *stage = stage_words(dialogue, buffer, sizeof buffer);
        const char *words = dialogue->words;
        int length = (int)strlen(words);

        /* A server may repeat what it was told: of a failed login only the numbers are passed on. */
        if (dialogue->stage == SMTP_AUTH)
                length = (int)enhanced_code_bytes(words, strlen(words));
        return outcome_make(kind, "the mail server refused %s: %d%s%.*s", stage, dialogue->code,
            length > 0 ? " " : "", length, words);
}

/*
 * libcurl gave up although the last reply agreed with it, or the reply makes
 * no sense: TLS that failed after "220 ready", TLS or a login method that is
 * not offered, a 2xx where 354 was due. libcurl's words say which.
 */
static struct outcome describe_odd_end(
    const struct smtp_dialogue *dialogue, enum outcome_kind kind, const char *curl_words)
{
        char buffer[48];

        return outcome_make(kind, "%s (the last reply, to %s, was %d)", curl_words,
            stage_words(dialogue, buffer, sizeof buffer), dialogue->code);
}

struct outcome smtp_mail_outcome(
    const struct smtp_dialogue *dialogue, CURLcode result, const char *curl_words)
{
        switch (dialogue->code / 100) {
        case 0:
                if (result == CURLE_ABORTED_BY_CALLBACK)
                        return outcome_cancelled;
                return describe_silence(dialogue, judge_silence(dialogue->stage), curl_words);
        case 2:
                /* The reply was read before whatever happened afterwards: the mail is theirs. */
                if (dialogue->stage == SMTP_CONTENT)
                        return outcome_delivered;
                break;
        case 4:
                return describe_reply(dialogue, judge_temporary(dialogue->stage, dialogue->code));
        case 5:
                return describe_reply(dialogue, judge_permanent(dialogue->stage, dialogue->code));
        default:
                break;
        }
        if (result == CURLE_ABORTED_BY_CALLBACK)
                return outcome_cancelled;
        return describe_odd_end(dialogue, judge_silence(dialogue->stage), curl_words);
}

struct outcome smtp_probe_outcome(
    const struct smtp_dialogue *dialogue, CURLcode result, const char *curl_words)
{
        if (result == CURLE_OK && dialogue->stage == SMTP_NOOP)
                return outcome_delivered;
        if (dialogue->code >= 400)
                return describe_reply(dialogue, OUTCOME_SINK_DOWN);
        if (dialogue->code > 0)
                return describe_odd_end(dialogue, OUTCOME_SINK_DOWN, curl_words);
        return describe_silence(dialogue, OUTCOME_SINK_DOWN, curl_words);
}
