/*
 * What comes of a mail is decided by the table `rules`: the stage that the
 * dialogue had come to, and the reply to its last command.
 */
#include "sinks/email/email_replies.h"

#include "pgcourier/outcome.h"
#include "sinks/curl_fault.h"

#include <ctype.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define FEW_TRIES 5

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

enum meaning {
        WAIT,       /* the server takes nothing now */
        PAUSE,      /* nor will it, until a person changes something */
        TRY_AGAIN,  /* this mail, later */
        TRY_A_FEW,  /* the recipient's fault, or the configuration's */
        UNANSWERED, /* it said nothing, and it may be because of this mail */
        DROP,       /* never this mail */
};

#define AT(stage)  (1u << SMTP_##stage)
#define SETTING_UP (AT(CONNECT) | AT(EHLO) | AT(STARTTLS) | AT(AUTH) | AT(NOOP))
#define ANYWHERE   (SETTING_UP | AT(MAIL) | AT(RCPT) | AT(DATA) | AT(CONTENT))

struct rule {
        unsigned stages;
        int first; /* codes; 0: no complete reply came */
        int last;
        enum meaning meaning;
};

/* The first row that holds the stage and the code decides. */
static const struct rule rules[] = {
    /* Until a recipient is named all mails are alike to the server; from then on it may be this
     * one over which it fails, and that must not stop the others. */
    {SETTING_UP | AT(MAIL), 0, 0, WAIT},
    {AT(RCPT) | AT(DATA) | AT(CONTENT), 0, 0, UNANSWERED},

    {SETTING_UP, 400, 499, WAIT},
    {AT(MAIL) | AT(RCPT) | AT(DATA), 421, 421, WAIT}, /* closing down, or throttling us */
    /* Some servers say 421 to a content they suspect: as WAIT, which costs no attempt, such a mail
     * would stand in the way of all others for ever. 454 is about relaying to this recipient. */
    {AT(MAIL) | AT(RCPT) | AT(DATA) | AT(CONTENT), 400, 499, TRY_AGAIN},

    /* Not talking to us, another dialect, no TLS, wrong user or password. */
    {SETTING_UP, 500, 599, PAUSE},
    {ANYWHERE, 530, 530, PAUSE}, /* a login is wanted, or TLS */
    {ANYWHERE, 534, 535, PAUSE},
    {ANYWHERE, 538, 538, PAUSE},
    /* The sender is the configuration's, so a refusal meets every mail; only the announced size is
     * this one's own. */
    {AT(MAIL), 552, 552, DROP},
    {AT(MAIL), 500, 599, PAUSE},
    {AT(RCPT) | AT(DATA), 500, 500, PAUSE},
    {AT(RCPT) | AT(DATA), 502, 503, PAUSE},
    {AT(RCPT), 504, 504, TRY_A_FEW}, /* "need a fully qualified name": the recipient's, or ours */
    {AT(DATA), 504, 504, PAUSE},
    /* Unknown mailbox, too big, content; even a 500 to the content is about it. */
    {AT(RCPT) | AT(DATA) | AT(CONTENT), 500, 599, DROP},

    /* libcurl gave up although the last reply agreed, or the reply makes no sense. */
    {SETTING_UP | AT(MAIL), 1, 999, WAIT},
    {ANYWHERE, 0, 999, TRY_AGAIN},
};

/* Said by libcurl without a refusal of the server's: what is configured is not to be had. */
static const CURLcode pausing_results[] = {
    CURLE_LOGIN_DENIED,   /* no login method in common */
    CURLE_USE_SSL_FAILED, /* TLS is required and not offered */
    CURLE_SSL_CACERT_BADFILE,
    CURLE_SSL_CERTPROBLEM,
    CURLE_SSL_CIPHER,
    CURLE_URL_MALFORMAT,
    CURLE_UNSUPPORTED_PROTOCOL,
};

static enum meaning judge(const struct smtp_dialogue *dialogue, CURLcode result)
{
        const struct rule *rule = rules;

        if (dialogue->code < 400)
                for (size_t i = 0; i < sizeof pausing_results / sizeof pausing_results[0]; i++)
                        if (pausing_results[i] == result)
                                return PAUSE;
        while (!(rule->stages & 1u << dialogue->stage) || dialogue->code < rule->first ||
               dialogue->code > rule->last)
                rule++;
        return rule->meaning;
}

static enum outcome_kind kind_of(enum meaning meaning)
{
        switch (meaning) {
        case WAIT:
        case PAUSE:
                return OUTCOME_SINK_DOWN;
        case TRY_AGAIN:
        case TRY_A_FEW:
        case UNANSWERED:
                return OUTCOME_RETRY;
        case DROP:
                return OUTCOME_REJECTED;
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

        /* A server may repeat what it was told: of a failed login only the numbers are passed
         * on. */
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

/* Only what was said after the recipient was taken can have arrived. */
static enum outcome_fault fault_of(const struct smtp_dialogue *dialogue, CURLcode result)
{
        int code = dialogue->code;

        if (code == 0)
                return curl_fault(result, dialogue->stage == SMTP_CONTENT);
        if (code >= 400 && code <= 599 &&
            (dialogue->stage == SMTP_AUTH || code == 530 || code == 534 || code == 535 ||
                code == 538))
                return OUTCOME_FAULT_AUTH;
        if (code == 552)
                return OUTCOME_FAULT_TOO_LARGE;
        if (code >= 400 && code <= 599)
                return code < 500 ? OUTCOME_FAULT_SMTP_4XX : OUTCOME_FAULT_SMTP_5XX;
        return result == CURLE_USE_SSL_FAILED || dialogue->stage == SMTP_STARTTLS
                   ? OUTCOME_FAULT_TLS
                   : OUTCOME_FAULT_PROTOCOL;
}

static struct outcome describe(const struct smtp_dialogue *dialogue, enum meaning meaning,
    CURLcode result, const char *curl_words)
{
        enum outcome_kind kind = kind_of(meaning);
        struct outcome outcome;

        if (dialogue->code == 0)
                outcome = describe_silence(dialogue, kind, curl_words);
        else if (dialogue->code >= 400 && dialogue->code <= 599)
                outcome = describe_reply(dialogue, kind);
        else
                outcome = describe_odd_end(dialogue, kind, curl_words);
        outcome.fault = fault_of(dialogue, result);
        outcome.concerns_all = (SETTING_UP & 1u << dialogue->stage) != 0;
        outcome.needs_operator = meaning == PAUSE;
        outcome.is_unanswered = meaning == UNANSWERED;
        outcome.max_attempts = meaning == TRY_A_FEW ? FEW_TRIES : 0;
        if (dialogue->code >= 400 && dialogue->code <= 499)
                outcome.delay_ms = smtp_hinted_delay_ms(dialogue->words);
        return outcome;
}

struct outcome smtp_mail_outcome(
    const struct smtp_dialogue *dialogue, CURLcode result, const char *curl_words)
{
        /* The reply was read before whatever happened afterwards: the mail is theirs. */
        if (dialogue->stage == SMTP_CONTENT && dialogue->code / 100 == 2)
                return outcome_delivered;
        if (dialogue->code < 400 && result == CURLE_ABORTED_BY_CALLBACK)
                return outcome_cancelled;
        return describe(dialogue, judge(dialogue, result), result, curl_words);
}

struct outcome smtp_probe_outcome(
    const struct smtp_dialogue *dialogue, CURLcode result, const char *curl_words)
{
        if (result == CURLE_OK && dialogue->stage == SMTP_NOOP)
                return outcome_delivered;
        return describe(dialogue, judge(dialogue, result), result, curl_words);
}

bool smtp_may_try_elsewhere(const struct smtp_dialogue *dialogue, const struct outcome *outcome)
{
        if (outcome->kind != OUTCOME_SINK_DOWN)
                return false;
        /* What only the operator can mend after the login is about what we send: the sender. */
        return (SETTING_UP & 1u << dialogue->stage) != 0 || !outcome->needs_operator;
}

bool smtp_is_unknown(const struct smtp_dialogue *dialogue, const struct outcome *outcome)
{
        return outcome->kind == OUTCOME_RETRY && dialogue->stage == SMTP_CONTENT &&
               dialogue->is_content_sent && dialogue->code == 0;
}

enum smtp_refusal smtp_refusal_of(
    const struct smtp_dialogue *dialogue, const struct outcome *outcome)
{
        const char *words = dialogue->words;

        if (outcome->kind != OUTCOME_RETRY || dialogue->code < 450 || dialogue->code > 452 ||
            !((AT(RCPT) | AT(DATA) | AT(CONTENT)) & 1u << dialogue->stage))
                return SMTP_REFUSAL_OF_MAIL;
        /* The code for it is 4.7.1, but the most used ones say 4.2.0 or nothing. */
        if (strcasestr(words, "greylist") != NULL || strcasestr(words, "graylist") != NULL ||
            strcasestr(words, "grey-list") != NULL || strcasestr(words, "gray-list") != NULL)
                return SMTP_REFUSAL_GREYLISTED;
        /* 4.7.x: security or policy; others (a mailbox is full, the disk is) are this mail's
         * own. */
        return strncmp(words, "4.7.", 4) == 0 ? SMTP_REFUSAL_OF_DOMAIN : SMTP_REFUSAL_OF_MAIL;
}

/* In words there is no grammar for a delay, so only one shape is trusted: "in" or "after", a
 * number, a unit of time. Any other number in a reply may be anything. */
#define MAX_MS (60 * 60 * INT64_C(1000))

static const struct {
        const char *name;
        int64_t ms;
} units[] = {{"s", 1000}, {"sec", 1000}, {"secs", 1000}, {"second", 1000}, {"seconds", 1000},
    {"min", 60000}, {"mins", 60000}, {"minute", 60000}, {"minutes", 60000}, {"hour", MAX_MS},
    {"hours", MAX_MS}};

static size_t letters(const char *text)
{
        size_t n = 0;

        while (isalpha((unsigned char)text[n]))
                n++;
        return n;
}

static bool is_word(const char *text, size_t length, const char *word)
{
        return length == strlen(word) && strncasecmp(text, word, length) == 0;
}

/* `text` follows "in" or "after". */
static int64_t read_duration_ms(const char *text)
{
        int64_t number = 0;
        size_t length;

        text += strspn(text, " ");
        if (!isdigit((unsigned char)*text))
                return OUTCOME_NO_DELAY;
        for (; isdigit((unsigned char)*text); text++)
                if (number < MAX_MS) /* more digits cannot change the answer */
                        number = number * 10 + (*text - '0');
        text += strspn(text, " ");
        length = letters(text);
        for (size_t i = 0; i < sizeof units / sizeof units[0]; i++)
                if (is_word(text, length, units[i].name))
                        return number < MAX_MS / units[i].ms ? number * units[i].ms : MAX_MS;
        return OUTCOME_NO_DELAY;
}

int64_t smtp_hinted_delay_ms(const char *words)
{
        while (*words != '\0') {
                size_t length = letters(words);

                if (is_word(words, length, "in") || is_word(words, length, "after")) {
                        int64_t delay_ms = read_duration_ms(words + length);
                        if (delay_ms != OUTCOME_NO_DELAY)
                                return delay_ms;
                }
                words += length > 0 ? length : 1;
        }
        return OUTCOME_NO_DELAY;
}
