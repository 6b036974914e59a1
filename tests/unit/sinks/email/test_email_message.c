#include "config/config.h"
#include "sinks/email/email_message.h"
#include "sinks/email/email_mime.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EVENT_ID "018f2b6e-5c1d-7a43-9b0e-2f64a1c7d911"
#define WALL_US  1793620800123456 /* Mon, 2 Nov 2026 12:00:00 UTC */

static struct email_sender sender_from(const char *from)
{
        struct email_config config = {.from = (char *)(uintptr_t)from};
        struct email_sender sender;
        struct error error = {0};

        cr_assert(email_sender_init(&sender, &config, &error), "%s", error.text);
        return sender;
}

static bool build(struct email_message *message, const char *json, struct outcome *rejected)
{
        struct email_sender sender = sender_from("Shop <shop@example.org>");
        struct event event = {
            .event_id = EVENT_ID, .payload = json, .payload_bytes = strlen(json), .is_json = true};
        bool is_valid = email_message_init(message, &sender, &event, WALL_US, rejected);

        email_sender_deinit(&sender);
        return is_valid;
}

static struct email_message built(const char *json)
{
        struct email_message message;
        struct outcome rejected = {0};

        cr_assert(build(&message, json, &rejected), "%s", rejected.reason);
        return message;
}

static void assert_rejected(const char *json, const char *words)
{
        struct email_message message;
        struct outcome rejected = {0};

        cr_assert_not(build(&message, json, &rejected), "accepted: %s", json);
        cr_assert_eq(rejected.kind, OUTCOME_REJECTED);
        cr_assert(strstr(rejected.reason, words) != NULL, "for %s expected \"%s\" in \"%s\"", json,
            words, rejected.reason);
}

static void assert_contains(const struct email_message *message, const char *text)
{
        cr_assert(strstr(message->text.data, text) != NULL, "expected \"%s\" in:\n%s", text,
            message->text.data);
}

Test(email_message, writes_headers_and_text_as_one_plain_part)
{
        struct email_message message =
            built("{\"to\": \"ann@example.com\", \"subject\": \"Paid\", \"text\": \"Thank you.\"}");

        cr_assert_str_eq(message.text.data, "From: \"Shop\"\r\n <shop@example.org>\r\n"
                                            "To: ann@example.com\r\n"
                                            "Subject: Paid\r\n"
                                            "Date: Mon, 2 Nov 2026 12:00:00 +0000\r\n"
                                            "Message-ID: <" EVENT_ID "@example.org>\r\n"
                                            "X-Event-Id: " EVENT_ID "\r\n"
                                            "Auto-Submitted: auto-generated\r\n"
                                            "MIME-Version: 1.0\r\n"
                                            "Content-Type: text/plain; charset=utf-8\r\n"
                                            "Content-Transfer-Encoding: quoted-printable\r\n"
                                            "\r\n"
                                            "Thank you.\r\n");
        cr_assert_eq(message.n_recipients, 1);
        cr_assert_str_eq(message.recipients[0], "ann@example.com");
        email_message_deinit(&message);
}

Test(email_message, puts_text_before_html_in_an_alternative)
{
        struct email_message message = built("{\"to\": \"ann@example.com\", \"subject\": \"s\", "
                                             "\"html\": \"<b>h</b>\", \"text\": \"t\"}");
        const char *plain = strstr(message.text.data, "Content-Type: text/plain");
        const char *html = strstr(message.text.data, "Content-Type: text/html");

        assert_contains(
            &message, "Content-Type: multipart/alternative;\r\n boundary=\"=_" EVENT_ID "\"\r\n");
        cr_assert(plain != NULL && html != NULL && plain < html);
        assert_contains(&message, "\r\n\r\nt\r\n--=_" EVENT_ID "\r\n");
        assert_contains(&message, "\r\n\r\n<b>h</b>\r\n--=_" EVENT_ID "--\r\n");
        email_message_deinit(&message);
}

Test(email_message, keeps_bcc_in_the_envelope_and_names_each_recipient_once)
{
        struct email_message message = built(
            "{\"to\": [\"ann@example.com\", \"Bob <bob@example.com>\"], \"cc\": \"cy@example.com\","
            " \"bcc\": [\"secret@example.com\", \"ann@example.com\"], \"reply_to\": "
            "\"help@example.org\", \"subject\": \"s\", \"html\": \"h\", \"text\": null}");

        cr_assert_eq(message.n_recipients, 4);
        cr_assert_str_eq(message.recipients[1], "bob@example.com");
        cr_assert_str_eq(message.recipients[3], "secret@example.com");
        cr_assert(strstr(message.text.data, "secret") == NULL);
        assert_contains(&message,
            "To: ann@example.com,\r\n \"Bob\"\r\n <bob@example.com>\r\nCc: cy@example.com\r\n");
        assert_contains(&message, "Reply-To: help@example.org\r\n");
        email_message_deinit(&message);
}

Test(email_message, rejects_what_is_not_a_json_object)
{
        struct email_sender sender = sender_from("shop@example.org");
        struct event binary = {.event_id = EVENT_ID, .payload = "", .is_json = false};
        struct email_message message;
        struct outcome rejected = {0};

        cr_assert_not(email_message_init(&message, &sender, &binary, WALL_US, &rejected));
        cr_assert(strstr(rejected.reason, "binary") != NULL);
        email_sender_deinit(&sender);
        assert_rejected("[]", "not a JSON object");
        assert_rejected("\"to\"", "not a JSON object");
        assert_rejected("{\"to\": ", "line 1");
        assert_rejected("{\"subject\": \"a\\u0000b\"}", "NUL");
        assert_rejected("{\"subject\": \"a\\ud800b\"}", "surrogate");
        assert_rejected("{\"to\": \"a@b.c\", \"to\": \"d@e.f\"}", "twice");
}

Test(email_message, names_the_member_that_is_wrong)
{
        assert_rejected("{}", "\"to\": at least one address");
        assert_rejected("{\"to\": []}", "\"to\": at least one address");
        assert_rejected("{\"to\": 1}", "\"to\": expected an address");
        assert_rejected("{\"to\": [\"a@b.c\", null]}", "\"to[1]\": expected an address");
        assert_rejected("{\"to\": \"a@b.c\", \"cc\": {}}", "\"cc\": expected an address");
        assert_rejected("{\"to\": \"a@b.c\"}", "\"subject\": required");
        assert_rejected("{\"to\": \"a@b.c\", \"subject\": 5}", "\"subject\": expected a string");
        assert_rejected("{\"to\": \"a@b.c\", \"subject\": \"s\"}", "\"text\": required");
        assert_rejected(
            "{\"to\": \"a@b.c\", \"subject\": \"s\", \"text\": []}", "\"text\": expected");
        assert_rejected("{\"attachment\": []}", "\"attachment\": unknown; allowed are to,");
}

Test(email_message, rejects_control_characters_in_every_value_that_reaches_the_protocol)
{
        static const char *const values[] = {
            "\\r\\nBcc: evil@example.com", "\\nDATA", "\\u0001", "\\u007f", "\\u0085", "\\u2028"};
        static const char *const members[] = {"to", "cc", "bcc", "reply_to"};
        char json[256];
        char words[64];

        for (size_t v = 0; v < sizeof values / sizeof *values; v++) {
                for (size_t m = 0; m < sizeof members / sizeof *members; m++) {
                        snprintf(json, sizeof json, "{\"%s\": \"a@b.c%s\"}", members[m], values[v]);
                        snprintf(words, sizeof words, "\"%s\": control characters", members[m]);
                        assert_rejected(json, words);
                        snprintf(
                            json, sizeof json, "{\"%s\": \"N%s <a@b.c>\"}", members[m], values[v]);
                        assert_rejected(json, words);
                }
                snprintf(json, sizeof json,
                    "{\"to\": \"a@b.c\", \"text\": \"t\", \"subject\": \"s%s\"}", values[v]);
                assert_rejected(json, "\"subject\": control characters");
        }
}

static void assert_bad_address(const char *address)
{
        struct mailbox mailbox;

        cr_assert(mailbox_parse(address, &mailbox) != NULL, "accepted: %s", address);
}

static void assert_mailbox(const char *text, const char *name, const char *address)
{
        struct mailbox mailbox;
        const char *problem = mailbox_parse(text, &mailbox);

        cr_assert(problem == NULL, "%s: %s", text, problem);
        if (name == NULL)
                cr_assert(mailbox.name == NULL);
        else
                cr_assert_str_eq(mailbox.name, name);
        cr_assert_str_eq(mailbox.address, address);
        mailbox_deinit(&mailbox);
}

Test(email_message, accepts_only_plain_ascii_addresses)
{
        char long_local[128];
        char long_address[400];

        memset(long_local, 'a', 65);
        strcpy(long_local + 65, "@b.c");
        strcpy(long_address, "a@");
        for (int i = 0; i < 64; i++)
                strcat(long_address, "abc.");
        strcat(long_address, "org");
        assert_bad_address("");
        assert_bad_address("a");
        assert_bad_address("@b.c");
        assert_bad_address("a@");
        assert_bad_address("a@b@c");
        assert_bad_address("a b@c.d");
        assert_bad_address("a@b c.d");
        assert_bad_address("<a@b.c");
        assert_bad_address("<a@b.c> SIZE=1");
        assert_bad_address("a@b.c>");
        assert_bad_address("\"a b\"@c.d");
        assert_bad_address("a@b.c, d@e.f");
        assert_bad_address("a@b.c, Dee <d@e.f>");
        assert_bad_address(".a@b.c");
        assert_bad_address("a..b@c.d");
        assert_bad_address("a@-b.c");
        assert_bad_address("a@b-.c");
        assert_bad_address("a@b..c");
        assert_bad_address("a@[127.0.0.1]");
        assert_bad_address("j\xc3\xb6@example.org");
        assert_bad_address("a@ex\xc3\xa4mple.org");
        assert_bad_address("\xff <a@b.c>");
        assert_bad_address("\"open <a@b.c>");
        assert_bad_address("\"ends with \\\" <a@b.c>");
        assert_bad_address(long_local);
        assert_bad_address(long_address);
        long_local[64] = '@';
        strcpy(long_local + 65, "b.c");
        assert_mailbox(long_local, NULL, long_local);
}

Test(email_message, reads_names_with_and_without_quotes)
{
        assert_mailbox("a+b.c'd@x-y.example", NULL, "a+b.c'd@x-y.example");
        assert_mailbox("root@localhost", NULL, "root@localhost");
        assert_mailbox("<a@b.c>", NULL, "a@b.c");
        assert_mailbox("Ann <a@b.c>", "Ann", "a@b.c");
        assert_mailbox("Doe, Ann<a@b.c>", "Doe, Ann", "a@b.c");
        assert_mailbox("\"Doe, \\\"A\\\" <x@y>\" <a@b.c>", "Doe, \"A\" <x@y>", "a@b.c");
        assert_mailbox("J\xc3\xb6rg <a@b.c>", "J\xc3\xb6rg", "a@b.c");
}

static const char *header_of(struct bytes *out, const char *subject)
{
        bytes_clear(out);
        mime_append_text_header(out, "Subject", subject);
        return out->data;
}

Test(email_message, encodes_only_subjects_that_need_it)
{
        struct bytes out = {0};

        cr_assert_str_eq(header_of(&out, "Paid: 5 < 6"), "Subject: Paid: 5 < 6\r\n");
        cr_assert_str_eq(header_of(&out, ""), "Subject: \r\n");
        cr_assert_str_eq(header_of(&out, "\xc3\xa4"), "Subject: =?UTF-8?B?w6Q=?=\r\n");
        cr_assert_str_eq(header_of(&out, " blank"), "Subject: =?UTF-8?B?IGJsYW5r?=\r\n");
        cr_assert_str_eq(header_of(&out, "=?x?="), "Subject: =?UTF-8?B?PT94Pz0=?=\r\n");
        bytes_deinit(&out);
}

Test(email_message, splits_long_subjects_between_characters_into_short_lines)
{
        struct bytes out = {0};
        char subject[1001] = "";
        size_t n_words = 0;

        for (int i = 0; i < 300; i++)
                strcat(subject, "\xe2\x82\xac");
        header_of(&out, subject);

        for (char *line = strtok(out.data, "\r\n"); line != NULL; line = strtok(NULL, "\r\n")) {
                char *word = strstr(line, "=?UTF-8?B?");
                cr_assert_leq(strlen(line), 76);
                cr_assert_leq(strlen(word), 75);
                /* 39 bytes are 13 whole characters, in 52 letters of base64 without padding. */
                cr_assert(strstr(word + 10, "=?=") == NULL);
                n_words++;
        }
        cr_assert_eq(n_words, 24);
        bytes_deinit(&out);
}

static const char *quoted(struct bytes *out, const char *text)
{
        bytes_clear(out);
        mime_append_quoted_printable(out, text);
        return out->data != NULL ? out->data : "";
}

Test(email_message, writes_quoted_printable_that_keeps_every_byte)
{
        struct bytes out = {0};
        char line[3001];

        cr_assert_str_eq(quoted(&out, ""), "");
        cr_assert_str_eq(quoted(&out, "a=b \xc3\xa4\x01\x7f"), "a=3Db =C3=A4=01=7F");
        cr_assert_str_eq(quoted(&out, "a \nb\t\r\n\n\rc "), "a=20\r\nb=09\r\n\r\n\r\nc=20");
        cr_assert_str_eq(quoted(&out, "one\n.\n..two\n"), "one\r\n.\r\n..two\r\n");

        memset(line, 'x', 3000);
        line[3000] = '\0';
        quoted(&out, line);
        for (char *at = strtok(out.data, "\r\n"); at != NULL; at = strtok(NULL, "\r\n"))
                cr_assert_leq(strlen(at), 76);
        bytes_deinit(&out);
}

Test(email_message, refuses_a_sender_it_could_not_send_as)
{
        struct email_config config = {.from = (char[]){"shop@example.org\r\nX: y"}};
        struct email_sender sender;
        struct error error = {0};

        cr_assert_not(email_sender_init(&sender, &config, &error));
        cr_assert(strstr(error.text, "email: from: control characters") != NULL);
        config.from = (char[]){"shop@example.org"};
        config.message_id_domain = (char[]){"exa mple"};
        cr_assert_not(email_sender_init(&sender, &config, &error));
        cr_assert(strstr(error.text, "message_id_domain") != NULL);
        config.message_id_domain = (char[]){"mail.example.net"};
        cr_assert(email_sender_init(&sender, &config, &error));
        cr_assert_str_eq(sender.message_id_domain, "mail.example.net");
        email_sender_deinit(&sender);
}

static void assert_described(const char *json, size_t size, const char *expected)
{
        struct event event = {.payload = json, .payload_bytes = strlen(json), .is_json = true};
        char recipients[200];

        cr_assert(size <= sizeof recipients);
        email_message_describe(&event, recipients, size);
        cr_assert_str_eq(recipients, expected);
}

Test(email_message, names_its_recipients_as_far_as_they_can_be_read)
{
        assert_described("{\"to\": \"a@b.c\"}", 200, "a@b.c");
        assert_described("{\"to\": [\"A <a@b.c>\", 7, \"d@e.f\"], \"cc\": \"g@h.i\", \"bcc\": "
                         "[\"j@k.l\"]}",
            200, "A <a@b.c>, d@e.f, g@h.i, j@k.l");
        assert_described("{\"to\": \"a\\r\\nb\"}", 200, "a??b");
        assert_described("{\"to\": \"M\xc3\xbcller <m@b.c>\"}", 3, "M");
        assert_described("{\"to\": {}}", 200, "");
        assert_described("[]", 200, "");
        assert_described("{", 200, "");
}
