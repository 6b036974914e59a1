/*
 * The email sink: every answer in the table of the sinks' manual, given by a real SMTP server
 * (aiosmtpd) at each stage. What concerns stale connections is in test_email_sink.c.
 */
#include "base/alloc.h"
#include "config/config.h"
#include "sinks/registry.h"
#include "support/certificate.h"
#include "support/sink_driver.h"
#include "support/smtp_receiver.h"

#include <criterion/criterion.h>
#include <curl/curl.h>
#include <stdlib.h>
#include <string.h>

enum { PAUSED = 1, FEW_TRIES = 2, UNANSWERED = 4 };

static struct smtp_receiver receiver;
static struct email_config config;
static struct sink_driver driver;
static char from[] = "Shop <shop@example.org>";

static void prepare(void)
{
        curl_global_init(CURL_GLOBAL_ALL);
        smtp_receiver_init(&receiver);
        config = (struct email_config){.from = from,
            .url = xasprintf("smtp://127.0.0.1:%u", receiver.port),
            .tls = TLS_AUTO,
            .connect_timeout_ms = 10000,
            .timeout_ms = 20000};
}

static void clean_up(void)
{
        smtp_receiver_deinit(&receiver);
        free(config.url);
        curl_global_cleanup();
}

TestSuite(email_outcomes, .init = prepare, .fini = clean_up, .timeout = 120);

static struct outcome deliver_to(const char *recipient)
{
        char *json =
            xasprintf("{\"to\": \"%s@b.c\", \"subject\": \"s\", \"text\": \"t\"}", recipient);
        struct event event = sample_event(1, json);
        struct outcome outcome = sink_driver_deliver(&driver, &event);

        free(json);
        return outcome;
}

static void expect(const struct outcome *outcome, enum outcome_kind kind, int marks,
    int64_t delay_ms, const char *words)
{
        int got = (outcome->needs_operator ? PAUSED : 0) |
                  (outcome->max_attempts == 5 ? FEW_TRIES : 0) |
                  (outcome->is_unanswered ? UNANSWERED : 0);

        cr_expect_eq(outcome->kind, kind, "%s: %s, not %s", outcome_name(outcome->kind),
            outcome->reason, outcome_name(kind));
        cr_expect_eq(got, marks, "%s has %d", outcome->reason, got);
        cr_expect_eq(outcome->delay_ms, delay_ms, "%s", outcome->reason);
        cr_expect(strstr(outcome->reason, words) != NULL, "expected \"%s\" in \"%s\"", words,
            outcome->reason);
}

/* What a recipient asks the server to do. */
static const struct {
        const char *recipient;
        enum outcome_kind kind;
        int marks;
        int64_t delay_ms;
        const char *words;
} rows[] = {
    {"a", OUTCOME_DELIVERED, 0, OUTCOME_NO_DELAY, ""},

    {"defer421", OUTCOME_SINK_DOWN, 0, OUTCOME_NO_DELAY, "(RCPT): 421"},
    {"defer450", OUTCOME_RETRY, 0, OUTCOME_NO_DELAY, "(RCPT): 450"},
    {"defer451", OUTCOME_RETRY, 0, OUTCOME_NO_DELAY, "(RCPT): 451"},
    {"defer452", OUTCOME_RETRY, 0, OUTCOME_NO_DELAY, "(RCPT): 452"},
    {"grey300", OUTCOME_RETRY, 0, 300000, "(RCPT): 450"},
    {"grey99999", OUTCOME_RETRY, 0, 3600000, "(RCPT): 450"},
    {"hangup", OUTCOME_RETRY, UNANSWERED, OUTCOME_NO_DELAY, "(RCPT)"},
    {"reject550", OUTCOME_REJECTED, 0, OUTCOME_NO_DELAY, "(RCPT): 550"},
    {"reject551", OUTCOME_REJECTED, 0, OUTCOME_NO_DELAY, "(RCPT): 551"},
    {"reject552", OUTCOME_REJECTED, 0, OUTCOME_NO_DELAY, "(RCPT): 552"},
    {"reject553", OUTCOME_REJECTED, 0, OUTCOME_NO_DELAY, "(RCPT): 553"},
    {"reject554", OUTCOME_REJECTED, 0, OUTCOME_NO_DELAY, "(RCPT): 554"},
    {"reject504", OUTCOME_RETRY, FEW_TRIES, OUTCOME_NO_DELAY, "(RCPT): 504"},
    {"reject500", OUTCOME_SINK_DOWN, PAUSED, OUTCOME_NO_DELAY, "(RCPT): 500"},
    {"reject502", OUTCOME_SINK_DOWN, PAUSED, OUTCOME_NO_DELAY, "(RCPT): 502"},
    {"reject503", OUTCOME_SINK_DOWN, PAUSED, OUTCOME_NO_DELAY, "(RCPT): 503"},
    {"reject530", OUTCOME_SINK_DOWN, PAUSED, OUTCOME_NO_DELAY, "(RCPT): 530"},

    {"data0", OUTCOME_RETRY, UNANSWERED, OUTCOME_NO_DELAY, "no answer to DATA"},
    {"data421", OUTCOME_SINK_DOWN, 0, OUTCOME_NO_DELAY, "DATA: 421"},
    {"data451", OUTCOME_RETRY, 0, OUTCOME_NO_DELAY, "DATA: 451"},
    {"data554", OUTCOME_REJECTED, 0, OUTCOME_NO_DELAY, "DATA: 554"},
    {"data500", OUTCOME_SINK_DOWN, PAUSED, OUTCOME_NO_DELAY, "DATA: 500"},
    {"data502", OUTCOME_SINK_DOWN, PAUSED, OUTCOME_NO_DELAY, "DATA: 502"},
    {"data504", OUTCOME_SINK_DOWN, PAUSED, OUTCOME_NO_DELAY, "DATA: 504"},
    {"data250", OUTCOME_RETRY, 0, OUTCOME_NO_DELAY, "DATA, was 250"},

    {"after421", OUTCOME_RETRY, 0, OUTCOME_NO_DELAY, "the mail: 421"},
    {"after452", OUTCOME_RETRY, 0, OUTCOME_NO_DELAY, "the mail: 452"},
    {"after500", OUTCOME_REJECTED, 0, OUTCOME_NO_DELAY, "the mail: 500"},
    {"after535", OUTCOME_SINK_DOWN, PAUSED, OUTCOME_NO_DELAY, "the mail: 535"},
    {"after552", OUTCOME_REJECTED, 0, OUTCOME_NO_DELAY, "the mail: 552"},
    {"after554", OUTCOME_REJECTED, 0, OUTCOME_NO_DELAY, "the mail: 554"},
    {"drop", OUTCOME_RETRY, UNANSWERED, OUTCOME_NO_DELAY, "unknown whether it was accepted"},
    {"slow20000", OUTCOME_RETRY, UNANSWERED, OUTCOME_NO_DELAY, "unknown whether it was accepted"},
    {"b", OUTCOME_DELIVERED, 0, OUTCOME_NO_DELAY, ""},
};

Test(email_outcomes, judges_replies_to_recipients_data_and_content)
{
        config.timeout_ms = 2000;
        smtp_receiver_start(&receiver, NULL);
        sink_driver_init(&driver, sink_kind_find("email"), &config);
        for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
                struct outcome outcome = deliver_to(rows[i].recipient);
                expect(&outcome, rows[i].kind, rows[i].marks, rows[i].delay_ms, rows[i].words);
        }
        sink_driver_deinit(&driver);
}

/* The receiver, so started, says this to any mail; and to a probe, unless it does not get so
 * far. */
static void expect_of(
    const char *const *options, enum outcome_kind kind, int marks, const char *words)
{
        struct outcome outcome;

        smtp_receiver_start(&receiver, options);
        sink_driver_init(&driver, sink_kind_find("email"), &config);
        outcome = deliver_to("a");
        expect(&outcome, kind, marks, OUTCOME_NO_DELAY, words);
        if (strstr(words, "(MAIL)") == NULL && kind == OUTCOME_SINK_DOWN) {
                outcome = sink_driver_probe(&driver);
                expect(&outcome, kind, marks, OUTCOME_NO_DELAY, words);
        }
        sink_driver_deinit(&driver);
        smtp_receiver_stop(&receiver);
}

#define OPTIONS(...) ((const char *const[]){__VA_ARGS__, NULL})

Test(email_outcomes, judges_the_greeting)
{
        expect_of(
            OPTIONS("--greeting", "421 4.3.2 busy"), OUTCOME_SINK_DOWN, 0, "greeting: 421 4.3.2");
        expect_of(OPTIONS("--greeting", "450 later"), OUTCOME_SINK_DOWN, 0, "greeting: 450");
        expect_of(
            OPTIONS("--greeting", "554 5.7.1 no"), OUTCOME_SINK_DOWN, PAUSED, "greeting: 554");
}

Test(email_outcomes, judges_a_server_of_another_dialect)
{
        expect_of(OPTIONS("--ehlo", "421 4.3.2 busy"), OUTCOME_SINK_DOWN, 0, "EHLO: 421");
        expect_of(OPTIONS("--ehlo", "500 5.5.1 what"), OUTCOME_SINK_DOWN, PAUSED, "EHLO: 500");
        expect_of(OPTIONS("--ehlo", "502 5.5.1 what"), OUTCOME_SINK_DOWN, PAUSED, "EHLO: 502");
        expect_of(OPTIONS("--ehlo", "504 5.5.4 who"), OUTCOME_SINK_DOWN, PAUSED, "EHLO: 504");
}

Test(email_outcomes, judges_replies_to_the_sender)
{
        expect_of(OPTIONS("--mail", "421 4.3.2 bye"), OUTCOME_SINK_DOWN, 0, "(MAIL): 421");
        expect_of(OPTIONS("--mail", "450 4.1.0 hm"), OUTCOME_RETRY, 0, "(MAIL): 450");
        expect_of(OPTIONS("--mail", "451 4.7.1 hm"), OUTCOME_RETRY, 0, "(MAIL): 451");
        expect_of(OPTIONS("--mail", "452 4.3.1 full"), OUTCOME_RETRY, 0, "(MAIL): 452");
        expect_of(OPTIONS("--mail", "530 5.7.0 login"), OUTCOME_SINK_DOWN, PAUSED, "(MAIL): 530");
        expect_of(OPTIONS("--mail", "550 5.7.1 no"), OUTCOME_SINK_DOWN, PAUSED, "(MAIL): 550");
        expect_of(OPTIONS("--mail", "553 5.1.8 no"), OUTCOME_SINK_DOWN, PAUSED, "(MAIL): 553");
        expect_of(OPTIONS("--mail", "552 5.3.4 big"), OUTCOME_REJECTED, 0, "(MAIL): 552");
}

Test(email_outcomes, judges_a_login)
{
        config.user = (char[]){"mailer"};
        config.password = (char[]){"s3cret"};
        expect_of(OPTIONS("--auth", "mailer:other", "--auth-without-tls"), OUTCOME_SINK_DOWN,
            PAUSED, "authentication: 535 5.7.8");
        expect_of(OPTIONS("--auth", "mailer:other", "--auth-without-tls", "--auth-reply",
                      "534 5.7.9 too weak"),
            OUTCOME_SINK_DOWN, PAUSED, "authentication: 534 5.7.9");
        expect_of(OPTIONS("--auth", "mailer:other", "--auth-without-tls", "--auth-reply",
                      "454 4.7.0 directory is down"),
            OUTCOME_SINK_DOWN, 0, "authentication: 454 4.7.0");
        /* It offers no login without TLS, and wants one: only the first mail finds out. */
        expect_of(OPTIONS("--auth", "mailer:s3cret"), OUTCOME_SINK_DOWN, PAUSED, "(MAIL): 530");
}

Test(email_outcomes, judges_tls)
{
        struct certificate certificate;

        certificate_make(&certificate, "IP:127.0.0.1");
        config.tls = TLS_REQUIRED;
        config.ca_file = certificate.path;
        expect_of(NULL, OUTCOME_SINK_DOWN, PAUSED, "STARTTLS");
        expect_of(OPTIONS("--tls-cert", certificate.path, "--tls-key", certificate.key_path,
                      "--starttls", "454 4.7.0 not now"),
            OUTCOME_SINK_DOWN, 0, "STARTTLS: 454");
        expect_of(OPTIONS("--tls-cert", certificate.path, "--tls-key", certificate.key_path,
                      "--starttls", "502 5.5.1 no"),
            OUTCOME_SINK_DOWN, PAUSED, "STARTTLS: 502");
        expect_of(OPTIONS("--tls-cert", certificate.path, "--tls-key", certificate.key_path),
            OUTCOME_DELIVERED, 0, "");
        /* It is not authenticated: an attacker may be in between, and may go away. */
        config.ca_file = NULL;
        expect_of(OPTIONS("--tls-cert", certificate.path, "--tls-key", certificate.key_path),
            OUTCOME_SINK_DOWN, 0, "certificate");
        config.ca_file = (char[]){"/nonexistent/ca.pem"};
        expect_of(OPTIONS("--tls-cert", certificate.path, "--tls-key", certificate.key_path),
            OUTCOME_SINK_DOWN, PAUSED, "/nonexistent/ca.pem");
        free(certificate.folder);
}

Test(email_outcomes, is_down_while_no_server_listens)
{
        struct outcome outcome;

        sink_driver_init(&driver, sink_kind_find("email"), &config);
        outcome = deliver_to("a");
        expect(&outcome, OUTCOME_SINK_DOWN, 0, OUTCOME_NO_DELAY, "Connection refused");
        sink_driver_deinit(&driver);
}

Test(email_outcomes, rejects_an_event_that_is_no_mail)
{
        static const char *const payloads[] = {"", "{", "[]", "null", "\"x\"", "{}",
            "{\"to\": \"a@b.c\", \"subject\": \"s\"}",
            "{\"to\": [], \"subject\": \"s\", \"text\": \"t\"}",
            "{\"to\": \"\", \"subject\": \"s\", \"text\": \"t\"}",
            "{\"to\": \"nobody\", \"subject\": \"s\", \"text\": \"t\"}",
            "{\"to\": 7, \"subject\": \"s\", \"text\": \"t\"}",
            "{\"to\": \"a@b.c\", \"subject\": \"s\\u0000\", \"text\": \"t\"}",
            "{\"to\": \"a@b.c\", \"subject\": \"s\", \"text\": \"\\ud800\"}",
            "{\"to\": \"a@b.c\\r\\nRCPT TO:<e@f.g>\", \"subject\": \"s\", \"text\": \"t\"}"};
        struct event event = sample_event(1, "\xff\x00");

        smtp_receiver_start(&receiver, NULL);
        sink_driver_init(&driver, sink_kind_find("email"), &config);
        for (size_t i = 0; i < sizeof payloads / sizeof *payloads; i++) {
                struct event bad = sample_event(1, payloads[i]);
                struct outcome outcome = sink_driver_deliver(&driver, &bad);
                expect(&outcome, OUTCOME_REJECTED, 0, OUTCOME_NO_DELAY, "payload");
        }
        event.is_json = false;
        cr_expect_eq(sink_driver_deliver(&driver, &event).kind, OUTCOME_REJECTED);
        cr_expect_eq(smtp_receiver_count_commands(&receiver, ""), 0);
        sink_driver_deinit(&driver);
}

Test(email_outcomes, marks_redriven_events)
{
        struct event event =
            sample_event(1, "{\"to\": \"a@b.c\", \"subject\": \"s\", \"text\": \"t\"}");
        json_t *mails;

        smtp_receiver_start(&receiver, NULL);
        sink_driver_init(&driver, sink_kind_find("email"), &config);
        sink_driver_deliver(&driver, &event);
        event.is_redriven = true;
        sink_driver_deliver(&driver, &event);

        mails = smtp_receiver_wait_for(&receiver, 2);
        cr_expect(strstr(json_string_value(json_object_get(json_array_get(mails, 0), "data")),
                      "Redriven") == NULL);
        cr_expect(strstr(json_string_value(json_object_get(json_array_get(mails, 1), "data")),
                      "\r\nX-Redriven: true\r\n") != NULL);
        json_decref(mails);
        sink_driver_deinit(&driver);
}
