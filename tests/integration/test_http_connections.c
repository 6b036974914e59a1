/*
 * One connection after the other, seen from the peer's side: when it is used again, when it must
 * not be, and what is said on it.
 */
#include "http_peer.h"

#include "base/alloc.h"
#include "base/error.h"
#include "sinks/http/http_target.h"
#include "sinks/sink_contract.h"
#include "support/certificate.h"
#include "support/process.h"

#include <stdlib.h>

#define TAKEN "HTTP/1.1 204 No Content\r\n\r\n"
#define WRONG "HTTP/1.1 500 Not Asked\r\nContent-Length: 0\r\n\r\n"

static void expect_taken(struct http_peer *peer, struct http_fixture *fixture, unsigned i)
{
        expect_outcome(peer_answer(peer, fixture, i, TAKEN), OUTCOME_DELIVERED);
}

HTTP_TEST(http_connections, are_used_again)
{
        struct http_peer peer;
        struct http_fixture fixture;

        peer_begin(&peer, &fixture);
        http_fixture_open(&fixture);
        for (int i = 0; i < 3; i++)
                expect_taken(&peer, &fixture, 0);
        cr_expect_eq(peer.n_sockets, 1);
        peer_end(&peer, &fixture);
}

Test(http_connections, rest_no_longer_than_the_peer_keeps_them)
{
        static const char long_kept[] = "HTTP/1.1 204 No\r\nKeep-Alive: timeout=100\r\n\r\n";
        static const char not_kept[] = "HTTP/1.1 204 No\r\nkeep-alive: max=9, timeout=1\r\n\r\n";
        static const char soon_closed[] = "HTTP/1.1 204 No\r\nKeep-Alive: timeout=2\r\n\r\n";
        struct http_peer peer;
        struct http_fixture fixture;

        peer_begin(&peer, &fixture);
        http_fixture_open(&fixture);
        expect_outcome(peer_answer(&peer, &fixture, 0, long_kept), OUTCOME_DELIVERED);
        expect_outcome(peer_answer(&peer, &fixture, 0, not_kept), OUTCOME_DELIVERED);
        expect_outcome(peer_answer(&peer, &fixture, 1, soon_closed), OUTCOME_DELIVERED);
        peer_await_end(&peer, &fixture, 0);
        peer_await_end(&peer, &fixture, 1);
        expect_taken(&peer, &fixture, 2);
        peer_end(&peer, &fixture);
}

Test(http_connections, are_not_used_again_when_an_answer_has_more_behind_it)
{
        struct http_peer peer;
        struct http_fixture fixture;

        peer_begin(&peer, &fixture);
        http_fixture_open(&fixture);
        expect_outcome(peer_answer(&peer, &fixture, 0, TAKEN WRONG), OUTCOME_DELIVERED);
        expect_taken(&peer, &fixture, 1);
        expect_outcome(
            peer_answer(&peer, &fixture, 1, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok" WRONG),
            OUTCOME_DELIVERED);
        expect_taken(&peer, &fixture, 2);
        peer_end(&peer, &fixture);
}

/* It lies in the socket when the next event comes. */
Test(http_connections, are_not_used_again_when_the_peer_has_spoken_unasked)
{
        struct http_peer peer;
        struct http_fixture fixture;

        peer_begin(&peer, &fixture);
        http_fixture_open(&fixture);
        for (unsigned i = 0; i < 3; i++) {
                expect_taken(&peer, &fixture, i);
                peer_say(&peer, i, WRONG);
        }
        peer_end(&peer, &fixture);
}

Test(http_connections, are_closed_when_the_peer_speaks_unasked)
{
        struct http_peer peer;
        struct http_fixture fixture;

        peer_begin(&peer, &fixture);
        http_fixture_open(&fixture);
        expect_taken(&peer, &fixture, 0);
        peer_say(&peer, 0, WRONG);
        peer_await_end(&peer, &fixture, 0);
        expect_taken(&peer, &fixture, 1);
        peer_end(&peer, &fixture);
}

/* A certificate, its context of a server, and a config that trusts it by a file of its own. */
struct tls_peer {
        struct http_peer peer;
        struct certificate certificate;
        char ca_file[160];
};

static void trust(struct tls_peer *tls, const struct certificate *certificate)
{
        char *text = read_file(certificate->path);
        char *beside = xasprintf("%s.new", tls->ca_file);
        FILE *file = fopen(beside, "w");

        cr_assert_not_null(file);
        cr_assert_geq(fputs(text, file), 0);
        cr_assert_eq(fclose(file), 0);
        cr_assert_eq(rename(beside, tls->ca_file), 0);
        free(beside);
        free(text);
}

static void show(struct tls_peer *tls, const struct certificate *certificate)
{
        SSL_CTX_free(tls->peer.tls);
        tls->peer.tls = SSL_CTX_new(TLS_server_method());
        cr_assert_eq(SSL_CTX_use_certificate_chain_file(tls->peer.tls, certificate->path), 1);
        cr_assert_eq(
            SSL_CTX_use_PrivateKey_file(tls->peer.tls, certificate->key_path, SSL_FILETYPE_PEM), 1);
}

static void begin_tls(struct tls_peer *tls, struct http_fixture *fixture)
{
        certificate_make(&tls->certificate, "DNS:localhost");
        snprintf(tls->ca_file, sizeof tls->ca_file, "%s/trusted.pem", tls->certificate.folder);
        trust(tls, &tls->certificate);
        peer_begin(&tls->peer, fixture);
        show(tls, &tls->certificate);
        snprintf(fixture->url, sizeof fixture->url, "https://localhost:%u/", tls->peer.port);
        fixture->config.ca_file = tls->ca_file;
        http_fixture_open(fixture);
}

static void end_tls(struct tls_peer *tls, struct http_fixture *fixture)
{
        peer_end(&tls->peer, fixture);
        SSL_CTX_free(tls->peer.tls);
        free(tls->certificate.folder);
}

static bool is_resumed(const struct tls_peer *tls, unsigned i)
{
        return SSL_session_reused(tls->peer.at[i].tls) == 1;
}

/* A record of its own, which comes in the same turn of the loop. */
Test(http_connections, are_not_used_again_when_tls_has_more_behind_an_answer)
{
        struct tls_peer tls;
        struct http_fixture fixture;
        const struct event event = json_event("{}");

        begin_tls(&tls, &fixture);
        expect_taken(&tls.peer, &fixture, 0);
        sink_driver_start(&fixture.driver, &event);
        sink_driver_flush(&fixture.driver);
        peer_await(&tls.peer, &fixture, 0, 2);
        peer_say(&tls.peer, 0, TAKEN);
        peer_say(&tls.peer, 0, WRONG);
        sink_driver_finish(&fixture.driver);
        expect_outcome(fixture.driver.attempts[1].outcome, OUTCOME_DELIVERED);
        expect_taken(&tls.peer, &fixture, 1);
        end_tls(&tls, &fixture);
}

Test(http_connections, resume_the_session_until_a_file_of_tls_changes)
{
        struct tls_peer tls;
        struct http_fixture fixture;

        begin_tls(&tls, &fixture);
        for (unsigned i = 0; i < 3; i++) {
                if (i == 2)
                        trust(&tls, &tls.certificate);
                expect_taken(&tls.peer, &fixture, i);
                cr_expect_eq(is_resumed(&tls, i), i == 1, "connection %u", i);
                peer_say(&tls.peer, i, WRONG);
                peer_await_end(&tls.peer, &fixture, i);
        }
        end_tls(&tls, &fixture);
}

HTTP_TEST(http_connections, are_made_with_the_files_of_tls_that_are_there)
{
        struct tls_peer tls;
        struct http_fixture fixture;
        struct certificate other;
        const struct event event = json_event("{}");
        size_t number;

        begin_tls(&tls, &fixture);
        certificate_make(&other, "DNS:localhost");
        expect_taken(&tls.peer, &fixture, 0);
        peer_hang_up(&tls.peer, 0);
        show(&tls, &other);
        number = sink_driver_start(&fixture.driver, &event);
        sink_driver_flush(&fixture.driver);
        peer_await_end(&tls.peer, &fixture, 1);
        sink_driver_finish(&fixture.driver);
        expect_outcome(fixture.driver.attempts[number].outcome, OUTCOME_SINK_DOWN);
        expect_reason(fixture.driver.attempts[number].outcome, "certificate");
        trust(&tls, &other);
        expect_taken(&tls.peer, &fixture, 2);
        end_tls(&tls, &fixture);
        free(other.folder);
}

/* A peer that answers before it has read all, and goes on reading or not. */
static void expect_early_answer(const char *answer, enum outcome_kind kind, bool hangs_up)
{
        enum { N = 16 * 1024 * 1024 };
        struct http_peer peer;
        struct http_fixture fixture;
        struct event event;
        char *payload = xcalloc(1, N + 1);
        size_t number;

        memset(payload, '1', N);
        event = json_event(payload);
        peer_begin(&peer, &fixture);
        peer.heard_at_most = 2000;
        http_fixture_open(&fixture);
        number = sink_driver_start(&fixture.driver, &event);
        sink_driver_flush(&fixture.driver);
        peer_await(&peer, &fixture, 0, 1);
        peer_say(&peer, 0, answer);
        if (hangs_up)
                peer_hang_up(&peer, 0);
        sink_driver_finish(&fixture.driver);
        expect_outcome(fixture.driver.attempts[number].outcome, kind);
        expect_taken(&peer, &fixture, 1);
        peer_end(&peer, &fixture);
        free(payload);
}

HTTP_TEST(http_connections, are_not_used_again_after_half_a_request)
{
        static const char too_large[] = "HTTP/1.1 413 Too Large\r\nContent-Length: 0\r\n\r\n";

        expect_early_answer(too_large, OUTCOME_RETRY, false);
        expect_early_answer(too_large, OUTCOME_RETRY, true);
}

Test(http_connections, are_not_used_again_after_half_a_request_that_was_taken)
{
        expect_early_answer(TAKEN, OUTCOME_DELIVERED, false);
}

/* The oldest goes. A probe asks for a new connection in any case. */
Test(http_connections, make_room_for_others)
{
        struct http_peer peer;
        struct http_fixture fixture;
        const struct event event = json_event("{}");

        peer_begin(&peer, &fixture);
        fixture.concurrency = 2;
        http_fixture_open(&fixture);
        for (unsigned i = 0; i < 2; i++) {
                sink_driver_start(&fixture.driver, &event);
                sink_driver_flush(&fixture.driver);
                peer_await(&peer, &fixture, i, 1);
        }
        peer_say(&peer, 1, TAKEN);
        while (!fixture.driver.attempts[1].is_finished)
                uv_run(&fixture.driver.loop, UV_RUN_ONCE);
        peer_say(&peer, 0, TAKEN);
        sink_driver_finish(&fixture.driver);
        expect_outcome(sink_driver_probe(&fixture.driver), OUTCOME_DELIVERED);
        peer_await_end(&peer, &fixture, 1);
        cr_expect_not(peer.at[0].has_ended);
        cr_expect_eq(peer.n_sockets, 3);
        peer_end(&peer, &fixture);
}

static void begin_table(struct http_peer *peer, struct http_fixture *fixture)
{
        static char loopback[] = "127.0.0.0/8";
        static char *networks[] = {loopback};
        static char port[8];
        static char usual[] = "80";
        static char usual_tls[] = "443";
        static char *ports[] = {port, usual, usual_tls};

        peer_begin(peer, fixture);
        snprintf(port, sizeof port, "%u", peer->port);
        fixture->config.allow_networks = networks;
        fixture->config.n_allow_networks = 1;
        fixture->config.allow_ports = ports;
        fixture->config.n_allow_ports = 3;
        fixture->config.url = NULL;
        fixture->config.receivers = HTTP_RECEIVERS_TABLE;
        http_fixture_open(fixture);
}

static struct http_target *open_target(struct http_fixture *fixture, const char *url)
{
        const struct target_settings settings = {.name = "one", .url = url};
        struct error error = {.kind = ERROR_NONE};
        void *target = http_sink_ops.open_target(fixture->driver.sink, &settings, &error);

        cr_assert_not_null(target, "%s", error.text);
        return target;
}

HTTP_TEST(http_connections, are_shared_by_receivers_of_one_host_only)
{
        static const struct {
                const char *host;
                const char *path;
                unsigned at;
        } receivers[] = {{"127.0.0.1", "/a", 0}, {"127.0.0.1", "/b?c", 0}, {"localhost", "/a", 1},
            {"127.0.0.1", "/a", 0}, {"localhost", "/b", 1}};
        struct http_peer peer;
        struct http_fixture fixture;

        begin_table(&peer, &fixture);
        for (size_t i = 0; i < sizeof receivers / sizeof receivers[0]; i++) {
                char *url =
                    xasprintf("http://%s:%u%s", receivers[i].host, peer.port, receivers[i].path);
                struct http_target *target = open_target(&fixture, url);

                fixture.driver.target = target;
                expect_taken(&peer, &fixture, receivers[i].at);
                http_sink_ops.close_target(fixture.driver.sink, target);
                free(url);
        }
        cr_expect_eq(peer.n_sockets, 2);
        peer_end(&peer, &fixture);
}

static void expect_line(struct http_fixture *fixture, const char *url, const char *line)
{
        struct http_target *target = open_target(fixture, url);

        cr_expect_str_eq(target->line, line, "%s: %s", url, target->line);
        http_sink_ops.close_target(fixture->driver.sink, target);
}

Test(http_connections, begin_with_the_path_and_the_host)
{
        struct http_peer peer;
        struct http_fixture fixture;

        begin_table(&peer, &fixture);
        expect_line(&fixture, "http://a.example", "POST / HTTP/1.1\r\nHost: a.example\r\n");
        expect_line(&fixture, "https://a.example:443/x/?y=z#w",
            "POST /x/?y=z HTTP/1.1\r\nHost: a.example\r\n");
        expect_line(
            &fixture, "https://a.example:80/x", "POST /x HTTP/1.1\r\nHost: a.example:80\r\n");
        expect_line(
            &fixture, "http://a.example:80?y=%41", "POST /?y=%41 HTTP/1.1\r\nHost: a.example\r\n");
        expect_line(&fixture, "http://[2606:4700::1111]:443/",
            "POST / HTTP/1.1\r\nHost: [2606:4700::1111]:443\r\n");
        peer_end(&peer, &fixture);
}

static void expect_once(const char *text, const char *line)
{
        const char *found = strstr(text, line);

        cr_assert_not_null(found, "%s is not in %s", line, text);
        cr_expect_null(strstr(found + 1, line), "%s", text);
}

HTTP_TEST(http_connections, carry_the_name_of_the_url_and_the_accept_of_the_config)
{
        char name[] = "accept";
        char value[] = "application/json";
        struct http_set_header set[] = {{name, value}};
        struct http_peer peer;
        struct http_fixture fixture;

        peer_begin(&peer, &fixture);
        snprintf(fixture.url, sizeof fixture.url, "http://me:p%%40ss@127.0.0.1:%u", peer.port);
        fixture.config.set_headers = set;
        fixture.config.n_set_headers = 1;
        http_fixture_open(&fixture);
        expect_taken(&peer, &fixture, 0);
        expect_once(peer.at[0].heard.data, "\r\nAuthorization: Basic bWU6cEBzcw==\r\n");
        expect_once(peer.at[0].heard.data, "\r\naccept: application/json\r\n");
        cr_expect_null(strstr(peer.at[0].heard.data, "Accept:"));
        cr_expect_null(strstr(peer.at[0].heard.data, "@127.0.0.1"));
        cr_expect_eq(strncmp(peer.at[0].heard.data, "POST / HTTP/1.1\r\n", 17), 0);
        peer_end(&peer, &fixture);
}

/* The timer of the exchange is that of the first event, and comes while a later one is waiting. */
HTTP_TEST(http_connections, give_each_request_its_whole_time)
{
        enum { TIMEOUT_MS = 400 };
        struct http_peer peer;
        struct http_fixture fixture;
        const struct event event = json_event("{}");
        uint64_t begun_ms;
        struct outcome outcome;

        peer_begin(&peer, &fixture);
        fixture.config.timeout_ms = TIMEOUT_MS;
        http_fixture_open(&fixture);
        begun_ms = uv_now(&fixture.driver.loop);
        while (uv_now(&fixture.driver.loop) < begun_ms + TIMEOUT_MS / 2)
                expect_taken(&peer, &fixture, 0);
        uv_update_time(&fixture.driver.loop);
        begun_ms = uv_now(&fixture.driver.loop);
        outcome = sink_driver_deliver(&fixture.driver, &event);
        expect_outcome(outcome, OUTCOME_RETRY);
        expect_reason(outcome, "timed out");
        uv_update_time(&fixture.driver.loop);
        cr_expect_geq(uv_now(&fixture.driver.loop), begun_ms + TIMEOUT_MS - 1);
        expect_taken(&peer, &fixture, 1);
        peer_end(&peer, &fixture);
}
