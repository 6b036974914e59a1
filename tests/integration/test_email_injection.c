/*
 * Hostile values in every place of a payload, against a real SMTP server that keeps each byte it
 * is sent. Each payload is either refused, or delivered with the value as it was; and whatever it
 * was, the dialogue has no command, no recipient and no header line that we did not mean.
 */
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

#define RECIPIENT "safe@example.com"

/* As they stand in JSON. */
static const char *const hostile[] = {"\\r\\nBcc: evil@example.com", "\\nBcc: evil@example.com",
    "\\rBcc: evil@example.com", "\\r\\n\\r\\nA body", "\\nDATA\\n.\\n",
    "\\r\\n.\\r\\nMAIL FROM:<evil@example.com>\\r\\n", ">\\r\\nRCPT TO:<evil@example.com",
    "\\nRCPT TO:<evil@example.com>", "> SIZE=1", ">, <evil@example.com", ", evil@example.com",
    " evil@example.com", "\\\" <evil@example.com>, \\\"", "\\u0000", "\\u0001", "\\t", "\\u007f",
    "\\u0085", "\\u2028Bcc: evil@example.com", "\\ud800", "\\udc00\\ud800", "\\ufffe\\uffff",
    "=?utf-8?q?=0D=0ABcc:_evil@example.com?=", ".", "..", "\\n.", "\\n.\\r\\n", "\\n..\\n",
    "\\n\\n--=_00000000-0000-4000-8000-000000000001--\\n\\n", "(", "\\\\", "%s%n", "; x=y", "'",
    "ä€𝄞", " "};

/* Where they are put, and where the mail must show them again: a header, or a column of a part. */
static const struct place {
        const char *json;   /* with one %s */
        const char *header; /* that is "v" and the value, or NULL */
        int part;           /* the part, or -1 */
        int column;         /* of that part */
} places[] = {
    {"{\"to\": \"" RECIPIENT "%s\", \"subject\": \"s\", \"text\": \"t\"}", NULL, -1, 0},
    {"{\"to\": \"%s" RECIPIENT "\", \"subject\": \"s\", \"text\": \"t\"}", NULL, -1, 0},
    {"{\"to\": \"v%s <" RECIPIENT ">\", \"subject\": \"s\", \"text\": \"t\"}", NULL, -1, 0},
    {"{\"to\": \"\\\"v%s\\\" <" RECIPIENT ">\", \"subject\": \"s\", \"text\": \"t\"}", NULL, -1, 0},
    {"{\"to\": \"" RECIPIENT "\", \"cc\": [\"" RECIPIENT "%s\"], \"subject\": \"s\", \"text\": "
     "\"t\"}",
        NULL, -1, 0},
    {"{\"to\": \"" RECIPIENT "\", \"bcc\": \"v%s <" RECIPIENT ">\", \"subject\": \"s\", \"text\": "
     "\"t\"}",
        NULL, -1, 0},
    {"{\"to\": \"" RECIPIENT "\", \"reply_to\": \"v%s <" RECIPIENT ">\", \"subject\": \"s\", "
     "\"text\": \"t\"}",
        NULL, -1, 0},
    {"{\"to\": \"" RECIPIENT "\", \"subject\": \"v%s\", \"text\": \"t\"}", "Subject", -1, 0},
    {"{\"to\": \"" RECIPIENT "\", \"subject\": \"s\", \"text\": \"v%s\"}", NULL, 0, 1},
    {"{\"to\": \"" RECIPIENT "\", \"subject\": \"s\", \"text\": \"t\", \"html\": \"v%s\"}", NULL, 1,
        1},
    {"{\"to\": \"" RECIPIENT "\", \"template\": \"t\", \"data\": {\"x\": \"%s\"}}", "Subject", -1,
        0},
    {"{\"to\": \"" RECIPIENT "\", \"template\": \"b\", \"data\": {\"x\": \"%s\"}}", NULL, 0, 1},
    {"{\"to\": \"" RECIPIENT "\", \"template\": \"t%s\", \"data\": {\"x\": \"\"}}", NULL, -1, 0},
    {"{\"to\": \"" RECIPIENT "\", \"subject\": \"s\", \"text\": \"t\", \"headers\": {\"X-V\": "
     "\"v%s\"}}",
        "X-V", -1, 0},
    {"{\"to\": \"" RECIPIENT "\", \"subject\": \"s\", \"text\": \"t\", \"headers\": "
     "{\"References\": \"v%s\"}}",
        "References", -1, 0},
    {"{\"to\": \"" RECIPIENT "\", \"subject\": \"s\", \"text\": \"t\", \"headers\": {\"X-V%s\": "
     "\"v\"}}",
        NULL, -1, 0},
    {"{\"to\": \"" RECIPIENT "\", \"subject\": \"s\", \"text\": \"t\", \"unsubscribe_url\": "
     "\"https://example.com/%s\"}",
        NULL, -1, 0},
    {"{\"to\": \"" RECIPIENT "\", \"subject\": \"s\", \"text\": \"t\", \"attachments\": "
     "[{\"name\": \"v%s\", \"type\": \"a/b\", \"data\": \"\"}]}",
        NULL, 1, 3},
    {"{\"to\": \"" RECIPIENT "\", \"subject\": \"s\", \"text\": \"t\", \"attachments\": "
     "[{\"name\": \"n\", \"type\": \"a/b%s\", \"data\": \"\"}]}",
        NULL, -1, 0},
    {"{\"to\": \"" RECIPIENT "\", \"subject\": \"s\", \"text\": \"t\", \"attachments\": "
     "[{\"name\": \"n\", \"type\": \"a/b\", \"data\": \"AAAA%s\"}]}",
        NULL, -1, 0},
    {"{\"to\": \"" RECIPIENT "\", \"subject\": \"s\", \"html\": \"h\", \"attachments\": "
     "[{\"name\": \"n\", \"type\": \"a/b\", \"data\": \"\", \"inline_id\": \"v%s\"}]}",
        NULL, -1, 0},
};

#define BEFORE_ADDRESS (&places[1])

#define N_HOSTILE (sizeof hostile / sizeof *hostile)
#define N_PLACES  (sizeof places / sizeof *places)

static struct smtp_receiver receiver;
static struct email_config config;
static struct sink_driver driver;
static char *raw_path;

static void write_template(const char *folder, const char *name, const char *text)
{
        char *path = xasprintf("%s/%s", folder, name);
        FILE *file = fopen(path, "w");

        cr_assert(file != NULL && fputs(text, file) >= 0 && fclose(file) == 0);
        free(path);
}

static void prepare(void)
{
        static char from[] = "shop@example.org";

        curl_global_init(CURL_GLOBAL_ALL);
        smtp_receiver_init(&receiver);
        raw_path = xasprintf("%s.raw", receiver.mailbox);
        smtp_receiver_start(&receiver, (const char *[]){"--raw", raw_path, NULL});
        config = (struct email_config){.from = from,
            .url = xasprintf("smtp://127.0.0.1:%u", receiver.port),
            .tls = TLS_AUTO,
            .connect_timeout_ms = 10000,
            .timeout_ms = 20000,
            .templates = temp_folder(),
            .max_attachment_bytes = 1000};
        write_template(config.templates, "t.subject", "v{{x}}");
        write_template(config.templates, "t.txt", "t");
        write_template(config.templates, "b.subject", "s");
        write_template(config.templates, "b.txt", "v{{x}}");
        sink_driver_init_for(&driver, sink_kind_find("email"), &config, 1);
}

static void clean_up(void)
{
        sink_driver_deinit(&driver);
        smtp_receiver_deinit(&receiver);
        free(config.templates);
        free(config.url);
        free(raw_path);
        curl_global_cleanup();
}

TestSuite(email_injection, .init = prepare, .fini = clean_up, .timeout = 120);

/* Of the characters that a hostile value put before it, some may stand in an address. */
static bool is_recipient(const char *line)
{
        size_t length = strlen(line);
        size_t end = strlen(RECIPIENT ">");

        return strncmp(line, "RCPT TO:<", 9) == 0 && length >= 9 + end &&
               strcmp(line + length - end, RECIPIENT ">") == 0 &&
               strcspn(line + 9, "<> @") == length - 9 - strlen("@example.com>");
}

static bool is_command(const char *line)
{
        static const char *const allowed[] = {
            "EHLO ", "MAIL FROM:<shop@example.org>", "RCPT TO:<" RECIPIENT ">", "DATA", "QUIT"};

        if (strncmp(line, allowed[0], 5) == 0)
                return true;
        /* libcurl says how large a mail is. */
        if (strncmp(line, allowed[1], strlen(allowed[1])) == 0)
                return line[strlen(allowed[1])] == '\0' ||
                       strncmp(line + strlen(allowed[1]), " SIZE=", 6) == 0;
        if (is_recipient(line))
                return true;
        for (size_t i = 2; i < sizeof allowed / sizeof *allowed; i++)
                if (strcmp(line, allowed[i]) == 0)
                        return true;
        return false;
}

/* Whatever a mail holds, this is all that a relay on its way has to understand. */
static void expect_ascii(const char *line)
{
        for (const char *at = line; *at != '\0'; at++)
                cr_expect((*at >= ' ' && *at <= '~') || *at == '\t', "a byte 0x%02x in: %s",
                    (unsigned char)*at, line);
}

static void expect_header_line(const char *line)
{
        static const char *const names[] = {"From: ", "To: ", "Cc: ", "Reply-To: ", "Subject: ",
            "Date: ", "Message-ID: ", "X-Event-Id: ", "X-V",
            "References: ", "List-Unsubscribe: ", "List-Unsubscribe-Post: ", "Auto-Submitted: ",
            "MIME-Version: ", "Content-Type: ", "Content-Transfer-Encoding: ", " "};
        size_t i = 0;

        for (const char *at = line; *at != '\0'; at++)
                cr_expect(
                    *at >= ' ' && *at <= '~', "a byte 0x%02x in: %s", (unsigned char)*at, line);
        while (i < sizeof names / sizeof *names && strncmp(line, names[i], strlen(names[i])) != 0)
                i++;
        cr_expect_lt(i, sizeof names / sizeof *names, "an unknown header line: %s", line);
}

enum part_of_dialogue { IN_COMMANDS, IN_HEADER, IN_BODY };

/* The bytes as the server got them, line by line. Returns how many mails there were. */
static unsigned expect_clean_dialogue(void)
{
        enum part_of_dialogue part = IN_COMMANDS;
        char *raw = read_file(raw_path);
        unsigned n_mails = 0;
        char *end;

        for (char *line = raw; *line != '\0'; line = end + 2) {
                end = strpbrk(line, "\r\n");
                cr_assert(
                    end != NULL && strncmp(end, "\r\n", 2) == 0, "a bare line end in: %s", line);
                *end = '\0';
                cr_expect_leq(strlen(line), 998);
                expect_ascii(line);
                switch (part) {
                case IN_COMMANDS:
                        cr_expect(is_command(line), "an unknown command: %s", line);
                        if (strcmp(line, "DATA") == 0)
                                part = IN_HEADER;
                        break;
                case IN_HEADER:
                        if (*line == '\0')
                                part = IN_BODY;
                        else
                                expect_header_line(line);
                        break;
                case IN_BODY:
                        if (strcmp(line, ".") == 0) {
                                n_mails++;
                                part = IN_COMMANDS;
                        }
                        break;
                }
        }
        free(raw);
        return n_mails;
}

/* "v" and the value, with any line end as CRLF where it is a body. */
static char *expected_text(const char *value, bool is_body)
{
        struct bytes text = {0};

        bytes_append_text(&text, "v");
        for (const char *at = value; *at != '\0'; at++) {
                if (is_body && (*at == '\r' || *at == '\n')) {
                        bytes_append_text(&text, "\r\n");
                        at += *at == '\r' && at[1] == '\n';
                } else {
                        bytes_append(&text, at, 1);
                }
        }
        return text.data;
}

static void expect_faithful(const struct place *place, const char *escaped, const json_t *mail)
{
        char *quoted = xasprintf("\"%s\"", escaped);
        json_t *value = json_loads(quoted, JSON_DECODE_ANY, NULL);
        const json_t *part = json_array_get(json_object_get(mail, "parts"), (size_t)place->part);
        char *expected;
        const char *given;

        cr_assert_not_null(value, "delivered, though it is no text: %s", quoted);
        expected = expected_text(json_string_value(value), place->part >= 0 && place->column == 1);
        if (place->header != NULL || place->part >= 0) {
                given = place->header != NULL
                            ? smtp_mail_header(mail, place->header)
                            : json_string_value(json_array_get(part, (size_t)place->column));
                /* A text that lacks it has a last line end, see RFC 5321. */
                if (place->part == 0 && strncmp(given, expected, strlen(expected)) == 0 &&
                    strcmp(given + strlen(expected), "\r\n") == 0)
                        given = expected;
                cr_expect_str_eq(
                    given, expected, "%s in %s arrived as: %s", escaped, place->json, given);
        }
        json_decref(value);
        free(expected);
        free(quoted);
}

struct tally {
        unsigned n_delivered;
        unsigned n_rejected;
        const struct place *places[N_HOSTILE * N_PLACES]; /* of what was delivered */
        const char *values[N_HOSTILE * N_PLACES];
};

static void deliver(struct tally *tally, const struct place *place, const char *value)
{
        const char *hole = strstr(place->json, "%s");
        char *json = xasprintf("%.*s%s%s", (int)(hole - place->json), place->json, value, hole + 2);
        struct event event = sample_event(1, json);
        struct outcome outcome = sink_driver_deliver(&driver, &event);

        if (outcome.kind == OUTCOME_DELIVERED) {
                tally->places[tally->n_delivered] = place;
                tally->values[tally->n_delivered++] = value;
        } else {
                cr_expect_eq(outcome.kind, OUTCOME_REJECTED, "%s: %s", json, outcome.reason);
                cr_expect_neq(outcome.reason[0], '\0');
                tally->n_rejected++;
        }
        free(json);
}

Test(email_injection, refuses_or_delivers_unchanged_any_hostile_value_in_any_place)
{
        struct tally *tally = xcalloc(1, sizeof *tally);
        json_t *mails;

        for (size_t place = 0; place < N_PLACES; place++)
                for (size_t value = 0; value < N_HOSTILE; value++)
                        deliver(tally, &places[place], hostile[value]);

        cr_expect_eq(expect_clean_dialogue(), tally->n_delivered);
        mails = smtp_receiver_wait_for(&receiver, tally->n_delivered);
        cr_assert_eq(json_array_size(mails), tally->n_delivered);
        for (unsigned i = 0; i < tally->n_delivered; i++) {
                const json_t *mail = json_array_get(mails, i);
                const json_t *recipients = json_object_get(mail, "rcpt_tos");
                char *recipient = xasprintf(
                    "%s" RECIPIENT, tally->places[i] == BEFORE_ADDRESS ? tally->values[i] : "");
                cr_expect_eq(json_array_size(recipients), 1);
                cr_expect_str_eq(json_string_value(json_array_get(recipients, 0)), recipient);
                free(recipient);
                cr_expect_str_eq(smtp_mail_header(mail, "Bcc"), "(missing)");
                expect_faithful(tally->places[i], tally->values[i], mail);
        }
        /* Neither is trivially so. */
        cr_expect_gt(tally->n_delivered, 100);
        cr_expect_gt(tally->n_rejected, 300);
        json_decref(mails);
        free(tally);
}

Test(email_injection, carries_lines_of_any_length_in_short_ones)
{
        struct tally *tally = xcalloc(1, sizeof *tally);
        char *line = xcalloc(4002, 1);
        json_t *mails;

        for (int i = 0; i < 2000; i++)
                strcpy(line + 2 * i, i % 2 == 0 ? "ä" : ". ");
        deliver(tally, &places[8], line);
        deliver(tally, &places[9], line);
        deliver(tally, &places[11], line);
        cr_expect_eq(tally->n_delivered, 3);
        deliver(tally, &places[7], line);
        deliver(tally, &places[13], line);
        deliver(tally, &places[17], line);
        cr_expect_eq(tally->n_rejected, 3);

        cr_expect_eq(expect_clean_dialogue(), 3);
        mails = smtp_receiver_wait_for(&receiver, 3);
        for (unsigned i = 0; i < 3; i++)
                expect_faithful(tally->places[i], tally->values[i], json_array_get(mails, i));
        json_decref(mails);
        free(line);
        free(tally);
}
