/* Attachments and header lines as an independent reader (Python's email package, in the mail
 * server) gets them, and what is refused before anything is sent. */
#include "base/alloc.h"
#include "base/bytes.h"
#include "config/config.h"
#include "sinks/registry.h"
#include "support/sink_driver.h"
#include "support/smtp_receiver.h"

#include <criterion/criterion.h>
#include <curl/curl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAIL_WITH(members) "{\"to\": \"a@b.c\", \"subject\": \"s\", \"text\": \"t\", " members "}"
#define HTML_MAIL_WITH(members)                                                                    \
        "{\"to\": \"a@b.c\", \"subject\": \"s\", \"text\": \"t\", \"html\": \"<img "               \
        "src='cid:logo'>\", " members "}"

static struct smtp_receiver receiver;
static struct email_config config;
static struct sink_driver driver;

static void prepare(void)
{
        static char from[] = "shop@example.org";

        curl_global_init(CURL_GLOBAL_ALL);
        smtp_receiver_init(&receiver);
        config = (struct email_config){.from = from,
            .url = xasprintf("smtp://127.0.0.1:%u", receiver.port),
            .tls = TLS_AUTO,
            .connect_timeout_ms = 10000,
            .timeout_ms = 20000,
            .max_attachment_bytes = 1000};
        sink_driver_init_for(&driver, sink_kind_find("email"), &config, 1);
}

static void clean_up(void)
{
        sink_driver_deinit(&driver);
        smtp_receiver_deinit(&receiver);
        free(config.url);
        curl_global_cleanup();
}

TestSuite(email_content, .init = prepare, .fini = clean_up, .timeout = 60);

static struct outcome deliver(const char *json)
{
        struct event event = sample_event(1, json);

        return sink_driver_deliver(&driver, &event);
}

/* The mail as it arrived; json_decref() it. Only here the server is started: what is refused must
 * not need one. */
static json_t *delivered(const char *json)
{
        struct outcome outcome;
        json_t *mails;
        json_t *mail;

        smtp_receiver_start(&receiver, NULL);
        outcome = deliver(json);
        cr_assert_eq(outcome.kind, OUTCOME_DELIVERED, "%s: %s", json, outcome.reason);
        mails = smtp_receiver_wait_for(&receiver, 1);
        mail = json_incref(json_array_get(mails, 0));
        json_decref(mails);
        return mail;
}

static void assert_rejected(const char *json, const char *words)
{
        struct outcome outcome = deliver(json);

        cr_assert_eq(outcome.kind, OUTCOME_REJECTED, "%s: %s, %s", json, outcome_name(outcome.kind),
            outcome.reason);
        cr_assert_not_null(
            strstr(outcome.reason, words), "\"%s\" not in: %s", words, outcome.reason);
}

static void expect_part(const json_t *mail, size_t i, const char *expected)
{
        char *part = json_dumps(json_array_get(json_object_get(mail, "parts"), i), JSON_COMPACT);

        cr_expect(part != NULL && strcmp(part, expected) == 0, "part %zu: %s, not %s", i,
            part != NULL ? part : "none", expected);
        free(part);
}

static const char *wire(const json_t *mail)
{
        return json_string_value(json_object_get(mail, "data"));
}

Test(email_content, attaches_files_byte_for_byte)
{
        json_t *mail = delivered(
            MAIL_WITH("\"attachments\": [{\"name\": \"all bytes.bin\", \"type\": "
                      "\"application/octet-stream\", \"data\": \"AAECA/r7/P3+/w==\"}, "
                      "{\"name\": \"empty\", \"type\": \"text/plain\", \"data\": \"\"}]"));

        cr_expect(strncmp(smtp_mail_header(mail, "Content-Type"), "multipart/mixed", 15) == 0);
        expect_part(mail, 0, "[\"text/plain\",\"t\"]");
        expect_part(mail, 1,
            "[\"application/octet-stream\",\"AAECA/r7/P3+/w==\",\"attachment\",\"all "
            "bytes.bin\",null]");
        expect_part(mail, 2, "[\"text/plain\",\"\",\"attachment\",\"empty\",null]");
        cr_expect_eq(json_array_size(json_object_get(mail, "parts")), 3);
        json_decref(mail);
}

Test(email_content, takes_base64_with_the_line_breaks_of_postgresql_and_makes_its_own)
{
        /* 150 letters a in two lines of other lengths than ours. */
        char line[102];
        char *json;
        json_t *mail;
        char *expected;

        memset(line, 'a', 100);
        line[100] = '\0';
        json =
            xasprintf(MAIL_WITH("\"attachments\": [{\"name\": \"a\", \"type\": \"a/b\", \"data\": "
                                "\"%s\\n%.52s\\r\\n\"}]"),
                line, line);
        expected = xasprintf("base64\r\n\r\n%.76s\r\n%.76s\r\n--=_", line, line);
        mail = delivered(json);
        cr_expect_not_null(strstr(wire(mail), expected), "%s", wire(mail));
        json_decref(mail);
        free(expected);
        free(json);
}

Test(email_content, names_files_in_any_language_and_length)
{
        struct bytes json = {0};
        struct bytes expected = {0};
        json_t *mail;

        bytes_append_text(&json, "{\"to\": \"a@b.c\", \"subject\": \"s\", \"text\": \"t\", "
                                 "\"attachments\": [{\"type\": \"a/b\", \"data\": \"\", \"name\": "
                                 "\"Ünï 'x' \\\"q\\\"; *=%41.pdf\"}, {\"type\": \"a/b\", "
                                 "\"data\": \"\", \"name\": \"");
        bytes_append_text(&expected, "[\"a/b\",\"\",\"attachment\",\"");
        for (int i = 0; i < 63; i++) {
                bytes_append_text(&json, "請a");
                bytes_append_text(&expected, "請a");
        }
        bytes_append_text(
            &json, "\"}, {\"type\": \"a/b\", \"data\": \"\", \"name\": \"=?utf-8?q?x?=\"}]}");
        bytes_append_text(&expected, "\",null]");

        mail = delivered(json.data);
        expect_part(mail, 1, "[\"a/b\",\"\",\"attachment\",\"Ünï 'x' \\\"q\\\"; *=%41.pdf\",null]");
        expect_part(mail, 2, expected.data);
        expect_part(mail, 3, "[\"a/b\",\"\",\"attachment\",\"=?utf-8?q?x?=\",null]");
        json_decref(mail);
        bytes_deinit(&json);
        bytes_deinit(&expected);
}

Test(email_content, shows_inline_attachments_within_the_html_text)
{
        json_t *mail = delivered(HTML_MAIL_WITH(
            "\"attachments\": [{\"name\": \"f.txt\", \"type\": \"text/plain\", \"data\": "
            "\"Zg==\"}, {\"name\": \"l.png\", \"type\": \"image/png\", \"data\": \"bA==\", "
            "\"inline_id\": \"logo\"}]"));
        const char *related = strstr(wire(mail), "Content-Type: multipart/related; "
                                                 "type=\"text/html\";\r\n boundary=\"=_r_");

        cr_expect_not_null(related, "%s", wire(mail));
        cr_expect_not_null(strstr(wire(mail), "multipart/mixed"));
        cr_expect_not_null(strstr(wire(mail), "multipart/alternative"));
        expect_part(mail, 0, "[\"text/plain\",\"t\"]");
        expect_part(mail, 1, "[\"text/html\",\"<img src='cid:logo'>\"]");
        expect_part(mail, 2, "[\"image/png\",\"bA==\",\"inline\",\"l.png\",\"<logo>\"]");
        expect_part(mail, 3, "[\"text/plain\",\"Zg==\",\"attachment\",\"f.txt\",null]");
        json_decref(mail);
}

static void assert_bad_attachment(const char *attachment, const char *words)
{
        char *json = xasprintf(HTML_MAIL_WITH("\"attachments\": [%s]"), attachment);

        assert_rejected(json, words);
        free(json);
}

static void assert_bad_data(const char *data)
{
        char *attachment =
            xasprintf("{\"name\": \"n\", \"type\": \"a/b\", \"data\": \"%s\"}", data);

        assert_bad_attachment(attachment, "\"attachments[0].data\": not base64");
        free(attachment);
}

static void assert_bad_type(const char *type, const char *words)
{
        char *attachment = xasprintf("{\"name\": \"n\", \"data\": \"\", \"type\": \"%s\"}", type);

        assert_bad_attachment(attachment, words);
        free(attachment);
}

Test(email_content, refuses_attachments_that_are_not_what_they_should_be)
{
        assert_bad_attachment("7", "\"attachments[0]\": expected an object");
        assert_bad_attachment("{}", "\"attachments[0].name\": required");
        assert_bad_attachment("{\"name\": \"n\"}", "\"attachments[0].type\": required");
        assert_bad_attachment(
            "{\"name\": \"n\", \"type\": \"a/b\"}", "\"attachments[0].data\": required");
        assert_bad_attachment("{\"name\": \"n\", \"url\": \"x\"}",
            "\"attachments[0].url\": unknown; allowed are name, type, data, inline_id");
        assert_bad_attachment("{\"name\": \"../n\"}", "a name is not a path");
        assert_bad_attachment("{\"name\": \"a\\r\\nb\"}", "\"attachments[0].name\": control");
        assert_bad_attachment(
            "{\"name\": \"a \"}", "\"attachments[0].name\": may not begin or end");
        assert_rejected(MAIL_WITH("\"attachments\": {}"), "\"attachments\": expected an array");

        assert_bad_data("A");
        assert_bad_data("AA");
        assert_bad_data("AAA");
        assert_bad_data("AA=");
        assert_bad_data("AB=="); /* bits left over */
        assert_bad_data("AAB=");
        assert_bad_data("A===");
        assert_bad_data("====");
        assert_bad_data("AA==AAAA");
        assert_bad_data("AA AA");
        assert_bad_data("AA-_");
        assert_bad_data("AA\\u00e4A");

        assert_bad_type("", "expected a type such as");
        assert_bad_type("text", "expected a type such as");
        assert_bad_type("/b", "expected a type such as");
        assert_bad_type("a/", "expected a type such as");
        assert_bad_type("a/b/c", "expected a type such as");
        assert_bad_type("a/b; name=x", "expected a type such as");
        assert_bad_type("a/b\\r\\nX: y", "expected a type such as");
        assert_bad_type("Message/rfc822", "cannot be attached");
        assert_bad_type("multipart/mixed", "cannot be attached");
}

#define INLINE(id) "{\"name\": \"n\", \"type\": \"a/b\", \"data\": \"\", \"inline_id\": \"" id "\"}"

Test(email_content, refuses_inline_ids_that_could_not_be_found)
{
        assert_bad_attachment(INLINE(""), "\"attachments[0].inline_id\": expected 1 to 128");
        assert_bad_attachment(
            INLINE("a>\\r\\n"), "\"attachments[0].inline_id\": expected 1 to 128");
        assert_bad_attachment(
            INLINE("a") ", " INLINE("a"), "\"attachments[1].inline_id\": another");
        assert_rejected(MAIL_WITH("\"attachments\": [" INLINE("a") "]"), "needs an HTML text");
}

Test(email_content, bounds_the_number_of_attachments)
{
        struct bytes list = {0};

        for (int i = 0; i < 21; i++)
                bytes_printf(&list, "%s{\"name\": \"n\", \"type\": \"a/b\", \"data\": \"\"}",
                    i > 0 ? ", " : "");
        assert_bad_attachment(list.data, "\"attachments\": at most 20");
        bytes_deinit(&list);
}

/* Two attachments: one of 999 bytes, and one more. */
static char *attachments_of_999_bytes_and(const char *data)
{
        struct bytes json = {0};

        bytes_append_text(&json, "{\"name\": \"n\", \"type\": \"a/b\", \"data\": \"");
        for (int i = 0; i < 333; i++)
                bytes_append_text(&json, "AAAA");
        bytes_printf(&json, "\"}, {\"name\": \"n\", \"type\": \"a/b\", \"data\": \"%s\"}", data);
        return json.data;
}

Test(email_content, bounds_all_attachments_together)
{
        char *too_large = attachments_of_999_bytes_and("AAA=");
        char *just_right = attachments_of_999_bytes_and("AA==");
        char *json = xasprintf(MAIL_WITH("\"attachments\": [%s]"), just_right);

        assert_bad_attachment(too_large,
            "\"attachments[1].data\": the attachments are larger than the sink's "
            "max_attachment_bytes");
        json_decref(delivered(json));
        free(json);
        free(just_right);
        free(too_large);
}

Test(email_content, offers_to_unsubscribe_with_one_click)
{
        char *path = xcalloc(901, 1);
        char *json;
        char *expected;
        json_t *mail;

        memset(path, 'u', 900);
        json =
            xasprintf(MAIL_WITH("\"unsubscribe_url\": \"https://example.org/%s?a=1&b=,;\""), path);
        expected = xasprintf("\r\nList-Unsubscribe: <https://example.org/%s?a=1&b=,;>\r\n"
                             "List-Unsubscribe-Post: List-Unsubscribe=One-Click\r\n",
            path);
        mail = delivered(json);
        cr_expect_not_null(strstr(wire(mail), expected), "%s", wire(mail));
        json_decref(mail);
        free(expected);
        free(json);
        free(path);
}

static void assert_bad_unsubscribe_url(const char *url)
{
        char *json = xasprintf(MAIL_WITH("\"unsubscribe_url\": \"%s\""), url);

        assert_rejected(json, "\"unsubscribe_url\": ");
        free(json);
}

Test(email_content, refuses_urls_that_cannot_unsubscribe)
{
        char *long_url = xcalloc(1100, 1);

        strcpy(long_url, "https://example.org/");
        memset(long_url + strlen(long_url), 'u', 1000);
        assert_bad_unsubscribe_url("http://example.org/");
        assert_bad_unsubscribe_url("mailto:a@b.c");
        assert_bad_unsubscribe_url("https://");
        assert_bad_unsubscribe_url("https://user:secret@example.org/");
        assert_bad_unsubscribe_url("https://example.org/>, <mailto:e@f.g");
        assert_bad_unsubscribe_url("https://example.org/ x");
        assert_bad_unsubscribe_url("https://example.org/\\r\\nBcc: e@f.g");
        assert_bad_unsubscribe_url("https://exämple.org/");
        assert_bad_unsubscribe_url("");
        assert_bad_unsubscribe_url(long_url);
        assert_rejected(MAIL_WITH("\"unsubscribe_url\": 7"), "\"unsubscribe_url\": expected a str");
        free(long_url);
}

Test(email_content, adds_the_headers_that_events_may_set)
{
        char value[901];
        char *json;
        json_t *mail;

        memset(value, 'v', 900);
        value[900] = '\0';
        json = xasprintf(
            MAIL_WITH("\"headers\": {\"X-Long\": \"%s\", \"X-Tag\": \"März =?x?= 支払い\", "
                      "\"x-smtpapi\": \"{\\\"a\\\": 1}\", \"List-Id\": \"News <n.example.org>\", "
                      "\"References\": \"<a@b.c> <d@e.f>\", \"In-Reply-To\": \"<d@e.f>\", "
                      "\"X-Empty\": \"\"}, \"reply_to\": \"help@example.org\""),
            value);
        mail = delivered(json);
        cr_expect_str_eq(smtp_mail_header(mail, "X-Long"), value);
        cr_expect_str_eq(smtp_mail_header(mail, "X-Tag"), "März =?x?= 支払い");
        cr_expect_str_eq(smtp_mail_header(mail, "x-smtpapi"), "{\"a\": 1}");
        cr_expect_str_eq(smtp_mail_header(mail, "List-Id"), "News <n.example.org>");
        cr_expect_str_eq(smtp_mail_header(mail, "References"), "<a@b.c> <d@e.f>");
        cr_expect_str_eq(smtp_mail_header(mail, "In-Reply-To"), "<d@e.f>");
        cr_expect_str_eq(smtp_mail_header(mail, "X-Empty"), "");
        cr_expect_str_eq(smtp_mail_header(mail, "Reply-To"), "help@example.org");
        cr_expect_not_null(strstr(wire(mail), "\r\nReferences: <a@b.c> <d@e.f>\r\n"));
        json_decref(mail);
        free(json);
}

static void assert_bad_header(const char *headers, const char *words)
{
        char *json = xasprintf(MAIL_WITH("\"unsubscribe_url\": null, \"headers\": %s"), headers);

        assert_rejected(json, words);
        free(json);
}

Test(email_content, refuses_all_other_headers_by_name)
{
        static const char *const names[] = {"From", "Sender", "To", "Cc", "Bcc", "bcc", "Subject",
            "Date", "Message-ID", "MIME-Version", "Content-Type", "Auto-Submitted", "Return-Path",
            "DKIM-Signature", "Received", "Resent-To", "X-", "List-", "", "Xa", "X-a b",
            "X-a:", "X-a\\r\\nBcc", "X-\\u00e4", " X-a"};
        char *json;
        char *words;
        char value[1001];

        for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
                json = xasprintf("{\"%s\": \"a@b.c\"}", names[i]);
                assert_bad_header(
                    json, "not allowed; allowed are X-..., List-..., References and ");
                free(json);
        }
        for (size_t i = 0; i < 15; i++) {
                json = xasprintf("{\"%s\": \"a@b.c\"}", names[i]);
                words = xasprintf("payload member \"headers.%s\": ", names[i]);
                assert_bad_header(json, words);
                free(words);
                free(json);
        }
        assert_bad_header("{\"Reply-To\": \"a@b.c\"}", "use the payload's member reply_to");
        assert_bad_header("{\"x-event-id\": \"1\"}", "set by pgcourier");
        assert_bad_header("{\"X-Redriven\": \"1\"}", "set by pgcourier");
        assert_bad_header("{\"X-A\": \"1\", \"x-a\": \"2\"}", "occurs twice");
        assert_bad_header("{\"X-A\": 1}", "\"headers.X-A\": expected a string");
        assert_bad_header("[]", "\"headers\": expected an object");
        assert_bad_header("{\"List-Id\": \"Müller\"}", "only ASCII");
        assert_bad_header("{\"List-Id\": \"=?utf-8?q?x?= <a.b>\"}", "without encoded words");
        assert_bad_header("{\"References\": \"\"}", "may not be empty");
        assert_bad_header("{\"References\": \"<a@b> \"}", "begin or end with a blank");
        memset(value, 'v', 1000);
        value[1000] = '\0';
        json = xasprintf("{\"X-A\": \"%s\"}", value);
        assert_bad_header(json, "at most 998 bytes");
        free(json);
        assert_rejected(MAIL_WITH("\"unsubscribe_url\": \"https://a.b/\", \"headers\": "
                                  "{\"list-unsubscribe\": \"<https://c.d>\"}"),
            "unsubscribe_url already makes this header");
}
