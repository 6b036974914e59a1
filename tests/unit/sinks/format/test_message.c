/* Each format in the style of each broker, as text: content type, key and body, then a line for
 * each header: whose it is, name and value. */
#include "sinks/format/message.h"

#include "base/bytes.h"
#include "config/config.h"

#include <criterion/criterion.h>
#include <malloc.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define EVENT_ID "0190e7c4-5d1f-7cc3-98c4-dc0c0c07398f"
#define TIME     "2026-11-02T12:00:00.123456Z"
#define PARENT   "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"

static bool is_reserved_by_nats(const char *name)
{
        return strncasecmp(name, "nats-", 5) == 0;
}

static bool is_reserved_by_rabbitmq(const char *name)
{
        return strcmp(name, "CC") == 0 || strcmp(name, "BCC") == 0 || strncmp(name, "x-", 2) == 0;
}

static const struct message_style kafka = {.own_prefix = "",
    .cloudevent_prefix = "ce_",
    .content_type_header = "content-type",
    .has_id = true,
    .has_type = true};

static const struct message_style nats = {.own_prefix = "x-event-",
    .cloudevent_prefix = "ce-",
    .content_type_header = "Content-Type",
    .has_key = true,
    .has_type = true,
    .has_datacontenttype = true,
    .is_encoded = true,
    .is_reserved = is_reserved_by_nats};

static const struct message_style rabbitmq = {.own_prefix = "",
    .cloudevent_prefix = "cloudEvents:",
    .has_key = true,
    .is_reserved = is_reserved_by_rabbitmq};

static char source[] = "/shop";

static struct message_config config_of(enum message_format format)
{
        return (struct message_config){.format = format, .source = source};
}

static struct event plain_event(void)
{
        return (struct event){.event_id = EVENT_ID,
            .topic = "orders",
            .payload = "{\"n\": 1.0}",
            .payload_bytes = 10,
            .is_json = true,
            .created_us = 1793620800123456};
}

static const struct event_header full_headers[] = {{"tenant", "m \"\xc3\xa4\" %"}, {"X-Shop", "7"},
    {"Nats-Msg-Id", "x"}, {"CC", "x"}, {"x-death", "x"}, {"traceparent", PARENT},
    {"tracestate", "a=b"}};
static const unsigned char full_types[] = {EVENT_HEADER_STRING, EVENT_HEADER_NUMBER,
    EVENT_HEADER_STRING, EVENT_HEADER_STRING, EVENT_HEADER_STRING, EVENT_HEADER_STRING,
    EVENT_HEADER_STRING};

static struct event full_event(void)
{
        struct event event = plain_event();

        event.key = "k \"\xc3\xa4\" 100%";
        event.type = "order.paid";
        event.headers = full_headers;
        event.n_headers = sizeof full_headers / sizeof full_headers[0];
        event.header_types = full_types;
        event.is_redriven = true;
        return event;
}

static void show(struct bytes *out, const struct message *message)
{
        static const char *const origins[] = {
            [MESSAGE_OF_EVENT] = "event", [MESSAGE_OWN] = "own", [MESSAGE_OF_CLOUDEVENT] = "ce"};

        bytes_printf(out, "%s; key ", message->content_type);
        if (message->key != NULL)
                bytes_append(out, message->key, message->key_bytes);
        else
                bytes_append_text(out, "(none)");
        bytes_append_text(out, message->is_null ? "; null" : "; ");
        bytes_append(out, message->body, message->body_bytes);
        bytes_append_text(out, "\n");
        for (size_t i = 0; i < message->n_headers; i++) {
                const struct message_header *header = &message->headers[i];

                cr_expect_eq(strlen(header->value), header->value_bytes, "%s", header->name);
                bytes_printf(out, "%s %s=%s%s\n", origins[header->origin], header->name,
                    header->value, header->is_boolean ? " (boolean)" : "");
        }
}

static void expect_made(
    struct message_maker *maker, const struct event *event, const char *expected)
{
        struct outcome rejected = outcome_delivered;
        struct message message;
        struct bytes shown = {0};

        cr_assert(message_make(maker, event, &message, &rejected), "%s", rejected.reason);
        show(&shown, &message);
        cr_expect_str_eq(shown.data, expected);
        bytes_deinit(&shown);
}

static void expect_by(const struct message_config *config, const struct message_style *style,
    const struct event *event, const char *expected)
{
        struct message_maker *maker = message_maker_create(config, style);

        expect_made(maker, event, expected);
        message_maker_destroy(maker);
}

static void expect(enum message_format format, const struct message_style *style,
    const struct event *event, const char *expected)
{
        const struct message_config config = config_of(format);

        expect_by(&config, style, event, expected);
}

#define FULL_LINE "application/json; key k \"\xc3\xa4\" 100%; {\"n\": 1.0}\n"

Test(message, is_native_for_kafka)
{
        const struct event plain = plain_event();
        const struct event full = full_event();

        expect(MESSAGE_NATIVE, &kafka, &plain,
            "application/json; key (none); {\"n\": 1.0}\n"
            "own content-type=application/json\n"
            "own id=" EVENT_ID "\n"
            "own topic=orders\n"
            "own time=" TIME "\n");
        expect(MESSAGE_NATIVE, &kafka, &full,
            FULL_LINE "own content-type=application/json\n"
                      "own id=" EVENT_ID "\n"
                      "own topic=orders\n"
                      "own type=order.paid\n"
                      "own time=" TIME "\n"
                      "own redriven=true (boolean)\n"
                      "event tenant=m \"\xc3\xa4\" %\n"
                      "event X-Shop=7\n"
                      "event Nats-Msg-Id=x\n"
                      "event CC=x\n"
                      "event x-death=x\n"
                      "event traceparent=" PARENT "\n"
                      "event tracestate=a=b\n");
}

Test(message, is_native_for_nats)
{
        const struct event plain = plain_event();
        const struct event full = full_event();

        expect(MESSAGE_NATIVE, &nats, &plain,
            "application/json; key (none); {\"n\": 1.0}\n"
            "own Content-Type=application/json\n"
            "own x-event-topic=orders\n"
            "own x-event-time=" TIME "\n");
        expect(MESSAGE_NATIVE, &nats, &full,
            FULL_LINE "own Content-Type=application/json\n"
                      "own x-event-topic=orders\n"
                      "own x-event-key=k%20\"%C3%A4\"%20100%25\n"
                      "own x-event-type=order.paid\n"
                      "own x-event-time=" TIME "\n"
                      "own x-event-redriven=true (boolean)\n"
                      "event tenant=m \"\xc3\xa4\" %\n"
                      "event X-Shop=7\n"
                      "event CC=x\n"
                      "event x-death=x\n"
                      "event traceparent=" PARENT "\n"
                      "event tracestate=a=b\n");
}

Test(message, is_native_for_rabbitmq)
{
        const struct event plain = plain_event();
        const struct event full = full_event();

        expect(MESSAGE_NATIVE, &rabbitmq, &plain,
            "application/json; key (none); {\"n\": 1.0}\n"
            "own topic=orders\n"
            "own time=" TIME "\n");
        expect(MESSAGE_NATIVE, &rabbitmq, &full,
            FULL_LINE "own topic=orders\n"
                      "own key=k \"\xc3\xa4\" 100%\n"
                      "own time=" TIME "\n"
                      "own redriven=true (boolean)\n"
                      "event tenant=m \"\xc3\xa4\" %\n"
                      "event X-Shop=7\n"
                      "event Nats-Msg-Id=x\n"
                      "event traceparent=" PARENT "\n"
                      "event tracestate=a=b\n");
}

Test(message, is_a_cloudevent_in_headers_for_kafka)
{
        const struct event plain = plain_event();
        const struct event full = full_event();

        expect(MESSAGE_CLOUDEVENTS, &kafka, &plain,
            "application/json; key (none); {\"n\": 1.0}\n"
            "own content-type=application/json\n"
            "ce ce_specversion=1.0\n"
            "ce ce_id=" EVENT_ID "\n"
            "ce ce_source=/shop\n"
            "ce ce_type=orders\n"
            "ce ce_time=" TIME "\n"
            "ce ce_topic=orders\n");
        expect(MESSAGE_CLOUDEVENTS, &kafka, &full,
            FULL_LINE "own content-type=application/json\n"
                      "ce ce_specversion=1.0\n"
                      "ce ce_id=" EVENT_ID "\n"
                      "ce ce_source=/shop\n"
                      "ce ce_type=order.paid\n"
                      "ce ce_subject=k \"\xc3\xa4\" 100%\n"
                      "ce ce_time=" TIME "\n"
                      "ce ce_partitionkey=k \"\xc3\xa4\" 100%\n"
                      "ce ce_topic=orders\n"
                      "ce ce_redriven=true (boolean)\n"
                      "ce ce_tenant=m \"\xc3\xa4\" %\n"
                      "ce ce_traceparent=" PARENT "\n"
                      "ce ce_tracestate=a=b\n"
                      "event X-Shop=7\n"
                      "event Nats-Msg-Id=x\n"
                      "event CC=x\n"
                      "event x-death=x\n"
                      "event traceparent=" PARENT "\n"
                      "event tracestate=a=b\n");
}

Test(message, is_a_cloudevent_in_headers_for_nats)
{
        const struct event full = full_event();

        expect(MESSAGE_CLOUDEVENTS, &nats, &full,
            FULL_LINE "own Content-Type=application/json\n"
                      "ce ce-specversion=1.0\n"
                      "ce ce-id=" EVENT_ID "\n"
                      "ce ce-source=/shop\n"
                      "ce ce-type=order.paid\n"
                      "ce ce-subject=k%20%22%C3%A4%22%20100%25\n"
                      "ce ce-time=" TIME "\n"
                      "ce ce-datacontenttype=application/json\n"
                      "ce ce-partitionkey=k%20%22%C3%A4%22%20100%25\n"
                      "ce ce-topic=orders\n"
                      "ce ce-redriven=true (boolean)\n"
                      "ce ce-tenant=m%20%22%C3%A4%22%20%25\n"
                      "ce ce-traceparent=" PARENT "\n"
                      "ce ce-tracestate=a=b\n"
                      "event X-Shop=7\n"
                      "event CC=x\n"
                      "event x-death=x\n"
                      "event traceparent=" PARENT "\n"
                      "event tracestate=a=b\n");
}

Test(message, is_a_cloudevent_in_headers_for_rabbitmq)
{
        const struct event full = full_event();

        expect(MESSAGE_CLOUDEVENTS, &rabbitmq, &full,
            FULL_LINE "ce cloudEvents:specversion=1.0\n"
                      "ce cloudEvents:id=" EVENT_ID "\n"
                      "ce cloudEvents:source=/shop\n"
                      "ce cloudEvents:type=order.paid\n"
                      "ce cloudEvents:subject=k \"\xc3\xa4\" 100%\n"
                      "ce cloudEvents:time=" TIME "\n"
                      "ce cloudEvents:partitionkey=k \"\xc3\xa4\" 100%\n"
                      "ce cloudEvents:topic=orders\n"
                      "ce cloudEvents:redriven=true (boolean)\n"
                      "ce cloudEvents:tenant=m \"\xc3\xa4\" %\n"
                      "ce cloudEvents:traceparent=" PARENT "\n"
                      "ce cloudEvents:tracestate=a=b\n"
                      "event X-Shop=7\n"
                      "event Nats-Msg-Id=x\n"
                      "event traceparent=" PARENT "\n"
                      "event tracestate=a=b\n");
}

#define STRUCTURED_TYPE "application/cloudevents+json; charset=UTF-8"
#define FULL_TRACE                                                                                 \
        "event traceparent=" PARENT "\n"                                                           \
        "event tracestate=a=b\n"

Test(message, is_a_cloudevent_in_one_object)
{
        static const char body[] =
            STRUCTURED_TYPE "; key k \"\xc3\xa4\" 100%; {\"specversion\":\"1.0\",\"id\":\"" EVENT_ID
                            "\",\"source\":\"/shop\",\"type\":\"order.paid\","
                            "\"subject\":\"k \\\"\xc3\xa4\\\" 100%\",\"time\":\"" TIME
                            "\",\"datacontenttype\":\"application/json\","
                            "\"partitionkey\":\"k \\\"\xc3\xa4\\\" 100%\",\"topic\":\"orders\","
                            "\"redriven\":true,\"tenant\":\"m \\\"\xc3\xa4\\\" %\","
                            "\"traceparent\":\"" PARENT "\",\"tracestate\":\"a=b\","
                            "\"data\":{\"n\": 1.0}}\n";
        const struct event full = full_event();
        char expected[2048];

        snprintf(
            expected, sizeof expected, "%sown content-type=" STRUCTURED_TYPE "\n" FULL_TRACE, body);
        expect(MESSAGE_CLOUDEVENTS_STRUCTURED, &kafka, &full, expected);
        snprintf(
            expected, sizeof expected, "%sown Content-Type=" STRUCTURED_TYPE "\n" FULL_TRACE, body);
        expect(MESSAGE_CLOUDEVENTS_STRUCTURED, &nats, &full, expected);
        snprintf(expected, sizeof expected, "%s" FULL_TRACE, body);
        expect(MESSAGE_CLOUDEVENTS_STRUCTURED, &rabbitmq, &full, expected);
}

Test(message, is_debeziums)
{
        const struct message_config strings = config_of(MESSAGE_DEBEZIUM);
        const struct event plain = plain_event();
        const struct event full = full_event();

        expect_by(&strings, &kafka, &plain,
            "application/json; key (none); {\"n\": 1.0}\n"
            "event id=" EVENT_ID "\n");
        expect_by(&strings, &kafka, &full,
            FULL_LINE "event id=" EVENT_ID "\n"
                      "event tenant=m \"\xc3\xa4\" %\n"
                      "event X-Shop=7\n"
                      "event Nats-Msg-Id=x\n"
                      "event CC=x\n"
                      "event x-death=x\n" FULL_TRACE "event redriven=1\n");
        expect_by(&strings, &nats, &full,
            FULL_LINE "event id=" EVENT_ID "\n"
                      "event tenant=m \"\xc3\xa4\" %\n"
                      "event X-Shop=7\n"
                      "event CC=x\n"
                      "event x-death=x\n" FULL_TRACE "event redriven=1\n");
        expect_by(&strings, &rabbitmq, &full,
            FULL_LINE "event id=" EVENT_ID "\n"
                      "event tenant=m \"\xc3\xa4\" %\n"
                      "event X-Shop=7\n"
                      "event Nats-Msg-Id=x\n" FULL_TRACE "event redriven=1\n");
}

/* Types stay with their headers where some are left out. */
Test(message, converts_as_debezium_does)
{
        static const struct event_header headers[] = {
            {"CC", "x"}, {"traceparent", "bad"}, {"n", "7"}, {"on", "true"}, {"s", "1"}};
        static const unsigned char types[] = {EVENT_HEADER_STRING, EVENT_HEADER_STRING,
            EVENT_HEADER_NUMBER, EVENT_HEADER_BOOLEAN, EVENT_HEADER_STRING};
        struct message_config config = config_of(MESSAGE_DEBEZIUM);
        struct event event = plain_event();

        config.debezium.key = DEBEZIUM_JSON;
        config.debezium.value = DEBEZIUM_JSON;
        config.debezium.headers = DEBEZIUM_JSON;
        event.headers = headers;
        event.header_types = types;
        event.n_headers = 5;
        expect_by(&config, &rabbitmq, &event,
            "application/json; key null; \"{\\\"n\\\": 1.0}\"\n"
            "event id=\"" EVENT_ID "\"\n"
            "event n=7\n"
            "event on=true\n"
            "event s=\"1\"\n");
        event.key = "17";
        event.header_types = NULL;
        expect_by(&config, &rabbitmq, &event,
            "application/json; key \"17\"; \"{\\\"n\\\": 1.0}\"\n"
            "event id=\"" EVENT_ID "\"\n"
            "event n=\"7\"\n"
            "event on=\"true\"\n"
            "event s=\"1\"\n");
}

Test(message, is_null_only_with_debezium)
{
        struct message_config config = config_of(MESSAGE_DEBEZIUM);
        struct event event = plain_event();

        event.payload = "null";
        event.payload_bytes = 4;
        event.key = "k";
        expect_by(
            &config, &kafka, &event, "application/json; key k; null\nevent id=" EVENT_ID "\n");
        event.payload = "";
        event.payload_bytes = 0;
        event.is_json = false;
        expect_by(
            &config, &kafka, &event, "application/octet-stream; key k; \nevent id=" EVENT_ID "\n");
        config.debezium.tombstone = true;
        expect_by(&config, &kafka, &event,
            "application/octet-stream; key k; null\nevent id=" EVENT_ID "\n");
        expect(MESSAGE_NATIVE, &rabbitmq, &event,
            "application/octet-stream; key k; \n"
            "own topic=orders\n"
            "own key=k\n"
            "own time=" TIME "\n");
        event.payload = NULL;
        expect(MESSAGE_NATIVE, &rabbitmq, &event,
            "application/octet-stream; key k; \n"
            "own topic=orders\n"
            "own key=k\n"
            "own time=" TIME "\n");
}

Test(message, carries_bytes)
{
        static const enum message_format formats[] = {
            MESSAGE_NATIVE, MESSAGE_CLOUDEVENTS, MESSAGE_DEBEZIUM};
        struct event event = plain_event();
        struct outcome rejected;
        struct message message;

        event.is_json = false;
        event.payload = "\0\xff\x10\0";
        event.payload_bytes = 4;
        for (size_t i = 0; i < sizeof formats / sizeof formats[0]; i++) {
                const struct message_config config = config_of(formats[i]);
                struct message_maker *maker = message_maker_create(&config, &kafka);

                cr_assert(message_make(maker, &event, &message, &rejected));
                cr_expect_eq(message.body_bytes, 4);
                cr_expect_eq(memcmp(message.body, "\0\xff\x10\0", 4), 0);
                cr_expect_str_eq(message.content_type, "application/octet-stream");
                message_maker_destroy(maker);
        }
        expect(MESSAGE_CLOUDEVENTS_STRUCTURED, &rabbitmq, &event,
            STRUCTURED_TYPE "; key (none); {\"specversion\":\"1.0\",\"id\":\"" EVENT_ID
                            "\",\"source\":\"/shop\",\"type\":\"orders\",\"time\":\"" TIME
                            "\",\"datacontenttype\":\"application/octet-stream\","
                            "\"topic\":\"orders\",\"data_base64\":\"AP8QAA==\"}\n");
}

/* Even where this event does not have what is ours: a reader could not tell. */
Test(message, lets_no_header_take_the_place_of_ours)
{
        static const struct event_header headers[] = {{"ID", "x"}, {"Topic", "x"}, {"key", "x"},
            {"type", "x"}, {"TIME", "x"}, {"redriven", "x"}, {"Content-Type", "x"},
            {"x-event-topic", "x"}, {"X-Event-Key", "x"}, {"X-Event-Redriven", "x"}, {"ce_id", "x"},
            {"CE-Subject", "x"}, {"CloudEvents:subject", "x"}, {"specversion", "x"}};
        struct event event = plain_event();

        event.headers = headers;
        event.n_headers = sizeof headers / sizeof headers[0];
        expect(MESSAGE_NATIVE, &kafka, &event,
            "application/json; key (none); {\"n\": 1.0}\n"
            "own content-type=application/json\n"
            "own id=" EVENT_ID "\n"
            "own topic=orders\n"
            "own time=" TIME "\n"
            "event key=x\n"
            "event x-event-topic=x\n"
            "event X-Event-Key=x\n"
            "event X-Event-Redriven=x\n"
            "event ce_id=x\n"
            "event CE-Subject=x\n"
            "event CloudEvents:subject=x\n"
            "event specversion=x\n");
        expect(MESSAGE_NATIVE, &nats, &event,
            "application/json; key (none); {\"n\": 1.0}\n"
            "own Content-Type=application/json\n"
            "own x-event-topic=orders\n"
            "own x-event-time=" TIME "\n"
            "event ID=x\n"
            "event Topic=x\n"
            "event key=x\n"
            "event type=x\n"
            "event TIME=x\n"
            "event redriven=x\n"
            "event ce_id=x\n"
            "event CE-Subject=x\n"
            "event CloudEvents:subject=x\n"
            "event specversion=x\n");
        expect(MESSAGE_CLOUDEVENTS, &rabbitmq, &event,
            "application/json; key (none); {\"n\": 1.0}\n"
            "ce cloudEvents:specversion=1.0\n"
            "ce cloudEvents:id=" EVENT_ID "\n"
            "ce cloudEvents:source=/shop\n"
            "ce cloudEvents:type=orders\n"
            "ce cloudEvents:time=" TIME "\n"
            "ce cloudEvents:topic=orders\n"
            "ce cloudEvents:key=x\n"
            "event ID=x\n"
            "event Topic=x\n"
            "event type=x\n"
            "event TIME=x\n"
            "event redriven=x\n"
            "event Content-Type=x\n"
            "event X-Event-Key=x\n"
            "event X-Event-Redriven=x\n"
            "event ce_id=x\n"
            "event CE-Subject=x\n"
            "event specversion=x\n");
}

Test(message, drops_a_trace_that_is_not_valid)
{
        static const enum message_format formats[] = {
            MESSAGE_NATIVE, MESSAGE_CLOUDEVENTS, MESSAGE_CLOUDEVENTS_STRUCTURED, MESSAGE_DEBEZIUM};
        static const struct event_header headers[] = {
            {"Traceparent", "bad"}, {"tracestate", "worse"}, {"traceparent", "bad"}};
        struct event event = plain_event();

        event.headers = headers;
        event.n_headers = 3;
        for (size_t i = 0; i < sizeof formats / sizeof formats[0]; i++) {
                const struct message_config config = config_of(formats[i]);
                struct message_maker *maker = message_maker_create(&config, &kafka);
                struct outcome rejected;
                struct message message;
                struct bytes shown = {0};

                cr_assert(message_make(maker, &event, &message, &rejected));
                show(&shown, &message);
                cr_expect_null(strcasestr(shown.data, "trace"), "%s", shown.data);
                bytes_deinit(&shown);
                message_maker_destroy(maker);
        }
}

Test(message, spells_a_trace_as_its_standard_does)
{
        static const struct event_header headers[] = {
            {"TraceParent", PARENT}, {"TRACESTATE", "a=b"}};
        struct event event = plain_event();

        event.headers = headers;
        event.n_headers = 2;
        expect(MESSAGE_NATIVE, &rabbitmq, &event,
            "application/json; key (none); {\"n\": 1.0}\n"
            "own topic=orders\n"
            "own time=" TIME "\n" FULL_TRACE);
}

static void expect_rejected(enum message_format format, const struct message_style *style,
    const struct event *event, const char *reason)
{
        const struct message_config config = config_of(format);
        struct message_maker *maker = message_maker_create(&config, style);
        struct outcome rejected = outcome_delivered;
        struct message message = {.key = "untouched"};

        cr_assert_not(message_make(maker, event, &message, &rejected));
        cr_expect_str_eq(message.key, "untouched");
        cr_expect_eq(rejected.kind, OUTCOME_REJECTED);
        cr_expect_str_eq(rejected.reason, reason);
        message_maker_destroy(maker);
}

#define HOLDS " holds a line break or another control character, which CloudEvents forbid"
#define UNENCODED                                                                                  \
        " cannot be sent: it holds a line break or another control "                               \
        "character"

Test(message, rejects_control_characters_where_they_cannot_be)
{
        static const enum message_format cloudevents[] = {
            MESSAGE_CLOUDEVENTS, MESSAGE_CLOUDEVENTS_STRUCTURED};
        static const struct event_header header = {"tenant", "a\tb"};
        struct event event = plain_event();

        for (size_t i = 0; i < 2; i++) {
                event = plain_event();
                event.headers = &header;
                event.n_headers = 1;
                expect_rejected(cloudevents[i], &kafka, &event, "the event's header tenant" HOLDS);
                event.key = "a\n";
                expect_rejected(cloudevents[i], &rabbitmq, &event, "the event's key" HOLDS);
        }
        event = plain_event();
        event.topic = "a\rb";
        expect_rejected(
            MESSAGE_NATIVE, &nats, &event, "the value of header x-event-topic" UNENCODED);
        event.topic = "a";
        event.key = "a\nb";
        expect_rejected(MESSAGE_NATIVE, &nats, &event, "the value of header x-event-key" UNENCODED);
        event.key = NULL;
        event.type = "\x7f";
        expect_rejected(
            MESSAGE_NATIVE, &nats, &event, "the value of header x-event-type" UNENCODED);
}

/* Others see to their own: a header of RabbitMQ holds any text. */
Test(message, leaves_control_characters_to_the_sink_where_nothing_is_encoded)
{
        static const struct event_header header = {"tenant", "a\tb"};
        struct event event = plain_event();

        event.key = "a\nb";
        event.headers = &header;
        event.n_headers = 1;
        expect(MESSAGE_NATIVE, &rabbitmq, &event,
            "application/json; key a\nb; {\"n\": 1.0}\n"
            "own topic=orders\n"
            "own key=a\nb\n"
            "own time=" TIME "\n"
            "event tenant=a\tb\n");
}

/* Buffers move while they grow, so early headers must be right, too. */
Test(message, has_many_headers)
{
        enum { N = 2000 };
        static char names[N][8];
        static struct event_header headers[N];
        static const struct message_style *const styles[] = {&kafka, &nats, &rabbitmq};
        struct event event = plain_event();
        struct outcome rejected;
        struct message message;

        for (size_t i = 0; i < N; i++) {
                snprintf(names[i], sizeof names[i], "h%zu", i);
                headers[i] = (struct event_header){names[i], names[i]};
        }
        event.headers = headers;
        event.n_headers = N;
        for (int format = MESSAGE_NATIVE; format <= MESSAGE_DEBEZIUM; format++) {
                for (size_t s = 0; s < 3; s++) {
                        const struct message_config config = config_of(format);
                        struct message_maker *maker = message_maker_create(&config, styles[s]);
                        size_t n_ours;

                        cr_assert(message_make(maker, &event, &message, &rejected));
                        n_ours = message.n_headers - N;
                        for (size_t i = 0; i < N && format != MESSAGE_CLOUDEVENTS_STRUCTURED; i++) {
                                const struct message_header *header = &message.headers[n_ours + i];
                                const char *name = strrchr(header->name, 'h');

                                cr_assert_str_eq(name, names[i]);
                                cr_assert_str_eq(header->value, names[i]);
                        }
                        message_maker_destroy(maker);
                }
        }
}

/* What a maker makes that was not used before. */
static char *shown_by_fresh(const struct message_config *config, const struct message_style *style,
    const struct event *event)
{
        struct message_maker *maker = message_maker_create(config, style);
        struct outcome rejected;
        struct message message;
        struct bytes shown = {0};

        cr_assert(message_make(maker, event, &message, &rejected));
        show(&shown, &message);
        message_maker_destroy(maker);
        return shown.data;
}

Test(message, of_the_next_event_keeps_nothing)
{
        static const struct message_style *const styles[] = {&kafka, &nats, &rabbitmq};
        const struct event full = full_event();
        struct event bad = full_event();
        const struct event plain = plain_event();
        struct outcome rejected;
        struct message message;

        bad.type = "\n";
        for (int format = MESSAGE_NATIVE; format <= MESSAGE_DEBEZIUM; format++) {
                for (size_t s = 0; s < 3; s++) {
                        const struct message_config config = config_of(format);
                        char *of_full = shown_by_fresh(&config, styles[s], &full);
                        char *of_plain = shown_by_fresh(&config, styles[s], &plain);
                        struct message_maker *used = message_maker_create(&config, styles[s]);

                        expect_made(used, &full, of_full);
                        expect_made(used, &plain, of_plain);
                        (void)message_make(used, &bad, &message, &rejected);
                        expect_made(used, &plain, of_plain);
                        expect_made(used, &full, of_full);
                        message_maker_destroy(used);
                        free(of_full);
                        free(of_plain);
                }
        }
}

Test(message, does_not_keep_the_memory_of_a_large_event)
{
        static char payload[1 << 20];
        const struct message_config config = config_of(MESSAGE_CLOUDEVENTS_STRUCTURED);
        struct message_maker *maker = message_maker_create(&config, &kafka);
        struct event event = plain_event();
        struct outcome rejected;
        struct message message;

        memset(payload, ' ', sizeof payload);
        payload[0] = '1';
        event.payload = payload;
        event.payload_bytes = sizeof payload;
        cr_assert(message_make(maker, &event, &message, &rejected));
        cr_expect_gt(message.body_bytes, sizeof payload);
        event = plain_event();
        for (int i = 0; i < 3; i++)
                cr_assert(message_make(maker, &event, &message, &rejected));
        cr_expect_lt(malloc_usable_size((void *)(uintptr_t)message.body), sizeof payload / 8);
        message_maker_destroy(maker);
}

Test(message, points_into_the_event_where_it_can)
{
        const struct message_config config = config_of(MESSAGE_NATIVE);
        struct message_maker *maker = message_maker_create(&config, &kafka);
        const struct event event = full_event();
        struct outcome rejected;
        struct message message;

        cr_assert(message_make(maker, &event, &message, &rejected));
        cr_expect_eq(message.body, event.payload);
        cr_expect_eq(message.key, event.key);
        cr_expect_eq(message.headers[2].value, event.topic);
        cr_expect_eq(message.headers[6].value, event.headers[0].value);
        message_maker_destroy(maker);
}
