/* What the admin endpoint decides without a socket: whose host it is, whose token, what an
 * address is. */
#include "admin/http/routes.h"
#include "admin/status_document.h"
#include "config/config.h"
#include "telemetry/telemetry.h"
#include "text/network.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

Test(admin_host, is_ours_by_address_or_by_a_name_that_was_allowed)
{
        char name[] = "relay.example.com";
        char *names[] = {name};
        const struct admin_config config = {.allowed_hosts = names, .n_allowed_hosts = 1};
        static const char *const ours[] = {"localhost", "LocalHost:8477", "127.0.0.1",
            "127.0.0.1:8477", "[::1]", "[::1]:8477", "10.1.2.3:8477", "relay.example.com",
            "Relay.Example.Com:443"};
        static const char *const others[] = {"", "evil.example", "localhost.evil.example",
            "evil.example:8477", "127.0.0.1.evil.example", "relay.example.com.evil.example",
            "xrelay.example.com", "127.0.0.1:8477:1", "localhost:x", "[::1", "[::1]x",
            "[localhost]", "::1", ":8477", "localhost\t", "2130706433"};

        for (size_t i = 0; i < sizeof ours / sizeof ours[0]; i++)
                cr_expect(host_is_ours(&config, ours[i]), "%s", ours[i]);
        for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
                cr_expect_not(host_is_ours(&config, others[i]), "%s", others[i]);
        cr_expect_not(host_is_ours(&config, NULL));
}

Test(admin_token, is_the_whole_text_behind_bearer)
{
        static const char *const wrong[] = {"Bearer 0123456789abcde", "Bearer 0123456789abcdeF",
            "Bearer 0123456789abcdef0", "Bearer  0123456789abcdef", "Bearer ", "Bearer",
            "0123456789abcdef", "Basic 0123456789abcdef", ""};
        struct token token;

        token_init(&token, "0123456789abcdef");

        cr_expect(token_matches(&token, "Bearer 0123456789abcdef"));
        cr_expect(token_matches(&token, "bearer 0123456789abcdef"));
        for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
                cr_expect_not(token_matches(&token, wrong[i]), "%s", wrong[i]);
        cr_expect_not(token_matches(&token, NULL));
}

Test(admin_token, matches_nothing_where_there_is_none)
{
        struct token token;

        token_init(&token, NULL);

        cr_expect_not(token_matches(&token, "Bearer "));
        cr_expect_not(token_matches(&token, NULL));
}

Test(listen_address, is_an_address_with_a_port_or_a_path)
{
        static const char *const wrong[] = {"", "8477", ":8477", "localhost:8477", "127.0.0.1",
            "127.0.0.1:", "127.0.0.1:0", "127.0.0.1:65536", "127.0.0.1:08477", "127.0.0.1:8477 ",
            "::1:8477", "[::1]", "[::1:8477", "[127.0.0.1]:8477", "unix:", "unix:relative",
            "/run/socket"};
        struct listen_address address;

        cr_expect_null(listen_address_parse("127.0.0.1:8477", &address));
        cr_expect_str_eq(address.host, "127.0.0.1");
        cr_expect_eq(address.port, 8477);
        cr_expect(listen_address_is_local(&address));
        cr_expect_null(listen_address_parse("[::1]:1", &address));
        cr_expect(listen_address_is_local(&address));
        cr_expect_null(listen_address_parse("unix:/run/p.sock", &address));
        cr_expect_str_eq(address.path, "/run/p.sock");
        cr_expect(listen_address_is_local(&address));
        cr_expect_null(listen_address_parse("0.0.0.0:65535", &address));
        cr_expect_not(listen_address_is_local(&address));
        cr_expect_null(listen_address_parse("[::]:8477", &address));
        cr_expect_not(listen_address_is_local(&address));
        for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
                cr_expect_not_null(listen_address_parse(wrong[i], &address), "%s", wrong[i]);
}

static struct config *load(const char *admin, struct error *error)
{
        char path[] = "/tmp/pgcourier-config-XXXXXX";
        int file = mkstemp(path);
        struct config *config;
        char text[1024];

        snprintf(text, sizeof text,
            "postgres: {dsn: x}\n%ssinks: [{name: a, topics: [t], stdout: {}}]\n", admin);
        cr_assert(file >= 0 && write(file, text, strlen(text)) == (ssize_t)strlen(text));
        close(file);
        config = config_load(path, error);
        unlink(path);
        return config;
}

Test(config_admin, is_absent_or_on_loopback)
{
        struct error error = {0};
        struct config *config = load("", &error);

        cr_assert_not_null(config, "%s", error.text);
        cr_expect_null(config->admin);
        config_free(config);

        config = load("admin: {}\n", &error);
        cr_assert_not_null(config, "%s", error.text);
        cr_assert_not_null(config->admin);
        cr_expect_str_eq(config->admin->listen, "127.0.0.1:8477");
        cr_expect_null(config->admin->token);
        config_free(config);
}

Test(config_admin, needs_a_token_where_others_can_reach_it)
{
        struct error error = {0};
        struct config *config;

        cr_expect_null(load("admin: {listen: \"0.0.0.0:8477\"}\n", &error));
        cr_expect_not_null(strstr(error.text, "admin.listen: is reachable from other machines, but "
                                              "there is no token"),
            "%s", error.text);
        cr_expect_null(load("admin: {listen: \"[::]:8477\"}\n", &error));

        config = load("admin: {listen: \"0.0.0.0:8477\", token: 0123456789abcdef}\n", &error);
        cr_expect_not_null(config, "%s", error.text);
        config_free(config);
}

Test(config_admin, refuses_what_would_not_work)
{
        static const struct {
                const char *admin;
                const char *words;
        } cases[] = {
            {"admin: {listen: \"localhost:8477\"}\n", "is not an address to listen on"},
            {"admin: {listen: \"unix:x\"}\n", "is not the absolute path of a unix socket"},
            {"admin: {token: short-secret}\n", "is shorter than 16 characters"},
            {"admin: {token: \"0123456789 abcdef\"}\n", "contains a space"},
            {"admin: {allowed_hosts: [\"a:80\"]}\n", "is not a host name"},
        };

        for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
                struct error error = {0};

                cr_expect_null(load(cases[i].admin, &error), "%s", cases[i].admin);
                cr_expect_not_null(strstr(error.text, cases[i].words), "%s", error.text);
                cr_expect_null(strstr(error.text, "secret"), "%s", error.text);
        }
}

Test(admin_readiness, is_lost_when_a_sink_stands_still_but_not_when_a_destination_is_down)
{
        static const enum sink_state fine[] = {SINK_STARTING, SINK_RUNNING, SINK_STANDBY,
            SINK_PAUSED, SINK_REFUSED, SINK_DOWN, SINK_DRAINING, SINK_DISCONNECTED};
        struct telemetry *telemetry = telemetry_create(0, 1);
        struct sink_telemetry *sink = telemetry_open_sink(telemetry, "billing", "http", 0);
        json_t *conditions;
        json_t *failures;
        bool is_ready;

        telemetry_set_ready(telemetry, NULL);
        telemetry_see_source_up(telemetry);
        for (size_t i = 0; i < sizeof fine / sizeof fine[0]; i++) {
                telemetry_set_state(sink, fine[i], "words", 1);
                json_decref(readiness_conditions(telemetry, &is_ready));
                cr_expect(is_ready, "%s", sink_state_name(fine[i]));
        }
        telemetry_set_state(sink, SINK_STALLED, "nothing delivered for 5 minutes", 1);

        conditions = readiness_conditions(telemetry, &is_ready);

        failures = readiness_failures(conditions);
        cr_expect_not(is_ready);
        cr_assert_eq(json_array_size(failures), 1);
        cr_expect_str_eq(json_string_value(json_array_get(failures, 0)),
            "sink billing: stalled: nothing delivered for 5 minutes");
        json_decref(failures);
        json_decref(conditions);
        telemetry_close_sink(sink);
        telemetry_destroy(telemetry);
}
