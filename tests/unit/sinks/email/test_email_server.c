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
