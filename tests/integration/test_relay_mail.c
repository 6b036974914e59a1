/* Mail by the whole program: a domain that puts off, a server that hangs, a login that is
 * refused. */
#include "base/alloc.h"
#include "support/relay_fixture.h"
#include "support/smtp_receiver.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct relay_fixture fixture;
static struct smtp_receiver smtp;

static void prepare(void)
{
        relay_fixture_begin(&fixture, postgres_shared());
        smtp_receiver_init(&smtp);
}

static void clean_up(void)
{
        smtp_receiver_deinit(&smtp);
        relay_fixture_end(&fixture);
}

TestSuite(relay_mail, .init = prepare, .fini = clean_up, .timeout = 120);

static struct relay_process *start(const char *email_keys)
{
        return relay_start("postgres: {dsn: \"%s\"}\n"
                           "sinks:\n"
                           "  - {name: bus, topics: [\"mail\"], start: beginning,\n"
                           "     redis: {url: \"unix://%s\"}}\n"
                           "  - {name: mail, topics: [\"mail\"], start: beginning,\n"
                           "     retry: {delays: [50ms, 50ms, 50ms]},\n"
                           "     email: {url: \"smtp://127.0.0.1:%u\", from: a@example.org%s}}\n",
            fixture.relay, fixture.redis.socket_path, smtp.port, email_keys);
}

static void publish_to(const char *recipient)
{
        char *sql =
            xasprintf("SELECT courier.publish('mail', '{\"to\": \"%s\", \"subject\": \"s\", "
                      "\"text\": \"t\"}', key => '%s')",
                recipient, recipient);

        database_exec(fixture.admin, sql);
        free(sql);
}

static size_t count_mails_to(const json_t *mails, const char *recipient)
{
        size_t n = 0;
        size_t i;
        json_t *mail;

        json_array_foreach(mails, i, mail)
        {
                const json_t *first = json_array_get(json_object_get(mail, "rcpt_tos"), 0);
                n += strcmp(json_string_value(first), recipient) == 0;
        }
        return n;
}

enum { N_OF_EACH = 6 };

Test(relay_mail, lets_other_domains_have_their_mail_while_one_puts_off)
{
        struct relay_process *relay;
        char recipient[64];
        json_t *mails;

        smtp_receiver_start(&smtp, NULL);
        /* So long a rest does not end within this test; the others' mail cannot wait for it. */
        relay = start(", domain_backoff: 10m");
        publish_to("defer450+1@grey.example");
        relay_wait_for_log(relay, "450 4.2.0", 20000);
        for (int i = 0; i < N_OF_EACH; i++) {
                snprintf(recipient, sizeof recipient, "n%d@grey.example", i);
                publish_to(recipient);
                snprintf(recipient, sizeof recipient, "n%d@b.example", i);
                publish_to(recipient);
        }

        mails = smtp_receiver_wait_for(&smtp, N_OF_EACH);
        for (int i = 0; i < N_OF_EACH; i++) {
                snprintf(recipient, sizeof recipient, "n%d@b.example", i);
                cr_expect_eq(count_mails_to(mails, recipient), 1);
        }
        await_in_database(fixture.admin,
            "SELECT count(*) = 7 FROM courier.parked WHERE sink = 'mail'", "the rest is parked");
        await_in_database(fixture.admin,
            "SELECT count(*) = 6 FROM courier.parked WHERE sink = 'mail' AND attempts = 0",
            "what was never tried has no attempt");
        cr_expect_eq(smtp_receiver_count_commands(&smtp, "grey.example"), 1);
        json_decref(mails);
        relay_stop(relay);
        relay_destroy(relay);
}

/* Others go on coming. */
static bool has_a_dead_letter(void *context)
{
        (void)context;
        publish_to("n@b.example");
        return database_integer(fixture.admin, "SELECT count(*) FROM courier.dead_letter") > 0;
}

/* As a server does that is closing down, or that throttles us. */
Test(relay_mail, gives_up_only_the_mail_that_the_server_hangs_up_on)
{
        struct relay_process *relay;
        char recipient[64];
        json_t *mails;

        smtp_receiver_start(&smtp, NULL);
        relay = start("");
        publish_to("defer421@a.example");
        for (int i = 0; i < N_OF_EACH; i++) {
                snprintf(recipient, sizeof recipient, "n%d@b.example", i);
                publish_to(recipient);
        }
        mails = smtp_receiver_wait_for(&smtp, N_OF_EACH);
        wait_until(has_a_dead_letter, NULL, 30000, "a dead letter");
        await_in_database(fixture.admin,
            "SELECT count(*) = 1 AND min(attempts) = 4 FROM courier.dead_letter", "a dead letter");
        /* Others of its domain are charged at once, with no other that is answered. */
        await_in_database(fixture.admin, "SELECT " ALL_IS_SETTLED, "all is settled");
        publish_to("defer421+99@a.example");
        await_in_database(fixture.admin,
            "SELECT count(*) = 1 FROM courier.parked WHERE attempts > 0 AND key LIKE '%+99@%'",
            "an attempt is charged");
        json_decref(mails);
        relay_stop(relay);
        relay_destroy(relay);
}

Test(relay_mail, sends_everything_to_a_greylisting_domain_in_the_end)
{
        struct relay_process *relay;
        char recipient[64];
        json_t *mails;

        smtp_receiver_start(&smtp, NULL);
        relay = start(", domain_backoff: 100ms");
        for (int i = 0; i < N_OF_EACH; i++) {
                snprintf(recipient, sizeof recipient, "defer450+2@g%d.example", i % 2);
                if (i < 2)
                        publish_to(recipient);
                snprintf(recipient, sizeof recipient, "n%d@g%d.example", i, i % 2);
                publish_to(recipient);
        }

        mails = smtp_receiver_wait_for(&smtp, N_OF_EACH + 2);
        cr_expect_eq(json_array_size(mails), N_OF_EACH + 2);
        cr_expect_eq(count_mails_to(mails, "defer450+2@g0.example"), 1);
        cr_expect_eq(count_mails_to(mails, "defer450+2@g1.example"), 1);
        await_in_database(
            fixture.admin, "SELECT count(*) = 0 FROM courier.parked", "nothing parked");
        await_in_database(
            fixture.admin, "SELECT count(*) = 0 FROM courier.dead_letter", "nothing is dead");
        json_decref(mails);
        relay_stop(relay);
        relay_destroy(relay);
}

static bool is_being_sent(void *context)
{
        (void)context;
        return smtp_receiver_count_commands(&smtp, "DATA") > 0;
}

Test(relay_mail, keeps_no_other_sink_waiting_while_the_mail_server_hangs)
{
        struct relay_process *relay;
        json_t *mails;

        smtp_receiver_start(&smtp, (const char *[]){"--delay", "60000", NULL});
        relay = start("");
        for (int i = 0; i < 4; i++)
                publish_to("a@b.example");
        relay_fixture_await(&fixture, "events:mail", 4);
        wait_until(is_being_sent, NULL, 20000, "a mail is at the server, which thinks");
        for (int i = 0; i < 200; i++)
                publish_to("a@b.example");
        relay_fixture_await(&fixture, "events:mail", 204);

        mails = smtp_receiver_mails(&smtp);
        cr_expect_eq(json_array_size(mails), 0);
        json_decref(mails);
        relay_kill(relay);
        relay_destroy(relay);
}

Test(relay_mail, makes_a_dead_letter_of_a_mail_to_an_unknown_recipient)
{
        struct relay_process *relay;

        smtp_receiver_start(&smtp, NULL);
        relay = start("");
        publish_to("reject550@b.example");
        publish_to("after554@b.example");
        publish_to("a@b.example");
        await_in_database(fixture.admin,
            "SELECT count(*) = 2 FROM courier.dead_letter WHERE sink = 'mail' AND attempts = 1",
            "two dead letters");
        json_decref(smtp_receiver_wait_for(&smtp, 1));
        relay_stop(relay);
        relay_destroy(relay);
}

Test(relay_mail, keeps_all_mail_while_its_login_is_refused)
{
        struct relay_process *relay;

        smtp_receiver_start(
            &smtp, (const char *[]){"--auth", "mailer:right", "--auth-without-tls", NULL});
        relay = start(", user: mailer, password: wrong");
        for (int i = 0; i < N_OF_EACH; i++)
                publish_to("a@b.example");
        relay_wait_for_log(relay, "authentication: 535", 20000);
        cr_expect_eq(smtp_receiver_count_commands(&smtp, "MAIL"), 0);
        smtp_receiver_stop(&smtp);
        relay_stop(relay);
        relay_destroy(relay);

        smtp_receiver_start(&smtp, NULL);
        relay = start("");
        json_decref(smtp_receiver_wait_for(&smtp, N_OF_EACH));
        await_in_database(
            fixture.admin, "SELECT count(*) = 0 FROM courier.dead_letter", "nothing is dead");
        relay_stop(relay);
        relay_destroy(relay);
}
