/*
 * What an SMTP server's answers mean for one event. Pure: it is fed with what
 * went over the wire and judges at the end.
 *
 * libcurl's own account is too coarse (MAIL, RCPT and DATA refused are all
 * CURLE_SEND_ERROR) and its response code may be that of an earlier command.
 * So the dialogue is followed line by line: the command sent last tells the
 * stage, and a reply counts only when it is complete and answers that command.
 */
#pragma once

#include "pgcourier/outcome.h"

#include <curl/curl.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum smtp_stage {
        SMTP_CONNECT, /* until the greeting is complete */
        SMTP_EHLO,
        SMTP_STARTTLS,
        SMTP_AUTH,
        SMTP_MAIL,
        SMTP_RCPT,
        SMTP_DATA,
        SMTP_CONTENT, /* after the go-ahead: the mail itself and the answer to its final dot */
        SMTP_NOOP,    /* a probe */
};

struct smtp_dialogue {
        enum smtp_stage stage;
        bool is_reused;       /* this attempt speaks on a connection that an earlier one opened */
        bool is_over;         /* QUIT has been sent: what follows is about nothing */
        bool is_content_sent; /* libcurl has taken the last byte of the mail */
        unsigned n_rcpt;      /* recipients named so far */
        int code;             /* of the complete reply to the last command; 0: none yet */
        char words[160];      /* its enhanced code and text */
};

void smtp_dialogue_begin(struct smtp_dialogue *dialogue);
void smtp_dialogue_on_connection(struct smtp_dialogue *dialogue); /* a new one was opened */
void smtp_dialogue_on_sent(struct smtp_dialogue *dialogue, const char *line, size_t length);
void smtp_dialogue_on_received(struct smtp_dialogue *dialogue, const char *line, size_t length);

/* True if an idle connection had gone stale: nothing of the event can have been accepted, and the
 * same attempt may be made once more on a fresh connection. */
bool smtp_should_reconnect(const struct smtp_dialogue *dialogue, CURLcode result);

/* The judgement on a mail. `curl_words` is libcurl's description of `result`. */
struct outcome smtp_mail_outcome(
    const struct smtp_dialogue *dialogue, CURLcode result, const char *curl_words);

/* True if another server may be asked instead: this server takes nothing now, or nothing from
 * us, and the mail itself has not been judged. */
bool smtp_may_try_elsewhere(const struct smtp_dialogue *dialogue, const struct outcome *outcome);

/* The whole mail was sent and nothing was answered: it may have been accepted. */
bool smtp_is_unknown(const struct smtp_dialogue *dialogue, const struct outcome *outcome);

/* What a temporary refusal is about. */
enum smtp_refusal {
        SMTP_REFUSAL_OF_MAIL,    /* this mail, this mailbox; or it is no temporary refusal */
        SMTP_REFUSAL_OF_DOMAIN,  /* others to the same domain would hear the same */
        SMTP_REFUSAL_GREYLISTED, /* so would others, but only once each */
};

/* Of which recipient it speaks says dialogue->n_rcpt while dialogue->stage is SMTP_RCPT. */
enum smtp_refusal smtp_refusal_of(
    const struct smtp_dialogue *dialogue, const struct outcome *outcome);

/* The judgement on a probe: DELIVERED or SINK_DOWN. */
struct outcome smtp_probe_outcome(
    const struct smtp_dialogue *dialogue, CURLcode result, const char *curl_words);

/*
 * The delay that the text of a temporary refusal asks for, as greylisting
 * servers do: "try again in 300 seconds", "retry after 5 minutes". At most an
 * hour; OUTCOME_NO_DELAY if it names none.
 */
int64_t smtp_hinted_delay_ms(const char *words);
