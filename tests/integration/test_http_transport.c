/* What lies between us and a receiver: HTTP/2 (nghttpd), proxies (tinyproxy), certificates of
 * ours. */
#include "http_fixture.h"

#include "base/alloc.h"
#include "sinks/sink_contract.h"
#include "support/certificate.h"
#include "support/process.h"

#include <stdlib.h>

static bool accepts(void *port)
{
        return port_accepts(*(const uint16_t *)port);
}

struct nghttpd {
        struct process process;
        uint16_t port;
        char *log;
};

/* Answers every POST with its body; knows HTTP/2 only. */
static void start_nghttpd(
    struct nghttpd *server, const struct certificate *certificate, bool wants_certificate)
{
        char port[16];

        server->port = free_port();
        server->log = xasprintf("%s/nghttpd.log", certificate->folder);
        snprintf(port, sizeof port, "%u", server->port);
        const char *const argv[] = {"nghttpd", "-v", "-a", "127.0.0.1", "--echo-upload", "-d",
            certificate->folder, wants_certificate ? "--verify-client" : "--echo-upload", port,
            certificate->key_path, certificate->path, NULL};

        process_start(&server->process, argv, server->log, false);
        wait_until(accepts, &server->port, 10000, "nghttpd to listen");
}

static void stop_nghttpd(struct nghttpd *server)
{
        process_stop(&server->process);
        free(server->log);
}

static void use_https(struct http_fixture *fixture, struct certificate *certificate, uint16_t port)
{
        snprintf(fixture->url, sizeof fixture->url, "https://localhost:%u/hook", port);
        fixture->config.ca_file = certificate->path;
}

HTTP_TEST(http_transport, shares_one_connection_of_http_2)
{
        enum { N_EVENTS = 20 };
        struct http_fixture fixture;
        struct certificate certificate;
        struct nghttpd server;
        const struct event event = json_event("{\"n\": 1}");
        char *log;

        certificate_make(&certificate, "DNS:localhost");
        start_nghttpd(&server, &certificate, false);
        http_fixture_init(&fixture);
        use_https(&fixture, &certificate, server.port);
        fixture.config.http_version = HTTP_VERSION_2;
        http_fixture_open(&fixture);

        for (int i = 0; i < N_EVENTS; i++)
                sink_driver_start(&fixture.driver, &event);
        sink_driver_finish(&fixture.driver);
        expect_outcome(sink_driver_deliver(&fixture.driver, &event), OUTCOME_DELIVERED);

        for (size_t i = 0; i < N_EVENTS; i++)
                expect_outcome(fixture.driver.attempts[i].outcome, OUTCOME_DELIVERED);
        http_fixture_end(&fixture);
        log = read_file(server.log);
        cr_expect(
            strstr(log, "webhook-id: 0190e7c4-5d1f-7cc3-98c4-dc0c0c07398f") != NULL, "%s", log);
        cr_expect(strstr(log, "stream_id=41) :method: POST") != NULL, "not 21 streams: %s", log);
        free(log);
        stop_nghttpd(&server);
        free(certificate.folder);
}

HTTP_TEST(http_transport, falls_back_to_http_1_where_2_is_not_spoken)
{
        struct http_fixture fixture;
        struct certificate certificate;
        const struct event event = json_event("{}");

        certificate_make(&certificate, "DNS:localhost");
        http_fixture_init(&fixture);
        http_receiver_destroy(fixture.receiver);
        fixture.receiver = http_receiver_start(certificate.path, certificate.key_path);
        use_https(&fixture, &certificate, http_receiver_port(fixture.receiver));
        fixture.config.http_version = HTTP_VERSION_2;
        http_fixture_open(&fixture);

        expect_outcome(sink_driver_deliver(&fixture.driver, &event), OUTCOME_DELIVERED);
        http_fixture_end(&fixture);
        free(certificate.folder);
}

HTTP_TEST(http_transport, shows_its_certificate_to_a_receiver_that_asks)
{
        struct certificate certificate;
        struct certificate ours;
        struct nghttpd server;
        const struct event event = json_event("{}");

        certificate_make(&certificate, "DNS:localhost");
        certificate_make(&ours, "DNS:pgcourier.example");
        start_nghttpd(&server, &certificate, true);
        for (int has_certificate = 0; has_certificate < 2; has_certificate++) {
                struct http_fixture fixture;

                http_fixture_init(&fixture);
                use_https(&fixture, &certificate, server.port);
                fixture.config.http_version = HTTP_VERSION_2;
                if (has_certificate) {
                        fixture.config.cert_file = ours.path;
                        fixture.config.key_file = ours.key_path;
                }
                http_fixture_open(&fixture);
                cr_expect_eq(sink_driver_deliver(&fixture.driver, &event).kind == OUTCOME_DELIVERED,
                    has_certificate);
                http_fixture_end(&fixture);
        }
        stop_nghttpd(&server);
        free(certificate.folder);
        free(ours.folder);
}

static void expect_key_refused(struct certificate *certificate, char *key_path)
{
        struct http_fixture fixture;
        const struct event event = json_event("{}");
        struct outcome outcome;

        http_fixture_init(&fixture);
        http_receiver_destroy(fixture.receiver);
        fixture.receiver = http_receiver_start(certificate->path, certificate->key_path);
        use_https(&fixture, certificate, http_receiver_port(fixture.receiver));
        fixture.config.cert_file = certificate->path;
        fixture.config.key_file = key_path;
        http_fixture_open(&fixture);

        outcome = sink_driver_deliver(&fixture.driver, &event);
        expect_outcome(outcome, OUTCOME_SINK_DOWN);
        cr_expect(outcome.needs_operator, "%s", outcome.reason);
        expect_reason(outcome, key_path);
        http_fixture_end(&fixture);
}

HTTP_TEST(http_transport, stops_at_a_key_that_it_cannot_use)
{
        struct certificate certificate;
        char *encrypted;

        certificate_make(&certificate, "DNS:localhost");
        encrypted = xasprintf("%s/encrypted.pem", certificate.folder);
        const char *const argv[] = {"openssl", "pkey", "-in", certificate.key_path, "-aes256",
            "-passout", "pass:x", "-out", encrypted, NULL};

        cr_assert_eq(process_run(argv, NULL, false), 0);
        expect_key_refused(&certificate, encrypted);
        expect_key_refused(&certificate, certificate.path); /* holds none */
        free(encrypted);
        free(certificate.folder);
}

struct tinyproxy {
        struct process process;
        uint16_t port;
        char *folder;
        char url[64];
};

/* Tunnels (CONNECT) lead to one port only. */
static void start_tinyproxy(struct tinyproxy *proxy, uint16_t tunnel_port)
{
        char *path;
        FILE *file;

        proxy->folder = temp_folder();
        proxy->port = free_port();
        snprintf(proxy->url, sizeof proxy->url, "http://me:s3cret@127.0.0.1:%u", proxy->port);
        path = xasprintf("%s/tinyproxy.conf", proxy->folder);
        file = fopen(path, "w");
        fprintf(file,
            "Port %u\nListen 127.0.0.1\nTimeout 60\nMaxClients 20\nAllow 127.0.0.1\n"
            "BasicAuth me s3cret\nConnectPort %u\nLogFile \"%s/log\"\nLogLevel Info\n",
            proxy->port, tunnel_port, proxy->folder);
        fclose(file);
        const char *const argv[] = {"tinyproxy", "-d", "-c", path, NULL};

        process_start(&proxy->process, argv, NULL, false);
        wait_until(accepts, &proxy->port, 10000, "tinyproxy to listen");
        free(path);
}

static char *proxy_log(const struct tinyproxy *proxy)
{
        char *path = xasprintf("%s/log", proxy->folder);
        char *log = read_file(path);

        free(path);
        return log;
}

static void stop_tinyproxy(struct tinyproxy *proxy)
{
        process_stop(&proxy->process);
        free(proxy->folder);
}

HTTP_TEST(http_transport, goes_through_the_proxy_of_the_config)
{
        struct http_fixture fixture;
        struct tinyproxy proxy;
        const struct event event = json_event("{}");
        struct outcome outcome;
        char *log;

        http_fixture_init(&fixture);
        start_tinyproxy(&proxy, 1);
        fixture.config.proxy = proxy.url;
        setenv("no_proxy", "*", 1);
        http_fixture_open(&fixture);

        expect_outcome(sink_driver_deliver(&fixture.driver, &event), OUTCOME_DELIVERED);
        http_receiver_stop(fixture.receiver);
        outcome = sink_driver_deliver(&fixture.driver, &event);
        cr_expect_neq(outcome.kind, OUTCOME_DELIVERED);
        cr_expect(strstr(outcome.reason, "s3cret") == NULL, "%s", outcome.reason);

        http_fixture_end(&fixture);
        log = proxy_log(&proxy);
        cr_expect(strstr(log, "POST http://127.0.0.1:") != NULL, "%s", log);
        free(log);
        stop_tinyproxy(&proxy);
}

HTTP_TEST(http_transport, tunnels_tls_through_the_proxy)
{
        struct http_fixture fixture;
        struct certificate certificate;
        struct tinyproxy proxy;
        const struct event event = json_event("{}");
        char *log;

        certificate_make(&certificate, "DNS:localhost");
        http_fixture_init(&fixture);
        http_receiver_destroy(fixture.receiver);
        fixture.receiver = http_receiver_start(certificate.path, certificate.key_path);
        use_https(&fixture, &certificate, http_receiver_port(fixture.receiver));
        start_tinyproxy(&proxy, http_receiver_port(fixture.receiver));
        fixture.config.proxy = proxy.url;
        http_fixture_open(&fixture);

        /* The proxy's own 200 is no answer of the receiver's. */
        http_receiver_answer(fixture.receiver, &(struct http_answer){.is_held = true});
        sink_driver_start(&fixture.driver, &event);
        http_fixture_await(&fixture, 1);
        sink_cancel(fixture.driver.sink);
        sink_driver_finish(&fixture.driver);
        expect_outcome(fixture.driver.attempts[0].outcome, OUTCOME_CANCELLED);
        http_receiver_release(fixture.receiver);

        expect_outcome(sink_driver_deliver(&fixture.driver, &event), OUTCOME_DELIVERED);
        log = proxy_log(&proxy);
        cr_expect(strstr(log, "CONNECT localhost:") != NULL, "%s", log);
        free(log);
        http_fixture_end(&fixture);
        stop_tinyproxy(&proxy);
        free(certificate.folder);
}

/* What the proxy was asked to do is not a request that may have arrived. */
HTTP_TEST(http_transport, knows_that_nothing_passed_a_proxy_that_refuses)
{
        struct http_fixture fixture;
        struct tinyproxy proxy;
        const struct event event = json_event("{}");
        struct outcome outcome;

        http_fixture_init(&fixture);
        start_tinyproxy(&proxy, 1); /* no tunnel to the receiver's port */
        snprintf(fixture.url, sizeof fixture.url, "https://localhost:%u/",
            http_receiver_port(fixture.receiver));
        fixture.config.proxy = proxy.url;
        http_fixture_open(&fixture);

        outcome = sink_driver_deliver(&fixture.driver, &event);
        expect_outcome(outcome, OUTCOME_SINK_DOWN);
        expect_reason(outcome, "403");
        http_fixture_end(&fixture);
        stop_tinyproxy(&proxy);
}
