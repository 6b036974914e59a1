/* The email sink against a real SMTP server (aiosmtpd), which keeps what it gets and misbehaves on
 * request; smtp_receiver.py lists what it can be asked for. */
#include "base/alloc.h"
#include "base/error.h"
#include "config/config.h"
#include "sinks/registry.h"
#include "sinks/sink_contract.h"
#include "support/certificate.h"
#include "support/sink_driver.h"
#include "support/smtp_receiver.h"

#include <criterion/criterion.h>
#include <curl/curl.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SIMPLE_MAIL(to) "{\"to\": \"" to "\", \"subject\": \"s\", \"text\": \"t\"}"

static struct smtp_receiver receiver;
static struct email_config config;
static struct sink_driver driver;
static char from[] = "Shop <shop@example.org>";
static int64_t next_event = 1;

static void prepare(void)
{
        curl_global_init(CURL_GLOBAL_ALL);
        smtp_receiver_init(&receiver);
        config = (struct email_config){.from = from,
            .url = xasprintf("smtp://127.0.0.1:%u", receiver.port),
            .tls = TLS_AUTO,
            .max_mails_per_connection = 100,
            .idle_ms = 30000,
            .connect_timeout_ms = 10000,
            .timeout_ms = 20000};
}

static void open_sink(void)
{
        sink_driver_init(&driver, sink_kind_find("email"), &config);
}

static void start(const char *const *options)
{
        smtp_receiver_start(&receiver, options);
        open_sink();
}

static void clean_up(void)
{
        sink_driver_deinit(&driver);
        smtp_receiver_deinit(&receiver);
        free(config.url);
        curl_global_cleanup();
}

TestSuite(email_sink, .init = prepare, .fini = clean_up, .timeout = 60);

static struct outcome deliver(const char *json)
{
        struct event event = sample_event(next_event++, json);

        return sink_driver_deliver(&driver, &event);
}

static void assert_outcome(struct outcome outcome, enum outcome_kind kind, const char *words)
{
        cr_assert_eq(outcome.kind, kind, "expected %s, got %s: %s", outcome_name(kind),
            outcome_name(outcome.kind), outcome.reason);
        cr_assert(strstr(outcome.reason, words) != NULL, "expected \"%s\" in \"%s\"", words,
            outcome.reason);
}

static void assert_delivered(struct outcome outcome)
{
        assert_outcome(outcome, OUTCOME_DELIVERED, "");
}

static const char *part(const json_t *mail, size_t i, size_t column)
{
        return json_string_value(
            json_array_get(json_array_get(json_object_get(mail, "parts"), i), column));
}

static json_int_t connection_of(json_t *mails, size_t i)
{
        return json_integer_value(json_object_get(json_array_get(mails, i), "connection"));
}

static size_t count_mails(void)
{
        json_t *mails = smtp_receiver_mails(&receiver);
        size_t n = json_array_size(mails);

        json_decref(mails);
        return n;
}

Test(email_sink, delivers_envelope_headers_and_both_parts)
{
        json_t *mails;
        json_t *mail;
        char *recipients;

        start(NULL);
        assert_delivered(deliver(
            "{\"to\": [\"Jörg Müller <joerg@example.com>\", \"ann@example.com\"], \"cc\": "
            "\"\\\"Doe, Cy\\\" <cy@example.com>\", \"bcc\": \"secret@example.com\", \"reply_to\": "
            "\"help@example.org\", \"subject\": \"Rechnung für März: 20 € überfällig, "
            "bitte prüfen Sie Ihre Zahlungsmöglichkeiten – 支払い\", \"text\": \"Grüße\", "
            "\"html\": \"<p>Grüße</p>\"}"));

        mails = smtp_receiver_mails(&receiver);
        cr_assert_eq(json_array_size(mails), 1);
        mail = json_array_get(mails, 0);
        recipients = json_dumps(json_object_get(mail, "rcpt_tos"), JSON_COMPACT);
        cr_assert_str_eq(json_string_value(json_object_get(mail, "mail_from")), "shop@example.org");
        cr_assert_str_eq(recipients,
            "[\"joerg@example.com\",\"ann@example.com\",\"cy@example.com\","
            "\"secret@example.com\"]");
        cr_assert_str_eq(smtp_mail_header(mail, "From"), "Shop <shop@example.org>");
        cr_assert_str_eq(
            smtp_mail_header(mail, "To"), "Jörg Müller <joerg@example.com>, ann@example.com");
        cr_assert_str_eq(smtp_mail_header(mail, "Cc"), "\"Doe, Cy\" <cy@example.com>");
        cr_assert_str_eq(smtp_mail_header(mail, "Bcc"), "(missing)");
        cr_assert_str_eq(smtp_mail_header(mail, "Reply-To"), "help@example.org");
        cr_assert_str_eq(smtp_mail_header(mail, "Subject"),
            "Rechnung für März: 20 € überfällig, bitte "
            "prüfen Sie Ihre Zahlungsmöglichkeiten – 支払い");
        cr_assert_str_eq(smtp_mail_header(mail, "Message-ID"),
            "<00000000-0000-4000-8000-000000000001@example.org>");
        cr_assert_str_eq(
            smtp_mail_header(mail, "X-Event-Id"), "00000000-0000-4000-8000-000000000001");
        cr_assert_str_eq(smtp_mail_header(mail, "Auto-Submitted"), "auto-generated");
        cr_assert_str_eq(smtp_mail_header(mail, "MIME-Version"), "1.0");
        cr_assert(strstr(smtp_mail_header(mail, "Date"), " +0000") != NULL);
        cr_assert(
            strncmp(smtp_mail_header(mail, "Content-Type"), "multipart/alternative", 21) == 0);
        cr_assert_eq(json_array_size(json_object_get(mail, "parts")), 2);
        cr_assert_str_eq(part(mail, 0, 0), "text/plain");
        cr_assert_str_eq(part(mail, 0, 1), "Grüße");
        cr_assert_str_eq(part(mail, 1, 0), "text/html");
        cr_assert_str_eq(part(mail, 1, 1), "<p>Grüße</p>");
        cr_assert(strstr(json_string_value(json_object_get(mail, "data")), "secret") == NULL);
        free(recipients);
        json_decref(mails);
}

Test(email_sink, carries_long_lines_leading_dots_and_bare_line_feeds)
{
        char *json;
        char long_line[5001];
        char *expected;
        json_t *mails;

        start(NULL);
        memset(long_line, 'x', 5000);
        long_line[5000] = '\0';
        json = xasprintf("{\"to\": \"a@b.c\", \"subject\": \"s\", \"text\": "
                         "\".\\n..two\\r\\n.\\r\\n\\nFrom me \\n%s\\n.\"}",
            long_line);
        expected = xasprintf(".\r\n..two\r\n.\r\n\r\nFrom me \r\n%s\r\n.\r\n", long_line);

        assert_delivered(deliver(json));
        mails = smtp_receiver_mails(&receiver);
        cr_assert_str_eq(part(json_array_get(mails, 0), 0, 1), expected);

        json_decref(mails);
        free(expected);
        free(json);
}

Test(email_sink, uses_a_connection_again_for_at_most_100_mails)
{
        json_t *mails;

        start(NULL);
        for (int i = 0; i < 102; i++)
                assert_delivered(deliver(SIMPLE_MAIL("a@b.c")));

        mails = smtp_receiver_mails(&receiver);
        cr_assert_eq(connection_of(mails, 0), connection_of(mails, 99));
        cr_assert_neq(connection_of(mails, 99), connection_of(mails, 100));
        cr_assert_eq(connection_of(mails, 100), connection_of(mails, 101));
        cr_assert_eq(smtp_receiver_count_commands(&receiver, "EHLO"), 2);
        json_decref(mails);
}

Test(email_sink, gives_each_mail_the_whole_time_even_on_an_old_connection)
{
        config.timeout_ms = 1500;
        start(NULL);
        for (int i = 0; i < 3; i++)
                assert_delivered(deliver(SIMPLE_MAIL("slow700@b.c")));

        cr_assert_eq(smtp_receiver_count_commands(&receiver, "EHLO"), 1);
}

Test(email_sink, replaces_a_connection_that_went_stale_without_an_attempt)
{
        start((const char *[]){"--second-mail", "421 4.4.2 idle for too long", NULL});
        for (int i = 0; i < 3; i++)
                assert_delivered(deliver(SIMPLE_MAIL("a@b.c")));

        cr_assert_eq(count_mails(), 3);
        cr_assert_eq(smtp_receiver_count_commands(&receiver, "EHLO"), 3);
}

Test(email_sink, replaces_a_connection_that_was_dropped_without_an_attempt)
{
        start((const char *[]){"--second-mail", "drop", NULL});
        for (int i = 0; i < 3; i++)
                assert_delivered(deliver(SIMPLE_MAIL("a@b.c")));

        cr_assert_eq(count_mails(), 3);
        cr_assert_eq(smtp_receiver_count_commands(&receiver, "EHLO"), 3);
}

Test(email_sink, retries_a_greylisted_recipient_with_the_same_message_id)
{
        struct event event = sample_event(77, SIMPLE_MAIL("defer450+2@b.c"));
        json_t *mails;

        start(NULL);
        assert_outcome(sink_driver_deliver(&driver, &event), OUTCOME_RETRY, "450 4.2.0 greylisted");
        assert_outcome(sink_driver_deliver(&driver, &event), OUTCOME_RETRY, "450 4.2.0 greylisted");
        assert_delivered(sink_driver_deliver(&driver, &event));

        mails = smtp_receiver_mails(&receiver);
        cr_assert_eq(json_array_size(mails), 1);
        cr_assert_str_eq(smtp_mail_header(json_array_get(mails, 0), "X-Event-Id"), event.event_id);
        json_decref(mails);
}

Test(email_sink, rejects_the_whole_event_for_one_unknown_recipient)
{
        start(NULL);
        assert_outcome(
            deliver(
                "{\"to\": [\"a@b.c\", \"reject550@b.c\"], \"subject\": \"s\", \"text\": \"t\"}"),
            OUTCOME_REJECTED, "recipient 2 (RCPT): 550 5.1.1 no such mailbox: ask the postmaster");

        cr_assert_eq(count_mails(), 0);
}

Test(email_sink, judges_refusals_by_stage)
{
        start(NULL);
        assert_outcome(deliver(SIMPLE_MAIL("after554@b.c")), OUTCOME_REJECTED, "554 5.6.0 content");
        assert_outcome(deliver(SIMPLE_MAIL("after451@b.c")), OUTCOME_RETRY, "451 5.6.0");
        assert_outcome(deliver(SIMPLE_MAIL("data451@b.c")), OUTCOME_RETRY, "DATA: 451 4.3.0");
        assert_outcome(deliver(SIMPLE_MAIL("data502@b.c")), OUTCOME_SINK_DOWN, "DATA: 502");
        assert_outcome(deliver(SIMPLE_MAIL("defer421@b.c")), OUTCOME_SINK_DOWN, "421");
        assert_outcome(deliver(SIMPLE_MAIL("hangup@b.c")), OUTCOME_RETRY, "recipient 1 (RCPT)");
        assert_outcome(
            deliver(SIMPLE_MAIL("drop@b.c")), OUTCOME_RETRY, "unknown whether it was accepted");
        assert_delivered(deliver(SIMPLE_MAIL("a@b.c")));
}

Test(email_sink, judges_a_greeting_that_sends_it_away)
{
        start((const char *[]){"--greeting", "554 5.7.1 blocked", NULL});
        assert_outcome(
            deliver(SIMPLE_MAIL("a@b.c")), OUTCOME_SINK_DOWN, "greeting: 554 5.7.1 blocked");
}

Test(email_sink, judges_a_refused_sender)
{
        start((const char *[]){"--mail", "550 5.7.1 not you", NULL});
        assert_outcome(deliver(SIMPLE_MAIL("a@b.c")), OUTCOME_SINK_DOWN, "550 5.7.1 not you");
        assert_outcome(deliver(SIMPLE_MAIL("a@b.c")), OUTCOME_SINK_DOWN, "550 5.7.1 not you");
}

Test(email_sink, rejects_a_mail_that_is_too_big_for_the_server)
{
        start((const char *[]){"--max-size", "300", NULL});
        assert_outcome(deliver(SIMPLE_MAIL("a@b.c")), OUTCOME_REJECTED, "552");
}

Test(email_sink, answers_sink_down_until_the_server_is_up)
{
        open_sink();
        assert_outcome(deliver(SIMPLE_MAIL("a@b.c")), OUTCOME_SINK_DOWN, "Connection refused");
        assert_outcome(sink_driver_probe(&driver), OUTCOME_SINK_DOWN, "Connection refused");

        smtp_receiver_start(&receiver, NULL);
        assert_delivered(sink_driver_probe(&driver));
        assert_delivered(deliver(SIMPLE_MAIL("a@b.c")));

        smtp_receiver_kill(&receiver);
        assert_outcome(deliver(SIMPLE_MAIL("a@b.c")), OUTCOME_SINK_DOWN, "Connection refused");

        smtp_receiver_start(&receiver, NULL);
        assert_delivered(deliver(SIMPLE_MAIL("a@b.c")));
        cr_assert_eq(count_mails(), 2);
}

Test(email_sink, answers_sink_down_for_a_name_that_does_not_exist)
{
        free(config.url);
        config.url = xstrdup("smtp://no-such-host.invalid");
        open_sink();
        assert_outcome(deliver(SIMPLE_MAIL("a@b.c")), OUTCOME_SINK_DOWN, "no-such-host.invalid");
}

Test(email_sink, logs_in)
{
        config.user = (char[]){"mailer"};
        config.password = (char[]){"s3cret-w0rd"};
        start((const char *[]){"--auth", "mailer:s3cret-w0rd", "--auth-without-tls", NULL});
        assert_delivered(sink_driver_probe(&driver));
        assert_delivered(deliver(SIMPLE_MAIL("a@b.c")));
}

Test(email_sink, never_tells_the_password_of_a_failed_login)
{
        struct outcome outcome;

        config.user = (char[]){"mailer"};
        config.password = (char[]){"s3cret-w0rd"};
        start((const char *[]){"--auth", "mailer:other", "--auth-without-tls", "--auth-reply",
            "535 5.7.8 {password} is not the password", NULL});
        outcome = deliver(SIMPLE_MAIL("a@b.c"));
        assert_outcome(outcome, OUTCOME_SINK_DOWN, "authentication: 535 5.7.8");
        cr_assert(strstr(outcome.reason, "s3cret") == NULL);
        outcome = sink_driver_probe(&driver);
        assert_outcome(outcome, OUTCOME_SINK_DOWN, "authentication: 535 5.7.8");
        cr_assert(strstr(outcome.reason, "s3cret") == NULL);
        cr_assert_eq(smtp_receiver_count_commands(&receiver, "MAIL"), 0);
}

Test(email_sink, sends_nothing_where_required_tls_is_not_offered)
{
        config.tls = TLS_REQUIRED;
        config.user = (char[]){"mailer"};
        config.password = (char[]){"s3cret-w0rd"};
        start((const char *[]){"--auth", "mailer:s3cret-w0rd", "--auth-without-tls", NULL});
        assert_outcome(deliver(SIMPLE_MAIL("a@b.c")), OUTCOME_SINK_DOWN, "STARTTLS");

        cr_assert_eq(smtp_receiver_count_commands(&receiver, "AUTH"), 0);
        cr_assert_eq(smtp_receiver_count_commands(&receiver, "MAIL"), 0);
}

Test(email_sink, logs_in_within_starttls_under_its_own_authority)
{
        struct certificate made;

        certificate_make(&made, "IP:127.0.0.1");
        config.tls = TLS_REQUIRED;
        config.ca_file = made.path;
        config.user = (char[]){"mailer"};
        config.password = (char[]){"s3cret-w0rd"};
        start((const char *[]){"--auth", "mailer:s3cret-w0rd", "--tls-cert", made.path, "--tls-key",
            made.key_path, "--require-starttls", NULL});
        assert_delivered(sink_driver_probe(&driver));
        assert_delivered(deliver(SIMPLE_MAIL("a@b.c")));
        assert_delivered(deliver(SIMPLE_MAIL("a@b.c")));

        cr_assert_eq(smtp_receiver_count_commands(&receiver, "MAIL"), 2);
        free(made.folder);
}

Test(email_sink, refuses_a_server_whose_authority_it_does_not_know)
{
        struct certificate made;
        struct certificate other;

        certificate_make(&made, "IP:127.0.0.1");
        certificate_make(&other, "IP:127.0.0.1");
        config.tls = TLS_REQUIRED;
        config.ca_file = other.path;
        start((const char *[]){"--tls-cert", made.path, "--tls-key", made.key_path, NULL});
        assert_outcome(deliver(SIMPLE_MAIL("a@b.c")), OUTCOME_SINK_DOWN, "certificate");
        sink_driver_deinit(&driver);
        config.ca_file = NULL;
        open_sink();
        assert_outcome(deliver(SIMPLE_MAIL("a@b.c")), OUTCOME_SINK_DOWN, "certificate");

        cr_assert_eq(smtp_receiver_count_commands(&receiver, "MAIL"), 0);
        free(made.folder);
        free(other.folder);
}

Test(email_sink, refuses_a_server_whose_certificate_names_another)
{
        struct certificate made;

        certificate_make(&made, "DNS:mail.example.org");
        config.tls = TLS_REQUIRED;
        config.ca_file = made.path;
        start((const char *[]){"--tls-cert", made.path, "--tls-key", made.key_path, NULL});
        assert_outcome(deliver(SIMPLE_MAIL("a@b.c")), OUTCOME_SINK_DOWN, "certificate");

        cr_assert_eq(smtp_receiver_count_commands(&receiver, "MAIL"), 0);
        free(made.folder);
}

Test(email_sink, speaks_tls_from_the_start_with_smtps)
{
        struct certificate made;

        certificate_make(&made, "IP:127.0.0.1");
        free(config.url);
        config.url = xasprintf("smtps://127.0.0.1:%u", receiver.port);
        config.ca_file = made.path;
        start((const char *[]){
            "--implicit-tls", "--tls-cert", made.path, "--tls-key", made.key_path, NULL});
        assert_delivered(deliver(SIMPLE_MAIL("a@b.c")));
        assert_delivered(deliver(SIMPLE_MAIL("a@b.c")));

        cr_assert_eq(smtp_receiver_count_commands(&receiver, "EHLO"), 1);
        free(made.folder);
}

Test(email_sink, puts_no_injected_line_on_the_wire)
{
        static const char *const payloads[] = {
            "{\"to\": \"a@b.c>\\r\\nRCPT TO:<e@f.g\", \"subject\": \"s\", \"text\": \"t\"}",
            "{\"to\": \"a@b.c\\nDATA\", \"subject\": \"s\", \"text\": \"t\"}",
            "{\"to\": \"A\\r\\nBcc: e@f.g <a@b.c>\", \"subject\": \"s\", \"text\": \"t\"}",
            "{\"to\": \"a@b.c\", \"cc\": \"a@b.c\\r\\nX: y\", \"subject\": \"s\", \"text\": \"t\"}",
            "{\"to\": \"a@b.c\", \"bcc\": \"a@b.c\\rX\", \"subject\": \"s\", \"text\": \"t\"}",
            "{\"to\": \"a@b.c\", \"reply_to\": \"A\\n <a@b.c>\", \"subject\": \"s\", \"text\": "
            "\"t\"}",
            "{\"to\": \"a@b.c\", \"subject\": \"s\\r\\nBcc: e@f.g\", \"text\": \"t\"}",
            "{\"to\": \"a@b.c\", \"subject\": \"s\\u0000\", \"text\": \"t\"}",
            "{\"to\": \"a@b.c\", \"subject\": \"s\", \"text\": \"t\", \"headers\": {\"X\": \"y\"}}",
        };

        start(NULL);
        for (size_t i = 0; i < sizeof payloads / sizeof *payloads; i++)
                assert_outcome(deliver(payloads[i]), OUTCOME_REJECTED, "payload");

        cr_assert_eq(smtp_receiver_count_commands(&receiver, ""), 0);
        /* In a body, line ends and dots are only text. */
        assert_delivered(deliver("{\"to\": \"a@b.c\", \"subject\": \"s\", \"text\": "
                                 "\"\\r\\n.\\r\\nMAIL FROM:<e@f.g>\"}"));
        cr_assert_eq(smtp_receiver_count_commands(&receiver, "MAIL"), 1);
}

static void on_tick(uv_timer_t *timer)
{
        (*(unsigned *)timer->data)++;
}

static bool has_ticked_often(void *context)
{
        return *(unsigned *)context >= 50;
}

static bool is_content_sent(void *context)
{
        return smtp_receiver_count_commands(&receiver, "DATA") >= *(unsigned *)context;
}

Test(email_sink, leaves_the_loop_free_while_the_server_thinks)
{
        struct event event = sample_event(1, SIMPLE_MAIL("slow2000@b.c"));
        unsigned n_data = 2;
        unsigned n_ticks = 0;
        uv_timer_t schedule_timer;

        start(NULL);
        /* Two at a time: the second need not wait for the first. */
        sink_driver_start(&driver, &event);
        sink_driver_start(&driver, &event);
        sink_driver_run_until(&driver, is_content_sent, &n_data, "the content at the server");
        uv_timer_init(&driver.loop, &schedule_timer);
        schedule_timer.data = &n_ticks;
        uv_timer_start(&schedule_timer, on_tick, 1, 1);
        sink_driver_run_until(&driver, has_ticked_often, &n_ticks, "ticks");

        cr_assert_eq(driver.n_finished, 0);
        uv_close((uv_handle_t *)&schedule_timer, NULL);
        sink_driver_finish(&driver);
        assert_delivered(driver.attempts[0].outcome);
        assert_delivered(driver.attempts[1].outcome);
}

Test(email_sink, gives_up_a_slow_mail_when_cancelled_and_stays_usable)
{
        struct event event = sample_event(1, SIMPLE_MAIL("slow25000@b.c"));
        unsigned n_data = 1;

        start(NULL);
        sink_driver_start(&driver, &event);
        sink_driver_run_until(&driver, is_content_sent, &n_data, "the content at the server");
        sink_cancel(driver.sink);
        sink_driver_finish(&driver);

        assert_outcome(driver.attempts[0].outcome, OUTCOME_CANCELLED, "");
        assert_delivered(deliver(SIMPLE_MAIL("a@b.c")));
}

static void occupy(uv_work_t *work)
{
        sem_wait(work->data);
}

static void on_occupied(uv_work_t *work, int status)
{
        (void)work;
        (void)status;
}

static void release(uv_timer_t *timer)
{
        for (int i = 0; i < 4; i++)
                sem_post(timer->data);
        uv_close((uv_handle_t *)timer, NULL);
}

Test(email_sink, cancels_a_waiting_mail_without_a_word_to_the_server)
{
        struct event event = sample_event(1, SIMPLE_MAIL("a@b.c"));
        uv_work_t occupants[4];
        uv_timer_t releaser;
        sem_t gate;

        start(NULL);
        sem_init(&gate, 0, 0);
        for (int i = 0; i < 4; i++) {
                occupants[i].data = &gate;
                uv_queue_work(&driver.loop, &occupants[i], occupy, on_occupied);
        }
        sink_driver_start(&driver, &event);
        sink_cancel(driver.sink);
        sink_driver_finish(&driver);

        assert_outcome(driver.attempts[0].outcome, OUTCOME_CANCELLED, "");
        uv_timer_init(&driver.loop, &releaser);
        releaser.data = &gate;
        uv_timer_start(&releaser, release, 0, 0);
        assert_delivered(deliver(SIMPLE_MAIL("a@b.c")));
        cr_assert_eq(count_mails(), 1);
}

Test(email_sink, reports_an_unknown_arrival_after_a_timeout)
{
        config.timeout_ms = 800;
        start(NULL);
        assert_outcome(deliver(SIMPLE_MAIL("slow20000@b.c")), OUTCOME_RETRY, "unknown whether");
        assert_delivered(deliver(SIMPLE_MAIL("a@b.c")));
}

/* On a kept connection, where a mail that is not yet under way would be sent again at once. */
Test(email_sink, sends_a_mail_that_was_not_answered_again_only_in_the_next_attempt)
{
        struct event event = sample_event(78, SIMPLE_MAIL("drop@b.c"));
        json_t *mails;

        start(NULL);
        assert_delivered(deliver(SIMPLE_MAIL("a@b.c")));
        assert_outcome(sink_driver_deliver(&driver, &event), OUTCOME_RETRY, "unknown whether");
        cr_assert_eq(count_mails(), 2);
        assert_outcome(sink_driver_deliver(&driver, &event), OUTCOME_RETRY, "unknown whether");

        mails = smtp_receiver_mails(&receiver);
        cr_assert_eq(json_array_size(mails), 3);
        cr_assert_eq(connection_of(mails, 1), connection_of(mails, 0));
        cr_assert_str_eq(smtp_mail_header(json_array_get(mails, 1), "Message-ID"),
            smtp_mail_header(json_array_get(mails, 2), "Message-ID"));
        cr_assert_str_neq(smtp_mail_header(json_array_get(mails, 0), "Message-ID"),
            smtp_mail_header(json_array_get(mails, 1), "Message-ID"));
        cr_assert_str_eq(smtp_mail_header(json_array_get(mails, 2), "X-Event-Id"), event.event_id);
        json_decref(mails);
}

struct farewell {
        uv_loop_t *loop;
        bool is_closed;
        unsigned n_handles_left;
};

static void count_handle(uv_handle_t *handle, void *owner)
{
        (void)handle;
        ((struct farewell *)owner)->n_handles_left++;
}

static void on_closed(void *owner)
{
        struct farewell *farewell = owner;

        farewell->is_closed = true;
        uv_walk(farewell->loop, count_handle, farewell);
}

Test(email_sink, says_that_it_is_closed_after_its_last_handle_has_gone)
{
        struct error error = {0};
        uv_loop_t loop;
        struct farewell farewell = {.loop = &loop};
        struct sink *sink;

        open_sink();
        uv_loop_init(&loop);
        sink = sink_kind_find("email")->open(
            &(struct sink_settings){.name = "closed", .options = &config, .loop = &loop}, &error);
        cr_assert_not_null(sink);
        sink_close(sink, on_closed, &farewell);
        cr_assert_not(farewell.is_closed);
        uv_run(&loop, UV_RUN_DEFAULT);

        cr_assert(farewell.is_closed);
        cr_assert_eq(farewell.n_handles_left, 0);
        cr_assert_eq(uv_loop_close(&loop), 0);
}

Test(email_sink, refuses_a_probe_while_an_attempt_is_in_flight, .signal = SIGABRT)
{
        struct event event = sample_event(1, SIMPLE_MAIL("a@b.c"));

        open_sink();
        sink_driver_start(&driver, &event);
        sink_probe(driver.sink, NULL, NULL);
}
