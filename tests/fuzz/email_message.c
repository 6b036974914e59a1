/*
 * A payload becomes a mail. Whatever it holds, every line of the mail's head
 * must be one of ours: so the lines are counted, and those that a payload may
 * add (X-..., List-..., References, In-Reply-To) cannot be more than it asked
 * for.
 */
#include "sinks/email/email_message.h"

#include "config/config.h"
#include "fuzz.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define EVENT_ID "018f2b6e-5c1d-7a43-9b0e-2f64a1c7d911"
#define WALL_US  1793620800123456

/* Each once at most; a multipart's parts have heads of their own, which are not looked at. */
static const char *const own_names[] = {"From", "To", "Cc", "Reply-To", "Subject", "Date",
    "Message-ID", "X-Event-Id", "Auto-Submitted", "MIME-Version", "Content-Type",
    "Content-Transfer-Encoding"};
#define N_OWN (sizeof own_names / sizeof own_names[0])

static const char *const boundaries[] = {"--=_" EVENT_ID, "--=_" EVENT_ID "--", "--=_r_" EVENT_ID,
    "--=_r_" EVENT_ID "--", "--=_m_" EVENT_ID, "--=_m_" EVENT_ID "--"};

struct head {
        unsigned n_own[N_OWN];
        unsigned n_added;
};

static bool is_named(const char *line, size_t length, const char *name)
{
        size_t bytes = strlen(name);

        return length > bytes && strncasecmp(line, name, bytes) == 0 && line[bytes] == ':';
}

static void take_head_line(struct head *head, const char *line, size_t length)
{
        if (line[0] == ' ')
                return; /* folded */
        for (size_t i = 0; i < N_OWN; i++)
                if (is_named(line, length, own_names[i])) {
                        head->n_own[i]++;
                        return;
                }
        fuzz_require(strncasecmp(line, "X-", 2) == 0 || strncasecmp(line, "List-", 5) == 0 ||
                         is_named(line, length, "References") ||
                         is_named(line, length, "In-Reply-To"),
            "a payload adds no other header", line);
        head->n_added++;
}

static void check_body_line(const char *line, size_t length)
{
        bool is_boundary = false;

        if (length < 4 || memcmp(line, "--=_", 4) != 0)
                return;
        for (size_t i = 0; i < sizeof boundaries / sizeof boundaries[0]; i++)
                is_boundary |=
                    strlen(boundaries[i]) == length && memcmp(line, boundaries[i], length) == 0;
        fuzz_require(is_boundary, "a payload makes no boundary", line);
}

static void check_text(const struct bytes *text, size_t n_may_add)
{
        struct head head = {0};
        const char *line = text->data;
        const char *end = text->data + text->length;
        bool is_in_head = true;

        while (line < end) {
                const char *line_end = memmem(line, (size_t)(end - line), "\r\n", 2);
                size_t length;

                fuzz_require(line_end != NULL, "every line ends in CRLF", line);
                length = (size_t)(line_end - line);
                fuzz_require(length <= 998, "no line is longer than 998 bytes", line);
                fuzz_require(memchr(line, '\0', length) == NULL &&
                                 memchr(line, '\r', length) == NULL &&
                                 memchr(line, '\n', length) == NULL,
                    "no stray CR, LF or NUL", line);
                if (is_in_head && length == 0)
                        is_in_head = false;
                else if (is_in_head)
                        take_head_line(&head, line, length);
                else
                        check_body_line(line, length);
                line = line_end + 2;
        }
        fuzz_require(!is_in_head, "a head ends", text->data);
        for (size_t i = 0; i < N_OWN; i++)
                fuzz_require(head.n_own[i] <= 1, "each header of ours is there once", own_names[i]);
        fuzz_require(head.n_own[0] == 1 && head.n_own[4] == 1 && head.n_own[7] == 1,
            "From, Subject and X-Event-Id are there", text->data);
        fuzz_require(head.n_added <= n_may_add, "no line is added but those asked for", text->data);
}

static void check_message(const struct email_message *message, const json_t *payload)
{
        size_t n_may_add = json_object_size(json_object_get(payload, "headers")) +
                           (json_is_string(json_object_get(payload, "unsubscribe_url")) ? 2 : 0);

        fuzz_require(message->n_recipients >= 1 && message->n_recipients <= 100,
            "a mail has 1 to 100 recipients", "");
        for (size_t i = 0; i < message->n_recipients; i++) {
                struct mailbox mailbox;

                fuzz_require(strpbrk(message->recipients[i], "<> ") == NULL &&
                                 mailbox_parse(message->recipients[i], &mailbox) == NULL,
                    "the envelope holds bare addresses", message->recipients[i]);
                mailbox_deinit(&mailbox);
        }
        check_text(&message->text, n_may_add);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        static char from[] = "Shop <shop@example.org>";
        const struct email_config config = {.from = from, .max_attachment_bytes = 4096};
        struct fuzz_input input = {data, size};
        struct email_sender sender;
        struct email_message message;
        struct outcome rejected = outcome_delivered;
        struct error error;
        size_t length;
        char *json = fuzz_take_rest(&input, &length);
        const struct event event = {.event_id = EVENT_ID,
            .topic = "mails",
            .payload = json,
            .payload_bytes = length,
            .is_json = true};
        char described[120];

        fuzz_require(email_sender_init(&sender, &config, &error), "the sender is right", "");
        email_message_describe(&event, described, sizeof described);
        fuzz_require(fuzz_is_one_line(described, false), "a description is one line", described);
        if (email_message_init(&message, &sender, &event, WALL_US, &rejected)) {
                json_t *payload = json_loadb(json, length, JSON_ALLOW_NUL, NULL);
                check_message(&message, payload);
                json_decref(payload);
                email_message_deinit(&message);
        } else {
                fuzz_require(
                    rejected.kind == OUTCOME_REJECTED, "what makes no mail is rejected", json);
                fuzz_require_outcome(&rejected);
        }
        email_sender_deinit(&sender);
        free(json);
        return 0;
}
