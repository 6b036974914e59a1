/* The redis sink over TLS: a real Redis, and who is trusted for which name. */
#include "redis_rig.h"

#include "base/error.h"
#include "support/certificate.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A self-signed certificate, and a Redis that has it; its plain port is for the test's own use. */
struct secured {
        struct redis_server server;
        struct rig rig;
        struct certificate certificate;
        char port[8];
        const char *options[16];
};

/* `names` as openssl writes them ("DNS:localhost"); the sink connects to `host`. */
static void secure(
    struct secured *secured, const char *names, const char *days, char *host, const char *clients)
{
        uint16_t port = free_port();

        certificate_make_for(&secured->certificate, names, days);
        snprintf(secured->port, sizeof secured->port, "%u", port);
        const char *const options[] = {"--tls-port", secured->port, "--tls-cert-file",
            secured->certificate.path, "--tls-key-file", secured->certificate.key_path,
            "--tls-ca-cert-file", secured->certificate.path, "--tls-auth-clients", clients, NULL};
        memcpy(secured->options, options, sizeof options);
        redis_server_start(&secured->server, secured->options);
        rig_init(&secured->rig, &secured->server, 1000);
        secured->rig.config.port = port;
        secured->rig.config.host = host;
        secured->rig.config.tls = true;
        secured->rig.config.ca_file = secured->certificate.path;
}

static void end(struct secured *secured)
{
        rig_destroy(&secured->rig);
        redis_server_destroy(&secured->server);
        free(secured->certificate.folder);
}

static char localhost[] = "localhost";
static char address[] = "127.0.0.1";

Test(redis_tls, delivers_in_order_what_is_larger_than_any_buffer)
{
        enum { SIZE = 300 * 1000 };
        static char payload[SIZE];
        struct secured secured;

        secure(&secured, "DNS:localhost", "2", localhost, "no");
        for (unsigned i = 0; i < 1000; i++) {
                secured.rig.events[i].key = "k";
                if (i % 50 == 0) {
                        secured.rig.events[i].payload = payload;
                        secured.rig.events[i].payload_bytes = SIZE;
                }
        }
        rig_open(&secured.rig);
        rig_deliver_all(&secured.rig, 1);
        rig_deliver_all(&secured.rig, 999);

        cr_expect(rig_count(&secured.rig, OUTCOME_DELIVERED) == 1000, "%s",
            secured.rig.driver.attempts[0].outcome.reason);
        expect_stream_in_order(&secured.server, &secured.rig);
        end(&secured);
}

Test(redis_tls, verifies_a_literal_address)
{
        struct secured secured;

        secure(&secured, "IP:127.0.0.1", "2", address, "no");
        rig_open(&secured.rig);
        rig_deliver_all(&secured.rig, 1);
        expect_outcome(&secured.rig, 0, OUTCOME_DELIVERED, "");
        end(&secured);
}

Test(redis_tls, shows_its_own_certificate_where_it_is_asked_for)
{
        struct secured secured;

        secure(&secured, "DNS:localhost", "2", localhost, "yes");
        secured.rig.config.cert_file = secured.certificate.path;
        secured.rig.config.key_file = secured.certificate.key_path;
        rig_open(&secured.rig);
        rig_deliver_all(&secured.rig, 1);
        expect_outcome(&secured.rig, 0, OUTCOME_DELIVERED, "");
        end(&secured);
}

Test(redis_tls, is_down_without_a_certificate_that_is_asked_for)
{
        struct secured secured;

        secure(&secured, "DNS:localhost", "2", localhost, "yes");
        rig_open(&secured.rig);
        rig_deliver_all(&secured.rig, 1);
        expect_outcome(&secured.rig, 0, OUTCOME_SINK_DOWN, "certificate required");
        end(&secured);
}

static void expect_refused(struct secured *secured, const char *words)
{
        rig_open(&secured->rig);
        rig_deliver_all(&secured->rig, 1);
        expect_outcome(&secured->rig, 0, OUTCOME_SINK_DOWN, "certificate is not accepted");
        expect_outcome(&secured->rig, 0, OUTCOME_SINK_DOWN, words);
        cr_expect(redis_server_count(&secured->server, "XLEN events") == 0);
        end(secured);
}

Test(redis_tls, refuses_a_certificate_for_another_name)
{
        struct secured secured;

        secure(&secured, "DNS:other.example,IP:127.0.0.1", "2", localhost, "no");
        expect_refused(&secured, "hostname mismatch");
}

Test(redis_tls, refuses_a_certificate_for_another_address)
{
        struct secured secured;

        secure(&secured, "DNS:localhost", "2", address, "no");
        expect_refused(&secured, "IP address mismatch");
}

Test(redis_tls, refuses_a_certificate_of_an_unknown_authority)
{
        struct secured secured;

        secure(&secured, "DNS:localhost", "2", localhost, "no");
        secured.rig.config.ca_file = NULL;
        expect_refused(&secured, "self-signed certificate");
}

Test(redis_tls, refuses_a_certificate_that_has_expired)
{
        struct secured secured;

        secure(&secured, "DNS:localhost", "-1", localhost, "no");
        expect_refused(&secured, "expired");
}

Test(redis_tls, is_down_at_a_port_that_speaks_no_tls)
{
        struct secured secured;
        const char *reason;

        secure(&secured, "DNS:localhost", "2", localhost, "no");
        secured.rig.config.port = secured.server.port;
        secured.rig.config.connect_timeout_ms = 200;
        rig_open(&secured.rig);
        rig_deliver_all(&secured.rig, 1);
        reason = secured.rig.driver.attempts[0].outcome.reason;
        expect_outcome(&secured.rig, 0, OUTCOME_SINK_DOWN,
            /* Redis 8 answers in plain; those before wait for more. */
            strstr(reason, "wrong version") != NULL ? "TLS: wrong version number"
                                                    : "by TLS within 200 ms");
        end(&secured);
}

Test(redis_tls, names_a_file_that_cannot_be_used)
{
        struct redis_config config = {.host = localhost,
            .port = 1,
            .stream = localhost,
            .tls = true,
            .ca_file = (char[]){"/dev/null"}};
        const struct sink_settings settings = {.name = "cache", .options = &config};
        struct sink_settings on_loop = settings;
        struct error error = {0};
        uv_loop_t loop;

        uv_loop_init(&loop);
        on_loop.loop = &loop;
        cr_expect(redis_sink_ops.open(&on_loop, &error) == NULL);
        cr_expect(strstr(error.text, "sink 'cache': redis: ca_file '/dev/null'") != NULL, "%s",
            error.text);
        uv_run(&loop, UV_RUN_DEFAULT);
        uv_loop_close(&loop);
}
