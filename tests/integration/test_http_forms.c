/* What requests look like when the config asks for more than the payload in a signed POST. */
#include "http_fixture.h"
#include "http_verify.h"

#include "base/alloc.h"
#include "sinks/sink_contract.h"

#include <stdlib.h>
#include <zlib.h>

#define SECRET "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
#define PARENT "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"

static const struct http_request *deliver_one(
    struct http_fixture *fixture, const struct event *event)
{
        http_fixture_open(fixture);
        expect_outcome(sink_driver_deliver(&fixture->driver, event), OUTCOME_DELIVERED);
        return http_receiver_request(fixture->receiver, 0);
}

HTTP_TEST(http_forms, signs_as_github_and_stripe_do)
{
        static const struct {
                enum http_signing_scheme scheme;
                const char *name;
                unsigned n_verified;
        } cases[] = {{HTTP_SIGNING_GITHUB, "github", 1}, {HTTP_SIGNING_STRIPE, "stripe", 2}};

        for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
                struct http_fixture fixture;
                char newest[] = "any text of one line";
                char older[] = "s3cret";
                char *secrets[] = {newest, older};
                const struct event event = json_event("{\"\xc3\xa4\": 1.0}");
                const struct http_request *request;

                http_fixture_init(&fixture);
                fixture.config.signing = cases[i].scheme;
                fixture.config.secrets = secrets;
                fixture.config.n_secrets = 2;
                request = deliver_one(&fixture, &event);

                for (unsigned j = 0; j < 2; j++)
                        cr_expect_eq(is_signature_verified(request, cases[i].name, secrets[j]),
                            j < cases[i].n_verified, "%s, secret %u", cases[i].name, j);
                expect_header(request, "webhook-signature", NULL);
                http_fixture_end(&fixture);
        }
}

HTTP_TEST(http_forms, carries_credentials_and_set_headers)
{
        struct http_fixture fixture;
        char user[] = "me";
        char password[] = "p\xc3\xa4ss:word";
        char name[] = "X-Tenant";
        char value[] = "7";
        char *names[] = {name};
        struct http_set_header set = {name, value};
        const struct event_header header = {"x-tenant", "from the event"};
        struct event event = json_event("{}");
        const struct http_request *request;

        http_fixture_init(&fixture);
        fixture.config.auth.user = user;
        fixture.config.auth.password = password;
        fixture.config.set_headers = &set;
        fixture.config.n_set_headers = 1;
        fixture.config.headers = names;
        fixture.config.n_headers = 1;
        event.headers = &header;
        event.n_headers = 1;
        request = deliver_one(&fixture, &event);

        expect_header(request, "Authorization", "Basic bWU6cMOkc3M6d29yZA==");
        expect_header(request, "X-Tenant", "7");
        http_fixture_end(&fixture);
}

HTTP_TEST(http_forms, carries_a_bearer_token)
{
        struct http_fixture fixture;
        char token[] = "abc.def-ghi=";
        const struct event event = json_event("{}");

        http_fixture_init(&fixture);
        fixture.config.auth.bearer = token;
        expect_header(deliver_one(&fixture, &event), "Authorization", "Bearer abc.def-ghi=");
        http_fixture_end(&fixture);
}

HTTP_TEST(http_forms, passes_valid_traces_on_unasked)
{
        struct http_fixture fixture;
        const struct event_header valid[] = {{"traceparent", PARENT}, {"tracestate", "a=b"}};
        const struct event_header broken[] = {{"traceparent", "00-abc"}, {"tracestate", "a=b"}};
        struct event event = json_event("{}");

        http_fixture_init(&fixture);
        event.headers = valid;
        event.n_headers = 2;
        expect_header(deliver_one(&fixture, &event), "traceparent", PARENT);
        expect_header(http_receiver_request(fixture.receiver, 0), "tracestate", "a=b");
        event.headers = broken;
        expect_outcome(sink_driver_deliver(&fixture.driver, &event), OUTCOME_DELIVERED);
        expect_header(http_receiver_request(fixture.receiver, 1), "traceparent", NULL);
        expect_header(http_receiver_request(fixture.receiver, 1), "tracestate", NULL);
        http_fixture_end(&fixture);
}

HTTP_TEST(http_forms, signs_the_compressed_body_as_it_is_sent)
{
        struct http_fixture fixture;
        char secret[] = SECRET;
        const size_t length = 50000;
        char *payload = xcalloc(length + 1, 1);
        char *back = xcalloc(length + 1, 1);
        const struct http_request *request;
        z_stream stream = {0};
        struct event event;

        memset(payload, ' ', length);
        memcpy(payload, "{}", 2);
        event = json_event(payload);
        http_fixture_init(&fixture);
        fixture.config.secret = secret;
        fixture.config.gzip = true;
        request = deliver_one(&fixture, &event);

        expect_header(request, "Content-Encoding", "gzip");
        expect_header(request, "Content-Type", "application/json");
        cr_expect_lt(request->body_bytes, 1000);
        expect_signature_verified(request, "standard", SECRET);
        cr_assert_eq(inflateInit2(&stream, MAX_WBITS + 16), Z_OK);
        stream.next_in = (unsigned char *)request->body;
        stream.avail_in = (uInt)request->body_bytes;
        stream.next_out = (unsigned char *)back;
        stream.avail_out = (uInt)length + 1;
        cr_expect_eq(inflate(&stream, Z_FINISH), Z_STREAM_END);
        inflateEnd(&stream);
        cr_expect_str_eq(back, payload);
        http_fixture_end(&fixture);
        free(payload);
        free(back);
}

HTTP_TEST(http_forms, wraps_the_payload_as_the_specification_recommends)
{
        struct http_fixture fixture;
        char secret[] = SECRET;
        struct event event = json_event("{\"n\": 1.0}");
        const struct http_request *request;

        http_fixture_init(&fixture);
        fixture.config.secret = secret;
        fixture.config.body = HTTP_BODY_STANDARD;
        event.type = "order.paid";
        event.created_us = 1793620800123456;
        request = deliver_one(&fixture, &event);

        cr_expect_str_eq(request->body, "{\"type\":\"order.paid\",\"timestamp\":"
                                        "\"2026-11-02T12:00:00.123456Z\",\"data\":{\"n\": 1.0}}");
        expect_header(request, "webhook-id", event.event_id);
        expect_header(request, "x-event-topic", "orders.placed");
        expect_signature_verified(request, "standard", SECRET);
        http_fixture_end(&fixture);
}

HTTP_TEST(http_forms, posts_cloudevents_that_describe_themselves)
{
        struct http_fixture fixture;
        char source[] = "/shop";
        struct event event = json_event("{\"n\": 1.0}");
        const struct http_request *request;

        http_fixture_init(&fixture);
        fixture.config.source = source;
        fixture.config.body = HTTP_BODY_CLOUDEVENTS_STRUCTURED;
        event.is_redriven = true;
        request = deliver_one(&fixture, &event);

        expect_header(request, "Content-Type", "application/cloudevents+json");
        expect_header(request, "x-event-topic", NULL);
        cr_expect(strstr(request->body, "\"source\":\"/shop\"") != NULL, "%s", request->body);
        cr_expect(strstr(request->body, "\"data\":{\"n\": 1.0}}") != NULL, "%s", request->body);
        expect_header(request, "x-event-redriven", "true");
        http_fixture_end(&fixture);
}

HTTP_TEST(http_forms, rejects_what_would_break_out_of_a_cloudevent)
{
        static const enum http_body_form forms[] = {
            HTTP_BODY_CLOUDEVENTS, HTTP_BODY_CLOUDEVENTS_STRUCTURED};
        char source[] = "/shop";

        for (size_t i = 0; i < 2; i++) {
                struct http_fixture fixture;
                struct event event = json_event("{}");
                struct outcome outcome;

                http_fixture_init(&fixture);
                fixture.config.source = source;
                fixture.config.body = forms[i];
                http_fixture_open(&fixture);
                event.key = "a\r\nce-id: forged";
                outcome = sink_driver_deliver(&fixture.driver, &event);
                expect_outcome(outcome, OUTCOME_REJECTED);
                cr_expect_eq(http_receiver_n_requests(fixture.receiver), 0);
                http_fixture_end(&fixture);
        }
}
