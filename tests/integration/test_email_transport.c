/*
 * By which mail server and when a mail goes: relays in order, recipient domains that rest, limits
 * of a connection, and that nothing is told to a server that cannot prove who it is. Against real
 * SMTP servers (aiosmtpd).
 */
#include "base/alloc.h"
#include "base/clock.h"
#include "config/config.h"
#include "sinks/registry.h"
#include "support/certificate.h"
#include "support/sink_driver.h"
#include "support/smtp_receiver.h"

#include <criterion/criterion.h>
#include <curl/curl.h>
#include <stdlib.h>
#include <string.h>

#define OPTIONS(...) ((const char *const[]){__VA_ARGS__, NULL})

static struct smtp_receiver first;
static struct smtp_receiver second;
static struct email_relay_config relays[2];
static struct email_config config;
static struct sink_driver driver;
static char from[] = "shop@example.org";
static int64_t next_event = 1;

static void prepare(void)
{
        curl_global_init(CURL_GLOBAL_ALL);
        smtp_receiver_init(&first);
        smtp_receiver_init(&second);
        relays[0].url = xasprintf("smtp://127.0.0.1:%u", first.port);
        relays[1].url = xasprintf("smtp://127.0.0.1:%u", second.port);
        config = (struct email_config){.from = from,
            .relays = relays,
            .n_relays = 2,
            .relay_backoff_ms = 300,
            .max_mails_per_connection = 100,
            .idle_ms = 30000,
            .connect_timeout_ms = 10000,
            .timeout_ms = 20000};
}

static void open_sink(void)
{
        sink_driver_init(&driver, sink_kind_find("email"), &config);
}

static void clean_up(void)
{
        sink_driver_deinit(&driver);
        smtp_receiver_deinit(&first);
        smtp_receiver_deinit(&second);
        free(relays[0].url);
        free(relays[1].url);
        curl_global_cleanup();
}

TestSuite(email_transport, .init = prepare, .fini = clean_up, .timeout = 60);

/* Makes an event of it; the payload is never freed, as an attempt may still borrow it. */
static struct event mail_to(const char *recipient)
{
        return sample_event(next_event++,
            xasprintf("{\"to\": \"%s\", \"subject\": \"s\", \"text\": \"t\"}", recipient));
}

static struct outcome deliver(struct event event)
{
        struct outcome outcome = sink_driver_deliver(&driver, &event);

        free((void *)(uintptr_t)event.payload);
        return outcome;
}

static struct outcome deliver_to(const char *recipient)
{
        return deliver(mail_to(recipient));
}

static void expect(struct outcome outcome, enum outcome_kind kind, const char *words)
{
        cr_expect_eq(outcome.kind, kind, "expected %s, got %s: %s", outcome_name(kind),
            outcome_name(outcome.kind), outcome.reason);
        cr_expect(strstr(outcome.reason, words) != NULL, "expected \"%s\" in \"%s\"", words,
            outcome.reason);
}

static size_t count(const struct smtp_receiver *receiver)
{
        json_t *mails = smtp_receiver_mails(receiver);
        size_t n = json_array_size(mails);

        json_decref(mails);
        return n;
}

Test(email_transport, sends_by_the_first_relay_as_long_as_it_takes_mail)
{
        smtp_receiver_start(&first, NULL);
        smtp_receiver_start(&second, NULL);
        open_sink();
        for (int i = 0; i < 5; i++)
                expect(deliver_to("a@b.example"), OUTCOME_DELIVERED, "");
        cr_expect_eq(count(&first), 5);
        cr_expect_eq(smtp_receiver_count_commands(&second, ""), 0);
}

Test(email_transport, sends_by_the_second_while_the_first_is_down_and_returns_to_it)
{
        smtp_receiver_start(&first, NULL);
        smtp_receiver_start(&second, NULL);
        open_sink();
        expect(deliver_to("a@b.example"), OUTCOME_DELIVERED, "");
        smtp_receiver_kill(&first);
        for (int i = 0; i < 3; i++)
                expect(deliver_to("a@b.example"), OUTCOME_DELIVERED, "");
        cr_expect_eq(count(&second), 3);

        smtp_receiver_start(&first, NULL);
        while (count(&first) == 1)
                expect(deliver_to("a@b.example"), OUTCOME_DELIVERED, "");
        expect(deliver_to("a@b.example"), OUTCOME_DELIVERED, "");
        cr_expect_eq(count(&first), 3);
}

Test(email_transport, leaves_out_a_relay_that_says_it_takes_nothing_now)
{
        config.relay_backoff_ms = 300000;
        smtp_receiver_start(&first, OPTIONS("--mail", "421 4.3.2 too many connections"));
        smtp_receiver_start(&second, NULL);
        open_sink();
        for (int i = 0; i < 5; i++)
                expect(deliver_to("a@b.example"), OUTCOME_DELIVERED, "");
        cr_expect_eq(count(&second), 5);
        cr_expect_eq(smtp_receiver_count_commands(&first, "EHLO"), 1, "it is left in peace");
}

Test(email_transport, goes_on_after_a_greeting_and_a_login_that_are_refused)
{
        relays[1].user = (char[]){"mailer"};
        relays[1].password = (char[]){"wrong"};
        smtp_receiver_start(&first, OPTIONS("--greeting", "421 4.3.2 busy"));
        smtp_receiver_start(&second, OPTIONS("--auth", "mailer:right", "--auth-without-tls"));
        open_sink();
        /* One of them may be back soon by itself: no operator is called. */
        cr_expect_not(deliver_to("a@b.example").needs_operator);
        smtp_receiver_stop(&second);
        relays[1].user = relays[1].password = NULL;
        smtp_receiver_start(&second, NULL);
        sink_driver_deinit(&driver);
        open_sink();
        expect(deliver_to("a@b.example"), OUTCOME_DELIVERED, "");
        cr_expect_eq(count(&second), 1);
}

Test(email_transport, does_not_ask_the_second_about_a_mail_that_the_first_has_judged)
{
        smtp_receiver_start(&first, NULL);
        smtp_receiver_start(&second, NULL);
        open_sink();
        expect(deliver_to("reject550@b.example"), OUTCOME_REJECTED, "(RCPT): 550");
        expect(deliver_to("after554@b.example"), OUTCOME_REJECTED, "the mail: 554");
        expect(deliver_to("defer450@b.example"), OUTCOME_RETRY, "(RCPT): 450");
        expect(deliver_to("drop@b.example"), OUTCOME_RETRY, "unknown whether");
        expect(deliver_to("a@b.example"), OUTCOME_DELIVERED, "");
        cr_expect_eq(smtp_receiver_count_commands(&second, ""), 0);
}

Test(email_transport, is_down_when_all_relays_are_and_says_what_each_of_them_said)
{
        char *place = xasprintf("127.0.0.1:%u: ", first.port);
        struct outcome outcome;

        smtp_receiver_start(&second, OPTIONS("--greeting", "450 4.3.2 busy"));
        open_sink();
        for (int i = 0; i < 3; i++) {
                outcome = deliver_to("a@b.example");
                expect(outcome, OUTCOME_SINK_DOWN, place);
                expect(outcome, OUTCOME_SINK_DOWN, "Connection refused");
                expect(outcome, OUTCOME_SINK_DOWN, "greeting: 450");
                cr_expect_not(outcome.needs_operator);
        }
        smtp_receiver_stop(&second);
        smtp_receiver_start(&second, NULL);
        expect(deliver_to("a@b.example"), OUTCOME_DELIVERED, "");
        free(place);
}

Test(email_transport, needs_the_operator_when_all_relays_refuse_us)
{
        smtp_receiver_start(&first, OPTIONS("--greeting", "554 5.7.1 no"));
        smtp_receiver_start(&second, OPTIONS("--ehlo", "502 5.5.1 no"));
        open_sink();
        cr_expect(deliver_to("a@b.example").needs_operator);
}

Test(email_transport, reports_a_relay_that_fails_although_the_first_works)
{
        char *place = xasprintf("127.0.0.1:%u: ", second.port);

        smtp_receiver_start(&first, NULL);
        open_sink();
        expect(sink_driver_probe(&driver), OUTCOME_SINK_DOWN, place);
        smtp_receiver_start(&second, NULL);
        expect(sink_driver_probe(&driver), OUTCOME_DELIVERED, "");
        free(place);
}

Test(email_transport, sends_the_same_mail_again_when_its_arrival_is_unknown)
{
        struct event event = mail_to("drop+1@b.example");
        json_t *mails;

        smtp_receiver_start(&first, NULL);
        open_sink();
        expect(sink_driver_deliver(&driver, &event), OUTCOME_RETRY, "unknown whether");
        expect(deliver(event), OUTCOME_DELIVERED, "");

        mails = smtp_receiver_wait_for(&first, 2);
        cr_expect_str_eq(json_string_value(json_object_get(json_array_get(mails, 0), "message_id")),
            json_string_value(json_object_get(json_array_get(mails, 1), "message_id")));
        json_decref(mails);
}

Test(email_transport, gives_up_a_mail_of_unknown_arrival_where_the_configuration_says_so)
{
        config.on_unknown = UNKNOWN_REJECT;
        smtp_receiver_start(&first, NULL);
        open_sink();
        expect(deliver_to("drop@b.example"), OUTCOME_REJECTED, "unknown whether");
        expect(deliver_to("hangup@b.example"), OUTCOME_RETRY, "no answer to recipient 1");
}

static void expect_postponed(struct outcome outcome, int64_t least_ms, int64_t most_ms)
{
        expect(outcome, OUTCOME_RETRY, "has to wait");
        cr_expect(outcome.is_postponed);
        cr_expect_geq(outcome.delay_ms, least_ms);
        cr_expect_leq(outcome.delay_ms, most_ms);
}

Test(email_transport, lets_a_greylisting_domain_rest_while_others_get_their_mail)
{
        struct outcome refused;

        config.domain_backoff_ms = 10000;
        smtp_receiver_start(&first, NULL);
        open_sink();
        refused = deliver_to("grey300@grey.example");
        expect(refused, OUTCOME_RETRY, "450 4.2.0");
        cr_expect_not(refused.is_postponed, "this one was tried");
        cr_expect_eq(refused.delay_ms, 300000);

        for (int i = 0; i < 3; i++) {
                expect_postponed(deliver_to("a@Grey.example"), 200000, 300000);
                expect(deliver_to("a@b.example"), OUTCOME_DELIVERED, "");
        }
        expect_postponed(
            deliver(sample_event(next_event++,
                xstrdup("{\"to\": \"a@b.example\", \"cc\": \"x@grey.example\", \"subject\": "
                        "\"s\", \"text\": \"t\"}"))),
            200000, 300000);
        cr_expect_eq(count(&first), 3);
        cr_expect_eq(smtp_receiver_count_commands(&first, "rey.example"), 1);
}

Test(email_transport, sends_to_a_domain_again_when_it_has_rested)
{
        struct event event = mail_to("defer450+2@grey.example");
        unsigned n_refused = 0;
        unsigned n_postponed = 0;
        struct outcome outcome;

        config.domain_backoff_ms = 100;
        smtp_receiver_start(&first, NULL);
        open_sink();
        do {
                outcome = sink_driver_deliver(&driver, &event);
                n_postponed += outcome.is_postponed;
                n_refused += outcome.kind == OUTCOME_RETRY && !outcome.is_postponed;
        } while (outcome.kind == OUTCOME_RETRY);

        expect(outcome, OUTCOME_DELIVERED, "");
        cr_expect_eq(n_refused, 2);
        cr_expect_gt(n_postponed, 0);
        free((void *)(uintptr_t)event.payload);
}

Test(email_transport, keeps_to_a_rate_for_each_domain)
{
        config.domain_rate = 0.01;
        smtp_receiver_start(&first, NULL);
        open_sink();
        expect(deliver_to("a@b.example"), OUTCOME_DELIVERED, "");
        expect_postponed(deliver_to("a@b.example"), 1, 100000);
        expect(deliver_to("a@c.example"), OUTCOME_DELIVERED, "");
        cr_expect_eq(count(&first), 2);
}

Test(email_transport, keeps_to_so_many_mails_at_a_time_for_each_domain)
{
        struct event event = mail_to("slow500@b.example");
        struct event other = mail_to("slow500@c.example");

        config.domain_concurrency = 1;
        smtp_receiver_start(&first, NULL);
        sink_driver_init_for(&driver, sink_kind_find("email"), &config, 3);
        sink_driver_start(&driver, &event);
        sink_driver_start(&driver, &event);
        sink_driver_start(&driver, &other);
        sink_driver_finish(&driver);

        cr_expect_neq(
            driver.attempts[0].outcome.is_postponed, driver.attempts[1].outcome.is_postponed);
        expect(driver.attempts[2].outcome, OUTCOME_DELIVERED, "");
        cr_expect_eq(count(&first), 2);
        free((void *)(uintptr_t)event.payload);
        free((void *)(uintptr_t)other.payload);
}

static json_int_t connection_of_last_mail(void)
{
        json_t *mails = smtp_receiver_mails(&first);
        json_int_t number = json_integer_value(
            json_object_get(json_array_get(mails, json_array_size(mails) - 1), "connection"));

        json_decref(mails);
        return number;
}

Test(email_transport, keeps_to_the_configured_number_of_mails_on_a_connection)
{
        json_int_t connections[5];

        config.max_mails_per_connection = 2;
        smtp_receiver_start(&first, NULL);
        open_sink();
        for (size_t i = 0; i < 5; i++) {
                expect(deliver_to("a@b.example"), OUTCOME_DELIVERED, "");
                connections[i] = connection_of_last_mail();
                cr_expect_eq(connections[i], connections[0] + (json_int_t)i / 2);
        }
}

static bool is_past(void *context)
{
        return clock_monotonic_us() > *(int64_t *)context;
}

Test(email_transport, does_not_use_a_connection_that_was_idle_for_too_long)
{
        json_int_t connection;
        int64_t later_us;

        config.idle_ms = 1000;
        smtp_receiver_start(&first, NULL);
        open_sink();
        expect(deliver_to("a@b.example"), OUTCOME_DELIVERED, "");
        connection = connection_of_last_mail();
        later_us = clock_monotonic_us() + 2100000; /* libcurl counts whole seconds */
        sink_driver_run_until(&driver, is_past, &later_us, "the time that is the point here");
        expect(deliver_to("a@b.example"), OUTCOME_DELIVERED, "");
        cr_expect_eq(connection_of_last_mail(), connection + 1);
}

Test(email_transport, greets_with_the_configured_name)
{
        config.ehlo = (char[]){"courier.example.org"};
        smtp_receiver_start(&first, NULL);
        open_sink();
        expect(deliver_to("a@b.example"), OUTCOME_DELIVERED, "");
        cr_expect_eq(smtp_receiver_count_commands(&first, "EHLO courier.example.org"), 1);
}

/* The first wants a login, but cannot be trusted as it stands. */
static void expect_passed_over(const char *const *options)
{
        smtp_receiver_start(&first, options);
        sink_driver_init(&driver, sink_kind_find("email"), &config);
        expect(deliver_to("a@b.example"), OUTCOME_DELIVERED, "");
        sink_driver_deinit(&driver);
        cr_expect_eq(smtp_receiver_count_commands(&first, "AUTH"), 0, "%s", options[1]);
        cr_expect_eq(smtp_receiver_count_commands(&first, "MAIL"), 0, "%s", options[1]);
        smtp_receiver_stop(&first);
}

Test(email_transport, tells_an_untrusted_relay_neither_password_nor_mail)
{
        struct certificate good;
        struct certificate stranger;
        struct certificate misnamed;
        struct certificate expired;
        char *both;

        certificate_make(&good, "IP:127.0.0.1");
        certificate_make(&stranger, "IP:127.0.0.1");
        certificate_make(&misnamed, "DNS:mail.example.org");
        certificate_make_for(&expired, "IP:127.0.0.1", "-1");
        both = xasprintf("%s.both", good.path);
        /* Only the stranger's authority is not among the trusted ones. */
        cr_assert_eq(process_run((const char *[]){"sh", "-c", "cat \"$1\" \"$2\" \"$3\" >\"$4\"",
                                     "sh", good.path, misnamed.path, expired.path, both, NULL},
                         NULL, true),
            0);
        config.tls = TLS_REQUIRED;
        config.ca_file = both;
        relays[0].user = (char[]){"mailer"};
        relays[0].password = (char[]){"s3cret-w0rd"};
        smtp_receiver_start(&second, OPTIONS("--tls-cert", good.path, "--tls-key", good.key_path));

        expect_passed_over(OPTIONS("--auth", "mailer:s3cret-w0rd", "--auth-without-tls"));
        expect_passed_over(OPTIONS("--tls-cert", stranger.path, "--tls-key", stranger.key_path,
            "--auth", "mailer:s3cret-w0rd", "--auth-without-tls"));
        expect_passed_over(OPTIONS("--tls-cert", misnamed.path, "--tls-key", misnamed.key_path,
            "--auth", "mailer:s3cret-w0rd", "--auth-without-tls"));
        expect_passed_over(OPTIONS("--tls-cert", expired.path, "--tls-key", expired.key_path,
            "--auth", "mailer:s3cret-w0rd", "--auth-without-tls"));
        expect_passed_over(
            OPTIONS("--tls-cert", good.path, "--tls-key", good.key_path, "--starttls",
                "454 4.7.0 no TLS today", "--auth", "mailer:s3cret-w0rd", "--auth-without-tls"));
        free(relays[0].url);
        relays[0].url = xasprintf("smtps://127.0.0.1:%u", first.port);
        expect_passed_over(OPTIONS("--implicit-tls", "--tls-cert", stranger.path, "--tls-key",
            stranger.key_path, "--auth", "mailer:s3cret-w0rd"));
        expect_passed_over(OPTIONS("--implicit-tls", "--tls-cert", misnamed.path, "--tls-key",
            misnamed.key_path, "--auth", "mailer:s3cret-w0rd"));

        cr_expect_eq(count(&second), 7);
        cr_expect_eq(smtp_receiver_count_commands(&second, "AUTH"), 0, "that login is not for it");
        open_sink();
        free(both);
        free(good.folder);
        free(stranger.folder);
        free(misnamed.folder);
        free(expired.folder);
}

Test(email_transport, logs_in_by_the_method_that_is_offered)
{
        struct certificate made;

        certificate_make(&made, "IP:127.0.0.1");
        config.ca_file = made.path;
        relays[0].user = (char[]){"mailer"};
        relays[0].password = (char[]){"s3cret-w0rd"};
        smtp_receiver_start(
            &first, OPTIONS("--auth", "mailer:s3cret-w0rd", "--auth-not-by", "PLAIN", "--tls-cert",
                        made.path, "--tls-key", made.key_path));
        open_sink();
        expect(deliver_to("a@b.example"), OUTCOME_DELIVERED, "");
        cr_expect_eq(smtp_receiver_count_commands(&first, "AUTH LOGIN"), 1);
        free(made.folder);
}

Test(email_transport, shows_its_certificate_to_a_server_that_asks)
{
        struct certificate server;
        struct certificate ours;

        certificate_make(&server, "IP:127.0.0.1");
        certificate_make(&ours, "DNS:courier.example.org");
        config.ca_file = server.path;
        config.n_relays = 1;
        smtp_receiver_start(&first, OPTIONS("--tls-cert", server.path, "--tls-key", server.key_path,
                                        "--client-ca", ours.path));
        open_sink();
        expect(deliver_to("a@b.example"), OUTCOME_SINK_DOWN, "");
        sink_driver_deinit(&driver);
        config.cert_file = ours.path;
        config.key_file = ours.key_path;
        open_sink();
        expect(deliver_to("a@b.example"), OUTCOME_DELIVERED, "");
        free(server.folder);
        free(ours.folder);
}
