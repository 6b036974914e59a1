/* Certificates: who is trusted, and for which name. */
#include "http_fixture.h"

#include "support/certificate.h"

#include <stdlib.h>

static void begin_tls(
    struct http_fixture *fixture, struct certificate *certificate, const char *host)
{
        http_fixture_init(fixture);
        http_receiver_destroy(fixture->receiver);
        fixture->receiver = http_receiver_start(certificate->path, certificate->key_path);
        snprintf(fixture->url, sizeof fixture->url, "https://%s:%u/hook", host,
            http_receiver_port(fixture->receiver));
}

static void end_tls(struct http_fixture *fixture, struct certificate *certificate)
{
        http_fixture_end(fixture);
        free(certificate->folder);
}

HTTP_TEST(http_sink_tls, trusts_the_authority_of_the_config)
{
        struct http_fixture fixture;
        struct certificate certificate;
        const struct event event = json_event("{}");

        certificate_make(&certificate, "DNS:localhost,IP:127.0.0.1");
        begin_tls(&fixture, &certificate, "localhost");
        fixture.config.ca_file = certificate.path;
        http_fixture_open(&fixture);

        expect_outcome(sink_driver_probe(&fixture.driver), OUTCOME_DELIVERED);
        for (int i = 0; i < 3; i++)
                expect_outcome(sink_driver_deliver(&fixture.driver, &event), OUTCOME_DELIVERED);
        cr_expect_eq(http_receiver_n_requests(fixture.receiver), 3);
        end_tls(&fixture, &certificate);
}

HTTP_TEST(http_sink_tls, refuses_a_certificate_of_an_unknown_authority)
{
        struct http_fixture fixture;
        struct certificate certificate;
        const struct event event = json_event("{}");
        struct outcome outcome;

        certificate_make(&certificate, "IP:127.0.0.1");
        begin_tls(&fixture, &certificate, "127.0.0.1");
        http_fixture_open(&fixture);

        outcome = sink_driver_deliver(&fixture.driver, &event);
        expect_outcome(outcome, OUTCOME_SINK_DOWN);
        expect_reason(outcome, "certificate");
        cr_expect_not(outcome.needs_operator);
        expect_outcome(sink_driver_probe(&fixture.driver), OUTCOME_SINK_DOWN);
        cr_expect_eq(http_receiver_n_requests(fixture.receiver), 0);
        end_tls(&fixture, &certificate);
}

HTTP_TEST(http_sink_tls, refuses_a_certificate_for_another_name)
{
        struct http_fixture fixture;
        struct certificate certificate;
        const struct event event = json_event("{}");
        struct outcome outcome;

        certificate_make(&certificate, "DNS:other.example");
        begin_tls(&fixture, &certificate, "localhost");
        fixture.config.ca_file = certificate.path;
        http_fixture_open(&fixture);

        outcome = sink_driver_deliver(&fixture.driver, &event);
        expect_outcome(outcome, OUTCOME_SINK_DOWN);
        expect_reason(outcome, "localhost");
        cr_expect_eq(http_receiver_n_requests(fixture.receiver), 0);
        end_tls(&fixture, &certificate);
}

HTTP_TEST(http_sink_tls, refuses_a_certificate_that_has_expired)
{
        struct http_fixture fixture;
        struct certificate certificate;
        const struct event event = json_event("{}");
        struct outcome outcome;

        certificate_make_for(&certificate, "IP:127.0.0.1", "-1");
        begin_tls(&fixture, &certificate, "127.0.0.1");
        fixture.config.ca_file = certificate.path;
        http_fixture_open(&fixture);

        outcome = sink_driver_deliver(&fixture.driver, &event);
        expect_outcome(outcome, OUTCOME_SINK_DOWN);
        expect_reason(outcome, "expired");
        cr_expect_eq(http_receiver_n_requests(fixture.receiver), 0);
        end_tls(&fixture, &certificate);
}

HTTP_TEST(http_sink_tls, names_an_authority_file_that_cannot_be_read)
{
        struct http_fixture fixture;
        struct certificate certificate;
        const struct event event = json_event("{}");
        char missing[] = "/nonexistent/ca.pem";
        struct outcome outcome;

        certificate_make(&certificate, "DNS:localhost");
        begin_tls(&fixture, &certificate, "localhost");
        fixture.config.ca_file = missing;
        http_fixture_open(&fixture);

        outcome = sink_driver_deliver(&fixture.driver, &event);
        expect_outcome(outcome, OUTCOME_SINK_DOWN);
        expect_reason(outcome, missing);
        cr_expect(outcome.needs_operator);
        end_tls(&fixture, &certificate);
}
