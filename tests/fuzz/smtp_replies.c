/*
 * A dialogue as lines: "C MAIL FROM:..." is sent, "S 250 ok" received. The
 * first line holds libcurl's verdict (two bytes) and whether the connection is
 * an old one. A line "C @..." is the password at an AUTH.
 */
#include "sinks/email/email_replies.h"

#include "base/alloc.h"
#include "fuzz.h"

#include <stdlib.h>
#include <string.h>

#define HOUR_MS (INT64_C(60) * 60 * 1000)

static void check_outcome(const struct smtp_dialogue *dialogue, const struct outcome *outcome)
{
        fuzz_require_outcome(outcome);
        fuzz_require(outcome->delay_ms <= HOUR_MS, "a server delays by an hour at most", "");
        fuzz_require(!outcome->needs_operator || outcome->kind == OUTCOME_SINK_DOWN,
            "an operator is asked for when the sink is down", outcome->reason);
        fuzz_require(outcome->kind != OUTCOME_REJECTED || dialogue->code >= 500,
            "only a 5xx rejects", outcome->reason);
        fuzz_require(!smtp_is_unknown(dialogue, outcome) || dialogue->stage == SMTP_CONTENT,
            "unknown is a mail that was sent", outcome->reason);
        if (smtp_refusal_of(dialogue, outcome) != SMTP_REFUSAL_OF_MAIL)
                fuzz_require(
                    outcome->kind == OUTCOME_RETRY, "a refusal is temporary", outcome->reason);
        (void)smtp_may_try_elsewhere(dialogue, outcome);
}

static void check_end(const struct smtp_dialogue *dialogue, CURLcode result, bool has_accepted)
{
        const struct outcome mail = smtp_mail_outcome(dialogue, result, "it ended");
        const struct outcome probe = smtp_probe_outcome(dialogue, result, "it ended");

        check_outcome(dialogue, &mail);
        fuzz_require(mail.kind != OUTCOME_DELIVERED || has_accepted,
            "only a 2xx behind a 354 delivers", mail.reason);
        if (dialogue->stage == SMTP_AUTH)
                fuzz_require(strstr(mail.reason, "swordfish") == NULL &&
                                 strstr(probe.reason, "swordfish") == NULL,
                    "what is said at a login is not repeated", mail.reason);
        fuzz_require_outcome(&probe);
        fuzz_require(probe.kind == OUTCOME_DELIVERED || probe.kind == OUTCOME_SINK_DOWN ||
                         dialogue->stage >= SMTP_MAIL,
            "a probe reaches the server or not", probe.reason);
        if (smtp_should_reconnect(dialogue, result))
                fuzz_require(dialogue->stage != SMTP_CONTENT, "no mail is sent twice", "");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        struct fuzz_input input = {data, size};
        CURLcode result = (CURLcode)(fuzz_take_byte(&input) % CURL_LAST);
        unsigned switches = fuzz_take_byte(&input);
        const char *at = (const char *)input.data;
        const char *end = at + input.size;
        struct smtp_dialogue dialogue;
        bool has_go_ahead = false;
        bool has_accepted = false;
        char *text;

        smtp_dialogue_begin(&dialogue);
        if ((switches & 1) == 0)
                smtp_dialogue_on_connection(&dialogue);
        while (at < end) {
                const char *line_end = memchr(at, '\n', (size_t)(end - at));
                size_t length = (size_t)((line_end != NULL ? line_end + 1 : end) - at);
                char *line = xmalloc(length); /* without NUL, as from libcurl */
                size_t skipped = length > 2 ? 2 : length;

                memcpy(line, at, length);
                if (line[0] == 'C') {
                        smtp_dialogue_on_sent(&dialogue, line + skipped, length - skipped);
                } else {
                        has_accepted |= has_go_ahead && length > 2 && line[2] == '2';
                        has_go_ahead |= length > 5 && memcmp(line + 2, "354", 3) == 0;
                        smtp_dialogue_on_received(&dialogue, line + skipped, length - skipped);
                }
                free(line);
                at += length;
        }
        dialogue.is_content_sent = (switches & 2) != 0;
        check_end(&dialogue, result, has_accepted);
        text = fuzz_take_rest(&input, &size);
        fuzz_require(
            smtp_hinted_delay_ms(text) <= HOUR_MS && smtp_hinted_delay_ms(text) >= OUTCOME_NO_DELAY,
            "a hint is an hour at most", text);
        free(text);
        return 0;
}
