#include "config/config.h"
#include "sinks/email/email_server.h"

#include <criterion/criterion.h>
#include <string.h>

struct row {
        const char *url;
        const char *user;
        int tls;
        int starttls;      /* expected, or -1 */
        const char *words; /* expected of the error */
};

static void check(const struct row *row)
{
        struct email_config config = {.url = (char *)(uintptr_t)row->url,
            .user = (char *)(uintptr_t)row->user,
            .password = (char *)(uintptr_t)row->user,
            .tls = row->tls};
        struct email_servers servers;
        struct error error = {0};
        bool is_valid = email_servers_init(&servers, &config, &error);

        cr_assert_eq(is_valid, row->starttls >= 0, "%s: %s", row->url, error.text);
        if (is_valid)
                cr_assert_eq((int)servers.server[0].starttls, row->starttls, "%s", row->url);
        else
                cr_assert(strstr(error.text, row->words) != NULL, "%s", error.text);
        email_servers_deinit(&servers);
}

Test(email_server, requires_tls_unless_the_host_is_loopback)
{
        static const struct row rows[] = {
            {"smtp://mail.example.org", NULL, TLS_AUTO, CURLUSESSL_ALL, NULL},
            {"smtp://mail.example.org:587", "u", TLS_AUTO, CURLUSESSL_ALL, NULL},
            {"smtp://localhost.example.org", NULL, TLS_AUTO, CURLUSESSL_ALL, NULL},
            {"smtp://128.0.0.1", NULL, TLS_AUTO, CURLUSESSL_ALL, NULL},
            {"smtp://[::2]", NULL, TLS_AUTO, CURLUSESSL_ALL, NULL},
            {"smtp://localhost:25", "u", TLS_AUTO, CURLUSESSL_TRY, NULL},
            {"smtp://LOCALHOST", NULL, TLS_AUTO, CURLUSESSL_TRY, NULL},
            {"smtp://127.9.9.9", NULL, TLS_AUTO, CURLUSESSL_TRY, NULL},
            {"smtp://[::1]:25", NULL, TLS_AUTO, CURLUSESSL_TRY, NULL},
            {"smtp://[0:0:0:0:0:0:0:1]", NULL, TLS_AUTO, CURLUSESSL_TRY, NULL},
            {"smtp://localhost", NULL, TLS_REQUIRED, CURLUSESSL_ALL, NULL},
            {"smtp://mail.example.org", NULL, TLS_NONE, CURLUSESSL_NONE, NULL},
            {"smtp://localhost", "u", TLS_NONE, CURLUSESSL_NONE, NULL},
            {"smtps://mail.example.org", "u", TLS_AUTO, CURLUSESSL_ALL, NULL},
        };

        for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
                check(&rows[i]);
}

Test(email_server, refuses_what_would_be_unsafe_or_contradicts_itself)
{
        static const struct row rows[] = {
            {"smtp://mail.example.org", "u", TLS_NONE, -1, "password in clear"},
            {"smtps://mail.example.org", NULL, TLS_NONE, -1, "contradicts"},
            {"smtp://u:p@mail.example.org", NULL, TLS_AUTO, -1, "user and password_file"},
            {"http://mail.example.org", NULL, TLS_AUTO, -1, "expected smtp://"},
            {"mail.example.org:25", NULL, TLS_AUTO, -1, "expected smtp://"},
            {"smtp://", NULL, TLS_AUTO, -1, "expected smtp://"},
            {"", NULL, TLS_AUTO, -1, "expected smtp://"},
        };

        for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
                check(&rows[i]);
}

Test(email_server, keeps_relays_in_order_each_with_its_own_login)
{
        struct email_relay_config relays[] = {
            {.url = (char[]){"smtp://one.example.org"}},
            {.url = (char[]){"smtps://[::1]"}, .user = (char[]){"u"}, .password = (char[]){"p"}},
            {.url = (char[]){"smtp://127.0.0.1:2525"}},
        };
        struct email_config config = {
            .relays = relays, .n_relays = 3, .ehlo = (char[]){"courier.example.org"}};
        struct email_servers servers;
        struct error error = {0};

        cr_assert(email_servers_init(&servers, &config, &error), "%s", error.text);
        cr_assert_eq(servers.n, 3);
        cr_expect_str_eq(servers.server[0].place, "one.example.org:25");
        cr_expect_str_eq(servers.server[0].url, "smtp://one.example.org:25/courier.example.org");
        cr_expect_null(servers.server[0].user);
        cr_expect_eq(servers.server[0].starttls, CURLUSESSL_ALL);
        cr_expect_str_eq(servers.server[1].place, "[::1]:465");
        cr_expect_str_eq(servers.server[1].user, "u");
        cr_expect_str_eq(servers.server[1].password, "p");
        cr_expect_str_eq(servers.server[2].place, "127.0.0.1:2525");
        cr_expect_eq(servers.server[2].starttls, CURLUSESSL_TRY);
        email_servers_deinit(&servers);
}

Test(email_server, refuses_all_relays_for_one_that_is_unsafe)
{
        struct email_relay_config relays[] = {
            {.url = (char[]){"smtp://localhost"}, .user = (char[]){"u"}, .password = (char[]){"p"}},
            {.url = (char[]){"smtp://far.example.org"},
                .user = (char[]){"u"},
                .password = (char[]){"p"}},
        };
        struct email_config config = {.relays = relays, .n_relays = 2, .tls = TLS_NONE};
        struct email_servers servers;
        struct error error = {0};

        cr_assert_not(email_servers_init(&servers, &config, &error));
        cr_expect(strstr(error.text, "password in clear") != NULL, "%s", error.text);
        config.n_relays = 0;
        cr_assert_not(email_servers_init(&servers, &config, &error));
        cr_expect(strstr(error.text, "url or relays") != NULL, "%s", error.text);
}

static struct email_relays relays;
static int64_t now;

static void start(unsigned n)
{
        now = 1000000;
        email_relays_init(&relays, n, 5000);
}

/* The relay that a new mail is tried at first, or -1; it has no answer yet. */
static int first(void)
{
        struct email_tour tour = {0};
        unsigned relay;

        return email_relays_next(&relays, &tour, now, &relay) ? (int)relay : -1;
}

static void fail(unsigned relay)
{
        email_relays_failed(&relays, relay, now);
}

/* How long the only relay of three that fails is left out after this failure. */
static int64_t left_out_ms(void)
{
        int64_t began = now;
        int relay;

        fail(0);
        while ((relay = first()) != 0) {
                cr_assert_eq(relay, 1);
                email_relays_worked(&relays, 1);
                now += 5;
        }
        return now - began;
}

Test(email_relays, gives_the_first_while_it_works)
{
        start(3);
        for (int i = 0; i < 10; i++) {
                cr_expect_eq(first(), 0);
                email_relays_worked(&relays, 0);
        }
}

Test(email_relays, gives_each_once_and_in_order)
{
        struct email_tour tour = {0};
        unsigned relay;

        start(3);
        for (unsigned i = 0; i < 3; i++) {
                cr_assert(email_relays_next(&relays, &tour, now, &relay));
                cr_expect_eq(relay, i);
                fail(relay);
        }
        cr_expect_not(email_relays_next(&relays, &tour, now, &relay));
}

Test(email_relays, leaves_out_a_failed_relay_and_comes_back_to_it)
{
        start(2);
        cr_expect_eq(left_out_ms(), 5000);
        email_relays_worked(&relays, 0);
        cr_expect_eq(first(), 0);
}

Test(email_relays, leaves_out_a_failed_relay_for_twice_as_long_up_to_sixty_times)
{
        static const int64_t expected[] = {
            5000, 10000, 20000, 40000, 80000, 160000, 300000, 300000, 300000};

        start(2);
        for (size_t i = 0; i < sizeof expected / sizeof *expected; i++)
                cr_expect_eq(left_out_ms(), expected[i], "%zu", i);
        email_relays_worked(&relays, 0);
        cr_expect_eq(left_out_ms(), 5000, "all is forgiven");
}

Test(email_relays, counts_mails_that_failed_together_as_one_failure)
{
        start(2);
        for (int i = 0; i < 8; i++)
                fail(0);
        now += 5000;
        cr_expect_eq(first(), 0);
}

Test(email_relays, sends_one_mail_ahead_to_a_relay_that_may_be_back)
{
        start(2);
        fail(0);
        now += 5000;
        cr_expect_eq(first(), 0);
        cr_expect_eq(first(), 1, "the trial is still under way");
        email_relays_unknown(&relays, 0);
        cr_expect_eq(first(), 0, "it came to nothing: another mail is the trial");
        email_relays_worked(&relays, 0);
        cr_expect_eq(first(), 0);
        cr_expect_eq(first(), 0);
}

Test(email_relays, tries_all_in_order_when_all_are_left_out)
{
        struct email_tour tour = {0};
        unsigned relay;

        start(3);
        for (unsigned i = 0; i < 3; i++)
                fail(i);
        for (unsigned i = 0; i < 3; i++) {
                cr_assert(email_relays_next(&relays, &tour, now, &relay));
                cr_expect_eq(relay, i);
                fail(relay);
        }
        cr_expect_not(email_relays_next(&relays, &tour, now, &relay));
}

Test(email_relays, does_not_go_back_to_a_relay_left_out_when_the_others_fail)
{
        struct email_tour tour = {0};
        unsigned relay;

        start(2);
        fail(0);
        cr_assert(email_relays_next(&relays, &tour, now, &relay));
        cr_expect_eq(relay, 1);
        fail(1);
        cr_expect_not(email_relays_next(&relays, &tour, now, &relay));
}
